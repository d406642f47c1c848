"""The figures of a series, each drawn from its small collected data (series_data.py): throughput over time, convergence
and downtime after each event, CPU of each machine, and traffic (traffic_map.py). Adding one is a function and an entry
in FIGURES.

A run that never converged is a hollow triangle at its horizon, which is not a value: the bar is the Kaplan–Meier
median, and if that was not reached an open bar to the longest horizon. Downtime is seconds at zero throughput (SP
figure 8b), drawn in the same way: a run still at zero at the end of its watch was down for longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from statistics import median

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import event_order
from analysis.report.figures import style, traffic_map
from analysis.report.figures.chart import (
    Band,
    Bar,
    Chart,
    ChartAxis,
    ChartPanel,
    Dot,
    End,
    LineMark,
    Mark,
    Stroke,
    Text,
    Whisker,
    categories,
    events,
    moments,
    row_panel,
    time_axis,
)
from analysis.report.figures.points import Row, Spot, Value, point_columns
from analysis.report.figures.renderer import page_figure
from analysis.report.figures.series_data import EventTime, GroupLoad, MachineUtilisation, RateLine, SeriesData
from analysis.report.page import Figure
from analysis.stats import survival

OFFERED = "offered at spouts"
THROUGHPUT_COLUMNS = point_columns("time_s = time (s); tuples_per_s = rate (tuples/s); runs; event /word")
THROUGHPUT_TITLE = "Throughput over time, in tuples per second: medians and ranges over runs"
SMALL_ABREAST = 4
Rates = dict[float, list[tuple[float, str]]]  # by start of the window: (rate, run) in ascending order
MEDIAN = "median (Kaplan-Meier)"
DEFINITION_TITLES = {"sp": "IC2E paper (SP)", "st": "thesis (ST)", "script": "authors' script"}
CONVERGENCE_COLUMNS = point_columns(
    "event /word; definition /word; convergence_s = convergence time (s); censored = longer than that /yes_no"
)
DOWNTIME_COLUMNS = point_columns("event /word; downtime_s = downtime (s); censored = longer than that /yes_no")
CPU_ABREAST = 2  # nine machines and the master have room for their names, …
MANY_MACHINES = 9  # … though in a smaller font
OFFSETS = {"before": -0.16, "after": 0.16}
CPU_COLUMNS = point_columns(
    "machine /word; phase /word; cpu_p50_percent = CPU, median (% of its share);"
    " cpu_p10_percent = 10th percentile (%); cpu_p90_percent = 90th percentile (%)"
)


GROUP_COLUMNS = point_columns(
    "time_s = time (s); group /word; cpu_percent = CPU (% of its share); machines = machines of it"
)


def throughput_chart(data: SeriesData, title: str = THROUGHPUT_TITLE) -> Chart | None:
    """Return the timeline, or None if no complete run had an event."""
    if not data.totals:
        return None
    label = f"throughput {data.place} (tuples/s)"
    if len(data.variants) <= style.LEGIBLE_VARIANTS:
        return Chart(title, THROUGHPUT_COLUMNS, [throughput_panel(data, data.variants, label)], 3.4)
    rows = ceil(len(data.variants) / SMALL_ABREAST)
    return Chart(
        title, THROUGHPUT_COLUMNS, [_small_panel(data, variant) for variant in data.variants], 2.1 * rows + 0.3,
        SMALL_ABREAST, shares="xy", x_label=_time_axis(data, "the first event").label, y_label=label,
        title_size=8.5,
    )  # fmt: skip


def throughput_panel(data: SeriesData, variants: Sequence[str], label: str, *, has_levels: bool = True) -> ChartPanel:
    """Return the lines of these variants. `has_levels`: their labels have the level after the last event."""
    colours = style.colours(data.variants)
    marks: list[Mark] = []
    ends: list[End] = []
    for variant in variants:
        lines = [line for line in data.totals if line.variant == variant]
        name, colour = style.display_name(variant), colours[variant]
        rates, middle = _by_window(lines), median_line(lines)
        if not middle:
            continue
        ranges = [(start, runs[0], runs[-1]) for start, runs in rates.items() if len(runs) > 1]
        smallest = [_spot(start, rate, run_id=run_id) for start, (rate, run_id), _ in ranges]
        largest = [_spot(start, rate, run_id=run_id) for start, _, (rate, run_id) in ranges]
        marks += [
            Band([replace(low, end=high.y) for low, high in zip(smallest, largest, strict=True)], colour),
            LineMark([_spot(start, rate, len(rates[start])) for start, rate in middle], colour, name, "median"),
            Mark(smallest, colour, name, "smallest run"),
            Mark(largest, colour, name, "largest run"),
        ]
        level = data.level_after(variant) or middle[-1][1]
        ends.append(End(f"{name}, {level:.0f}/s" if has_levels else style.multiline_name(variant), colour, level))
    offered = median_line([line for line in data.due if line.variant in variants])
    if offered:
        spots = [_spot(start, rate) for start, rate in offered]
        marks.append(LineMark(spots, style.GREY, OFFERED, "median", width=1.1, dashes=(0, (4, 2))))
        text = f"{OFFERED}, {offered[-1][1]:.0f}/s" if has_levels else "offered"
        ends.append(End(text, style.GREY, offered[-1][1]))
    marks.append(events(data.own_marks))
    origin = "the first event" if len(moments(data.marks)) > 1 else "the request"
    return ChartPanel(marks, x=_time_axis(data, origin), y=ChartAxis(label, 0.0), ends=ends)


def _small_panel(data: SeriesData, variant: str) -> ChartPanel:
    """Return one variant over the first one's median in grey, all on the same axes.

    Only the first panel has the points of the grey line, which is the same in all.
    """
    full_panel = throughput_panel(data, [variant], "")
    reference = median_line([line for line in data.totals if line.variant == data.variants[0]])
    grey_line = LineMark([_spot(start, rate) for start, rate in reference], "#B0B0B0", width=1.2)
    event_lines = events(data.own_marks, is_labelled=False)
    rates = (rate for line in (*data.totals, *data.due) for rate in line.rates if rate is not None)
    level = data.level_after(variant)
    return replace(
        full_panel, marks=[grey_line, *full_panel.marks[:-1], event_lines], ends=(), x=replace(full_panel.x, label=""),
        y=ChartAxis(low=0.0, high=1.08 * (max(rates, default=1.0) or 1.0)),
        title_colour=style.colours(data.variants)[variant],
        title=f"{style.display_name(variant)}{'' if level is None else f', {level:.0f}/s'}",
    )  # fmt: skip


def _time_axis(data: SeriesData, since: str) -> ChartAxis:
    """Return the axis of the cluster, or from the first whole window of any run to the end of the last one."""
    starts = [start for line in data.totals for start in line.starts_s]
    return time_axis(*(data.axis_s or (min(starts, default=0.0), max(starts, default=0.0) + WINDOW_S)), since)


def median_line(lines: Sequence[RateLine]) -> list[tuple[float, float]]:
    """Return the median over the runs in every window that more than half of them have; (start, rate), oldest first."""
    rates = _by_window(lines)
    return [(start, median(rate for rate, _ in runs)) for start, runs in rates.items() if 2 * len(runs) > len(lines)]


def _by_window(lines: Iterable[RateLine]) -> Rates:
    rates: Rates = {}
    for line in lines:
        for start, rate in zip(line.starts_s, line.rates, strict=True):
            if rate is not None:
                rates.setdefault(start, []).append((rate, line.run_id))
    return {start: sorted(runs) for start, runs in sorted(rates.items())}


def _spot(start_s: float, rate: float, runs: int | None = None, run_id: str = "") -> Spot:
    """Return a spot in the middle of its window; `runs`: the number of runs under the median."""
    at_s = start_s + WINDOW_S / 2
    values: dict[str, Value] = {"time_s": at_s, "tuples_per_s": rate, "runs": runs}
    return Spot(at_s, rate, values, run_id)


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


def cpu_chart(data: SeriesData) -> Chart | None:
    loads = sorted(
        (load for load in data.loads if load.p50 is not None and not (load.left and load.phase == "after")),
        key=lambda load: load.run_id,
    )
    if not loads:
        return None
    machines = sorted({load.machine for load in loads}, key=traffic_map.by_number)
    joiners = {load.machine for load in loads if load.joined}
    rows = -(-len(data.variants) // CPU_ABREAST)
    top = max(112.0, 117.0 * max(load.p90 or 0.0 for load in loads))  # room for the legend
    panels = []
    for variant in data.variants:
        samples = [load for load in loads if load.variant == variant]
        colour = style.colours(data.variants)[variant]
        names = [_machine_label(machine, machine in joiners, samples) for machine in machines]
        title = style.display_name(variant)
        marks = [mark for phase in OFFSETS for mark in _phase(samples, phase, machines, title, colour)]
        x = categories(names, tick_size=8.5 if len(machines) < MANY_MACHINES else 7.5)
        panels.append(ChartPanel(marks, title, x, ChartAxis(low=0.0, high=top), title_colour=colour))
    return Chart(
        "CPU utilisation of every machine before and after the scale event", CPU_COLUMNS, panels,
        (2.5 if rows < 3 else 1.7) * rows + 0.4, min(CPU_ABREAST, len(panels)), shares="y",
        y_label="CPU (% of the machine's share)", legend="panel", has_bold_titles=True,
    )  # fmt: skip


def groups_chart(data: SeriesData) -> Chart | None:
    """Return the CPU of each group over time, medians over the runs of a variant, and how many machines it has (DT
    figures 24, 27 to 31)."""
    names = sorted({load.group for load in data.groups})
    of_group = dict(zip(names, style.colours(names).values(), strict=True)) if names else {}
    panels = []
    for variant in data.variants if names else ():
        marks: list[Mark] = []
        for name in names:
            windows: dict[float, list[GroupLoad]] = {}
            for load in data.groups:
                if (load.variant, load.group) == (variant, name):
                    windows.setdefault(load.window_s + WINDOW_S / 2, []).append(load)
            spots = []
            for at_s, loads in sorted(windows.items()):
                percent = 100 * median(each.utilisation for each in loads)
                machines = median(each.machines for each in loads)
                row: Row = {"time_s": at_s, "group": name, "cpu_percent": percent, "machines": machines}
                spots.append(Spot(at_s, percent, row))
            if spots:
                marks.append(LineMark(spots, of_group[name], name, "median", label=name, width=1.6))
        axis = replace(_time_axis(data, "the first event"), label="")
        panels.append(ChartPanel(marks, style.display_name(variant), axis, ChartAxis(low=0.0, high=104.0)))
    rows = ceil(len(panels) / CPU_ABREAST)
    return Chart(
        "CPU utilisation of every group of machines over time", GROUP_COLUMNS, panels, 2.2 * rows + 0.4,
        min(CPU_ABREAST, len(panels)), shares="xy", x_label=_time_axis(data, "the first event").label,
        y_label="CPU (% of the group's share)", legend="chart", tells_panels=True, has_bold_titles=True,
    ) if panels else None  # fmt: skip


def _machine_label(machine: str, joined: bool, loads: list[MachineUtilisation]) -> str:
    """Return the machine's name and whether it joined or left; if it left only in some runs, in how many."""
    departures = {load.run_id: load.left for load in loads if load.machine == machine}
    times = sum(departures.values())
    if times:
        return f"{machine}\n(left)" if times == len(departures) else f"{machine}\n(left,\n{times} of {len(departures)})"
    return f"{machine}\n(joins)" if joined else machine


