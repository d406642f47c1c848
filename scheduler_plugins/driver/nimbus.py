"""Storm's Nimbus without a scheduler: rounds, rebalances, kills, and how it notices that machines die.

Time is passed in, `Nimbus.advance`; between two advances nothing happens. Source: Nimbus of Storm 2.8 (mkAssignments,
doRebalance, the transitions of a topology's status).

Errors: StormRefusal, in Nimbus' own words.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Literal, Protocol

from scheduler_plugins.driver.cluster import (
    Assignment,
    SchedulingCluster,
    Supervisor,
    TaskRange,
    task_ranges,
    with_executors,
    worker_changes,
)
from scheduler_plugins.model import Slot, Topology

Status = Literal["ACTIVE", "REBALANCING", "KILLED"]


class StormRefusal(Exception):
    """Nimbus does not do what it is asked to."""

    blame = "harness"


class Scheduler(Protocol):
    """The scheduler in Nimbus; the bridge's is `rounds.Rounds`."""

    def round(self, cluster: SchedulingCluster) -> None: ...

    def after_round(self) -> None:
        """Work in the background: it may ask for rebalances."""


@dataclass(frozen=True)
class NimbusSettings:
    """Settings of storm.yaml, as the role `storm` writes them; in seconds."""

    monitor_s: float = 2.0  # nimbus.monitor.freq.secs: between two rounds
    session_s: float = 10.0  # storm.zookeeper.session.timeout: a machine that died is in the cluster for so long
    task_timeout_s: float = 20.0  # nimbus.task.timeout.secs: its executors may be placed elsewhere after it
    task_launch_s: float = 120.0  # nimbus.task.launch.secs: an executor that was placed is not given up before
    call_s: float = 0.05  # until Nimbus has taken up a rebalance; measured: 20 to 64 ms


@dataclass(frozen=True)
class AssignmentChange:
    """A round, or the end of a topology, has changed an assignment: `worker_changes(before, after)`."""

    t: float
    topology_id: str
    before: Assignment
    after: Assignment


@dataclass
class _Record:
    """Nimbus' record of a topology. `since_s`: when the executors of a slot were placed there."""

    topology: Topology
    launched_s: float
    status: Status = "ACTIVE"
    assignment: Assignment | None = None
    since_s: Mapping[Slot, float] = field(default_factory=dict)
    silent: set[TaskRange] = field(default_factory=set)  # executors that send no heartbeats, though their machine does
    executors: Mapping[str, int] = field(default_factory=dict)  # of the rebalance under way
    wait_s: float = 0.0  # of the rebalance or the kill under way


