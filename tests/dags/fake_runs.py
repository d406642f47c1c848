"""`barograph run` over the fake testbed, as a user starts it, in an environment of a test's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

World = Mapping[str, str]


def alone(dag_id: str) -> dict[str, str]:
    """The variable by which Airflow says which DAG it asks a file for: `dag.test` writes all that it finds."""
    from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID

    return {_AIRFLOW_PARSING_CONTEXT_DAG_ID: dag_id}


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "barograph", "run", "stela/star", "--testbed", "fake", "--demo", *options]


def run(world: World, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*options), env=world, capture_output=True, text=True)


@contextmanager
def slow(world: World, pace: float = 0.5) -> Iterator[subprocess.Popen[str]]:
    """One whose fake seconds take real time; it does not outlive the block."""
    env = {**world, "BAROGRAPH_PACE": f"{pace}"}
    process = subprocess.Popen(command(), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def series_of(world: World) -> list[Path]:
    return sorted(Path(world["BAROGRAPH_RESULTS"]).glob("stela/star/*"))


def statuses(series: Path) -> dict[str, str]:
    return {path.parent.name: json.loads(path.read_text())["status"] for path in series.glob("runs/*/run.json")}


def leases(world: World) -> list[Path]:
    return list(Path(world["BAROGRAPH_STATE"]).glob("leases/*.json"))


def progress(series: Path) -> list[dict[str, Any]]:
    file = series / "progress.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def await_phase(world: World, phase: str, process: subprocess.Popen[str]) -> Path:
    while True:
        for series in series_of(world):
            if any(line["kind"] == "phase" and line["phase"] == phase for line in progress(series)):
                return series
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        time.sleep(0.1)


@dataclass(frozen=True)
class Resumed:
    """A series that was interrupted while a second run of it was refused, and went on to its report."""

    world: World
    series: Path
    interrupted: subprocess.CompletedProcess[str]
    refused: subprocess.CompletedProcess[str]
    resumed: subprocess.CompletedProcess[str]
    told: list[dict[str, Any]]  # while it went on
    all_series: list[Path]  # that there were at the end, and leases
    leases: list[Path]


def resumed(world: World) -> Resumed:
    with slow(world) as process:
        series = await_phase(world, "warm_up", process)
        refused = run(world)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate()
    interrupted = subprocess.CompletedProcess(command(), process.returncode, said)
    before = len(progress(series))
    again = run(world)
    return Resumed(
        world, series, interrupted, refused, again, progress(series)[before:], series_of(world), leases(world)
    )
