"""Storm's default: executors round robin over slots (Storm's EvenScheduler, SP III-A).

`rebalance: false` is Storm left alone: after a scale-out the new machine stays idle. `rebalance: true` is what the
papers call Storm's default: every executor is unassigned and dealt out again over the modified cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from scheduler_plugins.model import Decision, Machine, Memory, Observation, Slot, Topology, unplaced_tasks


@dataclass(frozen=True)
class Parameters:
    rebalance: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.rebalance, bool):
            raise ValueError(f"rebalance is {self.rebalance!r}; allowed are true and false")


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    if observation.event is not None and observation.event.kind == "scale_out":
        return _scale_out(observation, memory, parameters)
    return place_unplaced(observation, memory)


def _scale_out(observation: Observation, memory: Memory, parameters: Parameters) -> Decision:
    if not parameters.rebalance:
        return Decision(memory=memory, reason="storm left alone: nothing moves without a rebalance", settled=True)
    dealt: dict[str, Mapping[int, Slot]] = {}
    taken: set[Slot] = set()
    for topology in observation.topologies:
        placement = deal(topology, sort_slots(free_slots(observation.machines, taken)))
        taken |= set(placement.values())
        dealt[topology.topology_id] = changed(topology, placement)
    return Decision(placement=dealt, memory=memory, settled=True, reason="every executor dealt out again, round robin")


def place_unplaced(observation: Observation, memory: Memory) -> Decision:
    """Give every unplaced executor a slot, move nothing else: what a policy does at submission and after a crash."""
    taken = {slot for topology in observation.topologies for slot in topology.placement.values()}
    placed: dict[str, Mapping[int, Slot]] = {}
    for topology in observation.topologies:
        if not unplaced_tasks(topology):
            continue
        placement = deal_unplaced(topology, sort_slots(free_slots(observation.machines, taken)))
        taken |= set(placement.values())
        placed[topology.topology_id] = placement
    reason = f"placed {sum(map(len, placed.values()))} unplaced tasks round robin" if placed else ""
    return Decision(placement=placed, memory=memory, reason=reason)


def deal(topology: Topology, slots: Sequence[Slot]) -> dict[int, Slot]:
    """All executors, by first task, over the first `workers` of `slots`: task → slot. Empty if there is no slot."""
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors]
    return _round_robin(ranges, slots[: topology.workers])


def deal_unplaced(topology: Topology, slots: Sequence[Slot]) -> dict[int, Slot]:
    """Executors without a slot over free slots up to `workers`, or else over the slots the topology already has."""
    missing = set(unplaced_tasks(topology))
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors if e.first_task in missing]
    own = sorted(set(topology.placement.values()))
    fresh = slots[: max(topology.workers - len(own), 0)]
    return _round_robin(ranges, fresh or own)


def _round_robin(ranges: Iterable[tuple[int, int]], slots: Sequence[Slot]) -> dict[int, Slot]:
    if not slots:
        return {}
    return {
        task: slots[index % len(slots)]
        for index, (first, last) in enumerate(sorted(ranges))
        for task in range(first, last + 1)
    }


def free_slots(machines: Iterable[Machine], taken: Iterable[Slot]) -> dict[str, list[Slot]]:
    """Supervisor id → free slots by port, of machines that are alive."""
    used = set(taken)
    slots = {m.supervisor_id: [Slot(m.name, port) for port in sorted(m.ports)] for m in machines if m.alive}
    return {supervisor: [s for s in mine if s not in used] for supervisor, mine in slots.items()}


def sort_slots(slots: Mapping[str, Sequence[Slot]]) -> list[Slot]:
    """Storm's order: machines by id, those with more free slots first, then one slot of each in turn."""
    groups = sorted((slots[supervisor] for supervisor in sorted(slots)), key=len, reverse=True)
    return [slot for turn in zip_longest(*groups) for slot in turn if slot is not None]


def changed(topology: Topology, placement: Mapping[int, Slot]) -> dict[int, Slot]:
    return {task: slot for task, slot in placement.items() if topology.placement.get(task) != slot}
