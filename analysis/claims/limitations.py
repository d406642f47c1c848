"""Results that an experiment cannot show for a claim, or only weakly: `barograph check` names them beforehand, the
ledger beside a verdict. Pure.

A claim cannot come out if its number cannot lie in its region, by what is known before a run, and for times by the
baseline's times. Rates over a time that is not watched have no number at all. Beside that there are two bounds. For a
time of convergence: on a series that is level from the start, without any event, the definition takes as long as noise
makes it; none takes longer than the watch. For throughput: the closed form of components that wait (assumptions.py),
with CPU enough; it does not apply to components that burn CPU, because they compete for cores and can both lose and win
by their placement. Times at zero have no bound: a variant without any is 100 % below the other, whatever that has. The
output of sources has none either, but if they are paced it is their offer, unless a variant is saturated: if that
differs from the statement, only saturation can make it come out.

An experiment that is None was not recorded, for example in logs of others: only runs bound numbers there.
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
from analysis.claims.rows import BLOCKS_OF_A_VERDICT, SeriesConditions, percent_over
from analysis.claims.statements import RATIOS, Claim, ClaimKind
from analysis.metrics.communication_costs import PUBLISHED_S
from analysis.metrics.definitions import CONVERGENCE
from analysis.numerals import extent, signed_percent
from analysis.stats import paired_differences
from analysis.stats.effect import Interval
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from barograph.plan.experiment import Experiment

PUBLISHED = "published_"  # the prefix of rates as MP counts them
EMITTED = ("published_emitted_per_s", "spouts_after")  # rates of the sources' output
SLACK_S = 2.0  # of a watch: its last window is whole if lines go on a second longer
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Attainable:
    """The possible region of a claim's number, in percent, and `why`, in words. For times of convergence: `soonest_s`,
    the shortest possible one, `baseline_s`, the shortest possible one of the baseline, and `baseline`, its name if its
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
        """Return the conditions for reaching the region's nearer end."""
        if self.soonest_s is None or self.baseline_s is None:
            costs = "costs that compete for a core (cost_model busy), which need not suffice"
            return costs if self.is_point else f"{costs}, or other costs"
        shorter, factor = 1.0 + region.high / 100.0, 1.0 + max(region.low, 0.0) / 100.0
        if shorter <= 0.0:
            return "a definition that a time of 0 meets"
        slow_s = self.soonest_s / shorter
        if self.baseline is not None and region.high <= self.region.low + TOLERANCE:
            return f"{self.baseline} taking more than {slow_s:.0f} s in a watch as long, or another way to count"
        return f"a watch of more than {max(slow_s, self.baseline_s * factor):.0f} s"

    def out_of_reach(self, region: Interval) -> str:
        return f"{self.why}; the claim needs {region_text(region)}. Needed: {self.needs(region)}"

    def is_within(self, region: Interval) -> bool:
        return region.low < self.region.low and self.region.high < region.high


def reason_not_testable(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None = None) -> str | None:
    """Return why a claim about runs cannot come out in this experiment, and what would be needed; None if it can, as
    far as is known. `taken`: for a ratio of times, from its runs."""
    if claim.stated_over:
        return f"{signed_percent(claim.stated)} % is stated of {claim.stated_over}, and of none of them alone"
    longest_s, needed_s = watch_s(claim, experiment)[1], PUBLISHED_S + SLACK_S
    if claim.metric.startswith(PUBLISHED) and longest_s < needed_s:
        return (
            f"{claim.metric} is of {PUBLISHED_S:g} s after the event, and the watch ends after {longest_s:g} s. Needed:"
            f" after_floor_s and horizon_s of {needed_s:g} or more"
        )
    percent = paced_percent(claim, experiment) if claim.is_one_number else None
    if percent is not None and not claim.region.low < percent < claim.region.high:
        return f"{paced_words(claim, percent)}; the claim needs {region_text(claim.region)}"
    bounds = attainable(claim, experiment)
    if taken is not None and (bounds is None or bounds.reaches(claim.region)):
        bounds = attainable(claim, experiment, taken)
    return None if bounds is None or bounds.reaches(claim.region) else bounds.out_of_reach(claim.region)


