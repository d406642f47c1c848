"""Airflow's databases, cleaned once a week: DAG runs, task instances and their answers that are older than `keep_days`.

Results are not touched: they are files. In an Airflow that is somebody's own it cleans only the database that
BAROGRAPH_AIRFLOW_DATABASE names, if that is set.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from dags.wiring import DEFAULTS, OF_RELEASE


@dag(
    dag_id="clean_databases",
    description="Removes old DAG runs from Airflow's databases",
    schedule="30 12 * * 0",  # by day: nights are measured at night
    start_date=datetime(2025, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"keep_days": Param(90, type="number", minimum=15, title="Days that are kept")},
    tags=["housekeeping"],
    is_paused_upon_creation=False,
    default_args={**DEFAULTS, **OF_RELEASE, "retries": 1},
    doc_md=__doc__,
)
def clean_databases() -> None:
    @task(execution_timeout=timedelta(hours=1))
    def clean(params: dict[str, Any] | None = None) -> list[str]:
        from airflow.sdk.exceptions import AirflowSkipException

        from barograph.airflow_environment import clean as clean_all
        from barograph.settings import airflow_home

        assert params is not None, "Airflow passes the trigger form's answers"
        cleaned = clean_all(airflow_home(), params["keep_days"], datetime.now(UTC))
        if not cleaned:
            raise AirflowSkipException("no database is named: see docs/own_airflow.md")
        return list(cleaned)

    clean()


clean_databases()
