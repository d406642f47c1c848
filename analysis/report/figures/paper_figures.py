"""Panels of several experiments side by side, as the papers print them. What was not run is an empty panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.claims.estimates import own_number
from analysis.claims.publications import Panel, PublishedFigure
from analysis.record.event_timeline import FIRST_EVENT
from analysis.report.figures import event_times, measured_panels, points, style, throughput_timeline
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.series_data import Level, SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ABREAST = 3
WIDTH_IN = 10.8
HEIGHTS_IN = {"throughput": 2.7, "downtime": 2.7}
RunValue = tuple[float, str]  # and the run that it was measured in


GAIN = Column("gain_percent", "gain over its own before", "%")
LEVEL = Column("throughput_after_per_s", "throughput after", "tuples/s")


def draw(figure: PublishedFigure, data_by_experiment: Mapping[str, SeriesData]) -> Drawing:
    """Draw the panels of a published figure; an experiment without data gives an empty panel."""
    rows = ceil(len(figure.panels) / ABREAST)
    columns = ceil(len(figure.panels) / rows)  # four panels are two by two
    height = rows * max(_height(panel, data_by_experiment.get(panel.experiment)) for panel in figure.panels)
    kinds = {panel.draw for panel in figure.panels}
    of_model = any(data.of_model for data in data_by_experiment.values())
    shared = "all" if figure.share_y and len(kinds) <= len({k for k in kinds if k.startswith("convergence")}) else False
    with style.canvas(height, columns, rows, WIDTH_IN, sharex=shared) as (canvas, axes_of):
        for number, (axes, panel) in enumerate(zip(axes_of, figure.panels, strict=False)):
            axes.set_title(panel.title, loc="left", fontweight="bold")
            data = data_by_experiment.get(panel.experiment)
            if data is None or not data.totals:
                _empty_panel(axes, panel, of_model)
            else:
                PANELS[panel.draw](axes, data)
            _outer_labels_only(axes, figure, number, columns, shared == "all")
        for axes in axes_of[len(figure.panels) :]:
            axes.set_visible(False)
        columns_of = dict.fromkeys(column for panel in figure.panels for column in _columns(panel, of_model))
        return style.drawing(canvas, f"{figure.title} ({figure.source})", tuple(columns_of), panels=True)


def _columns(panel: Panel, of_model: bool) -> tuple[Column, ...]:
    """Runs of a model have no interval."""
    return (*COLUMNS[panel.draw], *(() if of_model else INTERVALS.get(panel.draw, ())))


def _outer_labels_only(axes: Axes, figure: PublishedFigure, number: int, columns: int, shared: bool) -> None:
    """A label that the panel at the left or below repeats is left out."""
    left = figure.panels[number - 1] if number % columns else None
    if left is not None and left.draw == figure.panels[number].draw == "throughput":
        axes.set_ylabel("")
    if shared and number + columns < len(figure.panels):
        axes.set_xlabel("")


def _height(panel: Panel, data: SeriesData | None) -> float:
    variants = 3 if data is None else len(data.variants)
    return HEIGHTS_IN.get(panel.draw, 0.34 * variants + 0.8)


def _empty_panel(axes: Axes, panel: Panel, of_model: bool) -> None:
    what = "simulated" if of_model else "run"
    axes.text(0.5, 0.5, f"{panel.experiment}\nnot {what}", ha="center", va="center", transform=axes.transAxes,
              color=style.GREY, fontsize=10)  # fmt: skip
    # The ticks themselves may be shared with panels that were run.
    axes.tick_params(labelbottom=False, labelleft=False, bottom=False, left=False)
    axes.grid(visible=False)


def _throughput(axes: Axes, data: SeriesData) -> None:
    throughput_timeline.draw_panel(axes, data, data.variants, values=False)
    axes.set_ylabel("throughput (tuples/s)")


def _downtime(axes: Axes, data: SeriesData) -> None:
    event_times.draw_downtime_panel(axes, data, FIRST_EVENT)
    axes.set_ylabel("downtime (s)")


def _convergence(definition: str) -> Callable[[Axes, SeriesData], None]:
    def panel(axes: Axes, data: SeriesData) -> None:
        event_times.draw_convergence_panel(axes, data, FIRST_EVENT, definition)
        axes.set_xlabel("convergence time (s)")
        longest = max((time.seconds for time in data.times if time.definition == definition), default=0.0)
        axes.set_xlim(0, max(axes.get_xlim()[1], 1.25 * longest))

    return panel


def _ranking(axes: Axes, data: SeriesData) -> None:
    """Gain over the own level before, best on top, with the mean's interval, if the runs were measured."""
    _rank_panel(axes, data, {variant: _gains(data, variant) for variant in data.variants}, GAIN)
    axes.axvline(0, color="#222222", lw=0.9)


