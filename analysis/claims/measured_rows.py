"""A claim + measurements -> its row by the measurements alone, even if it cannot come out in the experiment.

A number is estimated, and compared with the claim's region. `reproduced`: the whole 95 % interval lies in it;
`differs`: none of it does; else `undecided`. A check of each run needs no estimate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from analysis.claims import assumptions
from analysis.claims.rows import (  # fmt: skip
    DIFFERS,
    NONE,
    OPPOSITE,
    REPRODUCED,
    SAME,
    UNDECIDED,
    LedgerRow,
    RunValue,
    SeriesConditions,
    percent_over,
    row_without_runs,
    series_lengths,
)
from analysis.claims.statements import RATIOS, Claim, ClaimKind
from analysis.metrics.definitions import quantum
from analysis.numerals import extent, signed_percent
from analysis.stats import effect
from analysis.stats.effect import LEVEL, Effect, Interval, PairedEffect, Place, judge, judge_p
from analysis.stats.paired_differences import MINIMUM_BLOCKS

EPSILON = 1e-9
PUBLISHED_RUNS = 3  # MP ran each configuration so many times, and took the best run (IV-D1)
VERDICTS_OF_PLACES = {Place.INSIDE: REPRODUCED, Place.OUTSIDE: DIFFERS, Place.OPEN: UNDECIDED}
Sides = Mapping[str, Sequence[RunValue]]  # the compared runs by variant


def measured_row(claim: Claim, measured: SeriesConditions) -> LedgerRow:
    """Return the row by the measurements alone, even if it cannot come out in the experiment. Unsteady runs count; the
    reason gives their number."""
    sides = {name: measured.of(claim, name) for name in claim.variants}
    if missing_names := [name for name, values in sides.items() if not values]:
        return row_without_runs(claim, measured, missing_names)
    ordered = {name: sorted(values, key=_block) for name, values in sides.items()}
    if claim.kind is ClaimKind.EVERY_RUN:
        row = _judge_every_run(claim, ordered[claim.variant])
    elif claim.kind is ClaimKind.ONLY:
        row = _judge_only(claim, ordered)
    elif claim.kind is ClaimKind.ADDED_AT_LEAST:
        row = _judge_added(claim, added_in_blocks(claim, measured))
    elif claim.kind in RATIOS:
        row = _judge_ratio(claim, ordered[claim.variant], sides[str(claim.baseline)])
        row = _with_best_of_three(row, measured)
    else:
        side = {claim.variant: ordered[claim.variant]}
        row = _row_of(claim, _own_number(ordered[claim.variant]), _mean(ordered[claim.variant]), side)
    if claim.kind is not ClaimKind.EVERY_RUN:
        row = replace(row, direction=_direction(row))
    row_values = [value for values in sides.values() for value in values if value.run_id in row.run_ids]
    count = sum(value.steady is False for value in row_values)
    if not count:
        return row
    note = f"{count} of {len(row_values)} runs were not steady and count with what stood for a steady part"
    return replace(row, unsteady=count, reason=f"{row.reason}; {note}")


def _direction(row: LedgerRow) -> str | None:
    """Return whether the number goes the stated way; `none` if its interval contains no change, None if no way is
    stated."""
    claim, way = row.claim, 0.0
    if claim.kind in (ClaimKind.RATIO_ABOVE, ClaimKind.ONLY):
        way = 1.0
    elif claim.kind is ClaimKind.OWN_BELOW:
        way = -1.0
    elif claim.kind in (ClaimKind.RATIO, ClaimKind.OWN):
        way = claim.stated
    if not way or row.measured is None or claim.stated_over:
        return None
    if row.low is not None and row.high is not None and row.low <= 0.0 <= row.high:
        return NONE
    return SAME if way * row.measured > 0.0 else OPPOSITE if row.measured else NONE


# --- kinds -----------------------------------------------------------------------------------------------------------


def _judge_every_run(claim: Claim, own: Sequence[RunValue]) -> LedgerRow:
    values = [value.value for value in own]
    against = [value for value in own if abs(value.value - claim.stated) > EPSILON]
    reason = f"{claim.stated:g} in {'the one run' if len(own) == 1 else f'each of {len(own)} runs'}"
    if against:
        reason = "not so in " + ", ".join(f"{value.run_id} ({value.value:g})" for value in against)
    worst, ends = max(values, key=lambda value: abs(value - claim.stated)), (min(values), max(values))
    verdict, ids = DIFFERS if against else REPRODUCED, tuple(value.run_id for value in own)
    return LedgerRow(claim, worst, *ends, len(own), verdict, reason, ids, checks=True)


def _judge_only(claim: Claim, sides: Sides) -> LedgerRow:
    """Judge whether only the variant's own number is above the region's edge; the reason ranks all."""
    effects = {name: _own_number(values) for name, values in sides.items()}
    results = {name: each for name, each in effects.items() if each is not None}
    row, ranking = _row_of(claim, effects[claim.variant], _mean(sides[claim.variant]), sides), ranking_text(sides)
    if len(results) < len(sides):
        return replace(row, verdict=UNDECIDED, p=None, reason=f"{row.reason}; in order: {ranking}")
    region, upto = claim.region, Interval(float("-inf"), claim.region.low)
    variant, rest = results[claim.variant], [results[name] for name in claim.others]
    holds = max(variant.p_inside(region), *(each.p_inside(upto) for each in rest))
    fails = len(results) * min(variant.p_outside(region), *(each.p_outside(upto) for each in rest))
    test = judge_p(holds, min(1.0, fails))
    names = [name for name, each in results.items() if each.p_inside(region) < LEVEL]
    return replace(
        row, verdict=VERDICTS_OF_PLACES[test.place], p=test.p,
        reason=f"surely above {signed_percent(region.low)}: {', '.join(names) or 'none'}; in order: {ranking}",
    )  # fmt: skip


@dataclass(frozen=True)
class Added:
    """Additional times under a claim's variant and under its baseline, block by block; `sides`: the runs of these
    blocks. Negative ones count as 0."""

    sides: Sides
    variant: Sequence[float]
    baseline: Sequence[float]


def added_in_blocks(claim: Claim, measured: SeriesConditions) -> Added:
    """Return the additions in the blocks that have all four variants."""
    by_variant = {name: {value.block: value for value in measured.of(claim, name)} for name in claim.variants}
    blocks = sorted(set.intersection(*(set(each) for each in by_variant.values())))
    sides = {name: [each[block] for block in blocks] for name, each in by_variant.items()}
    additions = [
        [max(0.0, one.value - other.value) for one, other in zip(sides[name], sides[reference], strict=True)]
        for name, reference in zip((claim.variant, str(claim.baseline)), claim.without, strict=True)
    ]
    return Added(sides, *additions)


def _judge_added(claim: Claim, added: Added) -> LedgerRow:
    """Judge additions; if a block has none under one variant, as times of which one side's may be 0."""
    if not added.variant:
        return _no_number(claim, added.sides, f"no block has all of {', '.join(claim.variants)}")
    if min(added.baseline) <= 0.0:
        return _no_number(claim, added.sides, f"in a block {claim.baseline} has no more than {claim.without[1]}")
    if min(added.variant) <= 0.0:
        return _judge_means(claim, added.variant, added.baseline, added.sides)
    return _judge_pairs(claim, added.variant, added.baseline, added.sides)


