"""The reaper as a DAG: every ten minutes, release what expired leases and dead runs have left.

A pass that could not end something fails, and every pass is noted in `reaper.json` (`barograph reap --status`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

from dags.wiring import DEFAULTS, REAPER_POOL


@dag(
    dag_id="reaper",
    description="Ends what expired leases and dead runs have left",
    schedule=timedelta(minutes=10),
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["housekeeping"],
    is_paused_upon_creation=False,
    default_args={**DEFAULTS, "pool": REAPER_POOL},
    doc_md=__doc__,
)
def reaper() -> None:
    # Each testbed has ten minutes of its own, side by side.
    @task(execution_timeout=timedelta(minutes=30))
    def reap(ti: Any = None) -> list[str]:
        from barograph.machines.reaper import beat_for_dags, reap

        assert ti is not None, "Airflow passes the task instance"
        beat_for_dags(lambda dag, run: ti.get_dr_count(dag, run_ids=[run] if run else None, states=["running"]) > 0)
        return list(reap(dry_run=False, by="dag"))

    reap()


reaper()