def reason_derived(
    claim: Claim,
    members: Sequence[Claim],
    experiments: Mapping[str, Sequence[Experiment]],
    taken: Mapping[str, BaselineTime] | None = None,
    unbounded: Collection[str] = (),
) -> str | None:
    """Return the same for a claim that follows from others, `members`; `experiments`: by name, all specifications of
    each; `taken`: by member. The members in `unbounded` have no bounds. A span cannot come out if one of the numbers
    cannot lie in it, a lowest number if none can, or if one must lie below it.

    The possible place of a member's number counts, not whether the member's own claim is testable: for 20 to 120 % one
    of at most 37 % may well be a part, although the paper states 125 %.
    """
    region, unreachable = claim.region, {}
    for member in members:
        times = (taken or {}).get(member.name)
        every = [attainable(member, each, times) for each in experiments.get(member.experiment, ())]
        bounds = [each for each in every if each is not None]
        if member.name in unbounded or not bounds or len(bounds) < len(every):
            continue  # no bound in one of them, or no run
        whole = Interval(min(each.region.low for each in bounds), max(each.region.high for each in bounds))
        widest = replace(max(bounds, key=lambda each: each.region.high - each.region.low), region=whole)
        if not widest.reaches(region):
            unreachable[member.name] = widest
    lower = {name: each for name, each in unreachable.items() if each.region.high <= region.low}
    all_outside = unreachable if len(unreachable) == len(members) else {}
    against = unreachable if claim.kind is ClaimKind.SPAN else lower or all_outside
    if not against:
        return None
    name = min(against, key=lambda each: against[each].region.low)
    rest = [each for each in against if each != name]
    addition = f" (nor can {', '.join(rest)})" if rest else ""
    return f"{name} cannot lie there{addition}: {against[name].out_of_reach(region)}"


def attainable(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None = None) -> Attainable | None:
    """Return where the claim's number can lie in this experiment; None without bounds."""
    if not claim.is_one_number:
        return None
    if claim.metric.startswith(CONVERGENCE):
        return _attainable_times(claim, experiment, taken)
    is_ratio = claim.kind in RATIOS
    if experiment is None or claim.metric != ("throughput_after" if is_ratio else "gain_percent"):
        return None
    top = levels_of(claim, experiment, claim.variant)
    bottom = levels_of(claim, experiment, str(claim.baseline)) if is_ratio else top
    if top is None or bottom is None:
        return None
    if not is_ratio:
        region = Interval(0.0, percent_over(top.most, top.before))
        return Attainable(region, f"{claim.variant} can gain {_range_text(region)} here: {_because(top)}")
    region = Interval(percent_over(top.before, bottom.most), percent_over(top.most, bottom.before))
    larger_levels = max(top, bottom, key=lambda levels: levels.slots)
    return Attainable(
        region, f"{claim.variant} over {claim.baseline} can be {_range_text(region)} here: {_because(larger_levels)}"
    )


