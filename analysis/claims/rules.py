"""One claim + measurements -> its row, with what can come out in the experiment and what no reader may overlook
(docs/decisions/claims.md).

A claim that cannot come out here is `not testable here`, whatever was measured, unless it came out. Derived claims are
judged by the estimates of the claims that they name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite

from analysis.claims import assumptions, limitations
from analysis.claims.assumptions import BaselineTime
from analysis.claims.ledger_rows import (  # fmt: skip
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
from analysis.claims.measured_rows import VERDICTS_OF_PLACES, measured_row, pairs_of_blocks, region_text
from analysis.claims.statements import RATIOS, Claim, ClaimKind
from analysis.metrics.definitions import Better, metric
from analysis.numerals import extent, number, signed_percent
from analysis.stats.effect import Interval, PlaceTest, judge_p
from analysis.stats.shares import Failures
from barograph.plan.experiment import Experiment

DERIVED_KINDS = (ClaimKind.SPAN, ClaimKind.LOWEST)


def judge(claim: Claim, measured: SeriesConditions) -> LedgerRow:
    """Return the row of a claim that is about runs."""
    row = measured_row(claim, measured)
    if row.runs:
        for note in (failed_note(claim, measured), busy_note(claim, measured), order_note(claim, measured)):
            row = with_note(row, note)
    if row.runs and (note := moved_note(claim, measured)):
        row = replace(row, reason=f"{row.reason}; {note}")
    row = _unless_survivors(row, survivors_note(claim, measured))
    row = _unless_not_testable(row, measured)
    if row.verdict == NOT_TESTABLE or not row.runs or limitations.shortage_note(claim, measured):
        return row
    return with_note(row, weakness_note(row, measured))


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


def _unless_not_testable(row: LedgerRow, measured: SeriesConditions) -> LedgerRow:
    """Mark a claim that cannot come out in any of the series; one that came out could. If machines were short of
    CPU, it is unknown what could."""
    run: Sequence[Experiment | None] = measured.experiments.get(row.claim.experiment, ())
    experiments = run or ([None] if row.runs else [])
    times = assumptions.baseline_time(row.claim, measured)
    reasons = [limitations.reason_not_testable(row.claim, experiment, times) for experiment in experiments]
    if not reasons or None in reasons:
        return with_note(row, limitations.shortage_note(row.claim, measured))
    words = str(reasons[0])
    return _by_limits(lambda limit: _ruled_out(row, limitations.shortage_note(row.claim, measured, limit), words))


def _ruled_out(row: LedgerRow, short: str, why: str) -> LedgerRow:
    """Return the row by the closed form, which does not apply if machines were `short` of CPU."""
    if short:
        return _not_judged(row, f"not judged: {short}; with CPU enough it cannot come out: {why}")
    if row.verdict == REPRODUCED and not row.claim.stated_over:
        return row
    return _not_testable(row, why)


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


def weakness_note(row: LedgerRow, measured: SeriesConditions) -> str:
    """Return the notes of `barograph check` on the claim in this experiment: that it cannot fail, or can only differ.
    The closed form says so with CPU enough."""
    blocks = row.blocks or row.runs
    experiments = measured.experiments.get(row.claim.experiment, ())
    notes = (limitations.lasting_weaknesses(row.claim, experiment, blocks) for experiment in experiments)
    return "; ".join(dict.fromkeys(text for texts in notes for text in texts))


# --- claims that follow from others ----------------------------------------------------------------------------------


def judge_derived(claim: Claim, rows: Mapping[str, LedgerRow], measured: SeriesConditions) -> LedgerRow:
    """Judge a derived claim; there is no verdict unless each of its members has an interval. Bounds of a member come
    from the series by which it is judged itself."""
    of_members, measured = measured, measured.for_claim(claim)
    sources = [rows[name] for name in claim.of]
    row = derived_numbers(claim, sources)
    members = [source.claim for source in sources]
    records = {each.name: of_members.for_claim(each) for each in members}
    times = {name: baseline for each in members for name in (each.name,)
             if (baseline := assumptions.baseline_time(each, records[name])) is not None}  # fmt: skip
    if row.verdict != NOT_RUN:
        result, reason = _judge_derived(claim, sources)
        verdict = UNDECIDED if result is None else VERDICTS_OF_PLACES[result.place]
        row = replace(row, verdict=verdict, reason=reason, p=None if result is None else result.p)
        survivors = {each.name: survivors_note(each, records[each.name]) for each in members}
        row = _unless_survivors(row, "; ".join(f"of {name} {note}" for name, note in survivors.items() if note))

    def judge_at(limit: float) -> LedgerRow:
        names = [each.name for each in members if limitations.shortage_note(each, records[each.name], limit)]
        return _unless_members_rule_it_out(row, members, measured.experiments, times, names)

    return _by_limits(judge_at)


def _unless_members_rule_it_out(
    row: LedgerRow, members: Sequence[Claim], run: Mapping[str, Sequence[Experiment]],
    taken: Mapping[str, BaselineTime], short: Sequence[str],
) -> LedgerRow:  # fmt: skip
    """Return the row. `run`: specifications by experiment; `short`: members whose machines were short of CPU, so that
    the closed form does not bound them."""
    reason = limitations.reason_derived(row.claim, members, run, taken, unbounded=short)
    if row.verdict == NOT_RUN:
        return replace(row, verdict=NOT_TESTABLE, reason=reason) if reason else row
    if reason:
        return row if row.verdict == REPRODUCED else _not_testable(row, reason)
    with_cpu = limitations.reason_derived(row.claim, members, run, taken) if short else None
    if with_cpu:
        names = f"short of CPU: {', '.join(short)} (their rows say how much)"
        return _not_judged(row, f"not judged: {names}; with CPU enough it cannot come out: {with_cpu}")
    return row


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
        reason = f"{_lowest_text(sources)}, of {reason}"
    names = [row.claim.name for row in sources if row.estimate is None]
    if names:
        return None, f"{reason}; no interval for {', '.join(names)}"
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


def _lowest_text(sources: Sequence[LedgerRow]) -> str:
    if lower := _perhaps_lower(sources):
        one = len(lower) == 1
        return f"{', '.join(row.claim.name for row in lower)} {'has' if one else 'have'} no number and may be lowest"
    lowest = min((row for row in sources if row.measured is not None), key=lambda row: row.measured or 0.0)
    return f"lowest is {lowest.claim.name}"


def _number_list(rows: Sequence[LedgerRow]) -> str:
    return ", ".join(f"{row.claim.name} {_number_text(row)}" for row in rows)


def _number_text(row: LedgerRow) -> str:
    """Return the number, or without one its interval."""
    if row.measured is not None or row.low is None or row.high is None:
        return number(row.measured, 1, signed=True)
    return f"{signed_percent(row.low)} to {signed_percent(row.high)} without a number"
