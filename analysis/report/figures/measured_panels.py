"""Panels of what was measured of an event, run by run: bytes, emissions and tuples processed, over the default or as
they are, and CPU of machines. What the paper states of it stands beside: a diamond, or of a bound an arrow, from the
claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from statistics import fmean, quantiles
from typing import TYPE_CHECKING

from analysis.claims.estimates import geometric_ratio, own_number, paired_ratio
from analysis.claims.ledger_rows import Value, percent_over
from analysis.claims.measured_rows import best_of_three
from analysis.claims.statements import RATIOS, Claim, load_claims
from analysis.metrics.metric_directions import metric
from analysis.report.figures import points, style
from analysis.report.figures.points import Column, Spot
from analysis.report.figures.series_data import RunNumber, SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BASELINE = "even"  # Storm's default of the papers
BEST_BY = "published_emitted_per_s"
CHANGE = Column("change_percent", "over the default", "%")
LOW, HIGH = Column("low", "95 % interval from"), Column("high", "to")
CPU = Column("cpu_p50_percent", "CPU, median over seconds", "% of its share")
MACHINE = Column("machine", "machine", kind="word")
EDGES = 4  # quartiles are of so many machines at least
ARROW_LEFT, ARROW_RIGHT, ARROW_UP, ARROW_DOWN = 8, 9, 10, 11  # matplotlib's CARETLEFTBASE and so on
ALONG_X = {ARROW_UP: ARROW_RIGHT, ARROW_DOWN: ARROW_LEFT}
HALF = 0.28  # height of the stroke at a mean


def _change(name: str) -> Callable[[Axes, SeriesData], None]:
    """Over the default, block by block, with the mean of logarithms and, of runs that were measured, its interval, and
    the best of three runs."""

    def panel(axes: Axes, data: SeriesData) -> None:
        variants = [variant for variant in data.variants if variant != BASELINE]
        colours = style.colours(data.variants)
        for position, variant in enumerate(variants):
            own, other = _sides(data, name, variant)
            if own:
                _draw_change(axes, position, variant, colours[variant], own, other, data.of_model)
                best = _best_change(data, name, variant)
                _draw_mark(axes, position, variant, "best of three runs", colours[variant], best, "x")
            if claim := _stated(data.experiment, name, variant):
                mark, arrow = stated_mark(claim)
                _draw_mark(axes, position, variant, mark, "#222222", claim.stated, ALONG_X[arrow] if arrow else "D")
        axes.axvline(0, color="#222222", lw=0.9)
        _finish(axes, variants, f"{metric(name).words} ({CHANGE.label}, %)")

    return panel


def _sides(data: SeriesData, name: str, variant: str) -> tuple[list[RunNumber], list[RunNumber]]:
    """Runs of both sides of the same blocks, in their order."""
    numbers = data.numbers.get(name, ())
    own, other = ({each.block: each for each in numbers if each.variant == side} for side in (variant, BASELINE))
    both = [block for block in sorted(own) if block in other and other[block].value > 0.0 < own[block].value]
    return [own[block] for block in both], [other[block] for block in both]


def _draw_change(
    axes: Axes, position: int, variant: str, colour: str, own: Sequence[RunNumber], other: Sequence[RunNumber],
    of_model: bool,
) -> None:  # fmt: skip
    top, bottom = [each.value for each in own], [each.value for each in other]
    changes = [percent_over(one, two) for one, two in zip(top, bottom, strict=True)]
    spots = [Spot(x, position, {CHANGE.name: x}, each.run_id) for x, each in zip(changes, own, strict=True)]
    found = None if of_model else paired_ratio(top, bottom)
    ends = None if found is None else found.interval()
    _draw_row(axes, variant, colour, spots, geometric_ratio(top, bottom), ends, CHANGE)


def _best_change(data: SeriesData, name: str, variant: str) -> float | None:
    sides = [best_of_three(*(_values(data, each, side) for each in (name, BEST_BY))) for side in (variant, BASELINE)]
    return None if sides[0] is None or not sides[1] else percent_over(sides[0], sides[1])


def _values(data: SeriesData, name: str, variant: str) -> list[Value]:
    numbers = (each for each in data.numbers.get(name, ()) if each.variant == variant)
    return [Value(each.run_id, each.value, block=("", each.block)) for each in numbers]


def _stated(experiment: str, name: str, variant: str) -> Claim | None:
    claims = (c for c in load_claims() if (c.experiment, c.metric, c.variant) == (experiment, name, variant))
    own = (claim for claim in claims if claim.kind in RATIOS and claim.baseline == BASELINE and not claim.stated_over)
    return next(own, None)


def stated_mark(claim: Claim) -> tuple[str, int | None]:
    """What a stated number is called, and the arrow of one that is only a bound."""
    if claim.region.high == inf:
        return "stated to be more than", ARROW_UP
    return ("stated to be less than", ARROW_DOWN) if claim.region.low == -inf else ("stated", None)


def _levels(name: str) -> Callable[[Axes, SeriesData], None]:
    """As they are, run by run, with the mean's interval, if the runs were measured."""
    column = _level_column(name)

    def panel(axes: Axes, data: SeriesData) -> None:
        colours = style.colours(data.variants)
        for position, variant in enumerate(data.variants):
            own = [each for each in data.numbers.get(name, ()) if each.variant == variant]
            if own:
                values = [each.value for each in own]
                spots = [Spot(each.value, position, {column.name: each.value}, each.run_id) for each in own]
                found = None if data.of_model else own_number(values)
                ends = None if found is None else found.interval()
                _draw_row(axes, variant, colours[variant], spots, fmean(values), ends, column)
        axes.set_xlim(left=0)
        _finish(axes, data.variants, f"{column.label} ({column.unit})")

    return panel


