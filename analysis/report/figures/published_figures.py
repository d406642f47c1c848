"""The papers' figures: panels of several experiments, or of sweeps, side by side. Without a run the panel is empty.

The numbers that a paper states are drawn beside the measured ones, from the claims: a diamond, for a bound an arrow,
for a sweep a dotted line over the sizes that the claim is about. Simulated runs have no interval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, inf
from statistics import fmean, quantiles
from textwrap import fill

from analysis.claims import publications
from analysis.claims.measured_rows import best_of_three
from analysis.claims.publications import PublishedFigure
from analysis.claims.rows import RunValue, percent_over
from analysis.claims.statements import RATIOS, Claim, load_claims
from analysis.metrics.definitions import metric
from analysis.record.event_timeline import FIRST_EVENT
from analysis.report.figures import series_charts, style, sweep_curves
from analysis.report.figures.chart import (
    ARROW_DOWN,
    ARROW_LEFT,
    ARROW_RIGHT,
    ARROW_UP,
    Chart,
    ChartAxis,
    ChartPanel,
    Dot,
    LineMark,
    Mark,
    Stroke,
    Whisker,
    row_panel,
)
from analysis.report.figures.points import PointColumn, Spot, point_columns
from analysis.report.figures.series_data import Level, RunNumber, SeriesData
from analysis.report.figures.sweep_curves import SweepAxis, SweepData, SweepRun, short_name
from analysis.stats.effect import Effect, geometric_ratio, own_number, paired_ratio

ABREAST, WIDTH_IN = 3, 10.8
HEIGHTS_IN = {"throughput": 2.7, "downtime": 2.7}
SWEEPS_ABREAST, SWEEP_IN = 2, 3.0
LABEL_CHARACTERS = 32  # a line of a label as long as a sweep's axis
AXIS_WORDS = {"machines.before": "machines", "topology.parameters.size_bytes": "size of a tuple (bytes)"}
BASELINE = "even"  # Storm's default in the papers
EMITTED, BYTES = "published_emitted_per_s", "published_network_mb_per_s"
BEST_BY = EMITTED
GAIN, LEVEL, CHANGE, CPU, MACHINE = point_columns(
    "gain_percent = gain over its own before (%); throughput_after_per_s = throughput after (tuples/s);"
    " change_percent = over the default (%); cpu_p50_percent = CPU, median over seconds (% of its share); machine /word"
)
INTERVAL = point_columns("low = 95 % interval from; high = to")
Measured = tuple[float, str]  # with the run in which it was measured
EDGES = 4  # least number of machines for quartiles
ALONG_X = {ARROW_UP: ARROW_RIGHT, ARROW_DOWN: ARROW_LEFT}


@dataclass(frozen=True)
class PanelKind:
    """A way to draw a panel; `intervals`: columns that simulated runs do not have."""

    panel: Callable[[SeriesData], ChartPanel]
    columns: tuple[PointColumn, ...]
    intervals: tuple[PointColumn, ...] = ()


def chart(figure: PublishedFigure, data_by_experiment: Mapping[str, SeriesData]) -> Chart:
    """Return the figure; an experiment without data gives an empty panel."""
    specs = figure.panels
    rows = ceil(len(specs) / ABREAST)
    width = ceil(len(specs) / rows)  # four panels are two by two
    of_model = any(data.of_model for data in data_by_experiment.values())
    shares = figure.share_y and all(spec.draw.startswith("convergence") for spec in specs)
    panels, heights, columns = [], [], []
    for number, spec in enumerate(specs):
        kind, data = PANELS[spec.draw], data_by_experiment.get(spec.experiment)
        panel = ChartPanel(message=f"{spec.experiment}\nnot {'simulated' if of_model else 'run'}")
        if data is not None and data.totals:
            panel = kind.panel(data)
        # A label that the panel at the left or below repeats is left out.
        previous = specs[number - 1].draw if number % width else ""
        if previous == spec.draw == "throughput" or (shares and number + width < len(specs)):
            panel = replace(panel, y=replace(panel.y, label=""))
        panels.append(replace(panel, title=spec.title))
        heights.append(HEIGHTS_IN.get(spec.draw, 0.34 * (3 if data is None else len(data.variants)) + 0.8))
        columns += [*kind.columns, *(() if of_model else kind.intervals)]
    if shares:
        high = max((panel.y.high or 0.0 for panel in panels), default=0.0) or None
        panels = [replace(panel, y=replace(panel.y, high=high)) for panel in panels]
    return Chart(
        f"{figure.title} ({figure.source})", tuple(dict.fromkeys(columns)), panels, rows * max(heights), width,
        WIDTH_IN, shares="x" if shares else "", tells_panels=True, has_bold_titles=True,
    )  # fmt: skip


def _spread(
    position: int, name: str, colour: str, runs: Sequence[Measured], columns: Sequence[PointColumn], middle: float,
    estimate: Effect | None,
) -> list[Mark]:  # fmt: skip
    """Return runs as dots, the middle as a stroke, and its interval. `columns`: of the value and of the interval's
    ends."""
    column, *end_columns = (each.name for each in columns)
    marks: list[Mark] = [
        Dot([Spot(position, value, {column: value}, run_id) for value, run_id in runs], colour, name, "run", alpha=0.7)
    ]
    values = {column: middle}
    if estimate is not None:
        ends = estimate.interval()
        marks.append(Whisker([Spot(position, ends[0], end=ends[1])], colour))
        values |= dict(zip(end_columns, ends, strict=True))
    return [*marks, Stroke([Spot(position, middle, values)], colour, name, "mean")]


def _measured(
    data: SeriesData, runs: Mapping[str, Sequence[Measured]], columns: Sequence[PointColumn], y: ChartAxis,
    rules: Sequence[float] = (),
) -> ChartPanel:  # fmt: skip
    """Return the runs of each variant with their mean and, if they were measured, its interval."""
    marks: list[Mark] = []
    for position, variant, name, colour in style.numbered(runs, data.variants):
        if values := [value for value, _ in runs[variant]]:
            estimate = None if data.of_model else own_number(values)
            marks += _spread(position, name, colour, runs[variant], columns, fmean(values), estimate)
    return row_panel(runs, marks, y, rules)


def _gain(level: Level) -> float | None:
    return 100 * (level.after / level.before - 1) if level.before and level.after is not None else None


def _rank_kind(column: PointColumn, measured: Callable[[Level], float | None]) -> PanelKind:
    """Return the panel of variants sorted by their gain over the level before, best on top."""
    interval = (
        PointColumn(f"low_{column.name}", "95 % interval from", column.unit),
        PointColumn(f"high_{column.name}", "to", column.unit),
    )

    def panel(data: SeriesData) -> ChartPanel:
        def runs(variant: str, value: Callable[[Level], float | None]) -> list[Measured]:
            numbers = [(value(level), level.run_id) for level in data.levels if level.variant == variant]
            return [(number, run_id) for number, run_id in numbers if number is not None]

        gains = {name: fmean([gain for gain, _ in runs(name, _gain)] or [-inf]) for name in data.variants}
        ranked = {name: runs(name, measured) for name in sorted(data.variants, key=gains.__getitem__, reverse=True)}
        y = ChartAxis(f"{column.label} ({column.unit})", has_zero=column is LEVEL, margin=0.12)
        return _measured(data, ranked, (column, *interval), y, () if column is LEVEL else [0.0])

    return PanelKind(panel, (column,), interval)


def _changes(data: SeriesData, name: str) -> ChartPanel:
    """Return changes over the default, block by block, with the mean of logarithms and, if the runs were measured, its
    interval, and the best of three runs."""
    variants = [variant for variant in data.variants if variant != BASELINE]
    marks: list[Mark] = []

    def mark(value: float, mark: str, marker: str | int, colour: str) -> None:
        spots = [Spot(position, value, {CHANGE.name: value})]
        marks.append(Dot(spots, colour, words, mark, marker=marker, size=6, is_hollow=True))

    def best_of(side: str) -> float | None:
        numbers = ([each for each in data.numbers.get(of, ()) if each.variant == side] for of in (name, BEST_BY))
        return best_of_three(*([RunValue(n.run_id, n.value, block=("", n.block)) for n in of] for of in numbers))

    for position, variant, words, colour in style.numbered(variants, data.variants):
        pairs = _pairs(data, name, variant)
        if pairs:
            top, bottom = [run.value for run, _ in pairs], [default.value for _, default in pairs]
            runs = [(percent_over(run.value, default.value), run.run_id) for run, default in pairs]
            estimate = None if data.of_model else paired_ratio(top, bottom)
            middle = geometric_ratio(top, bottom)
            marks += _spread(position, words, colour, runs, (CHANGE, *INTERVAL), middle, estimate)
            best, default_best = best_of(variant), best_of(BASELINE)
            if best is not None and default_best:
                mark(percent_over(best, default_best), "best of three runs", "x", colour)
        for claim in load_claims():
            subject = (claim.experiment, claim.metric, claim.variant, claim.baseline, claim.stated_over)
            if subject == (data.experiment, name, variant, BASELINE, None) and claim.kind in RATIOS:
                word, arrow = stated_mark(claim)
                mark(claim.stated, word, ALONG_X[arrow] if arrow else "D", style.INK)
                break
    return row_panel(variants, marks, ChartAxis(f"{metric(name).words} ({CHANGE.label}, %)"), [0.0])


def _pairs(data: SeriesData, name: str, variant: str) -> list[tuple[RunNumber, RunNumber]]:
    """Return the variant's run and the default's of each block that has both, in order."""
    numbers = data.numbers.get(name, ())
    runs, defaults = ({each.block: each for each in numbers if each.variant == side} for side in (variant, BASELINE))
    pairs = [(runs[block], defaults[block]) for block in sorted(runs) if block in defaults]
    return [pair for pair in pairs if pair[1].value > 0.0 < pair[0].value]


def stated_mark(claim: Claim) -> tuple[str, int | None]:
    """Return the name of a stated number's mark, and the arrow of a mere bound."""
    if claim.region.high == inf:
        return "stated to be more than", ARROW_UP
    return ("stated to be less than", ARROW_DOWN) if claim.region.low == -inf else ("stated", None)