def _judge_ratio(claim: Claim, own: Sequence[RunValue], other: Sequence[RunValue]) -> LedgerRow:
    """Judge both sides of the same blocks."""
    baseline, pairs = str(claim.baseline), pairs_of_blocks(own, other)
    if not pairs:
        reason = f"no block has both {claim.variant} and {baseline}"
        return _no_number(claim, {claim.variant: own, baseline: other}, reason)
    single_count = len(own) + len(other) - 2 * len(pairs)
    own, other = [one for one, _ in pairs], [one for _, one in pairs]
    sides, (top, bottom) = {claim.variant: own, baseline: other}, ([v.value for v in side] for side in (own, other))
    censored_ids = [value.run_id for value in (*own, *other) if value.censored]
    if claim.metric == "windows_at_zero_s" and censored_ids:
        row = _no_number(claim, sides, f"still at zero when the watch ended: {', '.join(censored_ids)}")
    elif claim.metric == "windows_at_zero_s" and max(bottom) <= 0.0:
        row = _judge_without_baseline(claim, own, sides)
    elif claim.metric == "windows_at_zero_s":
        row = _judge_means(claim, top, bottom, sides)
    elif censored_ids:
        row = _judge_censored(claim, sides)
    elif min(top + bottom) < 0.0 or max(bottom) <= 0.0:
        row = _no_number(claim, sides, "a run is at 0: no ratio")
    elif min(top + bottom) == 0.0:  # a collapse counts
        row = _judge_means(claim, top, bottom, sides)
        row = replace(row, reason=f"{row.reason}; of the means of all runs, for one is at 0")
    else:
        row = _judge_pairs(claim, top, bottom, sides)
    if not single_count:
        return row
    note = f"{single_count} run{'' if single_count == 1 else 's'} without the other side in its block left out"
    return replace(row, reason=f"{row.reason}; {note}")


