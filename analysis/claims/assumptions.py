"""What limitations.py takes for granted: what each variant can process before and after an experiment's first event by
the closed form of components that wait (capacity.py), what its sources offer, and how long noise alone and the
baseline of a ratio of times take. Pure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.claims import capacity
from analysis.claims.ledger_rows import Conditions, RunValue, percent_over, series_lengths
from analysis.claims.statements import RATIOS, Claim
from analysis.metrics.convergence import DEFINITIONS, Windows, post_scale
from analysis.metrics.definitions import CONVERGENCE, quantum
from analysis.metrics.steadiness import WINDOW_S
from analysis.stats.effect import Effect, TimeRatio, paired_ratio
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from analysis.stats.survival import Times
from barograph.plan.events import ScaleIn, ScaleOut
from barograph.plan.experiment import Experiment, Variant
from scheduler_plugins.policies import topology_aware
from scheduler_plugins.policies.stela import Parameters
from topologies import catalogue
from topologies.work import components_of

# None of these ever changes how many executors a component has.
KEEP_EXECUTORS = frozenset({"even", "round_robin", "storm", *topology_aware.STRATEGIES})


@dataclass(frozen=True)
class Levels:
    """A variant's throughput in tuples/s by the closed form: before the event, and the most after it; it never falls.
    `slots`: executors that it gives out. `stela`: what its own rule makes of them. `is_bound`: there are too many ways
    to deal them out, and `most` is what no one is above."""

    before: float
    most: float
    slots: int = 0
    stela: float | None = None
    is_bound: bool = False

    @property
    def gain(self) -> float:
        """At most, in percent."""
        return percent_over(self.most, self.before)


def watch_s(claim: Claim, experiment: Experiment | None) -> tuple[float, float]:
    """Floor and ceiling of what is watched after the claim's event, in s; infinite where the record does not say."""
    return (inf, inf) if experiment is None else experiment.watched(_place_of_event(claim))


def _place_of_event(claim: Claim) -> int:
    """Return 0 for `e1`."""
    return int(claim.event[1:]) - 1


def levels_of(claim: Claim, experiment: Experiment, variant: str) -> Levels | None:
    """None where the closed form says nothing: another event than the first, several topologies, code or a policy that
    is not known, costs that burn CPU."""
    chosen, event = _variant(experiment, variant), experiment.events[0]
    if chosen is None or _place_of_event(claim) != 0 or not isinstance(event, ScaleOut | ScaleIn):
        return None
    topology = _cached_closed_form(_template_of(experiment, chosen))
    if topology is None or chosen.policy not in {*KEEP_EXECUTORS, "stela"}:
        return None
    before = capacity.throughput(topology, topology.initial)
    if before <= 0.0:
        return None
    if chosen.policy in KEEP_EXECUTORS or isinstance(event, ScaleIn):
        return Levels(before, before)
    return _levels_of_stela(topology, experiment.machines.before, event.machines, chosen.parameters)


def offered_per_s(experiment: Experiment, variant: str) -> float | None:
    """Tuples/s that the sources of a variant offer by their schedules, where each is emitted, if late. None where a
    source emits as fast as Storm lets it or skips what fell due during a restart, and where it is not known."""
    chosen = _variant(experiment, variant)
    return None if chosen is None else _cached_offer(_template_of(experiment, chosen))


def _variant(experiment: Experiment, name: str) -> Variant | None:
    """None where its code is not ours, or runs have several topologies."""
    chosen = next((each for each in experiment.variants if each.name == name), None)
    return None if chosen is None or chosen.code or len(experiment.every_topology()) > 1 else chosen


def _template_of(experiment: Experiment, variant: Variant) -> str:
    """What the variant's topology is rendered of, as JSON: the same text is the same topology."""
    (topology,) = experiment.topologies_of(variant)
    return json.dumps([topology.file, topology.parameters, topology.overrides], sort_keys=True)


