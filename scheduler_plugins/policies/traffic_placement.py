"""The round in which policies that place by traffic decide (MP III-C, IV-B).

Each topology is placed by itself, in separate slots, and so balanced by itself: no tuple passes between two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from scheduler_plugins.model import Decision, Memory, Observation, Slot
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.executor_graph import ExecutorGraph, executor_graph


@dataclass(frozen=True)
class PlacementProposal:
    """A policy's proposal for one topology, in words; an empty placement changes nothing."""

    reason: str
    placement: Mapping[int, Slot] = field(default_factory=dict)


class TrafficParameters(Protocol):
    """The common parameters of these policies."""

    @property
    def initial(self) -> initial_placement.InitialRule: ...
    @property
    def max_samples_age_s(self) -> float: ...
    @property
    def window_s(self) -> int: ...
    @property
    def rest_s(self) -> float: ...


def decide_by_traffic(
    observation: Observation,
    memory: Memory,
    parameters: TrafficParameters,
    propose: Callable[[ExecutorGraph, Observation], PlacementProposal],
) -> Decision:
    """Decide at a `reschedule`, or by itself where allowed, followed by a rest. Nothing is decided without fresh rates.

    By itself it decides on the topologies that have them. A reschedule has one decision, so all wait for the last of
    them: an omitted topology would be measured as if it had been placed.
    """
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    observation = initial_placement.with_slots(observation)
    is_asked = scaling.is_asked(observation)
    if first is not None or not (is_asked or observation.may_act):
        return first or Decision(memory=memory)
    if is_asked and (problem_of_rates := scaling.rates_problem(observation, parameters.max_samples_age_s)):
        return Decision(memory=memory, reason=f"held: {problem_of_rates}")
    placement: dict[str, Mapping[int, Slot]] = {}
    texts, topologies, rest_s = [], list(observation.topologies), 0.0
    for number, topology in enumerate(observation.topologies):
        why = "an earlier change is under way" if topology.rebalancing else ""
        if why := why or scaling.topology_rates_problem(topology, parameters.max_samples_age_s):
            proposal = PlacementProposal(f"kept: {why}")
        else:
            slots_in_use = initial_placement.taken_slots(each for each in topologies if each is not topology)
            graph = executor_graph(topology, observation.machines, slots_in_use)
            so_far = replace(observation, topologies=tuple(topologies))  # with earlier decisions of this round
            problem = graph.problem()
            proposal = PlacementProposal(f"refused: {problem}") if problem else propose(graph, so_far)
            rest_s = 0.0 if is_asked else parameters.rest_s
        if proposal.placement:
            placement[topology.topology_id] = proposal.placement
            topologies[number] = replace(topology, planned=proposal.placement)
        texts.append(f"{topology.name}: {proposal.reason}")
    reason = "; ".join(texts) + scaling.window_remark(observation, parameters.window_s)
    return Decision(placement=placement, memory=memory, reason=reason, settled=is_asked, rest_s=rest_s)
