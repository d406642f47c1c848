"""A claim + measurements -> its row by the measurements alone, even if it cannot come out in the experiment.

A number is estimated, and compared with the claim's region. `reproduced`: the whole 95 % interval lies in it;
`differs`: none of it does; else `undecided`. A check of each run needs no estimate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from analysis.claims import assumptions
from analysis.claims.ledger_rows import (  # fmt: skip
    DIFFERS,
    NONE,
    OPPOSITE,
    REPRODUCED,
    SAME,
    UNDECIDED,
    LedgerRow,
    RunValue,
    SeriesConditions,
    ids_of_runs,
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


VERDICTS_OF_PLACES = {Place.INSIDE: REPRODUCED, Place.OUTSIDE: DIFFERS, Place.OPEN: UNDECIDED}


def measured_row(claim: Claim, measured: SeriesConditions) -> LedgerRow:
    """Return the row by the measurements alone, even if it cannot come out in the experiment."""
    names = claim.variants
    missing_names = [variant for variant in names if not measured.of(claim, variant)]
    if missing_names:
        return row_without_runs(claim, measured, missing_names)
    variant_values = sorted(measured.of(claim, claim.variant), key=_block)
    values = [value for variant in names for value in measured.of(claim, variant)]
    if claim.kind is ClaimKind.EVERY_RUN:
        return _with_steadiness(_judge_every_run(claim, variant_values), values)
    if claim.kind is ClaimKind.ONLY:
        row = _judge_only(claim, {name: sorted(measured.of(claim, name), key=_block) for name in names})
    elif claim.kind is ClaimKind.ADDED_AT_LEAST:
        row = _judge_added(claim, added_in_blocks(claim, measured))
    elif claim.kind in RATIOS:
        row = _with_best_of_three(_judge_ratio(claim, variant_values, measured.of(claim, claim.baseline)), measured)
    else:
        row = _judge_own(claim, variant_values)
    return _with_steadiness(replace(row, direction=direction(row)), values)


def _with_steadiness(row: LedgerRow, values: Sequence[RunValue]) -> LedgerRow:
    """Add the number of unsteady runs to the row's reason; they count."""
    row_values = [value for value in values if value.run_id in row.run_ids]
    count = sum(value.steady is False for value in row_values)
    if not count:
        return row
    note = f"{count} of {len(row_values)} runs were not steady and count with what stood for a steady part"
    return replace(row, unsteady=count, reason=f"{row.reason}; {note}")


# --- directions ------------------------------------------------------------------------------------------------------


def direction(row: LedgerRow) -> str | None:
    """Return whether the number goes the stated way; `none` if its interval contains no change."""
    way = stated_sign(row.claim)
    if not way or row.measured is None:
        return None
    if row.low is not None and row.high is not None and row.low <= 0.0 <= row.high:
        return NONE
    return SAME if way * row.measured > 0.0 else OPPOSITE if row.measured else NONE


def stated_sign(claim: Claim) -> int:
    """Return 1: more, -1: less, 0: no way is stated."""
    if claim.stated_over:
        return 0
    if claim.kind in (ClaimKind.RATIO_ABOVE, ClaimKind.OWN_BELOW):
        return 1 if claim.kind is ClaimKind.RATIO_ABOVE else -1
    if claim.kind in (ClaimKind.RATIO, ClaimKind.OWN):
        return (claim.stated > 0.0) - (claim.stated < 0.0)
    return 1 if claim.kind is ClaimKind.ONLY else 0


# --- kinds -----------------------------------------------------------------------------------------------------------


def _judge_every_run(claim: Claim, own: Sequence[RunValue]) -> LedgerRow:
    values = [value.value for value in own]
    against = [value for value in own if abs(value.value - claim.stated) > EPSILON]
    verdict = DIFFERS if against else REPRODUCED
    reason = f"{claim.stated:g} in {'the one run' if len(own) == 1 else f'each of {len(own)} runs'}"
    if against:
        reason = "not so in " + ", ".join(f"{value.run_id} ({value.value:g})" for value in against)
    worst = max(values, key=lambda value: abs(value - claim.stated))
    run_ids = ids_of_runs(own)
    return LedgerRow(claim, worst, min(values), max(values), len(own), verdict, reason, run_ids, checks=True)


