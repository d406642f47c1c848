"""JSON to values and back: the bridge's request, the answer to it, and the observation in a decision log.

Errors: MessageError (blame: harness) for a body that is not the contract's (docs/contracts.md).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler_plugins.json_data import from_json, to_json
from scheduler_plugins.model import (
    FOREIGN,
    Component,
    Decision,
    Edge,
    Executor,
    Observation,
    ScaleEvent,
    Slot,
    Topology,
    WorkerMachine,
    action_kind,
)
from scheduler_plugins.service.run_snapshot import oldest
from scheduler_plugins.service.samples import MachineSamples, Samples, TaskSums, WindowCounts
from scheduler_plugins.traffic import Traffic

Json = Mapping[str, Any]
VERSION = 2  # of the contract between bridge, harness and service; a commit with another one is not comparable


class MessageError(Exception):
    """A body that violates the contract."""

    blame = "harness"


@dataclass(frozen=True)
class Request:
    """The question of Nimbus' side in a round: the body of POST /schedule. `scheduler_errors`: failures of the placing
    scheduler, by topology id. `last_decision`: the newest that has arrived; empty where unknown."""

    t: float
    machines: tuple[WorkerMachine, ...]
    topologies: tuple[Topology, ...]
    last_decision: str | None = None
    scheduler_errors: Mapping[str, str] = field(default_factory=dict)

    def topology(self, topology_id: str) -> Topology:
        return next(topology for topology in self.topologies if topology.topology_id == topology_id)


def request_from_json(body: Json) -> Request:
    """Read the body of POST /schedule. Raises MessageError."""
    try:
        if body["v"] != VERSION:
            raise ValueError(f"v is {body['v']!r}; allowed is {VERSION}")
        return Request(
            t=float(body["t"]),
            machines=tuple(machine_from_json(machine) for machine in body["machines"]),
            topologies=tuple(topology_from_request(topology) for topology in body["topologies"]),
            last_decision=body.get("last_decision", ""),
            scheduler_errors={t["id"]: t["scheduler_error"] for t in body["topologies"] if t.get("scheduler_error")},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MessageError(f"request to /schedule: {type(error).__name__}: {error}") from error


def request_json(request: Request) -> dict[str, Any]:
    """Return the request as `request_from_json` reads it."""
    machines = [
        {"name": m.name, "supervisor_id": m.supervisor_id, "ports": list(m.ports), "alive": m.alive}
        for m in request.machines
    ]
    errors = request.scheduler_errors
    topologies = [topology_request_json(t, errors.get(t.topology_id)) for t in request.topologies]
    last_decision = {} if request.last_decision == "" else {"last_decision": request.last_decision}
    return {"v": VERSION, "t": request.t, "machines": machines, "topologies": topologies, **last_decision}


def observation_of(
    request: Request, samples: Mapping[str, Samples], machines: MachineSamples, event: ScaleEvent | None
) -> Observation:
    """Join a request with the samples, by topology id, into everything that a policy may see."""
    now = request.t
    topologies = tuple(_with_rates(topology, samples.get(topology.topology_id), now) for topology in request.topologies)
    return Observation(
        time_s=now,
        machines=tuple(
            replace(
                m,
                cores=machines.cores.get(m.name),
                cpu_load=machines.cpu_load(m.name, now),
                runnable=machines.runnable(m.name, now),
            )
            for m in request.machines
        ),
        topologies=topologies,
        samples_age_s=oldest([topology.samples_age_s for topology in topologies]),
        event=event,
    )


def machine_from_json(body: Json) -> WorkerMachine:
    ports = tuple(int(port) for port in body["ports"])
    return WorkerMachine(str(body["name"]), str(body["supervisor_id"]), ports, bool(body.get("alive", True)))


def topology_from_request(body: Json) -> Topology:
    """Return a topology of a request, without rates."""
    return Topology(
        topology_id=str(body["id"]),
        name=str(body["name"]),
        workers=int(body["workers"]),
        components=tuple(
            Component(c["name"], c["kind"], tuple(sorted(c["tasks"])), tuple(Executor(a, b) for a, b in c["executors"]))
            for c in body["components"]
        ),
        edges=tuple(Edge(e["source"], e["stream"], e["target"], e["grouping"]) for e in body["edges"]),
        placement=_slots(body["placement"]),
        uptime_s=body.get("uptime_s"),
        rebalancing=bool(body.get("rebalancing", False)),
        planned=_slots(body.get("planned") or {}),
        unplaced_why=body.get("unplaced_why"),
    )


def topology_request_json(topology: Topology, scheduler_error: str | None = None) -> dict[str, Any]:
    """Return a topology as `topology_from_request` reads it."""
    body = {
        "id": topology.topology_id,
        "name": topology.name,
        "workers": topology.workers,
        "uptime_s": topology.uptime_s,
        "components": [
            {"name": c.name, "kind": c.kind, "tasks": list(c.tasks)}
            | {"executors": [[e.first_task, e.last_task] for e in c.executors]}
            for c in topology.components
        ],
        "edges": [
            {"source": e.source, "stream": e.stream, "target": e.target, "grouping": e.grouping} for e in topology.edges
        ],
        "placement": _slots_json(topology.placement),
        "rebalancing": topology.rebalancing,
        "unplaced_why": topology.unplaced_why,
    }
    planned_field = {"planned": _slots_json(topology.planned)} if topology.planned else {}
    return {**body, **planned_field, **({} if scheduler_error is None else {"scheduler_error": scheduler_error})}


def _with_rates(topology: Topology, samples: Samples | None, now: float) -> Topology:
    if samples is None:
        return topology
    slots = sorted({str(slot) for slot in topology.placement.values()})
    window = samples.window(now, slots)
    counts = samples.counts(window)
    rates = Rates(counts, window.seconds)
    components = tuple(_component_with_rates(component, rates) for component in topology.components)
    by_name = {component.name: component for component in components}
    sinks = [rate for name in topology.sinks() if (rate := by_name[name].executed_per_s) is not None]
    return replace(
        topology,
        components=components,
        edges=tuple(_edge_with_rate(edge, by_name, rates) for edge in topology.edges),
        sink_tuples_per_s=sum(sinks) if sinks else None,
        latency_ms=counts.latency_ms,
        traffic=Traffic(samples.traffic(window), rates.seconds) if rates.seconds else {},
        samples_age_s=samples.age_s(now, slots),
        window_s=window.seconds,
        window_fault=window.fault or None,
    )


@dataclass(frozen=True)
class Rates:
    """Counts of one window, and its length: the one denominator of every rate."""

    counts: WindowCounts
    seconds: float

    def of(self, tasks: Iterable[int]) -> list[TaskSums]:
        return [self.counts.tasks[task] for task in tasks if task in self.counts.tasks]

    def per_second(self, counts: Iterable[float | None]) -> float | None:
        """Return the rate of known counts; None without any."""
        known = [count for count in counts if count is not None]
        return sum(known) / self.seconds if known and self.seconds else None

    def common(self, tasks: Sequence[TaskSums]) -> dict[str, Any]:
        """Return the fields that an executor and a component have alike."""
        timed = sum(task.timed for task in tasks)
        queues = [task.queue for task in tasks if task.queue is not None]
        return {
            "emitted_per_s": self.per_second(task.emitted for task in tasks),
            "executed_per_s": self.per_second(task.executed for task in tasks),
            "execute_ms": sum(task.execute_ms for task in tasks) / timed if timed else None,
            "queue": sum(queues) if queues else None,
            "backpressure_ms_per_s": self.per_second(task.backpressure_ms for task in tasks),
        }


def _component_with_rates(component: Component, rates: Rates) -> Component:
    executors = tuple(_executor_with_rates(executor, component.tasks, rates) for executor in component.executors)
    mine = rates.of(component.tasks)
    return replace(
        component,
        executors=executors,
        capacity=max((e.capacity for e in executors if e.capacity is not None), default=None),
        due_per_s=rates.per_second(task.due for task in mine),
        behind_ms=max((task.behind_ms for task in mine if task.behind_ms is not None), default=None),
        **rates.common(mine),
    )


def _executor_with_rates(executor: Executor, tasks: tuple[int, ...], rates: Rates) -> Executor:
    """Return the executor. Its capacity is unknown where tuples were executed and none was timed."""
    mine = rates.of(tasks[bisect_left(tasks, executor.first_task) : bisect_right(tasks, executor.last_task)])
    common = rates.common(mine)
    executed_per_s, execute_ms = common["executed_per_s"], common["execute_ms"]
    capacity = executed_per_s
    if executed_per_s:
        capacity = None if execute_ms is None else executed_per_s * execute_ms / 1000
    cpu_ms_per_s = rates.per_second(task.cpu_ms for task in mine)
    return replace(executor, capacity=capacity, cpu_load=cpu_ms_per_s and cpu_ms_per_s / 1000, **common)


def _edge_with_rate(edge: Edge, components: Mapping[str, Component], rates: Rates) -> Edge:
    senders, receivers = components[edge.source].tasks, components[edge.target].tasks
    rate = rates.per_second(rates.counts.streams.get((task, edge.stream)) for task in senders)
    executed = (rates.counts.sources.get((task, edge.source, edge.stream)) for task in receivers)
    copies = len(receivers) if edge.grouping == "all" else 1
    return replace(edge, tuples_per_s=rate and rate * copies, executed_per_s=rates.per_second(executed))


def _slots(body: Json) -> dict[int, Slot]:
    """Return task → slot."""
    return {int(task): Slot.parse(slot) for task, slot in body.items()}


def _slots_json(slots: Mapping[int, Slot]) -> dict[str, str]:
    names = {slot: str(slot) for slot in set(slots.values())}
    return {str(task): names[slot] for task, slot in slots.items()}


@dataclass(frozen=True)
class PlacingScheduler:
    """A scheduler that places in this round; `conf` is laid over Nimbus' own, `class_name` names a foreign one."""

    name: str
    class_name: str | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)

    def called(self) -> str:
        """Return its name in words."""
        return str(self.class_name) if self.name == FOREIGN else f"Storm's {self.name} scheduler"


