"""Check the assumptions of limitations.py: each variant's capacity before and after an experiment's first event by
the closed form of components that wait (capacity.py), the offer of its sources, and the times that noise alone and the
baseline of a ratio of times take. Pure.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.claims import capacity
from analysis.claims.rows import RunValue, SeriesConditions, series_lengths
from analysis.claims.statements import RATIOS, Claim
from analysis.metrics.convergence import DEFINITIONS, Windows, post_scale
from analysis.metrics.definitions import CONVERGENCE, quantum
from analysis.metrics.steadiness import WINDOW_S
from analysis.stats.effect import Effect, TimeRatio, paired_ratio
from analysis.stats.paired_differences import MINIMUM_BLOCKS
from analysis.stats.survival import Times
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import Experiment, Variant
from scheduler_plugins.policies import topology_aware
from scheduler_plugins.policies.stela import StelaParameters
from topologies import catalogue
from topologies.work import components_of

# Policies that never change the number of a component's executors.
KEEP_EXECUTORS = frozenset({"even", "round_robin", "storm", *topology_aware.STRATEGIES})


@dataclass(frozen=True)
class Levels:
    """A variant's throughput in tuples/s by the closed form: before the event, and the most after it; it never falls.
    `slots`: executors that it gives out. `stela`: the result of its own rule. `is_bound`: there are too many ways
    to distribute them, and `most` is only an upper bound."""

    before: float
    most: float
    slots: int = 0
    stela: float | None = None
    is_bound: bool = False


def watch_s(claim: Claim, experiment: Experiment | None) -> tuple[float, float]:
    """Return floor and ceiling of the watch after the claim's event, in s; infinite if they are not on record, and of
    a claim about the whole run."""
    place = _place_of_event(claim)
    return (inf, inf) if experiment is None or place < 0 else experiment.watched(place)


def _place_of_event(claim: Claim) -> int:
    """Return 0 for `e1`."""
    return int(claim.event[1:]) - 1


def levels_of(claim: Claim, experiment: Experiment, variant: str) -> Levels | None:
    """Return the levels; None if the closed form does not apply: another event than the first, several topologies,
    unknown code or policy, costs that burn CPU."""
    variant_spec, event = _variant(experiment, variant), experiment.events[0]
    if variant_spec is None or _place_of_event(claim) != 0 or not isinstance(event, ScaleOut | ScaleIn):
        return None
    topology = _cached_closed_form(_template_of(experiment, variant_spec))
    if topology is None or variant_spec.policy not in {*KEEP_EXECUTORS, "stela"}:
        return None
    before = capacity.throughput(topology, topology.initial)
    if before <= 0.0:
        return None
    if variant_spec.policy in KEEP_EXECUTORS or isinstance(event, ScaleIn):
        return Levels(before, before)
    try:
        parameters = StelaParameters(**variant_spec.parameters)
    except (TypeError, ValueError):
        return None  # of another version
    slots = capacity.new_executors(topology, experiment.machines.before, event.machines, parameters.slots)
    best = capacity.best(topology, slots)
    stela = capacity.throughput(topology, capacity.stela_executors(topology, slots, parameters))
    return Levels(before, best.per_s, slots, stela, is_bound=best.executors is None)


def offered_per_s(experiment: Experiment, variant: str) -> float | None:
    """Return the tuples/s that the sources of a variant offer by their schedules, if each is emitted, even late. None
    if a source emits as fast as Storm lets it or skips tuples due during a restart, and if it is unknown."""
    variant_spec = _variant(experiment, variant)
    return None if variant_spec is None else _cached_offer(_template_of(experiment, variant_spec))


def _variant(experiment: Experiment, name: str) -> Variant | None:
    """Return the variant; None if its code is not ours, or runs have several topologies."""
    variant = next((each for each in experiment.variants if each.name == name), None)
    return None if variant is None or variant.code or len(experiment.every_topology()) > 1 else variant


def _template_of(experiment: Experiment, variant: Variant) -> str:
    """Return the input from which the variant's topology is rendered, as JSON: equal texts are equal topologies."""
    (topology,) = experiment.topologies_of(variant)
    return json.dumps([topology.file, topology.parameters, topology.overrides], sort_keys=True)


