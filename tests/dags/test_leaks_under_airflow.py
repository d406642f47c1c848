"""What people and crashes do to a DAG run must not leave machines: the real scheduler over `fake`, and over `ec2`.

The machines of the fake testbed are files in the state folder, so what is held outlives every process. Those of `ec2`
are instances of moto's server that nobody boots: what leaks is on the account.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barograph.airflow_environment import CONNECTION, SCHEDULER_DATABASE
from barograph.child_processes import ChildProcess
from barograph.cli.ui import ENDING
from barograph.settings import ROOT
from tests.support.cloud import unmanned
from tests.support.cloud.cloud import Cloud
from tests.support.cloud.leaks import NO_WAY
from tests.support.postgres import Postgres

pytestmark = pytest.mark.timeout(1800)  # an Airflow with all its parts, on a busy box
DAG = "stela.star"
RUN = {
    "repetitions": 1, "variants": ["stela"], "series": "new",
    "warm_up_floor_s": 300, "warm_up_ceiling_s": 400, "after_floor_s": 50, "horizon_s": 90,
}  # fmt: skip
REAP = """
import sys, time
from barograph.machines.reaper import sweep
rows = sweep(dry_run=False, by="dag", now_s=time.time() + float(sys.argv[1]))
assert not any(row.error for row in rows), rows
"""
HOUR = 3600.0


@dataclass(frozen=True)
class Site:
    """Where the machines come from; `cloud` is there for `ec2`."""

    testbed: str
    cloud: Cloud | None = None

    def environment(self) -> dict[str, str]:
        return self.cloud.environment() if self.cloud else {}

    def conf(self) -> dict[str, Any]:
        """The trigger form's answers."""
        options = {"options": self.cloud.options(**NO_WAY)} if self.cloud else {}
        return {**RUN, "testbed": self.testbed, **options}

    def machines(self, state: Path) -> list[str]:
        return self.cloud.rented() if self.cloud else sorted(path.name for path in state.glob("fake/*/*"))

    def left(self, state: Path) -> list[str]:
        """Machines, and all else that a lease has on the testbed: disks, key pairs, groups, spot requests."""
        if self.cloud is None:
            return self.machines(state)
        return [f"{kind} {id_}" for kind, ids in vars(self.cloud.left()).items() for id_ in ids]


@dataclass
class Airflow:
    """`barograph ui`, which we started, and its REST interface."""

    process: ChildProcess
    port: int
    env: dict[str, str]
    home: Path
    site: Site
    token: str = ""

    @property
    def under(self) -> Path:
        """The state folder."""
        return Path(self.env["BAROGRAPH_STATE"])

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from error

    def log_in(self) -> None:
        (user, password), *_ = json.loads((self.home / "airflow" / "passwords.json").read_text()).items()
        self.token = self.ask("POST", "/auth/token", {"username": user, "password": password})["access_token"]

    def trigger(self) -> str:
        self.ask("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": False})
        found = self.ask("POST", f"/api/v2/dags/{DAG}/dagRuns", {"logical_date": None, "conf": self.site.conf()})
        return str(found["dag_run_id"])

    def state(self, run: str) -> str:
        return str(self.ask("GET", f"/api/v2/dags/{DAG}/dagRuns/{run}")["state"])

    def mark(self, run: str, state: str, task: str | None = None, index: int | None = None) -> None:
        """As a person does in the grid view; without a task: the whole run."""
        path = f"/api/v2/dags/{DAG}/dagRuns/{run}"
        if task is None:
            self.ask("PATCH", path, {"state": state})
            return
        mapped = "" if index is None else f"/{index}"
        self.ask("PATCH", f"{path}/taskInstances/{task}{mapped}", {"new_state": state})

    def clear(self, run: str, task: str) -> None:
        body = {"dry_run": False, "dag_run_id": run, "task_ids": [task], "include_downstream": True,
                "only_failed": False, "reset_dag_runs": True}  # fmt: skip
        self.ask("POST", f"/api/v2/dags/{DAG}/clearTaskInstances", body)

    def machines(self) -> list[str]:
        return self.site.machines(self.under)

    def leases(self) -> list[str]:
        return [path.stem for path in self.under.glob("leases/*.json")]

    def series(self) -> Path:
        return max(Path(self.env["BAROGRAPH_RESULTS"]).glob("stela/star/*"), key=lambda path: path.stat().st_mtime)

    def reap(self, later_s: float = 0.0) -> None:
        """The reaper's next pass, `later_s` from now."""
        subprocess.run([sys.executable, "-c", REAP, str(later_s)], cwd=ROOT, env=self.env, check=True)

    def await_measuring(self, run: str) -> None:
        """Until the series of the run has machines and watches its topology."""

        def measures() -> bool:
            assert self.state(run) != "failed", f"{run} failed; see its tasks' logs in {self.home}"
            return bool(self.leases()) and self._phase() == "warm_up"

        until(measures, self.process, f"{run} measures")
        assert "master" in self.machines()

    def _phase(self) -> str:
        """The newest series' phase."""
        file = self.series() / "progress.jsonl"
        told = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return next((line["phase"] for line in reversed(told) if line["kind"] == "phase"), "")


