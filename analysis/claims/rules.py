"""One claim + measurements -> its row, with what can come out in the experiment and what no reader may overlook
(docs/decisions/claims.md).

A claim that cannot come out here is `not testable here`, whatever was measured, unless it came out. Derived claims are
judged by the estimates of the claims that they name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

from analysis.claims import assumptions, limitations
from analysis.claims.measured_rows import VERDICTS_OF_PLACES, measured_row, pairs_of_blocks, region_text
from analysis.claims.rows import (  # fmt: skip
    NOT_RUN,
    NOT_TESTABLE,
    REPRODUCED,
    UNDECIDED,
    LedgerRow,
    RunValue,
    SeriesConditions,
    failed_note,
    failures_of,
    percent_over,
    with_note,
)
from analysis.claims.statements import RATIOS, Claim, ClaimKind
from analysis.metrics.definitions import Better, metric
from analysis.numerals import extent, number, signed_percent
from analysis.stats.effect import Interval, PlaceTest, judge_p
from analysis.stats.shares import Failures
from barograph.plan.experiment import Experiment

DERIVED_KINDS = (ClaimKind.SPAN, ClaimKind.LOWEST)


def judge(claim: Claim, measured: SeriesConditions) -> LedgerRow:
    """Return the row of a claim that is about runs. One that cannot come out in any of the series is marked so, unless
    it came out; if machines were short of CPU, it is unknown what could."""
    row = measured_row(claim, measured)
    if row.runs:
        for note in (failed_note(claim, measured), busy_note(claim, measured), order_note(claim, measured)):
            row = with_note(row, note)
        if note := moved_note(claim, measured):
            row = replace(row, reason=f"{row.reason}; {note}")
    row = _unless_survivors(row, survivors_note(claim, measured))
    run: Sequence[Experiment | None] = measured.experiments.get(claim.experiment, ())
    experiments = run or ([None] if row.runs else [])
    times, shortage = assumptions.baseline_time(claim, measured), limitations.shortage_note(claim, measured)
    reasons = [limitations.reason_not_testable(claim, experiment, times) for experiment in experiments]
    if not reasons or None in reasons:
        row = with_note(row, shortage)
    else:
        measured_only, why = row, str(reasons[0])

        def judge_at(limit: float) -> LedgerRow:
            """Judge by the closed form, which does not apply if machines were short of CPU."""
            if short := limitations.shortage_note(claim, measured, limit):
                return _not_judged(measured_only, f"not judged: {short}; with CPU enough it cannot come out: {why}")
            if measured_only.verdict == REPRODUCED and not claim.stated_over:
                return measured_only
            return _not_testable(measured_only, why)

        row = _by_limits(judge_at)
    if row.verdict == NOT_TESTABLE or not row.runs or shortage:
        return row
    # The notes of `barograph check` on the claim: that it cannot fail, or can only differ. The closed form says so with
    # CPU enough.
    blocks = row.blocks or row.runs
    notes = (limitations.weaknesses(claim, each, blocks) for each in run if each is not None)
    return with_note(row, "; ".join(dict.fromkeys(text for texts in notes for text in texts)))


def survivors_note(claim: Claim, measured: SeriesConditions) -> str:
    """Return that a variant in whose favour the claim is failed more often than another one that it compares, or
    than none, and that their failures are not alike."""
    outcomes = {name: failures_of(claim, measured, name) for name in claim.variants}
    names = []
    for name in _favoured(claim):
        failed, runs = outcomes[name]
        rest = [outcomes[other] for other in claim.variants if other != name] or [(0, runs)]
        if failed and any(Failures(count, of_runs or runs, failed, runs).is_more for count, of_runs in rest):
            names.append(name)
    return f"{' and '.join(names)} failed in more of its runs, and the others have no numbers" if names else ""


def _favoured(claim: Claim) -> Sequence[str]:
    """Return the variants whose number would be good: the claim's own, those that it is compared with, or, if it states
    that they are equal, all. None for a metric that is neither better high nor low, and for a check of each run."""
    preference, region = metric(claim.metric).better, claim.region
    if preference is Better.NONE or claim.kind is ClaimKind.EVERY_RUN:
        return ()
    way = claim.stated if isfinite(region.low) and isfinite(region.high) else 1 if isfinite(region.low) else -1
    if not way:
        return claim.variants
    return claim.variants[:1] if (way > 0) == (preference is Better.HIGHER) else claim.variants[1:]


def _unless_survivors(row: LedgerRow, note: str) -> LedgerRow:
    return _not_judged(row, f"not judged: {note}") if note and row.verdict == REPRODUCED else row


def _by_limits(judge_at: Callable[[float], LedgerRow]) -> LedgerRow:
    """Judge with the limit of CPU, and add a note if another limit would give another verdict."""
    row = judge_at(limitations.MOST_CPU_PERCENT)
    other_verdicts = {limit: judge_at(limit).verdict for limit in limitations.OTHER_LIMITS}
    words = {UNDECIDED: f"{UNDECIDED} (not judged)"}
    remarks = [
        f"with a CPU limit of {limit:.0f} % it would be {words.get(verdict, verdict)}"
        for limit, verdict in other_verdicts.items()
        if verdict not in (row.verdict, NOT_RUN)
    ]
    return with_note(row, ", ".join(remarks))


def _not_testable(row: LedgerRow, why: str) -> LedgerRow:
    observation = f"; measured: {row.reason}" if row.runs else ""
    return replace(row, verdict=NOT_TESTABLE, reason=f"{why}{observation}", p=None)


def _not_judged(row: LedgerRow, note: str) -> LedgerRow:
    """Return the row undecided: runs are no basis for a verdict."""
    reason, notes = f"{note}; measured: {row.reason}", (*row.notes, note)
    return replace(row, verdict=UNDECIDED, reason=reason, p=None, notes=notes)


BY_TRAFFIC = ("metis", "greedy")  # policies that place running executors anew, or keep all of them
RESCHEDULED = "rescheduled_percent"


def moved_note(claim: Claim, measured: SeriesConditions) -> str:
    """Return in how many of the compared runs such policies moved anything."""
    experiments = measured.experiments.get(claim.experiment, ())
    names = {variant.name for each in experiments for variant in each.variants if variant.policy in BY_TRAFFIC}
    lookup = replace(claim, metric=RESCHEDULED)
    return moved_text({name: measured.of(lookup, name) for name in claim.variants if name in names})


def moved_text(runs: Mapping[str, Iterable[RunValue]]) -> str:
    """Return `greedy moved executors in 0 of 6 runs`, by variant; `runs`: their RESCHEDULED."""
    each = {name: [value.value > 0.0 for value in values] for name, values in runs.items()}
    return ", ".join(
        f"{name} moved executors in {sum(flags)} of {len(flags)} runs" for name, flags in each.items() if flags
    )


def busy_note(claim: Claim, measured: SeriesConditions) -> str:
    """Return that machines were so busy that none can be far above their mean, for any placement: no use of CPU is
    above 100 %."""
    if claim.metric != "cpu_imbalance_after" or claim.kind is not ClaimKind.RATIO_AT_MOST:
        return ""
    load = [value.value for value in measured.of(replace(claim, metric="cpu_percent_after"), claim.variant)]
    peak = percent_over(100.0, min(load)) if load and min(load) > 0.0 else inf
    if peak >= claim.region.high:
        return ""
    return (
        f"hardly able to fail: under {claim.variant} machines use {extent(round(each) for each in load)} % of their CPU"
        f" on average, so the busiest can be at most {number(peak, 1)} % above that"
    )


def order_note(claim: Claim, measured: SeriesConditions) -> str:
    """Return that every block had its two runs in the same order: then drift within a block is not in the noise, but in
    the number. A series of one block has the order of its seed, so that all such series of one seed have the same."""
    if claim.kind not in RATIOS:
        return ""
    pairs = pairs_of_blocks(measured.of(claim, claim.variant), measured.of(claim, claim.baseline))
    after = {first.order > other.order for first, other in pairs if first.order is not None and other.order is not None}
    if len(pairs) < 2 or len(after) != 1:
        return ""
    place = "after" if after.pop() else "before"
    return f"in each block {claim.variant} ran {place} {claim.baseline}: what drifts within a block is in the number"


# --- claims that follow from others ----------------------------------------------------------------------------------


def judge_derived(claim: Claim, rows: Mapping[str, LedgerRow], measured: SeriesConditions) -> LedgerRow:
    """Judge a derived claim; there is no verdict unless each of its members has an interval. Bounds of a member come
    from the series by which it is judged itself, but from none whose machines were short of CPU."""
    sources = [rows[name] for name in claim.of]
    members = [source.claim for source in sources]
    records = {each.name: measured.for_claim(each) for each in members}
    run = measured.for_claim(claim).experiments
    times = {each.name: baseline for each in members
             if (baseline := assumptions.baseline_time(each, records[each.name])) is not None}  # fmt: skip
    row = derived_numbers(claim, sources)
    if row.verdict != NOT_RUN:
        result, reason = _judge_derived(claim, sources)
        verdict = UNDECIDED if result is None else VERDICTS_OF_PLACES[result.place]
        row = replace(row, verdict=verdict, reason=reason, p=None if result is None else result.p)
        survivors = {each.name: survivors_note(each, records[each.name]) for each in members}
        row = _unless_survivors(row, "; ".join(f"of {name} {note}" for name, note in survivors.items() if note))

    def judge_at(limit: float) -> LedgerRow:
        short = [each.name for each in members if limitations.shortage_note(each, records[each.name], limit)]
        reason = limitations.reason_derived(claim, members, run, times, unbounded=short)
        if row.verdict == NOT_RUN:
            return replace(row, verdict=NOT_TESTABLE, reason=reason) if reason else row
        if reason:
            return row if row.verdict == REPRODUCED else _not_testable(row, reason)
        if short and (with_cpu := limitations.reason_derived(claim, members, run, times)):
            names = f"short of CPU: {', '.join(short)} (their rows say how much)"
            return _not_judged(row, f"not judged: {names}; with CPU enough it cannot come out: {with_cpu}")
        return row

    return _by_limits(judge_at)


def derived_numbers(claim: Claim, sources: Sequence[LedgerRow]) -> LedgerRow:
    """Return the numbers of the claims that it is about: `low` and `high` are the smallest and the largest; no verdict
    yet. There is no lowest one if a claim without a number may be lower."""
    rows = _known(sources)
    runs = min((row.runs for row in rows or sources), default=0)
    if not rows:
        words = "has a number" if runs else "was measured"
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, f"none of {', '.join(claim.of)} {words}", ())
    numbers = [row.measured for row in rows if row.measured is not None]
    run_ids = tuple(dict.fromkeys(run_id for row in rows for run_id in row.run_ids))
    is_open = claim.kind is ClaimKind.LOWEST and _perhaps_lower(sources)
    lowest, highest = None if is_open else min(numbers, default=None), max(numbers, default=None)
    best = lowest if claim.kind is ClaimKind.LOWEST else highest
    return LedgerRow(claim, best, lowest, highest, runs, UNDECIDED, _number_list(rows), run_ids)


def _known(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Return the rows with a number, or with an interval without one because a median was not reached."""
    return [row for row in rows if row.measured is not None or row.estimate is not None]


