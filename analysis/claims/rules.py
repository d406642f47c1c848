"""One claim + measurements -> its row. The rule of the ledger is in ledger.py, that of each kind in statements.py."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import median

from analysis import statistics
from analysis.claims import floors
from analysis.claims.floors import Floor
from analysis.claims.rows import (
    DIFFERS,
    MINIMUM_RUNS,
    NONE,
    NOT_RUN,
    OPPOSITE,
    REPRODUCED,
    SAME,
    SEED,
    Conditions,
    LedgerRow,
    Value,
    ids,
    missing,
)  # fmt: skip
from analysis.claims.statements import Claim, Kind
from analysis.numerals import number

EPSILON = 1e-9
RATIOS = (Kind.RATIO, Kind.RATIO_ABOVE, Kind.RATIO_BELOW)


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """The row of a claim that is about runs."""
    compared = [claim.variant, *([claim.baseline] if claim.baseline else []), *claim.others]
    absent = [variant for variant in compared if not measured.of(claim, variant)]
    if absent:
        return missing(claim, measured, absent)
    floor, testbed = floors.of_claim(claim, measured, compared), floors.of_testbed(claim, measured)
    own = measured.of(claim, claim.variant)
    if claim.kind is Kind.EVERY_RUN:
        return _every_run(claim, own)
    if claim.kind is Kind.ONLY:
        row = _only(claim, measured, floor)
    elif claim.kind in RATIOS:
        row = _ratio(claim, own, measured.of(claim, claim.baseline), floor)
    else:
        row = _own(claim, own, floor)
    return replace(
        row, floor_percent=floor.percent if floor else None, floor_pairs=floor.pairs if floor else 0,
        testbed_floor_percent=testbed.percent if testbed else None, direction=direction(row, floor),
    )  # fmt: skip


# --- directions ------------------------------------------------------------------------------------------------------


def direction(row: LedgerRow, floor: Floor | None) -> str | None:
    """Whether the number goes the way that is stated; `none` under the floor or where the interval holds no change."""
    way = stated_way(row.claim)
    if not way or row.measured is None or row.unknowable:
        return None
    unsure = row.low is not None and row.high is not None and row.low <= 0.0 <= row.high
    if unsure or _under(row.measured, floor):
        return NONE
    return SAME if way * row.measured > 0.0 else OPPOSITE


def stated_way(claim: Claim) -> int:
    """1: more, -1: less, 0: no way is stated."""
    if claim.kind in (Kind.RATIO_ABOVE, Kind.RATIO_BELOW, Kind.OWN_BELOW):
        return 1 if claim.kind is Kind.RATIO_ABOVE else -1
    if claim.kind in (Kind.RATIO, Kind.OWN):
        return (claim.stated > 0.0) - (claim.stated < 0.0)
    return 1 if claim.kind is Kind.ONLY else 0


def _under(number: float, floor: Floor | None) -> bool:
    return floor is not None and abs(number) <= floor.percent


# --- kinds -----------------------------------------------------------------------------------------------------------


def _every_run(claim: Claim, own: Sequence[Value]) -> LedgerRow:
    values = [value.value for value in own]
    against = [value for value in own if abs(value.value - claim.stated) > EPSILON]
    verdict = DIFFERS if against else REPRODUCED
    reason = f"{claim.stated:g} in {'the one run' if len(own) == 1 else f'each of {len(own)} runs'}"
    if against:
        reason = "not so in " + ", ".join(f"{value.run_id} ({value.value:g})" for value in against)
    worst = max(values, key=lambda value: abs(value - claim.stated))
    return LedgerRow(claim, worst, min(values), max(values), len(own), verdict, reason, ids(own))


def _own(claim: Claim, own: Sequence[Value], floor: Floor | None) -> LedgerRow:
    values = [value.value for value in own]
    if len(values) < MINIMUM_RUNS:
        return _no_interval(claim, median(values), {claim.variant: own}, len(own), floor)
    found = statistics.median_interval(values, SEED)
    verdict, reason = _level(claim, found.point, found.low, found.high, floor)
    return LedgerRow(claim, found.point, found.low, found.high, len(own), verdict, reason, ids(own))


def _level(claim: Claim, point: float, low: float, high: float, floor: Floor | None) -> tuple[str, str]:
    stated, around = claim.stated, f" (within {claim.resolution:g})" if claim.about else ""
    if claim.kind is Kind.OWN:
        return _inside(claim, point, low, high, floor)
    if claim.kind is Kind.UNMOVED:
        noise = floor.percent if floor else 0.0
        bound, what = max((claim.resolution, "what `about` allows"), (noise, "the A/A floor"))
        holds, fails = stated - bound <= low and high <= stated + bound, high < stated - bound or low > stated + bound
        return _condition(holds, fails, f"within {bound:.1f} ({what})")
    above, below = stated + claim.resolution, stated - claim.resolution
    holds, fails, words = {
        Kind.OWN_AT_MOST: (high <= above, low > above, f"at most {stated:g}{around}"),
        Kind.OWN_AT_LEAST: (low >= below, high < below, f"at least {stated:g}{around}"),
        Kind.OWN_BELOW: (high < below, low >= below, f"below {stated:g}{around}"),
    }[claim.kind]
    verdict, reason = _condition(holds, fails, words)
    if floor is not None and not holds and _under(point - stated, floor):
        reason += f"; but {_signed(point)} is within the {floor.percent:.1f} by which it differs from itself"
    return verdict, reason


def _ratio(claim: Claim, own: Sequence[Value], other: Sequence[Value], floor: Floor | None) -> LedgerRow:
    top, bottom = [value.value for value in own], [value.value for value in other]
    runs = min(len(own), len(other))
    if min(bottom) <= 0.0:
        reason = f"{claim.baseline} has a run at 0: no ratio"
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, reason, ids([*own, *other]))
    point = 100.0 * (median(top) / median(bottom) - 1.0)
    if runs < MINIMUM_RUNS:
        sides = {claim.variant: own, str(claim.baseline): other}
        return _no_interval(claim, point, sides, runs, floor, _unknowable(point, own, other))
    found = statistics.median_ratio_interval(top, bottom, SEED)
    # A median is a bound where half or more of its runs are: the interval is then open on that side.
    high = inf if _censored(own) else 100.0 * (found.high - 1.0)
    low = -100.0 if _censored(other) else 100.0 * (found.low - 1.0)
    verdict, reason = _compare(claim, point, low, high, floor)
    return LedgerRow(
        claim, point, low, high, runs, verdict, reason + _unconverged(claim, own, other), ids([*own, *other]),
        p_value=statistics.mann_whitney(top, bottom), cliffs_delta=statistics.cliffs_delta(top, bottom),
    )  # fmt: skip


def _compare(claim: Claim, point: float, low: float, high: float, floor: Floor | None) -> tuple[str, str]:
    open_ended = high == inf or low <= -100.0
    if claim.kind in (Kind.RATIO_ABOVE, Kind.RATIO_BELOW):
        if low <= claim.stated <= high and open_ended:
            return NOT_RUN, "undecided: too many runs never converged"
        above = claim.kind is Kind.RATIO_ABOVE
        over, under = (low > claim.stated, high <= claim.stated), (high < claim.stated, low >= claim.stated)
        holds, fails = over if above else under
        return _condition(holds, fails, f"{'above' if above else 'below'} {claim.stated:g}")
    if open_ended and low <= claim.stated <= high:
        return NOT_RUN, "undecided: too many runs never converged, so the interval is open"
    if open_ended:
        return _beside_open(claim, low, high)
    return _inside(claim, point, low, high, floor)


def _only(claim: Claim, measured: Conditions, floor: Floor | None) -> LedgerRow:
    """Interval of the variant; the reason ranks it among the others."""
    sides = {name: measured.of(claim, name) for name in (claim.variant, *claim.others)}
    levels = {name: median([value.value for value in values]) for name, values in sides.items()}
    runs = min(len(values) for values in sides.values())
    if runs < MINIMUM_RUNS:
        return _no_interval(claim, levels[claim.variant], sides, runs, floor)
    found = {name: statistics.median_interval([v.value for v in values], SEED) for name, values in sides.items()}
    better = [name for name in sides if found[name].low > claim.stated and not _under(levels[name], floor)]
    ranking = ", ".join(f"{name} {_signed(level)}" for name, level in sorted(levels.items(), key=lambda pair: -pair[1]))
    own = found[claim.variant]
    verdict = REPRODUCED if better == [claim.variant] else DIFFERS
    return LedgerRow(
        claim, own.point, own.low, own.high, runs, verdict,
        f"above {claim.stated:g} and the A/A floor: {', '.join(better) or 'none'}; in order: {ranking}",
        ids([value for values in sides.values() for value in values]),
    )  # fmt: skip


# --- words -----------------------------------------------------------------------------------------------------------


def _inside(claim: Claim, point: float, low: float, high: float, floor: Floor | None) -> tuple[str, str]:
    if low <= claim.stated <= high:
        return REPRODUCED, "the stated value lies inside the interval"
    if low <= claim.stated + claim.resolution and claim.stated - claim.resolution <= high:
        return REPRODUCED, f"the interval meets about {claim.stated:g} (within {claim.resolution:g})"
    return DIFFERS, _difference(claim.stated, point, floor)


def _beside_open(claim: Claim, low: float, high: float) -> tuple[str, str]:
    """The stated value lies outside an interval that is open: its known end says all there is to say."""
    if low - claim.resolution <= claim.stated <= high + claim.resolution:
        return REPRODUCED, f"the interval meets about {claim.stated:g} (within {claim.resolution:g})"
    end, way = (f"at least {_signed(low)} %", "more") if high == inf else (f"at most {_signed(high)} %", "less")
    return DIFFERS, f"{end}; how much {way} is not known"


def _difference(stated: float, point: float, floor: Floor | None) -> str:
    """In words: how a measured percentage differs from the stated one."""
    if floor is not None and _under(point, floor):
        own = f"the {floor.percent:.1f} % by which a variant differs from itself"
        return f"no difference: {_signed(point)} % is within {own}"
    if stated == 0.0:
        return f"{'higher' if point > 0 else 'lower'}, where about equal was stated"
    if stated * point < 0.0:
        return "the opposite direction"
    return f"the same direction, but {'larger' if abs(point) > abs(stated) else 'smaller'}"


def _condition(holds: bool, fails: bool, words: str) -> tuple[str, str]:
    """Of the whole interval: where a part of it agrees and another does not, these runs cannot tell."""
    if holds:
        return REPRODUCED, f"{words} over the whole interval"
    if fails:
        return DIFFERS, f"nowhere {words} in the interval"
    return NOT_RUN, f"undecided: {words} in a part of the interval only"


def _no_interval(
    claim: Claim,
    point: float,
    sides: dict[str, Sequence[Value]],
    runs: int,
    floor: Floor | None,
    unknowable: bool = False,
) -> LedgerRow:
    """Every value is shown instead; a censored one is a lower bound."""
    values = "; ".join(f"{name} {', '.join(map(_shown, found))}" for name, found in sides.items())
    reason = f"{runs} run{'s' if runs > 1 else ''}: no interval ({MINIMUM_RUNS} of each variant are needed): {values}"
    everyone = ids([value for found in sides.values() for value in found])
    row = LedgerRow(claim, point, None, None, runs, NOT_RUN, reason, everyone, unknowable=unknowable)
    way = direction(row, floor)
    words = {SAME: "the same direction", OPPOSITE: "the opposite direction", NONE: "no difference beyond the A/A floor"}
    told = words[way] if way else "says only how long was watched, for runs never converged" if unknowable else ""
    return replace(row, reason=f"{reason}; {told}") if told else row


def _signed(percent: float) -> str:
    return number(percent, 1, signed=True)


def _shown(value: Value) -> str:
    return f"{'> ' if value.censored else ''}{value.value:.4g}".replace("-", "−")


def _unknowable(point: float, own: Sequence[Value], other: Sequence[Value]) -> bool:
    """Whether the ratio of medians is one of horizons: which side is larger then says how long was watched."""
    above, below = _censored(own), _censored(other)  # the ratio is larger, or smaller, than the number
    return (above and (below or point <= 0.0)) or (below and point >= 0.0)


def _unconverged(claim: Claim, own: Sequence[Value], other: Sequence[Value]) -> str:
    censored = sum(value.censored for value in own), sum(value.censored for value in other)
    if not any(censored):
        return ""
    return (
        f"; never converged (taken at the horizon): {censored[0]} of {len(own)} {claim.variant}, "
        f"{censored[1]} of {len(other)} {claim.baseline}"
    )


def _censored(values: Sequence[Value]) -> bool:
    return 2 * sum(value.censored for value in values) >= len(values)
