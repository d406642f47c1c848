"""Convergence time and downtime after each event: a bar (median) a variant, every run a dot.

Convergence has a column of panels for each definition. A run that never converged is a hollow triangle at its horizon,
which is not a value: the bar is the Kaplan–Meier median, and if that was not reached an open bar to the longest
horizon. Downtime is seconds at zero throughput (SP figure 8b), drawn in the same way: a run still at zero at the end
of its watch was down for longer than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from analysis.record.event_timeline import event_order
from analysis.report.figures import style
from analysis.report.figures.chart import Chart, ChartAxis, ChartPanel, categories, row_panel
from analysis.report.figures.marks import Bar, Dot, Mark, Text
from analysis.report.figures.points import PointColumn, Row, Spot
from analysis.report.figures.series_data import EventTime, SeriesData
from analysis.stats import survival

MEDIAN = "median (Kaplan-Meier)"
DEFINITION_TITLES = {"sp": "IC2E paper (SP)", "st": "thesis (ST)", "script": "authors' script"}
CONVERGENCE_COLUMNS = (
    PointColumn("event", "event", kind="word"),
    PointColumn("definition", "definition", kind="word"),
    PointColumn("convergence_s", "convergence time", "s"),
    PointColumn("censored", "longer than that", kind="yes_no"),
)
DOWNTIME_COLUMNS = (
    PointColumn("event", "event", kind="word"),
    PointColumn("downtime_s", "downtime", "s"),
    PointColumn("censored", "longer than that", kind="yes_no"),
)


def convergence_chart(data: SeriesData) -> Chart | None:
    """Return a row of panels an event, a column a definition."""
    if not data.times:
        return None
    events = sorted({time.event_id for time in data.times}, key=event_order)
    x = ChartAxis(low=0.0, high=1.22 * max(time.seconds for time in data.times))
    panels = [
        replace(convergence_panel(data, event, definition), title=title, y=x)
        for event, (definition, title) in product(events, DEFINITION_TITLES.items())
    ]
    if len(events) > 1:
        for row, event in enumerate(events):
            first = row * len(DEFINITION_TITLES)
            panels[first] = replace(panels[first], title=f"after {data.label(event)}\n{panels[first].title}")
    return Chart(
        "Convergence time in seconds, by definition and variant, every run", CONVERGENCE_COLUMNS, panels,
        len(events) * (0.36 * len(data.variants) + (0.95 if len(events) > 1 else 0.75)) + 0.2, len(DEFINITION_TITLES),
        shares="xy", x_label="convergence time (s)",
    )  # fmt: skip


def convergence_panel(data: SeriesData, event: str, definition: str) -> ChartPanel:
    times = [time for time in data.times if (time.definition, time.event_id) == (definition, event)]
    values: Row = {"event": data.label(event), "definition": DEFINITION_TITLES[definition]}
    marks = _bars(data, times, "convergence_s", values, thickness=0.6, room=0.44)
    high = 1.25 * max((time.seconds for time in data.times if time.definition == definition), default=0.0)
    return row_panel(data.variants, marks, ChartAxis("convergence time (s)", 0.0, high or None))


def downtime_chart(data: SeriesData) -> Chart | None:
    """Return a chart only if machines left or died: a scale-out's downtime is in the table of runs."""
    kinds = {mark.event_id: mark for mark in data.marks if mark.kind in ("scale_in", "crash")}
    events = [
        event for event in sorted(kinds, key=event_order) if any(down.event_id == event for down in data.downtimes)
    ]
    if not events:
        return None
    y = ChartAxis(low=0.0, high=_top([down for down in data.downtimes if down.event_id in events]))
    panels = [replace(downtime_panel(data, event), title=kinds[event].label, y=y) for event in events]
    panels[0] = replace(panels[0], y=replace(y, label="downtime (s)"))
    return Chart(
        "Seconds at zero throughput after the event, by variant, every run", DOWNTIME_COLUMNS, panels, 2.6, len(events),
        shares="y",
    )  # fmt: skip


def downtime_panel(data: SeriesData, event_id: str) -> ChartPanel:
    downs = [down for down in data.downtimes if down.event_id == event_id]
    marks = _bars(data, downs, "downtime_s", {"event": data.label(event_id)}, thickness=0.55, room=0.42)
    x = categories([style.multiline_name(variant) for variant in data.variants])
    return ChartPanel(marks, x=x, y=ChartAxis("downtime (s)", 0.0, _top(downs)))


def _top(downs: Sequence[EventTime]) -> float:
    """Return the upper limit with room for the labels; one second if no run had a downtime."""
    return max(1.0, 1.2 * max((down.seconds for down in downs), default=0.0))


def _bars(
    data: SeriesData, runs: Sequence[EventTime], column: str, values: Row, *, thickness: float, room: float
) -> list[Mark]:
    """Return bars and dots; `room`: for the dots of a bar, beside each other."""
    marks: list[Mark] = []
    for position, variant, name, colour in style.numbered(data.variants, data.variants):
        members = [run for run in runs if run.variant == variant]
        if not members:
            continue
        dots = [
            Spot(position + (i - (len(members) - 1) / 2) * room / len(members), run.seconds,
                 values | {column: run.seconds, "censored": run.censored}, run.run_id, is_bound=run.censored)
            for i, run in enumerate(members)
        ]  # fmt: skip
        median_s = survival.median([run.seconds for run in members], [run.censored for run in members])
        middle = max(run.seconds for run in members if run.censored) if median_s is None else median_s
        bar = Spot(position, middle, values | {column: middle, "censored": median_s is None}, is_bound=median_s is None)
        text = f"> {middle:.0f} s" if median_s is None else f"{middle:.0f} s"
        marks += [
            Dot(dots, colour, name, "run"),
            Bar([bar], colour, name, MEDIAN, thickness=thickness),
            Text([Spot(position, max(run.seconds for run in members))], colour, texts=[text]),
        ]
    return marks
