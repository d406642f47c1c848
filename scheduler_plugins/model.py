"""The input and the output of a policy.

A policy is one pure function `decide(observation, memory) -> Decision`. It suggests; the driver (the policy service
in front of Nimbus, or a replay) validates, applies or refuses. Both values are plain frozen data: a missing
measurement is `None`, never 0, and units are in the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

ACKER = "__acker"  # Storm's component, whose lines count only its executed tuples
SYSTEM_PREFIX = "__"  # of the names of Storm's own components and streams
STORM_SCHEDULERS = ("default", "even", "resource_aware", "isolation")
FOREIGN = "foreign"  # a foreign scheduler, named by its class
SINKS, SPOUTS = "sinks", "spouts"  # where throughput is measured, unless at the component of another name
LONGEST_WAIT_S = 600  # of a rebalance
SHORTEST_ROUND_S, LONGEST_ROUND_S = 2.0, 3600.0  # between two decisions of a policy that acts by itself
ActionKind = Literal["reconfigure", "reduce", "revert", "move", "acquire", "release"]
Memory = Mapping[str, Any]
"""JSON data that travels in and out, so that a decision log replays.

What stands under `topologies`, by topology id, belongs to that topology. Where a decision is not carried out for one
topology, this part is as it was before the decision; where it is carried out for none, and nothing has been decided
since, the whole memory is.
"""
TOPOLOGIES = "topologies"  # key of a memory


@dataclass(frozen=True, order=True)
class Slot:
    """One port of a machine, written `m1:6700`; one worker runs in it."""

    machine: str
    port: int

    def __str__(self) -> str:
        return f"{self.machine}:{self.port}"

    @staticmethod
    def parse(text: str) -> Slot:
        """Read `m1:6700`. Raises ValueError for anything else."""
        machine, colon, port = text.rpartition(":")
        if not (colon and machine and port.isdigit()):
            raise ValueError(f"slot {text!r} is not of the form machine:port")
        return Slot(machine, int(port))


@dataclass(frozen=True)
class WorkerMachine:
    """A machine of workers, as Nimbus knows its supervisor."""

    name: str
    supervisor_id: str  # Storm orders machines by it
    ports: tuple[int, ...]  # of its slots, taken or free
    alive: bool = True
    cores: float | None = None  # that it may use: its quota if it has one; None until its probe has said so
    cpu_load: float | None = None  # cores in use, mean over the rate window
    runnable: float | None = None  # threads that run or wait for a CPU, mean over the rate window


def living_slots(machines: Iterable[WorkerMachine]) -> set[Slot]:
    """Return all slots of machines that are alive, taken or free."""
    return {Slot(machine.name, port) for machine in machines if machine.alive for port in machine.ports}


@dataclass(frozen=True)
class Executor:
    """A thread: a contiguous range of a component's tasks, both ends included, and its rates over the window."""

    first_task: int
    last_task: int
    emitted_per_s: float | None = None  # tuples
    executed_per_s: float | None = None  # tuples
    execute_ms: float | None = None  # mean per tuple
    capacity: float | None = None  # share of the window spent executing, 0 to 1
    queue: float | None = None  # tuples waiting, latest
    backpressure_ms_per_s: float | None = None  # waited because a queue after it was full, 0 to 1000
    cpu_load: float | None = None  # cores in use by its thread, mean over the window


@dataclass(frozen=True)
class Component:
    """A spout, a bolt, or one of Storm's own (`system`), and its rates over the topology's window: sums over its tasks
    unless stated otherwise. A tuple that goes to several components counts once for each stream on which it is emitted.
    """

    name: str
    kind: Literal["spout", "bolt", "system"]
    tasks: tuple[int, ...]  # task ids, ascending; their number is fixed at submission
    executors: tuple[Executor, ...]
    emitted_per_s: float | None = None  # tuples
    executed_per_s: float | None = None  # tuples
    execute_ms: float | None = None  # mean per tuple, over all tasks
    capacity: float | None = None  # of the busiest executor, 0 to 1 (HP 4.2)
    queue: float | None = None  # tuples waiting, latest
    due_per_s: float | None = None  # spouts: tuples that were to be emitted
    behind_ms: float | None = None  # spouts: age of the oldest tuple that is due and not emitted
    backpressure_ms_per_s: float | None = None  # 0 to 1000 for each executor


