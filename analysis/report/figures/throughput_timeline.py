"""Throughput over time of a series: the median of each variant over the band of its repetitions, with events.

One panel, or one a variant if one panel would be too crowded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil
from statistics import median

from analysis.metrics.steadiness import WINDOW_S
from analysis.report.figures import style
from analysis.report.figures.chart import Chart, ChartAxis, ChartPanel, End, time_axis
from analysis.report.figures.marks import Band, LineMark, Mark, events, moments
from analysis.report.figures.points import PointColumn, Spot, Value
from analysis.report.figures.series_data import RateLine as RunLine
from analysis.report.figures.series_data import SeriesData

OFFERED = "offered at spouts"
COLUMNS = (
    PointColumn("time_s", "time", "s"),
    PointColumn("tuples_per_s", "rate", "tuples/s"),
    PointColumn("runs", "runs"),
    PointColumn("event", "event", kind="word"),
)
LABEL = "throughput at sinks (tuples/s)"
TITLE = "Throughput over time, in tuples per second: medians and ranges over runs"
ABREAST = 4
Rates = dict[float, list[tuple[float, str]]]  # by start of the window: (rate, run) in ascending order


def chart(data: SeriesData, title: str = TITLE) -> Chart | None:
    """Return the timeline, or None if no complete run had an event."""
    if not data.totals:
        return None
    if len(data.variants) <= style.LEGIBLE_VARIANTS:
        return Chart(title, COLUMNS, [panel(data, data.variants, LABEL)], 3.4)
    rows = ceil(len(data.variants) / ABREAST)
    return Chart(
        title, COLUMNS, [_small_panel(data, variant) for variant in data.variants], 2.1 * rows + 0.3, ABREAST,
        shares="xy", x_label=_time_axis(data, "the first event").label, y_label=LABEL, title_size=8.5,
    )  # fmt: skip


def panel(data: SeriesData, variants: Sequence[str], label: str, *, has_levels: bool = True) -> ChartPanel:
    """Return the lines of these variants. `has_levels`: their labels have the level after the last event."""
    colours = style.colours(data.variants)
    marks: list[Mark] = []
    ends: list[End] = []
    for variant in variants:
        lines = [line for line in data.totals if line.variant == variant]
        name, colour = style.display_name(variant), colours[variant]
        rates, middle = _by_window(lines), median_line(lines)
        if not middle:
            continue
        ranges = [(start, runs[0], runs[-1]) for start, runs in rates.items() if len(runs) > 1]
        smallest = [_spot(start, rate, run_id=run_id) for start, (rate, run_id), _ in ranges]
        largest = [_spot(start, rate, run_id=run_id) for start, _, (rate, run_id) in ranges]
        marks += [
            Band([replace(low, end=high.y) for low, high in zip(smallest, largest, strict=True)], colour),
            LineMark([_spot(start, rate, len(rates[start])) for start, rate in middle], colour, name, "median"),
            Mark(smallest, colour, name, "smallest run"),
            Mark(largest, colour, name, "largest run"),
        ]
        level = data.level_after(variant) or middle[-1][1]
        ends.append(End(f"{name}, {level:.0f}/s" if has_levels else style.multiline_name(variant), colour, level))
    offered = median_line([line for line in data.due if line.variant in variants])
    if offered:
        spots = [_spot(start, rate) for start, rate in offered]
        marks.append(LineMark(spots, style.GREY, OFFERED, "median", width=1.1, dashes=(0, (4, 2))))
        text = f"{OFFERED}, {offered[-1][1]:.0f}/s" if has_levels else "offered"
        ends.append(End(text, style.GREY, offered[-1][1]))
    marks.append(events(data.own_marks))
    origin = "the first event" if len(moments(data.marks)) > 1 else "the request"
    return ChartPanel(marks, x=_time_axis(data, origin), y=ChartAxis(label, 0.0), ends=ends)


def _small_panel(data: SeriesData, variant: str) -> ChartPanel:
    """Return one variant over the first one's median in grey, all on the same axes.

    Only the first panel has the points of the grey line, which is the same in all.
    """
    full_panel = panel(data, [variant], "")
    reference = median_line([line for line in data.totals if line.variant == data.variants[0]])
    grey_line = LineMark([_spot(start, rate) for start, rate in reference], "#B0B0B0", width=1.2)
    event_lines = events(data.own_marks, is_labelled=False)
    level = data.level_after(variant)
    return replace(
        full_panel, marks=[grey_line, *full_panel.marks[:-1], event_lines], ends=(), x=replace(full_panel.x, label=""),
        y=ChartAxis(low=0.0, high=1.08 * highest(data)), title_colour=style.colours(data.variants)[variant],
        title=f"{style.display_name(variant)}{'' if level is None else f', {level:.0f}/s'}",
    )  # fmt: skip


def _time_axis(data: SeriesData, since: str) -> ChartAxis:
    """Return the axis of the cluster, or from the first whole window of any run to the end of the last one."""
    starts = [start for line in data.totals for start in line.starts_s]
    return time_axis(*(data.axis_s or (min(starts, default=0.0), max(starts, default=0.0) + WINDOW_S)), since)


def highest(data: SeriesData) -> float:
    """Return the largest rate of any line."""
    return max((r for line in (*data.totals, *data.due) for r in line.rates if r is not None), default=1.0) or 1.0


def median_line(lines: Sequence[RunLine]) -> list[tuple[float, float]]:
    """Return the median over the runs in every window that more than half of them have; (start, rate), oldest first."""
    rates = _by_window(lines)
    return [(start, median(rate for rate, _ in runs)) for start, runs in rates.items() if 2 * len(runs) > len(lines)]


def _by_window(lines: Iterable[RunLine]) -> Rates:
    rates: Rates = {}
    for line in lines:
        for start, rate in zip(line.starts_s, line.rates, strict=True):
            if rate is not None:
                rates.setdefault(start, []).append((rate, line.run_id))
    return {start: sorted(runs) for start, runs in sorted(rates.items())}


def _spot(start_s: float, rate: float, runs: int | None = None, run_id: str = "") -> Spot:
    """Return a spot in the middle of its window; `runs`: the number of runs under the median."""
    at_s = start_s + WINDOW_S / 2
    values: dict[str, Value] = {"time_s": at_s, "tuples_per_s": rate, "runs": runs}
    return Spot(at_s, rate, values, run_id)
