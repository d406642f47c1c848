"""Whether a claim can come out in an experiment at all: where its number can lie there, by what is known
before a run, and of times by what the baseline took in it, against the claim's region. Pure.

Rates over a time that is not watched have no number at all. Beside that there are two bounds. Of a time of convergence:
on a series that is level from the start, without any event, the definition takes as long as noise makes it; none takes
longer than the watch. Of throughput: the closed form of components that wait (levels.py), with CPU enough
(premises.py); of components that burn CPU it says nothing, because they compete for cores and can both lose and win by
where they are placed. Times at zero have no bound: a variant without any is 100 % below whatever the other has. What
sources emit has none either, but where they are paced it is what they are offered, unless a variant is saturated: where
that is not what is stated, nothing else than saturation can make it come out.

An experiment that is None was not recorded, as of logs of others: only runs bound numbers there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray

from analysis.claims.estimates import BaselineTime
from analysis.claims.ledger_rows import percent_over
from analysis.claims.levels import Levels, levels_of, offered_per_s, watch_s
from analysis.claims.statements import RATIOS, Claim, Kind, Region
from analysis.metrics.communication_costs import PUBLISHED_S
from analysis.metrics.convergence import DEFINITIONS, Windows, post_scale
from analysis.metrics.definitions import CONVERGENCE
from analysis.metrics.steadiness import WINDOW_S
from analysis.numerals import extent, signed_percent
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

    region: Region
    why: str
    soonest_s: float | None = None
    baseline_s: float | None = None
    baseline: str | None = None

    @property
    def is_point(self) -> bool:
        return self.region.high - self.region.low <= TOLERANCE

    def reaches(self, region: Region) -> bool:
        """Whether an interval around a number here could lie in the region: to touch its edge is not enough."""
        low, high = self.region.low, self.region.high
        if self.is_point:
            return region.low <= low + TOLERANCE and high - TOLERANCE <= region.high
        return low + TOLERANCE < region.high and region.low < high - TOLERANCE

    def needs(self, region: Region) -> str:
        """What would have to be otherwise for it to reach the region: its nearer end."""
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

    def out_of_reach(self, region: Region) -> str:
        return f"{self.why}; the claim needs {region_text(region)}. Needed: {self.needs(region)}"

    def is_within(self, region: Region) -> bool:
        return region.low < self.region.low and self.region.high < region.high


def reason_not_testable(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None = None) -> str | None:
    """Why a claim about runs cannot come out in this experiment, and what would be needed; None: it can, for all that
    is known. `taken`: of a ratio of times, by its runs."""
    if claim.stated_over:
        return f"{signed_percent(claim.stated)} % is stated of {claim.stated_over}, and of none of them alone"
    if short := _too_short(claim, experiment):
        return short
    percent = paced_percent(claim, experiment) if is_about_one_number(claim) else None
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
    """The same of a claim that follows from others, `members`; `experiments`: by name,
    what was run of each; `taken`: by member. Nothing bounds
    the members in `unbounded`. A span cannot come out where one of the numbers cannot lie in it, a lowest number where
    none can, or where one must lie below it.

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
    """Of all that was run: None where there is no bound in one of them, or nothing was run."""
    found = [attainable(claim, experiment, taken) for experiment in experiments]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    low, high = min(each.region.low for each in known), max(each.region.high for each in known)
    widest = max(known, key=lambda each: each.region.high - each.region.low)
    return replace(widest, region=Region(low, high))


def attainable(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None = None) -> Attainable | None:
    """Where the claim's number can lie in this experiment; None where nothing bounds it."""
    if not is_about_one_number(claim):
        return None
    if claim.metric.startswith(CONVERGENCE):
        return _attainable_times(claim, experiment, taken)
    if experiment is not None and claim.kind in RATIOS and claim.metric == "throughput_after":
        return _attainable_ratio(claim, experiment)
    if experiment is not None and claim.kind not in RATIOS and claim.metric == "gain_percent":
        return _attainable_gain(claim, experiment)
    return None


def is_about_one_number(claim: Claim) -> bool:
    """That runs estimate, and not about each run, a computation or other claims."""
    return claim.within is not None and not claim.of


# --- times of convergence --------------------------------------------------------------------------------------------

SERIES, SERIES_WINDOWS, SEED = 1000, 60, 1
DEVIATION = 0.015  # of a level series, per window of 10 s; the times hardly depend on it below SP's 5 %


@cache
def time_without_event_s(definition: str) -> float:
    """Median time of convergence of series that are level from the start, in s: what noise alone takes.

    60 s by SP, 70 s by ST, 0 by the authors' script. Where neighbouring windows are alike it is not shorter: 80 and
    70 s at a correlation of 0.3. Claims are judged by independent windows, which is the most lenient.
    """
    return float(np.median(times_without_event(definition)))


