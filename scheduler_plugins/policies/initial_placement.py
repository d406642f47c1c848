"""Slots for executors: Storm's round robin, and the placement of executors that have no slot, with which every policy
begins.

Round robin (Storm's EvenScheduler) takes executors in the order of their tasks over slots, machines in turn.
Executors have no slot at submission and after a crash. `one_component_per_machine` is SP IV-E's "each machine can be
occupied by tasks from fewer than 2 operators". What SP leaves open is decided here: spare machines go one by one to the
component with the most executors per machine it has (the first declared among equals) while that is more than one; with
fewer machines than components the rule cannot be kept, so the topology is placed round robin and the reason says so. It
governs the placement of a topology nothing of which has a slot; executors that lose theirs later go round robin to
what is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Literal

from scheduler_plugins.model import (
    Component,
    Decision,
    Executor,
    Machine,
    Memory,
    Observation,
    Slot,
    Topology,
    living_slots,
    topologies_to_place,
    unplaced_tasks,
)


def place_topology(topology: Topology, slots: Sequence[Slot]) -> dict[int, Slot]:
    """All executors, by first task, over the first `workers` of `slots`: task → slot. Empty if there is no slot."""
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors]
    return round_robin(ranges, slots[: topology.workers])


TOO_FEW_SLOTS = "fewer slots than topologies: nothing is dealt out again"


def has_slot_for_each(topologies: Iterable[Topology], machines: Iterable[Machine]) -> bool:
    """Whether the living machines have a slot for every topology that is in one now."""
    return len(sort_slots(free_slots(machines, ()))) >= sum(bool(topology.placement) for topology in topologies)


def place_all(topologies: Sequence[Topology], machines: Iterable[Machine]) -> dict[str, dict[int, Slot]]:
    """Everything dealt out again over the living ones of `machines`: topology id → task → slot that changes.

    Each topology leaves one slot for each that follows it. With fewer slots than topologies those that run nowhere are
    left out; with fewer than run nothing changes: one without a new slot would stay on one that another is given.
    """
    alive = list(machines)
    if not has_slot_for_each(topologies, alive):
        return {}
    if len(sort_slots(free_slots(alive, ()))) < len(topologies):
        topologies = [topology for topology in topologies if topology.placement]
    dealt: dict[str, dict[int, Slot]] = {}
    taken: set[Slot] = set()
    for following, topology in zip(range(len(topologies) - 1, -1, -1), topologies, strict=True):
        slots = sort_slots(free_slots(alive, taken))
        placement = place_topology(topology, slots[: max(len(slots) - following, 1)])
        taken |= set(placement.values())
        dealt[topology.topology_id] = changed_slots(topology, placement)
    return dealt


def place_missing(topology: Topology, machines: Sequence[Machine], taken: Iterable[Slot]) -> dict[int, Slot]:
    """Executors without a slot over free slots up to `workers`, or else over the slots the topology already has."""
    missing = set(unplaced_tasks(topology))
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors if e.first_task in missing]
    own = sorted(set(topology.placement.values()) & living_slots(machines))  # a slot on a lost machine is none
    fresh = sort_slots(free_slots(machines, taken))[: max(topology.workers - len(own), 0)]
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
    """Slots that a topology is in, or will be once the change that is under way for it is carried out."""
    return {slot for each in topologies for slot in (*each.placement.values(), *each.planned.values())}


def executor_slots(topology: Topology) -> Iterator[tuple[Executor, Slot]]:
    """Executors that have a slot or are to get one, with the one that they will be in."""
    slots = {**topology.placement, **topology.planned}
    executors = (executor for component in topology.components for executor in component.executors)
    yield from ((executor, slots[executor.first_task]) for executor in executors if executor.first_task in slots)


def sort_slots(slots: Mapping[str, Sequence[Slot]]) -> list[Slot]:
    """Storm's order: machines by id, those with more free slots first, then one slot of each in turn."""
    groups = sorted((slots[supervisor] for supervisor in sorted(slots)), key=len, reverse=True)
    return interleave(groups)


def interleave(groups: Iterable[Sequence[Slot]]) -> list[Slot]:
    return [slot for turn in zip_longest(*groups) for slot in turn if slot is not None]


def changed_slots(topology: Topology, placement: Mapping[int, Slot]) -> dict[int, Slot]:
    return {task: slot for task, slot in placement.items() if topology.placement.get(task) != slot}


