"""A Storm cluster as a scheduler sees it in one round, what is placed in it, and which workers restart.

Sources: Storm 2.8's Cluster, EvenScheduler and DefaultScheduler, and the bridge's Placement, StormSchedulers and
RequestBuilder; tests compare with both.

Errors: SchedulerFailed, AmbiguousMachine, OnlyInNimbus.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler_plugins.model import Executor, Slot, Topology, WorkerMachine, executor_ranges
from scheduler_plugins.policies.initial_placement import sort_slots
from scheduler_plugins.service.messages import PlacingScheduler, Request

if TYPE_CHECKING:
    from scheduler_plugins.driver.rounds import PlacementPlan

log = logging.getLogger(__name__)
TaskRange = tuple[int, int]
"""An executor as Storm names it: its first and its last task."""
Assignment = Mapping[TaskRange, Slot]


class SchedulerFailed(Exception):
    """A scheduler that was to place all threw: a result about it. `frames`: where, the innermost first."""

    blame = "system under test"

    def __init__(self, scheduler: PlacingScheduler, error: Exception) -> None:
        conf = json.dumps(dict(scheduler.conf))
        super().__init__(f"{scheduler.called()} with conf {conf} threw {type(error).__name__}: {error}")
        calls = reversed(traceback.extract_tb(error.__traceback__))
        self.frames = [f"{call.name}({Path(call.filename).name}:{call.lineno})" for call in calls][:8]


class AmbiguousMachine(Exception):
    """Two supervisors share a name."""

    blame = "configuration"


class OnlyInNimbus(Exception):
    """The answer wants a scheduler that places in a real Nimbus only."""

    blame = "configuration"

    def __init__(self, scheduler: PlacingScheduler) -> None:
        super().__init__(
            f"{scheduler.called()} places in a real Nimbus only; here are Storm's {' and '.join(sorted(PLACING_HERE))}."
            " Run this variant on machines, or leave it out"
        )


@dataclass(frozen=True)
class Supervisor:
    """`alive`: Nimbus has it. One that it has lost is known by name still, for assignments may name it."""

    name: str
    supervisor_id: str
    ports: tuple[int, ...]
    alive: bool = True
    blacklisted: bool = False


@dataclass(frozen=True)
class WorkerChanges:
    """Slots of one topology whose workers start, stop, or restart with other executors than before."""

    started: tuple[Slot, ...] = ()
    stopped: tuple[Slot, ...] = ()
    restarted: tuple[Slot, ...] = ()


def worker_changes(before: Assignment, after: Assignment) -> WorkerChanges:
    """Return what an assignment that follows another one does to workers. One whose own executors stay the same
    runs on, whatever becomes of the others."""
    was, now = (_executors_by_slot(each) for each in (before, after))
    return WorkerChanges(
        started=tuple(sorted(now.keys() - was.keys())),
        stopped=tuple(sorted(was.keys() - now.keys())),
        restarted=tuple(sorted(slot for slot in was.keys() & now.keys() if was[slot] != now[slot])),
    )


def _executors_by_slot(assignment: Assignment) -> dict[Slot, set[TaskRange]]:
    workers: dict[Slot, set[TaskRange]] = {}
    for executor, slot in assignment.items():
        workers.setdefault(slot, set()).add(executor)
    return workers


def task_ranges(topology: Topology) -> list[TaskRange]:
    """Its executors, by their first task."""
    return sorted((e.first_task, e.last_task) for c in topology.components for e in c.executors)


def with_executors(topology: Topology, executors: Mapping[str, int]) -> Topology:
    """The topology with as many executors of these components, more than tasks being cut, as Nimbus cuts them."""
    components = tuple(
        replace(
            c, executors=tuple(Executor(*r) for r in executor_ranges(c.tasks, min(executors[c.name], len(c.tasks))))
        )
        if c.name in executors
        else c
        for c in topology.components
    )
    return replace(topology, components=components)


@dataclass
class SchedulingCluster:
    """The input of a scheduler in one round, where it also places: Storm's Cluster and Topologies.

    `assignments`: by topology id; without an entry a topology has not been placed yet, or Nimbus hides its assignment,
    in the round of its rebalance. It has executors that are alive only. Topologies have neither placement nor rates.
    """

    supervisors: tuple[Supervisor, ...]
    topologies: Mapping[str, Topology]
    assignments: dict[str, dict[TaskRange, Slot]]

    def supervisor(self, machine: str) -> Supervisor | None:
        return next((s for s in self.supervisors if s.name == machine and s.alive), None)

    def offers(self, slot: Slot) -> bool:
        """Return whether the machine is there and has the port."""
        supervisor = self.supervisor(slot.machine)
        return supervisor is not None and not supervisor.blacklisted and slot.port in supervisor.ports

    def owners(self) -> dict[Slot, str]:
        """The topology whose worker is in a slot, by its id."""
        return {slot: topology_id for topology_id, mine in self.assignments.items() for slot in mine.values()}

    def used(self, topology_id: str) -> set[Slot]:
        return set(self.assignments.get(topology_id, {}).values())

    def unassigned(self, topology_id: str) -> list[TaskRange]:
        assigned = self.assignments.get(topology_id, {})
        return [executor for executor in task_ranges(self.topologies[topology_id]) if executor not in assigned]

    def assign(self, topology_id: str, placement: Assignment) -> None:
        if placement:
            self.assignments.setdefault(topology_id, {}).update(placement)

    def free(self, slots: Iterable[Slot]) -> None:
        """Whoever is in them. A topology that has no other slot has an assignment still, an empty one."""
        freed = set(slots)
        for topology_id, assignment in self.assignments.items() if freed else ():
            kept = {executor: slot for executor, slot in assignment.items() if slot not in freed}
            self.assignments[topology_id] = kept

    def free_slots(self) -> dict[str, list[Slot]]:
        """Return slots that are offered and have no worker, by supervisor id."""
        taken = self.owners()
        return {
            s.supervisor_id: [slot for port in sorted(s.ports) if (slot := Slot(s.name, port)) not in taken]
            for s in self.supervisors
            if s.alive and not s.blacklisted
        }

    def needing_slots(self) -> list[str]:
        """Topologies with fewer workers than they want, or an executor without a slot. Storm has them in the order of a
        hash table; here they are in that of their ids."""
        return [
            topology_id
            for topology_id in sorted(self.topologies)
            if self.topologies[topology_id].workers > len(self.used(topology_id)) or self.unassigned(topology_id)
        ]


def place_evenly(cluster: SchedulingCluster) -> None:
    """Storm's EvenScheduler: executors without a slot go round robin over free slots, one for each worker that is
    missing. Raises ValueError, as it does, for a topology that has more workers than it was submitted with."""
    for topology_id in cluster.needing_slots():
        free, running = sort_slots(cluster.free_slots()), len(cluster.used(topology_id))
        missing = min(cluster.topologies[topology_id].workers, len(free) + running) - running
        if free and missing < 0:
            raise ValueError(f"fromIndex(0) > toIndex({missing})")
        slots, executors = free[:missing], cluster.unassigned(topology_id)
        cluster.assign(topology_id, {e: slots[i % len(slots)] for i, e in enumerate(executors)} if slots else {})


def place_by_default(cluster: SchedulingCluster) -> None:
    """Storm's DefaultScheduler: where something is to be placed, workers that have more or fewer executors than an even
    share are freed first; then as EvenScheduler."""
    for topology_id in cluster.needing_slots():
        workers = _executors_by_slot(cluster.assignments.get(topology_id, {}))
        number, free = len(task_ranges(cluster.topologies[topology_id])), sum(map(len, cluster.free_slots().values()))
        slots = min(cluster.topologies[topology_id].workers, sum(map(cluster.offers, workers)) + free)
        if slots and (slots > len(workers) or cluster.unassigned(topology_id)):
            # Of several workers that are alike Storm keeps some in the order of a hash table; here the first ones stay.
            size, larger = divmod(number, slots)
            may_stay = {size: slots - larger, size + 1: larger}
            for slot in sorted(workers):
                left = may_stay.get(len(workers[slot]), 0)
                may_stay[len(workers[slot])] = left - 1
                if left <= 0:
                    cluster.free([slot])
        place_evenly(cluster)


def place_unplaced(cluster: SchedulingCluster, topology_id: str, slots: Mapping[int, Slot]) -> None:
    """Place what has no slot, an executor into the slot of its first task; what has one stays. What `slots` does not
    name, or what cannot be had, stays unplaced."""
    owners = cluster.owners()
    usable = {s for s in set(slots.values()) if cluster.offers(s) and owners.get(s, topology_id) == topology_id}
    waiting = cluster.unassigned(topology_id)
    cluster.assign(topology_id, {e: slots[e[0]] for e in waiting if slots.get(e[0]) in usable})


def place_planned(cluster: SchedulingCluster, plan: PlacementPlan, plans: Collection[PlacementPlan]) -> str | None:
    """Place a whole topology as planned. What another topology leaves by its own plan, one of `plans`, is taken from
    it: it waits without a slot for its own rebalance. Where a planned slot is not to be had nothing is moved:
    everything goes to where it was, and what cannot is placed evenly. Returns why, or None if all went as planned."""
    cluster.free(cluster.used(plan.topology_id))
    firsts = [first for first, _ in task_ranges(cluster.topologies[plan.topology_id])]
    wanted = {plan.after[first] for first in firsts if first in plan.after}
    gone = _not_to_be_had(cluster, plan, wanted, plans)
    if gone is None:
        cluster.free(_left(cluster, set(plan.after.values()), plans))
        place_unplaced(cluster, plan.topology_id, plan.after)
        return None
    place_unplaced(cluster, plan.topology_id, plan.before)
    place_rest_evenly(cluster)
    lost = f"slot {gone} was lost between decision and rebalance"
    return f"{f'another topology is in slot {gone}' if cluster.offers(gone) else lost}; nothing was moved"


def held_by_another(cluster: SchedulingCluster, plan: PlacementPlan, plans: Collection[PlacementPlan]) -> Slot | None:
    """A planned slot in which a worker of another topology is that does not leave it by any of `plans`."""
    return _not_to_be_had(cluster, plan, set(filter(cluster.offers, plan.after.values())), plans)


def _not_to_be_had(
    cluster: SchedulingCluster, plan: PlacementPlan, wanted: set[Slot], plans: Collection[PlacementPlan]
) -> Slot | None:
    owners, left = cluster.owners(), _left(cluster, wanted, plans)
    mine = {slot for slot in wanted if cluster.offers(slot) and owners.get(slot, plan.topology_id) == plan.topology_id}
    return min(wanted - mine - left, key=str, default=None)


def _left(cluster: SchedulingCluster, slots: set[Slot], plans: Collection[PlacementPlan]) -> set[Slot]:
    """Return those that a topology is in and leaves by its plan."""
    offered = set(filter(cluster.offers, slots))
    return {slot for plan in plans for slot in offered & cluster.used(plan.topology_id) if plan.leaves(slot)}


def is_as_planned(cluster: SchedulingCluster, plan: PlacementPlan) -> bool:
    """Return whether every executor is where the plan wants it."""
    placed = cluster.assignments.get(plan.topology_id)
    return placed is not None and all(
        (slot := placed.get(e)) is not None and cluster.supervisor(slot.machine) and slot == plan.after.get(e[0])
        for e in task_ranges(cluster.topologies[plan.topology_id])
    )


def place_rest_evenly(cluster: SchedulingCluster) -> None:
    """Place what has no slot as Storm's EvenScheduler does, in the workers that are missing, and where none is missing
    or can be had, in those that the topology has; move nothing."""
    for topology_id, topology in sorted(cluster.topologies.items()):
        if len(cluster.used(topology_id)) >= topology.workers:
            place_unplaced(cluster, topology_id, _in_own_workers(cluster, topology_id))
    try:
        place_evenly(cluster)
    except ValueError:
        log.exception("EvenScheduler failed")
    for topology_id in sorted(cluster.topologies):
        place_unplaced(cluster, topology_id, _in_own_workers(cluster, topology_id))


def _in_own_workers(cluster: SchedulingCluster, topology_id: str) -> dict[int, Slot]:
    own = sorted((s for s in cluster.used(topology_id) if cluster.supervisor(s.machine)), key=str)
    waiting = cluster.unassigned(topology_id)
    return {first: own[i % len(own)] for i, (first, _) in enumerate(waiting)} if own else {}


PLACING_HERE: Mapping[str, Callable[[SchedulingCluster], None]] = {"default": place_by_default, "even": place_evenly}


def place_by(scheduler: PlacingScheduler, cluster: SchedulingCluster) -> dict[str, str]:
    """Let one of Storm's schedulers do all placing of the round. Returns, by topology id, why executors are left
    without a slot. Raises SchedulerFailed, the cluster being as it was, and OnlyInNimbus."""
    if scheduler.name not in PLACING_HERE:
        raise OnlyInNimbus(scheduler)
    before = {topology_id: dict(mine) for topology_id, mine in cluster.assignments.items()}
    try:
        PLACING_HERE[scheduler.name](cluster)
    except Exception as error:
        cluster.assignments = before
        raise SchedulerFailed(scheduler, error) from error
    free = sum(map(len, cluster.free_slots().values()))
    machines = sum(supervisor.alive for supervisor in cluster.supervisors)
    words = f"Storm does not say why; {free} slots are free on {machines} machines"
    return {
        topology_id: f"{scheduler.name} left {len(left)} of {len(task_ranges(topology))} executors of {topology.name}"
        f" without a slot: {words}"
        for topology_id, topology in sorted(cluster.topologies.items())
        if (left := cluster.unassigned(topology_id))
    }


def request_of(
    cluster: SchedulingCluster, t: float, plans: Iterable[PlacementPlan], unplaced_why: Mapping[str, str]
) -> Request:
    """Return the request to the policy service in a round. `unplaced_why`: what Storm's own scheduler said of executors
    that it did not place, by topology id. Raises AmbiguousMachine."""
    planned = {plan.topology_id: plan for plan in plans}
    topologies = tuple(
        replace(
            topology,
            components=tuple(sorted(topology.components, key=lambda c: c.tasks[0])),
            edges=tuple(sorted(topology.edges, key=lambda e: (e.source, e.stream, e.target))),
            placement={
                task: slot
                for (first, last), slot in sorted(cluster.assignments.get(topology_id, {}).items())
                for task in range(first, last + 1)
            },
            planned=dict(sorted(planned[topology_id].after.items())) if topology_id in planned else {},
            rebalancing=topology_id in planned,
            unplaced_why=unplaced_why.get(topology_id),
        )
        for topology_id, topology in sorted(cluster.topologies.items())
    )
    return Request(t, _machines(cluster), topologies)


def _machines(cluster: SchedulingCluster) -> tuple[WorkerMachine, ...]:
    """Return the cluster's machines, and those that it has lost and assignments name, with the ports in use."""
    names: dict[str, str] = {}
    machines, owners = [], cluster.owners()
    for each in cluster.supervisors:
        if each.alive and each.name in names:
            both = f"supervisors {names[each.name]} and {each.supervisor_id} are both named {each.name}"
            raise AmbiguousMachine(f"{both}; set storm.local.hostname")
        if each.alive:
            names[each.name] = each.supervisor_id
        ports = each.ports if each.alive else [slot.port for slot in owners if slot.machine == each.name]
        if each.alive or ports:
            is_there = each.alive and not each.blacklisted
            machines.append(WorkerMachine(each.name, each.supervisor_id, tuple(sorted(ports)), is_there))
    return tuple(machines)