def _phase(loads: list[MachineUtilisation], phase: str, machines: list[str], name: str, colour: str) -> list[Mark]:
    """Return every run, machine by machine, and a short stroke at the median over the repetitions."""
    spots, intervals, medians = [], [], []
    for position, machine in enumerate(machines):
        offset, values = position + OFFSETS[phase], []
        for load in (load for load in loads if (load.machine, load.phase) == (machine, phase)):
            low, middle, high = (100.0 * (value or 0.0) for value in (load.p10, load.p50, load.p90))
            row: Row = {"machine": machine, "phase": phase, "cpu_p50_percent": middle}
            spots.append(Spot(offset, middle, row | {"cpu_p10_percent": low, "cpu_p90_percent": high}, load.run_id))
            intervals.append(Spot(offset, low, end=high))
            values.append(middle)
        if values:
            row = {"machine": machine, "phase": phase, "cpu_p50_percent": median(values)}
            medians.append(Spot(offset, median(values), row))
    shade = colour if phase == "after" else style.GREY
    return [
        Whisker(intervals, shade, width=4, alpha=0.22),
        Dot(spots, shade, size=4, is_hollow=phase == "before", label=phase),
        Stroke(medians, shade, half=0.13, width=1.6),
        Mark(spots, colour, name, "run"),
        Mark(medians, colour, name, "median"),
    ]


