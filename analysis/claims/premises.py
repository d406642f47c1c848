"""What the runs that are judged say of that which feasibility.py takes for granted: how long a baseline
of times takes, and that what waits gets a core when it wakes. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from analysis.claims import estimates, feasibility
from analysis.claims.estimates import BaselineTime, Times
from analysis.claims.ledger_rows import Conditions, Value, series_lengths
from analysis.claims.statements import Claim
from analysis.metrics.definitions import quantum
from analysis.numerals import extent

MOST_CPU_PERCENT = 80.0  # of its limit, that the busiest machine may use in the mean of a part of a run
# That one was chosen after values had been seen, so a row says where one of these would give another verdict.
OTHER_LIMITS = (75.0, 90.0)
# A ratio of levels after the event does not depend on the levels before.
PHASES = {"throughput_after": ("after",), "gain_percent": ("before", "after")}


def baseline_time(claim: Claim, measured: Conditions) -> BaselineTime | None:
    """Of the blocks that are compared; None of other claims than ratios of times, and of fewer than three blocks."""
    noise_s = feasibility.noise_s(claim)
    own, other = (
        {value.block: value for value in measured.of(claim, name)} for name in (claim.variant, claim.baseline)
    )
    blocks = sorted(own.keys() & other.keys())
    if noise_s <= 0.0 or not blocks:
        return None
    sides = [[side[block] for block in blocks] for side in (own, other)]
    variant, baseline = map(times_of, sides)
    return estimates.baseline_time(variant, baseline, noise_s, quantum(claim.metric), series_lengths(sides[1]))


def times_of(values: Sequence[Value]) -> Times:
    return Times(tuple(value.value for value in values), tuple(value.censored for value in values))


def shortage_note(claim: Claim, measured: Conditions, limit_percent: float = MOST_CPU_PERCENT) -> str:
    """Of a claim that the closed form bounds: in which of its runs a machine used so much of its CPU that the closed
    form does not hold. Empty where none did, and where nobody measured it."""
    experiments, phases = measured.experiments.get(claim.experiment, ()), PHASES.get(claim.metric, ())
    if not phases or claim.stated_over or not any(feasibility.attainable(claim, each) for each in experiments):
        return ""
    runs = sorted({value.run_id for name in claim.variants for value in measured.of(claim, name)})
    used = [_busiest(claim, measured, phase) for phase in phases]
    most = {run: max(known) for run in runs if (known := [of[run] for of in used if run in of])}
    short = {run: percent for run, percent in most.items() if percent > limit_percent}
    if not short:
        return ""
    which = "" if len(short) == len(runs) else f" ({', '.join(short)})"
    unknown = "" if len(most) == len(runs) else f"; of {len(runs) - len(most)} more nobody measured it"
    return (
        f"short of CPU: the busiest machine used {extent(round(each) for each in short.values())} % of its limit"
        f" {' or '.join(phases)} the event (cpu_percent x cpu_imbalance) in {len(short)} of {len(most)} runs{which}"
        f"{unknown},"
        f" and above {limit_percent:.0f} % the closed form does not hold: the numbers are not the policies' alone"
    )


def _busiest(claim: Claim, measured: Conditions, phase: str) -> dict[str, float]:
    """By run, in percent; of records that have no busiest machine the mean, which is less."""
    mean, over = (
        {
            value.run_id: value.value
            for name in claim.variants
            for value in measured.of(replace(claim, metric=f"{metric}_{phase}"), name)
        }
        for metric in ("cpu_percent", "cpu_imbalance")
    )
    return {run: percent * over.get(run, 1.0) for run, percent in mean.items()}
