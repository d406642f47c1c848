"""The curves of a sweep: a metric over a swept field, a line a variant, with the runs from the lowest to the highest.

With several swept fields one is x (of numbers the one with most values); where there is one variant, another one makes
the lines; every combination of the others has a panel.

A time that was not reached is no value: the run is a hollow triangle at its horizon, the range is open at its end, and
where the median was not reached the line has a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, nan
from typing import TYPE_CHECKING

from analysis.report.figures import points, style
from analysis.report.figures.measured_panels import ARROW_UP
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.sweep_data import Summary, SweepAxis, SweepData, SweepRun, metric_words, summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ABREAST = 3
MOST_PANELS = 24  # more than anybody compares; the files have all
MOST_LINES = 8
WIDE_RATIO = 30.0  # of the largest to the smallest value of x: from there on its axis is logarithmic
SHIFT = 0.12  # of two lines' marks at one place that is no number


@dataclass(frozen=True)
class Layout:
    """Which axis is what, by their places; `panels`: none, or several whose combinations have a panel each."""

    x: int
    lines: int | None
    panels: tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """Its runs by step of x."""

    name: str
    colour: str
    by_step: dict[int, list[SweepRun]]


def layout(data: SweepData) -> Layout:
    """Seeds are repetitions, unless nothing else is swept."""
    shown = [place for place, axis in enumerate(data.axes) if not axis.is_replicate] or [0]
    x = max(shown, key=lambda place: (data.axes[place].is_numeric, len(data.axes[place].steps), -place))
    others = [place for place in shown if place != x]
    few = [place for place in others if len(data.axes[place].steps) <= MOST_LINES]
    lines = few[0] if len(data.variants) == 1 and few else None
    return Layout(x, lines, tuple(place for place in others if place != lines))


def panels_of(data: SweepData, found: Layout) -> list[tuple[int, ...]]:
    """The steps of the panels' axes, a panel each."""
    return list(product(*(range(len(data.axes[place].steps)) for place in found.panels)))


def draw(data: SweepData, event_id: str, metric: str) -> Drawing | None:
    """None where no run has the metric."""
    runs = [run for run in data.runs if (run.event_id, run.metric) == (event_id, metric)]
    if not runs:
        return None
    found, (words, unit) = layout(data), metric_words(metric)
    panels = panels_of(data, found)[:MOST_PANELS]
    columns = min(ABREAST, len(panels))
    rows = ceil(len(panels) / columns)
    height = 3.3 if len(panels) == 1 else 2.3 * rows + 0.4
    with style.canvas(height, columns=columns, rows=rows, sharex=True, sharey=True) as (figure, axes):
        for place, (panel, steps) in enumerate(zip(axes, panels, strict=False)):
            mine = [run for run in runs if tuple(run.steps[axis] for axis in found.panels) == steps]
            draw_panel(panel, data, found, mine)
            if steps:
                said = [data.axes[axis].words(step) for axis, step in zip(found.panels, steps, strict=True)]
                panel.set_title("\n".join(said), loc="left", fontsize=8.5)
            if place == 0:
                panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]))
        for empty in axes[len(panels) :]:
            empty.set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) > 1:
            figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, fontsize=8.5)
        figure.supxlabel(data.axes[found.x].name, fontsize=9)
        figure.supylabel(f"{words} ({unit})", fontsize=9)
        title = f"{words} in {unit} over {data.axes[found.x].name}"
        return style.drawing(figure, title, _columns(data, found, words, unit), panels=len(panels) > 1)


def _columns(data: SweepData, found: Layout, words: str, unit: str) -> tuple[Column, ...]:
    x = data.axes[found.x]
    return (
        Column("x", x.name, kind="number" if x.is_numeric else "word"),
        Column("value", words, unit),
        Column("low", "from", unit),
        Column("high", "to", unit),
        Column("at_least", "to at least", unit),
        Column("runs", "runs"),
        Column("unreached", "of these longer than watched"),
        Column("not_steady", "of these not steady"),
        Column("longer", "longer than that", kind="yes_no"),
    )


