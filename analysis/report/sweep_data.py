"""Data of the page of a sweep: `sweep.json`, and the metrics of every run that the sweep's folder links to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any

from analysis.metrics.definitions import CONVERGENCE, SWEPT
from analysis.record import small_tables, sweep_record
from analysis.record.files import SeriesPaths, read_json
from analysis.record.small_tables import Row
from analysis.record.sweep_record import OTHER_CODE, REPLICATES, SWEEP_FILE, is_mixed, point_of
from analysis.stats import survival
from barograph.errors import ConfigurationError


@dataclass(frozen=True)
class SweepAxis:
    """`steps`: of each step the value of every path."""

    paths: tuple[str, ...]
    steps: tuple[tuple[Any, ...], ...]

    @property
    def name(self) -> str:
        return self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} (with {', '.join(self.paths[1:])})"

    @property
    def is_replicate(self) -> bool:
        return all(path in REPLICATES for path in self.paths)

    @property
    def is_numeric(self) -> bool:
        return all(isinstance(step[0], int | float) and not isinstance(step[0], bool) for step in self.steps)

    def words(self, step: int) -> str:
        """`machines.before = 10`, by the last two keys of the field."""
        return f"{short_name(self.paths[0])} = {self.steps[step][0]}"


def short_name(path: str) -> str:
    """The end of a path that a figure has room for."""
    return ".".join(path.split(".")[-2:])


@dataclass(frozen=True)
class SweepRun:
    """One number of one run; `steps`: the place of its point on every axis."""

    point: int
    steps: tuple[int, ...]
    run_id: str
    variant: str
    event_id: str
    metric: str
    value: float
    censored: bool
    steady: bool | None


@dataclass(frozen=True)
class Summary:
    """Of runs that differ by seed and repetition alone: the mean, or of times of convergence Kaplan and Meier's median,
    None where it was not reached: it is longer than `largest` then. `low`, `high`: the smallest and the largest run,
    None where it may be one that never got there; of a model there is no interval."""

    value: float | None
    low: float | None
    largest: float  # time or horizon
    number: int
    unreached: int  # runs of these whose value is a horizon, and no time
    not_steady: int  # runs of these that were not steady on a side that the metric rests on

    @property
    def high(self) -> float | None:
        return None if self.unreached else self.largest

    @property
    def at_least(self) -> float | None:
        """Return how far the range goes at least, where there is no largest run."""
        return self.largest if self.unreached else None


@dataclass(frozen=True)
class SweepData:
    experiment: str
    title: str
    sweep_id: str
    axes: tuple[SweepAxis, ...]
    points: int
    variants: tuple[str, ...]
    events: Mapping[str, str]  # id → what happens
    runs: tuple[SweepRun, ...]
    failures: tuple[Row, ...]
    other_code: str = ""  # that runs are of other code than the rest, in a sentence

    def metrics(self, event_id: str) -> tuple[str, ...]:
        found = {run.metric for run in self.runs if run.event_id == event_id}
        return tuple(name for name in SWEPT if name in found)


def summary(runs: Sequence[SweepRun]) -> Summary:
    """One or more runs of one metric."""
    values, horizons = [run.value for run in runs], [run.censored for run in runs]
    is_time = runs[0].metric.startswith(CONVERGENCE)
    smallest, is_horizon = min(zip(values, horizons, strict=True))  # of equal ones the time is the smaller
    return Summary(
        value=survival.median(values, horizons) if is_time else fmean(values),
        low=None if is_horizon else smallest,
        largest=max(values),
        number=len(runs),
        unreached=sum(horizons),
        not_steady=sum(run.steady is False for run in runs),
    )


def collect(paths: SeriesPaths) -> SweepData:
    """Raises ConfigurationError where nothing was analysed."""
    document = read_json(paths.root / SWEEP_FILE)
    axes = tuple(SweepAxis(tuple(a["paths"]), tuple(tuple(step) for step in a["steps"])) for a in document["axes"])
    places = list(product(*(range(len(axis.steps)) for axis in axes)))
    described = {row["run_id"]: row for row in small_tables.rows(paths, "runs")}
    if not described:
        raise ConfigurationError(f"{paths.root} has no tables; give the command of the sweep again")
    found = (row for row in sweep_record.measurements(paths) if row["metric"] in SWEPT)
    runs = tuple(_run(row, described[row["run_id"]]["variant"], places) for row in found)
    return SweepData(
        experiment=document["experiment"],
        title=document["title"],
        sweep_id=paths.root.name,
        axes=axes,
        points=len(document["points"]),
        variants=tuple(document["variants"]),
        events=document["events"],
        runs=tuple(sorted(runs, key=lambda run: (run.point, run.variant, run.run_id, run.event_id, run.metric))),
        failures=tuple(document.get("failures", ())),
        other_code=_other_code(document, len(described)),
    )


def _other_code(document: Row, runs: int) -> str:
    others = document.get(OTHER_CODE, {})
    if not others:
        return ""
    other, theirs = sum(others.values()), ", ".join(f"{number} of {words}" for words, number in others.items())
    return (
        f"{other} of {runs} runs are of other code ({theirs}) than the latest execution's ({document['code']})"
        f"{', so a curve may be of both' if is_mixed(others, runs) else ''}; --new begins anew."
    )


def _run(row: Row, variant: str, places: Sequence[tuple[int, ...]]) -> SweepRun:
    point = point_of(row["run_id"])
    return SweepRun(
        point, places[point - 1], row["run_id"].partition(".")[2], variant, row["event_id"], row["metric"],
        row["value"], bool(row["censored"]), row["steady"],
    )  # fmt: skip
