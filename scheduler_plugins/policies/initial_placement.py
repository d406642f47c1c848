"""Slots for executors: Storm's round robin, and the placement of executors without a slot, with which every policy
begins.

Round robin (Storm's EvenScheduler) takes executors in the order of their tasks over slots, machines in turn. Executors
have no slot at submission and after a crash. `one_component_per_machine` is SP IV-E's "each machine can be occupied by
tasks from fewer than 2 operators". Decisions where SP is silent: spare machines go one by one to the component with the
most executors per machine it has (the first declared among equals) while that is more than one; with fewer machines
than components the rule cannot be kept, so the topology is placed round robin and the reason says so. The rule applies
to a topology without any slot; executors that lose theirs later go round robin to the remaining slots.
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
    Memory,
    Observation,
    Slot,
    Topology,
    WorkerMachine,
    living_slots,
    topologies_to_place,
    unplaced_tasks,
)


def place_topology(topology: Topology, slots: Sequence[Slot]) -> dict[int, Slot]:
    """Place all executors, by first task, over the first `workers` of `slots`: task → slot. Empty without a slot."""
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors]
    return round_robin(ranges, slots[: topology.workers])


TOO_FEW_SLOTS = "fewer slots than topologies: nothing is dealt out again"


def has_slot_for_each(topologies: Iterable[Topology], machines: Iterable[WorkerMachine]) -> bool:
    """Return whether the living machines have a slot for every topology that is in one now."""
    return len(sort_slots(free_slots(machines, ()))) >= sum(bool(topology.placement) for topology in topologies)


def place_all(topologies: Sequence[Topology], machines: Iterable[WorkerMachine]) -> dict[str, dict[int, Slot]]:
    """Deal everything out again over the living ones of `machines`: topology id → task → slot that changes.

    Each topology leaves one slot for each that follows it. With fewer slots than topologies, those that run nowhere are
    left out; with fewer than running ones nothing changes: one without a new slot would stay on one that another gets.
    """
    candidates = list(machines)
    if not has_slot_for_each(topologies, candidates):
        return {}
    if len(sort_slots(free_slots(candidates, ()))) < len(topologies):
        topologies = [topology for topology in topologies if topology.placement]
    placements: dict[str, dict[int, Slot]] = {}
    slots_in_use: set[Slot] = set()
    for following, topology in zip(range(len(topologies) - 1, -1, -1), topologies, strict=True):
        slots = sort_slots(free_slots(candidates, slots_in_use))
        placement = place_topology(topology, slots[: max(len(slots) - following, 1)])
        slots_in_use |= set(placement.values())
        placements[topology.topology_id] = changed_slots(topology, placement)
    return placements


def place_missing(topology: Topology, machines: Sequence[WorkerMachine], taken: Iterable[Slot]) -> dict[int, Slot]:
    """Place executors without a slot over free slots up to `workers`, or else over the topology's present slots."""
    tasks = set(unplaced_tasks(topology))
    ranges = [(e.first_task, e.last_task) for c in topology.components for e in c.executors if e.first_task in tasks]
    present = sorted(set(topology.placement.values()) & living_slots(machines))  # not slots on lost machines
    new_slots = sort_slots(free_slots(machines, taken))[: max(topology.workers - len(present), 0)]
    return round_robin(ranges, new_slots or present)


def round_robin(ranges: Iterable[tuple[int, int]], slots: Sequence[Slot]) -> dict[int, Slot]:
    """Return task → slot for executors given as (first, last task), ascending over `slots`; empty without a slot."""
    if not slots:
        return {}
    return {
        task: slots[index % len(slots)]
        for index, (first, last) in enumerate(sorted(ranges))
        for task in range(first, last + 1)
    }


def free_slots(machines: Iterable[WorkerMachine], taken: Iterable[Slot]) -> dict[str, list[Slot]]:
    """Return supervisor id → free slots by port, of living machines."""
    slots_in_use = set(taken)
    slots = {m.supervisor_id: [Slot(m.name, port) for port in sorted(m.ports)] for m in machines if m.alive}
    return {supervisor: [s for s in mine if s not in slots_in_use] for supervisor, mine in slots.items()}


def taken_slots(topologies: Iterable[Topology]) -> set[Slot]:
    """Return slots that a topology is in, or will be once its pending change is carried out."""
    return {slot for each in topologies for slot in (*each.placement.values(), *each.planned.values())}


def executor_slots(topology: Topology) -> Iterator[tuple[Executor, Slot]]:
    """Yield executors that have a slot or will get one, with the one that they will be in."""
    slots = {**topology.placement, **topology.planned}
    executors = (executor for component in topology.components for executor in component.executors)
    yield from ((executor, slots[executor.first_task]) for executor in executors if executor.first_task in slots)


def sort_slots(slots: Mapping[str, Sequence[Slot]]) -> list[Slot]:
    """Return slots in Storm's order: machines by id, those with more free slots first, then one slot of each in
    turn."""
    groups = sorted((slots[supervisor] for supervisor in sorted(slots)), key=len, reverse=True)
    return interleave(groups)


