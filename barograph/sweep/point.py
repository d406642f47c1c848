"""One point of a sweep in a process of the pool: check its experiment, or simulate its series and leave its records.

A point's folder is a series' folder: `barograph report`, `sql`, `replay` and `bundle` take it. It needs no lease, for
machines in memory are nobody's. A file at its end says that it is over; where it failed, or has no such file, its
complete runs stay and the others are made. Each run is in a process of its own: a policy that hangs ends with it.
"""

from __future__ import annotations

import json
import shutil
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from barograph.errors import blame_of, message_of
from barograph.plan.blocks import PlannedRun, plan_runs
from barograph.plan.durations import step_limit
from barograph.plan.experiment import Experiment
from barograph.plan.sweep import Point
from barograph.pool import Death
from barograph.run.context import SeriesContext, context_in_memory
from barograph.run.recorded_start import RecordedStart, StartedCluster
from barograph.run.simulated_clock import SimulatedClock
from barograph.run.simulated_cluster import CLUSTER, SimulatedCluster, attempt_in_own_process
from barograph.series.series import Series, keep_traces, trace_contents
from barograph.series_steps import attempt_next_run
from barograph.testbeds.checks import check, testbed_of
from inventory.simulated import SimulatedTestbed

POINT_FILE = "point.json"


@dataclass(frozen=True)
class CheckJob:
    point: Point


@dataclass(frozen=True)
class PointJob:
    """`facts`: of the sweep, for the series' document (its commit, its id). `start`: how its runs begin, None: as each
    policy has it. `kept_in`: the series' folder that has the traces which its events follow."""

    point: Point
    folder: Path
    facts: Mapping[str, Any]
    start: RecordedStart | None = None
    kept_in: Path | None = None


@dataclass(frozen=True)
class Failure:
    """What went wrong: `run_id` is empty where it was no run's. `trace`: of a bug of ours."""

    blame: str
    message: str
    run_id: str = ""
    trace: str = ""

    def words(self) -> str:
        return f"{f'{self.run_id}: ' if self.run_id else ''}{self.blame.replace('_', ' ')}: {self.message}"


@dataclass(frozen=True)
class PointOutcome:
    took_s: float
    failures: tuple[Failure, ...] = ()


def do(job: CheckJob | PointJob) -> PointOutcome:
    """Never raises: what fails one point must not end the process that does the next."""
    begin_s = time.monotonic()
    try:
        failures = _check(job.point.experiment) if isinstance(job, CheckJob) else _simulate(job)
    except Exception as error:  # noqa: BLE001 - see above
        failures = (_failure(error),)
    return PointOutcome(time.monotonic() - begin_s, failures)


def _check(experiment: Experiment) -> tuple[Failure, ...]:
    check(experiment)
    return ()


def _simulate(job: PointJob) -> tuple[Failure, ...]:
    series = _open(job)
    context = _context(series, job.start)
    missing = [run for run in series.plan() if run.run_id not in series.complete()]
    failures = [each for run in missing if (each := _attempt(series, context, run)) is not None]
    remove_cluster(series.folder)
    write_point_file(series.folder, failures)
    return tuple(failures)


def remove_cluster(folder: Path) -> None:
    """What a point's simulated machines had on their disks, also where its process was ended."""
    shutil.rmtree(folder / CLUSTER, ignore_errors=True)


def _attempt(series: Series, context: SeriesContext, run: PlannedRun) -> Failure | None:
    """What kept the run from being complete; another run's result is none the worse for it."""

    def work() -> Failure | None:
        try:
            attempt_next_run(series, context, run)
        except Exception as error:  # noqa: BLE001 - said in the answer
            return _failure(error, run.run_id)
        return None

    outcome = attempt_in_own_process(work, step_limit("run", series.experiment).seconds, series.folder / CLUSTER)
    return death_failure(outcome, run.run_id) if isinstance(outcome, Death) else outcome


def death_failure(death: Death, run_id: str = "") -> Failure:
    advice = "" if death.limit_s is not None else ": give a smaller --jobs"
    return Failure(death.blame, f"{death.words()}{advice}", run_id)


def _open(job: PointJob) -> Series:
    """The point's series. Complete runs that an earlier execution has left stay; what is of another experiment goes."""
    if _is_of_other_experiment(job):
        shutil.rmtree(job.folder, ignore_errors=True)
    (job.folder / POINT_FILE).unlink(missing_ok=True)
    SeriesPaths(job.folder).runs.mkdir(parents=True, exist_ok=True)
    experiment, now_s = job.point.experiment, time.time()
    keep_traces(job.folder, trace_contents(experiment, job.kept_in))
    document = {
        "v": 1,
        "series_id": job.folder.name,
        "experiment": experiment.name,
        "spec": experiment.as_data(),
        "runs": [run.run_id for run in plan_runs(experiment)],
        "opened_s": now_s,
        **job.facts,
        "values": dict(job.point.values),
    }
    write_json_atomic(SeriesPaths(job.folder).series_json, document)
    return Series(job.folder, experiment, now_s)


def _is_of_other_experiment(job: PointJob) -> bool:
    """False where nothing says of which it is: the folder's name has the digest of the experiment."""
    try:
        before = read_json(SeriesPaths(job.folder).series_json)["spec"]
    except (RecordError, KeyError):
        return False
    return bool(before != json.loads(json.dumps(job.point.experiment.as_data())))


def _context(series: Series, start: RecordedStart | None) -> SeriesContext:
    """What a run of this series needs, with everything that is written on the way in the series' own folder."""
    testbed = testbed_of(series.experiment.testbed)
    assert isinstance(testbed, SimulatedTestbed), "only simulated points get here"
    clock, folder = SimulatedClock(), series.folder / CLUSTER
    if start is None:
        cluster = SimulatedCluster(series.experiment, testbed, clock, folder)
    else:
        cluster = StartedCluster(series.experiment, testbed, clock, folder, start)
    return context_in_memory(series.experiment, cluster, clock, testbed.options.look_s)


def write_point_file(folder: Path, failures: Sequence[Failure]) -> None:
    """The point is over."""
    write_json_atomic(folder / POINT_FILE, {"v": 1, "failures": [failure_data(each) for each in failures]})


def failure_data(failure: Failure) -> dict[str, Any]:
    return {"run_id": failure.run_id, "blame": failure.blame, "message": failure.message}


def failures_of(folder: Path) -> list[dict[str, Any]]:
    """What failed in a point that is over."""
    try:
        return list(read_json(folder / POINT_FILE)["failures"])
    except RecordError:
        return []


def state_of(folder: Path) -> str:
    """`complete`, `failed` (a run of it), or `missing`, also where it was cut short."""
    if not (folder / POINT_FILE).is_file():
        return "missing"
    return "failed" if failures_of(folder) else "complete"


def _failure(error: Exception, run_id: str = "") -> Failure:
    blame = blame_of(error)
    return Failure(blame, message_of(error), run_id, traceback.format_exc() if blame == "harness" else "")
