"""A run over time on one axis: rates, tuples that wait at each component, and each machine's CPU."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, nan
from statistics import fmean

from analysis.metrics.definitions import place_words
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import EventMark
from analysis.report.figures import style
from analysis.report.figures.chart import (
    Cells,
    Chart,
    ChartAxis,
    ChartPanel,
    Dot,
    End,
    LineMark,
    Mark,
    events,
    time_axis,
)
from analysis.report.figures.points import Spot, point_columns

Windows = Sequence[tuple[float, float]]  # start relative to the first event, value; oldest first
MOST_WINDOWS = 400  # more than a line can show: longer runs are drawn in wider windows
MOST_CELLS = 4000  # of the map of CPU
LINES = 8  # components with the longest queues that have a line
RATES_IN, QUEUES_IN = 1.6, 1.5  # heights of panels; above the rates is room for the events' labels
SMALL_IN = 1.15  # of one of several topologies
# Of other lines than throughput.
LABELS = {"due": "offered at spouts", "spouts": "emitted at spouts", "dropped": "dropped"}
LINE_STYLES = {
    "due": (style.GREY, "--", 1.1),
    "spouts": (style.PALETTE[4], "-", 1.1),
    "dropped": (style.PALETTE[6], ":", 1.4),
    "total": (style.PALETTE[0], "-", 2.0),
}
DECIDES = style.PALETTE[3]
COLUMNS = point_columns(
    "time_s = time (s); tuples_per_s = rate (tuples/s); tuples_waiting = waiting (tuples);"
    " cpu_percent = CPU (% of its share); event /word"
)


@dataclass(frozen=True)
class RunData:
    """A run: rates by scope (`LINE_STYLES`), queues by component, CPU by machine (fractions of its share)."""

    run_id: str
    rates: Mapping[str, Windows]
    queues: Mapping[str, Windows]
    cpu: Mapping[str, Windows]
    marks: tuple[EventMark, ...]
    parts: tuple[tuple[float, float], ...] = ()  # the steady parts that count
    decisions: tuple[tuple[float, str], ...] = ()  # of a policy that acts by itself: time and reason
    place: str = place_words()  # where throughput is measured


def chart(data: RunData, span: tuple[float, float] | None = None) -> Chart | None:
    """Return the chart. `span`: of the time axis; None: as far as the rates reach."""
    if not data.rates.get("total"):
        return None
    panels = [_rates(data, RATES_IN), _queues(data), *_cpu(data)]
    return _chart(f"{data.run_id} over time: throughput, queues and CPU", panels, data, span or span_of([data]))


def span_of(datas: Sequence[RunData]) -> tuple[float, float]:
    """Return the span from the first whole window of any run to the end of the last one."""
    starts = [start for data in datas for start, _ in data.rates.get("total", ())]
    return min(starts, default=0.0), max(starts, default=0.0) + WINDOW_S


def topologies_chart(named: Sequence[tuple[str, RunData]]) -> Chart | None:
    """Draw the rates of a run's topologies one below the other on one time axis, and below them CPU of the machines,
    which the first one has. Topologies without a whole window are left out."""
    topologies = [(name, data) for name, data in named if data.rates.get("total")]
    if not topologies:
        return None
    run, panels = named[0][1], []
    for place, (name, data) in enumerate(topologies):
        rates = _rates(data, SMALL_IN if place else RATES_IN, is_labelled=place == 0)
        panels.append(replace(rates, title=name))
    title = f"{run.run_id} over time: throughput of each topology, and CPU"
    return _chart(title, [*panels, *_cpu(run)], run, span_of([data for _, data in topologies]), tells_panels=True)


def _chart(
    title: str, panels: Sequence[ChartPanel], data: RunData, span: tuple[float, float], *, tells_panels: bool = False
) -> Chart:
    axis = time_axis(*span, "the first event" if data.marks else "the first sample")
    panels = [replace(panel, x=axis if panel is panels[-1] else replace(axis, label="")) for panel in panels]
    return Chart(title, COLUMNS, panels, shares="x", tells_panels=tells_panels, title_size=9)


def _rates(data: RunData, height_in: float, *, is_labelled: bool = True) -> ChartPanel:
    """Return the panel of rates; `is_labelled`: with the names of lines and events."""
    marks: list[Mark] = []
    ends: list[End] = []
    window_s = window_width_s([data.rates["total"]])
    for scope, (colour, dashes, width) in LINE_STYLES.items():
        line = mean_by_window(data.rates.get(scope, ()), window_s)
        if line:
            spots, label = _spots(data, line, "tuples_per_s"), LABELS.get(scope, data.place)
            marks.append(LineMark(spots, colour, label, "rate", width=width, dashes=dashes))
            ends.append(End(label, colour, line[-1][1]))
    highest = max(rate for line in data.rates.values() for _, rate in line)
    top = None if is_labelled else 1.08 * highest or 1.0
    marks.append(events(data.marks, is_labelled=is_labelled))
    if data.decisions:  # small marks along the bottom; the reason of each is its label in the page
        spots = [Spot(at_s, 0.02, {"time_s": at_s, "event": reason}) for at_s, reason in data.decisions]
        marks.append(Dot(spots, DECIDES, "", "decision", of_height=True, marker="^"))
        ends.append(End("the policy decides", DECIDES, 0.0))
    label = "rate (tuples/s)" if is_labelled else "tuples/s"
    return ChartPanel(
        marks, y=ChartAxis(label, 0.0, top), spans=data.parts, ends=ends if is_labelled else (), height_in=height_in
    )


def _queues(data: RunData) -> ChartPanel:
    longest = sorted(data.queues, key=lambda name: (-max(queue for _, queue in data.queues[name]), name))[:LINES]
    width = window_width_s(data.queues.values())
    marks: list[Mark] = []
    ends: list[End] = []
    for colour, name in zip(style.PALETTE, longest, strict=False):
        line = mean_by_window(data.queues[name], width)
        marks.append(LineMark(_spots(data, line, "tuples_waiting"), colour, name, "queue", width=1.4))
        ends.append(End(name, colour, line[-1][1]))
    top = 1.08 * max((w for name in longest for _, w in data.queues[name]), default=0.0) or 1.0
    marks.append(events(data.marks, is_labelled=False, is_told=False))
    return ChartPanel(
        marks, y=ChartAxis("waiting (tuples)", 0.0, top), spans=data.parts, ends=ends, height_in=QUEUES_IN
    )


def _cpu(data: RunData) -> list[ChartPanel]:
    """Return a row a machine, readable for eighty machines as well as for four."""
    if not data.cpu:
        return []
    machines = sorted(data.cpu, key=lambda name: (len(name), name))
    width = window_width_s(data.cpu.values(), max(40, MOST_CELLS // len(machines)))
    lines = {name: [(t_s, 100.0 * share) for t_s, share in mean_by_window(data.cpu[name], width)] for name in machines}
    starts = [t_s - width / 2 for line in lines.values() for t_s, _ in line]
    first, columns = min(starts), round((max(starts) - min(starts)) / width) + 1
    cells = [[nan] * columns for _ in machines]
    marks: list[Mark] = []
    for row, name in enumerate(machines):
        for t_s, percent in lines[name]:
            cells[row][round((t_s - width / 2 - first) / width)] = percent
        spots = [replace(spot, y=row) for spot in _spots(data, lines[name], "cpu_percent")]
        marks.append(Mark(spots, style.GREY, name, "CPU"))
    extent = (first, first + columns * width, len(machines) - 0.5, -0.5)
    map_of = Cells((), style.GREY, values=cells, extent=extent, highest=100.0, words="CPU (% of its share)")
    step = ceil(len(machines) / 20)
    ticks = {float(row): name for row, name in enumerate(machines) if row % step == 0}
    event_lines = events(data.marks, is_labelled=False, is_told=False, colour="white")
    height = min(3.6, 0.35 + 0.17 * len(machines))
    return [
        ChartPanel(
            [map_of, *marks, event_lines], y=ChartAxis(ticks=ticks, tick_size=7.5, has_grid=False), height_in=height
        )
    ]


def _spots(data: RunData, line: Windows, column: str) -> list[Spot]:
    return [Spot(at_s, value, {"time_s": at_s, column: value}, data.run_id) for at_s, value in line]


def window_width_s(lines: Iterable[Windows], most: int = MOST_WINDOWS) -> float:
    """Return the width of the drawn windows: as they were measured, or combined so that at most `most` remain."""
    starts = [windows[end][0] for windows in lines if windows for end in (0, -1)]
    measured = round((max(starts) - min(starts)) / WINDOW_S) + 1 if starts else 1
    return WINDOW_S * ceil(measured / most)


def mean_by_window(windows: Windows, width: float) -> list[tuple[float, float]]:
    """Return middle and mean of each drawn window."""
    values_by_start: dict[float, list[float]] = {}
    for start, value in windows:
        values_by_start.setdefault(width * (start // width), []).append(value)
    return [(start + width / 2, fmean(values)) for start, values in sorted(values_by_start.items())]
