"""Whether a driver may carry out a decision. The bridge in Nimbus asks the same of an answer (AnswerCheck.java).

Pure. The words are the contract's (docs/contracts.md, "Decision"); tests read the same cases as the bridge's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scheduler_plugins.model import Decision, Observation, Slot, Topology

Why = Literal[
    "unknown_topology", "unknown_component", "unknown_task", "unknown_slot", "executors_out_of_range", "slot_taken"
]


@dataclass(frozen=True)
class Refusal:
    why: Why
    message: str


def refusal(observation: Observation, decision: Decision) -> Refusal | None:
    """The first reason not to carry out `decision` on what was observed; None if there is none."""
    return next(_refusals(observation, decision), None)


def _refusals(observation: Observation, decision: Decision) -> Iterator[Refusal]:
    topologies = {topology.topology_id: topology for topology in observation.topologies}
    offered = {Slot(m.name, port) for m in observation.machines if m.alive for port in m.ports}
    for topology_id in sorted({*decision.executors, *decision.placement}):
        if topology_id not in topologies:
            yield Refusal("unknown_topology", f"topology {topology_id} was not observed")
        else:
            yield from _executors(topologies[topology_id], decision)
            yield from _placement(topologies[topology_id], decision, offered)
    yield from _shared(observation, decision)


def _executors(topology: Topology, decision: Decision) -> Iterator[Refusal]:
    tasks = {component.name: len(component.tasks) for component in topology.components}
    for name, executors in decision.executors.get(topology.topology_id, {}).items():
        if name not in tasks:
            yield Refusal("unknown_component", f"{topology.name} has no component {name}")
        elif not 1 <= executors <= tasks[name]:
            yield Refusal(
                "executors_out_of_range",
                f"executors of {topology.name}'s {name} is {executors}; allowed are 1 to {tasks[name]}",
            )


def _placement(topology: Topology, decision: Decision, offered: set[Slot]) -> Iterator[Refusal]:
    tasks = {task for component in topology.components for task in component.tasks}
    for task, slot in decision.placement.get(topology.topology_id, {}).items():
        if task not in tasks:
            yield Refusal("unknown_task", f"{topology.name} has no task {task}")
        elif slot not in offered:
            yield Refusal("unknown_slot", f"task {task} is to go to {slot}, which no living machine offers")


def _shared(observation: Observation, decision: Decision) -> Iterator[Refusal]:
    owners: dict[Slot, str] = {}
    for topology in observation.topologies:
        after = {**topology.placement, **decision.placement.get(topology.topology_id, {})}
        for slot in after.values():
            owner = owners.setdefault(slot, topology.topology_id)
            if owner != topology.topology_id:
                yield Refusal("slot_taken", f"{slot} would belong to {owner} and to {topology.topology_id}")
