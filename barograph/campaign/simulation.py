"""Simulated runs side by side in processes, for one series or many.

Simulated machines belong to nobody and each run has a separate clock, so runs do not disturb one another and need no
cleaning between them. Each run has a process that ends with it: a policy that hangs does not slow later runs. The disks
of a run's machines are always removed.

A cell of a campaign in memory is one experiment with the labels that tell it from the others, in the folder of a
series, which `barograph report`, `sql`, `replay` and `bundle` accept. It needs no lease, since machines in memory have
no owner. A file marks it as over; if it failed, or has no such file, its complete runs stay and the others are
repeated.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from analysis.errors import RecordError
from analysis.record.files import SeriesPaths, is_complete, read_json, write_json_atomic
from barograph.campaign.steps import attempt_next_run, is_too_late, message_writer, runs_of_execution
from barograph.errors import Interrupted, blame_of, message_of
from barograph.machines.series_lease import keep_alive, prolong, saved_lease
from barograph.plan.blocks import PlannedRun
from barograph.plan.durations import step_limit
from barograph.plan.experiment import Experiment
from barograph.pool import Death, ProcessPool, cores
from barograph.run.context import Silence, simulated_context
from barograph.run.simulated_cluster import CLUSTER, SimulatedCluster, attempt_isolated
from barograph.series.interruption import is_stopped, step
from barograph.series.progress import ProgressFile
from barograph.series.results import send_now
from barograph.series.run_record import Listener
from barograph.series.series import Series, keep_traces, trace_contents, write_series
from barograph.settings import cluster_dir

log = logging.getLogger(__name__)
LOOK_S = 0.5


@dataclass(frozen=True)
class SimulationFailure:
    """A failure. `run_id` is empty where it belongs to no run. `trace`: the traceback of a bug in Barograph.
    `is_death`: the process ended by itself. `is_late`: it was killed at its limit of wall time."""

    blame: str
    message: str
    run_id: str = ""
    trace: str = ""
    is_death: bool = False
    is_late: bool = False

    def words(self) -> str:
        return f"{f'{self.run_id}: ' if self.run_id else ''}{self.blame.replace('_', ' ')}: {self.message}"

    def as_data(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "blame": self.blame, "message": self.message}


def failure_of(error: Exception, run_id: str = "") -> SimulationFailure:
    """Return the failure for an error, within the block that handles it."""
    blame = blame_of(error)
    return SimulationFailure(blame, message_of(error), run_id, traceback.format_exc() if blame == "harness" else "")


@dataclass(frozen=True)
class SimulatedRun:
    """A run to simulate, pickled as a whole. `folder`: the disks of its machines. `new_cluster`: see
    `simulated_context`."""

    series: Series
    run: PlannedRun
    folder: Path
    limit_s: float
    new_cluster: Callable[..., SimulatedCluster] = SimulatedCluster
    listener: Listener = field(default_factory=Silence)

    def do(self) -> SimulationFailure | None:
        """Attempt the run, in a process of the pool; return why it is not complete."""
        outcome = attempt_isolated(partial(_attempt, self), self.limit_s, self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        return _failed(self, _death(outcome, self.run.run_id)) if isinstance(outcome, Death) else outcome


class Job(Protocol):
    """Work for a process of the pool: a run, or a step before it. It is pickled."""

    def do(self) -> SimulationFailure | None: ...


SimulationPool = ProcessPool[Job, SimulationFailure | None]
J = TypeVar("J", bound=Job)
CellName = TypeVar("CellName")


def simulation_pool(number: int) -> SimulationPool:
    """Return a pool of at most `number` processes."""
    return ProcessPool(_do, number)


def _do(job: Job) -> SimulationFailure | None:
    return job.do()


def disks_of(series: Series, run_id: str) -> Path:
    """Return the folder for the machines' disks of a cell's run."""
    return series.folder / f"{CLUSTER}-{run_id}"


def missing_runs(series: Series, new_cluster: Callable[..., SimulatedCluster] = SimulatedCluster) -> list[SimulatedRun]:
    """Return the runs without a complete record of a series in memory, such as a point of a sweep."""
    complete, limit_s = series.complete(), step_limit("run", series.experiment).seconds
    return [
        SimulatedRun(series, run, disks_of(series, run.run_id), limit_s, new_cluster)
        for run in series.plan()
        if run.run_id not in complete
    ]


def simulate(
    pool: SimulationPool,
    jobs: Sequence[J],
    note: Callable[[J, SimulationFailure | None], None],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Do all jobs and pass each with its failure to `note`. `look` is called repeatedly, and may raise."""
    remainder = {id(job): job for job in jobs}
    try:
        for answer in pool.answers(jobs, LOOK_S):
            look()
            if answer is None:
                continue
            job, outcome = answer
            del remainder[id(job)]
            if isinstance(outcome, Death):
                _remove_disks(job)
                outcome = _failed(job, _death(outcome, job.run.run_id if isinstance(job, SimulatedRun) else ""))
            note(job, outcome)  # type: ignore[arg-type] # the pool returns the jobs that it was given
    finally:
        if remainder:
            pool.end()
        for each in remainder.values():
            _remove_disks(each)


