"""The curves of a sweep: a metric over a swept field, a line a variant, with the runs from the lowest to the highest.

With several swept fields one is x (the numeric one with most values); with only one variant, another one makes
the lines; every combination of the others has a panel.

A time that was not reached is no value: the run is a hollow triangle at its horizon, the range is open at its end, and
if the median was not reached the line has a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, nan

from analysis.metrics.definitions import metric
from analysis.report.figures import style
from analysis.report.figures.chart import Chart, ChartAxis, ChartPanel
from analysis.report.figures.marks import ARROW_UP, Dot, LineMark, Mark, Whisker
from analysis.report.figures.points import PointColumn, Spot, Value
from analysis.report.sweep_data import SweepAxis, SweepData, SweepRun, summary_of
from analysis.stats.effect import Summary

ABREAST = 3
MOST_PANELS = 24  # more than anybody compares; the files have all
MOST_LINES = 8
WIDE_RATIO = 30.0  # of the largest to the smallest value of x: from there on its axis is logarithmic
SHIFT = 0.12  # between two lines' marks at one place that is not a number
COLUMNS = (
    PointColumn("x", "swept field"),
    PointColumn("value", "value"),
    PointColumn("low", "from"),
    PointColumn("high", "to"),
    PointColumn("at_least", "to at least"),
    PointColumn("runs", "runs"),
    PointColumn("unreached", "of these longer than watched"),
    PointColumn("not_steady", "of these not steady"),
    PointColumn("longer", "longer than that", kind="yes_no"),
)


@dataclass(frozen=True)
class CurveLayout:
    """The indices of the axes for x, lines and panels; `panels`: none, or several with a panel for each combination."""

    x: int
    lines: int | None
    panels: tuple[int, ...]


def layout(data: SweepData) -> CurveLayout:
    """Choose the axes; seeds are repetitions, unless nothing else is swept."""
    axes = [place for place, axis in enumerate(data.axes) if not axis.is_replicate] or [0]
    x = max(axes, key=lambda place: (data.axes[place].is_numeric, len(data.axes[place].steps), -place))
    rest = [place for place in axes if place != x]
    line_axes = [place for place in rest if len(data.axes[place].steps) <= MOST_LINES]
    lines = line_axes[0] if len(data.variants) == 1 and line_axes else None
    return CurveLayout(x, lines, tuple(place for place in rest if place != lines))


def panels_of(data: SweepData, axes: CurveLayout) -> list[tuple[int, ...]]:
    """Return the steps of the panels' axes for each panel."""
    return list(product(*(range(len(data.axes[place].steps)) for place in axes.panels)))


def chart(data: SweepData, event_id: str, name: str) -> Chart | None:
    """Return the chart; None if no run has the metric."""
    runs = [run for run in data.runs if (run.event_id, run.metric) == (event_id, name)]
    if not runs:
        return None
    axes, words, unit = layout(data), metric(name).words, metric(name).value_unit
    x = data.axes[axes.x]
    panels = []
    for steps in panels_of(data, axes)[:MOST_PANELS]:
        panel_runs = [run for run in runs if tuple(run.steps[axis] for axis in axes.panels) == steps]
        title = "\n".join(data.axes[axis].words(step) for axis, step in zip(axes.panels, steps, strict=True))
        panels.append(replace(panel(data, axes, panel_runs), title=title, y=ChartAxis(has_zero=True)))
    columns = min(ABREAST, len(panels))
    units = {"value": (words, unit), "low": ("from", unit), "high": ("to", unit), "at_least": ("to at least", unit)}
    first = PointColumn("x", x.name, kind="number" if x.is_numeric else "word")
    lines = len(data.variants) if axes.lines is None else len(data.axes[axes.lines].steps)
    return Chart(
        f"{words} in {unit} over {x.name}",
        (first, *(PointColumn(c.name, *units.get(c.name, (c.label, c.unit)), c.kind) for c in COLUMNS[1:])),
        panels, 3.3 if len(panels) == 1 else 2.3 * ceil(len(panels) / columns) + 0.4, columns, shares="xy",
        x_label=x.name, y_label=f"{words} ({unit})", legend="chart" if lines > 1 else "", title_size=8.5,
        tells_panels=len(panels) > 1,
    )  # fmt: skip