@dataclass(frozen=True)
class Change:
    executors: Mapping[str, int] = field(default_factory=dict)  # component → number
    placement: Mapping[int, Slot] = field(default_factory=dict)  # task → slot


@dataclass(frozen=True)
class Answer:
    """The service's answer to Nimbus' side: only what changes, topologies in the order of their ids."""

    decision_id: str | None = None
    policy: str = ""
    reason: str = ""
    topologies: Mapping[str, Change] = field(default_factory=dict)
    release: tuple[str, ...] = ()
    acquire: int = 0
    scheduler: PlacingScheduler | None = None
    rebalance: tuple[str, ...] = ()  # topology ids, for `scheduler` to place anew
    wait_s: int = 0


def answer_of(decision: Decision, decision_id: str | None, policy: str) -> Answer:
    changes = {
        topology: Change(
            dict(sorted(decision.executors.get(topology, {}).items())),
            dict(sorted(decision.placement.get(topology, {}).items())),
        )
        for topology in sorted({*decision.executors, *decision.placement})
        if decision.executors.get(topology) or decision.placement.get(topology)
    }
    scheduler = None
    if decision.scheduler is not None:
        scheduler = PlacingScheduler(decision.scheduler, decision.scheduler_class, dict(decision.scheduler_conf))
    return Answer(
        decision_id,
        policy,
        decision.reason,
        changes,
        tuple(decision.release),
        decision.acquire,
        scheduler,
        tuple(decision.rebalance),
        decision.wait_s,
    )


