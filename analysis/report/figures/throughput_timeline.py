"""Throughput over time of a series: the median of each variant over the band of its repetitions, with events.

One panel, or one a variant where one panel would be a tangle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import EventMark
from analysis.report.figures import points, style
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.series_data import Line, SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes


HEIGHT_IN = 3.4
LABEL_IN = 0.145  # a row of events' labels
CHARACTERS_PER_IN = 15.0  # of such a label
WIDE_S = 5.0  # an event whose time differs by more between runs is shown as a span
OFFERED = "offered at spouts"
COLUMNS = (
    Column("time_s", "time", "s"),
    Column("tuples_per_s", "rate", "tuples/s"),
    Column("runs", "runs"),
    Column("event", "event", kind="word"),
)
Rates = dict[float, list[tuple[float, str]]]  # by start of the window: of each run, the smallest first


@dataclass(frozen=True)
class End:
    """A label at the right end of a line."""

    text: str
    colour: str
    rate: float


@dataclass(frozen=True)
class Moment:
    """One event over all runs."""

    label: str
    low_s: float
    middle_s: float
    high_s: float


@dataclass(frozen=True)
class EventLabel:
    """Where an event's label stands: at the right of its line, or at the left where the panel ends before it does and
    has more room there."""

    text: str
    at_s: float
    is_left: bool
    tier: int  # its row, from the top


def draw_panel(
    axes: Axes, data: SeriesData, variants: Sequence[str], values: bool = True, top: float | None = None
) -> None:
    """Axes from nothing to labelled lines. `values`: the labels carry the level after the last event. `top`: where the
    y axis ends that panels share; their events have no labels."""
    colours = style.colours(data.variants)
    ends = [end for variant in variants if (end := _draw_variant(axes, data, variant, colours[variant], values))]
    offered = median_line([line for line in data.due if line.variant in variants])
    if offered:
        axes.plot(middles(s for s, _ in offered), [r for _, r in offered], color=style.GREY, lw=1.1, ls=(0, (4, 2)))
        points.add_points(axes, OFFERED, "median", style.GREY, [_spot(s, r) for s, r in offered])
        text = f"{OFFERED}, {offered[-1][1]:.0f}/s" if values else "offered"
        ends.append(End(text, style.GREY, offered[-1][1]))
    _finish(axes, data, ends, top)


def _draw_variant(axes: Axes, data: SeriesData, variant: str, colour: str, values: bool) -> End | None:
    lines = [line for line in data.totals if line.variant == variant]
    _draw_band(axes, lines, colour)
    middle = median_line(lines)
    if not middle:
        return None
    axes.plot(middles(s for s, _ in middle), [r for _, r in middle], color=colour, lw=2.0)
    runs = _by_window(lines)
    points.add_points(
        axes, style.display_name(variant), "median", colour, [_spot(s, r, len(runs[s])) for s, r in middle]
    )
    _add_band_points(axes, variant, colour, runs)
    level = data.level_after(variant) or middle[-1][1]
    return End(
        f"{style.display_name(variant)}, {level:.0f}/s" if values else style.multiline_name(variant), colour, level
    )


def _draw_band(axes: Axes, lines: Sequence[Line], colour: str) -> None:
    """Smallest to largest of the repetitions in each window that at least two of them have."""
    spans = [(start, runs[0][0], runs[-1][0]) for start, runs in sorted(_by_window(lines).items()) if len(runs) > 1]
    if spans:
        starts, lows, highs = zip(*spans, strict=True)
        axes.fill_between(middles(starts), lows, highs, color=colour, alpha=0.18, lw=0)


def _add_band_points(axes: Axes, variant: str, colour: str, rates: Rates) -> None:
    """Both edges, with the run that each point is of; the smallest and the largest of a single run are its median."""
    for mark, index in (("smallest run", 0), ("largest run", -1)):
        edge = [_spot(start, *runs[index]) for start, runs in sorted(rates.items()) if len(runs) > 1]
        points.add_points(axes, style.display_name(variant), mark, colour, edge)


def _spot(start_s: float, rate: float, of: int | str = "") -> Spot:
    """`of`: how many runs it is the median of, or the run that it is of."""
    at_s = start_s + WINDOW_S / 2
    runs, run_id = (of, "") if isinstance(of, int) else (None, of)
    return Spot(at_s, rate, {"time_s": at_s, "tuples_per_s": rate, "runs": runs}, run_id)


def _span(data: SeriesData) -> tuple[float, float]:
    """The time axis (s): of the cluster, or from the first whole window of any run to the end of the last one."""
    starts = [start for line in data.totals for start in line.starts_s]
    return data.axis_s or (min(starts, default=0.0), max(starts, default=0.0) + WINDOW_S)


def _finish(axes: Axes, data: SeriesData, ends: Sequence[End], shared_top: float | None) -> None:
    events, (first_s, last_s), (width_in, height_in) = moments(data.own_marks), _span(data), _size_in(axes)
    labels = event_labels(events, first_s, last_s, width_in) if shared_top is None else []
    room = min(0.6, (0.06 + LABEL_IN * label_rows(labels)) / height_in)  # in which the labels are above the lines
    top = shared_top or axes.get_ylim()[1] / (1 - room)
    axes.set_ylim(0, top)
    for moment in events:
        _draw_moment(axes, moment)
    draw_labels(axes, labels)
    spots = [Spot(m.middle_s, 0.85 * top, {"time_s": m.middle_s, "event": m.label}) for m in events]
    points.add_points(axes, "", "event", "#222222", spots)
    lines_of_text = max((end.text.count("\n") + 1 for end in ends), default=1)
    heights = style.spread_labels([end.rate for end in ends], (0.045 + 0.04 * lines_of_text) * top)
    for end, height in zip(ends, heights, strict=True):
        axes.annotate(end.text, (last_s, height), xytext=(5, 0), textcoords="offset points", va="center",
                      color=end.colour, fontsize=8.5, annotation_clip=False, linespacing=0.95)  # fmt: skip
    axes.set_xlim(first_s, last_s)
    since = "the first event" if len(moments(data.marks)) > 1 else "the request"
    axes.set_xlabel(style.time_label(axes, first_s, last_s, since))
    axes.grid(axis="x", visible=False)


def _size_in(axes: Axes) -> tuple[float, float]:
    """About the width and height of a panel, whose labels have not got their room yet."""
    spec, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    rows, columns = spec.get_gridspec().get_geometry() if spec else (1, 1)
    width, height = figure.get_size_inches() if figure else (style.WIDTH_IN, HEIGHT_IN)
    return 0.6 * width / columns, 0.8 * height / rows


def _draw_moment(axes: Axes, moment: Moment) -> None:
    if moment.high_s - moment.low_s > WIDE_S:
        axes.axvspan(moment.low_s, moment.high_s, color="#222222", alpha=0.07, lw=0)
    axes.axvline(moment.middle_s, color="#222222", lw=0.9)


def event_labels(events: Sequence[Moment], first_s: float, last_s: float, width_in: float) -> list[EventLabel]:
    """One for each event, as a panel of this width has room for them that reaches from `first_s` to `last_s`."""
    per_character = (last_s - first_s) / (CHARACTERS_PER_IN * width_in)
    widths = [per_character * (len(event.label) + 1) for event in events]
    are_left = [
        event.middle_s + width > last_s and first_s - event.middle_s + width < event.middle_s + width - last_s
        for event, width in zip(events, widths, strict=True)
    ]
    spans = [
        (event.middle_s - width, event.middle_s) if is_left else (event.middle_s, event.middle_s + width)
        for event, width, is_left in zip(events, widths, are_left, strict=True)
    ]
    return [
        EventLabel(event.label, event.middle_s, is_left, tier)
        for event, is_left, tier in zip(events, are_left, label_tiers(spans), strict=True)
    ]


def label_rows(labels: Sequence[EventLabel]) -> int:
    return 1 + max((label.tier for label in labels), default=-1)


def draw_labels(axes: Axes, labels: Sequence[EventLabel]) -> None:
    for label in labels:
        axes.annotate(label.text, (label.at_s, 1), xycoords=("data", "axes fraction"), va="top", fontsize=8,
                      ha="right" if label.is_left else "left", textcoords="offset points", color="#222222",
                      xytext=(-3 if label.is_left else 3, -2 - 72 * LABEL_IN * label.tier))  # fmt: skip


def moments(marks: Iterable[EventMark]) -> list[Moment]:
    """Runs' marks of one event as one: the median time, and its range over runs."""
    times: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for mark in marks:
        times[mark.event_id, mark.kind, mark.label].append(mark.t_s)
    moment_list = [Moment(label, min(t), median(t), max(t)) for (_, _, label), t in times.items()]
    return sorted(moment_list, key=lambda moment: moment.middle_s)


