"""Convergence time and downtime after each event: a bar (median) a variant, every run a dot.

Convergence has a column of panels for each definition. A run that never converged is a hollow triangle at its horizon,
which is no value: the bar is Kaplan and Meier's median, and where that was not reached an open one to the longest
horizon. Downtime is seconds at zero throughput (SP figure 8b), drawn alike: a run that was still at zero when its watch
ended was down for longer than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.record.event_timeline import event_order
from analysis.report.figures import points, style
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.series_data import Downtime, SeriesData, Time
from analysis.stats import survival

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MEDIAN = "median (Kaplan-Meier)"
DEFINITION_TITLES = {"sp": "IC2E paper (SP)", "st": "thesis (ST)", "script": "authors' script"}
CONVERGENCE_COLUMNS = (
    Column("event", "event", kind="word"),
    Column("definition", "definition", kind="word"),
    Column("convergence_s", "convergence time", "s"),
    Column("censored", "longer than that", kind="yes_no"),
)


def draw_convergence(data: SeriesData) -> Drawing | None:
    """A row of panels an event, a column a definition."""
    if not data.times:
        return None
    events = sorted({time.event_id for time in data.times}, key=event_order)
    height = len(events) * (0.36 * len(data.variants) + (0.95 if len(events) > 1 else 0.75)) + 0.2
    with style.canvas(height, len(DEFINITION_TITLES), len(events), sharex=True, sharey=True) as (figure, panels):
        for i, axes in enumerate(panels):
            event, definition = events[i // len(DEFINITION_TITLES)], list(DEFINITION_TITLES)[i % len(DEFINITION_TITLES)]
            draw_convergence_panel(axes, data, event, definition)
            first = len(events) > 1 and i % len(DEFINITION_TITLES) == 0
            axes.set_title(
                (f"after {data.label(event)}\n" if first else "") + DEFINITION_TITLES[definition], loc="left"
            )
        panels[0].set_xlim(0, 1.22 * max(time.seconds for time in data.times))
        figure.supxlabel("convergence time (s)", fontsize=9)
        return style.drawing(
            figure, "Convergence time in seconds, by definition and variant, every run", CONVERGENCE_COLUMNS
        )


def draw_convergence_panel(axes: Axes, data: SeriesData, event: str, definition: str) -> None:
    """The first variant on top; names at the left."""
    colours = style.colours(data.variants)
    for position, variant in enumerate(data.variants):
        times = [t for t in data.times if (t.variant, t.definition, t.event_id) == (variant, definition, event)]
        if times:
            _convergence_bar(axes, position, times, colours[variant], data.label(event))
    axes.set_yticks(range(len(data.variants)), [style.display_name(variant) for variant in data.variants])
    axes.set_ylim(len(data.variants) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def _convergence_bar(axes: Axes, position: int, times: Sequence[Time], colour: str, event: str) -> None:
    middle, is_bound = _median(times)
    axes.barh(position, middle, height=0.6, **_bar_style(colour, is_bound))
    step = 0.44 / len(times)
    heights = [position + (i - (len(times) - 1) / 2) * step for i in range(len(times))]
    for time, at in zip(times, heights, strict=True):
        _draw_run(axes, time.seconds, at, colour, ">" if time.censored else "o")
    name, values = (
        style.display_name(times[0].variant),
        {"event": event, "definition": DEFINITION_TITLES[times[0].definition]},
    )
    points.add_points(axes, name, "run", colour, [
        Spot(time.seconds, at, values | {"convergence_s": time.seconds, "censored": time.censored}, time.run_id)
        for time, at in zip(times, heights, strict=True)
    ])  # fmt: skip
    middles = values | {"convergence_s": middle, "censored": is_bound}
    points.add_points(axes, name, MEDIAN, colour, [Spot(middle, position - 0.3, middles)])
    axes.annotate(_seconds_text(middle, is_bound), (max(t.seconds for t in times), position), xytext=(7, 0),
                  textcoords="offset points", va="center", color=colour, fontsize=8.5)  # fmt: skip


def _median(runs: Sequence[Time | Downtime]) -> tuple[float, bool]:
    """Kaplan and Meier's; where it was not reached, the longest horizon, and that it is a lower bound."""
    reached = survival.median([run.seconds for run in runs], [run.censored for run in runs])
    if reached is None:
        return max(run.seconds for run in runs if run.censored), True
    return reached, False


