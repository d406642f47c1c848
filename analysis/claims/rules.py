"""One claim + measurements -> its row, with what can come out in the experiment and what no reader may overlook
(docs/decisions/claims.md).

What cannot come out here is `not testable here`, whatever was measured, unless it came out. Derived claims are judged
by the estimates of the claims that they name.
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
    Conditions,
    LedgerRow,
    RunValue,
    failed_note,
    failures_of,
    percent_over,
    with_note,
)
from analysis.claims.measured_rows import VERDICTS_OF_PLACES, measured_row, pairs_of_blocks, region_text
from analysis.claims.statements import RATIOS, Claim, Kind
from analysis.metrics.definitions import Better, metric
from analysis.numerals import extent, number, signed_percent
from analysis.stats.effect import Interval, PlaceTest, judge_p
from analysis.stats.shares import Failures
from barograph.plan.experiment import Experiment

DERIVED_KINDS = (Kind.SPAN, Kind.LOWEST)


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """The row of a claim that is about runs."""
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


def survivors_note(claim: Claim, measured: Conditions) -> str:
    """Return that a variant which the claim is in favour of failed more often than another one that it compares, or
    than none, and that they are not alike in it."""
    of = {name: failures_of(claim, measured, name) for name in claim.variants}
    names = []
    for name in _favoured(claim):
        failed, runs = of[name]
        others = [of[other] for other in claim.variants if other != name] or [(0, runs)]
        if failed and any(Failures(less, of_runs or runs, failed, runs).is_more for less, of_runs in others):
            names.append(name)
    return f"{' and '.join(names)} failed in more of its runs, and the others have no numbers" if names else ""


def _favoured(claim: Claim) -> Sequence[str]:
    """The variants whose number would be good: the claim's own, those that it is compared with, or, where it states
    that they are equal, all. None of a metric that is neither better high nor low, and of a check of each run."""
    better, region = metric(claim.metric).better, claim.region
    if better is Better.NONE or claim.kind is Kind.EVERY_RUN:
        return ()
    way = claim.stated if isfinite(region.low) and isfinite(region.high) else 1 if isfinite(region.low) else -1
    if not way:
        return claim.variants
    return claim.variants[:1] if (way > 0) == (better is Better.HIGHER) else claim.variants[1:]


def _unless_survivors(row: LedgerRow, note: str) -> LedgerRow:
    return _not_judged(row, f"not judged: {note}") if note and row.verdict == REPRODUCED else row


def _unless_not_testable(row: LedgerRow, measured: Conditions) -> LedgerRow:
    """What cannot come out in any of the series does not differ; what came out could. Of machines that were short of
    CPU nobody knows what could."""
    run: Sequence[Experiment | None] = measured.experiments.get(row.claim.experiment, ())
    experiments = run or ([None] if row.runs else [])
    taken = assumptions.baseline_time(row.claim, measured)
    reasons = [limitations.reason_not_testable(row.claim, experiment, taken) for experiment in experiments]
    if not reasons or None in reasons:
        return with_note(row, limitations.shortage_note(row.claim, measured))
    why = str(reasons[0])
    return _by_limits(lambda limit: _ruled_out(row, limitations.shortage_note(row.claim, measured, limit), why))


def _ruled_out(row: LedgerRow, short: str, why: str) -> LedgerRow:
    """By the closed form, which does not hold where machines were `short` of CPU."""
    if short:
        return _not_judged(row, f"not judged: {short}; with CPU enough it cannot come out: {why}")
    if row.verdict == REPRODUCED and not row.claim.stated_over:
        return row
    return _not_testable(row, why)


def _by_limits(judge_at: Callable[[float], LedgerRow]) -> LedgerRow:
    """As judged with the limit of CPU, with a note where another one would give another verdict."""
    row = judge_at(limitations.MOST_CPU_PERCENT)
    others = {limit: judge_at(limit).verdict for limit in limitations.OTHER_LIMITS}
    words = {UNDECIDED: f"{UNDECIDED} (not judged)"}
    said = [
        f"with a CPU limit of {limit:.0f} % it would be {words.get(verdict, verdict)}"
        for limit, verdict in others.items()
        if verdict not in (row.verdict, NOT_RUN)
    ]
    return with_note(row, ", ".join(said))


def _not_testable(row: LedgerRow, why: str) -> LedgerRow:
    seen = f"; measured: {row.reason}" if row.runs else ""
    return replace(row, verdict=NOT_TESTABLE, reason=f"{why}{seen}", p=None)


def _not_judged(row: LedgerRow, note: str) -> LedgerRow:
    """Return what runs are no ground for: it neither came out nor failed to."""
    reason, notes = f"{note}; measured: {row.reason}", (*row.notes, note)
    return replace(row, verdict=UNDECIDED, reason=reason, p=None, notes=notes)


BY_TRAFFIC = ("metis", "greedy")  # policies that place what runs anew, or keep all of it
RESCHEDULED = "rescheduled_percent"


def moved_note(claim: Claim, measured: Conditions) -> str:
    """In how many runs such policies moved anything, of those that the claim compares."""
    experiments = measured.experiments.get(claim.experiment, ())
    names = {variant.name for each in experiments for variant in each.variants if variant.policy in BY_TRAFFIC}
    asked = replace(claim, metric=RESCHEDULED)
    return moved_text({name: measured.of(asked, name) for name in claim.variants if name in names})


def moved_text(runs: Mapping[str, Iterable[RunValue]]) -> str:
    """`greedy moved executors in 0 of 6 runs`, by variant; `runs`: their RESCHEDULED."""
    each = {name: [value.value > 0.0 for value in values] for name, values in runs.items()}
    return ", ".join(f"{name} moved executors in {sum(of)} of {len(of)} runs" for name, of in each.items() if of)


def busy_note(claim: Claim, measured: Conditions) -> str:
    """That machines were so busy that none can be far above their mean, however they are placed on: no use of CPU is
    above 100 %."""
    if claim.metric != "cpu_imbalance_after" or claim.kind is not Kind.RATIO_AT_MOST:
        return ""
    used = [value.value for value in measured.of(replace(claim, metric="cpu_percent_after"), claim.variant)]
    most = percent_over(100.0, min(used)) if used and min(used) > 0.0 else inf
    if most >= claim.region.high:
        return ""
    return (
        f"hardly able to fail: under {claim.variant} machines use {extent(round(each) for each in used)} % of their CPU"
        f" on average, so the busiest can be at most {number(most, 1)} % above that"
    )


def order_note(claim: Claim, measured: Conditions) -> str:
    """That every block had its two runs in the same order: then what drifts within a block is not in the noise, but in
    the number. A series of one block has the order of its seed, so that all such of one seed have the same."""
    if claim.kind not in RATIOS:
        return ""
    pairs = pairs_of_blocks(measured.of(claim, claim.variant), measured.of(claim, claim.baseline))
    after = {own.order > other.order for own, other in pairs if own.order is not None and other.order is not None}
    if len(pairs) < 2 or len(after) != 1:
        return ""
    place = "after" if after.pop() else "before"
    return f"in each block {claim.variant} ran {place} {claim.baseline}: what drifts within a block is in the number"


def weakness_note(row: LedgerRow, measured: Conditions) -> str:
    """What `barograph check` says of the claim in this experiment: that it cannot fail, or can only differ. The closed
    form says so with CPU enough."""
    blocks = row.blocks or row.runs
    experiments = measured.experiments.get(row.claim.experiment, ())
    said = (limitations.lasting_weaknesses(row.claim, experiment, blocks) for experiment in experiments)
    return "; ".join(dict.fromkeys(text for texts in said for text in texts))


# --- claims that follow from others ----------------------------------------------------------------------------------


def judge_derived(claim: Claim, rows: Mapping[str, LedgerRow], measured: Conditions) -> LedgerRow:
    """There is no verdict unless each of the claims that it is about has an interval. What bounds one of these is seen
    in the series that it is judged by itself."""
    of_members, measured = measured, measured.for_claim(claim)
    sources = [rows[name] for name in claim.of]
    row = derived_numbers(claim, sources)
    members = [source.claim for source in sources]
    own = {each.name: of_members.for_claim(each) for each in members}
    taken = {name: found for each in members for name in (each.name,)
             if (found := assumptions.baseline_time(each, own[name])) is not None}  # fmt: skip
    if row.verdict != NOT_RUN:
        judged, reason = _judge_derived(claim, sources)
        verdict = UNDECIDED if judged is None else VERDICTS_OF_PLACES[judged.place]
        row = replace(row, verdict=verdict, reason=reason, p=None if judged is None else judged.p)
        left = {each.name: survivors_note(each, own[each.name]) for each in members}
        row = _unless_survivors(row, "; ".join(f"of {name} {note}" for name, note in left.items() if note))

    def judge_at(limit: float) -> LedgerRow:
        short = [each.name for each in members if limitations.shortage_note(each, own[each.name], limit)]
        return _unless_members_rule_it_out(row, members, measured.experiments, taken, short)

    return _by_limits(judge_at)


def _unless_members_rule_it_out(
    row: LedgerRow, members: Sequence[Claim], run: Mapping[str, Sequence[Experiment]],
    taken: Mapping[str, BaselineTime], short: Sequence[str],
) -> LedgerRow:  # fmt: skip
    """`run`: by experiment, what was run; `short`: members whose machines were short of CPU, so that the closed form
    does not bound them."""
    why = limitations.reason_derived(row.claim, members, run, taken, unbounded=short)
    if row.verdict == NOT_RUN:
        return replace(row, verdict=NOT_TESTABLE, reason=why) if why else row
    if why:
        return row if row.verdict == REPRODUCED else _not_testable(row, why)
    with_cpu = limitations.reason_derived(row.claim, members, run, taken) if short else None
    if with_cpu:
        names = f"short of CPU: {', '.join(short)} (their rows say how much)"
        return _not_judged(row, f"not judged: {names}; with CPU enough it cannot come out: {with_cpu}")
    return row


def derived_numbers(claim: Claim, sources: Sequence[LedgerRow]) -> LedgerRow:
    """The numbers of the claims that it is about: `low` and `high` are the smallest and the largest; no verdict yet.
    The lowest one is none where a claim without a number may be lower."""
    known = _known(sources)
    runs = min((row.runs for row in known or sources), default=0)
    if not known:
        words = "has a number" if runs else "was measured"
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, f"none of {', '.join(claim.of)} {words}", ())
    numbers = [row.measured for row in known if row.measured is not None]
    run_ids = tuple(dict.fromkeys(run_id for row in known for run_id in row.run_ids))
    is_open = claim.kind is Kind.LOWEST and _perhaps_lower(sources)
    least, most = None if is_open else min(numbers, default=None), max(numbers, default=None)
    best = least if claim.kind is Kind.LOWEST else most
    return LedgerRow(claim, best, least, most, runs, UNDECIDED, _number_list(known), run_ids)


def _known(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Those of which something is known: a number, or an interval without one where a median was not reached."""
    return [row for row in rows if row.measured is not None or row.estimate is not None]