def simulate_cells(
    pool: SimulationPool,
    cells: Mapping[CellName, Sequence[SimulatedRun]],
    end: Callable[[CellName, Sequence[SimulationFailure]], None],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Do the runs of several cells, cell by cell; call `end` with the failures of a cell once its runs are over."""
    failures = {cell: dict[str, SimulationFailure | None]() for cell in cells}
    cell_of = {id(run): cell for cell, runs in cells.items() for run in runs}

    def note(job: SimulatedRun, failure: SimulationFailure | None) -> None:
        cell = cell_of[id(job)]
        failures[cell][job.run.run_id] = failure
        if len(failures[cell]) == len(cells[cell]):
            in_order = (failures[cell][run.run.run_id] for run in cells[cell])
            end(cell, [each for each in in_order if each is not None])

    for cell, runs in cells.items():
        if not runs:
            end(cell, [])
    simulate(pool, [run for runs in cells.values() for run in runs], note, look)


def _attempt(job: SimulatedRun) -> SimulationFailure | None:
    if is_too_late(job.series):
        return None
    try:
        context = simulated_context(job.series, job.folder, job.listener, job.new_cluster)
    except Exception as error:  # such as that of a full disk; the other runs still begin
        log.warning("%s did not begin", job.run.run_id, exc_info=True)
        return _failed(job, failure_of(error, job.run.run_id))
    try:
        attempt_next_run(job.series, context, job.run)
    except Exception as error:  # noqa: BLE001 - the other runs go on
        log.warning("%s: %s", job.run.run_id, message_of(error))
        return failure_of(error, job.run.run_id)
    return None


def _death(death: Death, run_id: str) -> SimulationFailure:
    is_late = death.limit_s is not None
    return SimulationFailure(death.blame, death.words(), run_id, is_death=not is_late, is_late=is_late)


def _failed(job: Job, failure: SimulationFailure) -> SimulationFailure:
    """Log the failure of a run that could not report it itself."""
    if isinstance(job, SimulatedRun):
        job.listener.tell("run_failed", **failure.as_data(), again=False)
    return failure


def _remove_disks(job: Job) -> None:
    if isinstance(job, SimulatedRun):
        shutil.rmtree(job.folder, ignore_errors=True)


FOLLOWED = ("run_started", "run_ended", "run_failed", "message")


class Milestones:
    """A listener for several runs at once: a terminal follows when they begin and end, nothing more."""

    def __init__(self, series_dir: Path) -> None:
        self._file = ProgressFile(series_dir)

    def tell(self, kind: str, **facts: Any) -> None:
        if kind in FOLLOWED:
            self._file.tell(kind, **facts)


def simulate_series(series_dir: Path) -> bool:
    """Do every run that this execution of the series has to do, except those for which the deadline leaves no time.
    Returns whether every run is complete; the series' progress says why one is not. Raises Interrupted."""
    runs = runs_of_execution(series_dir)
    under_way, failures = set(runs), list[SimulationFailure]()
    with step(series_dir) as series, _kept_lease(series, len(runs)), simulation_pool(min(cores(), len(runs))) as pool:
        lease = saved_lease(series_dir)
        disks, listener = cluster_dir(lease.lease_id if lease else series.series_id), Milestones(series_dir)
        plan = {run.run_id: run for run in series.plan()}
        limit_s = step_limit("run", series.experiment).seconds
        jobs = [SimulatedRun(series, plan[name], disks / name, limit_s, listener=listener) for name in runs]

        def note(job: SimulatedRun, failure: SimulationFailure | None) -> None:
            failures.extend([failure] if failure else [])
            under_way.discard(job.run.run_id)
            send_now(series_dir, message_writer(series_dir), under_way)

        def look() -> None:
            if is_stopped(series):
                raise Interrupted(f"series {series.series_id} was asked to stop")

        simulate(pool, jobs, note, look)
    return not failures


@contextmanager
def _kept_lease(series: Series, runs: int) -> Iterator[None]:
    """Keep the lease alive however many runs there are, so that the reaper does not remove folders in use."""
    with keep_alive(series, max(runs, 1) * step_limit("run", series.experiment).seconds):
        prolong(series, series.experiment.lease_minutes)
        yield


OUTCOME_FILE = "point.json"


def open_cell(folder: Path, experiment: Experiment, facts: Mapping[str, Any], kept_in: Path | None = None) -> Series:
    """Open a cell: keep the complete runs of an earlier execution, and remove the folder of another experiment.
    `facts`: those of the campaign and the cell's labels, for its document. `kept_in`: the series that has the traces
    which its events follow."""
    if _is_of_other_experiment(folder, experiment):
        shutil.rmtree(folder, ignore_errors=True)
    (folder / OUTCOME_FILE).unlink(missing_ok=True)
    SeriesPaths(folder).runs.mkdir(parents=True, exist_ok=True)
    keep_traces(folder, trace_contents(experiment, kept_in))
    return write_series(folder, experiment, time.time(), facts)


def _is_of_other_experiment(folder: Path, experiment: Experiment) -> bool:
    """Return False where no document names the experiment: the folder's name has the experiment's digest."""
    try:
        document = read_json(SeriesPaths(folder).series_json)["spec"]
    except (RecordError, KeyError):
        return False
    return bool(document != json.loads(json.dumps(experiment.as_data())))


def end_cell(folder: Path, failures: Sequence[SimulationFailure]) -> None:
    """Mark the cell as over. Raises OSError where its folder cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json_atomic(folder / OUTCOME_FILE, {"v": 1, "failures": [each.as_data() for each in failures]})
    for each in failures:
        if each.trace:
            (folder / "failure.txt").write_text(each.trace, encoding="utf-8")


def failures_of(folder: Path) -> list[dict[str, Any]]:
    """Return the failures of a cell that is over."""
    try:
        return list(read_json(folder / OUTCOME_FILE)["failures"])
    except RecordError:
        return []


def state_of(folder: Path) -> str:
    """Return `complete`, `failed` (one of its runs failed), or `missing`, also where it was cut short."""
    if not (folder / OUTCOME_FILE).is_file():
        return "missing"
    return "failed" if failures_of(folder) else "complete"


def link_runs_of_cells(root: Path, cells: Mapping[str, Path]) -> dict[str, str]:
    """Link every complete run of the cells in `runs/` of a folder that is analysed as one, as `<cell>.<run>`; return
    the cell of each link."""
    links = {}
    for cell, folder in cells.items():
        for run in sorted(SeriesPaths(folder).runs.glob("*")):
            if is_complete(run):
                name = f"{cell}.{run.name}"
                (SeriesPaths(root).runs / name).symlink_to(os.path.relpath(run, SeriesPaths(root).runs), True)
                links[name] = cell
    return links