def _bar_style(colour: str, is_bound: bool) -> dict[str, Any]:
    """An open bar is a lower bound of the median."""
    if is_bound:
        return {"color": "none", "edgecolor": colour, "ls": "--", "lw": 1.2}
    return {"color": colour, "alpha": 0.3, "lw": 0}


def _draw_run(axes: Axes, x: float, y: float, colour: str, marker: str) -> None:
    """A dot, or a hollow triangle towards where the value lies."""
    axes.plot(x, y, marker=marker, ms=4.5, ls="", color=colour, mfc=colour if marker == "o" else "white",
              clip_on=False, zorder=3)  # fmt: skip


def _seconds_text(middle: float, is_bound: bool) -> str:
    return f"> {middle:.0f} s" if is_bound else f"{middle:.0f} s"


DOWNTIME_COLUMNS = (
    Column("event", "event", kind="word"),
    Column("downtime_s", "downtime", "s"),
    Column("censored", "longer than that", kind="yes_no"),
)


def draw_downtime(data: SeriesData) -> Drawing | None:
    """Only where machines left or died: a scale-out's downtime stands in the table of runs."""
    kinds = {mark.event_id: mark for mark in data.marks if mark.kind in ("scale_in", "crash")}
    events = [
        event for event in sorted(kinds, key=event_order) if any(down.event_id == event for down in data.downtimes)
    ]
    if not events:
        return None
    with style.canvas(2.6, columns=len(events), sharey=True) as (figure, panels):
        for axes, event in zip(panels, events, strict=True):
            draw_downtime_panel(axes, data, event)
            axes.set_title(kinds[event].label, loc="left")
        panels[0].set_ylabel("downtime (s)")
        panels[0].set_ylim(0, _downtime_top([down for down in data.downtimes if down.event_id in events]))
        return style.drawing(
            figure, "Seconds at zero throughput after the event, by variant, every run", DOWNTIME_COLUMNS
        )


def draw_downtime_panel(axes: Axes, data: SeriesData, event_id: str) -> None:
    downs = [down for down in data.downtimes if down.event_id == event_id]
    colours = style.colours(data.variants)
    event = data.label(event_id)
    for position, variant in enumerate(data.variants):
        downs_of_variant = [down for down in downs if down.variant == variant]
        if downs_of_variant:
            _downtime_bar(axes, position, downs_of_variant, colours[variant], event)
    axes.set_ylim(0, _downtime_top(downs))
    axes.set_xticks(range(len(data.variants)), [style.multiline_name(variant) for variant in data.variants])
    axes.set_xlim(-0.6, len(data.variants) - 0.4)
    axes.grid(axis="x", visible=False)


def _downtime_top(downs: list[Downtime]) -> float:
    """Room for the labels; one second where no run had a downtime."""
    return max(1.0, 1.2 * max((down.seconds for down in downs), default=0.0))


def _downtime_bar(axes: Axes, position: int, downs_of_variant: list[Downtime], colour: str, event: str) -> None:
    middle, is_bound = _median(downs_of_variant)
    axes.bar(position, middle, width=0.55, **_bar_style(colour, is_bound))
    step = 0.42 / len(downs_of_variant)
    places = [position + (i - (len(downs_of_variant) - 1) / 2) * step for i in range(len(downs_of_variant))]
    for down, at in zip(downs_of_variant, places, strict=True):
        _draw_run(axes, at, down.seconds, colour, "^" if down.censored else "o")
    name, values = style.display_name(downs_of_variant[0].variant), {"event": event}
    points.add_points(axes, name, "run", colour, [
        Spot(at, down.seconds, values | {"downtime_s": down.seconds, "censored": down.censored}, down.run_id)
        for down, at in zip(downs_of_variant, places, strict=True)
    ])  # fmt: skip
    middles = values | {"downtime_s": middle, "censored": is_bound}
    points.add_points(axes, name, MEDIAN, colour, [Spot(position, middle, middles)])
    axes.annotate(_seconds_text(middle, is_bound), (position, max(down.seconds for down in downs_of_variant)),
                  xytext=(0, 6), textcoords="offset points", ha="center", color=colour, fontsize=8.5)  # fmt: skip