def _cpu_machines(data: SeriesData) -> ChartPanel:
    """Return a dot a machine and run after the event, and a box from the first to the third quartile."""
    marks: list[Mark] = []
    for position, variant, name, colour in style.numbered(data.variants, data.variants):
        spots = [
            Spot(position, 100.0 * load.p50, {MACHINE.name: load.machine, CPU.name: 100.0 * load.p50}, load.run_id)
            for load in data.loads
            if (load.variant, load.phase) == (variant, "after") and not load.left
            if load.p50 is not None and load.machine != "master"
        ]
        if len(spots) >= EDGES:
            low, middle, high = quantiles([spot.y for spot in spots], n=4)
            marks.append(Whisker([Spot(position, low, end=high)], colour, width=7))
            marks.append(Stroke([Spot(position, middle)], colour))
        if spots:
            marks.append(Dot(spots, colour, name, "machine", size=3.5, alpha=0.5))
    return row_panel(data.variants, marks, ChartAxis(f"{CPU.label} ({CPU.unit})", 0.0, 105.0))


def _convergence(definition: str) -> PanelKind:
    panel = partial(series_charts.convergence_panel, event=FIRST_EVENT, definition=definition)
    return PanelKind(panel, series_charts.CONVERGENCE_COLUMNS)


def _change_kind(name: str) -> PanelKind:
    return PanelKind(partial(_changes, name=name), (CHANGE,), INTERVAL)


