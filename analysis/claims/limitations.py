"""What an experiment cannot show of a claim, or only weakly: `barograph check` says it beforehand, the ledger beside a
verdict. Pure.

A claim cannot come out where its number cannot lie in its region, by what is known before a run, and of times by what
the baseline took. Rates over a time that is not watched have no number at all. Beside that there are two bounds. Of a
time of convergence: on a series that is level from the start, without any event, the definition takes as long as noise
makes it; none takes longer than the watch. Of throughput: the closed form of components that wait (assumptions.py),
with CPU enough; of components that burn CPU it says nothing, because they compete for cores and can both lose and win
by where they are placed. Times at zero have no bound: a variant without any is 100 % below whatever the other has. What
sources emit has none either, but where they are paced it is what they are offered, unless a variant is saturated: where
that is not what is stated, nothing else than saturation can make it come out.

An experiment that is None was not recorded, as of logs of others: only runs bound numbers there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt

import numpy as np

from analysis.claims.assumptions import (  # fmt: skip
    BaselineTime,
    Levels,
    definition_of,
    levels_of,
    noise_s,
    offered_per_s,
    times_without_event,
    watch_s,
)
from analysis.claims.ledger_rows import BLOCKS_OF_A_VERDICT, Conditions, percent_over
from analysis.claims.statements import RATIOS, Claim, Kind
from analysis.metrics.communication_costs import PUBLISHED_S
from analysis.metrics.definitions import CONVERGENCE
from analysis.numerals import extent, signed_percent
from analysis.stats import paired_differences
from analysis.stats.effect import Interval
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from barograph.plan.experiment import Experiment

PUBLISHED = "published_"  # what the names of rates as MP counts them begin with
EMITTED = ("published_emitted_per_s", "spouts_after")  # rates of what sources emit
SLACK_S = 2.0  # of a watch: its last window is whole where lines go on a second longer
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Attainable:
    """Where the number of a claim can lie, in percent, and `why`, in words. Of times of convergence: `soonest_s`, the
    shortest that one can be, `baseline_s`, the shortest that the baseline's can be, and `baseline`, its name where its
    runs bound it."""

    region: Interval
    why: str
    soonest_s: float | None = None
    baseline_s: float | None = None
    baseline: str | None = None

    @property
    def is_point(self) -> bool:
        return self.region.high - self.region.low <= TOLERANCE

    def reaches(self, region: Interval) -> bool:
        """Return whether an interval around a number here could lie in the region: to touch its edge is not enough."""
        low, high = self.region.low, self.region.high
        if self.is_point:
            return region.low <= low + TOLERANCE and high - TOLERANCE <= region.high
        return low + TOLERANCE < region.high and region.low < high - TOLERANCE

    def needs(self, region: Interval) -> str:
        """Return what would have to be otherwise for it to reach the region: its nearer end."""
        if self.soonest_s is None or self.baseline_s is None:
            busy = "costs that compete for a core (cost_model busy), which need not suffice"
            return busy if self.is_point else f"{busy}, or other costs"
        shorter, longer = 1.0 + region.high / 100.0, 1.0 + max(region.low, 0.0) / 100.0
        if shorter <= 0.0:
            return "a definition that a time of 0 meets"
        slow_s = self.soonest_s / shorter
        if self.baseline is not None and region.high <= self.region.low + TOLERANCE:
            return f"{self.baseline} taking more than {slow_s:.0f} s in a watch as long, or another way to count"
        return f"a watch of more than {max(slow_s, self.baseline_s * longer):.0f} s"

    def out_of_reach(self, region: Interval) -> str:
        return f"{self.why}; the claim needs {region_text(region)}. Needed: {self.needs(region)}"

    def is_within(self, region: Interval) -> bool:
        return region.low < self.region.low and self.region.high < region.high


def reason_not_testable(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None = None) -> str | None:
    """Why a claim about runs cannot come out in this experiment, and what would be needed; None: it can, for all that
    is known. `taken`: of a ratio of times, by its runs."""
    if claim.stated_over:
        return f"{signed_percent(claim.stated)} % is stated of {claim.stated_over}, and of none of them alone"
    if short := _too_short(claim, experiment):
        return short
    percent = paced_percent(claim, experiment) if claim.is_one_number else None
    if percent is not None and not claim.region.low < percent < claim.region.high:
        return f"{paced_words(claim, percent)}; the claim needs {region_text(claim.region)}"
    found = attainable(claim, experiment)
    if taken is not None and (found is None or found.reaches(claim.region)):
        found = attainable(claim, experiment, taken)
    if found is None or found.reaches(claim.region):
        return None
    return found.out_of_reach(claim.region)


def _too_short(claim: Claim, experiment: Experiment | None) -> str | None:
    """Rates as MP counts them are of a fixed time after the event; of a shorter watch there are none."""
    if not claim.metric.startswith(PUBLISHED):
        return None
    longest_s = watch_s(claim, experiment)[1]
    if longest_s >= PUBLISHED_S + SLACK_S:
        return None
    return (
        f"{claim.metric} is of {PUBLISHED_S:g} s after the event, and the watch ends after {longest_s:g} s. Needed:"
        f" after_floor_s and horizon_s of {PUBLISHED_S + SLACK_S:g} or more"
    )


def reason_derived(
    claim: Claim,
    members: Sequence[Claim],
    experiments: Mapping[str, Sequence[Experiment]],
    taken: Mapping[str, BaselineTime] | None = None,
    unbounded: Collection[str] = (),
) -> str | None:
    """Return the same of a claim that follows from others, `members`; `experiments`: by name, what was run of each;
    `taken`: by member. Nothing bounds the members in `unbounded`. A span cannot come out where one of the numbers
    cannot lie in it, a lowest number where none can, or where one must lie below it.

    What counts is where a member's number can lie, not whether the member's own claim is testable: of 20 to 120 % one
    of at most 37 % may well be a part, where the paper states 125 %.
    """
    found = {
        member.name: None
        if member.name in unbounded
        else _widest(member, experiments.get(member.experiment, ()), (taken or {}).get(member.name))
        for member in members
    }
    known = {name: each for name, each in found.items() if each is not None}
    region = claim.region
    outside = {name: each for name, each in known.items() if not each.reaches(region)}
    below = {name: each for name, each in outside.items() if each.region.high <= region.low}
    all_outside = outside if len(outside) == len(members) else {}
    against = outside if claim.kind is Kind.SPAN else below or all_outside
    if not against:
        return None
    name = min(against, key=lambda each: against[each].region.low)
    others = [each for each in against if each != name]
    nor = f" (nor can {', '.join(others)})" if others else ""
    return f"{name} cannot lie there{nor}: {against[name].out_of_reach(region)}"


def _widest(claim: Claim, experiments: Sequence[Experiment], taken: BaselineTime | None) -> Attainable | None:
    """Return the bounds of all that was run: None where there is no bound in one of them, or nothing was run."""
    found = [attainable(claim, experiment, taken) for experiment in experiments]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    low, high = min(each.region.low for each in known), max(each.region.high for each in known)
    widest = max(known, key=lambda each: each.region.high - each.region.low)
    return replace(widest, region=Interval(low, high))


def attainable(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None = None) -> Attainable | None:
    """Return where the claim's number can lie in this experiment; None where nothing bounds it."""
    if not claim.is_one_number:
        return None
    if claim.metric.startswith(CONVERGENCE):
        return _attainable_times(claim, experiment, taken)
    if experiment is not None and claim.kind in RATIOS and claim.metric == "throughput_after":
        return _attainable_ratio(claim, experiment)
    if experiment is not None and claim.kind not in RATIOS and claim.metric == "gain_percent":
        return _attainable_gain(claim, experiment)
    return None