def panel(data: SweepData, axes: CurveLayout, runs: Sequence[SweepRun]) -> ChartPanel:
    """Return the lines of these runs over the field x."""
    x = data.axes[axes.x]
    lines = list(_lines(data, axes, runs))
    marks: list[Mark] = []
    for place, (name, colour, line_runs) in enumerate(lines):
        shift = 0.0 if x.is_numeric else SHIFT * (place - (len(lines) - 1) / 2)
        marks += _line(x, name, colour, line_runs, shift)
    if x.is_numeric:
        values: list[float] = [step[0] for step in x.steps]
        return ChartPanel(marks, x=ChartAxis(is_log=min(values) > 0 and max(values) / min(values) >= WIDE_RATIO))
    names = [str(step[0]) for step in x.steps]
    ticks = {float(i): name if len(name) <= 16 else f"{name[:15]}…" for i, name in enumerate(names)}
    return ChartPanel(marks, x=ChartAxis(ticks=ticks))


def _lines(
    data: SweepData, axes: CurveLayout, runs: Sequence[SweepRun]
) -> Iterator[tuple[str, str, dict[int, list[SweepRun]]]]:
    """Yield name, colour and runs by step of x."""
    if axes.lines is None:
        colours = style.colours(data.variants)
        groups = [(style.display_name(name), colours[name], [r for r in runs if r.variant == name])
                  for name in data.variants]  # fmt: skip
    else:
        axis = data.axes[axes.lines]
        groups = [(axis.words(step), style.PALETTE[step % len(style.PALETTE)],
                   [run for run in runs if run.steps[axes.lines] == step])
                  for step in range(len(axis.steps))]  # fmt: skip
    for name, colour, line_runs in groups:
        by_step: dict[int, list[SweepRun]] = {}
        for run in line_runs:
            by_step.setdefault(run.steps[axes.x], []).append(run)
        if by_step:
            yield name, colour, by_step


def _line(x: SweepAxis, name: str, colour: str, by_step: dict[int, list[SweepRun]], shift: float) -> list[Mark]:
    """Return marks; the range goes from the smallest run to the largest, with an arrow if that one is a lower bound."""
    middles, gapped, ranges, arrows, dots = [], [], [], [], []
    for step in sorted(by_step, key=lambda step: place_of(x, step)):
        place, total = place_of(x, step) + shift, summary_of(by_step[step])
        is_bound = total.value is None
        middles.append(Spot(place, total.largest if total.value is None else total.value, _values(x, step, total)))
        gapped.append(Spot(place, nan if total.value is None else total.value))
        if total.low is not None and total.largest > total.low:
            ranges.append(Spot(place, total.low, end=total.largest))
        if total.unreached:
            arrows.append(Spot(place, total.largest, is_bound=is_bound))
        for run in by_step[step]:
            values: dict[str, Value] = {"x": value_of(x, step), "value": run.value, "longer": run.censored}
            run_id = f"point {run.point}, {run.run_id}"
            dots.append(Spot(place, run.value, values, run_id, is_bound=run.censored))
    return [
        LineMark(gapped, colour, label=name, width=1.8, marker="o"),
        Whisker(ranges, colour, width=1.1, alpha=1.0),
        Dot(arrows, colour, marker=ARROW_UP, size=6),
        Mark(middles, colour, name, "middle of the runs"),
        Dot(dots, colour, name, "run", marker=".", size=3, alpha=0.45),
    ]


def place_of(x: SweepAxis, step: int) -> float:
    """Return the position on the axis: words are at whole numbers."""
    return float(x.steps[step][0] if x.is_numeric else step)


def value_of(x: SweepAxis, step: int) -> Value:
    value: float | str = x.steps[step][0]
    return value if x.is_numeric else str(value)


def _values(x: SweepAxis, step: int, of: Summary) -> dict[str, Value]:
    return {
        "x": value_of(x, step), "value": of.largest if of.value is None else of.value, "low": of.low, "high": of.high,
        "at_least": of.at_least, "runs": of.runs, "unreached": of.unreached,
        "not_steady": of.unsteady, "longer": of.value is None,
    }  # fmt: skip
