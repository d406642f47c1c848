"""A recorded run (its experiment, its seed, when its events happened, where its tasks were at the start), the choice of
policies to simulate on it, and their simulation side by side in processes.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from analysis.record.event_timeline import event_times
from analysis.record.files import RunPaths, SeriesPaths, read_json
from barograph.campaign.simulation import (
    SimulationFailure,
    SimulationPool,
    link_runs_of_cells,
    missing_runs,
    open_cell,
    simulate_cells,
    simulation_pool,
)
from barograph.errors import BarographError, ExperimentError, Say
from barograph.plan.experiment import FOREIGN, Experiment, Variant, from_data, with_changes
from barograph.run.simulated_cluster import RecordedStart, StartedCluster, start_of
from barograph.series.results import avro_jars, results_of
from barograph.series.series import Series, find_series
from barograph.settings import spark_master
from barograph.testbeds.checks import check, in_memory, unanswered_events
from scheduler_plugins.policies import POLICIES, PolicyError, bind
from scheduler_plugins.replay import read_rounds

LEAST_AFTER_S = 60.0  # for what follows an event that lasts (docs/experiments.md)


@dataclass(frozen=True)
class Recording:
    """A run as it happened. `gaps_s`: from the first tuple to the first event's zero, from each zero to the next, and
    from the last to the end of its watch. `series`: with its raw lines, from a bucket a copy that exists during the
    block; `home`: the folder beside whose runs its page stays."""

    run: Path
    series: Path
    run_id: str
    seed: int
    experiment: Experiment
    variant: Variant
    gaps_s: tuple[float, ...]
    start: RecordedStart
    home: Path


@contextmanager
def recording_of(said: str) -> Iterator[Recording]:
    """Yield the run of a folder, or of `SERIES/RUN`. Raises ExperimentError, RecordError."""
    run = find_run(said)
    series = run.parents[1]
    if any((run / part).is_dir() for part in ("workers", "machines")):
        yield read_recording(run, series)
        return
    with results_of(series).whole(series) as copy:  # its raw lines are in a bucket
        yield replace(read_recording(copy / "runs" / run.name, copy), home=series)


def find_run(said: str) -> Path:
    """Return the folder of a run, named by that or by `SERIES/RUN`. Raises ExperimentError."""
    path = Path(said)
    if (path / "run.json").is_file():
        return path.absolute()
    series_name, _, run_id = said.rstrip("/").rpartition("/")
    if not series_name:
        raise ExperimentError(f"no run {said!r}; give its folder, or SERIES/RUN, such as stela/star/stela-r1")
    series = find_series(series_name.removesuffix("/runs"))
    run = series / "runs" / run_id
    if not (run / "run.json").is_file():
        names = ", ".join(sorted(each.parent.name for each in series.glob("runs/*/run.json"))) or "none"
        raise ExperimentError(f"{series} has no run {run_id!r}; its runs are {names}")
    return run


def read_recording(run: Path, series: Path) -> Recording:
    """Read a recording. Raises ExperimentError where the run was not complete, or its record is insufficient."""
    document = read_json(RunPaths(run).run_json)
    if document.get("status") != "complete":
        raise ExperimentError(
            f"{run} is {document.get('status')!r}; allowed: a run that is complete, for only its events all happened"
        )
    try:
        experiment = from_data(document["spec"])
        data = document["variant"]
        variant = next(each for each in experiment.variants if each.name == data["name"])
        run_id, seed = str(document["run_id"]), int(document["seed"])
        start = start_of(list(read_rounds(RunPaths(run).decisions)), experiment.topologies_at_start(), document)
    except (KeyError, TypeError, ValueError, StopIteration) as error:
        raise ExperimentError(
            f"{run}/run.json does not say what was run ({error!r}); give one that Barograph ran, not one of `read`"
        ) from error
    topologies = experiment.topologies_of(variant)
    changes = {"topologies": topologies} if experiment.topologies else {"topology": topologies[0]}
    experiment = replace(experiment, **changes, variants=(replace(variant, topology=None, topologies={}),))
    times, events = event_times(RunPaths(run)), [f"e{place}" for place in range(1, len(experiment.events) + 1)]
    if missing := [name for name in ("first_tuple", *events) if name not in times]:
        raise ExperimentError(f"{run}/events.jsonl does not say when {', '.join(missing)} was; give another run")
    ends = [phase["end_s"] for phase in document.get("phases", ()) if phase["name"] == "after" and phase["end_s"]]
    moments = [times["first_tuple"], *(times[name] for name in events)]
    moments.append(max(ends[-1] if ends else 0.0, moments[-1] + 1.0))
    gaps_s = tuple(later - earlier for earlier, later in pairwise(moments))
    home = series if run.parent.name == "runs" else run.parent  # for a run that was copied out of its series
    return Recording(run, series, run_id, seed, experiment, experiment.variants[0], gaps_s, start, home)


def as_simulated(recording: Recording, options: Mapping[str, Any] | None, at_s: Sequence[float]) -> Experiment:
    """Return the recorded experiment on the simulated testbed, once, its events at these times. Raises
    ExperimentError."""
    experiment = recording.experiment
    events = [replace(event, at=at) for event, at in zip(experiment.events, at_s, strict=True)]
    last_event = experiment.events[-1]
    watch_s = float(
        ceil(max(recording.gaps_s[-1], last_event.planned_s + LEAST_AFTER_S if last_event.planned_s else 0.0))
    )
    longest_s = max(experiment.durations.warm_up_ceiling_s, watch_s)
    durations = replace(experiment.durations, warm_up_ceiling_s=longest_s, after_floor_s=watch_s, horizon_s=watch_s)
    experiment_in_memory = replace(
        experiment, events=tuple(events), durations=durations, repetitions=1, seed=recording.seed, claims=(),
        testbed=in_memory(experiment.testbed),
    )  # fmt: skip
    return with_changes(from_data(experiment_in_memory.as_data()), {"options": dict(options) if options else None})


RECORDED = "recorded"  # the link to the recorded run
CLOSE_S = 0.75  # an event this near to its recorded time is accepted
LEAST_AT_S = 1.0
CORRECTIONS = 2
PREFIX, LOCK = "barograph-counterfactual-", ".lock"
YOUNG_S = 60.0  # for a folder whose process may not have taken its lock yet


@dataclass(frozen=True)
class Simulated:
    """The simulated runs. `folder`: with a link to the recorded run and each simulated one in `runs/`. `variants`: by
    the name of the link. `failed`: by variant, its failure. `late_s`: by the name of the link, the delay of each event
    against the record."""

    folder: Path
    variants: Mapping[str, Variant]
    failed: Mapping[str, str]
    late_s: Mapping[str, tuple[float, ...]]


def variants_for(
    recording: Recording, policies: Sequence[str], parameters: Mapping[str, Any]
) -> tuple[tuple[Variant, ...], dict[str, str]]:
    """Return the variants to simulate, the recorded one first, and why others are left out, if nobody named any.

    `policies`: names of policies, or of variants of the experiment; none: the experiment's variants and every policy
    that answers the run's events. Raises ExperimentError for names that are neither, or do not answer them.
    """
    spec = from_data(read_json(RunPaths(recording.run).run_json)["spec"])
    experiment_variants = {each.name: replace(each, topology=None, topologies={}) for each in spec.variants}
    if parameters and len(policies) != 1:
        raise ExperimentError("--parameter is for one --policy; name that one policy alone")
    if not policies:
        names = [
            *experiment_variants,
            *(name for name in POLICIES if name not in {each.policy for each in experiment_variants.values()}),
        ]
        selection: list[Variant] = []
        left_out: dict[str, str] = {}
        for name in names:
            variant = experiment_variants.get(name) or Variant(name, name)
            why = _refusal(recording, variant)
            selection += [] if why else [variant]
            left_out |= {name: why} if why else {}
        return _recorded_first(recording, selection), left_out
    selection = []
    for name in dict.fromkeys(policies):
        if name not in {*experiment_variants, *POLICIES}:
            raise ExperimentError(
                f"--policy is {name!r}; known are the policies {', '.join(sorted(POLICIES))}, and the run's variants"
                f" {', '.join(experiment_variants)}"
            )
        variant = experiment_variants.get(name) or Variant(name, name)
        selection.append(replace(variant, parameters={**variant.parameters, **parameters}) if parameters else variant)
    if refusals := [why for variant in selection if (why := _refusal(recording, variant))]:
        raise ExperimentError("; ".join(refusals))
    return _recorded_first(recording, selection), {}


def _recorded_first(recording: Recording, chosen: Sequence[Variant]) -> tuple[Variant, ...]:
    mine = recording.variant
    if _refusal(recording, mine):
        return tuple(chosen)
    return (mine, *(each for each in chosen if (each.policy, each.parameters) != (mine.policy, mine.parameters)))


def _refusal(recording: Recording, variant: Variant) -> str:
    """Return why the variant cannot be simulated on this run's events; empty where it can."""
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
    """Simulate and analyse; the folder is removed after the block. Raises ExperimentError where the experiment cannot
    be simulated, and the failure of the first variant."""
    from analysis.pipeline import analyse_runs

    if not variants:
        raise ExperimentError("no policy can be simulated on this run; name one with --policy")
    with scratch_folder() as folder, simulation_pool(jobs) as pool:
        SeriesPaths(folder).runs.mkdir()
        (SeriesPaths(folder).runs / RECORDED).symlink_to(recording.run, target_is_directory=True)
        # Joining machines and awaited samples come before an event's zero.
        at_s = [max(LEAST_AT_S, gap) for gap in recording.gaps_s[:-1]]
        for attempt in range(1, CORRECTIONS + 2):
            say(f"simulating {variants[0].name}{', with its events where they were' if attempt > 1 else ''}")
            first = _open_cells(recording, variants[:1], options, at_s, folder)
            for failure in _simulate(pool, recording, first).values():
                raise BarographError(failure.message, failure.blame)
            (run,) = SeriesPaths(first[1].folder).all_runs()
            late_s = _lateness(recording, run)
            if attempt > CORRECTIONS or all(abs(delay_s) <= CLOSE_S for delay_s in late_s):
                break
            at_s = [max(LEAST_AT_S, at - delay_s) for at, delay_s in zip(at_s, late_s, strict=True)]
        cells = _open_cells(recording, variants, options, at_s, folder)
        if names := [variant.name for variant in variants[1:]]:
            say(f"simulating {', '.join(names)}")
        failures = _simulate(pool, recording, cells)
        pool.end()
        links = link_runs_of_cells(folder, {f"{number:02d}": series.folder for number, series in cells.items()})
        say("analysing the recorded run and the simulated ones in one Spark session")
        analyse_runs(folder, spark_master(), jars=avro_jars(SeriesPaths(folder), say))
        delays_s = {name: tuple(_lateness(recording, SeriesPaths(folder).run(name))) for name in links}
        messages = {variants[number - 1].name: failure.message for number, failure in sorted(failures.items())}
        of = {name: cells[int(number)].experiment.variants[0] for name, number in links.items()}
        yield Simulated(folder, of, messages, delays_s)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder for the block, and first remove those of killed processes."""
    remove_left_over()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as scratch, FileLock(Path(scratch) / LOCK):
        yield Path(scratch)


def remove_left_over() -> None:
    """Remove this user's folders whose process has ended: then the kernel has ended its lock."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError, Timeout):
            facts = folder.lstat()
            is_ours = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
            if is_ours and time.time() - facts.st_mtime > YOUNG_S:
                with FileLock(folder / LOCK, timeout=0):
                    shutil.rmtree(folder)


