"""A series of nights for a page, on all machines that measured it: values, gaps, borders and changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from analysis.metrics.definitions import METRICS, PRIMARY, Better, Metric
from analysis.nights.findings import Findings, SeriesFindings, series_text
from analysis.nights.night_records import CalendarCell
from analysis.nights.night_series import NEVER_SUFFIX, NightPoint, SeriesName, metric_of
from analysis.nights.regressions import Finding, RegressionKind, Status


@dataclass(frozen=True)
class NightSpot:
    """A measured night: its column, its value, spread, and the machines that measured it.

    If most runs never got there it has no value, and is drawn as an arrow from the length of the watch.
    """

    column: int
    night: int
    point: NightPoint
    machine: int

    @property
    def reached(self) -> bool:
        return self.point.value is not None

    @property
    def place(self) -> float:
        """Return the value to draw: the night's value, or the longest watch."""
        place = self.point.horizon if self.point.value is None else self.point.value
        assert place is not None
        return place


CURRENT_STATUSES = (Status.CONFIRMED, Status.SUSPECTED)
METRIC_ORDER = {name: place for place, name in enumerate(dict.fromkeys((*PRIMARY, *METRICS)))}


@dataclass(frozen=True)
class Gap:
    """A night without a value, and why."""

    column: int
    why: str


@dataclass(frozen=True)
class Timeline:
    """A series over machines; `segments`: the series of each machine type, the one measured last at the end."""

    name: SeriesName
    segments: tuple[SeriesFindings, ...]
    cells: tuple[CalendarCell, ...]
    nights: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        return metric_of(self.name[2])

    @property
    def heading(self) -> str:
        return series_text(self.segments[-1].key)

    @property
    def anchor(self) -> str:
        return "-".join(self.name[1:]).replace("/", "-")

    @cached_property
    def columns(self) -> dict[int, int]:
        """Return night -> column."""
        return {cell.night: column for column, cell in enumerate(self.cells) if cell.night is not None}

    @cached_property
    def spots(self) -> tuple[NightSpot, ...]:
        spots = [
            NightSpot(self.columns[night], night, segment.series.points[night], machine)
            for machine, segment in enumerate(self.segments)
            for night in segment.series.watched_nights
        ]
        return tuple(sorted(spots, key=lambda spot: spot.column))

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        measured, gaps = {spot.column for spot in self.spots}, []
        for column, cell in enumerate(self.cells):
            if column in measured:
                continue
            why = cell.words
            if cell.night is not None:
                whys = [segment.series.points[cell.night].why for segment in reversed(self.segments)]
                why = next((reason for reason in whys if reason != "other machines"), whys[0])
            gaps.append(Gap(column, why))
        return tuple(gaps)

    @cached_property
    def borders(self) -> tuple[int, ...]:
        """Return columns at which other machines begin."""
        return tuple(after.column for before, after in pairwise(self.spots) if before.machine != after.machine)

    @property
    def stretches(self) -> list[list[NightSpot]]:
        """Return neighbouring nights on the same machines: a line never crosses a gap, nor a night without a value."""
        stretches: list[list[NightSpot]] = []
        for spot in (spot for spot in self.spots if spot.reached):
            last = stretches[-1][-1] if stretches else None
            if last is not None and spot.column == last.column + 1 and spot.machine == last.machine:
                stretches[-1].append(spot)
            else:
                stretches.append([spot])
        return stretches

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(sorted((one for segment in self.segments for one in segment.findings), key=lambda one: one.since))

    @property
    def marks(self) -> list[tuple[int, Finding]]:
        return [(self.columns[one.since], one) for one in self.findings]

    @property
    def standing(self) -> Finding | None:
        """Return the newest change that still holds, for the better or worse."""
        findings = (one for one in reversed(self.findings) if one.status in CURRENT_STATUSES)
        return next((one for one in findings if one.kind is not RegressionKind.CHANGE), None)

    @property
    def worse(self) -> bool:
        return self.standing is not None and self.standing.kind is RegressionKind.REGRESSION

    @property
    def shown_first(self) -> bool:
        """Return whether it belongs on the first page: a primary metric, its share of runs that never got there, or a
        metric that changed."""
        return self.name[2].removesuffix(NEVER_SUFFIX) in PRIMARY or self.standing is not None


def timelines(found: Findings) -> dict[str, list[Timeline]]:
    """Return by experiment its series in the order of variants and metrics; facts without a direction come last."""
    by_name: dict[SeriesName, list[SeriesFindings]] = defaultdict(list)
    for judged in found.series:
        by_name[judged.key.names].append(judged)
    nights = tuple(night.id for night in found.history.nights)
    result: dict[str, list[Timeline]] = defaultdict(list)

    def order(name: SeriesName) -> tuple[object, ...]:
        experiment, variant, metric, event = name
        place = METRIC_ORDER.get(metric.removesuffix(NEVER_SUFFIX), len(METRIC_ORDER))
        return experiment, metric_of(metric).better is Better.NONE, variant, event, place, metric

    for name in sorted(by_name, key=order):
        parts = sorted(by_name[name], key=lambda judged: judged.series.watched_nights[-1])
        result[name[0]].append(Timeline(name, tuple(parts), found.cells, nights))
    return dict(result)


def first_page_timelines(lines: Sequence[Timeline]) -> list[Timeline]:
    """Return the timelines of an experiment on the index: all of them if none of its metrics is a primary one."""
    first = [line for line in lines if line.shown_first]
    return first if any(line.name[2] in PRIMARY for line in lines) else list(lines)