def pairs_of_blocks(own: Sequence[RunValue], other: Sequence[RunValue]) -> list[tuple[RunValue, RunValue]]:
    """Return both sides of each block, in the order of `own`."""
    of_block = {value.block: value for value in other}
    return [(value, of_block[value.block]) for value in own if value.block in of_block]


def _judge_pairs(claim: Claim, top: Sequence[float], bottom: Sequence[float], sides: Sides) -> LedgerRow:
    ratio = effect.paired_ratio(top, bottom, quantum(claim.metric), series_lengths(sides[claim.variant]))
    return _row_of(claim, ratio, effect.geometric_ratio(top, bottom), sides)


def _judge_means(claim: Claim, top: Sequence[float], bottom: Sequence[float], sides: Sides) -> LedgerRow:
    ratio = effect.mean_ratio(top, bottom, quantum(claim.metric))
    return _row_of(claim, ratio, percent_over(fmean(top), fmean(bottom)), sides)


def _judge_without_baseline(claim: Claim, own: Sequence[RunValue], sides: Sides) -> LedgerRow:
    """Judge against a baseline of 0: a number surely above it is not less."""
    row = _no_number(claim, sides, f"{claim.baseline} was at zero in no window: nothing to have less of")
    estimate = _own_number(own)
    if estimate is None or (p := estimate.p_inside(Interval(0.0, float("inf")))) >= LEVEL:
        return row
    reason = f"{row.reason}, and {claim.variant} was for {estimate.point:.0f} s"
    return replace(row, verdict=DIFFERS, p=p, reason=reason)


def _judge_censored(claim: Claim, sides: Sides) -> LedgerRow:
    """Judge times of which some were never reached: times and horizons of both sides, by the exact log-rank test."""
    words = "; ".join(f"{name}: {times_text(values)}" for name, values in sides.items())
    if all(value.censored for values in sides.values() for value in values):
        return _no_number(claim, sides, f"neither converged: {words}")
    if min(map(len, sides.values())) < MINIMUM_BLOCKS:
        return _no_number(claim, sides, words)
    top, bottom = map(assumptions.times_of, sides.values())
    ratio = effect.TimeRatio(top, bottom)
    row = _row_of(claim, ratio, ratio.point, sides)
    return replace(row, reason=f"{row.reason}; {words}")


def _with_best_of_three(row: LedgerRow, measured: SeriesConditions) -> LedgerRow:
    """Add the number as the source took it: from the first three runs of each side the one that is best by another
    metric."""
    claim = row.claim
    if claim.best_by is None:
        return row
    basis = replace(claim, metric=claim.best_by)
    top, bottom = (
        best_of_three(measured.of(claim, name), measured.of(basis, name)) for name in (claim.variant, claim.baseline)
    )
    if top is None or not bottom or bottom <= 0.0:
        return row
    best = percent_over(top, bottom)
    note = f"the best of the first three runs, as published: {signed_percent(best)}"
    return replace(row, best_of_three=best, reason=f"{row.reason}; {note}")


