"""The reaper, every ten minutes, and Airflow's database, cleaned once a week."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk import Param, dag, task

from barograph.nights.suite import suite_names
from barograph.plan.experiment import names
from barograph.web import COMPARISON_DAG, NIGHT_DAGS, dag_id_of
from dags.wiring import DEFAULTS, REAPER_POOL

housekeeping = partial(
    dag, start_date=datetime(2025, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1, tags=["housekeeping"],
    is_paused_upon_creation=False,
)  # fmt: skip


@housekeeping(
    dag_id="reaper",
    description="Ends what expired leases and dead runs have left",
    schedule=timedelta(minutes=10),
    default_args={**DEFAULTS, "pool": REAPER_POOL},
)
def reaper() -> None:
    """Release what expired leases and dead runs have left.

    A pass that could not end something fails, and every pass is noted in `reaper.json` (`barograph reap --status`).
    """

    # Each testbed has ten minutes of its own, side by side.
    @task(execution_timeout=timedelta(minutes=30))
    def reap(ti: Any = None) -> list[str]:
        from barograph.machines.reaper import beat_for_dags, reap

        assert ti is not None, "Airflow passes the task instance"
        beat_for_dags(lambda dag, run: ti.get_dr_count(dag, run_ids=[run] if run else None, states=["running"]) > 0)
        return list(reap(dry_run=False, by="dag"))

    reap()


def our_dags() -> list[str]:
    """Return the ids of all DAGs of this folder."""
    experiments, suites = map(dag_id_of, names()), (NIGHT_DAGS + name for name in suite_names())
    return [*experiments, *suites, COMPARISON_DAG, "reaper", "clean_databases"]


@housekeeping(
    dag_id="clean_databases",
    description="Removes old DAG runs from Airflow's database",
    schedule="30 12 * * 0",  # by day: nights are measured at night
    params={"keep_days": Param(90, type="number", minimum=15, title="Days that are kept")},
    default_args=DEFAULTS,
)
def clean_databases() -> None:
    """Remove DAG runs, task instances and their answers that are older than `keep_days`.

    Results are not touched: they are files. In an Airflow that is somebody's own it cleans only the database whose
    connection is in the file that BAROGRAPH_AIRFLOW_DATABASE names, if that is set, and of that only what belongs to
    Barograph's DAGs.
    """

    @task(execution_timeout=timedelta(hours=1))
    def clean(params: dict[str, Any] | None = None) -> str:
        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.airflow_environment import clean as clean_all
        from barograph.settings import airflow_home

        assert params is not None, "Airflow passes the trigger form's answers"
        cleaned = clean_all(airflow_home(), params["keep_days"], datetime.now(UTC), our_dags())
        if cleaned is None:
            raise AirflowSkipException("no database is named: see docs/operations.md")
        return cleaned

    clean()


reaper()
clean_databases()