def _attainable_times(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None) -> Attainable | None:
    """Return bounds of times: medians lie between the time of noise and the horizon; a shorter watch can only show
    equal ones. With runs the baseline's lies within its interval."""
    horizon_s, soonest_s = watch_s(claim, experiment)[1], noise_s(claim)
    if soonest_s <= 0.0 or (horizon_s == inf and (taken is None or taken.high_s == inf)):
        return None
    longest_s = max(horizon_s, soonest_s)
    if taken is None:
        region = Interval(percent_over(soonest_s, longest_s), percent_over(longest_s, soonest_s))
        reason = (
            f"ratios of times can be seen to be {_range_text(region)} here: without any event the median is"
            f" {soonest_s:.0f} s, and the watch ends after {horizon_s:g} s"
        )
        return Attainable(region, reason, soonest_s, soonest_s)
    high_s = min(taken.high_s, longest_s)
    low_s = min(max(taken.low_s, taken.least_s), high_s)
    region = Interval(percent_over(taken.least_s, high_s), percent_over(longest_s, low_s))
    between = f"{extent((round(low_s), round(high_s)))} s"
    span = between if taken.about_s is None else f"about {taken.about_s:.0f} s ({between})"
    note = f", here {taken.least_s:.0f} s" if taken.least_s < soonest_s - TOLERANCE else ""
    limit = "" if region.high == inf else f" and no increase beyond {signed_percent(region.high)} %"
    reason = (
        f"{claim.baseline} took {span}, and without any event the median is {soonest_s:.0f} s{note}: no reduction"
        f" beyond {signed_percent(region.low)} %{limit} can be seen"
    )
    return Attainable(region, reason, taken.least_s, low_s, str(claim.baseline))


# --- throughput ------------------------------------------------------------------------------------------------------


def _because(levels: Levels) -> str:
    reason = "components wait (cost_model sleep): with CPU enough, placement changes nothing"
    if not levels.slots:
        return f"no executor is added, and {reason}"
    if levels.is_bound:
        return (
            f"{levels.slots} executors are added, and {reason}; it is at most that, as if each component got them all"
        )
    return f"{levels.slots} executors are added, and {reason}, and no distribution gives more"


# --- what sources emit -----------------------------------------------------------------------------------------------


def paced_percent(claim: Claim, experiment: Experiment | None) -> float | None:
    """Return a ratio of the sources' output if the sources of both variants are paced."""
    if experiment is None or claim.metric not in EMITTED or claim.kind not in RATIOS:
        return None
    variant_rate, other = (offered_per_s(experiment, str(name)) for name in (claim.variant, claim.baseline))
    return percent_over(variant_rate, other) if variant_rate and other else None


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

MOST_CPU_PERCENT = 80.0  # of its limit, mean use of the busiest machine over a part of a run
# It was chosen after values had been seen, so a row says if one of these would give another verdict.
OTHER_LIMITS = (75.0, 90.0)
# A ratio of levels after the event does not depend on the levels before.
PHASES = {"throughput_after": ("after",), "gain_percent": ("before", "after")}


def shortage_note(claim: Claim, measured: SeriesConditions, limit_percent: float = MOST_CPU_PERCENT) -> str:
    """Return for a claim with a closed-form bound in which of its runs a machine used so much of its CPU that the
    closed form does not apply. Empty if there was none, and if CPU was not measured."""
    experiments, phases = measured.experiments.get(claim.experiment, ()), PHASES.get(claim.metric, ())
    if not phases or claim.stated_over or not any(attainable(claim, each) for each in experiments):
        return ""
    runs = sorted({value.run_id for name in claim.variants for value in measured.of(claim, name)})
    highest: dict[str, float] = {}
    for phase in phases:
        mean, imbalance = (
            {
                value.run_id: value.value
                for name in claim.variants
                for value in measured.of(replace(claim, metric=f"{metric}_{phase}"), name)
            }
            for metric in ("cpu_percent", "cpu_imbalance")
        )
        for run in filter(mean.__contains__, runs):  # for records without an imbalance the mean, which is less
            highest[run] = max(highest.get(run, -inf), mean[run] * imbalance.get(run, 1.0))
    excess = {run: percent for run, percent in highest.items() if percent > limit_percent}
    if not excess:
        return ""
    ids = "" if len(excess) == len(runs) else f" ({', '.join(excess)})"
    gap = "" if len(highest) == len(runs) else f"; of {len(runs) - len(highest)} more nobody measured it"
    return (
        f"short of CPU: the busiest machine used {extent(round(each) for each in excess.values())} % of its limit"
        f" {' or '.join(phases)} the event (cpu_percent x cpu_imbalance) in {len(excess)} of {len(highest)} runs{ids}"
        f"{gap},"
        f" and above {limit_percent:.0f} % the closed form does not hold: the numbers are not the policies' alone"
    )