@dataclass(frozen=True)
class Edge:
    """A stream of one component to which another one subscribes, both by name, and its rates over the window."""

    source: str
    stream: str
    target: str
    grouping: str  # in a word, as Flux has it: shuffle, fields, all …
    tuples_per_s: float | None = None  # as emitted towards the target
    executed_per_s: float | None = None  # by the target, of those that came over this edge


@dataclass(frozen=True)
class ServiceLevel:
    """The goal that a topology's owner sets (HP 4.1); utility is earned by meeting it. One of the two levels, or
    both."""

    latency_ms: float | None = None  # at most: mean over all tuples
    juice: float | None = None  # at least: share of the input that is processed (HP 5), 0 to 1
    max_utility: float = 1.0  # where the level is met; less in proportion where it is not


@dataclass(frozen=True)
class Topology:
    """A submitted topology: its shape, the slots of its tasks, and rates as means over one window."""

    topology_id: str  # Storm's, of this submission
    name: str
    workers: int  # slots that it uses at most
    components: tuple[Component, ...]
    edges: tuple[Edge, ...]
    placement: Mapping[int, Slot] = field(default_factory=dict)  # task → slot; without a slot a task is missing
    uptime_s: float | None = None
    rebalancing: bool = False  # a change is under way: until it is carried out the topology gets no other
    planned: Mapping[int, Slot] = field(default_factory=dict)  # task → slot once that change is carried out
    unplaced_why: str | None = None  # the reason of Storm's own scheduler for executors without a slot
    samples_age_s: float | None = None  # age of its oldest worker's newest sample; None: one has not sent any
    window_s: float | None = None  # length of the window that every rate here is a mean over
    window_fault: str | None = None  # why its rates cannot be used for a decision: a worker began or was silent in it
    sink_tuples_per_s: float | None = None  # executed at all sinks together
    latency_ms: float | None = None  # mean over the window, intended emission to sink
    service_level: ServiceLevel | None = None
    traffic: Mapping[tuple[int, int], float] = field(
        default_factory=dict
    )  # (task, task) → tuples/s, if recorded; logged where read

    def component(self, name: str) -> Component:
        return next(component for component in self.components if component.name == name)

    def sinks(self) -> tuple[str, ...]:
        """Return components that emit to no other and receive from one, in declared order."""
        sources, targets = {edge.source for edge in self.edges}, {edge.target for edge in self.edges}
        return tuple(c.name for c in self.components if c.name in targets and c.name not in sources)

    def measured(self, throughput: str) -> frozenset[str]:
        """Return the components whose tuples are the throughput: of `sinks`, of `spouts`, or the one of that name."""
        spouts = tuple(c.name for c in self.components if c.kind == "spout")
        return frozenset({SINKS: self.sinks(), SPOUTS: spouts}.get(throughput, (throughput,)))


@dataclass(frozen=True)
class ScaleEvent:
    """A change that the harness has requested and no policy has decided yet."""

    event_id: str
    kind: Literal["scale_out", "scale_in", "reschedule"]  # the last: a new placement with the same machines
    joined: tuple[str, ...] = ()  # machines new to the cluster
    leave: int = 0  # the number of machines to leave; the policy chooses them (Decision.release)


@dataclass(frozen=True)
class Failure:
    """A part of an earlier decision that was not carried out."""

    decision_id: str
    topology_id: str
    why: str


@dataclass(frozen=True)
class HeldRequest:
    """A request of a policy, by `acquire` or `release` in a hold, and its outcome so far."""

    request_id: str
    kind: Literal["acquire", "release"]
    number: int  # of machines
    machines: tuple[str, ...] = ()  # that are to leave; of `acquire` those that joined, once it is done
    outcome: Literal["under_way", "done", "refused", "failed"] = "under_way"
    why: str = ""  # it was refused, or failed


@dataclass(frozen=True)
class MachineLimits:
    """The experiment's bounds on the machines of a policy in a hold."""

    min: int
    max: int
    now: int  # alive, and not released


@dataclass(frozen=True)
class Observation:
    time_s: float  # seconds since the epoch, or of simulated time
    machines: tuple[WorkerMachine, ...]
    topologies: tuple[Topology, ...]
    samples_age_s: float | None = None  # the oldest of the topologies'; None: a worker has not sent any
    event: ScaleEvent | None = None
    may_act: bool = False  # the policy may act by itself now; else only for tasks without a slot, or for the event
    failures: tuple[Failure, ...] = ()  # missing from all earlier observations
    machine_requests: tuple[HeldRequest, ...] = ()  # the policy's: the newest finished one, and the one under way
    machine_limits: MachineLimits | None = None  # None: it may neither request nor release machines by itself
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # name → machines of the start, if it has any