def _levels_of_stela(topology: capacity.Topology, before: int, new: int, given: Mapping[str, Any]) -> Levels | None:
    try:
        parameters = Parameters(**given)
    except (TypeError, ValueError):
        return None  # of another version
    slots = capacity.new_executors(topology, before, new, parameters.slots)
    best = capacity.best(topology, slots)
    return Levels(
        capacity.throughput(topology, topology.initial),
        best.per_s,
        slots,
        capacity.throughput(topology, capacity.stela_executors(topology, slots, parameters)),
        is_bound=best.executors is None,
    )


@cache
def _cached_closed_form(text: str) -> capacity.Topology | None:
    try:
        return capacity.topology_of_flux(catalogue.render(*json.loads(text)))
    except catalogue.TopologyError:
        return None  # of another version


@cache
def _cached_offer(text: str) -> float | None:
    try:
        flux = yaml.safe_load(catalogue.render(*json.loads(text)))
        components = components_of(flux, catalogue.topology_of_flux(flux["name"], flux))
    except catalogue.TopologyError:
        return None  # of another version, or not ours
    sources = [component for component in components if component.kind == "spout"]
    if any(source.is_unthrottled or source.on_restart == "skip" for source in sources):
        return None
    return sum(source.rate_per_s or 0.0 for source in sources)


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
    """Return what noise alone takes in the middle of a claim's times; 0 where the claim is no ratio of such times."""
    of_times = claim.kind in RATIOS and claim.metric.startswith(CONVERGENCE) and claim.is_one_number
    return time_without_event_s(definition_of(claim)) if of_times else 0.0


def definition_of(claim: Claim) -> str:
    """`sp` of `convergence_sp_s`."""
    return claim.metric.removeprefix(CONVERGENCE).removesuffix("_s")


@dataclass(frozen=True)
class BaselineTime:
    """What the baseline of a ratio of times takes, s. `about_s`: None where most of its runs never got there. `low_s`,
    `high_s`: the ends of its 95 % interval, 0 and infinite where nothing bounds it. `least_s`: the shortest that a time
    can be."""

    about_s: float | None
    low_s: float
    high_s: float
    least_s: float


def baseline_time(claim: Claim, measured: Conditions) -> BaselineTime | None:
    """Return it of the blocks that are compared; None of other claims than ratios of times, and of fewer than three
    blocks."""
    own, other = (
        {value.block: value for value in measured.of(claim, name)} for name in (claim.variant, claim.baseline)
    )
    blocks, noise = sorted(own.keys() & other.keys()), noise_s(claim)
    if noise <= 0.0 or not blocks:
        return None
    sides = [[side[block] for block in blocks] for side in (own, other)]
    variant, baseline = map(times_of, sides)
    return time_of_baseline(variant, baseline, noise, quantum(claim.metric), series_lengths(sides[1]))


def times_of(values: Sequence[RunValue]) -> Times:
    return Times(tuple(value.value for value in values), tuple(value.censored for value in values))


def time_of_baseline(
    variant: Times, baseline: Times, noise_s: float, quantum: float, series: Sequence[int] = ()
) -> BaselineTime | None:
    """Return it with the ends by which the ledger would judge a variant whose every run takes `noise_s`, as noise alone
    does; where either side was quicker than that here, the least is what it took. None: fewer than three blocks.
    `series`: as of `paired_ratio`."""
    runs = len(baseline.times)
    if runs < MINIMUM_BLOCKS or min(baseline.times) <= 0.0:
        return None
    alike = Times((noise_s,) * runs, (False,) * runs)
    found: Effect | None = TimeRatio(alike, baseline)
    if not any(baseline.censored):
        found = paired_ratio(alike.times, baseline.times, quantum, series)
    if found is None:
        return None
    low, high = (1.0 + percent / 100.0 for percent in found.interval())
    least_s = min(time for time in (noise_s, variant.typical, baseline.typical) if time is not None)
    return BaselineTime(baseline.typical, noise_s / high, noise_s / low if low > 0.0 else inf, least_s)
