"""One claim + measurements -> its row. The rule of the ledger is in ledger.py, that of each kind in statements.py.

Three kinds of rule: exact claims have one right answer, computed by the same code that schedules (name ->
computation); derived claims take their numbers from the rows of the claims they name; all others are about runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import comb, inf
from statistics import median

from analysis.claims import ledger_rows
from analysis.claims.ledger_rows import (  # fmt: skip
    AT_LEAST,
    AT_MOST,
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
    ids_of_runs,
    row_without_runs,
)
from analysis.claims.statements import ABOUT_SHARE, Claim, Kind
from analysis.metrics.metric_directions import CONVERGENCE
from analysis.numerals import number
from analysis.stats import inference
from analysis.stats.same_code_floors import Floor
from scheduler_plugins.model import Component, Edge, Executor, Topology
from scheduler_plugins.policies import etp
from scheduler_plugins.policies.stela import Parameters, assign_executors

# SP figure 2, ST figure 2: ten operators, the rates of its sinks, and which are congested. What it does not print (the
# rates of the others, and what the congested ones receive) is chosen so that exactly those are congested.
CHILDREN = {"1": ("2", "3"), "2": ("4",), "3": ("5", "6"), "5": ("7", "8"), "6": ("9", "10")}
PROCESSING_RATES = {
    "1": 5000.0, "2": 5000.0, "3": 2000.0, "4": 2000.0, "5": 2000.0, "6": 500.0, "7": 1000.0, "8": 1000.0, "9": 200.0,
    "10": 300.0,
}  # fmt: skip
INPUT_RATES = {"1": 6000.0, "3": 5000.0, "4": 4000.0, "6": 1000.0}
RULES = Parameters(congestion_rate=1.0)
ETP_ORDER = ("3", "4", "6", "1")
MACHINE_COUNT, DRAWS, BEST_COUNT = 8, 4, 2


def ten_operators(room: frozenset[str] = frozenset()) -> Topology:
    """One executor each; those in `room` have a task for one more."""
    names = ["feed", *PROCESSING_RATES]
    components = tuple(
        _operator(name, number, 2 if name in room else 1) for number, name in zip(range(1, 99, 2), names, strict=False)
    )
    pairs = [("feed", "1"), *((source, target) for source, targets in CHILDREN.items() for target in targets)]
    edges = tuple(Edge(source, "default", target, "shuffle", INPUT_RATES.get(target, 1.0)) for source, target in pairs)
    return Topology("ten-1", "ten", 1, components, edges)


def _operator(name: str, first_task: int, tasks: int) -> Component:
    executors = (Executor(first_task, first_task + tasks - 1),)
    ids = tuple(range(first_task, first_task + tasks))
    if name == "feed":
        return Component(name, "spout", ids, executors, emitted_per_s=INPUT_RATES["1"])
    return Component(name, "bolt", ids, executors, executed_per_s=PROCESSING_RATES[name])


def etp_percent(operator: str) -> float:
    return 100.0 * etp.measured_etps(ten_operators(), RULES)[operator]


def order_mismatches() -> float:
    """At how many of the four places the congested operator that is served next differs from the printed order."""
    waiting, served = set(INPUT_RATES), []
    for _ in ETP_ORDER:
        (chosen,) = assign_executors(ten_operators(frozenset(waiting)), 1, RULES)
        served.append(chosen)
        waiting.discard(chosen)
    return float(sum(one != other for one, other in zip(served, ETP_ORDER, strict=True)))


def chance_of_both_best_percent() -> float:
    """Of all ways to draw 4 of 8 machines, those that hold both best ones."""
    return 100.0 * comb(MACHINE_COUNT - BEST_COUNT, DRAWS - BEST_COUNT) / comb(MACHINE_COUNT, DRAWS)


COMPUTATIONS: dict[str, Callable[[], float]] = {
    "etp_of_operator_1": lambda: etp_percent("1"),
    "etp_of_operator_3": lambda: etp_percent("3"),
    "etp_of_operator_4": lambda: etp_percent("4"),
    "etp_of_operator_6": lambda: etp_percent("6"),
    "etp_order_misplaced": order_mismatches,
    "chance_of_both_best": chance_of_both_best_percent,
}


def judge_exact(claim: Claim) -> LedgerRow:
    """Equal to the digits that are stated."""
    value = COMPUTATIONS[claim.metric]()
    equal = round(value) == claim.stated
    reason = f"computed, needs no run: {value:.4g} {'rounds' if equal else 'does not round'} to {claim.stated:g}"
    return LedgerRow(claim, value, value, value, 0, REPRODUCED if equal else DIFFERS, reason, ())


DERIVED_KINDS = (Kind.SPAN, Kind.LOWEST)


def judge_derived(claim: Claim, rows: Mapping[str, LedgerRow]) -> LedgerRow:
    """`low` and `high` are the smallest and the largest number. There is no verdict unless each has an interval."""
    sources = [rows[name] for name in claim.of]
    known = [row for row in sources if row.measured is not None]
    if not known:
        runs = min((row.runs for row in sources), default=0)
        why = "has a number" if runs else "was measured"
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, f"none of {', '.join(claim.of)} {why}", ())
    verdict, reason = _judge_span(claim, known) if claim.kind is Kind.SPAN else _judge_lowest(claim, known)
    unsure = [row.claim.name for row in sources if row.low is None]
    if unsure:
        verdict, reason = NOT_RUN, f"{reason}; no interval for {', '.join(unsure)}"
    elif bounds := [row.claim.name for row in known if row.bound is not None]:
        verdict, reason = NOT_RUN, f"{reason}; only a bound for {', '.join(bounds)}"
    numbers = [row.measured for row in known if row.measured is not None]
    best = min(numbers) if claim.kind is Kind.LOWEST else max(numbers)
    run_ids = tuple(dict.fromkeys(run_id for row in known for run_id in row.run_ids))
    runs = min(row.runs for row in known)
    bound = next(row.bound for row in known if row.measured == best)
    return LedgerRow(claim, best, min(numbers), max(numbers), runs, verdict, reason, run_ids, bound=bound)


def _judge_span(claim: Claim, rows: Sequence[LedgerRow]) -> tuple[str, str]:
    top = claim.stated if claim.stated_high is None else claim.stated_high
    slack = ABOUT_SHARE if claim.about else 0.0
    low, high = claim.stated - slack * abs(claim.stated), top + slack * abs(top)
    outside = [row for row in rows if row.measured is not None and not low <= row.measured <= high]
    if outside:
        return (
            DIFFERS,
            f"outside {claim.stated:g} to {top:g}: {_number_list(outside)}; inside: {_number_list(rows, outside)}",
        )
    return REPRODUCED, f"all within {claim.stated:g} to {top:g}: {_number_list(rows)}"


def _judge_lowest(claim: Claim, rows: Sequence[LedgerRow]) -> tuple[str, str]:
    lowest = min(rows, key=lambda row: row.measured or 0.0)
    low, high = lowest.low, lowest.high
    inside = low is not None and high is not None and low <= claim.stated + claim.resolution
    inside = inside and high is not None and claim.stated - claim.resolution <= high
    words = f"lowest is {lowest.claim.name}, of {_number_list(rows)}"
    return (REPRODUCED if inside else DIFFERS), words


def _number_list(rows: Sequence[LedgerRow], without: Sequence[LedgerRow] = ()) -> str:
    texts = [f"{row.claim.name} {bound_sign(row)}{number(row.measured, 1, signed=True)}" for row in rows
             if row not in without]  # fmt: skip
    return ", ".join(texts) or "none"


EPSILON = 1e-9
RATIOS = (Kind.RATIO, Kind.RATIO_ABOVE, Kind.RATIO_BELOW)


def judge(claim: Claim, measured: Conditions) -> LedgerRow:
    """The row of a claim that is about runs."""
    compared = [claim.variant, *([claim.baseline] if claim.baseline else []), *claim.others]
    absent = [variant for variant in compared if not measured.of(claim, variant)]
    if absent:
        return row_without_runs(claim, measured, absent)
    floor, testbed = ledger_rows.claim_floor(claim, measured, compared), ledger_rows.testbed_floor(claim, measured)
    own = measured.of(claim, claim.variant)
    everyone = [value for variant in compared for value in measured.of(claim, variant)]
    if claim.kind is Kind.EVERY_RUN:
        return _with_steadiness(_judge_every_run(claim, own), everyone)
    if claim.kind is Kind.ONLY:
        row = _judge_only(claim, measured, floor)
    elif claim.kind in RATIOS:
        row = _judge_ratio(claim, own, measured.of(claim, claim.baseline), floor)
    else:
        row = _judge_own(claim, own, floor)
    return replace(
        _with_steadiness(row, everyone),
        floor_percent=floor.percent if floor else None, floor_pairs=floor.pairs if floor else 0,
        testbed_floor_percent=testbed.percent if testbed else None, direction=direction(row, floor),
    )  # fmt: skip


def _with_steadiness(row: LedgerRow, values: Sequence[Value]) -> LedgerRow:
    """Runs that were not steady count, and the reason says how many."""
    unsteady = sum(value.steady is False for value in values)
    if not unsteady:
        return row
    counted = "their horizon" if row.claim.metric.startswith(CONVERGENCE) else "what stood for a steady part"
    note = f"{unsteady} of {len(values)} runs were not steady and count with {counted}"
    return replace(row, unsteady=unsteady, reason=f"{row.reason}; {note}")


# --- directions ------------------------------------------------------------------------------------------------------


def direction(row: LedgerRow, floor: Floor | None) -> str | None:
    """Whether the number goes the way that is stated; `none` under the floor or where the interval holds no change."""
    way = stated_sign(row.claim)
    if not way or row.measured is None or not row.sign_known:
        return None
    unsure = row.low is not None and row.high is not None and row.low <= 0.0 <= row.high
    if unsure or _under(row.measured, floor):
        return NONE
    return SAME if way * row.measured > 0.0 else OPPOSITE


def stated_sign(claim: Claim) -> int:
    """1: more, -1: less, 0: no way is stated."""
    if claim.kind in (Kind.RATIO_ABOVE, Kind.RATIO_BELOW, Kind.OWN_BELOW):
        return 1 if claim.kind is Kind.RATIO_ABOVE else -1
    if claim.kind in (Kind.RATIO, Kind.OWN):
        return (claim.stated > 0.0) - (claim.stated < 0.0)
    return 1 if claim.kind is Kind.ONLY else 0


def _under(number: float, floor: Floor | None) -> bool:
    return floor is not None and abs(number) <= floor.percent


# --- kinds -----------------------------------------------------------------------------------------------------------


def _judge_every_run(claim: Claim, own: Sequence[Value]) -> LedgerRow:
    values = [value.value for value in own]
    against = [value for value in own if abs(value.value - claim.stated) > EPSILON]
    verdict = DIFFERS if against else REPRODUCED
    reason = f"{claim.stated:g} in {'the one run' if len(own) == 1 else f'each of {len(own)} runs'}"
    if against:
        reason = "not so in " + ", ".join(f"{value.run_id} ({value.value:g})" for value in against)
    worst = max(values, key=lambda value: abs(value - claim.stated))
    return LedgerRow(claim, worst, min(values), max(values), len(own), verdict, reason, ids_of_runs(own))


def _judge_own(claim: Claim, own: Sequence[Value], floor: Floor | None) -> LedgerRow:
    values = [value.value for value in own]
    if len(values) < MINIMUM_RUNS:
        return _no_interval(claim, median(values), {claim.variant: own}, len(own), floor)
    interval = inference.median_interval(values, SEED)
    verdict, reason = _judge_level(claim, interval.point, interval.low, interval.high, floor)
    return LedgerRow(claim, interval.point, interval.low, interval.high, len(own), verdict, reason, ids_of_runs(own))


def _judge_level(claim: Claim, point: float, low: float, high: float, floor: Floor | None) -> tuple[str, str]:
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
        reason += f"; but {_signed_text(point)} is within the {floor.percent:.1f} by which it differs from itself"
    return verdict, reason


def _judge_ratio(claim: Claim, own: Sequence[Value], other: Sequence[Value], floor: Floor | None) -> LedgerRow:
    top, bottom = [value.value for value in own], [value.value for value in other]
    runs = min(len(own), len(other))
    if min(bottom) <= 0.0:
        reason = f"{claim.baseline} has a run at 0: no ratio"
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, reason, ids_of_runs([*own, *other]))
    if _is_censored(own) and _is_censored(other):
        reason = _neither_converged(claim, own, other)
        return LedgerRow(claim, None, None, None, runs, NOT_RUN, reason, ids_of_runs([*own, *other]))
    point, bound = 100.0 * (median(top) / median(bottom) - 1.0), _bound(own, other)
    if runs < MINIMUM_RUNS:
        return _no_interval(claim, point, {claim.variant: own, str(claim.baseline): other}, runs, floor, bound)
    interval = inference.median_ratio_interval(top, bottom, SEED)
    # A median is a bound where half or more of its runs are: the interval is then open on that side.
    high = inf if _is_censored(own) else 100.0 * (interval.high - 1.0)
    low = -100.0 if _is_censored(other) else 100.0 * (interval.low - 1.0)
    verdict, reason = _compare(claim, point, low, high, floor)
    return LedgerRow(
        claim,
        point,
        low,
        high,
        runs,
        verdict,
        reason + _censoring_note(claim, own, other),
        ids_of_runs([*own, *other]),
        p_value=inference.mann_whitney(top, bottom),
        cliffs_delta=inference.cliffs_delta(top, bottom),
        bound=bound,
    )


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


def _judge_only(claim: Claim, measured: Conditions, floor: Floor | None) -> LedgerRow:
    """Interval of the variant; the reason ranks it among the others."""
    sides = {name: measured.of(claim, name) for name in (claim.variant, *claim.others)}
    levels = {name: median([value.value for value in values]) for name, values in sides.items()}
    runs = min(len(values) for values in sides.values())
    if runs < MINIMUM_RUNS:
        return _no_interval(claim, levels[claim.variant], sides, runs, floor)
    intervals = {name: inference.median_interval([v.value for v in values], SEED) for name, values in sides.items()}
    better = [name for name in sides if intervals[name].low > claim.stated and not _under(levels[name], floor)]
    ranking = ", ".join(
        f"{name} {_signed_text(level)}" for name, level in sorted(levels.items(), key=lambda pair: -pair[1])
    )
    own = intervals[claim.variant]
    verdict = REPRODUCED if better == [claim.variant] else DIFFERS
    return LedgerRow(
        claim, own.point, own.low, own.high, runs, verdict,
        f"above {claim.stated:g} and the A/A floor: {', '.join(better) or 'none'}; in order: {ranking}",
        ids_of_runs([value for values in sides.values() for value in values]),
    )  # fmt: skip


# --- words -----------------------------------------------------------------------------------------------------------


def _inside(claim: Claim, point: float, low: float, high: float, floor: Floor | None) -> tuple[str, str]:
    if low <= claim.stated <= high:
        return REPRODUCED, "the stated value lies inside the interval"
    if low <= claim.stated + claim.resolution and claim.stated - claim.resolution <= high:
        return REPRODUCED, f"the interval meets about {claim.stated:g} (within {claim.resolution:g})"
    return DIFFERS, _difference(claim.stated, point, floor)


def _beside_open(claim: Claim, low: float, high: float) -> tuple[str, str]:
    """Of an open interval without the stated value: only its known end can be compared."""
    if low - claim.resolution <= claim.stated <= high + claim.resolution:
        return REPRODUCED, f"the interval meets about {claim.stated:g} (within {claim.resolution:g})"
    end, way = (
        (f"at least {_signed_text(low)} %", "more") if high == inf else (f"at most {_signed_text(high)} %", "less")
    )
    return DIFFERS, f"{end}; how much {way} is not known"


def _difference(stated: float, point: float, floor: Floor | None) -> str:
    """In words: how a measured percentage differs from the stated one."""
    if floor is not None and _under(point, floor):
        own = f"the {floor.percent:.1f} % by which a variant differs from itself"
        return f"no difference: {_signed_text(point)} % is within {own}"
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
    bound: str | None = None,
) -> LedgerRow:
    """Every value is shown instead; a censored one is a lower bound."""
    values = "; ".join(
        f"{name} {', '.join(map(_value_text, values_of_side))}" for name, values_of_side in sides.items()
    )
    reason = f"{runs} run{'s' if runs > 1 else ''}: no interval ({MINIMUM_RUNS} of each variant are needed): {values}"
    everyone = ids_of_runs([value for values_of_side in sides.values() for value in values_of_side])
    row = LedgerRow(claim, point, None, None, runs, NOT_RUN, reason, everyone, bound=bound)
    way = direction(row, floor)
    words = {SAME: "the same direction", OPPOSITE: "the opposite direction", NONE: "no difference beyond the A/A floor"}
    note = words[way] if way else "" if row.sign_known else "the direction is not known, because a run never converged"
    return replace(row, reason=f"{reason}; {note}") if note else row


def _signed_text(percent: float) -> str:
    return number(percent, 1, signed=True)


def _value_text(value: Value) -> str:
    return f"{'> ' if value.censored else ''}{value.value:.4g}".replace("-", "−")


def bound_sign(row: LedgerRow) -> str:
    """What stands before a number that is only a bound."""
    return {AT_LEAST: "> ", AT_MOST: "< ", None: ""}[row.bound]


def _bound(own: Sequence[Value], other: Sequence[Value]) -> str | None:
    """A ratio with a horizon above is larger than the number, with one below smaller."""
    return AT_LEAST if _is_censored(own) else AT_MOST if _is_censored(other) else None


def _neither_converged(claim: Claim, own: Sequence[Value], other: Sequence[Value]) -> str:
    """Two horizons say how long the runs were watched, and nothing about their ratio."""
    horizons = sorted({round(value.value) for value in (*own, *other) if value.censored})
    within = f"within {' to '.join(f'{end}' for end in dict.fromkeys((horizons[0], horizons[-1])))} s"
    if all(value.censored for value in (*own, *other)):
        return f"neither converged {within}"
    return f"too few runs converged {within}{_censoring_note(claim, own, other)}"


def _censoring_note(claim: Claim, own: Sequence[Value], other: Sequence[Value]) -> str:
    censored = sum(value.censored for value in own), sum(value.censored for value in other)
    if not any(censored):
        return ""
    return (
        f"; never converged (taken at the horizon): {censored[0]} of {len(own)} {claim.variant}, "
        f"{censored[1]} of {len(other)} {claim.baseline}"
    )


def _is_censored(values: Sequence[Value]) -> bool:
    return 2 * sum(value.censored for value in values) >= len(values)
