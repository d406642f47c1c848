"""Who may read: Airflow's own answer, for the runs of the DAGs that have left something."""

from __future__ import annotations

from collections.abc import Collection

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel
from fastapi import HTTPException, status

REFUSED = "You are logged in, but may not read the runs of the DAG that this belongs to."


def may_read(user: BaseUser, dags: Collection[str]) -> bool:
    """Whether the user may read the runs of every one of these DAGs; of none: of DAGs at all."""
    manager = get_auth_manager()
    if not dags:
        return bool(manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.RUN, user=user))
    return bool(manager.batch_is_authorized_dag([_request(dag) for dag in sorted(dags)], user=user))


def require(user: BaseUser, dags: Collection[str]) -> None:
    if not may_read(user, dags):
        raise HTTPException(status.HTTP_403_FORBIDDEN, REFUSED)


def _request(dag: str) -> IsAuthorizedDagRequest:
    details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
    return {"method": "GET", "access_entity": DagAccessEntity.RUN, "details": details}
