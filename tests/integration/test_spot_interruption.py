"""A series on spot instances that AWS takes away while Storm runs on them, as a user sees it from `barograph run`.

The first execution loses its worker in the first run, which another instance replaces, and its master in the second,
which nothing replaces; the second execution has that one run to do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloud.cloud import ROOT, Cloud, Left, running, until

# Long: a recall at the testbed is test_ec2_failures.py's, replacing and resuming are the fakes', EC2 whole is
# test_ec2_end_to_end.py's.
pytestmark = [pytest.mark.e2e, pytest.mark.cloud, pytest.mark.long, pytest.mark.timeout(3600)]

FIRST, SECOND = "stela-r1", "stela-r2"
CORES = 0.8  # two machines at a time have this box to themselves
RUNS_S = 1200.0  # until a run's topology works, and from then on to the end of the execution; on a busy box
INFRASTRUCTURE = 4
REASON = "the owner takes it away"


@dataclass(frozen=True)
class Execution:
    """One `barograph run` that has ended: what was rented after it, and how many instances it had started."""

    code: int
    said: str
    left: Left
    launched: int
    summary: dict[str, Any]
    first_run: bytes


@dataclass(frozen=True)
class Series:
    interrupted: Execution
    resumed: Execution
    folder: Path

    def document(self, run: str) -> dict[str, Any]:
        return dict(json.loads((self.folder / run / "run.json").read_text()))

    def events(self, run: str, kind: str) -> list[dict[str, Any]]:
        return [event for event in events(self.folder / run) if event["kind"] == kind]


def events(run: Path) -> list[dict[str, Any]]:
    file = run / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with running(machines=True, cores=CORES) as one:
        yield one


@pytest.fixture(scope="module")
def series(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Series]:
    state, results = Path(tempfile.mkdtemp(prefix="be", dir="/tmp")), tmp_path_factory.mktemp("results")
    ours = {"BAROGRAPH_STATE": str(state), "BAROGRAPH_RESULTS": str(results)}
    env = {**os.environ, **cloud.environment(), **ours}
    said = tmp_path_factory.mktemp("said")
    with barograph(cloud, env, said / "first", "--new") as process:
        announce(cloud, process, results, FIRST, "m1")
        announce(cloud, process, results, SECOND, "master")
        process.wait(RUNS_S)
    (folder,) = (results / "rented" / "star").iterdir()
    interrupted = ended(process, said / "first", cloud, folder)
    with barograph(cloud, env, said / "second") as process:
        process.wait(2 * RUNS_S)
    yield Series(interrupted, ended(process, said / "second", cloud, folder), folder)
    shutil.rmtree(state)


@contextmanager
def barograph(cloud: Cloud, env: Mapping[str, str], said: Path, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """`barograph run`, ended as by Ctrl-C if the test fails before it does: then it gives back what it has."""
    options = [f"--option={name}={json.dumps(value)}" for name, value in cloud.options(market="spot").items()]
    command = [sys.executable, "-m", "tests.support.cloud.short_star", "run", "rented/star", "--repetitions=2"]
    with said.open("wb") as out:
        process = subprocess.Popen([*command, *options, *more], cwd=ROOT, env=env, stdout=out, stderr=out)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(RUNS_S)


def announce(cloud: Cloud, process: subprocess.Popen[bytes], results: Path, run: str, machine: str) -> None:
    """The machine gets its notice as soon as the first tuple has passed in that run."""

    def works() -> bool:
        assert process.poll() is None, f"it ended with {process.returncode} before {run} worked"
        found = results.glob(f"rented/star/*/runs/{run}")
        return any(event["kind"] == "first_tuple" for folder in found for event in events(folder))

    until(works, RUNS_S, f"the topology of {run} works")
    cloud.announce(machine)


def ended(process: subprocess.Popen[bytes], said: Path, cloud: Cloud, folder: Path) -> Execution:
    summary = json.loads((folder / "report.json").read_text())
    first_run = (folder / "runs" / FIRST / "run.json").read_bytes()
    return Execution(process.returncode, said.read_text(), cloud.left(), len(cloud.launches()), summary, first_run)


@pytest.mark.parametrize(
    ("run", "machine"), [(f"attempts/{FIRST}.attempt-1", "m1"), (f"attempts/{SECOND}.attempt-1", "master")]
)
def test_a_notice_ends_the_run_as_infrastructures_failure(series: Series, run: str, machine: str) -> None:
    document = series.document(run)
    (works,), (told,) = series.events(run, "first_tuple"), series.events(run, "machines_recalled")
    assert told["machines"] == [machine] and works["t"] < told["t"]
    assert (document["status"], document["failure"]["blame"]) == ("failed", "infrastructure")
    assert document["failure"]["message"].startswith(f"{machine}: {REASON}")
    assert document["topology"] is not None, "what it had measured was still collected"


def test_a_worker_is_replaced_and_its_run_is_repeated_at_once(series: Series) -> None:
    repeated = json.loads(series.interrupted.first_run)
    assert (repeated["status"], repeated["attempt"], repeated["failure"]) == ("complete", 2, None)
    assert series.interrupted.launched == 3, "the master, m1, and m1 again"


def test_without_its_master_the_execution_ends_as_infrastructures_failure(series: Series) -> None:
    assert series.interrupted.code == INFRASTRUCTURE, series.interrupted.said[-3000:]
    assert f"infrastructure: {SECOND}: master: {REASON}" in series.interrupted.said


def test_nobody_is_called_slow(series: Series) -> None:
    """Of two runs one is complete, and the other one is no result."""
    summary = series.interrupted.summary
    assert (summary["runs"], summary["complete"], summary["not_complete"]) == (2, 1, {"infrastructure": 1})


def test_the_next_execution_repeats_that_run_only(series: Series) -> None:
    resumed = series.resumed
    assert resumed.code == 0, resumed.said[-3000:]
    assert "resuming series" in resumed.said and "1 of 2 runs to do" in resumed.said
    assert resumed.first_run == series.interrupted.first_run
    second = series.document(f"runs/{SECOND}")
    assert (second["status"], second["attempt"]) == ("complete", 2)
    attempts = {path.name for path in (series.folder / "attempts").iterdir()}
    assert attempts == {f"{FIRST}.attempt-1", f"{SECOND}.attempt-1"}
    assert (resumed.summary["complete"], resumed.summary["not_complete"]) == (2, {})


def test_nothing_stays_rented(series: Series) -> None:
    assert not series.interrupted.left
    assert not series.resumed.left
    assert series.resumed.launched - series.interrupted.launched == 2
