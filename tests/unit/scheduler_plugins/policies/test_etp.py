from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random

import pytest

from bench.speed.stela_decision_time import layered_topology
from scheduler_plugins.model import Component, Edge, Executor, Topology
from scheduler_plugins.policies import etp
from scheduler_plugins.policies.etp import assign_executors, choose_targets
from scheduler_plugins.policies.stela import StelaParameters
from tests.support.topologies_by_hand import DIAMOND, topology

# SP figure 2, ST figure 2: sinks 4, 7, 8, 9, 10 execute 2000, 1000, 1000, 200, 300 tuples/s; 1, 3, 4, 6 are congested.
EDGES = {"1": "23", "2": "4", "3": "56", "4": "", "5": "78", "6": "90", "7": "", "8": "", "9": "", "0": ""}
PROCESSING = {"1": 5000, "2": 5000, "3": 2000, "4": 2000, "5": 2000, "6": 500, "7": 1000, "8": 1000, "9": 200, "0": 300}
CONGESTED = "1346"


def ten_operators() -> etp.EtpFlow:
    inflow = {(source, target): 1.0 for source, targets in EDGES.items() for target in targets}
    return etp.EtpFlow({name: float(rate) for name, rate in PROCESSING.items()}, inflow, dict.fromkeys(EDGES, 1))


def test_the_papers_example_of_ten_operators() -> None:
    shares = etp.component_etps(ten_operators(), CONGESTED)
    assert {name: round(100 * shares[name]) for name in CONGESTED} == {"3": 44, "4": 44, "6": 11, "1": 0}


def test_the_order_of_the_example_is_3_4_6_1() -> None:
    # Each congested operator receives more than it executes, 3 relatively the most. The rate is so low that a second
    # executor leaves each of them congested; room for one each shows the order.
    inputs = {"3": 5000.0, "4": 4000.0, "6": 1000.0, "1": 6000.0}
    components = [Component("feed", "spout", (0,), (Executor(0, 0),), emitted_per_s=6000.0)]
    for task, name in enumerate(EDGES):
        first = 1 + 2 * task
        last = first + (name in CONGESTED)
        tasks, executors = tuple(range(first, last + 1)), (Executor(first, last),)
        components.append(Component(name, "bolt", tasks, executors, executed_per_s=float(PROCESSING[name])))
    pairs = [("feed", "1"), *((source, target) for source, targets in EDGES.items() for target in targets)]
    edges = tuple(Edge(source, "default", target, "shuffle", inputs.get(target, 1.0)) for source, target in pairs)
    shape = Topology("ten-1", "ten", 1, tuple(components), edges)
    assert choose_targets(shape, 9, StelaParameters(congestion_rate=0.3)) == ["3", "4", "6", "1"]


def diamond_to_one_sink() -> etp.EtpFlow:
    inflow = {("a", "b"): 10.0, ("a", "c"): 10.0, ("b", "d"): 10.0, ("c", "d"): 10.0}
    return etp.EtpFlow({"a": 10.0, "b": 10.0, "c": 10.0, "d": 20.0}, inflow, dict.fromkeys("abcd", 1))


def test_a_sink_on_two_free_paths_counts_once_by_definition_and_twice_by_the_printed_algorithm() -> None:
    assert etp.component_etps(diamond_to_one_sink(), {"a"})["a"] == 1.0
    assert etp.component_etps(diamond_to_one_sink(), {"a"}, "per_path")["a"] == 2.0


def test_an_idle_topology_has_no_etp_and_nothing_congested() -> None:
    flow = replace(diamond_to_one_sink(), processing=dict.fromkeys("abcd", 0.0), inflow={("a", "b"): 0.0})
    assert etp.component_etps(flow, set()) == dict.fromkeys("abcd", 0.0)
    assert etp.congested_components(flow, StelaParameters()) == set()


def walked(flow: etp.EtpFlow, name: str, blocked: Collection[str]) -> list[str]:
    """Return the sink at the end of each free path (SP's algorithm 1)."""
    free = [child for child in flow.children[name] if child not in blocked]
    return [sink for child in free for sink in walked(flow, child, blocked)] if flow.children[name] else [name]


