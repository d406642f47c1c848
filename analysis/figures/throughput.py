"""Throughput over time: every repetition a thin line, the median of a variant bold, the scale request marked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import TYPE_CHECKING

from analysis.figures import style
from analysis.figures.series import Line, SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOW_S = 10.0


def draw(data: SeriesData) -> str | None:
    """The timeline, or None where no complete run was scaled."""
    if not data.totals:
        return None
    with style.canvas(3.4) as (figure, (axes,)):
        ends: list[tuple[str, str, float]] = []
        colours = style.colours(data.variants)
        for variant in data.variants:
            lines = [line for line in data.totals if line.variant == variant]
            for line in lines:
                axes.plot(_middles(line.starts_s), _plotted(line.rates), color=colours[variant], lw=0.7, alpha=0.45)
            middle = median_line(lines)
            if middle:
                axes.plot(_middles([s for s, _ in middle]), [r for _, r in middle], color=colours[variant], lw=2.2)
                ends.append((style.named(variant), colours[variant], data.levels.get(variant, middle[-1][1])))
        offered = median_line(data.due)
        if offered:
            starts, rates = zip(*offered, strict=True)
            axes.plot(_middles(starts), rates, color=style.GREY, lw=1.2, ls=(0, (4, 2)))
            ends.append(("offered at spouts", style.GREY, offered[-1][1]))
        _finish(axes, ends, max(line.starts_s[-1] for line in data.totals) + WINDOW_S)
        return style.svg(figure, "Throughput over time, in tuples per second, for every run")


def _finish(axes: Axes, ends: list[tuple[str, str, float]], last_s: float) -> None:
    axes.set_ylim(bottom=0)
    top = axes.get_ylim()[1] * 1.06
    axes.set_ylim(0, top)
    axes.axvline(0, color="#222222", lw=1)
    axes.annotate("scale request", (0, top), xytext=(4, -3), textcoords="offset points", va="top", fontsize=8.5)
    heights = style.spread_labels([rate for _, _, rate in ends], 0.075 * top)
    for (label, colour, rate), height in zip(ends, heights, strict=True):
        axes.annotate(
            f"{label}, {rate:.0f}/s", (last_s, height), xytext=(5, 0), textcoords="offset points", va="center",
            color=colour, fontsize=9, annotation_clip=False,
        )  # fmt: skip
    axes.set_xlim(right=last_s)
    axes.set_xlabel("time since the scale request (s)")
    axes.set_ylabel("throughput at sinks (tuples/s)")
    axes.grid(axis="x", visible=False)


def median_line(lines: Iterable[Line]) -> list[tuple[float, float]]:
    """Median over the runs in every window that more than half of them have; (start, rate), oldest first."""
    lines = list(lines)
    rates: dict[float, list[float]] = defaultdict(list)
    for line in lines:
        for start, rate in zip(line.starts_s, line.rates, strict=True):
            if rate is not None:
                rates[start].append(rate)
    return [(start, median(seen)) for start, seen in sorted(rates.items()) if 2 * len(seen) > len(lines)]


def _middles(starts: Iterable[float]) -> list[float]:
    return [start + WINDOW_S / 2 for start in starts]


def _plotted(rates: Iterable[float | None]) -> list[float]:
    """Null windows leave a gap in the line."""
    return [float("nan") if rate is None else rate for rate in rates]