def draw_panel(axes: Axes, data: SweepData, found: Layout, runs: Sequence[SweepRun]) -> None:
    """The lines of these runs over the field that is x."""
    x = data.axes[found.x]
    lines = list(_lines(data, found, runs))
    for place, line in enumerate(lines):
        shift = 0.0 if x.is_numeric else SHIFT * (place - (len(lines) - 1) / 2)
        _draw_line(axes, x, line, shift)
    if not x.is_numeric:
        axes.set_xticks(range(len(x.steps)), [_tick(x, step) for step in range(len(x.steps))])
    elif _is_wide(x):
        axes.set_xscale("log")


def _tick(x: SweepAxis, step: int) -> str:
    text = str(x.steps[step][0])
    return text if len(text) <= 16 else f"{text[:15]}…"


def _is_wide(x: SweepAxis) -> bool:
    values: list[float] = [step[0] for step in x.steps]
    return min(values) > 0 and max(values) / min(values) >= WIDE_RATIO


def _lines(data: SweepData, found: Layout, runs: Sequence[SweepRun]) -> Iterator[Line]:
    if found.lines is None:
        colours = style.colours(data.variants)
        groups = [(style.display_name(name), colours[name], [r for r in runs if r.variant == name])
                  for name in data.variants]  # fmt: skip
    else:
        axis = data.axes[found.lines]
        groups = [(axis.words(step), style.PALETTE[step % len(style.PALETTE)],
                   [run for run in runs if run.steps[found.lines] == step])
                  for step in range(len(axis.steps))]  # fmt: skip
    for name, colour, mine in groups:
        by_step: dict[int, list[SweepRun]] = {}
        for run in mine:
            by_step.setdefault(run.steps[found.x], []).append(run)
        if by_step:
            yield Line(name, colour, by_step)


def _draw_line(axes: Axes, x: SweepAxis, line: Line, shift: float) -> None:
    at = {step: place_of(x, step) + shift for step in line.by_step}
    order = sorted(line.by_step, key=lambda step: at[step])
    summaries = {step: summary(line.by_step[step]) for step in order}
    values = [nan if (value := summaries[step].value) is None else value for step in order]
    axes.plot([at[step] for step in order], values, color=line.colour, lw=1.8, marker="o", ms=4, label=line.name)
    for step in order:
        _draw_range(axes, at[step], line.colour, summaries[step])
        for run in line.by_step[step]:
            _draw_run(axes, at[step], line.colour, run)
    middle = [Spot(at[step], _height(summaries[step]), _values(x, step, summaries[step])) for step in order]
    points.add_points(axes, line.name, "middle of the runs", line.colour, middle)
    dots = [
        Spot(at[step], run.value,
             {"x": value_of(x, step), "value": run.value, "longer": run.censored}, f"point {run.point}, {run.run_id}")
        for step in order for run in line.by_step[step]
    ]  # fmt: skip
    points.add_points(axes, line.name, "run", line.colour, dots)


def _draw_run(axes: Axes, place: float, colour: str, run: SweepRun) -> None:
    if run.censored:
        axes.plot(place, run.value, marker="^", ms=3, ls="", color=colour, mfc="white", zorder=3, clip_on=False)
    else:
        axes.plot(place, run.value, marker=".", ms=3, ls="", color=colour, alpha=0.45)


def _draw_range(axes: Axes, place: float, colour: str, found: Summary) -> None:
    """From the smallest run to the largest, with an arrow where that is longer; and a median that was not reached."""
    if found.low is not None and found.largest > found.low:
        axes.plot([place] * 2, [found.low, found.largest], color=colour, lw=1.1)
    if found.unreached:
        is_bound = found.value is None
        axes.plot(place, found.largest, marker="^" if is_bound else ARROW_UP, ms=6, ls="", color=colour,
                  mfc="white" if is_bound else colour, zorder=3, clip_on=False)  # fmt: skip


def place_of(x: SweepAxis, step: int) -> float:
    """Where it is on the axis: words stand at whole numbers."""
    return float(x.steps[step][0] if x.is_numeric else step)


def value_of(x: SweepAxis, step: int) -> points.Value:
    value: float | str = x.steps[step][0]
    return value if x.is_numeric else str(value)


def _height(found: Summary) -> float:
    return found.largest if found.value is None else found.value


def _values(x: SweepAxis, step: int, found: Summary) -> dict[str, points.Value]:
    return {
        "x": value_of(x, step), "value": _height(found), "low": found.low, "high": found.high,
        "at_least": found.at_least, "runs": found.number, "unreached": found.unreached,
        "not_steady": found.not_steady, "longer": found.value is None,
    }  # fmt: skip
