"""The experiment's DAG through the command line over the fake testbed: real Airflow, real signals, no machines."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dags.events import Crash, PlannedEvent, RateChange, ScaleIn, ScaleOut, at_end
from dags.experiment import Durations, MachineCount, load
from dags.places import ROOT
from dags.request import requested
from dags.series import open_series
from dags.terminal.airflow_home import COMMAND_LINE, SCHEDULED, environment

pytestmark = pytest.mark.timeout(1200)  # the only limit on what ends by itself: a busy box is slow


def command(*options: str) -> list[str]:
    return [sys.executable, str(ROOT / "barograph.py"), "run", "stela/star", "--testbed", "fake", "--demo", *options]


def run(world: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*options), env=world, capture_output=True, text=True)


def series_of(world: dict[str, str]) -> list[Path]:
    return sorted(Path(world["BAROGRAPH_RESULTS"]).glob("stela/star/*"))


def statuses(series: Path) -> dict[str, str]:
    return {path.parent.name: json.loads(path.read_text())["status"] for path in series.glob("runs/*/run.json")}


def leases(world: dict[str, str]) -> list[Path]:
    return list(Path(world["BAROGRAPH_STATE"]).glob("leases/*.json"))


def progress(series: Path) -> list[dict[str, Any]]:
    file = series / "progress.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def dag_runs(world: dict[str, str], database: str) -> int:
    """Of any state, in one of Airflow's two databases."""
    with closing(sqlite3.connect(Path(world["BAROGRAPH_HOME"]) / "airflow" / database)) as opened:
        (found,) = opened.execute("select count(*) from dag_run").fetchone()
    return int(found)


@pytest.fixture
def slow(world: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts runs whose fake seconds take real time; ends what a test leaves."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(),
            env={**world, "BAROGRAPH_FAKE_PACE": "0.5"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def await_phase(world: dict[str, str], phase: str, process: subprocess.Popen[str]) -> Path:
    while True:
        for series in series_of(world):
            if any(line["kind"] == "phase" and line["phase"] == phase for line in progress(series)):
                return series
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.1)


def await_no_lease(world: dict[str, str]) -> None:
    while leases(world):
        time.sleep(0.2)


@pytest.mark.parametrize("phase", ["start", "warm_up", "after"])
def test_ctrl_c_keeps_what_was_measured_and_releases(
    phase: str, world: dict[str, str], slow: Callable[..., subprocess.Popen[str]]
) -> None:
    scheduled = dag_runs(world, SCHEDULED)
    process = slow()
    series = await_phase(world, phase, process)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate()
    assert process.returncode == 130, said
    assert leases(world) == []
    assert set(statuses(series).values()) <= {"incomplete"}
    assert (phase == "start") == (statuses(series) == {})
    assert "to resume: barograph run stela/star" in said and "Traceback" not in said
    assert dag_runs(world, SCHEDULED) == scheduled, "a scheduler would go on with it"
    assert phase == "start" or dag_runs(world, COMMAND_LINE) > 0


def test_a_killed_parent_takes_its_child_and_machines_with_it(
    world: dict[str, str], slow: Callable[..., subprocess.Popen[str]]
) -> None:
    process = slow()
    series = await_phase(world, "warm_up", process)
    process.kill()
    process.wait()
    await_no_lease(world)
    assert statuses(series) == {"even_rebalance-r1": "incomplete"}


@pytest.mark.spark
def test_a_second_run_is_refused_and_the_first_is_resumed_later_to_its_report(
    world: dict[str, str], slow: Callable[..., subprocess.Popen[str]]
) -> None:
    process = slow()
    first = await_phase(world, "warm_up", process)
    second = run(world)
    assert second.returncode == 3
    assert second.stderr.startswith("capacity: testbed fake is in use: series")
    assert series_of(world) == [first]
    process.send_signal(signal.SIGINT)
    process.communicate()
    told = len(progress(first))
    resumed = run(world)
    assert resumed.returncode == 0 and "resuming series" in resumed.stdout, resumed.stdout + resumed.stderr
    assert series_of(world) == [first]
    assert statuses(first) == {"even_rebalance-r1": "complete", "stela-r1": "complete"}
    kept = json.loads((first / "attempts" / "even_rebalance-r1.attempt-1" / "run.json").read_text())
    assert kept["status"] == "incomplete"
    assert f"report: {first}/report.html" in resumed.stdout and (first / "report.html").is_file()
    assert leases(world) == [] and "Traceback" not in resumed.stdout + resumed.stderr
    whole = progress(first)[told:]
    phases = [line["phase"] for line in whole if line["kind"] == "phase" and "run_id" not in line]
    assert phases == ["start", "provision", "deploy", "release", "analyse"]


SHORT = Durations(warm_up_floor_s=45, warm_up_ceiling_s=60, after_floor_s=50, horizon_s=90)
MIXED = (ScaleOut("steady", 1), ScaleIn("steady", 1), RateChange(60.0, 1.5), Crash("steady", "m2", 10.0))


def series_with(world: dict[str, str], monkeypatch: pytest.MonkeyPatch, *events: PlannedEvent) -> Path:
    """An opened series of star with these events, one run; `barograph run` knows only plans that ship."""
    monkeypatch.setenv("BAROGRAPH_RESULTS", world["BAROGRAPH_RESULTS"])
    star = requested(load("stela/star"), {"testbed": "fake", "repetitions": 1, "policies": ["stela"]})
    return open_series(
        replace(star, events=events, machines=MachineCount(4, at_end(4, events)), durations=SHORT)
    ).folder


def child_of(series: Path, world: dict[str, str], pace: float) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "dags.terminal.child", str(series), str(os.getpid())]
    home = Path(world["BAROGRAPH_HOME"]) / "airflow"
    return subprocess.Popen(
        argv, cwd=ROOT, env={**environment(home, world), "BAROGRAPH_FAKE_PACE": str(pace)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.spark
@pytest.mark.long  # for real: tests/integration/test_mixed_plan_end_to_end.py; each event: test_events_of_a_run.py
def test_a_mixed_plan_through_the_dag(world: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    series = series_with(world, monkeypatch, *MIXED)
    said, _ = (process := child_of(series, world, 0.0)).communicate()
    assert process.returncode == 0, said
    assert statuses(series) == {"stela-r1": "complete"} and leases(world) == []
    told = [json.loads(line) for line in (series / "runs" / "stela-r1" / "events.jsonl").read_text().splitlines()]
    assert [event["given_back"] for event in told if event["kind"] == "machines_left"] == [True]
    assert (series / "report.html").is_file()
