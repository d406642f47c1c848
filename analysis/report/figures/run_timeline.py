"""One run over time, on one axis: rates, tuples that wait at each component, and each machine's CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import EventMark
from analysis.report.figures import points, style
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.throughput_timeline import (
    LABEL_IN,
    EventLabel,
    draw_labels,
    event_labels,
    label_rows,
    moments,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


Windows = Sequence[tuple[float, float]]  # start relative to the first event, value; oldest first
MOST_WINDOWS = 400  # more than a line can show: longer runs are drawn in wider windows
MOST_CELLS = 4000  # of the map of CPU
LINES = 8  # components with the longest queues that have a line
MARGINS_IN = (0.8, 1.45, 0.5, 0.12)  # left, right, bottom, top: labels stand at the right
RATES_IN, QUEUES_IN = 1.6, 1.5  # heights of panels; above the rates is room for the events' labels
LABEL_GAP_IN = 0.2  # between labels of lines
SMALL_IN = 1.15  # of one of several topologies
GAP_IN = 0.24  # between these: room for a name
PANEL_IN = style.WIDTH_IN - MARGINS_IN[0] - MARGINS_IN[1]
LABELS = {"total": "at sinks", "due": "offered at spouts", "spouts": "emitted at spouts"}
LINE_STYLES = {
    "due": (style.GREY, "--", 1.1),
    "spouts": (style.PALETTE[4], "-", 1.1),
    "total": (style.PALETTE[0], "-", 2.0),
}
COLUMNS = (
    Column("time_s", "time", "s"),
    Column("tuples_per_s", "rate", "tuples/s"),
    Column("tuples_waiting", "waiting", "tuples"),
    Column("cpu_percent", "CPU", "% of its share"),
    Column("event", "event", kind="word"),
)


@dataclass(frozen=True)
class RunData:
    """One run: rates by scope (total, spouts, due), queues by component, CPU by machine (fractions of its share)."""

    run_id: str
    rates: Mapping[str, Windows]
    queues: Mapping[str, Windows]
    cpu: Mapping[str, Windows]
    marks: tuple[EventMark, ...]
    parts: tuple[tuple[float, float], ...] = ()  # the steady parts that count
    decisions: tuple[tuple[float, str], ...] = ()  # of a policy that acts by itself: when, and its reason


def draw(data: RunData, span: tuple[float, float] | None = None) -> Drawing | None:
    """`span`: of the time axis; None: as far as the rates reach."""
    if not data.rates.get("total"):
        return None
    span = span or span_of([data])
    labels = event_labels(moments(data.marks), *span, PANEL_IN)
    heights = [RATES_IN + _labels_in(labels), QUEUES_IN] + ([min(3.6, 0.35 + 0.17 * len(data.cpu))] if data.cpu else [])
    left, right, bottom, top = MARGINS_IN
    height = sum(heights) + bottom + top
    shape = {"height_ratios": heights, "hspace": 0.1}
    with style.canvas(height, rows=len(heights), room=False, sharex=True, gridspec_kw=shape) as (figure, panels):
        figure.subplots_adjust(left / style.WIDTH_IN, bottom / height, 1 - right / style.WIDTH_IN, 1 - top / height)
        _rates(panels[0], data, heights[0], labels)
        _queues(panels[1], data)
        if data.cpu:
            _cpu(figure, panels[2], data)
        for axes in panels:
            _frame(axes, data, span)
        panels[-1].set_xlabel(style.time_label(panels[-1], *span, _zero(data)))
        return style.drawing(figure, f"{data.run_id} over time: throughput, queues and CPU", COLUMNS)


def span_of(datas: Sequence[RunData]) -> tuple[float, float]:
    """From the first whole window of any to the end of the last one."""
    totals = [data.rates["total"] for data in datas if data.rates.get("total")]
    return min((line[0][0] for line in totals), default=0.0), max(
        (line[-1][0] for line in totals), default=0.0
    ) + WINDOW_S


def draw_topologies(named: Sequence[tuple[str, RunData]]) -> Drawing | None:
    """The rates of a run's topologies one below the other on one time axis, and below them CPU of the machines, which
    the first one has. Those without a whole window are left out."""
    drawn = [(name, data) for name, data in named if data.rates.get("total")]
    if not drawn:
        return None
    cpu = named[0][1].cpu
    span = span_of([data for _, data in drawn])
    labels = event_labels(moments(drawn[0][1].marks), *span, PANEL_IN)
    first_in = RATES_IN + _labels_in(labels)
    heights = [first_in] + [SMALL_IN] * (len(drawn) - 1) + ([min(3.6, 0.35 + 0.17 * len(cpu))] if cpu else [])
    left, right, bottom, top = MARGINS_IN
    height = sum(heights) + GAP_IN * len(heights) + bottom + top
    shape = {"height_ratios": heights, "hspace": GAP_IN * len(heights) / sum(heights)}
    with style.canvas(height, rows=len(heights), room=False, sharex=True, gridspec_kw=shape) as (figure, panels):
        figure.subplots_adjust(
            left / style.WIDTH_IN, bottom / height, 1 - right / style.WIDTH_IN, 1 - (top + GAP_IN) / height
        )
        for number, (axes, (name, data)) in enumerate(zip(panels, drawn, strict=False)):
            _rates(axes, data, heights[number], labels if number == 0 else None)
            axes.set_title(name, loc="left", fontsize=9, pad=3)
            axes.set_ylabel("tuples/s")
        if cpu:
            _cpu(figure, panels[-1], named[0][1])
        for axes, (_, data) in zip(panels, [*drawn, named[0]], strict=False):
            _frame(axes, data, span)
        panels[-1].set_xlabel(style.time_label(panels[-1], *span, _zero(named[0][1])))
        run_id = named[0][1].run_id
        return style.drawing(figure, f"{run_id} over time: throughput of each topology, and CPU", COLUMNS, panels=True)


def _zero(data: RunData) -> str:
    return "the first event" if data.marks else "the first sample"


def _labels_in(labels: Sequence[EventLabel]) -> float:
    """What the events' labels need above the rates."""
    return 0.08 + LABEL_IN * label_rows(labels)