def _judge_own(claim: Claim, own: Sequence[RunValue]) -> LedgerRow:
    estimate = _own_number(own)
    point = fmean(value.value for value in own)
    return _row_of(claim, estimate, point, {claim.variant: own})


def _own_number(values: Sequence[RunValue]) -> PairedEffect | None:
    """Return the effect of values in the order of the blocks."""
    return effect.own_number([value.value for value in values], series_lengths(values))


def _judge_ratio(claim: Claim, own: Sequence[RunValue], other: Sequence[RunValue]) -> LedgerRow:
    baseline, pairs = str(claim.baseline), pairs_of_blocks(own, other)
    sides = {claim.variant: own, baseline: other}
    if not pairs:
        return _no_number(claim, sides, f"no block has both {claim.variant} and {baseline}")
    single_count = len(own) + len(other) - 2 * len(pairs)
    own, other = [one for one, _ in pairs], [one for _, one in pairs]
    row = _judge_pairs(claim, own, other)
    note = (
        f"; {single_count} run{'' if single_count == 1 else 's'} without the other side in its block left out"
        if single_count
        else ""
    )
    return replace(row, reason=row.reason + note)


@dataclass(frozen=True)
class Added:
    """Additional times under a claim's variant and under its baseline, block by block; `sides`: the runs of these
    blocks. Negative ones count as 0."""

    sides: Mapping[str, Sequence[RunValue]]
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
        estimate: Effect | None = effect.mean_ratio(added.variant, added.baseline, quantum(claim.metric))
        return _row_of(claim, estimate, percent_over(fmean(added.variant), fmean(added.baseline)), added.sides)
    series = series_lengths(added.sides[claim.variant])
    ratio = effect.paired_ratio(added.variant, added.baseline, quantum(claim.metric), series)
    return _row_of(claim, ratio, effect.geometric_ratio(added.variant, added.baseline), added.sides)


PUBLISHED_RUNS = 3  # MP ran each configuration so many times, and took the best run (IV-D1)


def _with_best_of_three(row: LedgerRow, measured: SeriesConditions) -> LedgerRow:
    """Add the number as the source took it: from the first three runs of each side the one that is best by another
    metric."""
    claim = row.claim
    if claim.best_by is None or claim.kind not in RATIOS:
        return row
    basis = replace(claim, metric=claim.best_by)
    sides = [(measured.of(claim, name), measured.of(basis, name)) for name in (claim.variant, claim.baseline)]
    bests = [best_of_three(values, ranks) for values, ranks in sides]
    if bests[0] is None or not bests[1] or bests[1] <= 0.0:
        return row
    best = percent_over(bests[0], bests[1])
    note = f"the best of the first three runs, as published: {signed_percent(best)}"
    return replace(row, best_of_three=best, reason=f"{row.reason}; {note}")


def best_of_three(values: Sequence[RunValue], ranks: Sequence[RunValue]) -> float | None:
    """Return the value of the run with the highest rank of the first three by block; None if there are not so many."""
    rank_of = {value.block: value.value for value in ranks}
    first = sorted((value for value in values if value.block in rank_of), key=_block)[:PUBLISHED_RUNS]
    if len(first) < PUBLISHED_RUNS:
        return None
    return max(first, key=lambda value: rank_of[value.block]).value