# --- what can come out, and says little ------------------------------------------------------------------------------


def weaknesses(claim: Claim, experiment: Experiment, measured_blocks: int | None = None) -> tuple[str, ...]:
    """Return the reasons why a result of this experiment says little about a claim that can come out in it, also for
    claims that follow from others. `measured_blocks`: for a row of so many blocks, which says itself that they are few,
    and whose runs say how long its baseline takes."""
    if claim.within is None:
        return ()
    region, blocks, block_note, slow_note, certainty = claim.region, experiment.repetitions, "", "", ""
    if measured_blocks is not None:
        blocks = measured_blocks
    else:
        if blocks < BLOCKS_OF_A_VERDICT:
            outcome = "no interval" if blocks < MINIMUM_BLOCKS else "an indication at most"
            block_note = f"{blocks} block{'' if blocks == 1 else 's'}: {outcome}; a verdict needs {BLOCKS_OF_A_VERDICT}"
        soonest_s, part = noise_s(claim), 1.0 + region.high / 100.0
        if soonest_s > 0.0 and 0.0 < part < 1.0:  # how long a baseline takes no experiment says beforehand
            slow_note = (
                f"not testable where {claim.baseline} takes less than {soonest_s / part:.0f} s: without any event the"
                f" median is {soonest_s:.0f} s"
            )
    bounds, paced = attainable(claim, experiment), paced_percent(claim, experiment)
    percent = _rule_percent(claim, experiment)
    if bounds and bounds.is_within(region):
        certainty = f"by the closed form it cannot fail: {bounds.why}"
    unless_saturated = ""  # of paced sources' output, for any placement
    if paced is not None and region.low < paced < region.high:
        unless_saturated = f"{paced_words(claim, paced)}; otherwise it cannot fail"
    rule_note = ""  # the result may differ from Stela's rule if a component is hardly congested
    if percent is not None and (bounds is None or bounds.reaches(region)):
        is_inside = region.low < percent - TOLERANCE and percent + TOLERANCE < region.high
        needs = f"{signed_percent(percent)} % here, and the claim needs {region_text(region)}"
        rule_note = "" if is_inside else f"by the closed form Stela's own rule gives {needs}"
    notes = (block_note, _scattered(claim, blocks), slow_note, _early_end(claim, experiment), certainty,
             unless_saturated, rule_note)  # fmt: skip
    return tuple(filter(None, notes))