def _rates(axes: Axes, data: RunData, height_in: float, labels: Sequence[EventLabel] | None) -> None:
    """`labels`: of the events; None: without them, and without the names of the lines."""
    ends: list[tuple[str, str, float]] = []
    window_s = window_width_s([data.rates["total"]])
    for scope, (colour, dashes, width) in LINE_STYLES.items():
        line = mean_by_window(data.rates.get(scope, ()), window_s)
        if line:
            axes.plot([at for at, _ in line], [rate for _, rate in line], color=colour, ls=dashes, lw=width)
            ends.append((LABELS[scope], colour, line[-1][1]))
            _add_line_points(axes, LABELS[scope], "rate", colour, "tuples_per_s", line, data.run_id)
    highest = max((rate for line in data.rates.values() for _, rate in line), default=1.0) or 1.0
    axes.set_ylim(0, highest / (1 - _labels_in(labels or ()) / height_in))
    axes.set_ylabel("rate (tuples/s)")
    if labels is not None:
        _label_ends(axes, ends, height_in)
    draw_labels(axes, labels or ())
    high = 0.93 * axes.get_ylim()[1]
    spots = [Spot(m.middle_s, high, {"time_s": m.middle_s, "event": m.label}) for m in moments(data.marks)]
    points.add_points(axes, "", "event", "#222222", spots)
    _decisions(axes, data, named=labels is not None)


def _decisions(axes: Axes, data: RunData, *, named: bool) -> None:
    """Small marks along the bottom; the reason of each is its label in the page. `named`: with words beside them."""
    if not data.decisions:
        return
    times, height = [at for at, _ in data.decisions], 0.02 * axes.get_ylim()[1]
    axes.plot(times, [height] * len(times), ls="", marker="^", ms=4.5, color=style.PALETTE[3], clip_on=False)
    if named:
        axes.annotate("the policy decides", (times[0], height), xytext=(4, 5), textcoords="offset points", fontsize=8,
                      color=style.PALETTE[3])  # fmt: skip
    spots = [Spot(at, height, {"time_s": at, "event": reason}) for at, reason in data.decisions]
    points.add_points(axes, "", "decision", style.PALETTE[3], spots)


