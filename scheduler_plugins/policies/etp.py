"""Rates of a topology, congestion and effective throughput percentage as in Stela (SP II-C, II-D).

ETP (SP algorithm 1) walks the graph below one component. Here one pass answers for all components, children before
parents: each holds the set of sinks it reaches, a Python int with a bit per sink. When components block or unblock,
only those above them are computed again, up to the next blocked ones. Why: docs/decisions/policies.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import fsum
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scheduler_plugins.model import Topology

if TYPE_CHECKING:
    from scheduler_plugins.policies.stela import StelaParameters


class ComponentGraph:
    """Components by number, with an order in which children come before their parents as far as cycles allow."""

    def __init__(self, children: Sequence[Sequence[int]]) -> None:
        self.children = [list(mine) for mine in children]
        self.parents: list[list[int]] = [[] for _ in children]
        for parent, mine in enumerate(children):
            for child in mine:
                self.parents[child].append(parent)
        self.order, self.closing = _postorder(self.children)
        self.turn = [0] * len(children)
        for place, component in enumerate(self.order):
            self.turn[component] = place

    def above(self, components: Iterable[int], blocked: set[int]) -> list[int]:
        """Return components with an unblocked path to one of `components`, children before parents."""
        components_above: set[int] = set()
        todo = [parent for component in components for parent in self.parents[component]]
        while todo:
            node = todo.pop()
            if node not in components_above:
                components_above.add(node)
                if node not in blocked:
                    todo.extend(self.parents[node])
        return sorted(components_above, key=self.turn.__getitem__)


def _postorder(children: Sequence[Sequence[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """Return components depth first, in postorder without recursion, and the edges that close a cycle."""
    order: list[int] = []
    closing: set[tuple[int, int]] = set()
    state = [0] * len(children)  # 1 on the way down, 2 done
    for root in range(len(children)):
        todo = [root]
        while todo:
            component = todo[-1]
            if state[component] == 0:
                state[component] = 1
                closing.update((component, child) for child in children[component] if state[child] == 1)
                todo.extend(child for child in reversed(children[component]) if state[child] == 0)
                continue
            todo.pop()
            if state[component] == 1:
                state[component] = 2
                order.append(component)
    return order, closing


class FreePaths(Protocol):
    """One of the two ways to count below; `rates` and `blocked` are the caller's, who reports their changes."""

    def throughput(self, component: int) -> float: ...
    def rate_changed(self, component: int) -> None: ...
    def toggled(self, components: Iterable[int]) -> list[int]: ...