def _scattered(claim: Claim, repetitions: int) -> str:
    """Return the effect of noise on a time that is stated as a number, in a series that is level throughout."""
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
    if blocks is not None and blocks <= repetitions:
        return ""
    count = "no number of blocks" if blocks is None else f"about {blocks} blocks"
    return (
        f"noise alone scatters such times by {100.0 * scatter:.0f} %: {count} would show that they are"
        f" as stated; {repetitions} can show that they are not"
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


def _rule_percent(claim: Claim, experiment: Experiment) -> float | None:
    """Return a claim's number by Stela's rule and the closed form, without noise in the rates; None for another policy
    or number."""
    if claim.metric not in ("throughput_after", "gain_percent") or not claim.is_one_number:
        return None
    levels = levels_of(claim, experiment, claim.variant)
    other = levels_of(claim, experiment, claim.baseline) if claim.baseline else levels
    if levels is None or levels.stela is None or other is None:
        return None
    return percent_over(levels.stela, other.before)


def possible_words(claim: Claim, experiment: Experiment) -> str:
    """Return where a claim's number can lie in this experiment, with the number by Stela's rule, or by a schedule;
    empty without bounds."""
    if (paced := paced_percent(claim, experiment)) is not None:
        return paced_words(claim, paced)
    bounds = attainable(claim, experiment)
    if bounds is None:
        return ""
    percent = _rule_percent(claim, experiment)
    rule = "" if percent is None else f"; by the closed form Stela's rule gives {signed_percent(percent)} %"
    return f"{bounds.why if bounds.reaches(claim.region) else bounds.out_of_reach(claim.region)}{rule}"


def notes(claims: Sequence[Claim], experiment: Experiment) -> tuple[str, ...]:
    """Return what an experiment cannot show, or only weakly, of its own claims, among all of a family; equal ones
    together. The last ones say how the source's own numbers contradict claims that follow from them."""
    by_name = {claim.name: claim for claim in claims}
    names_by_text: dict[str, list[str]] = {}
    experiment_claims = {
        claim.name: claim for claim in claims if claim.experiment == experiment.name and claim.id in experiment.claims
    }
    for name, claim in experiment_claims.items():
        members = [by_name[member] for member in claim.of]
        run = {member.experiment: [experiment] for member in members if member.experiment == claim.experiment}
        reason = reason_derived(claim, members, run) if members else reason_not_testable(claim, experiment)
        for text in (f"not testable here: {reason}",) if reason else weaknesses(claim, experiment):
            names_by_text.setdefault(text, []).append(name)
    for claim in claims:
        misfits = {name: percent for name, percent in _misfits(claim, claims).items() if name in experiment_claims}
        if text := _own_numbers_text(claim, misfits):
            names_by_text.setdefault(text, []).append(claim.name)
    return tuple(f"{', '.join(names)}: {text}" for text, names in names_by_text.items())


# --- the source's own numbers ----------------------------------------------------------------------------------------


def own_numbers_note(claim: Claim, claims: Iterable[Claim]) -> str:
    """Return how the source's own numbers lie outside the region of a claim that follows from others, so that runs
    exactly as stated would not reproduce it; empty if they do not. `claims`: at least those of its family."""
    return _own_numbers_text(claim, _misfits(claim, tuple(claims)))


def _own_numbers_text(claim: Claim, misfits: Mapping[str, float]) -> str:
    region = claim.region
    contradictions = {
        name: percent
        for name, percent in misfits.items()
        if percent < region.low - TOLERANCE or region.high + TOLERANCE < percent
    }
    place, outcome = ("outside", "rule it out") if contradictions else ("on the edge of", "mostly leave it undecided")
    statement = ", ".join(
        f"{name} is {signed_percent(percent)} %" for name, percent in (contradictions or misfits).items()
    )
    conclusion = f"{place} {region_text(region)}: runs exactly as stated would {outcome}"
    return f"by the source's own numbers {statement}, {conclusion}" if misfits else ""


def _misfits(claim: Claim, claims: Sequence[Claim]) -> dict[str, float]:
    """Return its members' stated numbers outside its region or on an edge; for a lowest number only that one."""
    percents = {
        each.name: percent
        for each in claims
        if each.name in claim.of and (percent := _stated_percent(each, claims)) is not None
    }
    if percents and claim.kind is ClaimKind.LOWEST:
        lowest = min(percents, key=lambda name: percents[name])
        percents = {lowest: percents[lowest]}
    low, high = claim.region.low, claim.region.high
    return {name: percent for name, percent in percents.items() if min(percent - low, high - percent) <= TOLERANCE}


def _stated_percent(claim: Claim, claims: Sequence[Claim]) -> float | None:
    """Return the source's value of the claim's number. If it only calls a ratio higher: the value that follows from
    both variants' own gains, because both begin alike."""
    if claim.kind in (ClaimKind.RATIO, ClaimKind.OWN):
        return claim.stated
    gains = {
        each.variant: each.stated
        for each in claims
        if (each.experiment, each.event, each.metric) == (claim.experiment, claim.event, "gain_percent")
        and each.kind in (ClaimKind.OWN, ClaimKind.OWN_AT_LEAST)
    }
    variant_gain, other = gains.get(claim.variant), gains.get(str(claim.baseline))
    if claim.metric != "throughput_after" or variant_gain is None or other is None or other <= -100.0:
        return None
    return percent_over(100.0 + variant_gain, 100.0 + other)