def answer_json(answer: Answer) -> dict[str, Any]:
    return {"v": VERSION, **to_json(answer)}


def log_line(
    request: Request, observation: Observation, memory: Json, decision: Decision, answer: Answer, logged: Json | None
) -> dict[str, Any]:
    """Return a round as it is written to the decision log, but for its time; the answer names the decision.

    A memory is written where it is another than the one before: the round's where it is not `logged`, as the last line
    left it (None: this is the first), the decision's where it is not the round's. `with_memories` gives them back.
    """
    body = {
        "decision_id": answer.decision_id,
        "policy": answer.policy,
        "request": request_json(request),
        "observation": to_json(observation),
        "decision": to_json(replace(decision, memory={}, kind=action_kind(decision, observation))),
    }
    if logged is None or memory != logged:
        body["memory"] = memory
    if decision.memory == memory:
        del body["decision"]["memory"]
    else:
        body["decision"]["memory"] = to_json(decision.memory)
    return body


def with_memories(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the lines of a decision log, from the first one on, each with its memory and its decision's. Raises
    MessageError where no line before has had one."""
    memory = None
    for line in lines:
        memory = line.get("memory", memory)
        if memory is None:
            raise MessageError("a decision log whose first line has no memory: lines before it are missing")
        before, memory = memory, line["decision"].get("memory", memory)
        yield line | {"memory": before, "decision": line["decision"] | {"memory": memory}}


def observation_from_log(body: Json) -> Observation:
    """Read the observation of a log line. Raises MessageError where the line violates the contract."""
    try:
        return from_json(Observation, body)
    except ValueError as error:
        raise MessageError(f"observation in a decision log: {error}") from error
