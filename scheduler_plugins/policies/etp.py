"""Rates of a topology, congestion and effective throughput percentage as Stela sees them (SP II-C, II-D).

ETP (SP algorithm 1) walks the graph below one component. Here all components are answered by one pass, children before
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
    from scheduler_plugins.policies.stela import Parameters


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
        """Whatever has a path to one of `components` with nothing blocked in between, children before parents."""
        found: set[int] = set()
        todo = [parent for component in components for parent in self.parents[component]]
        while todo:
            here = todo.pop()
            if here not in found:
                found.add(here)
                if here not in blocked:
                    todo.extend(self.parents[here])
        return sorted(found, key=self.turn.__getitem__)


def _postorder(children: Sequence[Sequence[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """Depth first without recursion: components as they are left, and the edges that close a cycle."""
    order: list[int] = []
    closing: set[tuple[int, int]] = set()
    state = [0] * len(children)  # 1 on the way down, 2 left
    for root in range(len(children)):
        todo = [root]
        while todo:
            here = todo[-1]
            if state[here] == 0:
                state[here] = 1
                closing.update((here, child) for child in children[here] if state[child] == 1)
                todo.extend(child for child in reversed(children[here]) if state[child] == 0)
                continue
            todo.pop()
            if state[here] == 1:
                state[here] = 2
                order.append(here)
    return order, closing


class FreePaths(Protocol):
    """One of the two ways to count below; `rates` and `blocked` are the caller's, who says what changed in them."""

    def throughput(self, component: int) -> float: ...
    def rate_changed(self, component: int) -> None: ...
    def toggled(self, components: Iterable[int]) -> list[int]: ...


class SinkSets:
    """SP's definition: a sink that is reached on two free paths counts once. A sink reaches itself."""

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
        """Tuples/s at the sinks that `component` reaches on free paths."""
        reached = self._reached[component]
        if reached not in self._sums:
            self._sums[reached] = self._sum(reached)
        return self._sums[reached]

    def rate_changed(self, component: int) -> None:
        if self._own[component]:
            self._sums.clear()

    def toggled(self, components: Iterable[int]) -> list[int]:
        """Compute again after `components` were blocked or unblocked; those that may reach something else now."""
        if self._graph.closing:
            again = self._graph.above(components, self._blocked)
            self._compute(again)
            return again
        return self._follow_changes(components)

    def _follow_changes(self, components: Iterable[int]) -> list[int]:
        """Upwards only from where the set of sinks changed: above, most components reach a sink some other way too."""
        graph, changed = self._graph, []
        todo = {parent for component in components for parent in graph.parents[component]}
        waiting = [(graph.turn[component], component) for component in todo]
        heapify(waiting)
        while waiting:
            _, here = heappop(waiting)
            before = self._reached[here]
            self._compute([here])
            if self._reached[here] == before:
                continue
            changed.append(here)
            fresh = [] if here in self._blocked else [p for p in graph.parents[here] if p not in todo]
            todo.update(fresh)
            for parent in fresh:
                heappush(waiting, (graph.turn[parent], parent))
        return changed

    def _compute(self, components: Sequence[int]) -> None:
        reached, children, blocked = self._reached, self._graph.children, self._blocked
        if self._graph.closing:
            for component in components:
                reached[component] = self._own[component]
        changing = True
        while changing:
            changing = False
            for component in components:
                found = self._own[component]
                for child in children[component]:
                    if child not in blocked:
                        found |= reached[child]
                # One pass does where children come first; on a cycle, as many as it takes for nothing to be added.
                changing |= bool(self._graph.closing) and found != reached[component]
                reached[component] = found

    def _sum(self, reached: int) -> float:
        """Exact, so that equal sets and sets of equal rates are equal whatever their order."""
        bits = np.frombuffer(reached.to_bytes(len(self._sinks) // 8 + 1, "little"), dtype=np.uint8)
        places = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        return fsum(self._rates[self._sinks[place]] for place in places)


class PathSums:
    """SP's algorithm 1 as printed: a sink counts once for each free path to it. An edge that closes a cycle is none."""

    def __init__(self, graph: ComponentGraph, rates: list[float], blocked: set[int]) -> None:
        self._graph, self._rates, self._blocked = graph, rates, blocked
        self._sums = [0.0] * len(rates)
        self._compute(graph.order)

    def throughput(self, component: int) -> float:
        """Tuples/s at the sinks that `component` reaches, each as often as there are free paths to it."""
        return self._sums[component]

    def rate_changed(self, component: int) -> None:
        self._compute([component])

    def toggled(self, components: Iterable[int]) -> list[int]:
        """Compute again after `components` were blocked or unblocked; those that may reach something else now."""
        again = self._graph.above(components, self._blocked)
        self._compute(again)
        return again

    def _compute(self, components: Iterable[int]) -> None:
        for component in components:
            self._sums[component] = self._sum(component)

    def _sum(self, component: int) -> float:
        children, closing = self._graph.children[component], self._graph.closing
        free = (child for child in children if child not in self._blocked and (component, child) not in closing)
        return sum(self._sums[child] for child in free) if children else self._rates[component]


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
        graph = ComponentGraph(self.children)
        if shared_sink == "per_path":
            return PathSums(graph, processing, blocked)
        return SinkSets(graph, processing, self.sinks, blocked)


def topology_flow(topology: Topology, rules: Parameters) -> Flow:
    """Measured rates of a topology; a rate that was not measured counts as none."""
    components = [c for c in topology.components if c.kind != "system"]
    inflow: dict[tuple[str, str], float] = {}
    for edge in topology.edges:
        inflow[edge.source, edge.target] = inflow.get((edge.source, edge.target), 0.0) + (edge.tuples_per_s or 0.0)
    return Flow(
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


def is_congested(input_rate: float, processing: float, saturated: bool, rules: Parameters) -> bool:
    """Input rate above `congestion_rate` × processing rate (SP II-C, ST algorithm 1)."""
    over = input_rate > rules.congestion_rate * processing
    return over or (saturated and rules.congestion == "bounded_queues")


def congested_components(flow: Flow, rules: Parameters) -> set[int]:
    """The numbers of the congested components."""
    inputs: dict[str, list[float]] = {name: [] for name in flow.numbers}
    for (_, target), rate in flow.inflow.items():
        inputs.get(target, []).append(rate)
    return {
        number
        for name, number in flow.numbers.items()
        if is_congested(fsum(inputs[name]), flow.processing[name], name in flow.saturated, rules)
    }


def component_etps(flow: Flow, blocked: set[int], shared_sink: str = "once") -> dict[str, float]:
    """Component → share of the throughput that it reaches on paths without a congested one (SP II-D, algorithm 1).

    A sink counts itself, congested or not. 0.0 where nothing arrives at any sink.
    """
    processing = list(flow.processing.values())
    total = fsum(processing[sink] for sink in flow.sinks)
    if total <= 0:
        return dict.fromkeys(flow.numbers, 0.0)
    paths = flow.paths(processing, blocked, shared_sink)
    return {name: paths.throughput(number) / total for name, number in flow.numbers.items()}


def measured_etps(topology: Topology, rules: Parameters) -> dict[str, float]:
    """Component → its ETP as measured, Storm's own components left out."""
    flow = topology_flow(topology, rules)
    return component_etps(flow, congested_components(flow, rules), rules.shared_sink)
