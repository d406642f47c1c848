"""The routes. Each asks for Airflow's login, and for the right to read the DAG that a page is about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from dags.plugin import list_page, pages, rights, shelf
from dags.plugin.freshness import Freshness
from dags.plugin.made import made_by
from dags.plugin.ownership import dags_of
from dags.plugin.protection import HEADERS, policy, policy_of
from dags.plugin.run_answer import answer, subject
from dags.plugin.run_page import Go
from dags.results import results

INDEX = "index.html"
TITLES = {401: "Log in first", 403: "Not yours to read", 404: "Not here", 422: "Not understood"}
# Airflow's own words for these say less.
TEXTS = {401: "Results are for those who have logged in to this Airflow.", 403: rights.REFUSED}


def build() -> FastAPI:
    # Without pages of its own: those would be open to everybody.
    app = FastAPI(title="Barograph", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(get_user)])
    fresh = Freshness()

    @app.get("/")
    def index(user: GetUserDep) -> Response:
        place = results()
        fresh.bring(place, INDEX)
        if (place.root / INDEX).is_file() and rights.may_read(user, dags_of(place.root, INDEX)):
            return RedirectResponse(pages.href(INDEX), 303)
        shown = list_page.groups(place.root, lambda dag: rights.may_read(user, {dag}))
        return HTMLResponse(pages.results(shown))

    @app.get("/files/{name:path}")
    def file(name: str, user: GetUserDep) -> Response:
        place = results()
        if shelf.is_name(name):
            rights.require(user, dags_of(place.root, name))
            fresh.bring(place, name)
        found = shelf.find(place.root, name)
        if found is None:
            raise HTTPException(404, "These results have no such page, drawing or table.")
        how = "attachment" if found.kind.saved else "inline"
        return FileResponse(
            found.file, media_type=found.kind.media_type, filename=found.file.name, content_disposition_type=how,
            headers={"Content-Security-Policy": policy_of(found.file)},
        )  # fmt: skip

    @app.get("/run", dependencies=[Depends(requires_access_dag("GET", DagAccessEntity.RUN))])
    def run(dag_id: str, run_id: str, user: GetUserDep, session: SessionDep) -> Response:
        made = made_by(session, dag_id, run_id)
        if made is None:
            raise HTTPException(404, f"Airflow knows no run {run_id} of the DAG {dag_id}.")
        place = results()
        if (name := subject(place.root, made)) is not None:
            rights.require(user, dags_of(place.root, f"{name}/any"))
            fresh.bring(place, name)
        page = answer(place.root, made)
        return RedirectResponse(pages.href(page.name), 303) if isinstance(page, Go) else HTMLResponse(pages.run(page))

    @app.get("/{rest:path}")
    def nothing(rest: str) -> Response:
        raise HTTPException(404, f"There is no page {rest}; the results are at the site's root.")

    app.middleware("http")(_protected)
    app.add_exception_handler(StarletteHTTPException, _refusal)
    app.add_exception_handler(RequestValidationError, _not_understood)
    return app


async def _protected(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in {**HEADERS, "Content-Security-Policy": policy()}.items():
        response.headers.setdefault(name, value)
    return response


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return _told(request, error.status_code, str(error.detail))


async def _not_understood(request: Request, _error: Exception) -> Response:
    return _told(request, 422, "Give dag_id and run_id, as the tab of a DAG run does.")


def _told(request: Request, status: int, text: str) -> Response:
    """A page for people, JSON for everybody else."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": text}, status)
    login = get_auth_manager().get_url_login(next_url=str(request.url)) if status == 401 else None
    return HTMLResponse(pages.message(TITLES.get(status, "Not possible"), TEXTS.get(status, text), login), status)