def test_sums_are_those_of_a_walk_along_every_path() -> None:
    random = Random(7)
    for _ in range(200):
        names = [f"c{i}" for i in range(random.randint(2, 10))]
        pairs = [(s, t) for i, s in enumerate(names) for t in names[i + 1 :]]
        inflow = dict.fromkeys(random.sample(pairs, random.randint(1, min(len(pairs), 20))), 1.0)
        flow = etp.EtpFlow({n: float(random.randint(0, 9)) for n in names}, inflow, dict.fromkeys(names, 1))
        blocked = random.sample(names, random.randint(0, len(names)))
        once, paths = (flow.throughputs(names, blocked, rule) for rule in ("once", "per_path"))
        for name in names:
            sinks = walked(flow, name, blocked)
            assert paths[name] == sum(flow.processing[sink] for sink in sinks)
            assert once[name] == sum(flow.processing[sink] for sink in set(sinks) if sink in flow.sinks)


@pytest.mark.parametrize("shared_sink", ["once", "per_path"])
def test_a_cycle_ends(shared_sink: str) -> None:
    # s → a ⇄ b → t: everything reaches t, a through b alone.
    edges = [("s", "a"), ("a", "b"), ("b", "a"), ("b", "t")]
    flow = etp.EtpFlow(dict.fromkeys("sabt", 10.0), dict.fromkeys(edges, 10.0), dict.fromkeys("sabt", 1))
    assert etp.component_etps(flow, set(), shared_sink) == dict.fromkeys("sabt", 1.0)
    assert etp.component_etps(flow, {"b"}, shared_sink) == {"s": 0.0, "a": 0.0, "b": 1.0, "t": 1.0}


def test_projection_scales_processing_and_emission_by_k_plus_one_over_k() -> None:
    # The spout has one executor: a second doubles what it emits, and so congests all four bolts. They reach the sink
    # and so have an ETP of 1, until the first one that grows sends it 500 of 400: 25 % too many.
    bolts = {f"bolt_{i}": 100.0 for i in range(1, 5)}
    inflow, processing = {"spout": 100.0, **bolts}, {**bolts, "sink": 400.0}
    shape = topology(DIAMOND, tasks=4, executors=1, workers=4, inflow=inflow, processing=processing)
    assert choose_targets(shape, 3, StelaParameters()) == ["spout", "bolt_1", "sink"]


def test_nothing_congested_grows_the_source_with_fewest_executors_and_stops_at_its_tasks() -> None:
    shape = topology([("a", "c"), ("b", "c")], tasks=3, executors=1, workers=1, inflow={"a": 1.0, "b": 1.0})
    calm = replace(shape, components=tuple(replace(c, executed_per_s=1000.0) for c in shape.components))
    assert choose_targets(calm, 100, StelaParameters()) == ["a", "b", "a", "b"]
    assert assign_executors(calm, 3, StelaParameters()) == {"a": 3, "b": 2}


@pytest.mark.parametrize(("score", "target"), [("etp", "a"), ("etp_per_executor", "b")])
def test_etp_per_executor_divides_by_the_parallelism(score: str, target: str) -> None:
    # a and b are congested and reach sinks of 1000/s and 600/s; a has two executors already.
    edges = [("s", "a"), ("s", "b"), ("a", "x"), ("b", "y")]
    processing = {"a": 100.0, "b": 100.0, "x": 1000.0, "y": 600.0}
    shape = topology(edges, tasks=4, executors=1, workers=1, inflow={"s": 1000.0}, processing=processing)
    grown = tuple(
        replace(c, executors=(Executor(*c.tasks[:2]), Executor(*c.tasks[2:]))) if c.name == "a" else c
        for c in shape.components
    )
    rules = StelaParameters(score=score)  # type: ignore[arg-type]
    assert choose_targets(replace(shape, components=grown), 1, rules) == [target]


def test_the_graph_that_is_timed_gives_every_executor_out() -> None:
    assert len(choose_targets(layered_topology(120, 0.1, Random(1)), 12, StelaParameters())) == 12
