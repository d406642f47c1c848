"""Which policies are simulated on a recorded run, and their simulation side by side in processes."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from analysis.record.files import RunPaths, SeriesPaths, read_json
from barograph.counterfactual.recording import Recording, as_simulated, event_times
from barograph.errors import BarographError, ExperimentError, Say, message_of
from barograph.plan.experiment import FOREIGN, Variant, from_data
from barograph.plan.sweep import Point
from barograph.pool import Death, Pool
from barograph.series.results import avro_jars
from barograph.settings import spark_master
from barograph.sweep.point import PointJob, PointOutcome, do
from barograph.testbeds.checks import check, unanswered_events
from scheduler_plugins.policies import POLICIES, PolicyError, bind

RECORDED = "recorded"  # the link to the recorded run
CLOSE_S = 0.75  # an event that is so near to its recorded time is there
LEAST_AT_S = 1.0
CORRECTIONS = 2
PREFIX, LOCK = "barograph-counterfactual-", ".lock"
YOUNG_S = 60.0  # of a folder whose process may not have taken its lock yet
LOCKLESS_S = 86_400.0  # of one of an older version, which took none


@dataclass(frozen=True)
class Simulated:
    """`folder`: with a link to the recorded run and each simulated one in `runs/`. `variants`: by the name of the link.
    `failed`: by variant, what failed. `late_s`: by the name of the link, how much later than recorded each event
    comes."""

    folder: Path
    variants: Mapping[str, Variant]
    failed: Mapping[str, str]
    late_s: Mapping[str, tuple[float, ...]]


def variants_for(
    recording: Recording, policies: Sequence[str], parameters: Mapping[str, Any]
) -> tuple[tuple[Variant, ...], dict[str, str]]:
    """What is simulated, the recorded variant first; and why some of those that nobody named are not.

    `policies`: names of policies, or of variants of the experiment; none: the experiment's variants and every policy
    that answers the run's events. Raises ExperimentError for names that are neither, or do not answer them.
    """
    spec = from_data(read_json(RunPaths(recording.run).run_json)["spec"])
    known = {each.name: replace(each, topology=None) for each in spec.variants}
    if parameters and len(policies) != 1:
        raise ExperimentError("--parameter is for one --policy; name that one policy alone")
    if not policies:
        names = [*known, *(name for name in POLICIES if name not in {each.policy for each in known.values()})]
        chosen: list[Variant] = []
        left_out: dict[str, str] = {}
        for name in names:
            variant = known.get(name) or Variant(name, name)
            why = _refusal(recording, variant)
            chosen += [] if why else [variant]
            left_out |= {name: why} if why else {}
        return _recorded_first(recording, chosen), left_out
    chosen = [_named(name, known, parameters) for name in dict.fromkeys(policies)]
    if wrong := [why for variant in chosen if (why := _refusal(recording, variant))]:
        raise ExperimentError("; ".join(wrong))
    return _recorded_first(recording, chosen), {}


def _named(name: str, known: Mapping[str, Variant], parameters: Mapping[str, Any]) -> Variant:
    if name in known:
        mine = known[name]
        return replace(mine, parameters={**mine.parameters, **parameters}) if parameters else mine
    if name not in POLICIES:
        raise ExperimentError(
            f"--policy is {name!r}; known are the policies {', '.join(sorted(POLICIES))}, and the run's variants"
            f" {', '.join(known)}"
        )
    return Variant(name, name, parameters)


def _recorded_first(recording: Recording, chosen: Sequence[Variant]) -> tuple[Variant, ...]:
    mine = recording.variant
    if _refusal(recording, mine):
        return tuple(chosen)
    return (mine, *(each for each in chosen if (each.policy, each.parameters) != (mine.policy, mine.parameters)))


def _refusal(recording: Recording, variant: Variant) -> str:
    """Why it cannot be simulated on this run's events; empty where it can."""
    if variant.code is not None or variant.policy == FOREIGN:
        return f"{variant.name} has code of its own, and the simulator has the policies of the work tree only"
    try:
        bind(variant.policy, variant.configured())
    except PolicyError as error:
        return str(error)
    return unanswered_events(recording.experiment, variant.policy, POLICIES[variant.policy].events)


