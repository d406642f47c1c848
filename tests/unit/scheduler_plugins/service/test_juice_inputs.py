"""What Henge's juice (HP 5) needs is in the observation: of each edge, what was sent and what of it was executed. So is
an operator's capacity (HP 4.2).

J of a component is, over its parents i, the sum of J_i · E_i / T_i (eq. 5): E_i is `executed_per_s` of the edge from i,
and T_i all that i sent out, the sum of `tuples_per_s` over the edges from i. J of a source is 1; that of a topology is
the sum over its sinks, divided by the number of sources (eq. 6). Rates are of one window, 60 s as in HP.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_plugins.model import Edge, Topology
from scheduler_plugins.service.messages import VERSION, observation_of, request_from_json
from scheduler_plugins.service.samples import MachineSamples, Samples

NOW = 1100
Edges = dict[tuple[str, str], tuple[int, int]]  # (source, target) → sent, and executed of it, in a second

FIGURE_1: Edges = {
    ("spout", "a"): (1000, 1000),
    ("a", "b"): (800, 800),
    ("a", "c"): (800, 600),
    ("b", "d"): (800, 800),
    ("c", "d"): (600, 600),
}
FIGURE_5: Edges = {
    ("spout_1", "a"): (1000, 500),
    ("a", "b"): (500, 500),
    ("spout_2", "d"): (1000, 1000),
    ("d", "e"): (1000, 500),
    ("e", "b"): (250, 250),
    ("e", "f"): (250, 200),
    ("b", "c"): (750, 750),
}


def observe(edges: Edges) -> Topology:
    """A task a component, on one worker; each edge is a stream of its own, named after its target."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    task = {name: number for number, name in enumerate(names, start=1)}
    sent = [(task[source], target, n) for (source, target), (n, _) in edges.items()]
    executed = [(task[target], source, target, n) for (source, target), (_, n) in edges.items()]
    tasks = {"task": list(task.values()), "component": names}
    tasks |= {name: [0] * len(names) for name in ("emitted", "executed", "execute_ms", "queue")}
    columns = {
        "tasks": tasks,
        "streams": dict(zip(("task", "stream", "emitted"), map(list, zip(*sent, strict=True)), strict=True)),
        "sources": dict(
            zip(("task", "component", "stream", "executed"), map(list, zip(*executed, strict=True)), strict=True)
        ),
    }
    samples = Samples(window_s=60.0, topology_id="t-1")
    for t in range(NOW - 90, NOW):
        head = {"v": 1, "t": float(t), "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "topology": "t-1"}
        samples.add_worker(head | columns)
    body: dict[str, Any] = {
        "id": "t-1", "name": "t", "workers": 1, "placement": dict.fromkeys(map(str, task.values()), "m1:6700"),
        "components": [{"name": n, "kind": "bolt", "tasks": [t], "executors": [[t, t]]} for n, t in task.items()],
        "edges": [{"source": s, "stream": t, "target": t, "grouping": "shuffle"} for s, t in edges],
    }  # fmt: skip
    request = {"v": VERSION, "t": NOW, "machines": [], "topologies": [body]}
    (topology,) = observation_of(request_from_json(request), {"t-1": samples}, MachineSamples(), None).topologies
    return topology


def juice(topology: Topology) -> float:
    sources = {edge.source for edge in topology.edges} - {edge.target for edge in topology.edges}
    return sum(juice_of(topology, sink) for sink in topology.sinks()) / len(sources)


def juice_of(topology: Topology, component: str) -> float:
    parents = [edge for edge in topology.edges if edge.target == component]
    if not parents:
        return 1.0
    return sum(juice_of(topology, e.source) * executed(e) / sent(topology, e.source) for e in parents)


def executed(edge: Edge) -> float:
    assert edge.executed_per_s is not None
    return edge.executed_per_s


def sent(topology: Topology, source: str) -> float:
    rates = [edge.tuples_per_s for edge in topology.edges if edge.source == source]
    return sum(rate for rate in rates if rate is not None)


@pytest.mark.parametrize(("edges", "expected"), [(FIGURE_1, 0.875), (FIGURE_5, 0.475)])
def test_the_papers_figures_come_from_the_edges_of_an_observation(edges: Edges, expected: float) -> None:
    topology = observe(edges)
    seen = {(e.source, e.target): (e.tuples_per_s, e.executed_per_s) for e in topology.edges}
    assert seen == {edge: pytest.approx(rates) for edge, rates in edges.items()}
    assert juice(topology) == pytest.approx(expected)


def test_a_components_capacity_is_that_of_its_busiest_executor() -> None:
    """HP 4.2: "the operator capacity is then the maximum capacity across all executors containing it"."""
    tasks = {"task": [1, 2], "component": ["b", "b"], "emitted": [0, 0], "executed": [100, 100], "queue": [0, 0]}
    samples = Samples(window_s=60.0, topology_id="t-1")
    for t in range(NOW - 90, NOW):
        head = {"v": 1, "t": float(t), "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "topology": "t-1"}
        samples.add_worker(head | {"tasks": tasks | {"execute_ms": [900.0, 100.0]}})
    body: dict[str, Any] = {
        "id": "t-1", "name": "t", "workers": 1, "placement": {"1": "m1:6700", "2": "m1:6700"}, "edges": [],
        "components": [{"name": "b", "kind": "bolt", "tasks": [1, 2], "executors": [[1, 1], [2, 2]]}],
    }  # fmt: skip
    observation = observation_of(
        request_from_json({"v": VERSION, "t": NOW, "machines": [], "topologies": [body]}),
        {"t-1": samples},
        MachineSamples(),
        None,
    )
    (component,) = observation.topologies[0].components
    assert [executor.capacity for executor in component.executors] == pytest.approx([0.9, 0.1])
    assert component.capacity == pytest.approx(0.9)
