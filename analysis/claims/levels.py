"""How much each variant of an experiment can process before and after its first event, by the closed form of components
that wait (capacity.py), and what its sources offer. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

import yaml

from analysis.claims import capacity
from analysis.claims.ledger_rows import percent_over
from analysis.claims.statements import Claim
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
