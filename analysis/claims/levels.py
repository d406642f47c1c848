"""How much each variant of an experiment can process before and after its first event, by the closed form of components
that wait (capacity.py). Pure.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from analysis.claims import capacity
from analysis.claims.ledger_rows import percent_over
from analysis.claims.specs import ExperimentSpec, place_of, topology_of
from analysis.claims.statements import Claim
from scheduler_plugins.policies import topology_aware
from scheduler_plugins.policies.stela import Parameters
from topologies import catalogue

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
    chosen = next((each for each in spec.variants if each.name == variant), None)
    event = next(iter(spec.events), None)
    if chosen is None or chosen.code or place_of(claim) != 0 or event is None or event.kind not in SCALE_EVENTS:
        return None
    if len(spec.topologies) > 1:
        return None
    topology = _closed_form(topology_of({"topology": spec.topology}, {"topology": chosen.topology}))
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


def _closed_form(topology: Mapping[str, Any]) -> capacity.Topology | None:
    return _cached_closed_form(json.dumps(topology, sort_keys=True))


@cache
def _cached_closed_form(text: str) -> capacity.Topology | None:
    try:
        return capacity.topology_of_flux(catalogue.render(**json.loads(text)))
    except catalogue.TopologyError:
        return None  # of another version
