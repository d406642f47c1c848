"""Barograph's pages inside a real Airflow: who is let in, what is given out, and what a browser shows of it.

A series that was measured through the real DAG over the fake testbed, and one server of Airflow's pages for all tests.
"""

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from barograph.airflow_environment import environment
from barograph.child_processes import ChildProcess
from barograph.cli.ui import ENDING, ui_environment
from barograph.settings import ROOT
from barograph.web import RESULT_KEY
from tests.dags.fake_runs import Resumed, alone
from tests.support import programs
from tests.support.ports import free_port

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]  # a busy box is slow
DAG = "stela.star"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
USERS = {"owner": "admin", "reader": "viewer", "nobody": ""}  # without a role one may log in, and nothing else
HTML = {"Accept": "text/html"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Site:
    """Airflow's pages on loopback, and one finished series in its results."""

    port: int
    results: Path
    passwords: dict[str, str]
    log: Path
    tokens: dict[str, str]
    run_id: str = ""

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def series(self) -> str:
        """The name below the results of the one that was measured: the others are of years to come."""
        return min(self.results.glob("stela/star/*/series.json")).parent.relative_to(self.results).as_posix()

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, body: Any = None) -> Answer:
        """As the path is written: nothing is made tidy on the way, and no redirection is followed."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, user: str | None, **headers: str) -> Answer:
        """As a browser does in which the user has logged in."""
        cookie = {"Cookie": f"_token={self.tokens[user]}"} if user else {}
        return self.ask("GET", path, {**cookie, **headers})

    def of_run(self, run_id: str, dag: str = DAG) -> str:
        return f"/barograph/run?dag_id={dag}&run_id={quote(run_id, safe='')}"

    def api(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, path, {"Authorization": f"Bearer {self.tokens['owner']}"}, body)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.text[:500]}"
        return json.loads(answer.body or b"null")

    def trigger(self, dag: str = DAG) -> str:
        """A run that nobody works on: there is no scheduler."""
        return str(self.api("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None})["dag_run_id"])

    def opening(self, run_id: str) -> str:
        """The address of the run's first task."""
        return f"/api/v2/dags/{DAG}/dagRuns/{quote(run_id, safe='')}/taskInstances/open_series"

    def opened(self, run_id: str, folder: str) -> None:
        """As if the run's first task had answered so."""
        self.api("PATCH", self.opening(run_id), {"new_state": "success"})
        self.api("POST", f"{self.opening(run_id)}/xcomEntries", {"key": RESULT_KEY, "value": folder})


# The DAG run that has measured the series, as far as Airflow knows.
MEASURED = """
import sys
from pathlib import Path
from barograph.machines import provision
from dags.experiments import stela_star
opening.open_requested = lambda *_, **__: Path(sys.argv[1])
print("state:", stela_star.test().state)
"""


@pytest.fixture(scope="module")
def site(finished: Resumed) -> Iterator[Site]:
    assert finished.resumed.returncode == 0, finished.resumed.stdout + finished.resumed.stderr
    world, results = finished.world, Path(finished.world["BAROGRAPH_RESULTS"])
    home = Path(world["BAROGRAPH_HOME"]) / "airflow"
    passwords = {user: secrets.token_urlsafe(9) for user in USERS}
    (home / "passwords.json").write_text(json.dumps(passwords))
    port = free_port()
    found = Site(port, results, passwords, results.parent / "api.log", {})
    users = ",".join(f"{user}:{role}" for user, role in USERS.items())
    measured = subprocess.run(
        [sys.executable, "-c", MEASURED, str(finished.series)],
        cwd=ROOT, env={**environment(home, world), **alone(DAG)}, capture_output=True, text=True,
    )  # fmt: skip
    assert "state: success" in measured.stdout, measured.stdout[-3000:] + measured.stderr[-3000:]
    with _start(found, {**world, **ui_environment(home, port), **_only(world), USERS_SETTING: users}) as server:
        _await(found, server)
        found.tokens |= {user: _log_in(found, user) for user in USERS}
        ended = found.api("GET", f"/api/v2/dags/{DAG}/dagRuns?state=success")["dag_runs"]
        (found.run_id,) = [str(run["dag_run_id"]) for run in ended]
        yield found


