"""Real processes that get in each other's way over the fake testbed: two at once, killed ones, a release that fails.

Whatever happens, one's own lease alone is released, nothing is left when the command says so, and its last line is the
first cause.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from barograph.airflow_environment import environment
from barograph.child_processes import group_members
from barograph.machines.provision import provision, reserve_testbed
from barograph.plan.experiment import load, with_changes
from barograph.series.series import open_series
from barograph.settings import ROOT, airflow_home
from barograph.testbeds import checks
from inventory.leases import registry
from inventory.leases.holder import HEARTBEAT_BOUND_S, Holder
from tests.dags import fake_runs
from tests.dags.fake_runs import alone, await_phase, leases, series_of, slow, statuses

pytestmark = pytest.mark.timeout(1200)  # the only limit on what ends by itself: a busy box is slow
World = dict[str, str]


def machines(world: World) -> list[str]:
    return sorted(path.name for path in Path(world["BAROGRAPH_STATE"]).glob("fake/*/*"))


def child_of(process: subprocess.Popen[str]) -> int:
    """The process that carries the series out."""
    children = psutil.Process(process.pid).children()
    (child,) = [each for each in children if "barograph.campaign.execution" in each.cmdline()]
    return int(child.pid)


def reap(world: World) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "barograph", "reap"]
    return subprocess.run(argv, env={**world, "COLUMNS": "300"}, capture_output=True, text=True)


def last_line(said: str) -> str:
    return said.rstrip().splitlines()[-1]


@pytest.fixture
def here(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """This process is a harness of the same world."""
    return be_in(world, monkeypatch)


@pytest.fixture
def here_with_airflow(airflow: World, monkeypatch: pytest.MonkeyPatch) -> World:
    return be_in(airflow, monkeypatch)


def be_in(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("STATE", "RESULTS", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", world[f"BAROGRAPH_{name}"])
    checks._cached_testbed.cache_clear()
    return world


# Shorter: with an unfinished one; and that who is refused opens no series:
# test_a_command_that_prepares_a_run_refuses_the_next.
@pytest.mark.parametrize(
    "unfinished",
    [pytest.param(False, id="none before", marks=pytest.mark.long), pytest.param(True, id="an unfinished one")],
)
def test_of_two_at_once_one_is_refused_and_the_other_goes_on(unfinished: bool, world: World) -> None:
    if unfinished:
        with slow(world) as process:
            await_phase(world, "provision", process)
            process.send_signal(signal.SIGINT)
            process.communicate()
    before = series_of(world)
    with slow(world) as first, slow(world) as second:
        while first.poll() is None and second.poll() is None:
            time.sleep(0.05)
        loser, winner = (first, second) if first.poll() is not None else (second, first)
        refused, _ = loser.communicate()
        assert loser.returncode == 3 and last_line(refused).startswith("capacity: testbed fake is in use: "), refused
        series = await_phase(world, "warm_up", winner)
        while not statuses(series):
            time.sleep(0.1)
        assert winner.poll() is None and "m1" in machines(world)
        assert series_of(world) == (before or [series]), "the one that was refused has opened none"
        winner.send_signal(signal.SIGINT)
        said, _ = winner.communicate()
    assert winner.returncode == 130 and "capacity" not in said, said
    assert (leases(world), machines(world)) == ([], [])


def test_a_testbed_that_was_taken_at_the_last_moment_is_the_last_word(here: World) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1}))
    lease = registry.take("ann@elsewhere", "other", "fake", 3600)
    argv = [sys.executable, "-m", "barograph.campaign.execution", str(series.folder), str(os.getpid())]
    done = subprocess.run(argv, env=here, capture_output=True, text=True)
    (failed,) = [line for line in fake_runs.progress(series.folder) if line["kind"] == "failed"]
    assert failed["blame"] == "capacity" and done.returncode == 3, done.stdout + done.stderr
    assert failed["message"].startswith(f"testbed fake is in use: lease {lease.lease_id} of ann@elsewhere")
    assert registry.read_all() == (lease,), "only one's own is released"


def test_a_child_that_the_kernel_kills_leaves_nothing(world: World) -> None:
    with slow(world) as process:
        series = await_phase(world, "warm_up", process)
        child = child_of(process)
        os.kill(child, signal.SIGKILL)
        said, _ = process.communicate()
    assert process.returncode == 4 and "infrastructure: the series' process was killed (SIGKILL" in last_line(said), (
        said
    )
    assert (leases(world), machines(world), group_members(child)) == ([], [], [])
    assert statuses(series) == {"even_rebalance-r1": "incomplete"}
    with slow(world, pace=0.1) as process:
        assert await_phase(world, "warm_up", process) == series
        while "complete" not in statuses(series).values():
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert (leases(world), machines(world)) == ([], [])


def test_parent_and_child_killed_at_once_are_reaped_and_the_series_is_free(here: World) -> None:
    with slow(here) as process:
        series = await_phase(here, "warm_up", process)
        child = child_of(process)
        for pid in (child, process.pid):
            os.kill(pid, signal.SIGSTOP)  # neither sees the other's end
        for pid in (process.pid, child):
            os.kill(pid, signal.SIGKILL)
        process.wait()
    assert len(leases(here)) == 1 and "m1" in machines(here)
    done = reap(here)
    assert done.returncode == 0 and f"its holder, process {child}, is dead" in " ".join(done.stdout.split()), (
        done.stdout
    )
    assert (leases(here), machines(here)) == ([], [])
    assert open_series(with_changes(load("stela/star"), {"testbed": "fake", "demo": True})).folder == series


@pytest.fixture
def stuck() -> Iterator[list[Path]]:
    """What does not let a lease of the fake testbed go: a folder where it has files."""
    made: list[Path] = []
    yield made
    for path in made:
        path.rmdir()


def hinder(world: World, stuck: list[Path]) -> None:
    (lease,) = [path.stem for path in leases(world)]
    stuck.append(Path(world["BAROGRAPH_STATE"]) / "fake" / lease / "stuck")
    stuck[-1].mkdir()


def mend(stuck: list[Path]) -> None:
    stuck.pop().rmdir()


def test_an_interrupted_run_that_cannot_release_says_what_is_left(world: World, stuck: list[Path]) -> None:
    with slow(world) as process:
        await_phase(world, "warm_up", process)
        hinder(world, stuck)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    (lease,) = leases(world)
    assert process.returncode == 130
    assert f"lease {lease.stem} on testbed fake could not be released" in said and "`barograph reap` ends them" in said
    failed = reap(world)
    assert failed.returncode == 4 and "its release did not succeed yet" in failed.stdout
    mend(stuck)
    assert reap(world).returncode == 0
    assert (leases(world), machines(world)) == ([], [])


UNANALYSED = """
import sys
from barograph.campaign import execution
from tests.dags.no_analysis import arrange
arrange()
sys.exit(execution.main(sys.argv[1:]))
"""


def test_a_run_that_cannot_release_is_no_success(here: World, stuck: list[Path]) -> None:
    series = open_series(with_changes(load("stela/star"), {"testbed": "fake", "demo": True})).folder
    argv = [sys.executable, "-c", UNANALYSED, str(series), str(os.getpid())]
    with subprocess.Popen(argv, env={**here, "BAROGRAPH_PACE": "0.05"}, cwd=ROOT) as process:
        await_phase(here, "warm_up", process)
        hinder(here, stuck)
    (lease,) = leases(here)
    assert process.returncode == 4
    assert set(statuses(series).values()) == {"complete"} and (series / "report.html").is_file()
    (failed,) = [line for line in fake_runs.progress(series) if line["kind"] == "failed"]
    assert failed["message"].startswith(f"lease {lease.stem} on testbed fake could not be released")
    assert "`barograph reap` ends them" in failed["message"]
    mend(stuck)
    assert reap(here).returncode == 0
    assert (leases(here), machines(here)) == ([], [])


def test_a_live_run_of_another_host_is_not_reaped_and_refuses_others(here: World) -> None:
    """As with workers of an Airflow elsewhere: its process is unknown here, its heartbeat is not."""
    far = Holder(1, "another-boot/7", "another-boot/pid:[1]")
    lease = registry.take("ann@far", "other", "fake", 3600, holder=far)
    assert "nothing to release" in reap(here).stdout and registry.read_all() == (lease,)
    refused = fake_runs.run(here)
    assert refused.returncode == 3
    assert last_line(refused.stderr).startswith(f"capacity: testbed fake is in use: lease {lease.lease_id} of ann@far")
    path = Path(here["BAROGRAPH_STATE"]) / "leases" / f"{lease.lease_id}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"heartbeat_s": time.time() - 1500}))
    assert "was last heard of 25 min ago" in reap(here).stdout and registry.read_all() == ()


REAPER = """
from dags.housekeeping import reaper
print(reaper().test().state)
"""


def test_a_dag_that_has_a_run_keeps_its_machines_while_none_of_its_tasks_work(here_with_airflow: World) -> None:
    """They wait for a worker. The reaper asks Airflow; the DAG that has a run here is its own."""
    silent_s = time.time() - HEARTBEAT_BOUND_S - 60
    for name, dag, run in (("of a run", "reaper", ""), ("of a dead run", "reaper", "x"), ("of no run", "some.dag", "")):
        mine = Holder(0, dag, run=run)
        registry.take("ann", name, "fake", 7200, shared=True, holder=mine, clock=lambda: silent_s)
    argv, env = [sys.executable, "-c", REAPER], {**environment(airflow_home()), **alone("reaper")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert last_line(done.stdout) == "success", done.stderr[-3000:]
    assert [lease.series_id for lease in registry.read_all()] == ["of a run"]


def test_a_command_that_prepares_a_run_refuses_the_next(here: World) -> None:
    reserve_testbed(with_changes(load("stela/star"), {"testbed": "fake"}))  # this process, from now on
    refused = fake_runs.run(here)
    assert refused.returncode == 3 and series_of(here) == []
    assert last_line(refused.stderr).startswith(f"capacity: testbed fake is in use: process {os.getpid()} of ")


DEAD_PROVISION = """
from barograph.machines import series_lease
from dags.experiments import stela_star

