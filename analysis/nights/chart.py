"""One series over all nights, large: spread, gaps, other machines, changes, axes; and its points, which answer."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from analysis.nights import findings_report
from analysis.nights.findings import Findings
from analysis.nights.night_series import Point
from analysis.nights.timelines import (
    NightSpot,
    Scale,
    Timeline,
    arrows_path,
    band_path,
    css_class,
    dots_path,
    lines_path,
    scale,
    ticks_path,
)
from analysis.numerals import number

WIDTH, HEIGHT = 760, 190
LEFT, RIGHT, TOP, BOTTOM = 64, 10, 22, 158
COLOUR, GREY = "#0072B2", "#555555"  # Okabe and Ito's blue, as in the figures of the reports
MOST_LABELS = 9  # labels below an axis at most
COLUMNS = (("night", ""), ("value", "unit"), ("lowest", "unit"), ("highest", "unit"), ("runs", ""), ("commit", ""),
           ("", ""))  # fmt: skip
NIGHT, COMMIT = {"of": "night"}, {"of": "commit"}  # columns of `shared`


def draw_chart(line: Timeline) -> str:
    y = scale([value for spot in line.spots for value in _extent(spot)], TOP, BOTTOM - 12)
    gaps = [gap.column for gap in line.gaps]
    reached = [spot for spot in line.spots if spot.reached]
    unsteady = [spot for spot in reached if spot.point.unsteady]
    arrows = arrows_path(line.spots, lambda spot: _x(line, spot.column), y)
    parts = [
        f'<svg class="nights" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(f'{line.name[0]}, {_heading(line)} over {len(line.cells)} nights')}</title>",
        *_axis(line, y),
        f'<path class="spread" d="{band_path(line.spots, lambda spot: _x(line, spot.column), y)}"/>',
        f'<path class="gap" d="{ticks_path(gaps, BOTTOM - 8, 8, lambda c: _x(line, c))}"/>',
        *_borders(line),
        *_levels(line, y),
        *_marks(line),
        f'<path class="line" d="{lines_path(line.spots, lambda spot: _x(line, spot.column), y)}"/>',
        f'<path class="dots" d="{_dots(line, reached, y)}"/>',
        *([f'<path class="unsteady" d="{_dots(line, unsteady, y)}"/>'] if unsteady else []),
        *([f'<path class="never" d="{arrows}"/>'] if arrows else []),
        "</svg>",
    ]
    return "".join(parts)


def _dots(line: Timeline, spots: Sequence[NightSpot], y: Scale) -> str:
    return dots_path([(_x(line, spot.column), y(spot.place)) for spot in spots])


def _note(spot: NightSpot) -> str:
    point = spot.point
    steadiness = f"{point.unsteady} of {point.runs} runs not steady" if point.unsteady else ""
    return "; ".join(text for text in (never_note(point), steadiness) if text)


def never_note(point: Point) -> str:
    """How many runs never got there, of a night's value or of the share of such runs."""
    if point.within is not None:
        return f"not within {number(point.within)} s: {point.never} of {point.runs} runs"
    if point.value is None or not point.never:
        return point.why
    return f"{point.never} of {point.runs} runs never got there"


def _heading(line: Timeline) -> str:
    return findings_report.series_text(line.segments[-1].key)


def _extent(spot: NightSpot) -> tuple[float, float]:
    low, high = spot.point.low, spot.point.high
    return (spot.place if low is None else low, spot.place if high is None else high)


def _x(line: Timeline, column: int) -> float:
    return _column_x(column, len(line.cells))


