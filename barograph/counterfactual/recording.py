"""A recorded run, read for its simulation: its experiment, its seed, when its events happened, and where its tasks were
at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

from analysis.record.event_timeline import event_times
from analysis.record.files import RunPaths, read_json
from barograph.errors import ExperimentError
from barograph.plan.experiment import Experiment, Variant, from_data, with_changes
from barograph.run.simulated_cluster import RecordedStart, start_of
from barograph.series.results import results_of
from barograph.series.series import find_series
from barograph.testbeds.checks import in_memory
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
    experiment = replace(experiment, **changes, variants=(replace(variant, topology=None),))
    gaps_s = _gaps(run, document, experiment)
    home = series if run.parent.name == "runs" else run.parent  # for a run that was copied out of its series
    return Recording(run, series, run_id, seed, experiment, experiment.variants[0], gaps_s, start, home)


def _gaps(run: Path, document: Mapping[str, Any], experiment: Experiment) -> tuple[float, ...]:
    """Return `Recording.gaps_s`."""
    times = event_times(RunPaths(run))
    events = [f"e{place}" for place in range(1, len(experiment.events) + 1)]
    if missing := [name for name in ("first_tuple", *events) if name not in times]:
        raise ExperimentError(f"{run}/events.jsonl does not say when {', '.join(missing)} was; give another run")
    ends = [phase["end_s"] for phase in document.get("phases", ()) if phase["name"] == "after" and phase["end_s"]]
    moments = [times["first_tuple"], *(times[name] for name in events)]
    moments.append(max(ends[-1] if ends else 0.0, moments[-1] + 1.0))
    return tuple(later - earlier for earlier, later in pairwise(moments))


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