def _levels(axes: Axes, data: SeriesData) -> None:
    """The level after, in the ranking's order."""
    _rank_panel(axes, data, {v: _levels_after(data, v) for v in data.variants}, LEVEL)
    axes.set_xlim(left=0)


def _rank_panel(axes: Axes, data: SeriesData, values: Mapping[str, list[RunValue]], of: Column) -> None:
    colours = style.colours(data.variants)
    order = sorted(data.variants, key=lambda v: _middle(_gains(data, v)), reverse=True)
    for position, variant in enumerate(order):
        _draw_spread(axes, position, variant, values[variant], colours[variant], of, with_interval=not data.of_model)
    axes.set_yticks(range(len(order)), [style.display_name(variant) for variant in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{of.label} ({of.unit})")
    axes.margins(x=0.12)


def _interval_columns(of: Column) -> tuple[Column, Column]:
    """Of the mean's 95 % interval."""
    return Column(f"low_{of.name}", "95 % interval from", of.unit), Column(f"high_{of.name}", "to", of.unit)


def _middle(measured: list[RunValue]) -> float:
    return fmean(value for value, _ in measured) if measured else float("-inf")


def _draw_spread(
    axes: Axes, position: int, variant: str, measured: list[RunValue], colour: str, of: Column, *, with_interval: bool
) -> None:
    if not measured:
        return
    values = [value for value, _ in measured]
    middle: dict[str, points.Value] = {of.name: fmean(values)}
    axes.plot(values, [position] * len(values), marker="o", ms=4.5, ls="", color=colour, alpha=0.7)
    axes.plot([fmean(values)] * 2, [position - 0.28, position + 0.28], color=colour, lw=2)
    if with_interval and (estimate := own_number(values)) is not None:
        ends = estimate.interval()
        axes.plot(ends, [position, position], color=colour, lw=5, alpha=0.25, solid_capstyle="butt")
        middle |= {end.name: value for end, value in zip(_interval_columns(of), ends, strict=True)}
    name = style.display_name(variant)
    points.add_points(
        axes, name, "run", colour, [Spot(value, position, {of.name: value}, run) for value, run in measured]
    )
    points.add_points(axes, name, "mean", colour, [Spot(fmean(values), position - 0.28, middle)])


def _gains(data: SeriesData, variant: str) -> list[RunValue]:
    return [
        (100 * (level.after / level.before - 1), level.run_id)
        for level in _levels_of(data, variant)
        if level.before and level.after is not None
    ]


def _levels_after(data: SeriesData, variant: str) -> list[RunValue]:
    return [(level.after, level.run_id) for level in _levels_of(data, variant) if level.after is not None]


def _levels_of(data: SeriesData, variant: str) -> list[Level]:
    return [level for level in data.levels if level.variant == variant]


PANELS: dict[str, Callable[[Axes, SeriesData], None]] = {
    "throughput": _throughput,
    "downtime": _downtime,
    "convergence_sp": _convergence("sp"),
    "convergence_st": _convergence("st"),
    "ranking": _ranking,
    "levels": _levels,
    **measured_panels.PANELS,
}
COLUMNS: dict[str, tuple[Column, ...]] = {
    "throughput": throughput_timeline.COLUMNS,
    "downtime": event_times.DOWNTIME_COLUMNS,
    "convergence_sp": event_times.CONVERGENCE_COLUMNS,
    "convergence_st": event_times.CONVERGENCE_COLUMNS,
    "ranking": (GAIN,),
    "levels": (LEVEL,),
    **measured_panels.COLUMNS,
}
INTERVALS: dict[str, tuple[Column, ...]] = {
    "ranking": _interval_columns(GAIN),
    "levels": _interval_columns(LEVEL),
    **measured_panels.INTERVALS,
}