def interleave(groups: Iterable[Sequence[Slot]]) -> list[Slot]:
    return [slot for turn in zip_longest(*groups) for slot in turn if slot is not None]


def changed_slots(topology: Topology, placement: Mapping[int, Slot]) -> dict[int, Slot]:
    return {task: slot for task, slot in placement.items() if topology.placement.get(task) != slot}


InitialRule = Literal["round_robin", "one_component_per_machine"]


def initial_decision(observation: Observation, memory: Memory, initial: InitialRule) -> Decision | None:
    """Return a slot for every executor without one, moving nothing else; None if all have one, or none is free.

    A pending event waits: a policy must decide on a placement that runs.
    """
    waiting_topologies = topologies_to_place(observation)
    number = sum(len(unplaced_tasks(topology)) for topology in waiting_topologies)
    slots_in_use = taken_slots(observation.topologies) if waiting_topologies else set()
    placements: dict[str, Mapping[int, Slot]] = {}
    notes = []
    for topology in waiting_topologies:
        placement, how = _place_initially(topology, observation.machines, slots_in_use, initial)
        if placement:
            slots_in_use |= set(placement.values())
            placements[topology.topology_id] = placement
            notes.append(how)
    if not placements:
        return None
    count = sum(map(len, placements.values()))
    prefix = "held: " if observation.event else ""
    reason = f"{prefix}placed {count} unplaced tasks {'; '.join(dict.fromkeys(notes))}"
    if count < number:
        reason += f"; {number - count} found no slot"
    return Decision(placement=placements, memory=memory, reason=reason)


def with_slots(observation: Observation) -> Observation:
    """Return the observation without topologies that wait for a slot, which do not run at all if none is free."""
    topologies = tuple(t for t in observation.topologies if t.rebalancing or not unplaced_tasks(t))
    if len(topologies) == len(observation.topologies):
        return observation
    ages = [math.inf if topology.samples_age_s is None else topology.samples_age_s for topology in topologies]
    oldest_s = max(ages, default=math.inf)
    return replace(observation, topologies=topologies, samples_age_s=oldest_s if math.isfinite(oldest_s) else None)


def _place_initially(
    topology: Topology, machines: Sequence[WorkerMachine], taken: set[Slot], initial: InitialRule
) -> tuple[dict[int, Slot], str]:
    round_robin = place_missing(topology, machines, taken)
    if initial == "round_robin" or topology.placement:
        return round_robin, "round robin"
    occupied = {slot.machine for slot in taken}
    empty_machines = [m for m in machines if m.alive and m.ports and m.name not in occupied]
    number = len(_operators(topology))
    if len(empty_machines) < number:
        problem = f"{topology.name} has {number} components, {len(empty_machines)} machines are empty"
        return round_robin, f"round robin (refused: one_component_per_machine: {problem})"
    return one_component_per_machine(topology, empty_machines), "one component a machine"


def one_component_per_machine(topology: Topology, machines: Sequence[WorkerMachine]) -> dict[int, Slot]:
    """Return task → slot over `machines`, empty ones and at least as many as components; `workers` slots shared
    evenly."""
    machines_of = _share_machines(_operators(topology), sorted(machines, key=lambda m: m.supervisor_id))
    quotas = _slot_quotas(topology.workers, sum(map(len, machines_of.values())))
    placement: dict[int, Slot] = {}
    for component in _operators(topology):
        groups = [[Slot(m.name, port) for port in sorted(m.ports)[: next(quotas)]] for m in machines_of[component.name]]
        placement |= round_robin(_ranges(component), interleave(groups))
    # Storm's own (ackers) belong to no operator: they join the present workers.
    worker_slots = sorted(set(placement.values()))
    system = [r for c in topology.components if c.kind == "system" for r in _ranges(c)]
    return placement | round_robin(system, worker_slots)


def _share_machines(
    components: Sequence[Component], machines: Sequence[WorkerMachine]
) -> dict[str, list[WorkerMachine]]:
    counts = dict.fromkeys((c.name for c in components), 1)
    executors = {c.name: len(c.executors) for c in components}
    for _ in range(len(machines) - len(components)):
        name = max(counts, key=lambda n: executors[n] / counts[n])
        if executors[name] > counts[name]:
            counts[name] += 1
    remainder = iter(machines)
    return {name: [next(remainder) for _ in range(count)] for name, count in counts.items()}


def _slot_quotas(workers: int, machines: int) -> Iterator[int]:
    """Return slots for each machine in turn: `workers` shared evenly, the first ones get the remainder, each at least
    one."""
    each, remainder = divmod(workers, machines)
    return (max(each + (index < remainder), 1) for index in range(machines))


def _ranges(component: Component) -> list[tuple[int, int]]:
    return [(e.first_task, e.last_task) for e in component.executors]


def _operators(topology: Topology) -> list[Component]:
    return [component for component in topology.components if component.kind != "system"]