@cache
def times_without_event(definition: str) -> tuple[float, ...]:
    return times_of_noise(definition, np.random.default_rng(SEED).standard_normal((SERIES, SERIES_WINDOWS)))


def times_of_noise(definition: str, noise: NDArray[np.float64]) -> tuple[float, ...]:
    """Times of convergence, in s, of level series of which `noise` has a row each, by window, in standard deviations;
    infinite where a series does not converge."""
    starts_s = tuple(WINDOW_S * place for place in range(noise.shape[1]))
    times = []
    for rates in (1.0 + DEVIATION * noise).tolist():
        found = DEFINITIONS[definition](Windows(starts_s, tuple(rates), WINDOW_S), post_scale(rates))
        times.append(inf if found is None or found.time_s is None else found.time_s)
    return tuple(times)


def noise_s(claim: Claim) -> float:
    """What noise alone takes in the middle of a claim's times; 0 where the claim is no ratio of such times."""
    of_times = claim.kind in RATIOS and claim.metric.startswith(CONVERGENCE) and is_about_one_number(claim)
    return time_without_event_s(definition_of(claim)) if of_times else 0.0


def _attainable_times(claim: Claim, experiment: Experiment | None, taken: BaselineTime | None) -> Attainable | None:
    """Medians lie between the time that noise takes and the horizon; a shorter watch can only show two alike. Of runs
    the baseline's lies within its interval."""
    horizon_s, soonest_s = watch_s(claim, experiment)[1], noise_s(claim)
    if soonest_s <= 0.0 or (horizon_s == inf and (taken is None or taken.high_s == inf)):
        return None
    longest_s = max(horizon_s, soonest_s)
    if taken is not None:
        return _attainable_over(str(claim.baseline), taken, soonest_s, longest_s)
    region = Region(percent_over(soonest_s, longest_s), percent_over(longest_s, soonest_s))
    why = (
        f"ratios of times can be seen to be {_range_text(region)} here: without any event the median is"
        f" {soonest_s:.0f} s, and the watch ends after {horizon_s:g} s"
    )
    return Attainable(region, why, soonest_s, soonest_s)


def _attainable_over(baseline: str, taken: BaselineTime, noise_s: float, longest_s: float) -> Attainable:
    """Over a baseline that ran."""
    high_s = min(taken.high_s, longest_s)
    low_s = min(max(taken.low_s, taken.least_s), high_s)
    region = Region(percent_over(taken.least_s, high_s), percent_over(longest_s, low_s))
    between = f"{extent((round(low_s), round(high_s)))} s"
    took = between if taken.about_s is None else f"about {taken.about_s:.0f} s ({between})"
    here = f", here {taken.least_s:.0f} s" if taken.least_s < noise_s - TOLERANCE else ""
    more = "" if region.high == inf else f" and no increase beyond {signed_percent(region.high)} %"
    why = (
        f"{baseline} took {took}, and without any event the median is {noise_s:.0f} s{here}: no reduction beyond"
        f" {signed_percent(region.low)} %{more} can be seen"
    )
    return Attainable(region, why, taken.least_s, low_s, baseline)


def definition_of(claim: Claim) -> str:
    """`sp` of `convergence_sp_s`."""
    return claim.metric.removeprefix(CONVERGENCE).removesuffix("_s")


# --- throughput ------------------------------------------------------------------------------------------------------


def _attainable_gain(claim: Claim, experiment: Experiment) -> Attainable | None:
    levels = levels_of(claim, experiment, claim.variant)
    if levels is None:
        return None
    region = Region(0.0, levels.gain)
    return Attainable(region, f"{claim.variant} can gain {_range_text(region)} here: {_because(levels)}")


def _attainable_ratio(claim: Claim, experiment: Experiment) -> Attainable | None:
    top, bottom = (levels_of(claim, experiment, str(name)) for name in (claim.variant, claim.baseline))
    if top is None or bottom is None:
        return None
    region = Region(percent_over(top.before, bottom.most), percent_over(top.most, bottom.before))
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
    """A ratio of what sources emit, where those of both variants are paced."""
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


def _range_text(region: Region) -> str:
    if region.high - region.low <= TOLERANCE:
        return f"{signed_percent(region.low)} %"
    return f"{signed_percent(region.low)} to {signed_percent(region.high)} %"


def region_text(region: Region) -> str:
    if region.low == -inf:
        return f"less than {signed_percent(region.high)} %"
    if region.high == inf:
        return f"more than {signed_percent(region.low)} %"
    return f"{signed_percent(region.low)} to {signed_percent(region.high)} %"
