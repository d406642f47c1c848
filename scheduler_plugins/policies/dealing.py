"""Storm's round robin: executors in the order of their tasks over slots, machines in turn (Storm's EvenScheduler)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from scheduler_plugins.model import Machine, Slot, Topology, unplaced_tasks


def deal(topology: Topology, slots: Sequence[Slot]) -> dict[int, Slot]:
    """All executors, by first task, over the first `workers` of `slots`: task → slot. Empty if there is no slot."""
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors]
    return round_robin(ranges, slots[: topology.workers])


def deal_all(topologies: Sequence[Topology], machines: Iterable[Machine]) -> dict[str, dict[int, Slot]]:
    """Everything dealt out again over the living ones of `machines`: topology id → task → slot that changes.

    Each topology leaves one slot for each that follows it; so all have one if there are as many slots as topologies.
    """
    alive = list(machines)
    dealt: dict[str, dict[int, Slot]] = {}
    taken: set[Slot] = set()
    for following, topology in zip(range(len(topologies) - 1, -1, -1), topologies, strict=True):
        slots = sort_slots(free_slots(alive, taken))
        placement = deal(topology, slots[: max(len(slots) - following, 1)])
        taken |= set(placement.values())
        dealt[topology.topology_id] = changed(topology, placement)
    return dealt


def deal_unplaced(topology: Topology, machines: Iterable[Machine], taken: Iterable[Slot]) -> dict[int, Slot]:
    """Executors without a slot over free slots up to `workers`, or else over the slots the topology already has."""
    missing = set(unplaced_tasks(topology))
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors if e.first_task in missing]
    alive = [machine for machine in machines if machine.alive]
    offered = {Slot(machine.name, port) for machine in alive for port in machine.ports}
    own = sorted(set(topology.placement.values()) & offered)  # a slot on a lost machine is none
    fresh = sort_slots(free_slots(alive, taken))[: max(topology.workers - len(own), 0)]
    return round_robin(ranges, fresh or own)


def round_robin(ranges: Iterable[tuple[int, int]], slots: Sequence[Slot]) -> dict[int, Slot]:
    """Task → slot for executors given as (first, last task), ascending over `slots`; empty if there is no slot."""
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


def taken_slots(topologies: Iterable[Topology]) -> set[Slot]:
    return {slot for topology in topologies for slot in topology.placement.values()}


def sort_slots(slots: Mapping[str, Sequence[Slot]]) -> list[Slot]:
    """Storm's order: machines by id, those with more free slots first, then one slot of each in turn."""
    groups = sorted((slots[supervisor] for supervisor in sorted(slots)), key=len, reverse=True)
    return in_turn(groups)


def in_turn(groups: Iterable[Sequence[Slot]]) -> list[Slot]:
    return [slot for turn in zip_longest(*groups) for slot in turn if slot is not None]


def changed(topology: Topology, placement: Mapping[int, Slot]) -> dict[int, Slot]:
    return {task: slot for task, slot in placement.items() if topology.placement.get(task) != slot}