@dataclass(frozen=True)
class Decision:
    """A decision, which has only changes: an empty one is normal and keeps everything."""

    executors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # topology id → component → executors
    placement: Mapping[str, Mapping[int, Slot]] = field(default_factory=dict)  # topology id → task → slot
    release: tuple[str, ...] = ()  # machines that may leave once the decision is applied: nothing stays on them
    acquire: int = 0  # number of machines to add; only where the policy may act by itself
    memory: Memory = field(default_factory=dict)
    reason: str = ""
    settled: bool = False  # the pending scale event needs nothing (more)
    scheduler: str | None = None  # one of STORM_SCHEDULERS, or FOREIGN, that does all placing in this round
    scheduler_conf: Mapping[str, Any] = field(default_factory=dict)  # Storm's settings, laid over Nimbus' own for it
    rebalance: tuple[str, ...] = ()  # topology ids to unassign wholly, for `scheduler` to place again
    scheduler_class: str | None = None  # of FOREIGN
    wait_s: int = 0  # that Storm waits with the topology deactivated before it carries the change out
    rest_s: float = 0.0  # time in which the policy does not want to act by itself again
    kind: ActionKind | None = None  # of action, for the record; None: the one that its changes show
    groups: Mapping[str, str] = field(default_factory=dict)  # machine that joined → group, for the record

    def changes(self) -> bool:
        machine_changes = self.release or self.rebalance or self.acquire
        return any(self.executors.values()) or any(self.placement.values()) or bool(machine_changes)


Policy = Callable[[Observation, Memory], Decision]


def action_kind(decision: Decision, observation: Observation) -> ActionKind | None:
    """Return the kind of a decision: the policy's, else `reconfigure` where a component gets more executors, `reduce`
    where they only get fewer, then `acquire`, `move`, `release`. None: it changes nothing."""
    if decision.kind is not None or not decision.changes():
        return decision.kind
    before = {(topology.topology_id, component.name): len(component.executors)
              for topology in observation.topologies for component in topology.components}  # fmt: skip
    changes = [
        number - before.get((topology, component), 0)
        for topology, executors in decision.executors.items() for component, number in executors.items()
    ]  # fmt: skip
    if any(changes):
        return "reconfigure" if max(changes) > 0 else "reduce"
    if decision.acquire:
        return "acquire"
    return "move" if any(decision.placement.values()) or decision.rebalance else "release"


def executor_ranges(tasks: tuple[int, ...], executors: int) -> tuple[tuple[int, int], ...]:
    """Return the (first, last) task of each executor as Storm will cut them: contiguous, larger ranges first.

    `tasks` ascending, `1 <= executors <= len(tasks)`. Source: Storm's Nimbus.computeExecutors and
    Utils.partitionFixed; tests compare with Storm itself.
    """
    if not 1 <= executors <= len(tasks):
        raise ValueError(f"executors is {executors}; allowed are 1 to {len(tasks)}, the number of tasks")
    size, larger = divmod(len(tasks), executors)
    sizes = [size + 1] * larger + [size] * (executors - larger)
    starts = (0, *accumulate(sizes[:-1]))
    return tuple((tasks[start], tasks[start + length - 1]) for start, length in zip(starts, sizes, strict=True))


def unplaced_tasks(topology: Topology) -> tuple[int, ...]:
    return tuple(t for c in topology.components for t in c.tasks if t not in topology.placement)


def with_topology_as_before(memory: Memory, before: Memory, topology_id: str) -> Memory:
    """Return `memory` with the part of one topology replaced by that of `before`."""
    stored = (each.get(TOPOLOGIES) for each in (memory, before))  # a policy may store something else there
    current, previous = (parts if isinstance(parts, Mapping) else {} for parts in stored)
    if current.get(topology_id) == previous.get(topology_id):
        return memory
    parts = {key: part for key, part in current.items() if key != topology_id}
    mine = {topology_id: previous[topology_id]} if topology_id in previous else {}
    return {**memory, TOPOLOGIES: parts | mine}


def is_all_under_way(observation: Observation) -> bool:
    """Return whether every topology has a pending change: then no policy is asked."""
    return bool(observation.topologies) and all(topology.rebalancing for topology in observation.topologies)


def topologies_to_place(observation: Observation) -> tuple[Topology, ...]:
    """Return topologies with a task that has no slot and gets none by a pending change."""
    return tuple(t for t in observation.topologies if not t.rebalancing and unplaced_tasks(t))
