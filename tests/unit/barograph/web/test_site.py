"""Every route of the site: who is let in, and what is given out. Airflow's REST API is a stand-in here; the site inside
a real Airflow, and in a browser: tests/dags/test_reports_in_airflow.py.
"""

from collections.abc import Mapping
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from barograph.web import RESULT_KEY
from barograph.web.airflow_api import AirflowInScope
from barograph.web.site import build

SERIES = "stela/star/20261121-000000-abcdef01"
REPORT = f"/barograph/files/{SERIES}/report.html"
RUN = "manual__2026-11-21T00:00:00+00:00"
ROLES = {"owner": {"dags", "runs", "connections"}, "reader": {"dags", "runs"}, "nobody": set[str]()}
RUNS: dict[str, dict[str, Any]] = {
    "measured": {"state": "success", "folder": SERIES},
    "waiting": {"state": "queued", "folder": None},
    "failed": {"state": "failed", "folder": "stela/star/20261122-000000-abcdef01", "failed": ["deploy", "watcher"]},
    "elsewhere": {"state": "success", "folder": "/etc"},
}


def airflow(results: Path) -> FastAPI:
    """Airflow's API as far as the site asks it, and the site mounted on it as the plugin does."""
    app = FastAPI()

    def require(request: Request, right: str) -> None:
        cookie = SimpleCookie(request.headers.get("cookie", ""))
        role = cookie["_token"].value if "_token" in cookie else ""
        if role not in ROLES:
            raise HTTPException(401)
        if right not in ROLES[role]:
            raise HTTPException(403)

    def run_of(dag: str, run: str) -> dict[str, Any]:
        if ((dag, run) != ("reaper", "waiting") and dag != "stela.star") or run not in RUNS:
            raise HTTPException(404)
        return RUNS[run]

    @app.get("/api/v2/dags")
    def dags(request: Request) -> dict[str, Any]:
        require(request, "dags")
        return {"dags": []}

    @app.get("/api/v2/connections")
    def connections(request: Request) -> dict[str, Any]:
        require(request, "connections")
        return {"connections": []}

    @app.get("/api/v2/dags/{dag}")
    def details(dag: str, request: Request) -> dict[str, Any]:
        require(request, "dags")
        return {"tags": [{"name": "maintenance" if dag == "reaper" else "experiment"}]}

    @app.get("/api/v2/dags/{dag}/dagRuns")
    def runs(dag: str, request: Request) -> dict[str, Any]:
        require(request, "runs")
        if dag not in ("~", "stela.star", "reaper"):
            raise HTTPException(404)
        return {"dag_runs": []}

    path = "/api/v2/dags/{dag}/dagRuns/{run}"

    @app.get(path)
    def one_run(dag: str, run: str, request: Request) -> dict[str, Any]:
        require(request, "runs")
        return {"state": run_of(dag, run)["state"], "start_date": None, "end_date": None}

    @app.get(f"{path}/taskInstances")
    def tasks(dag: str, run: str, request: Request) -> dict[str, Any]:
        require(request, "runs")
        return {"task_instances": [{"task_id": name} for name in run_of(dag, run).get("failed", ())]}

    @app.get(f"{path}/taskInstances/~/xcomEntries")
    def entries(dag: str, run: str, request: Request) -> dict[str, Any]:
        require(request, "runs")
        return {"xcom_entries": [{"task_id": "open_series"}] if run_of(dag, run)["folder"] else []}

    @app.get(f"{path}/taskInstances/open_series/xcomEntries/{RESULT_KEY}")
    def entry(dag: str, run: str, request: Request) -> dict[str, Any]:
        require(request, "runs")
        return {"value": str(results / run_of(dag, run)["folder"])}

    app.mount("/barograph", build())
    app.add_middleware(AirflowInScope)
    return app


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    for series in (SERIES, str(RUNS["failed"]["folder"])):
        (folder / series).mkdir(parents=True)
        (folder / series / "series.json").write_text("{}")
    (folder / SERIES / "report.html").write_text("<!DOCTYPE html><title>Report</title>")
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(folder))
    return folder


@pytest.fixture
def client(results: Path) -> TestClient:
    return TestClient(airflow(results), follow_redirects=False)


