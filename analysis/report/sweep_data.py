"""Data of the page of a sweep: `sweep.json`, and the metrics of every run that the sweep's folder links to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from analysis.metrics.definitions import CONVERGENCE, SWEPT
from analysis.record import small_tables, sweep_record
from analysis.record.files import SeriesPaths, read_json
from analysis.record.small_tables import Row
from analysis.record.sweep_record import OTHER_CODE, REPLICATES, SWEEP_FILE, is_mixed, point_of
from analysis.stats.effect import Summary, summary
from barograph.errors import ConfigurationError


@dataclass(frozen=True)
class SweepAxis:
    """A swept field; `steps`: for each step the value of every path."""

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
        """Return `machines.before = 10`, by the last two keys of the field."""
        return f"{short_name(self.paths[0])} = {self.steps[step][0]}"


def short_name(path: str) -> str:
    """Return the end of a path, short enough for a figure."""
    return ".".join(path.split(".")[-2:])


@dataclass(frozen=True)
class SweepRun:
    """A number of one run; `steps`: the place of its point on every axis."""

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
class SweepData:
    experiment: str
    title: str
    sweep_id: str
    axes: tuple[SweepAxis, ...]
    points: int
    variants: tuple[str, ...]
    events: Mapping[str, str]  # id → kind of event
    runs: tuple[SweepRun, ...]
    failures: tuple[Row, ...]
    other_code: str = ""  # a sentence about runs of other code than the rest

    def metrics(self, event_id: str) -> tuple[str, ...]:
        names = {run.metric for run in self.runs if run.event_id == event_id}
        return tuple(name for name in SWEPT if name in names)


def summary_of(runs: Sequence[SweepRun]) -> Summary:
    """Return the summary of runs of one metric that differ by seed and repetition alone."""
    of_times = runs[0].metric.startswith(CONVERGENCE)
    count = sum(run.steady is False for run in runs)
    return summary([run.value for run in runs], [run.censored for run in runs], mean=not of_times, unsteady=count)


def collect(paths: SeriesPaths) -> SweepData:
    """Return the data of a sweep. Raises ConfigurationError if nothing was analysed."""
    document = read_json(paths.root / SWEEP_FILE)
    axes = tuple(SweepAxis(tuple(a["paths"]), tuple(tuple(step) for step in a["steps"])) for a in document["axes"])
    places = list(product(*(range(len(axis.steps)) for axis in axes)))
    descriptions = {row["run_id"]: row for row in small_tables.rows(paths, "runs")}
    if not descriptions:
        raise ConfigurationError(f"{paths.root} has no tables; give the command of the sweep again")
    measurements = (row for row in sweep_record.measurements(paths) if row["metric"] in SWEPT)
    runs = tuple(_run(row, descriptions[row["run_id"]]["variant"], places) for row in measurements)
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
        other_code=_other_code(document, len(descriptions)),
    )


def _other_code(document: Row, runs: int) -> str:
    counts = document.get(OTHER_CODE, {})
    if not counts:
        return ""
    other, codes = sum(counts.values()), ", ".join(f"{number} of {words}" for words, number in counts.items())
    return (
        f"{other} of {runs} runs are of other code ({codes}) than the latest execution's ({document['code']})"
        f"{', so a curve may be of both' if is_mixed(counts, runs) else ''}; --new begins anew."
    )


def _run(row: Row, variant: str, places: Sequence[tuple[int, ...]]) -> SweepRun:
    point = point_of(row["run_id"])
    return SweepRun(
        point, places[point - 1], row["run_id"].partition(".")[2], variant, row["event_id"], row["metric"],
        row["value"], bool(row["censored"]), row["steady"],
    )  # fmt: skip
