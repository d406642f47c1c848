"""The figures of a comparison: differences with their intervals, both runs of each block, throughput over time."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from analysis.compare import sentence
from analysis.compare.blocks import Block, Value
from analysis.compare.question import Pair
from analysis.compare.result import Comparison, MetricRow, Verdict
from analysis.metrics import metric_directions
from analysis.report.figures import points, style, throughput_timeline
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.series_data import SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SIDE_COLOURS = style.PALETTE[:2]  # A and B, in every figure
VERDICT_COLOURS = {Verdict.BETTER: "#00664b", Verdict.WORSE: "#a63f00", Verdict.DIFFERENT: "#332288"}
MOST_PANELS = 12  # of one figure; the table has the rest
COLUMNS = 4
LONG_LABEL = 18  # more does not fit beside a line


def row_label(found: Comparison, row: MetricRow) -> str:
    """Of a row: with several pairs also whose it is."""
    text = sentence.event_text(row, found.kinds)
    pair = row.pair if len(found.question.pairs) > 1 else ""
    whose = ", ".join(filter(None, (pair, row.topology if found.several else "")))
    return f"{whose}: {text}" if whose else text


def percent_of_a(row: MetricRow) -> float | None:
    """What a difference is multiplied by to be percent of a; None where that says nothing."""
    if row.unit == "%":
        return 1.0
    return 100 / row.a if row.a else None


# Differences and intervals.

FOREST = (
    Column("event", "event", kind="word"),
    Column("difference_percent", "B against A", "%"),
    Column("low_percent", "from", "%"),
    Column("high_percent", "to", "%"),
    Column("floor_percent", "A/A floor", "%"),
    Column("p_holm", "p (Holm)"),
    Column("blocks", "blocks"),
    Column("verdict", "verdict", kind="word"),
)
OF_TESTS = ("floor_percent", "p_holm", "verdict")  # which runs of a model have none of


def forest(found: Comparison) -> Drawing | None:
    """Primary metrics that have an interval, in percent of A, over the A/A floor in grey."""
    rows = [row for row in found.primary if row.blocks and row.low is not None and percent_of_a(row)]
    if not rows:
        return None
    with style.canvas(0.42 * len(rows) + 0.9) as (figure, (axes,)):
        for position, row in enumerate(rows):
            _draw_interval(axes, position, row)
        axes.axvline(0, color="#222222", lw=0.9, zorder=1)
        axes.set_yticks(range(len(rows)), [row_label(found, row) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.12)
        axes.set_xlabel(f"{found.question.b.label} against {found.question.a.label} (% of {found.question.a.label})")
        what = "ranges over seeds" if found.simulated else "95 % intervals"
        columns = [column for column in FOREST if not (found.simulated and column.name in OF_TESTS)]
        return style.drawing(figure, f"Differences with their {what}, in percent of A", columns, name_column="metric")


def _draw_interval(axes: Axes, position: int, row: MetricRow) -> None:
    scale = percent_of_a(row) or 0.0
    middle, low, high, floor = (scale * (value or 0.0) for value in (row.difference, row.low, row.high, row.floor))
    colour = VERDICT_COLOURS.get(row.verdict, style.GREY)
    axes.fill_betweenx([position - 0.34, position + 0.34], -floor, floor, color=style.FAINT, alpha=0.55, lw=0, zorder=0)
    axes.plot([low, high], [position, position], color=colour, lw=2.2, solid_capstyle="butt", zorder=2)
    axes.plot(middle, position, marker="o", ms=6.5, color=colour, ls="", zorder=3)
    axes.annotate(f"{sentence.difference_text(row)} {sentence.interval_text(row)}", (1, position), xytext=(6, 0),
                  xycoords=("axes fraction", "data"), textcoords="offset points", va="center", color=colour,
                  fontsize=8.5, annotation_clip=False)  # fmt: skip
    values: points.Row = {
        "event": row.event, "difference_percent": middle, "low_percent": low, "high_percent": high,
        "floor_percent": floor, "p_holm": row.p_holm, "blocks": len(row.blocks), "verdict": row.verdict.value,
    }  # fmt: skip
    points.add_points(axes, row.words, row.about, colour, [Spot(middle, position, values)])


# Both runs of each block.

DOTS = (
    Column("metric", "metric", kind="word"),
    Column("event", "event", kind="word"),
    Column("block", "block"),
    Column("value", "value"),
    Column("horizon", "not within"),
    Column("unit", "unit", kind="word"),
)


def block_panels(found: Comparison) -> Drawing | None:
    """A panel a primary metric: each block's two runs, joined."""
    rows = [row for row in found.primary if row.blocks][:MOST_PANELS]
    if not rows:
        return None
    columns = min(COLUMNS, len(rows))
    high = ceil(len(rows) / columns)
    with style.canvas(2.35 * high + 0.2, columns, high) as (figure, panels):
        for axes, row in zip(panels, rows, strict=False):
            _draw_pairs(axes, found, row)
        for axes in panels[len(rows) :]:
            axes.set_visible(False)
        return style.drawing(figure, "Every block: the run of A and the run of B, joined", DOTS, name_column="side",
                             panels=True)  # fmt: skip