def _perhaps_lower(rows: Sequence[LedgerRow]) -> list[LedgerRow]:
    """Those that have no number, also as nobody ran them, and may lie below every number of the others."""
    least = min((row.measured for row in rows if row.measured is not None), default=inf)
    return [row for row in rows if row.measured is None and (row.low is None or row.low < least)]


def _judge_derived(claim: Claim, sources: Sequence[LedgerRow]) -> tuple[PlaceTest | None, str]:
    known = _known(sources)
    region, words = claim.region, _number_list(known)
    reason = f"{words}, where {region_text(region)} is what was stated"
    if claim.kind is Kind.LOWEST:
        reason = f"{_lowest_text(sources)}, of {reason}"
    unsure = [row.claim.name for row in sources if row.estimate is None]
    if unsure:
        return None, f"{reason}; no interval for {', '.join(unsure)}"
    found = [row.estimate for row in sources if row.estimate is not None]
    inside, outside = [each.p_inside(region) for each in found], [each.p_outside(region) for each in found]
    if claim.kind is Kind.SPAN:
        return judge_p(max(inside), min(1.0, len(found) * min(outside))), reason
    from_low, below = Interval(region.low, float("inf")), Interval(float("-inf"), region.low)
    above = Interval(region.high, float("inf"))
    reaches = min(1.0, len(found) * min(inside))
    none_below = max(each.p_inside(from_low) for each in found)
    all_above = max(each.p_inside(above) for each in found)
    any_below = min(1.0, len(found) * min(each.p_inside(below) for each in found))
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
    """Without a number its interval."""
    if row.measured is not None or row.low is None or row.high is None:
        return number(row.measured, 1, signed=True)
    return f"{signed_percent(row.low)} to {signed_percent(row.high)} without a number"