@dataclass(frozen=True)
class FigureSpec:
    title: str
    caption: str
    chart: Callable[[SeriesData], Chart | None]


FIGURES = {
    "throughput": FigureSpec(
        "Throughput over time",
        "Throughput {place}, in 10 s windows aligned to the first event (upright line). Bold lines are the "
        "median over the runs of a variant, bands the smallest to the largest run. Numbers are the level after the "
        "last event. The dashed line is what the spouts were scheduled to emit "
        "(what fell due while a spout had no process is in it; of spouts that are not throttled there is none); "
        "where a tuple reaches several sinks, their sum may lie above it.",
        throughput_chart,
    ),
    "convergence": FigureSpec(
        "Convergence time",
        "From the event until throughput is stable, in the three definitions in use. Dots are runs, bars "
        "medians (Kaplan and Meier's). A hollow triangle is a run that had not converged when its watch ended: its "
        "time is longer than shown, and no value. A dashed bar is a lower bound: the median was not reached.",
        convergence_chart,
    ),
    "downtime": FigureSpec(
        "Downtime",
        "Seconds without throughput {place}, after machines left or died. Dots are runs, bars medians (Kaplan "
        "and Meier's). A hollow triangle is a run that was still at zero when its watch ended: it was down for longer "
        "than shown. A dashed bar is a lower bound: the median was not reached.",
        downtime_chart,
    ),
    "cpu": FigureSpec(
        "CPU of each machine",
        "Utilisation of each machine's CPU share in the steady part before the first event (grey) and after the last "
        "(coloured). Dots are the medians over the seconds of single runs, pale bars the 10th to 90th percentile, "
        "strokes the median over runs. A machine that left has no mark after.",
        cpu_chart,
    ),
    "groups": FigureSpec(
        "CPU of each group of machines",
        "Utilisation of the CPU shares of a group's machines that are in the cluster, in windows of 10 s from the "
        "first event on; medians over the runs of each variant. A machine counts in the group to which it belonged at "
        "the run's end. The data beside it says how many machines those are.",
        groups_chart,
    ),
    "traffic": FigureSpec(
        "Traffic from task to task",
        "Tuples a second from each task (row) to each task (column) in the part that counts before and after the first "
        "event, in one run of each variant. Tasks stand in the order of their machines, which lines part: what passes "
        "inside a machine lies in the squares along the diagonal. A colour is the same rate in every panel. Of very "
        "many tasks a cell is a pair of machines.",
        traffic_map.chart,
    ),
}


def build(data: SeriesData, suffix: str = "", of: str = "") -> list[Figure]:
    """Return the figures that have data. `suffix` and `of` distinguish those of one topology from others on their
    page."""
    return [
        page_figure(f"{name}{suffix}", f"{entry.title}{of}", entry.caption.format(place=data.place), chart)
        for name, entry in FIGURES.items()
        if (chart := entry.chart(data)) is not None
    ]
