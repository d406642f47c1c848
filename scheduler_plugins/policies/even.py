"""Storm's default: executors round robin over slots (Storm's EvenScheduler, SP III-A).

`rebalance: false` is Storm left alone: after a scale-out the new machine stays idle. `rebalance: true` is what the
papers call Storm's default: every executor is unassigned and dealt out again over the modified cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.policies import initial_placement
from scheduler_plugins.policies.parameters import check_parameters


@dataclass(frozen=True)
class Parameters:
    rebalance: bool = False
    initial: initial_placement.InitialRule = "round_robin"

    def __post_init__(self) -> None:
        check_parameters(self)


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    if first is not None or observation.event is None or observation.event.kind != "scale_out":
        return first or Decision(memory=memory)
    if not parameters.rebalance:
        return Decision(memory=memory, reason="storm left alone: nothing moves without a rebalance", settled=True)
    return place_everything_again(observation, memory)


def place_everything_again(observation: Observation, memory: Memory) -> Decision:
    if not initial_placement.has_slot_for_each(observation.topologies, observation.machines):
        return Decision(memory=memory, settled=True, reason=initial_placement.TOO_FEW_SLOTS)
    dealt = initial_placement.place_all(observation.topologies, observation.machines)
    return Decision(placement=dealt, memory=memory, settled=True, reason="every executor dealt out again, round robin")
