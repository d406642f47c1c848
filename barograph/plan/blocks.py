"""The order of runs: blocks of every variant once, shuffled by the experiment's seed, so that slow drifts of the box
affect all variants alike; and the digest that identifies a series. Pure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

from barograph.plan.experiment import Experiment, Variant


@dataclass(frozen=True)
class PlannedRun:
    run_id: str  # <variant>-r<repetition>
    variant: Variant
    block: int  # from 1
    repetition: int  # from 1
    order: int  # place in the whole series, from 1
    seed: int  # one per block: the variants of a block see the same input


def plan_runs(experiment: Experiment) -> tuple[PlannedRun, ...]:
    """Return all runs of a series in their order; the same experiment gives the same order."""
    rng = Random(experiment.seed)
    runs: list[PlannedRun] = []
    for block in range(1, experiment.repetitions + 1):
        shuffled = rng.sample(experiment.variants, k=len(experiment.variants))
        for variant in shuffled:
            seed = experiment.seed + block - 1
            runs.append(PlannedRun(f"{variant.name}-r{block}", variant, block, block, len(runs) + 1, seed))
    return tuple(runs)


def next_run(plan: Sequence[PlannedRun], complete: Collection[str], tried: Collection[str] = ()) -> PlannedRun | None:
    """Return the first run without a complete record that this execution has not tried; None when nothing is left."""
    return next((run for run in plan if run.run_id not in complete and run.run_id not in tried), None)


def digest(experiment: Experiment) -> str:
    """Return eight hexadecimal digits of the request: a series is resumed only by the very same request."""
    return hashlib.sha256(request_text(experiment).encode()).hexdigest()[:8]


def request_text(experiment: Experiment) -> str:
    """Return `request_data` as text: the same text is the same request."""
    return json.dumps(request_data(experiment), sort_keys=True)


def request_data(experiment: Experiment) -> dict[str, Any]:
    """Return the request: an experiment's data without keys that make no other series."""
    data = experiment.as_data()
    for variant in data["variants"]:
        variant.get("code", {}).pop("label", None)  # a branch and its commit are the same code
    for event in data["events"]:
        if event["kind"] == "trace":
            del event["file"]  # identified by its digest, wherever it lies
    for options in data["testbed"]["options"].values():
        options.pop("budget_usd", None)  # a series that its budget stopped can resume with a larger one
    return data


def series_id(experiment: Experiment, now_s: float) -> str:
    """Return `<date>-<time>-<digest>` in UTC, which sorts by time."""
    return f"{stamp(now_s)}-{digest(experiment)}"


STAMP = "%Y%m%d-%H%M%S"
STAMP_CHARACTERS = 15


def stamp(now_s: float) -> str:
    """Return the time in UTC, with which the names of series, nights and searches begin, so that they sort by time."""
    return datetime.fromtimestamp(now_s, UTC).strftime(STAMP)


def stamp_time(name: str) -> datetime | None:
    """Return the time in such a name; None where there is none."""
    try:
        return datetime.strptime(name[:STAMP_CHARACTERS], STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
