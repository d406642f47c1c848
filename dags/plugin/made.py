"""What Airflow knows of a DAG run: how it stands, and what its first task answered with.

The contract: a DAG that makes a report begins with a task `open_…`, which answers with the folder of the series that
its run makes, or with the id of the night.
"""

from __future__ import annotations

from datetime import datetime

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XCOM_RETURN_KEY, XComModel
from airflow.utils.state import TaskInstanceState
from sqlalchemy import select
from sqlalchemy.orm import Session

from dags.plugin.seen import Made

OPENING = "open_"
WATCHER = "watcher"  # fails because another task did


def made_by(session: Session, dag_id: str, run_id: str) -> Made | None:
    """None where there is no such run."""
    of_run = select(DagRun.state, DagRun.start_date, DagRun.end_date)
    row = session.execute(of_run.where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).one_or_none()
    if row is None:
        return None
    opening = _opening(session, dag_id, run_id)
    state, task = opening if opening else (None, None)
    return Made(
        dag_id, run_id, str(row[0]), _seconds(row[1]), _seconds(row[2]), task, None if state is None else str(state),
        None if task is None else _answer(session, dag_id, run_id, task), _failed(session, dag_id, run_id),
    )  # fmt: skip


def _opening(session: Session, dag_id: str, run_id: str) -> tuple[str | None, str] | None:
    """State and name of the task that opens what the run makes."""
    query = select(TaskInstance.state, TaskInstance.task_id).where(
        TaskInstance.dag_id == dag_id,
        TaskInstance.run_id == run_id,
        TaskInstance.task_id.startswith(OPENING, autoescape=True),
        ~TaskInstance.task_id.contains("."),  # of a group of tasks
    )
    row = session.execute(query.order_by(TaskInstance.task_id)).first()
    return None if row is None else (row[0], row[1])


def _failed(session: Session, dag_id: str, run_id: str) -> tuple[str, ...]:
    query = select(TaskInstance.task_id).where(
        TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state == TaskInstanceState.FAILED
    )
    names = {str(name) for name in session.execute(query).scalars()}
    return tuple(sorted(name for name in names if name.rpartition(".")[2] != WATCHER))


def _answer(session: Session, dag_id: str, run_id: str, task_id: str) -> str | None:
    query = XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=task_id, key=XCOM_RETURN_KEY, limit=1)
    found = session.execute(query).scalars().first()
    answer = None if found is None else XComModel.deserialize_value(found)
    return answer if isinstance(answer, str) else None


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
