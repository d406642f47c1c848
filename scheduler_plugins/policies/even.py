"""Storm's default: executors round robin over slots (Storm's EvenScheduler, SP III-A).

`rebalance: false` is Storm left alone: after a scale-out the new machine stays idle. `rebalance: true` is the papers'
"Storm's default": every executor is unassigned and dealt out again over the modified cluster. `wait_s`: how long Storm
waits before that, with the topology deactivated, so that tuples under way are processed. Storm's own command `storm
rebalance` waits the topology's message timeout (30 s) by default; 0 is no wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scheduler_plugins.model import LONGEST_WAIT_S, Decision, Memory, Observation
from scheduler_plugins.policies import initial_placement
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number


@dataclass(frozen=True)
class EvenParameters:
    rebalance: bool = False
    initial: initial_placement.InitialRule = "round_robin"
    wait_s: int = 0

    def __post_init__(self) -> None:
        check_parameters(self)
        check_whole_number("wait_s", self.wait_s, 0, LONGEST_WAIT_S)
        if self.wait_s and not self.rebalance:
            raise ValueError(f"wait_s is {self.wait_s} and rebalance is false; allowed is 0: without one nothing waits")


def decide(observation: Observation, memory: Memory, parameters: EvenParameters = EvenParameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    if first is not None or observation.event is None or observation.event.kind == "scale_in":
        return first or Decision(memory=memory)
    if not parameters.rebalance:
        return Decision(memory=memory, reason="storm left alone: nothing moves without a rebalance", settled=True)
    decision = place_everything_again(observation, memory)
    if not (parameters.wait_s and decision.changes()):
        return decision
    reason = f"{decision.reason}, after a wait of {parameters.wait_s} s"
    return replace(decision, wait_s=parameters.wait_s, reason=reason)


def place_everything_again(observation: Observation, memory: Memory) -> Decision:
    if not initial_placement.has_slot_for_each(observation.topologies, observation.machines):
        return Decision(memory=memory, settled=True, reason=initial_placement.TOO_FEW_SLOTS)
    placements = initial_placement.place_all(observation.topologies, observation.machines)
    return Decision(
        placement=placements, memory=memory, settled=True, reason="every executor dealt out again, round robin"
    )