def _judge_pairs(claim: Claim, own: Sequence[RunValue], other: Sequence[RunValue]) -> LedgerRow:
    """Judge both sides of the same blocks."""
    sides = {claim.variant: own, str(claim.baseline): other}
    top, bottom = [value.value for value in own], [value.value for value in other]
    censored_ids = [value.run_id for value in (*own, *other) if value.censored]
    if claim.metric == "windows_at_zero_s":
        if censored_ids:
            return _no_number(claim, sides, f"still at zero when the watch ended: {', '.join(censored_ids)}")
        if max(bottom) <= 0.0:
            return _judge_without_baseline(claim, own, sides)
        estimate: Effect | None = effect.mean_ratio(top, bottom, quantum(claim.metric))
        point = percent_over(fmean(top), fmean(bottom))
    elif censored_ids:
        return _judge_censored(claim, own, other)
    elif min(top + bottom) <= 0.0:
        return _no_number(claim, sides, "a run is at 0: no ratio")
    else:
        estimate = effect.paired_ratio(top, bottom, quantum(claim.metric), series_lengths(own))
        point = effect.geometric_ratio(top, bottom)
    return _row_of(claim, estimate, point, sides)


def _judge_without_baseline(
    claim: Claim, own: Sequence[RunValue], sides: Mapping[str, Sequence[RunValue]]
) -> LedgerRow:
    """Judge against a baseline of 0: a number surely above it is not less."""
    row = _no_number(claim, sides, f"{claim.baseline} was at zero in no window: nothing to have less of")
    estimate = _own_number(own)
    p = 1.0 if estimate is None else estimate.p_inside(Interval(0.0, float("inf")))
    if estimate is None or p >= LEVEL:
        return row
    return replace(
        row, verdict=DIFFERS, p=p, reason=f"{row.reason}, and {claim.variant} was for {estimate.point:.0f} s"
    )


def pairs_of_blocks(own: Sequence[RunValue], other: Sequence[RunValue]) -> list[tuple[RunValue, RunValue]]:
    """Return both sides of each block, in the order of `own`."""
    of_block = {value.block: value for value in other}
    return [(value, of_block[value.block]) for value in own if value.block in of_block]


def _block(value: RunValue) -> tuple[str, int]:
    return value.block


def _judge_censored(claim: Claim, own: Sequence[RunValue], other: Sequence[RunValue]) -> LedgerRow:
    """Judge times of which some were never reached: times and horizons of both sides, by the exact log-rank test."""
    top, bottom = assumptions.times_of(own), assumptions.times_of(other)
    sides = {claim.variant: own, str(claim.baseline): other}
    words = "; ".join(f"{name}: {times_text(values)}" for name, values in sides.items())
    if all(value.censored for value in (*own, *other)):
        return _no_number(claim, sides, f"neither converged: {words}")
    runs = min(len(own), len(other))
    if runs < MINIMUM_BLOCKS:
        return _no_number(claim, sides, words)
    ratio = effect.TimeRatio(top, bottom)
    row = _row_of(claim, ratio, ratio.point, sides)
    return replace(row, reason=f"{row.reason}; {words}")


def times_text(values: Sequence[RunValue]) -> str:
    """Return `median 70 s, 2 of 6 not within 150 to 600 s`, with the length of those runs' watch."""
    middle, censored = assumptions.times_of(values).median, [value.value for value in values if value.censored]
    median_text = "no median" if middle is None else f"median {middle:g} s"
    if not censored:
        return median_text
    return f"{median_text}, {len(censored)} of {len(values)} not within {extent(censored)} s"


def ranking_text(sides: Mapping[str, Sequence[RunValue]]) -> str:
    """Return means, the highest first."""
    levels = {name: fmean(value.value for value in values) for name, values in sides.items()}
    return ", ".join(
        f"{name} {signed_percent(level)}" for name, level in sorted(levels.items(), key=lambda pair: -pair[1])
    )