def _perhaps_lower(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Return the rows that have no number, even for lack of runs, and may lie below every number of the others."""
    lowest = min((row.measured for row in rows if row.measured is not None), default=inf)
    return [row for row in rows if row.measured is None and (row.low is None or row.low < lowest)]


def _judge_derived(claim: Claim, sources: Sequence[LedgerRow]) -> tuple[PlaceTest | None, str]:
    rows = _known(sources)
    region, words = claim.region, _number_list(rows)
    reason = f"{words}, where {region_text(region)} is what was stated"
    if claim.kind is ClaimKind.LOWEST:
        if lower := _perhaps_lower(sources):
            names = ", ".join(row.claim.name for row in lower)
            reason = f"{names} {'has' if len(lower) == 1 else 'have'} no number and may be lowest, of {reason}"
        else:
            lowest = min((row for row in sources if row.measured is not None), key=lambda row: row.measured or 0.0)
            reason = f"lowest is {lowest.claim.name}, of {reason}"
    gaps = [row.claim.name for row in sources if row.estimate is None]
    if gaps:
        return None, f"{reason}; no interval for {', '.join(gaps)}"
    effects = [row.estimate for row in sources if row.estimate is not None]
    p_inside, p_outside = [each.p_inside(region) for each in effects], [each.p_outside(region) for each in effects]
    if claim.kind is ClaimKind.SPAN:
        return judge_p(max(p_inside), min(1.0, len(effects) * min(p_outside))), reason
    from_low, floor = Interval(region.low, float("inf")), Interval(float("-inf"), region.low)
    ceiling = Interval(region.high, float("inf"))
    reaches = min(1.0, len(effects) * min(p_inside))
    none_below = max(each.p_inside(from_low) for each in effects)
    all_above = max(each.p_inside(ceiling) for each in effects)
    any_below = min(1.0, len(effects) * min(each.p_inside(floor) for each in effects))
    return judge_p(max(reaches, none_below), min(all_above, any_below)), reason


def _number_list(rows: Sequence[LedgerRow]) -> str:
    """Return the numbers, or without one the intervals."""
    texts = []
    for row in rows:
        text = number(row.measured, 1, signed=True)
        if row.measured is None and row.low is not None and row.high is not None:
            text = f"{signed_percent(row.low)} to {signed_percent(row.high)} without a number"
        texts.append(f"{row.claim.name} {text}")
    return ", ".join(texts)
