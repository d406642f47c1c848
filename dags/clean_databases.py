"""Airflow's database, cleaned once a week: DAG runs, task instances and their answers that are older than `keep_days`.

Results are not touched: they are files. In an Airflow that is somebody's own it cleans only the database whose
connection is in the file that BAROGRAPH_AIRFLOW_DATABASE names, if that is set, and of that only what belongs to
Barograph's DAGs.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from barograph.nights.suite import suite_names
from barograph.plan.experiment import names
from barograph.web import COMPARISON_DAG, NIGHT_DAGS, dag_id_of
from dags.wiring import DEFAULTS


def our_dags() -> list[str]:
    """The ids of all DAGs of this folder."""
    experiments = [dag_id_of(name) for name in names()]
    return [
        *experiments,
        *(NIGHT_DAGS + name for name in suite_names()),
        COMPARISON_DAG,
        "reaper",
        "clean_databases",
    ]


@dag(
    dag_id="clean_databases",
    description="Removes old DAG runs from Airflow's database",
    schedule="30 12 * * 0",  # by day: nights are measured at night
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"keep_days": Param(90, type="number", minimum=15, title="Days that are kept")},
    tags=["housekeeping"],
    is_paused_upon_creation=False,
    default_args=DEFAULTS,
    doc_md=__doc__,
)
def clean_databases() -> None:
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


clean_databases()