def _column_x(column: int, columns: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * (column + 0.5) / columns


def _axis(line: Timeline, y: Scale) -> Iterator[str]:
    for value in round_values(y.low, y.high):
        at = round(y(value))
        yield f'<path class="grid" d="M{LEFT} {at}H{WIDTH - RIGHT}"/>'
        yield f'<text class="value" x="{LEFT - 6}" y="{at + 3}">{number(value)}</text>'
    unit = "%" if line.metric.unit == "points" else line.metric.unit
    yield f'<text class="value" x="{LEFT - 6}" y="{TOP - 10}">{escape(unit)}</text>'
    for column, label in month_labels([cell.day for cell in line.cells]):
        at = round(_x(line, column))
        css, place = ("value", WIDTH - RIGHT) if at > WIDTH - 36 else ("day", at)
        yield f'<path class="grid" d="M{at} {BOTTOM}v5"/>'
        yield f'<text class="{css}" x="{place}" y="{BOTTOM + 18}">{label}</text>'
    yield f'<path class="axis" d="M{LEFT} {BOTTOM}H{WIDTH - RIGHT}"/>'


def round_values(low: float, high: float) -> list[float]:
    """Two to five round numbers within an axis."""
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    step = next(step * factor for factor in (10, 5, 2, 1) if (high - low) / (step * factor) >= 2)
    first = math.ceil(low / step)
    return [round(i * step, 10) for i in range(first, math.floor(high / step) + 1)]


def month_labels(days: Sequence[str]) -> list[tuple[int, str]]:
    """The first night of each month, or some days where there are few of them; never so many that they touch."""
    firsts = [i for i, day in enumerate(days) if i == 0 or day[:7] != days[i - 1][:7]]
    if len(firsts) < 3:
        firsts = list(range(0, len(days), max(1, -(-len(days) // MOST_LABELS))))
        return [(i, days[i][5:]) for i in firsts]
    if firsts[1] < len(days) / MOST_LABELS:
        firsts = firsts[1:]
    return [(i, days[i][:7]) for i in firsts[:: -(-len(firsts) // MOST_LABELS)]]


def _borders(line: Timeline) -> Iterator[str]:
    for column in line.borders:
        at = round(_x(line, column) - (WIDTH - LEFT - RIGHT) / len(line.cells) / 2)
        yield f'<path class="border" d="M{at} {TOP - 6}V{BOTTOM}"/>'
        side, anchor = (at - 4, "end") if at > LEFT + 90 else (at + 4, "start")
        yield f'<text class="border" x="{side}" y="{TOP - 10}" text-anchor="{anchor}">other machines</text>'


def _levels(line: Timeline, y: Scale) -> Iterator[str]:
    """The levels on both sides of each change, as far as they were measured near it."""
    for column, one in line.marks:
        before, after = _x(line, max(0, column - 12)), _x(line, min(len(line.cells) - 1, column + 12))
        at = _x(line, column)
        path = f"M{before:.0f} {y(one.before):.0f}H{at:.0f}M{at:.0f} {y(one.after):.0f}H{after:.0f}"
        yield f'<path class="level" d="{path}"/>'


def _marks(line: Timeline) -> Iterator[str]:
    for column, one in line.marks:
        at = round(_x(line, column))
        end = at > WIDTH - 90
        label = f"{'▼' if one.after < one.before else '▲'} {findings_report.change_text(one)}"
        yield f'<path class="mark {css_class(one)}" d="M{at} {TOP - 6}V{BOTTOM}"/>'
        yield (
            f'<text class="mark {css_class(one)}" x="{at - 4 if end else at + 4}" y="{TOP - 10}"'
            f' text-anchor="{"end" if end else "start"}">{label}</text>'
        )


def shared_columns(found: Findings) -> str:
    """What all drawings of a page say alike, by column: a year of names and commits once, and not once a series."""
    nights = found.history.nights
    named = _short_names([night.id for night in nights])
    return _json({
        "x": [round(_column_x(column, len(found.cells))) for column in range(len(found.cells))],
        "night": [cell.day if cell.night is None else named[cell.night] for cell in found.cells],
        "commit": ["" if cell.night is None else nights[cell.night].commit[:8] for cell in found.cells],
    })  # fmt: skip


def chart_points(line: Timeline) -> str:
    """Data of every night for the page's script (points.js.j2): the value, or why there is none."""
    y = scale([value for spot in line.spots for value in _extent(spot)], TOP, BOTTOM - 12)
    unit = "%" if line.metric.unit == "points" else line.metric.unit
    spots, gaps = line.spots, line.gaps
    measured: dict[str, Any] = {
        "n": _heading(line), "c": COLOUR, "p": "", "m": "", "r": "",
        "at": _column_stretches([spot.column for spot in spots]), "y": [round(y(spot.place)) for spot in spots],
        "v": [NIGHT, [_short(spot.point.value) for spot in spots],
              [_short(spot.point.low) for spot in spots], [_short(spot.point.high) for spot in spots],
              _compact_column([spot.point.runs for spot in spots]), COMMIT,
              _compact_column([_note(spot) for spot in spots])],
    }  # fmt: skip
    missing: dict[str, Any] = {
        "n": _heading(line), "c": GREY, "p": "", "m": "not measured", "r": "",
        "at": _column_stretches([gap.column for gap in gaps]), "y": [BOTTOM - 4] * len(gaps),
        "v": [NIGHT, None, None, None, None, None, _compact_column([gap.why for gap in gaps]) if gaps else None],
    }  # fmt: skip
    columns = [[name or "note", unit if kind == "unit" else ""] for name, kind in COLUMNS]
    return _json({"columns": columns, "traces": [measured, missing]})


def _json(document: Mapping[str, Any]) -> str:
    """For a script element: nothing in it ends that."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _column_stretches(columns: Sequence[int]) -> list[list[int]]:
    """The first and the last of columns side by side."""
    found: list[list[int]] = []
    for column in columns:
        if found and column == found[-1][1] + 1:
            found[-1][1] = column
        else:
            found.append([column, column])
    return found


def _compact_column(column: list[Any]) -> Any:
    """A column whose values are all the same is told as one."""
    return column[0] if len(set(column)) == 1 else column


def _short_names(ids: Sequence[str]) -> list[str]:
    """The date where a day has one night."""
    days = Counter(name.partition("-")[0] for name in ids)
    return [name.partition("-")[0] if days[name.partition("-")[0]] == 1 else name for name in ids]


def _short(value: float | None) -> float | None:
    """Four digits are more than a night knows."""
    return None if value is None else float(f"{value:.4g}")