def get(client: TestClient, path: str, user: str | None, headers: Mapping[str, str] | None = None) -> Any:
    cookie = {"Cookie": f"_token={user}"} if user else {}
    return client.get(path, headers={**cookie, **(headers or {})})


def of_run(run: str, dag: str = "stela.star") -> str:
    return f"/barograph/run?dag_id={dag}&run_id={quote(run, safe='')}"


OTHERS = ("files/index.html", "files/none.html", "docs", "redoc", "openapi.json", "any/else")
ROUTES = ["/barograph/", of_run("measured"), "/barograph/run", REPORT, *(f"/barograph/{path}" for path in OTHERS)]


@pytest.mark.parametrize("path", ROUTES)
def test_without_a_login_no_route_answers_and_everything_is_sent_with_protection(client: TestClient, path: str) -> None:
    for user in (None, "x.y.z"):
        refused = get(client, path, user)
        assert refused.status_code == 401 and b"stela" not in refused.content
    for user in ("reader", None):
        headers = get(client, path, user).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff" and "no-store" in headers["Cache-Control"]


def test_people_are_told_where_to_log_in(client: TestClient) -> None:
    page = get(client, "/barograph/", None, {"Accept": "text/html"})
    assert page.status_code == 401 and "/auth/login?next=" in page.text


def test_without_a_right_to_the_dag_there_is_nothing_to_read(client: TestClient) -> None:
    for path in (of_run("measured"), REPORT, "/barograph/files/index.html"):
        assert get(client, path, "nobody").status_code == 403, path
    page = get(client, "/barograph/", "nobody", {"Accept": "text/html"})
    assert page.status_code == 403 and b"stela" not in page.content


def test_results_of_a_dag_that_is_gone_are_for_those_who_run_airflow(client: TestClient, results: Path) -> None:
    gone = results / "stela" / "removed" / "20250101-000000-a1b2c3d4"
    gone.mkdir(parents=True)
    (gone / "series.json").write_text("{}")
    (gone / "report.html").write_text("<!DOCTYPE html>")
    path = f"/barograph/files/{gone.relative_to(results)}/report.html"
    assert [get(client, path, user).status_code for user in ("owner", "reader", "nobody")] == [200, 403, 403]


def test_a_reader_sees_the_report_of_a_run(client: TestClient, results: Path) -> None:
    tab = get(client, of_run("measured"), "reader")
    assert (tab.status_code, tab.headers["Location"]) == (303, f"files/{SERIES}/report.html")
    report = get(client, REPORT, "reader")
    assert report.status_code == 200 and report.content == (results / SERIES / "report.html").read_bytes()
    assert report.headers["Content-Type"] == "text/html; charset=utf-8"


def test_no_path_leads_out_of_the_results(client: TestClient, results: Path) -> None:
    outside = results.parent / "secret.html"
    outside.write_text("secret")
    (results / SERIES / "link.html").symlink_to(outside)
    up = ["%2e%2e/secret.html", "..%2fsecret.html", "%2e%2e%2fsecret.html", "%2e%2e%5csecret.html"]
    others = [f"{SERIES}/link.html", quote(str(outside), safe=""), "%00.html", f"{SERIES}/machines.json", ".harness-id"]
    for path in [*up, f"{SERIES}/{'%2e%2e%2f' * 4}secret.html", *others]:
        answer = get(client, f"/barograph/files/{path}", "owner")
        assert answer.status_code == 404 and answer.content != b"secret", path


def test_runs_without_a_report_say_why(client: TestClient) -> None:
    waiting, failed = (get(client, of_run(run), "reader") for run in ("waiting", "failed"))
    assert (waiting.status_code, failed.status_code) == (200, 200)
    assert 'http-equiv="refresh"' in waiting.text and "refresh" not in failed.text
    assert "deploy" in failed.text and "watcher" not in failed.text
    assert get(client, of_run("elsewhere"), "owner").status_code == 200, "it is not followed"
    assert get(client, of_run("waiting", "reaper"), "reader").status_code == 200
    assert get(client, of_run("unknown"), "reader").status_code == 404
    assert get(client, "/barograph/run", "reader").status_code == 422