@cache
def _cached_closed_form(text: str) -> capacity.TopologyCapacity | None:
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
    """Return the median time of convergence of series that are level from the start, in s: the time that noise alone
    takes.

    60 s by SP, 70 s by ST, 0 by the authors' script. If neighbouring windows are correlated it is not shorter: 80 and
    70 s at a correlation of 0.3. Claims are judged by independent windows, which is the most lenient.
    """
    return float(np.median(times_without_event(definition)))


@cache
def times_without_event(definition: str) -> tuple[float, ...]:
    return times_of_noise(definition, np.random.default_rng(SEED).standard_normal((SERIES, SERIES_WINDOWS)))


def times_of_noise(definition: str, noise: NDArray[np.float64]) -> tuple[float, ...]:
    """Return times of convergence, in s, of level series, a row of `noise` each, by window, in standard deviations;
    infinite if a series does not converge."""
    starts_s = tuple(WINDOW_S * place for place in range(noise.shape[1]))
    times = []
    for rates in (1000.0 * (1.0 + DEVIATION * noise)).tolist():  # so fast that a tuple is none of it
        convergence = DEFINITIONS[definition](Windows(starts_s, tuple(rates), WINDOW_S), post_scale(rates))
        times.append(inf if convergence is None or convergence.time_s is None else convergence.time_s)
    return tuple(times)


def noise_s(claim: Claim) -> float:
    """Return the time that noise alone takes in the middle of a claim's times; 0 if the claim is no ratio of such
    times."""
    of_times = claim.kind in RATIOS and claim.metric.startswith(CONVERGENCE) and claim.is_one_number
    return time_without_event_s(definition_of(claim)) if of_times else 0.0


def definition_of(claim: Claim) -> str:
    """Return the definition's name, `sp` for `convergence_sp_s`."""
    return claim.metric.removeprefix(CONVERGENCE).removesuffix("_s")


@dataclass(frozen=True)
class BaselineTime:
    """Time of the baseline in a ratio of times, s. `about_s`: None if most of its runs never got there. `low_s`,
    `high_s`: the ends of its 95 % interval, 0 and infinite without a bound. `least_s`: the shortest possible
    time."""

    about_s: float | None
    low_s: float
    high_s: float
    least_s: float


def baseline_time(claim: Claim, measured: SeriesConditions) -> BaselineTime | None:
    """Return the time for the compared blocks; None for other claims than ratios of times, and with fewer than three
    blocks."""
    variant_values, other = (
        {value.block: value for value in measured.of(claim, name)} for name in (claim.variant, claim.baseline)
    )
    blocks, noise = sorted(variant_values.keys() & other.keys()), noise_s(claim)
    if noise <= 0.0 or not blocks:
        return None
    sides = [[side[block] for block in blocks] for side in (variant_values, other)]
    variant, baseline = map(times_of, sides)
    return time_of_baseline(variant, baseline, noise, quantum(claim.metric), series_lengths(sides[1]))


def times_of(values: Sequence[RunValue]) -> Times:
    return Times(tuple(value.value for value in values), tuple(value.censored for value in values))


def time_of_baseline(
    variant: Times, baseline: Times, noise_s: float, quantum: float, series: Sequence[int] = ()
) -> BaselineTime | None:
    """Return the time with the ends by which the ledger would judge a variant whose every run takes `noise_s`, as with
    noise alone; if either side was quicker here, the least is its time. None with fewer than three blocks. `series`: as
    in `paired_ratio`."""
    runs = len(baseline.times)
    if runs < MINIMUM_BLOCKS or min(baseline.times) <= 0.0:
        return None
    noise_times = Times((noise_s,) * runs, (False,) * runs)
    effect: Effect | None = TimeRatio(noise_times, baseline)
    if not any(baseline.censored):
        effect = paired_ratio(noise_times.times, baseline.times, quantum, series)
    if effect is None:
        return None
    low, high = (1.0 + percent / 100.0 for percent in effect.interval())
    least_s = min(time for time in (noise_s, variant.typical, baseline.typical) if time is not None)
    return BaselineTime(baseline.typical, noise_s / high, noise_s / low if low > 0.0 else inf, least_s)