class SinkSets:
    """Sinks by SP's definition: a sink that is reached on two free paths counts once. A sink reaches itself."""

    def __init__(self, graph: ComponentGraph, rates: list[float], sinks: Iterable[int], blocked: set[int]) -> None:
        self._graph, self._rates, self._blocked = graph, rates, blocked
        self._sinks = list(sinks)
        self._own = [0] * len(rates)
        for bit, sink in enumerate(self._sinks):
            self._own[sink] = 1 << bit
        self._reached = self._own[:]
        self._sums: dict[int, float] = {}
        self._compute(graph.order)

    def throughput(self, component: int) -> float:
        """Return tuples/s at the sinks that `component` reaches on free paths."""
        reached = self._reached[component]
        if reached not in self._sums:
            self._sums[reached] = self._sum(reached)
        return self._sums[reached]

    def rate_changed(self, component: int) -> None:
        if self._own[component]:
            self._sums.clear()

    def toggled(self, components: Iterable[int]) -> list[int]:
        """Compute again after `components` were blocked or unblocked; return those whose result may differ."""
        if self._graph.closing:
            components_above = self._graph.above(components, self._blocked)
            self._compute(components_above)
            return components_above
        return self._follow_changes(components)

    def _follow_changes(self, components: Iterable[int]) -> list[int]:
        """Go upwards only from changed sets of sinks: most components above reach a sink on another path too."""
        graph, changes = self._graph, []
        todo = {parent for component in components for parent in graph.parents[component]}
        heap = [(graph.turn[component], component) for component in todo]
        heapify(heap)
        while heap:
            _, component_above = heappop(heap)
            reach = self._reached[component_above]
            self._compute([component_above])
            if self._reached[component_above] == reach:
                continue
            changes.append(component_above)
            parents = (
                [] if component_above in self._blocked else [p for p in graph.parents[component_above] if p not in todo]
            )
            todo.update(parents)
            for parent in parents:
                heappush(heap, (graph.turn[parent], parent))
        return changes

    def _compute(self, components: Sequence[int]) -> None:
        reached, children, blocked = self._reached, self._graph.children, self._blocked
        if self._graph.closing:
            for component in components:
                reached[component] = self._own[component]
        changing = True
        while changing:
            changing = False
            for component in components:
                reach = self._own[component]
                for child in children[component]:
                    if child not in blocked:
                        reach |= reached[child]
                # One pass does where children come first; on a cycle, repeat until nothing is added.
                changing |= bool(self._graph.closing) and reach != reached[component]
                reached[component] = reach

    def _sum(self, reached: int) -> float:
        """Return an exact sum, so that equal sets and sets of equal rates are equal in any order."""
        bits = np.frombuffer(reached.to_bytes(len(self._sinks) // 8 + 1, "little"), dtype=np.uint8)
        places = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        return fsum(self._rates[self._sinks[place]] for place in places)


class PathSums:
    """Sinks by SP's algorithm 1 as printed: a sink counts once for each free path. An edge that closes a cycle is
    none."""

    def __init__(self, graph: ComponentGraph, rates: list[float], blocked: set[int]) -> None:
        self._graph, self._rates, self._blocked = graph, rates, blocked
        self._sums = [0.0] * len(rates)
        self._compute(graph.order)

    def throughput(self, component: int) -> float:
        """Return tuples/s at the sinks that `component` reaches, each times its free paths."""
        return self._sums[component]

    def rate_changed(self, component: int) -> None:
        self._compute([component])

    def toggled(self, components: Iterable[int]) -> list[int]:
        """Compute again after `components` were blocked or unblocked; return those whose result may differ."""
        components_above = self._graph.above(components, self._blocked)
        self._compute(components_above)
        return components_above

    def _compute(self, components: Iterable[int]) -> None:
        for component in components:
            self._sums[component] = self._sum(component)

    def _sum(self, component: int) -> float:
        children, closing = self._graph.children[component], self._graph.closing
        paths = (child for child in children if child not in self._blocked and (component, child) not in closing)
        return sum(self._sums[child] for child in paths) if children else self._rates[component]


@dataclass(frozen=True)
class EtpFlow:
    """A topology's rates as in Stela, in tuples/s; `inflow` is by (source, target) as emitted towards the target."""

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
        """Return components that emit to no other and receive from one."""
        fed = {target for _, target in self.inflow}
        return [number for name, number in self.numbers.items() if name in fed and not self.children[number]]

    def paths(self, processing: list[float], blocked: set[int], shared_sink: str) -> FreePaths:
        """Return how sinks are counted: each `once` (SP's definition), or `per_path` (SP's algorithm 1 as printed)."""
        graph = ComponentGraph(self.children)
        if shared_sink == "per_path":
            return PathSums(graph, processing, blocked)
        return SinkSets(graph, processing, self.sinks, blocked)


def topology_flow(topology: Topology, rules: StelaParameters) -> EtpFlow:
    """Return measured rates of a topology; an unmeasured rate counts as none."""
    components = [c for c in topology.components if c.kind != "system"]
    inflow: dict[tuple[str, str], float] = {}
    for edge in topology.edges:
        inflow[edge.source, edge.target] = inflow.get((edge.source, edge.target), 0.0) + (edge.tuples_per_s or 0.0)
    return EtpFlow(
        processing={c.name: (c.emitted_per_s if c.kind == "spout" else c.executed_per_s) or 0.0 for c in components},
        inflow=inflow,
        executors={c.name: len(c.executors) for c in components},
        saturated=frozenset(
            c.name
            for c in components
            if c.kind == "bolt"
            and ((c.queue or 0.0) > rules.queue_mark * max(len(c.executors), 1) or (c.capacity or 0.0) > 0.95)
        ),
    )


def is_congested(input_rate: float, processing: float, saturated: bool, rules: StelaParameters) -> bool:
    """Return whether the input rate is above `congestion_rate` × processing rate (SP II-C, ST algorithm 1)."""
    is_over = input_rate > rules.congestion_rate * processing
    return is_over or (saturated and rules.congestion == "bounded_queues")


def congested_components(flow: EtpFlow, rules: StelaParameters) -> set[int]:
    """Return the numbers of the congested components."""
    inputs: dict[str, list[float]] = {name: [] for name in flow.numbers}
    for (_, target), rate in flow.inflow.items():
        inputs.get(target, []).append(rate)
    return {
        number
        for name, number in flow.numbers.items()
        if is_congested(fsum(inputs[name]), flow.processing[name], name in flow.saturated, rules)
    }


def component_etps(flow: EtpFlow, blocked: set[int], shared_sink: str = "once") -> dict[str, float]:
    """Return component → share of the throughput that it reaches on paths without a congested one (SP II-D, algorithm
    1).

    A sink counts itself, congested or not. 0.0 where nothing arrives at any sink.
    """
    processing = list(flow.processing.values())
    total = fsum(processing[sink] for sink in flow.sinks)
    if total <= 0:
        return dict.fromkeys(flow.numbers, 0.0)
    paths = flow.paths(processing, blocked, shared_sink)
    return {name: paths.throughput(number) / total for name, number in flow.numbers.items()}


def measured_etps(topology: Topology, rules: StelaParameters) -> dict[str, float]:
    """Return component → its measured ETP, without Storm's own components."""
    flow = topology_flow(topology, rules)
    return component_etps(flow, congested_components(flow, rules), rules.shared_sink)
