"""Convergence time: a bar (median) a variant and definition, every run a dot, a censored run a hollow triangle."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from analysis.event_ids import place
from analysis.figures import points, style
from analysis.figures.points import Column, Drawing, Spot
from analysis.figures.series import SeriesData, Time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {"sp": "IC2E paper (SP)", "st": "thesis (ST)", "script": "authors' script"}
COLUMNS = (
    Column("event", "event", kind="word"),
    Column("definition", "definition", kind="word"),
    Column("convergence_s", "convergence time", "s"),
    Column("censored", "longer than that", kind="yes_no"),
)


def draw(data: SeriesData) -> Drawing | None:
    """A row of panels an event, a column a definition."""
    if not data.times:
        return None
    events = sorted({time.event_id for time in data.times}, key=place)
    height = len(events) * (0.36 * len(data.variants) + (0.95 if len(events) > 1 else 0.75)) + 0.2
    with style.canvas(height, len(TITLES), len(events), sharex=True, sharey=True) as (figure, panels):
        for i, axes in enumerate(panels):
            event, definition = events[i // len(TITLES)], list(TITLES)[i % len(TITLES)]
            draw_panel(axes, data, event, definition)
            first = len(events) > 1 and i % len(TITLES) == 0
            axes.set_title((f"after {data.label(event)}\n" if first else "") + TITLES[definition], loc="left")
        panels[0].set_xlim(0, 1.22 * max(time.seconds for time in data.times))
        figure.supxlabel("convergence time (s)", fontsize=9)
        return style.drawing(figure, "Convergence time in seconds, by definition and variant, every run", COLUMNS)


def draw_panel(axes: Axes, data: SeriesData, event: str, definition: str) -> None:
    """The first variant on top; names at the left."""
    colours = style.colours(data.variants)
    for position, variant in enumerate(data.variants):
        times = [t for t in data.times if (t.variant, t.definition, t.event_id) == (variant, definition, event)]
        if times:
            _bar(axes, position, times, colours[variant], data.label(event))
    axes.set_yticks(range(len(data.variants)), [style.named(variant) for variant in data.variants])
    axes.set_ylim(len(data.variants) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _bar(axes: Axes, position: int, times: Sequence[Time], colour: str, event: str) -> None:
    middle = median(time.seconds for time in times)
    censored = 2 * sum(time.censored for time in times) >= len(times)
    # An open bar is a lower bound: half or more of its runs never converged.
    axes.barh(position, middle, height=0.6, color="none" if censored else colour, alpha=None if censored else 0.3,
              edgecolor=colour, ls="--" if censored else "-", lw=1.2 if censored else 0)  # fmt: skip
    step = 0.44 / len(times)
    heights = [position + (i - (len(times) - 1) / 2) * step for i in range(len(times))]
    for time, at in zip(times, heights, strict=True):
        axes.plot(time.seconds, at, marker=">" if time.censored else "o", ms=4.5, ls="", color=colour,
                  mfc="white" if time.censored else colour, clip_on=False, zorder=3)  # fmt: skip
    name, told = style.named(times[0].variant), {"event": event, "definition": TITLES[times[0].definition]}
    points.tell(axes, name, "run", colour, [
        Spot(time.seconds, at, told | {"convergence_s": time.seconds, "censored": time.censored}, time.run_id)
        for time, at in zip(times, heights, strict=True)
    ])  # fmt: skip
    middles = told | {"convergence_s": middle, "censored": censored}
    points.tell(axes, name, "median", colour, [Spot(middle, position - 0.3, middles)])
    label = f"> {middle:.0f} s" if censored else f"{middle:.0f} s"
    axes.annotate(label, (max(t.seconds for t in times), position), xytext=(7, 0), textcoords="offset points",
                  va="center", color=colour, fontsize=8.5)  # fmt: skip