class Nimbus:
    """One Nimbus and what it knows of its cluster. Set `scheduler` before the first advance.

    A topology is active while its status is: its spouts are not asked for tuples in the wait of a rebalance or a kill.
    """

    scheduler: Scheduler

    def __init__(self, settings: NimbusSettings = NimbusSettings(), start_s: float = 0.0) -> None:
        self.settings, self.now_s = settings, start_s
        self._supervisors: dict[str, Supervisor] = {}  # by id
        self._down_s: dict[str, float] = {}  # machine → since when
        self._records: dict[str, _Record] = {}  # by topology id
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order, self._called_s = count(), start_s
        self._changes: list[AssignmentChange] = []
        self._in(0.0, self._tick)

    def clock(self) -> float:
        return self.now_s

    @property
    def next_s(self) -> float:
        """When something happens next; infinity: nothing will."""
        return self._due[0][0] if self._due else math.inf

    def advance(self, until_s: float) -> tuple[AssignmentChange, ...]:
        """Let time pass. Returns what changed, in its order."""
        while self.next_s <= until_s:
            due_s, _, happen = heapq.heappop(self._due)
            self.now_s = max(self.now_s, due_s)
            happen()
        self.now_s = max(self.now_s, until_s)
        changes, self._changes = tuple(self._changes), []
        return changes

    def _in(self, seconds: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_s + seconds, next(self._order), happen))

    def _tick(self) -> None:
        self._in(self.settings.monitor_s, self._tick)  # first: whatever a round raises, the next one comes
        self.round()

    # What Nimbus knows

    def topology(self, topology_id: str) -> Topology:
        """Return the topology with its executors as they are now."""
        return self._records[topology_id].topology

    def topology_ids(self) -> tuple[str, ...]:
        return tuple(self._records)

    def status(self, topology_id: str) -> Status:
        return self._records[topology_id].status

    def assignment(self, topology_id: str) -> Assignment:
        """Executors that died are in it until the round that places them elsewhere."""
        return self._records[topology_id].assignment or {}

    def _record_of(self, name: str) -> tuple[str, _Record]:
        for topology_id, record in self._records.items():
            if record.topology.name == name:
                return topology_id, record
        raise StormRefusal(f"{name} is not alive")

    # What happens to machines

    def machine_up(self, supervisor: Supervisor) -> None:
        """It registers, or comes back; its workers send heartbeats again."""
        if self._down_s.pop(supervisor.name, None) is not None:
            self._supervisors = {i: s for i, s in self._supervisors.items() if s.name != supervisor.name}
        self._supervisors[supervisor.supervisor_id] = supervisor

    def machine_down(self, machine: str) -> None:
        """It died, was cut off, or left: nothing comes from it any more, which Nimbus notices by and by."""
        self._down_s.setdefault(machine, self.now_s)

    def lose_executors(self, topology_id: str, executors: Iterable[TaskRange]) -> None:
        """Nimbus has had no heartbeat of these for too long; the next round may place them anew."""
        self._records[topology_id].silent.update(executors)

    # What Nimbus is asked for

    def submit(self, topology: Topology) -> None:
        """It is placed in the next round. One with a `placement` runs there already, since `uptime_s`."""
        if any(record.topology.name == topology.name for record in self._records.values()):
            raise StormRefusal(f"{topology.name} is already alive")
        running = topology.placement
        placed = {executor: running[executor[0]] for executor in task_ranges(topology) if executor[0] in running}
        launched_s = self.now_s - (topology.uptime_s or 0)
        record = _Record(replace(topology, placement={}), launched_s, assignment=placed if placed else None)
        record.since_s = dict.fromkeys(placed.values(), launched_s)
        self._records[topology.topology_id] = record

    def kill(self, name: str, wait_s: float = 30.0) -> None:
        """Deactivate its sources, and end it after the wait: as long as Storm's own command waits where it is not told,
        `topology.message.timeout.secs`, 30 in defaults.yaml. Raises StormRefusal for a name that is not there."""
        topology_id, record = self._record_of(name)
        record.status, record.wait_s = "KILLED", wait_s
        self._in(wait_s, partial(self.remove, topology_id))

    def rebalance(self, name: str, executors: Mapping[str, int], wait_s: float) -> None:
        """Cut these components' executors anew after the wait, and have all placed that then has no slot: the
        topology's assignment is hidden in that round. Raises StormRefusal, also while another rebalance or the kill is
        under way."""
        topology_id, record = self._record_of(name)
        if record.status != "ACTIVE":
            raise StormRefusal(f"No transition for event: REBALANCE, status: {record.status} storm-id: {topology_id}")
        if any(number < 1 for number in executors.values()):
            raise StormRefusal("Number of executors must be greater than 0")
        record.status, record.executors, record.wait_s = "REBALANCING", dict(executors), wait_s
        self._called_s = max(self.now_s, self._called_s) + self.settings.call_s
        self._in(self._called_s - self.now_s + wait_s, partial(self.carry_out_rebalance, topology_id))

    def restart(self, scheduler: Scheduler) -> None:
        """Another Nimbus takes over, with a scheduler of its own. What waits begins its wait again."""
        self.scheduler, self._due = scheduler, []
        self._in(0.0, self._tick)
        for topology_id, record in self._records.items():
            if record.status == "REBALANCING":
                self._in(record.wait_s, partial(self.carry_out_rebalance, topology_id))
            elif record.status == "KILLED":
                self._in(record.wait_s, partial(self.remove, topology_id))

    # What it does

    def carry_out_rebalance(self, topology_id: str) -> None:
        """After its wait; nothing where the topology has been killed meanwhile."""
        record = self._records.get(topology_id)
        if record is not None and record.status == "REBALANCING":
            self.change_executors(topology_id)
            self.round(rebalanced=topology_id)

    def change_executors(self, topology_id: str) -> None:
        """Cut executors as the rebalance under way asks. Those that differ have no slot until they are placed."""
        record = self._records[topology_id]
        record.topology, record.executors = with_executors(record.topology, record.executors), {}

    def remove(self, topology_id: str) -> None:
        """After the wait of its kill."""
        record = self._records.get(topology_id)
        if record is not None and record.status == "KILLED":
            del self._records[topology_id]
            if record.assignment:
                self._changes.append(AssignmentChange(self.now_s, topology_id, record.assignment, {}))

    def round(self, rebalanced: str | None = None) -> None:
        """A scheduling round; `rebalanced`: the topology whose rebalance is carried out in it."""
        cluster = self.cluster(rebalanced)
        self.scheduler.round(cluster)
        for topology_id, record in self._records.items():
            if topology_id in cluster.assignments or (topology_id == rebalanced and record.assignment is not None):
                before, after = record.assignment or {}, cluster.assignments.get(topology_id, {})
                record.assignment, record.silent = after, set()
                if before != after:
                    changes = worker_changes(before, after)
                    fresh = {*changes.started, *changes.restarted}
                    record.since_s = {s: self.now_s if s in fresh else record.since_s[s] for s in set(after.values())}
                    self._changes.append(AssignmentChange(self.now_s, topology_id, before, after))
        if rebalanced is not None:
            self._records[rebalanced].status = "ACTIVE"
        self.scheduler.after_round()

    def cluster(self, hidden: str | None = None) -> SchedulingCluster:
        """Return what a scheduler is shown now, without the assignment of the topology `hidden`."""
        supervisors = []
        for supervisor_id in sorted(self._supervisors):
            down_s = self._down_s.get(self._supervisors[supervisor_id].name)
            is_alive = down_s is None or self.now_s - down_s < self.settings.session_s
            supervisors.append(replace(self._supervisors[supervisor_id], alive=is_alive))
        return SchedulingCluster(
            supervisors=tuple(supervisors),
            topologies={
                topology_id: replace(record.topology, uptime_s=int(self.now_s - record.launched_s))
                for topology_id, record in self._records.items()
            },
            assignments={
                topology_id: self._alive(record)
                for topology_id, record in self._records.items()
                if record.assignment is not None and topology_id != hidden
            },
        )

    def _alive(self, record: _Record) -> dict[TaskRange, Slot]:
        """Without executors that are cut otherwise now, and those whose heartbeats are missing for too long."""
        now_s, limits = self.now_s, self.settings
        down = {machine for machine, down_s in self._down_s.items() if now_s - down_s > limits.task_timeout_s}
        slots = record.since_s.items()
        dead = {slot for slot, since_s in slots if slot.machine in down and now_s - since_s >= limits.task_launch_s}
        there = set(task_ranges(record.topology)) - record.silent
        return {e: slot for e, slot in (record.assignment or {}).items() if e in there and slot not in dead}
