"""Series of nights as drawings: small on the index, large with axes on the page of an experiment, with interactive
points.

SVG is written directly: a page has hundreds of series, so each is a path and not an element a point. As a chart of the
reports (analysis/report/figures) a year took 160 ms and 94 kB of the page; so it takes 3 ms and 12 kB.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from analysis.nights.findings import Findings, change_text
from analysis.nights.night_series import NightPoint
from analysis.nights.regressions import Finding, RegressionKind
from analysis.nights.timelines import NightSpot, Timeline
from analysis.numerals import number

WIDTH, HEIGHT = 760, 190
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 22, 158
SPARK_HEIGHT, SPARK_STEP = 100, 4  # of a small drawing; a night is SPARK_STEP wide
SPARK_NIGHTS = 400  # nights that a small line shows; all are on the experiment's page
COLOUR, GREY = "#0072B2", "#555555"  # Okabe and Ito's blue, as in the figures of the reports
MOST_LABELS = 9  # labels below an axis at most
NIGHT, COMMIT = {"of": "night"}, {"of": "commit"}  # columns of `shared`


@dataclass(frozen=True)
class Frame:
    """Map nights and values to places: column 0 is at `zero`, a night is `step` wide, and larger values are higher."""

    zero: float
    step: float
    top: float
    bottom: float
    low: float
    high: float

    def x(self, column: int) -> float:
        return self.zero + self.step * column

    def y(self, value: float) -> float:
        return self.bottom - (value - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def place(self, spot: NightSpot) -> tuple[float, float]:
        return self.x(spot.column), self.y(spot.place)


def frame(values: Sequence[float], zero: float, step: float, top: float, bottom: float) -> Frame:
    """Return a frame with some space above and below; a constant series lies in the middle."""
    low, high = min(values), max(values)
    air = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    return Frame(zero, step, top, bottom, low - air, high + air)


# Paths, through whole units and relative: as short as they can be.


def _path(css: str, path: str) -> str:
    return f'<path class="{css}" d="{path}"/>' if path else ""


def _moves(places: Sequence[tuple[float, float]]) -> tuple[str, list[str]]:
    """Return the move to the first place, and the steps from each to the next one."""
    points = [(round(x), round(y)) for x, y in places]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(points)]
    return f"M{points[0][0]} {points[0][1]}", [f"{dx}{dy}" if dy < 0 else f"{dx} {dy}" for dx, dy in steps]


def _line_path(places: Sequence[tuple[float, float]]) -> str:
    """Return a path; a single place is a dot."""
    first, moves = _moves(places)
    return first + ("".join(f"l{move}" for move in moves) or "h0")


def _lines(line: Timeline, frame: Frame, first: int = 0) -> str:
    parts = [[spot for spot in part if spot.column >= first] for part in line.stretches]
    return "".join(_line_path([frame.place(spot) for spot in part]) for part in parts if part)


def _dots(spots: Sequence[NightSpot], frame: Frame) -> str:
    if not spots:
        return ""
    first, moves = _moves([frame.place(spot) for spot in spots])
    return f"{first}h0" + "".join(f"m{move}h0" for move in moves)


def _arrows(spots: Sequence[NightSpot], frame: Frame) -> str:
    """Return an upward arrow for each night in which most runs never got there: its value is longer than that."""
    arrows = [frame.place(spot) for spot in spots if not spot.reached]
    return "".join(f"M{round(x)} {round(height)}v-9m-3 4l3 -4l3 4" for x, height in arrows)


def _ticks(columns: Iterable[int], frame: Frame, y: float, length: float) -> str:
    """Return a short upright stroke at each column."""
    return "".join(f"M{round(frame.x(column))} {round(y)}v{round(length)}" for column in columns)


def _extent(spot: NightSpot) -> tuple[float, float]:
    low, high = spot.point.low, spot.point.high
    return (spot.place if low is None else low, spot.place if high is None else high)


def css_class(finding: Finding) -> str:
    """Return the class of a mark: its kind and its certainty."""
    kind = {RegressionKind.REGRESSION: "worse", RegressionKind.IMPROVEMENT: "better"}.get(finding.kind, "changed")
    return f"{kind} {finding.status.split(' ')[0]}"


def sparkline(line: Timeline) -> Markup:
    """Draw the last nights, small: changes as upright strokes, gaps as ticks below, other machines as dashes."""
    columns = len(line.cells)
    from_column = max(0, columns - SPARK_NIGHTS)
    spots = [spot for spot in line.spots if spot.column >= from_column] or list(line.spots[-1:])
    first = min(from_column, spots[0].column)
    area = frame([spot.place for spot in spots], -first * SPARK_STEP, SPARK_STEP, 12, SPARK_HEIGHT - 12)
    strokes = [("border", column) for column in line.borders]
    changes = [(f"mark {css_class(one)}", column) for column, one in line.marks]
    gaps = [gap.column for gap in line.gaps if gap.column >= first]
    title = f"{line.heading}: {len(line.spots)} nights measured, {len(line.gaps)} not"
    return Markup("".join([
        f'<svg class="spark" viewBox="0 0 {max(1, columns - first - 1) * SPARK_STEP} {SPARK_HEIGHT}"',
        f' preserveAspectRatio="none" role="img"><title>{escape(title)}</title>',
        *(_path(css, f"M{area.x(column):.0f} 0v{SPARK_HEIGHT}") for css, column in strokes if column >= first),
        _path("gap", _ticks(gaps, area, SPARK_HEIGHT - 7, 7)),
        *(_path(css, f"M{area.x(column):.0f} 0v{SPARK_HEIGHT}") for css, column in changes if column >= first),
        _path("line", _lines(line, area, spots[0].column)), _path("never", _arrows(spots, area)), "</svg>",
    ]))  # fmt: skip


def draw_chart(line: Timeline) -> str:
    area = _chart_frame(line)
    spots = [spot for spot in line.spots if spot.reached]
    spread = ""  # of the repetitions: up along the highest, back along the lowest
    for part in line.stretches:
        low, high = ([(area.x(spot.column), area.y(_extent(spot)[end])) for spot in part] for end in (0, 1))
        spread += _line_path([*high, *reversed(low)]) + "z"
    return "".join([
        f'<svg class="nights" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(f'{line.name[0]}, {line.heading} over {len(line.cells)} nights')}</title>",
        *_axis(line, area),
        _path("spread", spread),
        _path("gap", _ticks((gap.column for gap in line.gaps), area, BOTTOM - 8, 8)),
        *_marks(line, area),
        _path("line", _lines(line, area)),
        _path("dots", _dots(spots, area)),
        _path("unsteady", _dots([spot for spot in spots if spot.point.unsteady], area)),
        _path("never", _arrows(line.spots, area)),
        "</svg>",
    ])  # fmt: skip


def _chart_frame(line: Timeline) -> Frame:
    step = (WIDTH - LEFT - RIGHT) / len(line.cells)
    values = [value for spot in line.spots for value in _extent(spot)]
    return frame(values, LEFT + step / 2, step, TOP, BOTTOM - 12)


def _unit(line: Timeline) -> str:
    return "%" if line.metric.unit == "points" else line.metric.unit


def _axis(line: Timeline, frame: Frame) -> Iterator[str]:
    for value in round_values(frame.low, frame.high):
        position = round(frame.y(value))
        yield _path("grid", f"M{LEFT} {position}H{WIDTH - RIGHT}")
        yield f'<text class="value" x="{LEFT - 6}" y="{position + 3}">{number(value)}</text>'
    yield f'<text class="value" x="{LEFT - 6}" y="{TOP - 10}">{escape(_unit(line))}</text>'
    for column, label in month_labels([cell.day for cell in line.cells]):
        position = round(frame.x(column))
        css, place = ("value", WIDTH - RIGHT) if position > WIDTH - 36 else ("day", position)
        yield _path("grid", f"M{position} {BOTTOM}v5")
        yield f'<text class="{css}" x="{place}" y="{BOTTOM + 18}">{label}</text>'
    yield _path("axis", f"M{LEFT} {BOTTOM}H{WIDTH - RIGHT}")


def round_values(low: float, high: float) -> list[float]:
    """Return two to five round numbers within an axis."""
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    step = next(step * factor for factor in (10, 5, 2, 1) if (high - low) / (step * factor) >= 2)
    first = math.ceil(low / step)
    return [round(i * step, 10) for i in range(first, math.floor(high / step) + 1)]


def month_labels(days: Sequence[str]) -> list[tuple[int, str]]:
    """Return the first night of each month, or some days if there are few of them; never so many that they touch."""
    firsts = [i for i, day in enumerate(days) if i == 0 or day[:7] != days[i - 1][:7]]
    if len(firsts) < 3:
        firsts = list(range(0, len(days), max(1, -(-len(days) // MOST_LABELS))))
        return [(i, days[i][5:]) for i in firsts]
    if firsts[1] < len(days) / MOST_LABELS:
        firsts = firsts[1:]
    return [(i, days[i][:7]) for i in firsts[:: -(-len(firsts) // MOST_LABELS)]]


def _marks(line: Timeline, frame: Frame) -> Iterator[str]:
    """Draw where other machines begin, each change, and the levels on both sides of it, as far as they were measured
    near it."""
    for column in line.borders:
        x = round(frame.x(column) - frame.step / 2)
        yield _path("border", f"M{x} {TOP - 6}V{BOTTOM}")
        yield _label("border", x, "other machines", is_left=x > LEFT + 90)
    for column, one in line.marks:
        at, before = frame.x(column), frame.x(max(0, column - 12))
        after = frame.x(min(len(line.cells) - 1, column + 12))
        levels = f"M{before:.0f} {frame.y(one.before):.0f}H{at:.0f}M{at:.0f} {frame.y(one.after):.0f}H{after:.0f}"
        yield _path("level", levels)
    for column, one in line.marks:
        css, place = f"mark {css_class(one)}", round(frame.x(column))
        label = f"{'▼' if one.after < one.before else '▲'} {change_text(one)}"
        yield _path(css, f"M{place} {TOP - 6}V{BOTTOM}")
        yield _label(css, place, label, is_left=place > WIDTH - 90)


def _label(css: str, at: int, text: str, *, is_left: bool) -> str:
    anchor = "end" if is_left else "start"
    return (
        f'<text class="{css}" x="{at - 4 if is_left else at + 4}" y="{TOP - 10}" text-anchor="{anchor}">{text}</text>'
    )


# Points of the large drawings, for the page's script (points.js.j2).


def shared_columns(findings: Findings) -> str:
    """Return the data that all drawings of a page share, by column: a year of names and commits once, not for each
    series."""
    nights = findings.history.nights
    days = Counter(night.id.partition("-")[0] for night in nights)
    names = [day if days[day := night.id.partition("-")[0]] == 1 else night.id for night in nights]
    step = (WIDTH - LEFT - RIGHT) / len(findings.cells)
    return _json({
        "x": [round(LEFT + step * (column + 0.5)) for column in range(len(findings.cells))],
        "night": [cell.day if cell.night is None else names[cell.night] for cell in findings.cells],
        "commit": ["" if cell.night is None else nights[cell.night].commit[:8] for cell in findings.cells],
    })  # fmt: skip


def chart_points(line: Timeline) -> str:
    """Return data of every night: the value, or why there is none."""
    frame, points = _chart_frame(line), [spot.point for spot in line.spots]
    unit, gaps = _unit(line), [gap.column for gap in line.gaps]
    numbers = [
        [None if value is None else float(f"{value:.4g}") for value in values]  # more than a night's precision
        for values in zip(*((point.value, point.low, point.high) for point in points), strict=True)
    ]
    notes = [
        "; ".join(filter(None, (never_note(point), f"{point.unsteady} of {point.runs} runs not steady"
                                if point.unsteady else ""))) for point in points
    ]  # fmt: skip
    columns = [["night", ""], ["value", unit], ["lowest", unit], ["highest", unit], ["runs", ""], ["commit", ""],
               ["note", ""]]  # fmt: skip
    measured = {
        **_trace(line, COLOUR, "", [spot.column for spot in line.spots]),
        "y": [round(frame.y(spot.place)) for spot in line.spots],
        "v": [NIGHT, *numbers, _compact([point.runs for point in points]), COMMIT, _compact(notes)],
    }
    unmeasured = {
        **_trace(line, GREY, "not measured", gaps),
        "y": [BOTTOM - 4] * len(gaps),
        "v": [NIGHT, *[None] * 5, _compact([gap.why for gap in line.gaps])],
    }
    return _json({"columns": columns, "traces": [measured, unmeasured]})


def _trace(line: Timeline, colour: str, mark: str, columns: Sequence[int]) -> dict[str, Any]:
    """Return a trace; `at`: the first and the last of neighbouring columns."""
    stretches: list[list[int]] = []
    for column in columns:
        if stretches and column == stretches[-1][1] + 1:
            stretches[-1][1] = column
        else:
            stretches.append([column, column])
    return {"n": line.heading, "c": colour, "p": "", "m": mark, "r": "", "at": stretches}


def never_note(point: NightPoint) -> str:
    """Return how many runs never got there, for a night's value or for the share of such runs."""
    if point.within is not None:
        return f"not within {number(point.within)} s: {point.never} of {point.runs} runs"
    if point.value is None or not point.never:
        return point.why
    return f"{point.never} of {point.runs} runs never got there"


def _json(document: Mapping[str, Any]) -> str:
    """Return JSON for a script element, which nothing in it can end."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _compact(column: list[Any]) -> Any:
    """Reduce a column of equal values to one value."""
    return column[0] if len(set(column)) == 1 else column or None
