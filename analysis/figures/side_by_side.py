"""Panels of several experiments side by side, as the papers print them. What was not run is an empty panel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from analysis import statistics
from analysis.claims import floors
from analysis.claims.rows import MINIMUM_RUNS, SEED
from analysis.event_ids import FIRST_EVENT
from analysis.figures import convergence, downtime, style, timeline
from analysis.figures.series import Level, SeriesData
from analysis.published import Panel, Published

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 3
WIDTH_IN = 10.8
HEIGHTS_IN = {"throughput": 2.7, "downtime": 2.7}


def draw(figure: Published, found: Mapping[str, SeriesData]) -> str:
    """One SVG; `found` has the experiments that were run."""
    columns = min(COLUMNS, len(figure.panels))
    rows = ceil(len(figure.panels) / columns)
    height = rows * max(_height(panel, found.get(panel.experiment)) for panel in figure.panels)
    kinds = {panel.draw for panel in figure.panels}
    shared = "all" if figure.share_y and len(kinds) <= len({k for k in kinds if k.startswith("convergence")}) else False
    with style.canvas(height, columns, rows, WIDTH_IN, sharex=shared) as (canvas, axes_of):
        for number, (axes, panel) in enumerate(zip(axes_of, figure.panels, strict=False)):
            axes.set_title(panel.title, loc="left", fontweight="bold")
            data = found.get(panel.experiment)
            if data is None or not data.totals:
                _not_run(axes, panel)
            else:
                PANELS[panel.draw](axes, data)
            _outer_labels_only(axes, figure, number, columns, shared == "all")
        return style.svg(canvas, f"{figure.title} ({figure.source})")


def _outer_labels_only(axes: Axes, figure: Published, number: int, columns: int, shared: bool) -> None:
    """A label that the panel at the left or below repeats is left out."""
    left = figure.panels[number - 1] if number % columns else None
    if left is not None and left.draw == figure.panels[number].draw == "throughput":
        axes.set_ylabel("")
    if shared and number + columns < len(figure.panels):
        axes.set_xlabel("")


def _height(panel: Panel, data: SeriesData | None) -> float:
    variants = 3 if data is None else len(data.variants)
    return HEIGHTS_IN.get(panel.draw, 0.34 * variants + 0.8)


def _not_run(axes: Axes, panel: Panel) -> None:
    axes.text(0.5, 0.5, f"{panel.experiment}\nnot run", ha="center", va="center", transform=axes.transAxes,
              color=style.GREY, fontsize=10)  # fmt: skip
    # The ticks themselves may be shared with panels that were run.
    axes.tick_params(labelbottom=False, labelleft=False, bottom=False, left=False)
    axes.grid(visible=False)


def _throughput(axes: Axes, data: SeriesData) -> None:
    timeline.draw_panel(axes, data, data.variants, values=False)
    axes.set_ylabel("throughput (tuples/s)")


def _downtime(axes: Axes, data: SeriesData) -> None:
    downtime.draw_panel(axes, data, FIRST_EVENT)
    axes.set_ylabel("downtime (s)")


def _convergence(definition: str) -> Callable[[Axes, SeriesData], None]:
    def panel(axes: Axes, data: SeriesData) -> None:
        convergence.draw_panel(axes, data, FIRST_EVENT, definition)
        axes.set_xlabel("convergence time (s)")
        longest = max((time.seconds for time in data.times if time.definition == definition), default=0.0)
        axes.set_xlim(0, max(axes.get_xlim()[1], 1.25 * longest))

    return panel


def _ranking(axes: Axes, data: SeriesData) -> None:
    """Gain over the own level before, best on top, with interval and A/A floor."""
    gains = {variant: _gains(data, variant) for variant in data.variants}
    _ranked(axes, data, gains, "gain over its own before (%)")
    floor = floors.largest("gain_percent", {("", variant): values for variant, values in gains.items()})
    if floor is not None:
        axes.axvspan(-floor.percent, floor.percent, color=style.GREY, alpha=0.13, lw=0)
    axes.axvline(0, color="#222222", lw=0.9)


def _levels(axes: Axes, data: SeriesData) -> None:
    """The level after, in the ranking's order."""
    _ranked(axes, data, {v: _levels_after(data, v) for v in data.variants}, "throughput after (tuples/s)")
    axes.set_xlim(left=0)


def _ranked(axes: Axes, data: SeriesData, values: Mapping[str, list[float]], label: str) -> None:
    colours = style.colours(data.variants)
    order = sorted(data.variants, key=lambda v: median(_gains(data, v) or [float("-inf")]), reverse=True)
    for position, variant in enumerate(order):
        _spread(axes, position, values[variant], colours[variant])
    axes.set_yticks(range(len(order)), [style.named(variant) for variant in order])
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label)
    axes.margins(x=0.12)


def _spread(axes: Axes, position: int, values: list[float], colour: str) -> None:
    if not values:
        return
    axes.plot(values, [position] * len(values), marker="o", ms=4.5, ls="", color=colour, alpha=0.7)
    axes.plot([median(values)] * 2, [position - 0.28, position + 0.28], color=colour, lw=2)
    if len(values) >= MINIMUM_RUNS:
        found = statistics.median_interval(values, SEED)
        axes.plot([found.low, found.high], [position, position], color=colour, lw=5, alpha=0.25, solid_capstyle="butt")


def _gains(data: SeriesData, variant: str) -> list[float]:
    return [
        100 * (level.after / level.before - 1)
        for level in _of(data, variant)
        if level.before and level.after is not None
    ]


def _levels_after(data: SeriesData, variant: str) -> list[float]:
    return [level.after for level in _of(data, variant) if level.after is not None]


def _of(data: SeriesData, variant: str) -> list[Level]:
    return [level for level in data.levels if level.variant == variant]


PANELS: dict[str, Callable[[Axes, SeriesData], None]] = {
    "throughput": _throughput,
    "downtime": _downtime,
    "convergence_sp": _convergence("sp"),
    "convergence_st": _convergence("st"),
    "ranking": _ranking,
    "levels": _levels,
}