def _attainable_times(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None) -> Attainable | None:
    """Medians lie between the time that noise takes and the horizon; a shorter watch can only show two alike. Of runs
    the baseline's lies within its interval."""
    horizon_s, soonest_s = watch_s(claim, experiment)[1], noise_s(claim)
    if soonest_s <= 0.0 or (horizon_s == inf and (taken is None or taken.high_s == inf)):
        return None
    longest_s = max(horizon_s, soonest_s)
    if taken is not None:
        return _attainable_over(str(claim.baseline), taken, soonest_s, longest_s)
    region = Interval(percent_over(soonest_s, longest_s), percent_over(longest_s, soonest_s))
    why = (
        f"ratios of times can be seen to be {_range_text(region)} here: without any event the median is"
        f" {soonest_s:.0f} s, and the watch ends after {horizon_s:g} s"
    )
    return Attainable(region, why, soonest_s, soonest_s)


def _attainable_over(baseline: str, taken: BaselineTime, noise_s: float, longest_s: float) -> Attainable:
    """Over a baseline that ran."""
    high_s = min(taken.high_s, longest_s)
    low_s = min(max(taken.low_s, taken.least_s), high_s)
    region = Interval(percent_over(taken.least_s, high_s), percent_over(longest_s, low_s))
    between = f"{extent((round(low_s), round(high_s)))} s"
    took = between if taken.about_s is None else f"about {taken.about_s:.0f} s ({between})"
    here = f", here {taken.least_s:.0f} s" if taken.least_s < noise_s - TOLERANCE else ""
    more = "" if region.high == inf else f" and no increase beyond {signed_percent(region.high)} %"
    why = (
        f"{baseline} took {took}, and without any event the median is {noise_s:.0f} s{here}: no reduction beyond"
        f" {signed_percent(region.low)} %{more} can be seen"
    )
    return Attainable(region, why, taken.least_s, low_s, baseline)