def _level_kind(name: str) -> PanelKind:
    """Return the panel of a measurement without a comparison."""
    column = PointColumn(name, metric(name).words, metric(name).unit)

    def panel(data: SeriesData) -> ChartPanel:
        every = data.numbers.get(name, ())
        runs = {side: [(each.value, each.run_id) for each in every if each.variant == side] for side in data.variants}
        return _measured(data, runs, (column, *INTERVAL), ChartAxis(f"{column.label} ({column.unit})", low=0.0))

    return PanelKind(panel, (column,), INTERVAL)


PANELS = {
    "throughput": PanelKind(
        lambda data: series_charts.throughput_panel(data, data.variants, "throughput (tuples/s)", has_levels=False),
        series_charts.THROUGHPUT_COLUMNS,
    ),
    "downtime": PanelKind(partial(series_charts.downtime_panel, event_id=FIRST_EVENT), series_charts.DOWNTIME_COLUMNS),
    "convergence_sp": _convergence("sp"),
    "convergence_st": _convergence("st"),
    "ranking": _rank_kind(GAIN, _gain),
    "levels": _rank_kind(LEVEL, lambda level: level.after),
    "network_change": _change_kind(BYTES),
    "emitted_change": _change_kind(EMITTED),
    "network_levels": _level_kind("network_mb_per_s_after"),
    "processed_levels": _level_kind("processed_per_s_after"),
    "emitted_levels": _level_kind("spouts_after"),
    "cpu_machines": PanelKind(_cpu_machines, (MACHINE, CPU)),
}


