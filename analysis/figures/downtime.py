"""Downtime: seconds at zero throughput after each event, a bar (median) a variant, every run a dot (SP figure 8b)."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from analysis.event_ids import place
from analysis.figures import points, style
from analysis.figures.points import Column, Drawing, Spot
from analysis.figures.series import Downtime, SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (Column("event", "event", kind="word"), Column("downtime_s", "downtime", "s"))


def draw(data: SeriesData) -> Drawing | None:
    """Only where machines left or died: a scale-out's downtime stands in the table of runs."""
    kinds = {mark.event_id: mark for mark in data.marks if mark.kind in ("scale_in", "crash")}
    shown = [event for event in sorted(kinds, key=place) if any(down.event_id == event for down in data.downtimes)]
    if not shown:
        return None
    with style.canvas(2.6, columns=len(shown), sharey=True) as (figure, panels):
        for axes, event in zip(panels, shown, strict=True):
            draw_panel(axes, data, event)
            axes.set_title(kinds[event].label, loc="left")
        panels[0].set_ylabel("downtime (s)")
        panels[0].set_ylim(0, _top([down for down in data.downtimes if down.event_id in shown]))
        return style.drawing(figure, "Seconds at zero throughput after the event, by variant, every run", COLUMNS)


def draw_panel(axes: Axes, data: SeriesData, event_id: str) -> None:
    downs = [down for down in data.downtimes if down.event_id == event_id]
    colours = style.colours(data.variants)
    event = data.label(event_id)
    for position, variant in enumerate(data.variants):
        mine = [down for down in downs if down.variant == variant]
        if mine:
            _bar(axes, position, mine, colours[variant], event)
    axes.set_ylim(0, _top(downs))
    axes.set_xticks(range(len(data.variants)), [style.folded(variant) for variant in data.variants])
    axes.set_xlim(-0.6, len(data.variants) - 0.4)
    axes.grid(axis="x", visible=False)


def _top(downs: list[Downtime]) -> float:
    """Room for the labels; a second where nobody was down."""
    return max(1.0, 1.2 * max((down.seconds for down in downs), default=0.0))


def _bar(axes: Axes, position: int, mine: list[Downtime], colour: str, event: str) -> None:
    middle = median(down.seconds for down in mine)
    axes.bar(position, middle, width=0.55, color=colour, alpha=0.3, lw=0)
    step = 0.42 / len(mine)
    places = [position + (i - (len(mine) - 1) / 2) * step for i in range(len(mine))]
    for down, at in zip(mine, places, strict=True):
        axes.plot(at, down.seconds, marker="o", ms=5, ls="", color=colour, clip_on=False, zorder=3)
    name = style.named(mine[0].variant)
    points.tell(axes, name, "run", colour, [
        Spot(at, down.seconds, {"event": event, "downtime_s": down.seconds}, down.run_id)
        for down, at in zip(mine, places, strict=True)
    ])  # fmt: skip
    points.tell(axes, name, "median", colour, [Spot(position, middle, {"event": event, "downtime_s": middle})])
    axes.annotate(f"{middle:.0f} s", (position, max(down.seconds for down in mine)), xytext=(0, 6),
                  textcoords="offset points", ha="center", color=colour, fontsize=8.5)  # fmt: skip