def until(question: Callable[[], bool], process: ChildProcess, what: str, limit_s: float = 600.0) -> None:
    deadline = time.monotonic() + limit_s
    while not question():
        assert process.exit_code() is None, f"Airflow ended with {process.exit_code()} while waiting until {what}"
        assert time.monotonic() < deadline, f"waited {limit_s:g} s until {what}"
        time.sleep(0.5)


# Airflow does the same to a lease of either; tests/support/cloud/test_leaks.py has what a dead harness leaves there.
@pytest.fixture(scope="module", params=["fake", pytest.param("ec2", marks=pytest.mark.long)])
def site(request: pytest.FixtureRequest) -> Site:
    if request.param == "fake":
        return Site("fake")
    cloud: Cloud = request.getfixturevalue("control_plane")
    return Site("ec2", cloud.anew())


@pytest.fixture(scope="module")
def home(prepared: Path, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp(site.testbed) / "barograph")
    unmanned.settings(folder / "airflow")
    return folder


@pytest.fixture(scope="module")
def airflow(home: Path, site: Site, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """One for all tests on a testbed, with a database of its own: the last test kills it and leaves a run there."""
    tmp_path = tmp_path_factory.mktemp(site.testbed)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    env = {
        **os.environ,
        **site.environment(),
        "BAROGRAPH_HOME": str(home),
        "BAROGRAPH_STATE": str(tmp_path / "state"),
        "BAROGRAPH_RESULTS": str(tmp_path / "results"),
        "BAROGRAPH_FAKE_PACE": "0.5",
        CONNECTION: postgres.create(f"leaks_{site.testbed}"),
        "AIRFLOW__API__WORKERS": "1",
    }
    (tmp_path / "results").mkdir()
    with (tmp_path / "ui.log").open("wb") as log:
        argv = [sys.executable, "-m", "barograph", "ui", "--port", str(port)]
        process = ChildProcess(argv, folder=ROOT, output=log, environment=env)
    found = Airflow(process, port, env, home, site)
    try:
        until(lambda: b"ready;" in (tmp_path / "ui.log").read_bytes(), process, "it is ready", 900)
        found.log_in()
        until(lambda: _known(found), process, "the DAG is known", 900)
        yield found
    finally:
        started = _descendants(process.pid)
        process.end_group(ENDING)
        for pid in started:  # what a killed one's children may still be
            _kill(pid)


def _known(airflow: Airflow) -> bool:
    try:
        airflow.ask("GET", f"/api/v2/dags/{DAG}")
    except AssertionError:
        return False
    return True


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found, todo = [], [pid]
    while todo:
        todo = [child for child, parent in parents.items() if parent in todo]
        found += todo
    return found


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def nothing_is_left(airflow: Airflow) -> None:
    """After the next pass of the reaper that is due once the lease is over."""
    airflow.reap(3 * HOUR)
    assert (airflow.site.left(airflow.under), airflow.leases()) == ([], [])


def test_the_scheduler_has_the_database_that_was_named(airflow: Airflow) -> None:
    with closing(sqlite3.connect(airflow.home / "airflow" / SCHEDULER_DATABASE)) as file:
        assert file.execute("select count(*) from dag").fetchone() == (0,)


def test_edited_states_and_cleared_tasks_do_not_leak(airflow: Airflow) -> None:
    run = airflow.trigger()
    airflow.await_measuring(run)
    airflow.mark(run, "failed", "provision")
    airflow.mark(run, "failed")
    nothing_is_left(airflow)

    run = airflow.trigger()
    airflow.await_measuring(run)
    airflow.mark(run, "failed", "provision")
    airflow.mark(run, "success", "provision")
    airflow.mark(run, "success", "run_next", 0)
    until(lambda: airflow.state(run) in ("success", "failed"), airflow.process, "the run is over")
    nothing_is_left(airflow)

    run = airflow.trigger()
    airflow.await_measuring(run)
    before, everyone = airflow.leases(), airflow.machines()
    airflow.clear(run, "provision")
    until(
        lambda: airflow.leases() not in ([], before) and airflow.machines() == everyone,
        airflow.process,
        "it is provisioned anew",
    )
    assert len(airflow.leases()) == 1, "what the first try took went before the second took its own"
    airflow.mark(run, "failed")
    nothing_is_left(airflow)


def test_a_killed_scheduler_and_a_lost_results_folder_do_not_leak(airflow: Airflow) -> None:
    run = airflow.trigger()
    airflow.await_measuring(run)
    shutil.rmtree(airflow.env["BAROGRAPH_RESULTS"])
    (lease,) = airflow.leases()
    airflow.reap()
    assert airflow.leases() == [lease] and airflow.machines() != [], "its holder lives and its end has not come"
    (scheduler, *_) = [pid for pid in _descendants(airflow.process.pid) if " scheduler" in _command(pid)]
    everybody = _descendants(airflow.process.pid)
    os.kill(scheduler, signal.SIGKILL)
    os.kill(airflow.process.pid, signal.SIGKILL)
    airflow.process.wait()
    for pid in everybody:
        _kill(pid)
    airflow.reap()
    assert (airflow.site.left(airflow.under), airflow.leases()) == ([], []), (
        "the holder is dead: the next pass ends everything"
    )