acquire, release = series_lease.acquire, series_lease.release

def dies(*given):
    assert acquire(*given)
    series_lease.release = releases_nothing
    raise RuntimeError("it was killed")

def releases_nothing(*_):
    series_lease.release = release

series_lease.acquire = dies
for task in stela_star.tasks:
    task.retries = 0
print("state:", stela_star.test(run_conf={"testbed": "fake", "repetitions": 1}).state)
"""


def test_machines_of_a_provision_that_died_are_given_back_by_the_dag(here_with_airflow: World) -> None:
    """Airflow leaves a teardown out where its setup failed."""
    env = {**environment(airflow_home()), **alone("stela.star"), "BAROGRAPH_HOLDER_PID": str(os.getpid())}
    done = subprocess.run([sys.executable, "-c", DEAD_PROVISION], env=env, cwd=ROOT, capture_output=True, text=True)
    assert "state: failed" in done.stdout and "it was killed" in done.stdout + done.stderr
    (series,) = series_of(here_with_airflow)
    assert any(line["kind"] == "phase" and line["phase"] == "provision" for line in fake_runs.progress(series))
    assert leases(here_with_airflow) == [] and machines(here_with_airflow) == []


WITHOUT_RUNS = """
import sys
from pathlib import Path
from airflow.sdk.exceptions import AirflowSkipException
from barograph.errors import ExperimentError
from barograph.plan.experiment import load
from barograph.series import hold
from dags import wiring
from dags.experiments import build

finished, long = sys.argv[1:]
tasks = build(load("stela/star")).task_dict
for name, series in (("provision", finished), ("release_unprovisioned", None)):
    try:
        tasks[name].python_callable(series)
    except AirflowSkipException:
        print("skipped", name)
try:
    wiring.series_of(Path(long), None)
except ExperimentError:
    print("refused; held:", hold.read(Path(long)) is not None)
"""


def test_nothing_is_held_for_a_dag_run_that_has_no_runs_to_do(here_with_airflow: World) -> None:
    """Airflow skips a teardown whose setups are skipped, and asks for a release where there is no series."""
    experiment = with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1})
    finished, long = (open_series(experiment, new=True).folder for _ in range(2))
    provision(finished)
    (finished / "sufficient.json").write_text("{}")
    variables = {**environment(airflow_home()), "BAROGRAPH_HOLDER_PID": str(os.getpid())}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RUNS, str(finished), str(long)],
        env={**variables, "AIRFLOW__CORE__MAX_MAP_LENGTH": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    said = ["skipped provision", "skipped release_unprovisioned", "refused; held: False"]
    assert done.stdout.splitlines()[-3:] == said, done.stderr[-3000:]
    assert leases(here_with_airflow) == [] and machines(here_with_airflow) == []
