"""Congestion, effective throughput percentage, and the executors that Stela gives out by it (SP II-C to II-E)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum, inf
from typing import TYPE_CHECKING

from scheduler_plugins.model import Topology

if TYPE_CHECKING:
    from scheduler_plugins.policies.stela import StelaParameters


@dataclass
class EtpFlow:
    """Rates of a topology as in Stela, tuples/s, which change as executors are added; `inflow` is by (source, target),
    as emitted towards the target."""

    processing: dict[str, float]
    inflow: dict[tuple[str, str], float]
    executors: dict[str, int]
    saturated: set[str] = field(default_factory=set)  # congested by queue or capacity; used where queues are bounded

    @cached_property
    def children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {name: [] for name in self.processing}
        for source, target in self.inflow:
            if source in children:
                children[source].append(target)
        return children

    @cached_property
    def sinks(self) -> list[str]:
        """Return components that emit to no other and receive from one."""
        fed = {target for _, target in self.inflow}
        return [name for name in self.processing if name in fed and not self.children[name]]

    @cached_property
    def postorder(self) -> tuple[list[str], set[tuple[str, str]]]:
        """Return components after their children, depth first, and the edges that close a cycle."""
        order: dict[str, None] = {}
        path: set[str] = set()
        closing: set[tuple[str, str]] = set()
        for root in self.children:
            todo = [root]
            while todo:
                name = todo[-1]
                if name in path or name in order:
                    todo.pop()
                    path.discard(name)
                    order.setdefault(name)
                else:
                    path.add(name)
                    closing.update((name, child) for child in self.children[name] if child in path)
                    todo.extend(
                        child for child in reversed(self.children[name]) if child not in path and child not in order
                    )
        return list(order), closing

    def input_rates(self) -> dict[str, float]:
        """Return exact sums, which do not depend on the order of edges."""
        rates: dict[str, list[float]] = {name: [] for name in self.processing}
        for (_, target), rate in self.inflow.items():
            rates[target].append(rate)
        return {name: fsum(each) for name, each in rates.items()}

    def throughputs(self, names: Collection[str], blocked: Collection[str], shared_sink: str) -> dict[str, float]:
        """Return tuples/s at the sinks that each component reaches on paths without a blocked one.

        A sink reaches itself, blocked or not, and counts `once` (SP's definition) or `per_path` (SP's algorithm 1).
        """
        order, closing = self.postorder
        free = {name: [child for child in self.children[name] if child not in blocked] for name in order}
        if shared_sink == "per_path":
            sums: dict[str, float] = {}
            for name in order:
                paths = (child for child in free[name] if (name, child) not in closing)
                sums[name] = sum(sums[child] for child in paths) if self.children[name] else self.processing[name]
            return {name: sums[name] for name in names}
        reached = dict.fromkeys(order, 0) | {sink: 1 << bit for bit, sink in enumerate(self.sinks)}
        for _ in range(1 + len(order) * bool(closing)):  # once round a cycle may bring more
            before = dict(reached) if closing else reached
            for name in order:
                for child in free[name]:
                    reached[name] |= reached[child]
            if before == reached:
                break
        return {
            name: fsum(self.processing[sink] for bit, sink in enumerate(self.sinks) if reached[name] >> bit & 1)
            for name in names
        }

    def grow(self, name: str) -> None:
        """Add an executor: processing and emission grow by (k+1)/k (SP II-E)."""
        growth = (self.executors[name] + 1) / self.executors[name]
        self.executors[name] += 1
        self.processing[name] *= growth
        self.saturated.discard(name)
        for child in self.children[name]:
            self.inflow[name, child] *= growth


def topology_flow(topology: Topology, rules: StelaParameters) -> EtpFlow:
    """Return measured rates of a topology; an unmeasured rate counts as none."""
    components = [c for c in topology.components if c.kind != "system"]
    names = {component.name for component in components}
    inflow: dict[tuple[str, str], float] = {}
    for edge in topology.edges:
        if edge.target in names:
            inflow[edge.source, edge.target] = inflow.get((edge.source, edge.target), 0.0) + (edge.tuples_per_s or 0.0)
    return EtpFlow(
        processing={c.name: (c.emitted_per_s if c.kind == "spout" else c.executed_per_s) or 0.0 for c in components},
        inflow=inflow,
        executors={c.name: len(c.executors) for c in components},
        saturated={
            c.name
            for c in components
            if c.kind == "bolt"
            and ((c.queue or 0.0) > rules.queue_mark * max(len(c.executors), 1) or (c.capacity or 0.0) > 0.95)
        },
    )


def is_congested(input_rate: float, processing: float, saturated: bool, rules: StelaParameters) -> bool:
    """Return whether the input rate is above `congestion_rate` × processing rate (SP II-C, ST algorithm 1)."""
    is_over = input_rate > rules.congestion_rate * processing
    return is_over or (saturated and rules.congestion == "bounded_queues")


def congested_components(flow: EtpFlow, rules: StelaParameters) -> set[str]:
    return {
        name
        for name, rate in flow.input_rates().items()
        if is_congested(rate, flow.processing[name], name in flow.saturated, rules)
    }


def component_etps(flow: EtpFlow, blocked: Collection[str], shared_sink: str = "once") -> dict[str, float]:
    """Return component → share of the throughput that it reaches on paths without a congested one (SP II-D); 0.0 where
    nothing arrives at any sink."""
    total = fsum(flow.processing[sink] for sink in flow.sinks)
    throughputs = flow.throughputs(flow.processing, blocked, shared_sink)
    return {name: rate / total if total > 0 else 0.0 for name, rate in throughputs.items()}


def measured_etps(topology: Topology, rules: StelaParameters) -> dict[str, float]:
    """Return component → its measured ETP, without Storm's own components."""
    flow = topology_flow(topology, rules)
    return component_etps(flow, congested_components(flow, rules), rules.shared_sink)


def choose_targets(topology: Topology, slots: int, rules: StelaParameters) -> list[str]:
    """Return the component of each added executor, in the order of SP's iterations (algorithm 2).

    An executor goes to the congested component with the highest ETP, of equal ones to the more congested one, then to
    the one declared first; to the source with the fewest executors if none is congested. A component with as many
    executors as tasks is passed over, because Storm could not start another.
    """
    flow = topology_flow(topology, rules)
    tasks = {component.name: len(component.tasks) for component in topology.components}
    spouts = [component.name for component in topology.components if component.kind == "spout"]
    targets: list[str] = []
    for _ in range(slots):
        inputs, blocked = flow.input_rates(), congested_components(flow, rules)
        scores = flow.throughputs(blocked, blocked, rules.shared_sink)  # numerators: all ETPs share the denominator
        ranks: dict[str, tuple[float, float]] = {name: (-flow.executors[name], 0.0) for name in spouts}
        if blocked:
            ranks = {
                name: (
                    scores[name] / (flow.executors[name] if rules.score == "etp_per_executor" else 1),
                    inputs[name] / flow.processing[name] if flow.processing[name] > 0 else inf,
                )
                for name in flow.processing
                if name in blocked
            }
        target = max((n for n in ranks if flow.executors[n] < tasks[n]), key=ranks.__getitem__, default=None)
        if target is None:
            break
        flow.grow(target)
        targets.append(target)
    return targets


def assign_executors(topology: Topology, slots: int, rules: StelaParameters) -> dict[str, int]:
    """Return component → executors, for those that grow when `slots` executors are added one by one."""
    counts = Counter(choose_targets(topology, slots, rules))
    return {c.name: len(c.executors) + counts[c.name] for c in topology.components if counts[c.name]}
