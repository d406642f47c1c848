"""Rates of a topology, congestion and effective throughput percentage as Stela sees them (SP II-C, II-D)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Protocol

from scheduler_plugins.model import Component, Topology
from scheduler_plugins.policies.free_paths import FreePaths, Graph, PathSums, SinkSets


class Rules(Protocol):
    """What of `stela.Parameters` congestion and ETP read."""

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

    processing: Mapping[str, float]
    inflow: Mapping[tuple[str, str], float]
    executors: Mapping[str, int]
    saturated: frozenset[str] = frozenset()  # congested by queue or capacity; used where queues are bounded

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.processing)}

    @cached_property
    def children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.processing]
        for source, target in self.inflow:
            if source in self.numbers and target in self.numbers:
                children[self.numbers[source]].append(self.numbers[target])
        return children

    @cached_property
    def sinks(self) -> list[int]:
        """Components that emit to nobody and are fed by somebody."""
        fed = {target for _, target in self.inflow}
        return [number for name, number in self.numbers.items() if name in fed and not self.children[number]]

    def paths(self, processing: list[float], blocked: set[int], shared_sink: str) -> FreePaths:
        """How sinks are counted: each `once` (SP's definition), or `per_path` (SP's algorithm 1 as printed)."""
        graph = Graph(self.children)
        if shared_sink == "per_path":
            return PathSums(graph, processing, blocked)
        return SinkSets(graph, processing, self.sinks, blocked)


def flow_of(topology: Topology, rules: Rules) -> Flow:
    """Measured rates of a topology; a rate that was not measured counts as none."""
    components = [c for c in topology.components if c.kind != "system"]
    inflow: dict[tuple[str, str], float] = {}
    for edge in topology.edges:
        inflow[edge.source, edge.target] = inflow.get((edge.source, edge.target), 0.0) + (edge.tuples_per_s or 0.0)
    return Flow(
        processing={c.name: (c.emitted_per_s if c.kind == "spout" else c.executed_per_s) or 0.0 for c in components},
        inflow=inflow,
        executors={c.name: len(c.executors) for c in components},
        saturated=frozenset(c.name for c in components if _is_saturated(c, rules)),
    )


def _is_saturated(component: Component, rules: Rules) -> bool:
    queue = (component.queue or 0.0) / max(len(component.executors), 1)
    return component.kind == "bolt" and (queue > rules.queue_mark or (component.capacity or 0.0) > 0.95)


def is_congested(input_rate: float, processing: float, saturated: bool, rules: Rules) -> bool:
    """Input rate above `congestion_rate` × processing rate (SP II-C, ST algorithm 1)."""
    over = input_rate > rules.congestion_rate * processing
    return over or (saturated and rules.congestion == "bounded_queues")


def congested(flow: Flow, rules: Rules) -> set[int]:
    """The numbers of the congested components."""
    inputs: dict[str, list[float]] = {name: [] for name in flow.numbers}
    for (_, target), rate in flow.inflow.items():
        inputs.get(target, []).append(rate)
    return {
        number
        for name, number in flow.numbers.items()
        if is_congested(fsum(inputs[name]), flow.processing[name], name in flow.saturated, rules)
    }


def etps(flow: Flow, blocked: set[int], shared_sink: str = "once") -> dict[str, float]:
    """Component → share of the throughput that it reaches on paths without a congested one (SP II-D, algorithm 1).

    A sink counts itself, congested or not. 0.0 where nothing arrives at any sink.
    """
    processing = list(flow.processing.values())
    total = fsum(processing[sink] for sink in flow.sinks)
    if total <= 0:
        return dict.fromkeys(flow.numbers, 0.0)
    paths = flow.paths(processing, blocked, shared_sink)
    return {name: paths.throughput(number) / total for name, number in flow.numbers.items()}


def etps_now(topology: Topology, rules: Rules) -> dict[str, float]:
    """Component → its ETP as measured, Storm's own components left out."""
    flow = flow_of(topology, rules)
    return etps(flow, congested(flow, rules), rules.shared_sink)
