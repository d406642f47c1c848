"""`barograph run` over the fake testbed: real processes, real signals, no machines."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from barograph.errors import EXIT_CODES
from barograph.plan.events.faults import Crash
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.order import machines_at_end
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import Durations, MachineCount, load, with_changes
from barograph.series.series import open_series
from barograph.settings import ROOT
from tests.dags.fake_runs import Resumed, await_phase, leases, slow, statuses
from tests.support import planted

pytestmark = pytest.mark.timeout(1200)  # the only limit on what ends by itself: a busy box is slow


def await_no_lease(world: dict[str, str]) -> None:
    while leases(world):
        time.sleep(0.2)


def test_nothing_that_runs_leave_holds_a_secret_of_the_environment(finished: Resumed, tmp_path: Path) -> None:
    """Not records, logs, reports, leases, what was printed, nor a bundle."""
    assert finished.resumed.returncode == 0, finished.resumed.stdout + finished.resumed.stderr
    assert all(finished.world[name] == value for name, value in planted.ENVIRONMENT.items())
    for said in (finished.interrupted, finished.refused, finished.resumed):
        (tmp_path / f"printed-{len(list(tmp_path.iterdir()))}").write_text(f"{said.stdout}{said.stderr}")
    argv = [sys.executable, "-m", "barograph", "bundle", str(finished.series), "--to", str(tmp_path / "bundle.tar.gz")]
    subprocess.run(argv, env=finished.world, check=True, capture_output=True)
    folders = [Path(finished.world[f"BAROGRAPH_{name}"]) for name in ("RESULTS", "STATE", "HOME")]
    assert planted.leaks(planted.VALUES, *folders, tmp_path) == []


# In the warm-up: test_a_second_run_is_refused_and_the_first_is_resumed_later_to_its_report; a signal later in a run:
# test_sigterm_in_events.py.
@pytest.mark.parametrize("phase", ["provision", pytest.param("after", marks=pytest.mark.long)])
def test_ctrl_c_keeps_what_was_measured_and_releases(phase: str, world: dict[str, str]) -> None:
    with slow(world, pace=0.2) as process:  # 8 s or more for the signal to come in the phase that it is meant for
        series = await_phase(world, phase, process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    assert process.returncode == 130, said
    assert leases(world) == []
    assert set(statuses(series).values()) <= {"incomplete"}
    assert phase == "provision" or statuses(series), "of a busy box the first run may have begun in the meantime"
    assert "to resume: barograph run stela/star" in said and "Traceback" not in said


def test_a_killed_parent_takes_its_child_and_machines_with_it(world: dict[str, str]) -> None:
    with slow(world) as process:
        series = await_phase(world, "warm_up", process)
        process.kill()
    await_no_lease(world)
    assert statuses(series) == {"even_rebalance-r1": "incomplete"}


@pytest.mark.spark
def test_a_second_run_is_refused_and_the_first_is_resumed_later_to_its_report(finished: Resumed) -> None:
    first, refused, resumed = finished.series, finished.refused, finished.resumed
    assert finished.interrupted.returncode == 130, finished.interrupted.stdout
    assert "to resume: barograph run stela/star" in finished.interrupted.stdout
    assert "Traceback" not in finished.interrupted.stdout
    assert refused.returncode == 3
    assert refused.stderr.startswith("capacity: testbed fake is in use: lease")
    assert finished.all_series == [first]
    assert resumed.returncode == 0 and "resuming series" in resumed.stdout, resumed.stdout + resumed.stderr
    assert statuses(first) == {"even_rebalance-r1": "complete", "stela-r1": "complete"}
    kept = json.loads((first / "attempts" / "even_rebalance-r1.attempt-1" / "run.json").read_text())
    assert kept["status"] == "incomplete"
    assert f"report: {first}/report.html" in resumed.stdout and (first / "report.html").is_file()
    assert finished.leases == [] and "Traceback" not in resumed.stdout + resumed.stderr
    phases = [line["phase"] for line in finished.told if line["kind"] == "phase" and "run_id" not in line]
    assert phases == ["provision", "deploy", "release", "analyse"]


SHORT = Durations(warm_up_floor_s=45, warm_up_ceiling_s=60, after_floor_s=50, horizon_s=90)
MIXED = (ScaleOut("steady", 1), ScaleIn("steady", 1), RateChange(60.0, 1.5), Crash("steady", "m2", 10.0))


def progress(series: Path) -> list[str]:
    return (series / "progress.jsonl").read_text().splitlines()


def series_with(world: dict[str, str], monkeypatch: pytest.MonkeyPatch, *events: PlannedEvent) -> Path:
    """An opened series of star with these events, one run; `barograph run` knows only plans that ship."""
    monkeypatch.setenv("BAROGRAPH_RESULTS", world["BAROGRAPH_RESULTS"])
    star = with_changes(load("stela/star"), {"testbed": "fake", "repetitions": 1, "variants": ["stela"]})
    return open_series(
        replace(star, events=events, machines=MachineCount(4, machines_at_end(4, events)), durations=SHORT)
    ).folder


def carried_out(series: Path, world: dict[str, str], *program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *program, str(series), str(os.getpid())], cwd=ROOT, env=world,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


UNANALYSED = """
import sys
from barograph.campaign import execution
from tests.dags.no_analysis import arrange
arrange()
sys.exit(execution.main(sys.argv[1:]))
"""


def test_a_mixed_plan(world: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its analysis fails at first, by a setting that is wrong; then that alone is done, without machines."""
    series = series_with(world, monkeypatch, *MIXED)
    done = carried_out(series, {**world, "BAROGRAPH_SPARK_MASTER": "nowhere"}, "-m", "barograph.campaign.execution")
    assert done.returncode == EXIT_CODES["configuration"] and not (series / "report.html").exists(), done.stdout
    (failed,) = [line for line in map(json.loads, progress(series)) if line["kind"] == "failed"]
    assert failed["message"].startswith("BAROGRAPH_SPARK_MASTER is 'nowhere'"), "all before it went well"
    assert statuses(series) == {"stela-r1": "complete"} and leases(world) == []
    told = [json.loads(line) for line in (series / "runs" / "stela-r1" / "events.jsonl").read_text().splitlines()]
    assert [event["given_back"] for event in told if event["kind"] == "machines_left"] == [True]
    done = carried_out(series, world, "-c", UNANALYSED)
    assert done.returncode == 0 and (series / "report.html").is_file(), done.stdout
    assert not (series / "attempts").exists() and sum('"phase": "provision"' in line for line in progress(series)) == 1