def best_of_three(values: Sequence[RunValue], ranks: Sequence[RunValue]) -> float | None:
    """Return the value of the run with the highest rank of the first three by block; None if there are not so many."""
    rank_of = {value.block: value.value for value in ranks}
    first = sorted((value for value in values if value.block in rank_of), key=_block)[:PUBLISHED_RUNS]
    if len(first) < PUBLISHED_RUNS:
        return None
    return max(first, key=lambda value: rank_of[value.block]).value


def _block(value: RunValue) -> tuple[str, int]:
    return value.block


def _mean(values: Iterable[RunValue]) -> float:
    return fmean(value.value for value in values)


def _own_number(values: Sequence[RunValue]) -> PairedEffect | None:
    """Return the effect of values in the order of the blocks."""
    return effect.own_number([value.value for value in values], series_lengths(values))


def _row_of(claim: Claim, estimate: Effect | None, point: float | None, sides: Sides) -> LedgerRow:
    """Return the row of an estimate, or of too few runs for one."""
    row = _no_number(claim, sides, "")
    if estimate is None:
        values_text = "; ".join(f"{name} {', '.join(map(_value_text, values))}" for name, values in sides.items())
        count = f"{row.runs} run{'' if row.runs == 1 else 's'}"
        reason = f"{count}: no interval ({MINIMUM_BLOCKS} of each variant are needed): {values_text}"
        return replace(row, measured=point, reason=reason)
    result = judge(estimate, claim.region)
    verdict, (low, high) = VERDICTS_OF_PLACES[result.place], estimate.interval()
    reason = _reason(claim, estimate, verdict)
    return replace(
        row, measured=point, low=low, high=high, verdict=verdict, reason=reason, estimate=estimate, p=result.p
    )


def _no_number(claim: Claim, sides: Sides, reason: str) -> LedgerRow:
    runs = min(len(values) for values in sides.values())
    ids = tuple(value.run_id for values in sides.values() for value in values)
    return LedgerRow(claim, None, None, None, runs, UNDECIDED, reason, ids)


# --- words -----------------------------------------------------------------------------------------------------------


def times_text(values: Sequence[RunValue]) -> str:
    """Return `median 70 s, 2 of 6 not within 150 to 600 s`, with the length of those runs' watch."""
    middle, censored = assumptions.times_of(values).median, [value.value for value in values if value.censored]
    median_text = "no median" if middle is None else f"median {middle:g} s"
    if not censored:
        return median_text
    return f"{median_text}, {len(censored)} of {len(values)} not within {extent(censored)} s"


def ranking_text(sides: Sides) -> str:
    """Return means, the highest first."""
    levels = sorted(((name, _mean(values)) for name, values in sides.items()), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {signed_percent(level)}" for name, level in levels)


def _reason(claim: Claim, estimate: Effect, verdict: str) -> str:
    if claim.stated_over:
        return "the interval is of this experiment alone"
    region, point = region_text(claim.region), estimate.point
    if verdict == REPRODUCED:
        return f"the whole interval lies {region}"
    if verdict == DIFFERS:
        difference = ""  # from a stated percentage; a condition has none
        if point is not None and claim.kind in (ClaimKind.RATIO, ClaimKind.OWN):
            difference = f": the same direction, but {'larger' if abs(point) > abs(claim.stated) else 'smaller'}"
            if claim.stated == 0.0:
                difference = f": {'higher' if point > 0 else 'lower'}, where about equal was stated"
            elif claim.stated * point < 0.0:
                difference = ": the opposite direction"
        return f"no part of the interval lies {region}{difference}"
    blocks = estimate.blocks_to_decide(claim.region) if isinstance(estimate, PairedEffect) else None
    remark = f"; about {blocks} blocks would decide, if runs go on like these" if blocks else ""
    return f"a part of the interval lies {region}{remark}"


def region_text(region: Interval) -> str:
    if region.low == float("-inf"):
        return f"below {signed_percent(region.high)}"
    if region.high == float("inf"):
        return f"above {signed_percent(region.low)}"
    return f"within {signed_percent(region.low)} to {signed_percent(region.high)}"


def _value_text(value: RunValue) -> str:
    """Return the value; a censored one is a lower bound."""
    return f"{'> ' if value.censored else ''}{value.value:.4g}".replace("-", "−")
