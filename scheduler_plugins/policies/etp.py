"""Effective throughput percentage and the iterative assignment built on it (SP II-C to II-E)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from scheduler_plugins.model import Component, Topology


class Rules(Protocol):
    """What of `stela.Parameters` the assignment reads."""

    @property
    def congestion_rate(self) -> float: ...
    @property
    def score(self) -> str: ...
    @property
    def shared_sink(self) -> str: ...
    @property
    def congestion(self) -> str: ...
    @property
    def queue_mark(self) -> float: ...


@dataclass(frozen=True)
class Flow:
    """A topology as Stela sees it. Rates in tuples/s; `inflow` is by (source, target) as emitted towards the target."""

    children: Mapping[str, tuple[str, ...]]
    processing: Mapping[str, float]
    inflow: Mapping[tuple[str, str], float]
    executors: Mapping[str, int]
    saturated: frozenset[str] = frozenset()  # congested by queue, capacity or schedule; used where queues are bounded

    def input_rate(self, name: str) -> float:
        return sum(rate for (_, target), rate in self.inflow.items() if target == name)

    def sinks(self) -> tuple[str, ...]:
        fed = {target for _, target in self.inflow}
        return tuple(name for name, children in self.children.items() if not children and name in fed)

    def throughput(self) -> float:
        return sum(self.processing[sink] for sink in self.sinks())


def flow_of(topology: Topology, rules: Rules) -> Flow:
    """Measured rates of a topology; a rate that was not measured counts as none."""
    components = [c for c in topology.components if c.kind != "system"]
    inflow: dict[tuple[str, str], float] = {}
    for edge in topology.edges:
        inflow[edge.source, edge.target] = inflow.get((edge.source, edge.target), 0.0) + (edge.tuples_per_s or 0.0)
    return Flow(
        children={c.name: tuple(t for s, t in inflow if s == c.name) for c in components},
        processing={c.name: (c.emitted_per_s if c.kind == "spout" else c.executed_per_s) or 0.0 for c in components},
        inflow=inflow,
        executors={c.name: len(c.executors) for c in components},
        saturated=frozenset(c.name for c in components if _is_saturated(c, rules)),
    )


def _is_saturated(component: Component, rules: Rules) -> bool:
    queue = (component.queue or 0.0) / max(len(component.executors), 1)
    return component.kind == "bolt" and (queue > rules.queue_mark or (component.capacity or 0.0) > 0.95)


def congested(flow: Flow, rules: Rules) -> frozenset[str]:
    """Components whose input rate exceeds `congestion_rate` × processing rate (SP II-C, ST algorithm 1)."""
    over = {name for name in flow.processing if flow.input_rate(name) > rules.congestion_rate * flow.processing[name]}
    return frozenset(over | flow.saturated if rules.congestion == "bounded_queues" else over)


def etp(flow: Flow, name: str, blocked: frozenset[str], shared_sink: str = "once") -> float:
    """Share of the throughput that `name` reaches on paths without a congested component (SP II-D, algorithm 1).

    A sink counts itself. `once`: a sink reached on two free paths counts once (SP's definition); `per_path`: twice
    (SP's algorithm 1 as printed). 0.0 where nothing arrives at any sink.
    """
    total = flow.throughput()
    if total <= 0:
        return 0.0
    if shared_sink == "per_path":
        return _sum_over_paths(flow, name, blocked, {}) / total
    reached = _reached(flow, name, blocked)
    return sum(flow.processing[sink] for sink in flow.sinks() if sink in reached) / total


def _reached(flow: Flow, name: str, blocked: frozenset[str]) -> set[str]:
    seen, todo = {name}, [name]
    while todo:
        fresh = [child for child in flow.children[todo.pop()] if child not in blocked and child not in seen]
        seen.update(fresh)
        todo.extend(fresh)
    return seen


def _sum_over_paths(flow: Flow, name: str, blocked: frozenset[str], known: dict[str, float]) -> float:
    if name not in known:
        children = flow.children[name]
        free = [child for child in children if child not in blocked]
        known[name] = (
            sum(_sum_over_paths(flow, child, blocked, known) for child in free) if children else flow.processing[name]
        )
    return known[name]


def all_etps(topology: Topology, rules: Rules) -> dict[str, float]:
    """Component → its ETP as measured now, Storm's own components left out."""
    flow = flow_of(topology, rules)
    blocked = congested(flow, rules)
    return {name: etp(flow, name, blocked, rules.shared_sink) for name in flow.processing}


def assign(topology: Topology, slots: int, rules: Rules) -> dict[str, int]:
    """Component → executors, for those that grow when `slots` executors are given out one by one (SP algorithm 2)."""
    flow = flow_of(topology, rules)
    room = {c.name: len(c.tasks) - len(c.executors) for c in topology.components if c.kind != "system"}
    spouts = [c.name for c in topology.components if c.kind == "spout"]
    for _ in range(slots):
        target = choose(flow, room, spouts, rules)
        if target is None:
            break
        room[target] -= 1
        flow = project(flow, target)
    before = {c.name: len(c.executors) for c in topology.components}
    return {name: count for name, count in flow.executors.items() if count > before[name]}


def choose(flow: Flow, room: Mapping[str, int], spouts: list[str], rules: Rules) -> str | None:
    """The next component to grow: the congested one with the highest ETP, a source if none is congested.

    Components at their number of tasks are passed over, because Storm could not start the executor. Equal ETPs (SP
    does not say) go to the more congested one, then to the first declared.
    """
    blocked = congested(flow, rules)
    if not blocked:
        return min((s for s in spouts if room[s] > 0), key=lambda s: flow.executors[s], default=None)
    candidates = [name for name in flow.processing if name in blocked and room[name] > 0]
    return max(candidates, key=lambda name: (_score(flow, name, blocked, rules), _ratio(flow, name)), default=None)


def _score(flow: Flow, name: str, blocked: frozenset[str], rules: Rules) -> float:
    value = etp(flow, name, blocked, rules.shared_sink)
    return value / flow.executors[name] if rules.score == "etp_per_executor" else value


def _ratio(flow: Flow, name: str) -> float:
    processing = flow.processing[name]
    return flow.input_rate(name) / processing if processing > 0 else float("inf")


def project(flow: Flow, target: str) -> Flow:
    """Rates expected once `target` has one executor more: its processing and emission grow by (k+1)/k (SP II-E)."""
    k = flow.executors[target]
    growth = (k + 1) / k
    return replace(
        flow,
        processing={**flow.processing, target: flow.processing[target] * growth},
        inflow={edge: rate * growth if edge[0] == target else rate for edge, rate in flow.inflow.items()},
        executors={**flow.executors, target: k + 1},
        saturated=flow.saturated - {target},
    )