# Sweeps.


SWEEP_PANELS = {  # the metric, and whether it is drawn in percent of the default
    "sweep_emitted": (EMITTED, False),
    "sweep_network": (BYTES, False),
    "sweep_emitted_change": (EMITTED, True),
    "sweep_network_change": (BYTES, True),
    "sweep_cpu_imbalance": ("cpu_imbalance_after", False),
}


def sweep_chart(figure: PublishedFigure, swept: Mapping[str, SweepData]) -> Chart:
    """Return a metric over the size of a cluster or of a tuple; a missing sweep gives an empty panel."""
    columns = min(SWEEPS_ABREAST, len(figure.panels))
    panels = [_sweep_panel(spec, swept.get(spec.experiment)) for spec in figure.panels]
    return Chart(
        f"{figure.title} ({figure.source})", sweep_curves.COLUMNS, panels, SWEEP_IN * ceil(len(panels) / columns),
        columns, WIDTH_IN, shares="y" if figure.share_y else "", legend="chart", tells_panels=True,
        has_bold_titles=True,
    )  # fmt: skip


def _sweep_panel(published: publications.PublishedPanel, data: SweepData | None) -> ChartPanel:
    """Return the runs of the first event."""
    name, is_change = SWEEP_PANELS[published.draw]
    runs = [] if data is None else (changes if is_change else _runs)(data, FIRST_EVENT, name)
    if data is None or not runs:
        return ChartPanel(title=published.title, message=f"{published.experiment}\nnot simulated")
    axes, info = sweep_curves.layout(data), metric(name)
    panel, x = sweep_curves.panel(data, axes, runs), data.axes[axes.x]
    label = fill(f"{info.words} ({'% over the default' if is_change else info.value_unit})", LABEL_CHARACTERS)
    return replace(
        panel, title=published.title, x=replace(panel.x, label=AXIS_WORDS.get(x.paths[0], short_name(x.paths[0]))),
        y=ChartAxis(label) if is_change else ChartAxis(label, 0.0, 1.08 * max(run.value for run in runs) or 1.0),
        rules=[0.0] if is_change else (),
        marks=[*panel.marks, *(_stated_lines(data, name, x) if is_change else ())],
    )  # fmt: skip


def _runs(data: SweepData, event_id: str, name: str) -> list[SweepRun]:
    return [run for run in data.runs if (run.event_id, run.metric) == (event_id, name)]


def changes(data: SweepData, event_id: str, name: str) -> list[SweepRun]:
    """Return changes in percent over the default's run of the same point and repetition."""
    runs = [((run.point, run.run_id.rpartition("-r")[2]), run) for run in _runs(data, event_id, name)]
    default = {place: run.value for place, run in runs if run.variant == BASELINE}
    return [
        replace(run, value=percent_over(run.value, default[place]))
        for place, run in runs if run.variant != BASELINE and default.get(place, 0.0) > 0.0
    ]  # fmt: skip


def _stated_lines(data: SweepData, name: str, x: SweepAxis) -> list[Mark]:
    """Return a line for each claim, over the steps of the swept field that it is about."""
    marks: list[Mark] = []
    for claim in load_claims():
        subject = (claim.simulated, claim.experiment, claim.metric, claim.baseline)
        if subject == (True, data.experiment, name, BASELINE) and claim.kind in RATIOS:
            choices = dict(claim.points)
            steps = [
                number for number, step in enumerate(x.steps)
                if all(json.dumps(value) in choices.get(path, json.dumps(value))
                       for path, value in zip(x.paths, step, strict=True))
            ]  # fmt: skip
            spots = [
                Spot(sweep_curves.place_of(x, step), claim.stated,
                     {"x": sweep_curves.value_of(x, step), "value": claim.stated})
                for step in sorted(steps, key=partial(sweep_curves.place_of, x))
            ]  # fmt: skip
            colour = style.colours(data.variants).get(claim.variant, style.GREY)
            mark, arrow = stated_mark(claim)
            title = style.display_name(claim.variant)
            marks.append(LineMark(spots, colour, title, mark, width=1.2, dashes=":", marker=arrow or "_"))
    return marks