def _open_cells(
    recording: Recording, variants: Sequence[Variant], options: Mapping[str, Any] | None, at_s: Sequence[float],
    folder: Path,
) -> dict[int, Series]:  # fmt: skip
    """Return a cell for each variant, by its number. Complete cells stay as they are."""
    experiment = as_simulated(recording, options, at_s)
    facts = {"counterfactual_of": recording.run_id}
    cells = {}
    for number, variant in enumerate(variants, start=1):
        mine = replace(experiment, variants=(variant,))
        check(mine)
        cells[number] = open_cell(folder / "points" / f"{number:02d}", mine, facts, recording.series)
    return cells


def _simulate(pool: SimulationPool, recording: Recording, cells: Mapping[int, Series]) -> dict[int, SimulationFailure]:
    """Return the first failure of each cell that has one."""
    failures: dict[int, SimulationFailure] = {}

    def end(number: int, failed: Sequence[SimulationFailure]) -> None:
        failures.update({number: failed[0]} if failed else {})

    new_cluster = partial(StartedCluster, start=recording.start)
    simulate_cells(pool, {number: missing_runs(series, new_cluster) for number, series in cells.items()}, end)
    return failures


def _lateness(recording: Recording, run: RunPaths) -> list[float]:
    """Return the delay of each event in seconds, after the event before."""
    times = event_times(run)
    moments = [times["first_tuple"], *(times[f"e{place}"] for place in range(1, len(recording.gaps_s)))]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    return [gap - recorded for gap, recorded in zip(gaps, recording.gaps_s, strict=False)]
