"""Reasons not to carry out a decision, and the workers that restart for one that is carried out. The only place where a
decision is judged: the bridge in Nimbus keeps out of Storm only what would corrupt it (AnswerCheck.java). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scheduler_plugins.model import (
    FOREIGN,
    LONGEST_WAIT_S,
    STORM_SCHEDULERS,
    Decision,
    Observation,
    Slot,
    Topology,
    executor_ranges,
    living_slots,
)

RefusalReason = Literal[
    "unknown_topology",
    "under_way",
    "unknown_component",
    "unknown_task",
    "unknown_slot",
    "unknown_machine",
    "unknown_scheduler",
    "executors_out_of_range",
    "slot_taken",
    "machine_in_use",
    "no_scheduler",
    "two_placers",
    "wait_out_of_range",
    "acquire_out_of_range",
]


@dataclass(frozen=True)
class Refusal:
    why: RefusalReason
    message: str


def refusal(observation: Observation, decision: Decision) -> Refusal | None:
    """Return the first reason not to carry out `decision` on that observation; None without one."""
    return next(_refusals(observation, decision), None)


def _refusals(observation: Observation, decision: Decision) -> Iterator[Refusal]:
    topologies = {topology.topology_id: topology for topology in observation.topologies}
    living = living_slots(observation.machines)
    for topology_id in sorted({*decision.executors, *decision.placement, *decision.rebalance}):
        if topology_id not in topologies:
            yield Refusal("unknown_topology", f"topology {topology_id} was not observed")
        elif topologies[topology_id].rebalancing and (
            decision.executors.get(topology_id)
            or decision.placement.get(topology_id)
            or topology_id in decision.rebalance
        ):
            name = topologies[topology_id].name
            yield Refusal("under_way", f"an earlier change of {name} is not carried out yet; wait until it is")
        else:
            yield from _executor_refusals(topologies[topology_id], decision)
            yield from _placement_refusals(topologies[topology_id], decision, living)
    yield from _slot_conflicts(observation, decision)
    yield from _release_refusals(observation, decision)
    yield from _delegation_refusals(decision)
    if type(decision.wait_s) is not int or not 0 <= decision.wait_s <= LONGEST_WAIT_S:  # a policy sets it freely
        limits = f"allowed are whole numbers from 0 to {LONGEST_WAIT_S}"
        yield Refusal("wait_out_of_range", f"wait_s is {decision.wait_s!r}; {limits}")
    if type(decision.acquire) is not int or decision.acquire < 0:
        words = f"acquire is {decision.acquire!r}; allowed are whole numbers from 0"
        yield Refusal("acquire_out_of_range", words)


def _executor_refusals(topology: Topology, decision: Decision) -> Iterator[Refusal]:
    tasks = {component.name: len(component.tasks) for component in topology.components}
    for name, executors in decision.executors.get(topology.topology_id, {}).items():
        if name not in tasks:
            yield Refusal("unknown_component", f"{topology.name} has no component {name}")
        elif type(executors) is not int or not 1 <= executors <= tasks[name]:  # a policy sets it freely
            limits = f"allowed are whole numbers from 1 to {tasks[name]}"
            yield Refusal("executors_out_of_range", f"executors of {topology.name}'s {name} is {executors!r}; {limits}")


def _placement_refusals(topology: Topology, decision: Decision, offered: set[Slot]) -> Iterator[Refusal]:
    tasks = {task for component in topology.components for task in component.tasks}
    for task, slot in decision.placement.get(topology.topology_id, {}).items():
        if task not in tasks:
            yield Refusal("unknown_task", f"{topology.name} has no task {task}")
        elif slot not in offered:
            yield Refusal("unknown_slot", f"task {task} is to go to {slot}, which no living machine offers")


def _slot_conflicts(observation: Observation, decision: Decision) -> Iterator[Refusal]:
    """Yield conflicts of slots that this decision gives; during an exchange of slots between two topologies, one still
    has what the other will have."""
    for topology in observation.topologies:
        new_slots = dict.fromkeys(decision.placement.get(topology.topology_id, {}).values())
        for topology_2 in observation.topologies if new_slots else ():
            slots_of_tasks = {**topology_2.placement, **decision.placement.get(topology_2.topology_id, {})}
            occupied = {*slots_of_tasks.values(), *topology_2.planned.values()} if topology_2 is not topology else set()
            for slot in new_slots:
                if slot in occupied:
                    words = f"{slot} would belong to {topology_2.topology_id} and to {topology.topology_id}"
                    yield Refusal("slot_taken", words)


def _release_refusals(observation: Observation, decision: Decision) -> Iterator[Refusal]:
    """Yield machines to release that some executor would still use once the decision is applied."""
    machines = set(decision.release)
    for machine in sorted(machines - {machine.name for machine in observation.machines}):
        yield Refusal("unknown_machine", f"machine {machine}, to be released, was not observed")
    for topology in observation.topologies if machines else ():
        pending_slots = {task: slot for task, slot in topology.planned.items() if topology.rebalancing}
        for task, slot in (slots_after(topology, decision) | pending_slots).items():
            if slot.machine in machines:
                what = f"{topology.name}'s executor of task {task} would be on it"
                yield Refusal("machine_in_use", f"machine {slot.machine} is to be released, but {what}")


def slots_after(topology: Topology, decision: Decision) -> dict[int, Slot]:
    """Return first task → slot of every executor that has one once `decision` is applied."""
    slots = {**topology.placement, **decision.placement.get(topology.topology_id, {})}
    return {first: slots[first] for first, _ in _executors_after(topology, decision) if first in slots}


def _executors_after(topology: Topology, decision: Decision) -> Iterator[tuple[int, int]]:
    """Yield the (first, last) task of every executor."""
    numbers = decision.executors.get(topology.topology_id, {})
    for component in topology.components:
        number = numbers.get(component.name, len(component.executors))
        if number == len(component.executors):
            yield from ((executor.first_task, executor.last_task) for executor in component.executors)
        else:
            yield from executor_ranges(component.tasks, number)


def restarting_slots(observation: Observation, decision: Decision) -> tuple[str, ...] | None:
    """Return slots whose workers restart because the decision moves or cuts running executors, or gives them more;
    None: any may. A task that gets its first slot restarts nothing.
    """
    if decision.rebalance:
        return None
    slots: set[str] = set()
    for topology in observation.topologies:
        executors_before, executors_after = (_running_executors(topology, each) for each in (Decision(), decision))
        slots |= {str(slot) for slot, _ in executors_before ^ executors_after}
        slots_in_use, placement = set(topology.placement.values()), decision.placement.get(topology.topology_id, {})
        slots |= {
            str(slot) for task, slot in placement.items() if task not in topology.placement and slot in slots_in_use
        }
    return tuple(sorted(slots))


def _running_executors(topology: Topology, decision: Decision) -> set[tuple[Slot, tuple[int, int]]]:
    """Return executors where the decision has them, without those whose tasks have no slot yet."""
    slots = slots_after(topology, decision)
    return {
        (slots[first], (first, last))
        for first, last in _executors_after(topology, decision)
        if first in slots and first in topology.placement
    }


def _delegation_refusals(decision: Decision) -> Iterator[Refusal]:
    if decision.scheduler is None:
        if decision.rebalance:
            yield Refusal("no_scheduler", "topologies to place anew, but no scheduler of Storm's that does")
        return
    if decision.scheduler == FOREIGN:
        if not decision.scheduler_class:
            yield Refusal("unknown_scheduler", "a foreign scheduler without its class")
    elif decision.scheduler not in STORM_SCHEDULERS:
        names = ", ".join(STORM_SCHEDULERS)
        yield Refusal("unknown_scheduler", f"scheduler {decision.scheduler} is not Storm's; known are {names}")
    if any(decision.executors.values()) or any(decision.placement.values()) or decision.release:
        problem = f"the {decision.scheduler} scheduler is to place, and the decision places or releases too"
        yield Refusal("two_placers", f"{problem}; only one of them can")
