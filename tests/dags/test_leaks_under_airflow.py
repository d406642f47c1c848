"""What people and crashes do to a DAG run must not leave machines: the real scheduler over `fake`, and over `ec2`.

The machines of the fake testbed are files in the state folder, so what is held outlives every process. Those of `ec2`
are instances of moto's server that nobody boots: what leaks is on the account.
"""

import os
import shutil
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from barograph.airflow_environment import CONNECTION, SCHEDULER_DATABASE
from barograph.child_processes import ChildProcess, descendants
from barograph.cli.ui import ENDING
from barograph.settings import ROOT
from inventory.leases.holder import process_start
from tests.dags import no_analysis
from tests.dags.running_airflow import HOUR, OTHER, PACE, SHORT, Airflow, Site, is_known, started_s, until
from tests.support.cloud import unmanned
from tests.support.cloud.cloud import Cloud
from tests.support.ports import free_port
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]  # an Airflow with all its parts, on a busy box


# Airflow does the same to a lease of either; unit/inventory/ec2/test_interrupted.py: what a dead one leaves.
@pytest.fixture(scope="module", params=["fake", "ec2"])
def site(request: pytest.FixtureRequest) -> Site:
    if request.param == "fake":
        return Site("fake")
    cloud: Cloud = request.getfixturevalue("control_plane")
    return Site("ec2", cloud.anew())


@pytest.fixture(scope="module")
def home(prepared: Path, site: Site, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(prepared, tmp_path_factory.mktemp(site.testbed) / "barograph")
    unmanned.settings(folder / "airflow")
    no_analysis.settings(folder / "airflow")  # an analysis of a run that was cut short takes long
    return folder


@pytest.fixture(scope="module")
def airflow(home: Path, site: Site, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """One for all tests on a testbed, with a database of its own: the last test kills it and leaves a run there."""
    tmp_path = tmp_path_factory.mktemp(site.testbed)
    port = free_port()
    env = {
        **os.environ,
        **site.environment(),
        "BAROGRAPH_HOME": str(home),
        "BAROGRAPH_STATE": str(tmp_path / "state"),
        "BAROGRAPH_RESULTS": str(tmp_path / "results"),
        "BAROGRAPH_PACE": str(PACE),
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
        until(lambda: is_known(found), process, "the DAG is known", 900)
        yield found
    finally:
        started = descendants(process.pid)
        process.end_group(ENDING)
        for pid in started:  # what a killed one's children may still be
            _kill(pid)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def await_ends(pids: list[int], limit_s: float = 120.0) -> None:
    """They end by themselves; what has ended and waits for its parent counts as ended."""
    deadline = time.monotonic() + limit_s
    while left := [pid for pid in pids if process_start(pid)]:
        assert time.monotonic() < deadline, [(pid, _command(pid)) for pid in left]
        time.sleep(0.5)


def nothing_is_left(airflow: Airflow) -> None:
    """After the next pass of the reaper that is due once the lease is over."""
    airflow.reap(3 * HOUR)
    assert (airflow.site.left(airflow.under), airflow.leases()) == ([], [])


def test_the_scheduler_has_the_database_that_was_named(airflow: Airflow) -> None:
    with closing(sqlite3.connect(airflow.home / "airflow" / SCHEDULER_DATABASE)) as file:
        assert file.execute("select count(*) from dag").fetchone() == (0,)


def test_nothing_listens_beyond_loopback(airflow: Airflow) -> None:
    """Airflow's own log servers do."""
    everybody = [airflow.process.pid, *descendants(airflow.process.pid)]
    assert len(everybody) > 5
    addresses = listening(everybody)
    assert f"127.0.0.1:{airflow.port}" in addresses
    assert [address for address in addresses if not address.startswith(("127.", "[::1]"))] == []


def listening(pids: Iterable[int]) -> list[str]:
    """`address:port` of every TCP socket of these processes that is listened on."""
    mine: set[str] = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                mine.add(str(handle.readlink()))
    found = []
    for file, family, size in (("tcp", socket.AF_INET, 4), ("tcp6", socket.AF_INET6, 16)):
        for line in Path(f"/proc/net/{file}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == "0A" and f"socket:[{rest[5]}]" in mine:
                host, port = local.split(":")
                words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, size * 2, 8)]
                address = socket.inet_ntop(family, b"".join(words))
                found.append(f"{f'[{address}]' if size == 16 else address}:{int(port, 16)}")
    return found


def test_a_second_series_waits_for_the_testbed_and_a_cleared_run_is_that_run_again(airflow: Airflow) -> None:
    first = airflow.trigger()
    airflow.await_measuring(first)
    second = airflow.trigger(OTHER, SHORT)
    until(lambda: "deferred" in airflow.task_states(second, OTHER).values(), airflow.process, "the second one waits")
    assert (airflow.state(first), airflow.state(second, OTHER)) == ("running", "running")
    assert len(airflow.leases()) == 1
    airflow.mark(first, "success", "run", 0)
    names = ["stela-r1", "stela-r2"]

    def measured() -> bool:
        states = airflow.task_states(second, OTHER)
        assert "failed" not in states.values(), states
        return [states.get(name) for name in (*names, "release")] == ["success"] * 3

    until(measured, airflow.process, "the second one has measured and gave back")
    airflow.mark(second, "failed", "analyse", dag=OTHER)  # what tests of Spark have
    until(lambda: airflow.state(second, OTHER) == "failed", airflow.process, "the second one is over")
    series = airflow.series(OTHER)
    begun = [started_s(series, name) for name in names]
    airflow.clear(second, ["run", 1], OTHER, downstream=False)

    def repeated() -> bool:
        states = airflow.task_states(second, OTHER)
        assert states["stela-r2"] != "failed", states
        return started_s(series, "stela-r2") > begun[1] and (states["stela-r2"], states["release"]) == (
            "success",
            "success",
        )

    until(repeated, airflow.process, "the run was repeated and its machines are given back")
    assert started_s(series, "stela-r1") == begun[0] and list((series / "attempts").glob("stela-r2.*"))
    until(lambda: airflow.state(first) in ("success", "failed"), airflow.process, "the first one is over")
    assert airflow.leases() == [] and airflow.machines() == []


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
    airflow.mark(run, "success", "run", 0)
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
    results = Path(airflow.env["BAROGRAPH_RESULTS"])
    results.rename(results.with_name("lost"))  # at once: removing file by file races with the run that writes there
    (lease,) = airflow.leases()
    airflow.reap()
    assert airflow.leases() == [lease] and airflow.machines() != [], "its holder lives and its end has not come"
    everybody = descendants(airflow.process.pid)
    (scheduler, *_) = [pid for pid in everybody if " scheduler" in _command(pid)]
    os.kill(scheduler, signal.SIGKILL)
    os.kill(airflow.process.pid, signal.SIGKILL)
    airflow.process.wait()
    await_ends(everybody)
    airflow.reap()
    assert (airflow.site.left(airflow.under), airflow.leases()) == ([], []), (
        "the holder is dead: the next pass ends everything"
    )