# --- throughput ------------------------------------------------------------------------------------------------------


def _attainable_gain(claim: Claim, experiment: Experiment) -> Attainable | None:
    levels = levels_of(claim, experiment, claim.variant)
    if levels is None:
        return None
    region = Interval(0.0, levels.gain)
    return Attainable(region, f"{claim.variant} can gain {_range_text(region)} here: {_because(levels)}")


def _attainable_ratio(claim: Claim, experiment: Experiment) -> Attainable | None:
    top, bottom = (levels_of(claim, experiment, str(name)) for name in (claim.variant, claim.baseline))
    if top is None or bottom is None:
        return None
    region = Interval(percent_over(top.before, bottom.most), percent_over(top.most, bottom.before))
    more = max(top, bottom, key=lambda levels: levels.slots)
    return Attainable(
        region, f"{claim.variant} over {claim.baseline} can be {_range_text(region)} here: {_because(more)}"
    )


def _because(levels: Levels) -> str:
    waiting = "components wait (cost_model sleep): with CPU enough, placement changes nothing"
    if not levels.slots:
        return f"no executor is added, and {waiting}"
    if levels.is_bound:
        return (
            f"{levels.slots} executors are added, and {waiting}; it is at most that, as if each component got them all"
        )
    return f"{levels.slots} executors are added, and {waiting}, and no distribution gives more"


# --- what sources emit -----------------------------------------------------------------------------------------------


def paced_percent(claim: Claim, experiment: Experiment | None) -> float | None:
    """Return a ratio of what sources emit, where those of both variants are paced."""
    if experiment is None or claim.metric not in EMITTED or claim.kind not in RATIOS:
        return None
    own, other = (offered_per_s(experiment, str(name)) for name in (claim.variant, claim.baseline))
    return percent_over(own, other) if own and other else None


def paced_words(claim: Claim, percent: float) -> str:
    return (
        f"the offered rate is fixed: {claim.variant} over {claim.baseline} is {signed_percent(percent)} % unless one of"
        " them is saturated, or has not made up for its restarts when the time is over"
    )


# --- words -----------------------------------------------------------------------------------------------------------


def _range_text(region: Interval) -> str:
    if region.high - region.low <= TOLERANCE:
        return f"{signed_percent(region.low)} %"
    return f"{signed_percent(region.low)} to {signed_percent(region.high)} %"


def region_text(region: Interval) -> str:
    if region.low == -inf:
        return f"less than {signed_percent(region.high)} %"
    if region.high == inf:
        return f"more than {signed_percent(region.low)} %"
    return f"{signed_percent(region.low)} to {signed_percent(region.high)} %"


# --- CPU that the closed form takes for granted ----------------------------------------------------------------------

MOST_CPU_PERCENT = 80.0  # of its limit, that the busiest machine may use in the mean of a part of a run
# That one was chosen after values had been seen, so a row says where one of these would give another verdict.
OTHER_LIMITS = (75.0, 90.0)
# A ratio of levels after the event does not depend on the levels before.
PHASES = {"throughput_after": ("after",), "gain_percent": ("before", "after")}


def shortage_note(claim: Claim, measured: Conditions, limit_percent: float = MOST_CPU_PERCENT) -> str:
    """Of a claim that the closed form bounds: in which of its runs a machine used so much of its CPU that the closed
    form does not hold. Empty where none did, and where nobody measured it."""
    experiments, phases = measured.experiments.get(claim.experiment, ()), PHASES.get(claim.metric, ())
    if not phases or claim.stated_over or not any(attainable(claim, each) for each in experiments):
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


# --- what can come out, and says little ------------------------------------------------------------------------------


