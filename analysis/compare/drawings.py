"""The figures of a comparison: differences with their intervals, both runs of each block, throughput over time."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from math import ceil

from analysis.compare import sentence
from analysis.compare.result import ComparisonResult, MetricRow, Verdict
from analysis.metrics import definitions
from analysis.report.figures import points, series_charts, style
from analysis.report.figures.chart import (
    Bar,
    Chart,
    ChartAxis,
    ChartPanel,
    Dot,
    End,
    LineMark,
    Mark,
    Whisker,
    categories,
)
from analysis.report.figures.points import PointColumn, Spot, point_columns
from analysis.report.figures.series_data import SeriesData

SIDE_COLOURS = style.PALETTE[:2]  # A and B, in every figure
VERDICT_COLOURS = {Verdict.BETTER: "#00664b", Verdict.WORSE: "#a63f00", Verdict.DIFFERENT: "#332288"}
MOST_PANELS = 12  # of one figure; the table has the rest
COLUMNS = 4
LONG_LABEL = 18  # longer text does not fit beside a line


def row_label(comparison: ComparisonResult, row: MetricRow) -> str:
    """Return the label of a row, with several pairs also the pair."""
    text = sentence.event_text(row, comparison.kinds)
    pair = row.pair if len(comparison.question.pairs) > 1 else ""
    subject = ", ".join(filter(None, (pair, row.topology if comparison.several else "")))
    return f"{subject}: {text}" if subject else text


def percent_of_a(row: MetricRow) -> float | None:
    """Return the factor that makes a difference a percentage of a; None if that has no meaning."""
    if row.unit == "%":
        return 1.0
    return 100 / row.a if row.a else None


# Differences and intervals.

FOREST = (
    *point_columns("event /word; difference_percent = B against A (%); low_percent = from (%); high_percent = to (%)"),
    *point_columns("floor_percent = A/A floor (%)"), PointColumn("p_holm", "p (Holm)"),
    *point_columns("blocks; verdict /word"),
)  # fmt: skip
OF_TESTS = ("floor_percent", "p_holm", "verdict")  # not available for simulated runs


def forest(comparison: ComparisonResult) -> Chart | None:
    """Return primary metrics that have an interval, in percent of A, over the A/A floor in grey."""
    rows = [row for row in comparison.primary if row.blocks and row.low is not None and percent_of_a(row)]
    if not rows:
        return None
    marks: list[Mark] = []
    ends = []
    for position, row in enumerate(rows):
        scale, colour = percent_of_a(row) or 0.0, VERDICT_COLOURS.get(row.verdict, style.GREY)
        middle, low, high, floor = (scale * (value or 0.0) for value in (row.difference, row.low, row.high, row.floor))
        values: points.Row = {
            "event": row.event, "difference_percent": middle, "low_percent": low, "high_percent": high,
            "floor_percent": floor, "p_holm": row.p_holm, "blocks": len(row.blocks), "verdict": row.verdict.value,
        }  # fmt: skip
        marks += [
            Bar([Spot(position, floor, end=-floor)], style.FAINT, thickness=0.68, alpha=0.55),
            Whisker([Spot(position, low, end=high)], colour, width=2.2, alpha=1.0),
            Dot([Spot(position, middle, values)], colour, row.words, row.about, size=6.5),
        ]
        ends.append(End(f"{sentence.difference_text(row)} {sentence.interval_text(row)}", colour, position))
    a, b = comparison.question.a.label, comparison.question.b.label
    names = categories([row_label(comparison, row) for row in rows])
    percent = ChartAxis(f"{b} against {a} (% of {a})", margin=0.12)
    panel = ChartPanel(marks, x=names, y=percent, flipped=True, rules=[0.0], ends=ends)
    name = "ranges over seeds" if comparison.simulated else "95 % intervals"
    columns = [column for column in FOREST if not (comparison.simulated and column.name in OF_TESTS)]
    title = f"Differences with their {name}, in percent of A"
    return Chart(title, columns, [panel], 0.42 * len(rows) + 0.9, name_column="metric")


# Both runs of each block.

DOTS = point_columns("metric /word; event /word; block; value; horizon = not within; unit /word")


def block_panels(comparison: ComparisonResult) -> Chart | None:
    """Return a panel a primary metric: each block's two runs, joined."""
    rows = [row for row in comparison.primary if row.blocks][:MOST_PANELS]
    if not rows:
        return None
    columns = min(COLUMNS, len(rows))
    return Chart(
        "Every block: the run of A and the run of B, joined", DOTS, [_pairs(comparison, row) for row in rows],
        2.35 * ceil(len(rows) / columns) + 0.2, columns, name_column="side", tells_panels=True, title_size=8.5,
    )  # fmt: skip


def _pairs(comparison: ComparisonResult, row: MetricRow) -> ChartPanel:
    unit = definitions.metric(row.metric).unit
    runs = next(runs for runs in comparison.runs if runs.pair.name == row.pair)
    sides = (comparison.question.a, comparison.question.b)
    joins: list[Mark] = []
    dots: tuple[list[Spot], list[Spot]] = ([], [])
    for block in row.blocks:
        is_censored = block.a.censored or block.b.censored
        ends = [Spot(0, block.a.number), Spot(1, block.b.number)]
        joins.append(LineMark(ends, "#9a9a9a", width=1.0, dashes=":" if is_censored else "-"))
        for place, (value, side_runs) in enumerate(((block.a, runs.a), (block.b, runs.b))):
            values: points.Row = {
                "metric": row.metric, "event": row.event, "block": block.number, "unit": unit,
                "value": None if value.censored else value.number, "horizon": value.number if value.censored else None,
            }  # fmt: skip
            run_id = side_runs.complete[block.number]
            dots[place].append(Spot(place, value.number, values, run_id, is_bound=value.censored))
    numbers = {spot.y for spots in dots for spot in spots}
    names = {float(place): style.multiline_name(side.label) for place, side in enumerate(sides)}
    title = textwrap.fill(row_label(comparison, row), 24, break_on_hyphens=False) + (f"\n({unit})" if unit else "")
    marks = [
        Dot(spots, colour, side.label, "run", size=5)
        for spots, colour, side in zip(dots, SIDE_COLOURS, sides, strict=True)
    ]
    y = ChartAxis(low=min(numbers) - 1, high=max(numbers) + 1) if len(numbers) == 1 else ChartAxis()
    return ChartPanel([*joins, *marks], title, ChartAxis(low=-0.35, high=1.35, ticks=names, has_grid=False), y)


# Throughput over time.


def throughput_panels(comparison: ComparisonResult, data: SeriesData) -> Chart | None:
    """Return a panel a pair: medians and ranges of both sides, events marked."""
    pairs = [
        pair for pair in comparison.question.pairs if any(line.variant in (pair.a, pair.b) for line in data.totals)
    ]
    if not pairs:
        return None
    sides = (comparison.question.a.label, comparison.question.b.label)
    panels = []
    for pair in pairs:
        panel = series_charts.throughput_panel(
            data.renamed(sides, {pair.a: sides[0], pair.b: sides[1]}), sides, f"throughput {data.place} (tuples/s)",
            has_levels=max(map(len, sides)) <= LONG_LABEL,
        )  # fmt: skip
        panels.append(replace(panel, title=style.display_name(pair.name) if len(pairs) > 1 else ""))
    return Chart(
        "Throughput over time of both sides: medians and ranges over runs", series_charts.THROUGHPUT_COLUMNS, panels,
        2.9 * len(pairs) + 0.2, shares="x", name_column="side", tells_panels=len(pairs) > 1,
    )  # fmt: skip