@contextmanager
def simulated(
    recording: Recording, variants: Sequence[Variant], options: Mapping[str, Any] | None, jobs: int, say: Say
) -> Iterator[Simulated]:
    """Simulate and analyse; what is in the folder goes with the block. Raises ExperimentError where the experiment
    cannot be simulated, and what kept the first variant from being simulated."""
    if not variants:
        raise ExperimentError("no policy can be simulated on this run; name one with --policy")
    with scratch_folder() as folder, Pool(do, jobs) as pool:
        SeriesPaths(folder).runs.mkdir()
        (SeriesPaths(folder).runs / RECORDED).symlink_to(recording.run, target_is_directory=True)
        at_s = _first_guess(recording)
        for attempt in range(1, CORRECTIONS + 2):
            say(f"simulating {variants[0].name}{', with its events where they were' if attempt > 1 else ''}")
            jobs_of_first = _jobs(recording, variants[:1], options, at_s, folder)
            (failed,) = [_failure(answer) for answer in _answers(pool, jobs_of_first)]
            if failed is not None:
                raise failed
            (run,) = SeriesPaths(jobs_of_first[0].folder).all_runs()
            late_s = _lateness(recording, run)
            if attempt > CORRECTIONS or all(abs(late) <= CLOSE_S for late in late_s):
                break
            at_s = [max(LEAST_AT_S, at - late) for at, late in zip(at_s, late_s, strict=True)]
        others = _jobs(recording, variants, options, at_s, folder)[1:]
        if others:
            say(f"simulating {', '.join(job.point.experiment.variants[0].name for job in others)}")
        failures = {
            job.point.experiment.variants[0].name: message_of(error)
            for job, error in zip(others, map(_failure, _answers(pool, others)), strict=True)
            if error is not None
        }
        pool.end()
        links = _link(folder, [*jobs_of_first, *others])
        _analyse(folder, say)
        late = {name: tuple(_lateness(recording, SeriesPaths(folder).run(name))) for name in links}
        yield Simulated(folder, links, failures, late)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that goes with the block, and before it what processes that were killed have left."""
    remove_left_over()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as scratch, FileLock(Path(scratch) / LOCK):
        yield Path(scratch)


def remove_left_over() -> None:
    """Folders of this user whose process has ended: then the kernel has ended its lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, Timeout):
            if _may_be_left(folder):
                with FileLock(folder / LOCK, timeout=0):
                    shutil.rmtree(folder)


def _may_be_left(folder: Path) -> bool:
    facts = folder.lstat()
    age_s = time.time() - facts.st_mtime
    old_enough = age_s > (YOUNG_S if (folder / LOCK).is_file() else LOCKLESS_S)
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and old_enough


def _first_guess(recording: Recording) -> list[float]:
    """Machines that join, and samples that are waited for, come before an event's zero."""
    return [max(LEAST_AT_S, gap) for gap in recording.gaps_s[:-1]]


def _jobs(
    recording: Recording, variants: Sequence[Variant], options: Mapping[str, Any] | None, at_s: Sequence[float],
    folder: Path,
) -> list[PointJob]:  # fmt: skip
    experiment = as_simulated(recording, options, at_s)
    facts = {"counterfactual_of": recording.run_id}
    jobs = []
    for number, variant in enumerate(variants, start=1):
        mine = replace(experiment, variants=(variant,))
        check(mine)
        point = Point(number, {}, mine)
        jobs.append(PointJob(point, folder / "points" / f"{number:02d}", facts, recording.start, recording.series))
    return jobs


def _answers(pool: Pool[Any, PointOutcome], jobs: Sequence[PointJob]) -> list[PointOutcome | Death]:
    """In the order of the jobs."""
    found = {answer[0].point.number: answer[1] for answer in pool.answers(jobs) if answer is not None}
    return [found[job.point.number] for job in jobs]


class NotSimulated(BarographError):
    pass


def _failure(outcome: PointOutcome | Death) -> NotSimulated | None:
    if isinstance(outcome, Death):
        return NotSimulated(outcome.words(), outcome.blame)
    return NotSimulated(outcome.failures[0].message, outcome.failures[0].blame) if outcome.failures else None


def _lateness(recording: Recording, run: RunPaths) -> list[float]:
    """How many seconds later than recorded each event came, after what it counts from."""
    times = event_times(run.root)
    moments = [times["first_tuple"], *(times[f"e{place}"] for place in range(1, len(recording.gaps_s)))]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    return [gap - recorded for gap, recorded in zip(gaps, recording.gaps_s, strict=False)]


def _link(folder: Path, jobs: Sequence[PointJob]) -> dict[str, Variant]:
    links = {}
    for job in jobs:
        for run in SeriesPaths(job.folder).all_runs():
            if read_json(run.run_json).get("status") == "complete":
                name = f"{job.point.number:02d}.{run.run_id}"
                (SeriesPaths(folder).runs / name).symlink_to(run.root, target_is_directory=True)
                links[name] = job.point.experiment.variants[0]
    return links


def _analyse(folder: Path, say: Say) -> None:
    from analysis.pipeline import analyse_runs

    say("analysing the recorded run and the simulated ones in one Spark session")
    analyse_runs(folder, spark_master(), jars=avro_jars(SeriesPaths(folder), say))