def weaknesses(claim: Claim, experiment: Experiment) -> tuple[str, ...]:
    """Return what keeps this experiment from saying much about a claim that can come out in it; of claims that follow
    from others too."""
    if claim.within is None:
        return ()
    few, blocks = "", experiment.repetitions
    if blocks < BLOCKS_OF_A_VERDICT:
        outcome = "no interval" if blocks < MINIMUM_BLOCKS else "an indication at most"
        few = f"{blocks} block{'' if blocks == 1 else 's'}: {outcome}; a verdict needs {BLOCKS_OF_A_VERDICT}"
    lasting = _lasting_weaknesses(claim, experiment)
    return tuple(filter(None, (few, lasting[0], _slow_baseline(claim), *lasting[1:])))


def lasting_weaknesses(claim: Claim, experiment: Experiment, blocks: int) -> tuple[str, ...]:
    """Return those that a row of so many blocks has as well. That they are few it says itself, and its runs say how
    long its baseline takes."""
    if claim.within is None:
        return ()
    return tuple(filter(None, _lasting_weaknesses(claim, replace(experiment, repetitions=blocks))))


def _lasting_weaknesses(claim: Claim, experiment: Experiment) -> tuple[str, ...]:
    found, paced = attainable(claim, experiment), paced_percent(claim, experiment)
    certain = f"by the closed form it cannot fail: {found.why}" if found and found.is_within(claim.region) else ""
    unless_saturated = ""  # of what sources emit on a schedule, whatever a placement is worth
    if paced is not None and claim.region.low < paced < claim.region.high:
        unless_saturated = f"{paced_words(claim, paced)}; otherwise it cannot fail"
    others = (_early_end(claim, experiment), certain, unless_saturated, _rule_outside(claim, experiment))
    return _scattered(claim, experiment), *others


def _scattered(claim: Claim, experiment: Experiment) -> str:
    """Return what noise alone makes of a time that is stated to a number, in a series that is level throughout."""
    region = claim.region
    is_time = claim.metric.startswith(CONVERGENCE) and claim.is_one_number
    if not is_time or region.low <= -100.0 or region.high == inf:
        return ""
    times = np.asarray(times_without_event(definition_of(claim)))
    if not 0.0 < times.min() <= times.max() < inf:
        return ""
    scatter = float(np.log(times).std())
    room = log((1.0 + region.high / 100.0) / (1.0 + region.low / 100.0)) / 2.0
    blocks = paired_differences.blocks_to_exclude(sqrt(2.0) * scatter, room)
    if blocks is not None and blocks <= experiment.repetitions:
        return ""
    number = "no number of blocks" if blocks is None else f"about {blocks} blocks"
    return (
        f"noise alone scatters such times by {100.0 * scatter:.0f} %: {number} would show that they are"
        f" as stated; {experiment.repetitions} can show that they are not"
    )


def _slow_baseline(claim: Claim) -> str:
    """Return how long the baseline of a reduction of times has to take, which no experiment says beforehand."""
    soonest_s, left = noise_s(claim), 1.0 + claim.region.high / 100.0
    if soonest_s <= 0.0 or not 0.0 < left < 1.0:
        return ""
    return (
        f"not testable where {claim.baseline} takes less than {soonest_s / left:.0f} s: without any event the median is"
        f" {soonest_s:.0f} s"
    )


def _early_end(claim: Claim, experiment: Experiment) -> str:
    floor_s, horizon_s = watch_s(claim, experiment)
    if claim.metric.startswith(PUBLISHED) and floor_s < PUBLISHED_S + SLACK_S <= horizon_s:
        return f"the watch may end after {floor_s:g} s, and what is published is of {PUBLISHED_S:g} s"
    if not claim.metric.startswith(CONVERGENCE) or floor_s >= horizon_s:
        return ""
    return (
        f"the watch ends when our own test says steady, after {floor_s:g} to {horizon_s:g} s, which cuts off times of"
        " convergence: set after_floor_s to horizon_s"
    )


def _rule_outside(claim: Claim, experiment: Experiment) -> str:
    """Return what happens may differ from Stela's rule where a component is hardly congested."""
    found, percent = attainable(claim, experiment), _rule_percent(claim, experiment)
    if percent is None or (found is not None and not found.reaches(claim.region)):
        return ""
    if claim.region.low < percent - TOLERANCE and percent + TOLERANCE < claim.region.high:
        return ""
    return (
        f"by the closed form Stela's own rule gives {signed_percent(percent)} % here, and the claim needs"
        f" {region_text(claim.region)}"
    )