def _judge_only(claim: Claim, sides: Mapping[str, Sequence[RunValue]]) -> LedgerRow:
    """Judge whether only the variant's own number is above the region's edge; the reason ranks all."""
    ranking, level = ranking_text(sides), fmean(value.value for value in sides[claim.variant])
    effects = {name: _own_number(values) for name, values in sides.items()}
    results = {name: each for name, each in effects.items() if each is not None}
    row = _row_of(claim, effects[claim.variant], level, sides)
    if len(results) < len(sides):
        return replace(row, verdict=UNDECIDED, p=None, reason=f"{row.reason}; in order: {ranking}")
    region, upto = claim.region, Interval(float("-inf"), claim.region.low)
    rest = [results[name] for name in claim.others]
    holds = max(results[claim.variant].p_inside(region), *(each.p_inside(upto) for each in rest))
    fails = min(
        1.0, len(results) * min(results[claim.variant].p_outside(region), *(each.p_outside(upto) for each in rest))
    )
    test = judge_p(holds, fails)
    names = [name for name, each in results.items() if each.p_inside(region) < LEVEL]
    return replace(
        row, verdict=VERDICTS_OF_PLACES[test.place], p=test.p,
        reason=f"surely above {signed_percent(region.low)}: {', '.join(names) or 'none'}; in order: {ranking}",
    )  # fmt: skip


def _row_of(
    claim: Claim,
    found: Effect | None,
    point: float | None,
    sides: Mapping[str, Sequence[RunValue]],
) -> LedgerRow:
    """Return the row of an estimate, or of too few runs for one."""
    runs = min(len(values) for values in sides.values())
    run_ids = ids_of_runs([value for values in sides.values() for value in values])
    if found is None:
        reason = f"{runs} run{'' if runs == 1 else 's'}: no interval ({MINIMUM_BLOCKS} of each variant are needed): "
        return LedgerRow(claim, point, None, None, runs, UNDECIDED, reason + _all_values(sides), run_ids)
    result = judge(found, claim.region)
    verdict = VERDICTS_OF_PLACES[result.place]
    low, high = found.interval()
    reason = _reason(claim, found, verdict)
    return LedgerRow(claim, point, low, high, runs, verdict, reason, run_ids, estimate=found, p=result.p)


def _no_number(claim: Claim, sides: Mapping[str, Sequence[RunValue]], reason: str) -> LedgerRow:
    runs = min(len(values) for values in sides.values())
    run_ids = ids_of_runs([value for values in sides.values() for value in values])
    return LedgerRow(claim, None, None, None, runs, UNDECIDED, reason, run_ids)


# --- words -----------------------------------------------------------------------------------------------------------


def _reason(claim: Claim, found: Effect, verdict: str) -> str:
    if claim.stated_over:
        return "the interval is of this experiment alone"
    region = region_text(claim.region)
    if verdict == REPRODUCED:
        return f"the whole interval lies {region}"
    if verdict == DIFFERS:
        return f"no part of the interval lies {region}{_difference(claim, found.point)}"
    blocks = found.blocks_to_decide(claim.region) if isinstance(found, PairedEffect) else None
    remark = f"; about {blocks} blocks would decide, if runs go on like these" if blocks else ""
    return f"a part of the interval lies {region}{remark}"


def region_text(region: Interval) -> str:
    if region.low == float("-inf"):
        return f"below {signed_percent(region.high)}"
    if region.high == float("inf"):
        return f"above {signed_percent(region.low)}"
    return f"within {signed_percent(region.low)} to {signed_percent(region.high)}"


def _difference(claim: Claim, point: float | None) -> str:
    """Say how a measured percentage differs from the stated one; empty for a condition."""
    if point is None or claim.kind not in (ClaimKind.RATIO, ClaimKind.OWN):
        return ""
    if claim.stated == 0.0:
        return f": {'higher' if point > 0 else 'lower'}, where about equal was stated"
    if claim.stated * point < 0.0:
        return ": the opposite direction"
    return f": the same direction, but {'larger' if abs(point) > abs(claim.stated) else 'smaller'}"


def _all_values(sides: Mapping[str, Sequence[RunValue]]) -> str:
    """Return every value; a censored one is a lower bound."""
    return "; ".join(f"{name} {', '.join(map(_value_text, values))}" for name, values in sides.items())


def _value_text(value: RunValue) -> str:
    return f"{'> ' if value.censored else ''}{value.value:.4g}".replace("-", "−")