USERS_SETTING = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"


def _only(world: Mapping[str, str]) -> dict[str, str]:
    """Ours before what this process has in its environment."""
    return {name: value for name, value in world.items() if name.startswith("BAROGRAPH_")}


def _start(site: Site, environment: dict[str, str]) -> ChildProcess:
    with site.log.open("wb") as log:
        argv = [sys.executable, "-m", "airflow", "api-server"]
        return ChildProcess(argv, folder=ROOT, output=log, environment=environment, ending=ENDING)


def _await(site: Site, server: ChildProcess) -> None:
    while True:
        assert server.exit_code() is None, site.log.read_text()[-3000:]
        try:
            if site.ask("GET", "/api/v2/monitor/health").status == 200:
                return
        except OSError:
            pass
        time.sleep(0.3)


def _log_in(site: Site, user: str) -> str:
    answer = site.ask("POST", "/auth/token", body={"username": user, "password": site.passwords[user]})
    assert answer.status == 201, answer.text
    return str(json.loads(answer.body)["access_token"])


def routes(site: Site) -> list[str]:
    report = f"/barograph/files/{site.series}/report.html"
    more = ["files/index.html", "files/none.html", "files/../../x", "docs", "redoc", "openapi.json", "anything/else"]
    return ["/barograph/", site.of_run(site.run_id), "/barograph/run", report, *(f"/barograph/{path}" for path in more)]


def test_without_a_login_no_route_answers(site: Site) -> None:
    for path in routes(site):
        refused = site.get(path, None)
        assert refused.status == 401 and b"stela" not in refused.body, path
        assert site.ask("GET", path, {"Cookie": "_token=x.y.z"}).status in (401, 403), path
    page = site.get("/barograph/", None, **HTML)
    assert page.status == 401 and "/auth/login?next=" in page.text, "people are told where to log in"


def test_a_reader_sees_the_report_of_a_run(site: Site) -> None:
    tab = site.get(site.of_run(site.run_id), "reader")
    assert (tab.status, tab.headers["Location"]) == (303, f"files/{site.series}/report.html")
    report = site.get(f"/barograph/{tab.headers['Location']}", "reader")
    assert report.status == 200 and report.body == (site.results / site.series / "report.html").read_bytes()
    assert report.headers["Content-Type"] == "text/html; charset=utf-8"
    bearer = {"Authorization": f"Bearer {site.tokens['reader']}"}
    assert site.ask("GET", f"/barograph/files/{site.series}/report.html", bearer).status == 200


def test_no_path_leads_out_of_the_results(site: Site) -> None:
    outside = site.results.parent / "secret.html"
    outside.write_text("secret")
    (site.results / site.series / "link.html").symlink_to(outside)
    up = ["../secret.html", "%2e%2e/secret.html", "..%2fsecret.html", "%2e%2e%2fsecret.html", "..%5csecret.html"]
    deep = [f"{site.series}/{'../' * 4}secret.html", f"{site.series}/{'%2e%2e%2f' * 4}secret.html"]
    others = [f"{site.series}/link.html", quote(str(outside), safe=""), f"{outside}", "%00.html", "airflow/airflow.db",
              f"{site.series}/machines.json", f"{site.series}/harness.log", ".harness-id"]  # fmt: skip
    for path in [*up, *deep, *others]:
        answer = site.get(f"/barograph/files/{path}", "owner")
        assert answer.status == 404 and b"secret" not in answer.body.replace(path.encode(), b""), path


def test_no_token_is_in_the_log(site: Site) -> None:
    log = site.log.read_text()
    assert "/barograph/run" in log, "requests are logged"
    for user in USERS:
        assert site.tokens[user] not in log and site.tokens[user].split(".")[2] not in log