def _level_column(name: str) -> Column:
    return Column(name, metric(name).words, metric(name).unit)


def _cpu_machines(axes: Axes, data: SeriesData) -> None:
    """A dot a machine and run after the event, and a box from the first to the third quartile."""
    colours = style.colours(data.variants)
    for position, variant in enumerate(data.variants):
        loads = [load for load in data.loads if (load.variant, load.phase) == (variant, "after") and not load.left]
        known = [(load, 100.0 * load.p50) for load in loads if load.p50 is not None and load.machine != "master"]
        if not known:
            continue
        values = [value for _, value in known]
        axes.plot(values, [position] * len(values), marker="o", ms=3.5, ls="", color=colours[variant], alpha=0.5)
        if len(values) >= EDGES:
            low, middle, high = quantiles(values, n=4)
            axes.plot([low, high], [position] * 2, color=colours[variant], lw=7, alpha=0.25, solid_capstyle="butt")
            axes.plot([middle] * 2, [position - HALF, position + HALF], color=colours[variant], lw=2)
        spots = [
            Spot(value, position, {MACHINE.name: load.machine, CPU.name: value}, load.run_id) for load, value in known
        ]
        points.add_points(axes, style.display_name(variant), "machine", colours[variant], spots)
    axes.set_xlim(0, 105)
    _finish(axes, data.variants, f"{CPU.label} ({CPU.unit})")


def _draw_row(
    axes: Axes, variant: str, colour: str, spots: Sequence[Spot], middle: float, ends: tuple[float, float] | None,
    column: Column,
) -> None:  # fmt: skip
    position = spots[0].y
    axes.plot([spot.x for spot in spots], [position] * len(spots), marker="o", ms=4.5, ls="", color=colour, alpha=0.7)
    axes.plot([middle] * 2, [position - HALF, position + HALF], color=colour, lw=2)
    values: dict[str, points.Value] = {column.name: middle}
    if ends is not None:
        axes.plot(ends, [position] * 2, color=colour, lw=5, alpha=0.25, solid_capstyle="butt")
        values |= {LOW.name: ends[0], HIGH.name: ends[1]}
    name = style.display_name(variant)
    points.add_points(axes, name, "run", colour, spots)
    points.add_points(axes, name, "mean", colour, [Spot(middle, position - HALF, values)])


def _draw_mark(
    axes: Axes, position: int, variant: str, mark: str, colour: str, value: float | None, marker: str | int
) -> None:
    if value is None:
        return
    axes.plot([value], [position], marker=marker, ms=6, mfc="none", ls="", color=colour, zorder=3)
    spots = [Spot(value, position, {CHANGE.name: value})]
    points.add_points(axes, style.display_name(variant), mark, colour, spots)


def _finish(axes: Axes, variants: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(variants)), [style.display_name(variant) for variant in variants])
    axes.set_ylim(len(variants) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(label)


CHANGES = {"network_change": "published_network_mb_per_s", "emitted_change": "published_emitted_per_s"}
LEVELS = {
    "network_levels": "network_mb_per_s_after",
    "processed_levels": "processed_per_s_after",
    "emitted_levels": "spouts_after",
}
PANELS: dict[str, Callable[[Axes, SeriesData], None]] = {
    **{draw: _change(name) for draw, name in CHANGES.items()},
    **{draw: _levels(name) for draw, name in LEVELS.items()},
    "cpu_machines": _cpu_machines,
}
COLUMNS: dict[str, tuple[Column, ...]] = {
    **dict.fromkeys(CHANGES, (CHANGE,)),
    **{draw: (_level_column(name),) for draw, name in LEVELS.items()},
    "cpu_machines": (MACHINE, CPU),
}
INTERVALS = dict.fromkeys((*CHANGES, *LEVELS), (LOW, HIGH))
