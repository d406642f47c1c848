"""The runs of a simulated series side by side in processes, where no DAG asks for one after the other.

Simulated machines belong to nobody and each run has its own clock, so runs do not disturb one another and need no
cleaning between them. Each run has its own process, which ends with it: a policy that hangs does not slow later runs.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from barograph.errors import Interrupted, blame_of, message_of
from barograph.machines.series_lease import keep_alive, prolong, saved_lease
from barograph.plan.durations import step_limit
from barograph.pool import Death, Pool, cores
from barograph.run.context import simulated_context
from barograph.run.simulated_cluster import attempt_in_own_process
from barograph.series.interruption import is_stopped, limited, step
from barograph.series.progress import ProgressFile
from barograph.series.results import send_now
from barograph.series.series import Series, read_series
from barograph.series_steps import attempt_next_run, is_too_late, message_writer, runs_of_execution
from barograph.settings import cluster_dir

log = logging.getLogger(__name__)
LOOK_S = 0.5
AFTER_LIMIT_S = 60.0  # the limit inside the process speaks first, where it is heard
FOLLOWED = ("run_started", "run_ended", "run_failed", "message")


@dataclass(frozen=True)
class RunJob:
    series_dir: Path
    run_id: str


class Milestones:
    """Of several runs at once a terminal can follow when they begin and end, and no more."""

    def __init__(self, series_dir: Path) -> None:
        self._file = ProgressFile(series_dir)

    def tell(self, kind: str, **facts: Any) -> None:
        if kind in FOLLOWED:
            self._file.tell(kind, **facts)


def simulate_runs(series_dir: Path) -> bool:
    """Do every run that this execution of the series has to do, but for those that a deadline leaves no time for.

    Returns whether each is complete; the series' progress says why one is not. Raises Interrupted.
    """
    jobs = [RunJob(series_dir, run_id) for run_id in runs_of_execution(series_dir)]
    answers = []
    under_way = {job.run_id for job in jobs}
    with step(series_dir) as series, _kept_lease(series, len(jobs)), Pool(do, min(cores(), len(jobs))) as pool:
        for answer in pool.answers(jobs, LOOK_S):
            if is_stopped(series):
                raise Interrupted(f"series {series.series_id} was asked to stop")
            if answer is not None:
                job, is_done = answer
                answers.append(_report_death(job, is_done) if isinstance(is_done, Death) else is_done)
                under_way.discard(job.run_id)
                send_now(series_dir, message_writer(series_dir), under_way)
    return all(answers)


@contextmanager
def _kept_lease(series: Series, runs: int) -> Iterator[None]:
    """However many runs there are: whoever reaps what is left over must not take the folders of those that go on."""
    with keep_alive(series, max(runs, 1) * step_limit("run", series.experiment).seconds):
        prolong(series, series.experiment.lease_minutes)
        yield


def do(job: RunJob) -> bool:
    """In a process of the pool: whether nothing failed."""
    series = read_series(job.series_dir)
    cluster, limit_s = _cluster(series, job.run_id), step_limit("run", series.experiment).seconds + AFTER_LIMIT_S
    is_done = attempt_in_own_process(partial(_attempt, job), limit_s, cluster)
    shutil.rmtree(cluster, ignore_errors=True)
    return _report_death(job, is_done) if isinstance(is_done, Death) else is_done


def _report_death(job: RunJob, death: Death) -> bool:
    return _report(job, death.blame, death.words())


def _report(job: RunJob, blame: str, message: str) -> bool:
    failure = {"run_id": job.run_id, "blame": blame, "message": message, "again": False}
    ProgressFile(job.series_dir).tell("run_failed", **failure)
    return False


def _attempt(job: RunJob) -> bool:
    series = read_series(job.series_dir)
    if is_too_late(series):
        return True
    run = next(run for run in series.plan() if run.run_id == job.run_id)
    try:
        context = simulated_context(series, _cluster(series, run.run_id), Milestones(series.folder))
    except Exception as error:  # as of a disk that is full; no other run is kept from beginning
        log.warning("%s did not begin", run.run_id, exc_info=True)
        return _report(job, blame_of(error), message_of(error))
    try:
        with limited("run", step_limit("run", series.experiment).seconds):
            attempt_next_run(series, context, run)
    except Exception as error:  # noqa: BLE001 - it is told whose failure it is, and the other runs go on
        log.warning("%s: %s", run.run_id, message_of(error))
        return False
    return True


def _cluster(series: Series, run_id: str) -> Path:
    """What the run's machines have on their disks; goes with the lease."""
    lease = saved_lease(series.folder)
    return cluster_dir(lease.lease_id if lease else series.series_id) / run_id