def _queues(axes: Axes, data: RunData) -> None:
    longest = sorted(data.queues, key=lambda name: (-max(waiting for _, waiting in data.queues[name]), name))[:LINES]
    ends: list[tuple[str, str, float]] = []
    width = window_width_s(data.queues.values())
    for i, name in enumerate(longest):
        line = mean_by_window(data.queues[name], width)
        axes.plot([at for at, _ in line], [waiting for _, waiting in line], color=style.PALETTE[i], lw=1.4)
        ends.append((name, style.PALETTE[i], line[-1][1]))
        _add_line_points(axes, name, "queue", style.PALETTE[i], "tuples_waiting", line, data.run_id)
    axes.set_ylim(0, 1.08 * max((w for name in longest for _, w in data.queues[name]), default=0.0) or 1.0)
    axes.set_ylabel("waiting (tuples)")
    _label_ends(axes, ends, QUEUES_IN)


def _cpu(figure: Canvas, axes: Axes, data: RunData) -> None:
    """A row a machine: as readable for eighty as for four."""
    import numpy as np

    machines = sorted(data.cpu, key=lambda name: (len(name), name))
    width = window_width_s(data.cpu.values(), max(40, MOST_CELLS // len(machines)))
    lines = {name: [(at, 100.0 * share) for at, share in mean_by_window(data.cpu[name], width)] for name in machines}
    starts = [at - width / 2 for line in lines.values() for at, _ in line]
    first, columns = min(starts), round((max(starts) - min(starts)) / width) + 1
    cells = np.full((len(machines), columns), np.nan)
    for row, name in enumerate(machines):
        for at, percent in lines[name]:
            cells[row, round((at - width / 2 - first) / width)] = percent
        _add_line_points(axes, name, "CPU", style.GREY, "cpu_percent", lines[name], data.run_id, row)
    image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="cividis", vmin=0, vmax=100,
                        extent=(first, first + columns * width, len(machines) - 0.5, -0.5))  # fmt: skip
    step = ceil(len(machines) / 20)
    axes.set_yticks(range(0, len(machines), step), machines[::step], fontsize=7.5)
    axes.grid(visible=False)
    box = axes.get_position()
    bar = figure.add_axes((box.x1 + 0.02, box.y0, 0.016, box.height))
    figure.colorbar(image, cax=bar).set_label("CPU (% of its share)", fontsize=8)
    bar.tick_params(labelsize=7.5)


def _frame(axes: Axes, data: RunData, span: tuple[float, float]) -> None:
    """Events through all panels, the parts that count not over the map's colours; as far as the rates reach."""
    is_map = bool(axes.images)
    for moment in moments(data.marks):
        axes.axvline(moment.middle_s, color="white" if is_map else "#222222", lw=0.9)
    axes.set_xlim(*span)
    if is_map:
        return
    for start, end in data.parts:
        axes.axvspan(start, end, color=style.PALETTE[2], alpha=0.08, lw=0)
    axes.grid(axis="x", visible=False)


def _add_line_points(
    axes: Axes, name: str, mark: str, colour: str, column: str, line: Windows, run_id: str, row: float | None = None
) -> None:
    """`row`: where the marks are, if not at their value."""
    spots = [Spot(at, value if row is None else row, {"time_s": at, column: value}, run_id) for at, value in line]
    points.add_points(axes, name, mark, colour, spots)


def _label_ends(axes: Axes, ends: Sequence[tuple[str, str, float]], height_in: float) -> None:
    gap = LABEL_GAP_IN / height_in * axes.get_ylim()[1]
    heights = style.spread_labels([value for _, _, value in ends], gap)
    for (text, colour, _), height in zip(ends, heights, strict=True):
        axes.annotate(text, (1, height), xycoords=("axes fraction", "data"), xytext=(5, 0), textcoords="offset points",
                      va="center", color=colour, fontsize=8, annotation_clip=False)  # fmt: skip


def window_width_s(lines: Iterable[Windows], most: int = MOST_WINDOWS) -> float:
    """Of the windows that are drawn: as wide as they were measured, or as many together as leave `most`."""
    starts = [windows[end][0] for windows in lines if windows for end in (0, -1)]
    measured = round((max(starts) - min(starts)) / WINDOW_S) + 1 if starts else 1
    return WINDOW_S * ceil(measured / most)


def mean_by_window(windows: Windows, width: float) -> list[tuple[float, float]]:
    """Middle and mean of each window that is drawn."""
    wide: dict[float, list[float]] = {}
    for start, value in windows:
        wide.setdefault(width * (start // width), []).append(value)
    return [(start + width / 2, fmean(values)) for start, values in sorted(wide.items())]
