"""Convergence time: a bar (median) a variant and definition, every run a dot, a censored run a hollow triangle."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from analysis.figures import style
from analysis.figures.series import SeriesData, Time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {"sp": "IC2E paper (SP)", "st": "thesis (ST)", "script": "authors' script"}


def draw(data: SeriesData) -> str | None:
    if not data.times:
        return None
    with style.canvas(2.9, columns=len(TITLES), sharey=True) as (figure, panels):
        for axes, (definition, title) in zip(panels, TITLES.items(), strict=True):
            _panel(axes, data, definition)
            axes.set_title(title, loc="left")
        panels[0].set_ylabel("convergence time (s)")
        panels[0].set_ylim(0, 1.16 * max(time.seconds for time in data.times))
        return style.svg(figure, "Convergence time in seconds, by definition and variant, every run")


def _panel(axes: Axes, data: SeriesData, definition: str) -> None:
    colours = style.colours(data.variants)
    for position, variant in enumerate(data.variants):
        times = [time for time in data.times if (time.variant, time.definition) == (variant, definition)]
        if times:
            _bar(axes, position, times, colours[variant])
    axes.set_xticks(range(len(data.variants)), [style.named(v).replace(" + ", " +\n") for v in data.variants])
    axes.set_xlim(-0.6, len(data.variants) - 0.4)
    axes.grid(axis="x", visible=False)


def _bar(axes: Axes, position: int, times: list[Time], colour: str) -> None:
    middle = median(time.seconds for time in times)
    censored = 2 * sum(time.censored for time in times) >= len(times)
    # An open bar is a lower bound: half or more of its runs never converged.
    axes.bar(position, middle, width=0.55, color="none" if censored else colour, alpha=None if censored else 0.3,
             edgecolor=colour, ls="--" if censored else "-", lw=1.2 if censored else 0)  # fmt: skip
    step = 0.42 / max(1, len(times))
    for i, time in enumerate(times):
        at = position + (i - (len(times) - 1) / 2) * step
        axes.plot(at, time.seconds, marker="^" if time.censored else "o", ms=5.5, ls="", color=colour,
                  mfc="white" if time.censored else colour, clip_on=False, zorder=3)  # fmt: skip
    label = f"> {middle:.0f} s" if censored else f"{middle:.0f} s"
    axes.annotate(label, (position, max(t.seconds for t in times)), xytext=(0, 6), textcoords="offset points",
                  ha="center", color=colour, fontsize=8.5)  # fmt: skip