def _rule_percent(claim: Claim, experiment: Experiment) -> float | None:
    """What Stela's rule makes of a claim's number by the closed form, without noise in the rates; None where it is of
    another policy or number."""
    if claim.metric not in ("throughput_after", "gain_percent") or not claim.is_one_number:
        return None
    levels = levels_of(claim, experiment, claim.variant)
    other = levels_of(claim, experiment, claim.baseline) if claim.baseline else levels
    if levels is None or levels.stela is None or other is None:
        return None
    return percent_over(levels.stela, other.before)


def possible_words(claim: Claim, experiment: Experiment) -> str:
    """Where a claim's number can lie in this experiment, and what Stela's rule makes of it, or what a schedule does;
    empty where nothing bounds it."""
    if (paced := paced_percent(claim, experiment)) is not None:
        return paced_words(claim, paced)
    found = attainable(claim, experiment)
    if found is None:
        return ""
    percent = _rule_percent(claim, experiment)
    rule = "" if percent is None else f"; by the closed form Stela's rule gives {signed_percent(percent)} %"
    return f"{found.why if found.reaches(claim.region) else found.out_of_reach(claim.region)}{rule}"


def notes(claims: Sequence[Claim], experiment: Experiment) -> tuple[str, ...]:
    """What an experiment cannot show, or only weakly, of its own claims, among all of a family; alike ones together.
    Last comes what the source's own numbers of these claims say against claims that follow from them."""
    by_name = {claim.name: claim for claim in claims}
    found: dict[str, list[str]] = {}
    own = {
        claim.name: claim for claim in claims if claim.experiment == experiment.name and claim.id in experiment.claims
    }
    for name, claim in own.items():
        members = [by_name[member] for member in claim.of]
        run = {member.experiment: [experiment] for member in members if member.experiment == claim.experiment}
        why = reason_derived(claim, members, run) if members else reason_not_testable(claim, experiment)
        for said in (f"not testable here: {why}",) if why else weaknesses(claim, experiment):
            found.setdefault(said, []).append(name)
    for claim in claims:
        misfits = {name: percent for name, percent in _misfits(claim, claims).items() if name in own}
        if said := _own_numbers_text(claim, misfits):
            found.setdefault(said, []).append(claim.name)
    return tuple(f"{', '.join(names)}: {said}" for said, names in found.items())


# --- the source's own numbers ----------------------------------------------------------------------------------------


def own_numbers_note(claim: Claim, claims: Iterable[Claim]) -> str:
    """Where the source's own numbers do not lie inside the region of a claim that follows from others, so that runs
    exactly as stated would not reproduce it; empty where they do. `claims`: at least those of its family."""
    return _own_numbers_text(claim, _misfits(claim, tuple(claims)))


def _own_numbers_text(claim: Claim, misfits: Mapping[str, float]) -> str:
    region = claim.region
    outside = {
        name: percent
        for name, percent in misfits.items()
        if percent < region.low - TOLERANCE or region.high + TOLERANCE < percent
    }
    where, outcome = ("outside", "rule it out") if outside else ("on the edge of", "mostly leave it undecided")
    stated = ", ".join(f"{name} is {signed_percent(percent)} %" for name, percent in (outside or misfits).items())
    needed = f"{where} {region_text(region)}: runs exactly as stated would {outcome}"
    return f"by the source's own numbers {stated}, {needed}" if misfits else ""


def _misfits(claim: Claim, claims: Sequence[Claim]) -> dict[str, float]:
    """The stated numbers of its members that lie outside its region or on an edge; of a lowest number only that one."""
    stated = {
        each.name: percent
        for each in claims
        if each.name in claim.of and (percent := _stated_percent(each, claims)) is not None
    }
    if stated and claim.kind is Kind.LOWEST:
        lowest = min(stated, key=lambda name: stated[name])
        stated = {lowest: stated[lowest]}
    low, high = claim.region.low, claim.region.high
    return {name: percent for name, percent in stated.items() if min(percent - low, high - percent) <= TOLERANCE}


def _stated_percent(claim: Claim, claims: Sequence[Claim]) -> float | None:
    """Return what the source says the claim's number is. Of a ratio that it only calls higher: what follows from both
    variants' own gains, for both begin alike."""
    if claim.kind in (Kind.RATIO, Kind.OWN):
        return claim.stated
    gains = {
        each.variant: each.stated
        for each in claims
        if (each.experiment, each.event, each.metric) == (claim.experiment, claim.event, "gain_percent")
        and each.kind in (Kind.OWN, Kind.OWN_AT_LEAST)
    }
    own, other = gains.get(claim.variant), gains.get(str(claim.baseline))
    if claim.metric != "throughput_after" or own is None or other is None or other <= -100.0:
        return None
    return percent_over(100.0 + own, 100.0 + other)
