"""How much each variant of an experiment can process before and after its first event, by the closed form of components
that wait (capacity.py), and what its sources offer. Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from analysis.claims import capacity
from analysis.claims.ledger_rows import percent_over
from analysis.claims.specs import ExperimentSpec, Variant, place_of, topology_of
from analysis.claims.statements import Claim
from scheduler_plugins.policies import topology_aware
from scheduler_plugins.policies.stela import Parameters
from topologies import catalogue
from topologies.work import components_of

# None of these ever changes how many executors a component has.
KEEP_EXECUTORS = frozenset({"even", "round_robin", "storm", *topology_aware.STRATEGIES})
SCALE_EVENTS = ("scale_out", "scale_in")


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


def levels_of(claim: Claim, spec: ExperimentSpec, variant: str) -> Levels | None:
    """None where the closed form says nothing: another event than the first, several topologies, code or a policy that
    is not known, costs that burn CPU."""
    chosen, event = _variant(spec, variant), next(iter(spec.events), None)
    if chosen is None or place_of(claim) != 0 or event is None or event.kind not in SCALE_EVENTS:
        return None
    choice = topology_of({"topology": spec.topology}, {"topology": chosen.topology})
    topology = _cached_closed_form(json.dumps(choice, sort_keys=True))
    if topology is None or chosen.policy not in {*KEEP_EXECUTORS, "stela"}:
        return None
    before = capacity.throughput(topology, topology.initial)
    if before <= 0.0:
        return None
    if chosen.policy in KEEP_EXECUTORS or event.kind == "scale_in":
        return Levels(before, before)
    if spec.machines is None or not isinstance(event.machines, int):
        return None
    return _levels_of_stela(topology, spec.machines.before, event.machines, chosen.parameters)


def offered_per_s(spec: ExperimentSpec, variant: str) -> float | None:
    """Tuples/s that the sources of a variant offer by their schedules, where each is emitted, if late. None where a
    source emits as fast as Storm lets it or skips what fell due during a restart, and where it is not known."""
    chosen = _variant(spec, variant)
    if chosen is None:
        return None
    topology = topology_of({"topology": spec.topology}, {"topology": chosen.topology})
    return _cached_offer(json.dumps(topology, sort_keys=True))


def _variant(spec: ExperimentSpec, name: str) -> Variant | None:
    """None where its code is not ours, or runs have several topologies."""
    chosen = next((each for each in spec.variants if each.name == name), None)
    return None if chosen is None or chosen.code or len(spec.topologies) > 1 else chosen


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
        return capacity.topology_of_flux(catalogue.render(**json.loads(text)))
    except catalogue.TopologyError:
        return None  # of another version


@cache
def _cached_offer(text: str) -> float | None:
    try:
        flux = yaml.safe_load(catalogue.render(**json.loads(text)))
        components = components_of(flux, catalogue.topology_of_flux(flux["name"], flux))
    except catalogue.TopologyError:
        return None  # of another version, or not ours
    sources = [component for component in components if component.kind == "spout"]
    if any(source.is_unthrottled or source.on_restart == "skip" for source in sources):
        return None
    return sum(source.rate_per_s or 0.0 for source in sources)
