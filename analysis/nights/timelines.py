"""A series of nights as a page shows it, whatever machines measured it: values, gaps, borders and changes, and its
sparkline.

SVG is written directly: a page has hundreds of series, so each is a path and not an element a point.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise

from analysis.metrics.definitions import METRICS, PRIMARY, Better, Metric
from analysis.nights.findings import Findings, SeriesFindings
from analysis.nights.night_records import CalendarCell
from analysis.nights.night_series import NEVER_SUFFIX, Point, SeriesName, metric_of
from analysis.nights.regressions import Finding, Kind, Status

SPARK_HEIGHT = 100  # of a spark's view box; a night is STEP wide
SPARK_STEP = 4
Place = tuple[float, float]


@dataclass(frozen=True)
class NightSpot:
    """A measured night: its column, its value, spread, and which machines measured it.

    Where most runs never got there it has no value, and is drawn as an arrow from how long was watched.
    """

    column: int
    night: int
    point: Point
    machine: int

    @property
    def reached(self) -> bool:
        return self.point.value is not None

    @property
    def place(self) -> float:
        """Where it is drawn: its value, or how long was watched at most."""
        place = self.point.horizon if self.point.value is None else self.point.value
        assert place is not None
        return place


@dataclass(frozen=True)
class Scale:
    """From values to heights, the larger the higher."""

    low: float
    high: float
    top: float
    bottom: float

    def __call__(self, value: float) -> float:
        return self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)


def scale(values: Sequence[float], top: float, bottom: float) -> Scale:
    """Some air above and below; a series that never moves lies in the middle."""
    low, high = min(values), max(values)
    air = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    return Scale(low - air, high + air, top, bottom)


def spot_stretches(spots: Iterable[NightSpot]) -> list[list[NightSpot]]:
    """Runs of nights side by side on the same machines: a line never crosses a gap, nor a night without a value."""
    found: list[list[NightSpot]] = []
    for spot in (spot for spot in spots if spot.reached):
        last = found[-1][-1] if found else None
        if last is not None and spot.column == last.column + 1 and spot.machine == last.machine:
            found[-1].append(spot)
        else:
            found.append([spot])
    return found


def line_path(places: Sequence[Place]) -> str:
    """A path through whole units, relative; a place alone is a dot."""
    first, moves = _moves(places)
    return first + ("".join(f"l{move}" for move in moves) or "h0")


def dots_path(places: Sequence[Place]) -> str:
    """A dot at each place, as one path."""
    if not places:
        return ""
    first, moves = _moves(places)
    return f"{first}h0" + "".join(f"m{move}h0" for move in moves)


def _moves(places: Sequence[Place]) -> tuple[str, list[str]]:
    """To the first place, and from each to the next one, as short as a path can say it."""
    rounded = [(round(x), round(y)) for x, y in places]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(rounded)]
    return f"M{rounded[0][0]} {rounded[0][1]}", [f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps]


def lines_path(spots: Sequence[NightSpot], x: Callable[[NightSpot], float], y: Callable[[float], float]) -> str:
    return "".join(line_path([(x(spot), y(spot.place)) for spot in part]) for part in spot_stretches(spots))


def band_path(spots: Sequence[NightSpot], x: Callable[[NightSpot], float], y: Callable[[float], float]) -> str:
    """The spread of the repetitions: up along the highest, back along the lowest."""
    paths = []
    for part in spot_stretches(spots):
        high = [(x(spot), y(_value_or_median(spot.point.high, spot))) for spot in part]
        low = [(x(spot), y(_value_or_median(spot.point.low, spot))) for spot in part]
        paths.append(line_path([*high, *reversed(low)]) + "z")
    return "".join(paths)


def _value_or_median(value: float | None, spot: NightSpot) -> float:
    return spot.place if value is None else value


def arrows_path(spots: Sequence[NightSpot], x: Callable[[NightSpot], float], y: Callable[[float], float]) -> str:
    """An arrow upwards for each night in which most runs never got there: longer than that."""
    never = [(x(spot), y(spot.place)) for spot in spots if not spot.reached]
    return "".join(f"M{round(at)} {round(height)}v-9m-3 4l3 -4l3 4" for at, height in never)


def ticks_path(columns: Iterable[int], y: float, length: float, x: Callable[[int], float]) -> str:
    """A short upright stroke at each column, as one path."""
    return "".join(f"M{round(x(column))} {round(y)}v{round(length)}" for column in columns)


def css_class(finding: Finding) -> str:
    """The class of a mark: what it is and how sure."""
    kind = {Kind.REGRESSION: "worse", Kind.IMPROVEMENT: "better"}.get(finding.kind, "changed")
    return f"{kind} {finding.status.split(' ')[0]}"


def sparkline(
    spots: Sequence[NightSpot],
    columns: int,
    marks: Sequence[tuple[int, Finding]],
    gaps: Sequence[int],
    borders: Sequence[int],
    title: str,
) -> str:
    """A small line over all nights: changes as upright strokes, gaps as ticks below, other machines as dashes."""
    y = scale([spot.place for spot in spots], 12, SPARK_HEIGHT - 12)
    strokes = "".join(
        f'<path class="mark {css_class(one)}" d="M{at * SPARK_STEP} 0v{SPARK_HEIGHT}"/>' for at, one in marks
    )
    dashes = "".join(f'<path class="border" d="M{column * SPARK_STEP} 0v{SPARK_HEIGHT}"/>' for column in borders)
    missing = (
        f'<path class="gap" d="{ticks_path(gaps, SPARK_HEIGHT - 7, 7, lambda c: c * SPARK_STEP)}"/>' if gaps else ""
    )
    path = lines_path(spots, lambda spot: spot.column * SPARK_STEP, y)
    arrows = arrows_path(spots, lambda spot: spot.column * SPARK_STEP, y)
    never = f'<path class="never" d="{arrows}"/>' if arrows else ""
    return (
        f'<svg class="spark" viewBox="0 0 {max(1, columns - 1) * SPARK_STEP} {SPARK_HEIGHT}"'
        f' preserveAspectRatio="none" role="img">'
        f'<title>{escape(title)}</title>{dashes}{missing}{strokes}<path class="line" d="{path}"/>{never}</svg>'
    )


CURRENT_STATUSES = (Status.CONFIRMED, Status.SUSPECTED)
METRIC_ORDER = {name: place for place, name in enumerate(dict.fromkeys((*PRIMARY, *METRICS)))}


@dataclass(frozen=True)
class Gap:
    """A night without a value, and why."""

    column: int
    night: str
    why: str


@dataclass(frozen=True)
class Timeline:
    """`segments`: the series of each machine type, the one measured last at the end."""

    name: SeriesName
    segments: tuple[SeriesFindings, ...]
    cells: tuple[CalendarCell, ...]
    nights: tuple[str, ...]

    @property
    def metric(self) -> Metric:
        return metric_of(self.name[2])

    @property
    def anchor(self) -> str:
        return "-".join(self.name[1:]).replace("/", "-")

    @cached_property
    def columns(self) -> dict[int, int]:
        """Night -> column."""
        return {cell.night: column for column, cell in enumerate(self.cells) if cell.night is not None}

    @cached_property
    def spots(self) -> tuple[NightSpot, ...]:
        found = [
            NightSpot(self.columns[night], night, judged.series.points[night], machine)
            for machine, judged in enumerate(self.segments)
            for night in judged.series.watched_nights
        ]
        return tuple(sorted(found, key=lambda spot: spot.column))

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        measured = {spot.column for spot in self.spots}
        return tuple(
            Gap(column, cell.day if cell.night is None else self.nights[cell.night], self._why(cell))
            for column, cell in enumerate(self.cells)
            if column not in measured
        )

    def _why(self, cell: CalendarCell) -> str:
        if cell.night is None:
            return cell.words
        whys = [judged.series.points[cell.night].why for judged in reversed(self.segments)]
        return next((why for why in whys if why != "other machines"), whys[0])

    @cached_property
    def borders(self) -> tuple[int, ...]:
        """Columns at which other machines begin."""
        return tuple(after.column for before, after in pairwise(self.spots) if before.machine != after.machine)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(sorted((one for judged in self.segments for one in judged.findings), key=lambda one: one.since))

    @property
    def marks(self) -> list[tuple[int, Finding]]:
        return [(self.columns[one.since], one) for one in self.findings]

    @property
    def standing(self) -> Finding | None:
        """The newest change that still holds, for the better or worse."""
        found = (one for one in reversed(self.findings) if one.status in CURRENT_STATUSES)
        return next((one for one in found if one.kind is not Kind.CHANGE), None)

    @property
    def worse(self) -> bool:
        return self.standing is not None and self.standing.kind is Kind.REGRESSION

    @property
    def shown_first(self) -> bool:
        """Whether it belongs on the first page: a primary metric, or one that changed."""
        return self.name[2] in PRIMARY or self.standing is not None or self.never_changed

    @property
    def never_changed(self) -> bool:
        """A share of repetitions that never got there, of a primary metric."""
        return self.name[2].endswith(NEVER_SUFFIX) and self.name[2].removesuffix(NEVER_SUFFIX) in PRIMARY


def timelines(found: Findings) -> dict[str, list[Timeline]]:
    """By experiment: its series in the order of variants and metrics; facts without a direction come last."""
    by_name: dict[SeriesName, list[SeriesFindings]] = defaultdict(list)
    for judged in found.series:
        by_name[judged.key.names].append(judged)
    nights = tuple(night.id for night in found.history.nights)
    grouped: dict[str, list[Timeline]] = defaultdict(list)
    for name in sorted(by_name, key=_order):
        parts = sorted(by_name[name], key=lambda judged: judged.series.watched_nights[-1])
        grouped[name[0]].append(Timeline(name, tuple(parts), found.cells, nights))
    return dict(grouped)


def _order(name: SeriesName) -> tuple[object, ...]:
    experiment, variant, metric, event = name
    place = METRIC_ORDER.get(metric.removesuffix(NEVER_SUFFIX), len(METRIC_ORDER))
    return experiment, metric_of(metric).better is Better.NONE, variant, event, place, metric


def first_page_timelines(lines: Sequence[Timeline]) -> list[Timeline]:
    """What the index shows of an experiment: all of it where none of its metrics is a primary one."""
    first = [line for line in lines if line.shown_first]
    return first if any(line.name[2] in PRIMARY for line in lines) else list(lines)