@pytest.fixture(scope="module")
def logged_in(site: Site) -> Iterator[Any]:
    """A real browser in which the reader has logged in by the form."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(programs.chromium()), args=FLAGS)
        try:
            context = browser.new_context(viewport={"width": 1400, "height": 1000})
            context.set_default_timeout(300_000)  # a busy box is slow
            page = context.new_page()
            page.goto(f"{site.base}/")
            page.locator("input[name=username]").fill("reader")
            page.locator("input[name=password]").fill(site.passwords["reader"])
            page.locator("button[type=submit]").click()
            page.get_by_role("link", name="Barograph").wait_for()
            page.close()
            yield context
        finally:
            browser.close()


@pytest.fixture
def page(site: Site, logged_in: Any) -> Iterator[Any]:
    """A page of it; nothing beyond this box is asked for."""
    page = logged_in.new_page()
    beyond: list[str] = []
    page.on("request", lambda asked: beyond.append(asked.url) if _leaves(asked.url, site) else None)
    yield page
    page.close()
    assert beyond == []


def _leaves(url: str, site: Site) -> bool:
    return not url.startswith((site.base, "data:", "blob:", "about:"))


def look(page: Any, name: str) -> None:
    """A picture for people, where they asked for one."""
    if folder := os.environ.get("BAROGRAPH_PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_the_tab_of_a_dag_run_shows_its_report_and_points_answer(site: Site, page: Any) -> None:
    page.goto(f"{site.base}/dags/{DAG}/runs/{quote(site.run_id, safe='')}")
    page.get_by_title("Report", exact=True).click()  # a task is called report
    report = page.frame_locator("iframe[title=Report]")
    report.get_by_role("heading", level=1).wait_for()
    drawing = report.locator(".drawing svg", has=report.locator("xpath=../following-sibling::script[1]")).first
    drawing.scroll_into_view_if_needed()
    drawing.hover(position=drawing.evaluate(FIRST_POINT))
    tip = report.locator(".tip")
    tip.wait_for(state="visible")
    look(page, "tab")
    assert re.search(r"\d", tip.inner_text()), "a point tells its value"


FIRST_POINT = """svg => {
  const data = JSON.parse(svg.parentElement.nextElementSibling.textContent), trace = data.traces[0];
  const spot = new DOMPoint(trace.x[0], trace.y[0]).matrixTransform(svg.getScreenCTM());
  const box = svg.getBoundingClientRect();
  return {x: spot.x - box.x, y: spot.y - box.y};
}"""


def test_the_entry_of_the_navigation_opens_the_index_and_its_links(site: Site, page: Any) -> None:
    page.goto(f"{site.base}/")
    page.get_by_role("link", name="Barograph").click()
    index = page.frame_locator("iframe[title=Barograph]")
    index.get_by_role("heading", level=1).wait_for()
    look(page, "index")
    index.locator(f"a[href$='{site.series}/report.html']").first.click()
    index.locator("figure").first.wait_for(state="attached")
    assert "/plugin/barograph/barograph/files/" in page.url, "the address is that of the page that is shown"
    look(page, "report_from_index")


def test_a_smuggled_script_does_nothing(site: Site, page: Any) -> None:
    """The frame has Airflow's origin: a script there could act as the reader."""
    (site.results / site.series / "smuggled.html").write_text(
        "<h1 onclick='parent.smuggled = 1'>x</h1><script>parent.smuggled = 1</script>"
        "<img src=x onerror='parent.smuggled = 1'>"
    )
    page.goto(f"{site.base}/plugin/barograph/barograph/files/{site.series}/smuggled.html")
    heading = page.frame_locator("iframe[title=Barograph]").get_by_role("heading", level=1)
    heading.click()
    assert page.evaluate("window.smuggled") is None


def test_a_table_and_a_drawing_can_be_saved(site: Site, page: Any) -> None:
    page.goto(f"{site.base}/plugin/barograph/barograph/files/{site.series}/report.html")
    report = page.frame_locator("iframe[title=Barograph]")
    links = report.locator("a[download]")
    links.first.wait_for(state="attached")
    for kind in ("CSV", "SVG"):
        with page.expect_download() as saving:
            links.filter(has_text=kind).first.click()
        saved = Path(saving.value.path())
        assert saved.stat().st_size > 20 and saving.value.suggested_filename.lower().endswith(kind.lower())
