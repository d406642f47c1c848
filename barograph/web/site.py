"""The routes of the site. DAGs, their runs and rights come from Airflow's REST API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as StarletteHTTPException

from barograph.series.results import results
from barograph.web import pages, result_files
from barograph.web.airflow_api import FORBIDDEN, AirflowReader
from barograph.web.result_files import HEADERS, Freshness, dags_of, policy_header, policy_header_of
from barograph.web.run_page import Redirection, page_of_dag_run, result_folder

INDEX = "index.html"
TITLES = {401: "Log in first", 403: "Not yours to read", 404: "Not here", 422: "Not understood"}
# More informative than Airflow's own texts.
TEXTS = {401: "Results are for those who have logged in to this Airflow.", 403: FORBIDDEN}
LOGIN = "api/v2/auth/login"


def logged_in(request: Request) -> AirflowReader:
    """Return the reader. Raises HTTPException 401."""
    reader = AirflowReader(request)
    reader.require_login()
    return reader


LoggedIn = Annotated[AirflowReader, Depends(logged_in)]


def build() -> FastAPI:
    # Without documentation pages: those would be open to everybody.
    app = FastAPI(title="Barograph", docs_url=None, redoc_url=None, openapi_url=None)
    freshness = Freshness()

    @app.get("/")
    def index(reader: LoggedIn) -> Response:
        place = results()
        freshness.refresh(place, INDEX)
        if (place.root / INDEX).is_file() and reader.may_read(dags_of(place.root, INDEX)):
            return RedirectResponse(pages.href(INDEX), 303)
        groups = pages.result_groups(place.root, lambda dag: reader.may_read({dag}))
        return HTMLResponse(pages.results_html(groups))

    @app.get("/files/{name:path}")
    def file(name: str, reader: LoggedIn) -> Response:
        place = results()
        if result_files.is_name(name):
            reader.require_right(dags_of(place.root, name))
            freshness.refresh(place, name)
        result = result_files.find_file(place.root, name)
        if result is None:
            raise HTTPException(404, "These results have no such page, drawing or table.")
        mode = "attachment" if result.kind.saved else "inline"
        return FileResponse(
            result.file, media_type=result.kind.media_type, filename=result.file.name, content_disposition_type=mode,
            headers={"Content-Security-Policy": policy_header_of(result.file)},
        )  # fmt: skip

    @app.get("/run")
    def run(dag_id: str, run_id: str, reader: LoggedIn) -> Response:
        reader.require_right({dag_id})
        facts = reader.dag_run(dag_id, run_id)
        if facts is None:
            raise HTTPException(404, f"Airflow knows no run {run_id} of the DAG {dag_id}.")
        place = results()
        if (name := result_folder(place.root, facts)) is not None:
            reader.require_right(dags_of(place.root, f"{name}/any"))
            freshness.refresh(place, name)
        page = page_of_dag_run(place.root, facts)
        return (
            RedirectResponse(pages.href(page.name), 303)
            if isinstance(page, Redirection)
            else HTMLResponse(pages.run_html(page))
        )

    @app.get("/{rest:path}")
    def nothing(rest: str, reader: LoggedIn) -> Response:  # noqa: ARG001 - only for logged-in readers
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
    """Return a page for people, JSON for others."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": text}, status)
    above = str(request.base_url).rstrip("/").rpartition("/")[0]  # the site is mounted beside Airflow's own login
    login = f"{above}/{LOGIN}?{urlencode({'next': str(request.url)})}" if status == 401 else None
    return HTMLResponse(pages.message_html(TITLES.get(status, "Not possible"), TEXTS.get(status, text), login), status)
