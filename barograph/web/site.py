"""The routes of the site, and all that it asks of Airflow: the login, the right to read a DAG, the facts of a DAG run.

The contract with a DAG that makes a report: it begins with a task `open_…`, which answers with the folder of the
series that its run makes, or with the id of the night.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from datetime import datetime

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XCOM_RETURN_KEY, XComModel
from airflow.utils.state import TaskInstanceState
from fastapi import Depends, FastAPI, HTTPException, Request, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.exceptions import HTTPException as StarletteHTTPException

from barograph.series.results import results
from barograph.web import pages, result_files
from barograph.web.content_policy import HEADERS, policy_header, policy_header_of
from barograph.web.dag_run import DagRunFacts
from barograph.web.result_files import Freshness, dags_of
from barograph.web.run_page import Redirection, page_of_dag_run, result_folder

FORBIDDEN = "You are logged in, but may not read the runs of the DAG that this belongs to."


def may_read(user: BaseUser, dags: Collection[str]) -> bool:
    """Whether the user may read the runs of every one of these DAGs; of none: of DAGs at all."""
    manager = get_auth_manager()
    if not dags:
        return bool(manager.is_authorized_dag(method="GET", access_entity=DagAccessEntity.RUN, user=user))
    return bool(manager.batch_is_authorized_dag([_request(dag) for dag in sorted(dags)], user=user))


def require_right(user: BaseUser, dags: Collection[str]) -> None:
    if not may_read(user, dags):
        raise HTTPException(status.HTTP_403_FORBIDDEN, FORBIDDEN)


def _request(dag: str) -> IsAuthorizedDagRequest:
    details = DagDetails(id=dag, team_name=DagModel.get_team_name(dag))
    return {"method": "GET", "access_entity": DagAccessEntity.RUN, "details": details}


OPENING_TASK = "open_"
WATCHER = "watcher"  # fails because another task did


def dag_run_facts(session: Session, dag_id: str, run_id: str) -> DagRunFacts | None:
    """None where there is no such run."""
    of_run = select(DagRun.state, DagRun.start_date, DagRun.end_date)
    row = session.execute(of_run.where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).one_or_none()
    if row is None:
        return None
    opening = _opening_task(session, dag_id, run_id)
    state, task = opening if opening else (None, None)
    return DagRunFacts(
        dag_id, run_id, str(row[0]), _epoch_s(row[1]), _epoch_s(row[2]), task, None if state is None else str(state),
        None if task is None else _task_answer(session, dag_id, run_id, task), _failed_tasks(session, dag_id, run_id),
    )  # fmt: skip


def _opening_task(session: Session, dag_id: str, run_id: str) -> tuple[str | None, str] | None:
    """State and name of the task that opens what the run makes."""
    query = select(TaskInstance.state, TaskInstance.task_id).where(
        TaskInstance.dag_id == dag_id,
        TaskInstance.run_id == run_id,
        TaskInstance.task_id.startswith(OPENING_TASK, autoescape=True),
        ~TaskInstance.task_id.contains("."),  # of a group of tasks
    )
    row = session.execute(query.order_by(TaskInstance.task_id)).first()
    return None if row is None else (row[0], row[1])


def _failed_tasks(session: Session, dag_id: str, run_id: str) -> tuple[str, ...]:
    query = select(TaskInstance.task_id).where(
        TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state == TaskInstanceState.FAILED
    )
    names = {str(name) for name in session.execute(query).scalars()}
    return tuple(sorted(name for name in names if name.rpartition(".")[2] != WATCHER))


def _task_answer(session: Session, dag_id: str, run_id: str, task_id: str) -> str | None:
    query = XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=task_id, key=XCOM_RETURN_KEY, limit=1)
    result = session.execute(query).scalars().first()
    answer = None if result is None else XComModel.deserialize_value(result)
    return answer if isinstance(answer, str) else None


def _epoch_s(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


INDEX = "index.html"
TITLES = {401: "Log in first", 403: "Not yours to read", 404: "Not here", 422: "Not understood"}
# Airflow's own words for these say less.
TEXTS = {401: "Results are for those who have logged in to this Airflow.", 403: FORBIDDEN}


def build() -> FastAPI:
    # Without pages of its own: those would be open to everybody.
    app = FastAPI(title="Barograph", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(get_user)])
    freshness = Freshness()

    @app.get("/")
    def index(user: GetUserDep) -> Response:
        place = results()
        freshness.refresh(place, INDEX)
        if (place.root / INDEX).is_file() and may_read(user, dags_of(place.root, INDEX)):
            return RedirectResponse(pages.href(INDEX), 303)
        groups = pages.result_groups(place.root, lambda dag: may_read(user, {dag}))
        return HTMLResponse(pages.results_html(groups))

    @app.get("/files/{name:path}")
    def file(name: str, user: GetUserDep) -> Response:
        place = results()
        if result_files.is_name(name):
            require_right(user, dags_of(place.root, name))
            freshness.refresh(place, name)
        result = result_files.find_file(place.root, name)
        if result is None:
            raise HTTPException(404, "These results have no such page, drawing or table.")
        how = "attachment" if result.kind.saved else "inline"
        return FileResponse(
            result.file, media_type=result.kind.media_type, filename=result.file.name, content_disposition_type=how,
            headers={"Content-Security-Policy": policy_header_of(result.file)},
        )  # fmt: skip

    @app.get("/run", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
    def run(dag_id: str, run_id: str, user: GetUserDep, session: SessionDep) -> Response:
        facts = dag_run_facts(session, dag_id, run_id)
        if facts is None:
            raise HTTPException(404, f"Airflow knows no run {run_id} of the DAG {dag_id}.")
        place = results()
        if (name := result_folder(place.root, facts)) is not None:
            require_right(user, dags_of(place.root, f"{name}/any"))
            freshness.refresh(place, name)
        page = page_of_dag_run(place.root, facts)
        return (
            RedirectResponse(pages.href(page.name), 303)
            if isinstance(page, Redirection)
            else HTMLResponse(pages.run_html(page))
        )

    @app.get("/{rest:path}")
    def nothing(rest: str) -> Response:
        raise HTTPException(404, f"There is no page {rest}; the results are at the site's root.")

    app.middleware("http")(_add_headers)
    app.add_exception_handler(StarletteHTTPException, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    return app


async def _add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in {**HEADERS, "Content-Security-Policy": policy_header()}.items():
        response.headers.setdefault(name, value)
    return response


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return _error_page(request, error.status_code, str(error.detail))


async def _invalid_request(request: Request, _error: Exception) -> Response:
    return _error_page(request, 422, "Give dag_id and run_id, as the tab of a DAG run does.")


def _error_page(request: Request, status: int, text: str) -> Response:
    """A page for people, JSON for everybody else."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": text}, status)
    login = get_auth_manager().get_url_login(next_url=str(request.url)) if status == 401 else None
    return HTMLResponse(pages.message_html(TITLES.get(status, "Not possible"), TEXTS.get(status, text), login), status)
