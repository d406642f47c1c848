"""Which components grow when executors are given out one by one (SP algorithm 2), fast enough for large topologies.

The paper computes congestion and every ETP anew for each executor. One executor more changes the rates of its component
and of the components that it feeds, and nothing else; so only what follows from those is computed again, and candidates
wait in a heap. The answers are the paper's: tests/unit/policies/stela_reference.py is its algorithm as printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from math import fsum, inf

from scheduler_plugins.model import Topology
from scheduler_plugins.policies.etp import Flow, Rules, congested, flow_of, is_congested


def assign(topology: Topology, slots: int, rules: Rules) -> dict[str, int]:
    """Component → executors, for those that grow when `slots` executors are given out one by one."""
    flow = flow_of(topology, rules)
    spouts = [c.name for c in topology.components if c.kind == "spout"]
    room = {c.name: len(c.tasks) - len(c.executors) for c in topology.components if c.kind != "system"}
    giving = Assignment(flow, room, spouts, rules)
    for _ in range(slots):
        target = giving.choose()
        if target is None:
            break
        giving.grow(target)
    return {name: giving.executors[n] for name, n in flow.numbers.items() if giving.executors[n] > flow.executors[name]}


class Assignment:
    """Rates and candidates after the executors given out so far. Components are known by their number in the flow."""

    def __init__(self, flow: Flow, room: Mapping[str, int], spouts: Iterable[str], rules: Rules) -> None:
        self._rules = rules
        self._children = flow.children
        self.executors = [flow.executors[name] for name in flow.numbers]
        self._room = [room[name] for name in flow.numbers]
        self._spouts = [flow.numbers[name] for name in spouts]
        self._processing = [flow.processing[name] for name in flow.numbers]
        self._saturated = {flow.numbers[name] for name in flow.saturated}
        self._rate, self._in, self._out = _edges(flow)
        self._input = [fsum(self._rate[edge] for edge in mine) for mine in self._in]
        self._blocked = congested(flow, rules)
        self._paths = flow.paths(self._processing, self._blocked, rules.shared_sink)
        # (-score, -ratio, component, when): an entry counts while it is the component's newest.
        self._heap: list[tuple[float, float, int, int]] = []
        self._newest = [0] * len(self._room)
        self._refresh(range(len(self._room)))

    def choose(self) -> int | None:
        """The next component to grow: the congested one with the highest ETP, a source if none is congested.

        Components at their number of tasks are passed over, because Storm could not start the executor. Equal ETPs (SP
        does not say) go to the more congested one, then to the first declared.
        """
        if not self._blocked:
            open_spouts = (spout for spout in self._spouts if self._room[spout] > 0)
            return min(open_spouts, key=self.executors.__getitem__, default=None)
        while self._heap and not self._counts(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def _counts(self, entry: tuple[float, float, int, int]) -> bool:
        _, _, component, when = entry
        return when == self._newest[component] and component in self._blocked and self._room[component] > 0

    def grow(self, target: int) -> None:
        """One executor more: the processing and emission of `target` grow by (k+1)/k (SP II-E)."""
        growth = (self.executors[target] + 1) / self.executors[target]
        self.executors[target] += 1
        self._room[target] -= 1
        self._saturated.discard(target)
        self._processing[target] *= growth
        for edge in self._out[target]:
            self._rate[edge] *= growth
        for child in self._children[target]:
            self._input[child] = fsum(self._rate[edge] for edge in self._in[child])
        self._paths.rate_changed(target)
        touched = {target, *self._children[target]}
        changed = [component for component in touched if self._is_congested(component) != (component in self._blocked)]
        self._blocked.symmetric_difference_update(changed)
        self._refresh(touched.union(self._paths.toggled(changed)))

    def _is_congested(self, component: int) -> bool:
        saturated = component in self._saturated
        return is_congested(self._input[component], self._processing[component], saturated, self._rules)

    def _refresh(self, components: Iterable[int]) -> None:
        for component in components:
            if component in self._blocked and self._room[component] > 0:
                self._newest[component] += 1
                entry = (-self._score(component), -self._ratio(component), component, self._newest[component])
                heappush(self._heap, entry)

    def _score(self, component: int) -> float:
        """The numerator of the ETP: all candidates share the denominator, the topology's throughput."""
        value = self._paths.throughput(component)
        return value / self.executors[component] if self._rules.score == "etp_per_executor" else value

    def _ratio(self, component: int) -> float:
        processing = self._processing[component]
        return self._input[component] / processing if processing > 0 else inf


def _edges(flow: Flow) -> tuple[list[float], list[list[int]], list[list[int]]]:
    """Rates by edge; the edges into each component, and out of it."""
    into: list[list[int]] = [[] for _ in flow.numbers]
    out: list[list[int]] = [[] for _ in flow.numbers]
    for edge, (source, target) in enumerate(flow.inflow):
        if target in flow.numbers:
            into[flow.numbers[target]].append(edge)
        if source in flow.numbers:
            out[flow.numbers[source]].append(edge)
    return list(flow.inflow.values()), into, out