InitialRule = Literal["round_robin", "one_component_per_machine"]


def initial_decision(observation: Observation, memory: Memory, initial: InitialRule) -> Decision | None:
    """A slot for every executor without one, moving nothing else; None if all have one, or none is free.

    A pending event waits for it: what is decided on must be what runs.
    """
    waiting_topologies = topologies_to_place(observation)
    missing = sum(len(unplaced_tasks(topology)) for topology in waiting_topologies)
    taken = taken_slots(observation.topologies) if waiting_topologies else set()
    placed: dict[str, Mapping[int, Slot]] = {}
    said = []
    for topology in waiting_topologies:
        placement, how = _place_initially(topology, observation.machines, taken, initial)
        if placement:
            taken |= set(placement.values())
            placed[topology.topology_id] = placement
            said.append(how)
    if not placed:
        return None
    count = sum(map(len, placed.values()))
    waiting = "held: " if observation.event else ""
    reason = f"{waiting}placed {count} unplaced tasks {'; '.join(dict.fromkeys(said))}"
    if count < missing:
        reason += f"; {missing - count} found no slot"
    return Decision(placement=placed, memory=memory, reason=reason)


def with_slots(observation: Observation) -> Observation:
    """Return the observation without topologies that wait for a slot: nothing of them runs where none is free."""
    kept = tuple(t for t in observation.topologies if t.rebalancing or not unplaced_tasks(t))
    if len(kept) == len(observation.topologies):
        return observation
    ages = [math.inf if topology.samples_age_s is None else topology.samples_age_s for topology in kept]
    oldest_s = max(ages, default=math.inf)
    return replace(observation, topologies=kept, samples_age_s=oldest_s if math.isfinite(oldest_s) else None)


def _place_initially(
    topology: Topology, machines: Sequence[Machine], taken: set[Slot], initial: InitialRule
) -> tuple[dict[int, Slot], str]:
    round_robin = place_missing(topology, machines, taken)
    if initial == "round_robin" or topology.placement:
        return round_robin, "round robin"
    occupied = {slot.machine for slot in taken}
    empty = [m for m in machines if m.alive and m.ports and m.name not in occupied]
    needed = len(_operators(topology))
    if len(empty) < needed:
        found = f"{topology.name} has {needed} components, {len(empty)} machines are empty"
        return round_robin, f"round robin (refused: one_component_per_machine: {found})"
    return one_component_per_machine(topology, empty), "one component a machine"


def one_component_per_machine(topology: Topology, machines: Sequence[Machine]) -> dict[int, Slot]:
    """Task → slot over `machines`, empty ones and at least as many as components; `workers` slots shared evenly."""
    owned = _share_machines(_operators(topology), sorted(machines, key=lambda m: m.supervisor_id))
    quotas = _slot_quotas(topology.workers, sum(map(len, owned.values())))
    placement: dict[int, Slot] = {}
    for component in _operators(topology):
        groups = [[Slot(m.name, port) for port in sorted(m.ports)[: next(quotas)]] for m in owned[component.name]]
        placement |= round_robin(_ranges(component), interleave(groups))
    # Storm's own (ackers) belong to no operator: they join the workers that are there.
    own = sorted(set(placement.values()))
    system = [r for c in topology.components if c.kind == "system" for r in _ranges(c)]
    return placement | round_robin(system, own)


def _share_machines(components: Sequence[Component], machines: Sequence[Machine]) -> dict[str, list[Machine]]:
    counts = dict.fromkeys((c.name for c in components), 1)
    executors = {c.name: len(c.executors) for c in components}
    for _ in range(len(machines) - len(components)):
        name = max(counts, key=lambda n: executors[n] / counts[n])
        if executors[name] > counts[name]:
            counts[name] += 1
    left = iter(machines)
    return {name: [next(left) for _ in range(count)] for name, count in counts.items()}


def _slot_quotas(workers: int, machines: int) -> Iterator[int]:
    """Slots for each machine in turn: `workers` shared evenly, the first ones get the remainder, each at least one."""
    each, more = divmod(workers, machines)
    return (max(each + (index < more), 1) for index in range(machines))


def _ranges(component: Component) -> list[tuple[int, int]]:
    return [(e.first_task, e.last_task) for e in component.executors]


def _operators(topology: Topology) -> list[Component]:
    return [component for component in topology.components if component.kind != "system"]