def label_tiers(spans: Iterable[tuple[float, float]]) -> list[int]:
    """The row of each label, from the top, by where it begins and ends: the highest in which it runs into no other."""
    rows: list[list[tuple[float, float]]] = []
    tiers = []
    for start, end in spans:
        tier = next((i for i, row in enumerate(rows) if all(end <= a or b <= start for a, b in row)), len(rows))
        rows[tier:tier + 1] = [[*(rows[tier] if tier < len(rows) else ()), (start, end)]]  # fmt: skip
        tiers.append(tier)
    return tiers


def median_line(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Median over the runs in every window that more than half of them have; (start, rate), oldest first."""
    rates = _by_window(lines)
    return [
        (start, median(rate for rate, _ in runs)) for start, runs in sorted(rates.items()) if 2 * len(runs) > len(lines)
    ]


def _by_window(lines: Iterable[Line]) -> Rates:
    rates: Rates = defaultdict(list)
    for line in lines:
        for start, rate in zip(line.starts_s, line.rates, strict=True):
            if rate is not None:
                rates[start].append((rate, line.run_id))
    return {start: sorted(runs) for start, runs in rates.items()}


def middles(starts: Iterable[float]) -> list[float]:
    return [start + WINDOW_S / 2 for start in starts]


LABEL = "throughput at sinks (tuples/s)"
TITLE = "Throughput over time, in tuples per second: medians and ranges over runs"
ABREAST = 4


def draw(data: SeriesData, title: str = TITLE) -> Drawing | None:
    """The timeline, or None where no complete run had an event."""
    if not data.totals:
        return None
    if len(data.variants) > style.LEGIBLE_VARIANTS:
        return _small_multiples(data, title)
    with style.canvas(HEIGHT_IN) as (figure, (axes,)):
        draw_panel(axes, data, data.variants)
        axes.set_ylabel(LABEL)
        return style.drawing(figure, title, COLUMNS)


def _small_multiples(data: SeriesData, title: str) -> Drawing:
    """One panel a variant over the first one's median in grey, all on the same axes.

    Only the first panel has the points of the grey line, which is the same in all.
    """
    rows = ceil(len(data.variants) / ABREAST)
    with style.canvas(2.1 * rows + 0.3, columns=ABREAST, rows=rows, sharex=True, sharey=True) as (figure, panels):
        for axes, variant in zip(panels, data.variants, strict=False):
            _small_multiple(axes, data, variant)
        for axes in panels[len(data.variants) :]:
            axes.set_visible(False)
        figure.supxlabel(style.time_label(panels[0], *_span(data), "the first event"), fontsize=9)
        figure.supylabel(LABEL, fontsize=9)
        return style.drawing(figure, title, COLUMNS)


def highest(data: SeriesData) -> float:
    """The largest rate of any line."""
    return max((r for line in (*data.totals, *data.due) for r in line.rates if r is not None), default=1.0) or 1.0


def _small_multiple(axes: Axes, data: SeriesData, variant: str) -> None:
    reference = median_line([line for line in data.totals if line.variant == data.variants[0]])
    axes.plot(middles(s for s, _ in reference), [r for _, r in reference], color="#B0B0B0", lw=1.2)
    draw_panel(axes, data, [variant], values=False, top=1.08 * highest(data))
    for text in list(axes.texts):  # the panel's title says it
        text.remove()
    level = data.level_after(variant)
    axes.set_title(f"{style.display_name(variant)}{'' if level is None else f', {level:.0f}/s'}", loc="left",
                   color=style.colours(data.variants)[variant], fontsize=8.5)  # fmt: skip
    axes.set_xlabel("")