def _draw_pairs(axes: Axes, found: Comparison, row: MetricRow) -> None:
    for block in row.blocks:
        never = block.a.censored or block.b.censored
        axes.plot([0, 1], [block.a.number, block.b.number], color="#9a9a9a", lw=1.0, ls=":" if never else "-", zorder=1)
    for place, (side, colour) in enumerate(zip((found.question.a, found.question.b), SIDE_COLOURS, strict=True)):
        dots = [(block, block.b if place else block.a) for block in row.blocks]
        for _, value in dots:
            axes.plot(place, value.number, marker="^" if value.censored else "o", ms=5, ls="", color=colour,
                      mfc="white" if value.censored else colour, zorder=2)  # fmt: skip
        points.add_points(axes, side.label, "run", colour, [_dot(found, row, place, *each) for each in dots])
    axes.set_xticks(
        [0, 1], [style.multiline_name(found.question.a.label), style.multiline_name(found.question.b.label)]
    )
    axes.set_xlim(-0.35, 1.35)
    values = {value.number for block in row.blocks for value in (block.a, block.b)}
    if len(values) == 1:
        axes.set_ylim(min(values) - 1, max(values) + 1)
    unit = _unit(row)
    title = textwrap.fill(row_label(found, row), 24, break_on_hyphens=False) + (f"\n({unit})" if unit else "")
    axes.set_title(title, loc="left", fontsize=8.5)
    axes.grid(axis="x", visible=False)


def _unit(row: MetricRow) -> str:
    return metric_directions.metric(row.metric).unit


def _dot(found: Comparison, row: MetricRow, place: int, block: Block, value: Value) -> Spot:
    runs = next(runs for runs in found.runs if runs.pair.name == row.pair)
    run_id = (runs.b if place else runs.a).complete[block.number]
    values: points.Row = {
        "metric": row.metric, "event": row.event, "block": block.number, "unit": _unit(row),
        "value": None if value.censored else value.number, "horizon": value.number if value.censored else None,
    }  # fmt: skip
    return Spot(place, value.number, values, run_id)


# Throughput over time.


def throughput_panels(found: Comparison, data: SeriesData) -> Drawing | None:
    """A panel a pair: medians and ranges of both sides, events marked."""
    pairs = [pair for pair in found.question.pairs if any(line.variant in (pair.a, pair.b) for line in data.totals)]
    if not pairs:
        return None
    sides = (found.question.a.label, found.question.b.label)
    with style.canvas(2.9 * len(pairs) + 0.2, 1, len(pairs), sharex=True) as (figure, panels):
        for axes, pair in zip(panels, pairs, strict=True):
            throughput_timeline.draw_panel(
                axes, data_of_pair(data, pair, sides), sides, values=max(map(len, sides)) <= LONG_LABEL
            )
            axes.set_ylabel("throughput (tuples/s)")
            axes.set_title(style.display_name(pair.name) if len(pairs) > 1 else "", loc="left")
        return style.drawing(figure, "Throughput over time of both sides: medians and ranges over runs",
                             throughput_timeline.COLUMNS, name_column="side", panels=len(pairs) > 1)  # fmt: skip


def data_of_pair(data: SeriesData, pair: Pair, sides: Sequence[str]) -> SeriesData:
    """Only the pair's runs, named by their sides."""
    names = {pair.a: sides[0], pair.b: sides[1]}
    return replace(
        data,
        variants=tuple(sides),
        totals=tuple(replace(line, variant=names[line.variant]) for line in data.totals if line.variant in names),
        due=tuple(replace(line, variant=names[line.variant]) for line in data.due if line.variant in names),
        levels=tuple(replace(level, variant=names[level.variant]) for level in data.levels if level.variant in names),
        times=(), loads=(), downtimes=(),
    )  # fmt: skip
