"""Throughput over time of a series: one panel, or one a variant where one panel would be a tangle."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from analysis.figures import style
from analysis.figures.points import Drawing
from analysis.figures.series import SeriesData
from analysis.figures.timeline import COLUMNS, draw_panel, median_line, middles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL = "throughput at sinks (tuples/s)"
TITLE = "Throughput over time, in tuples per second: medians and ranges over runs"
ABREAST = 4


def draw(data: SeriesData) -> Drawing | None:
    """The timeline, or None where no complete run had an event."""
    if not data.totals:
        return None
    if len(data.variants) > style.LEGIBLE_VARIANTS:
        return _multiples(data)
    with style.canvas(3.4) as (figure, (axes,)):
        draw_panel(axes, data, data.variants)
        axes.set_ylabel(LABEL)
        return style.drawing(figure, TITLE, COLUMNS)


def _multiples(data: SeriesData) -> Drawing:
    """One panel a variant over the first one's median in grey, all on the same axes.

    The grey line is told in the first panel only: it is the same data.
    """
    rows = ceil(len(data.variants) / ABREAST)
    with style.canvas(2.1 * rows + 0.3, columns=ABREAST, rows=rows, sharex=True, sharey=True) as (figure, panels):
        for axes, variant in zip(panels, data.variants, strict=False):
            _multiple(axes, data, variant)
        for axes in panels[len(data.variants) :]:
            axes.set_visible(False)
        panels[0].set_ylim(0, 1.08 * highest(data))  # shared
        figure.supxlabel("time since the first event (s)", fontsize=9)
        figure.supylabel(LABEL, fontsize=9)
        return style.drawing(figure, TITLE, COLUMNS)


def highest(data: SeriesData) -> float:
    """The largest rate of any line."""
    return max((r for line in (*data.totals, *data.due) for r in line.rates if r is not None), default=1.0) or 1.0


def _multiple(axes: Axes, data: SeriesData, variant: str) -> None:
    reference = median_line([line for line in data.totals if line.variant == data.variants[0]])
    axes.plot(middles(s for s, _ in reference), [r for _, r in reference], color="#B0B0B0", lw=1.2)
    draw_panel(axes, data, [variant], values=False)
    for text in list(axes.texts):  # the panel's title says it
        text.remove()
    level = data.level_after(variant)
    axes.set_title(f"{style.named(variant)}{'' if level is None else f', {level:.0f}/s'}", loc="left",
                   color=style.colours(data.variants)[variant], fontsize=8.5)  # fmt: skip
    axes.set_xlabel("")
