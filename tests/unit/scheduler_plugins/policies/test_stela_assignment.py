from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from scheduler_plugins.model import Component, Edge, Executor, Topology, executor_ranges
from scheduler_plugins.policies.stela import StelaParameters, assign_executors
from tests.support import stela_reference as reference
from tests.support.topologies_by_hand import DIAMOND, topology

RULES = [
    StelaParameters(score=score, shared_sink=sink, congestion=congestion, congestion_rate=rate)
    for score, sink, congestion, rate in product(
        ("etp", "etp_per_executor"), ("once", "per_path"), ("rates", "bounded_queues"), (1.2, 0.7)
    )
]


def random_topology(random: Random, *, cycles: bool = False) -> Topology:
    """A graph of 2 to 14 components; rates are few round numbers, so that there are ties, zeros and silent edges."""
    names = [f"c{i}" for i in range(random.randint(2, 14))]
    pairs = [(s, t) for i, s in enumerate(names) for t in names[i + 1 :]]
    edges = random.sample(pairs, random.randint(1, min(len(pairs), 3 * len(names))))
    if cycles:
        edges += [(t, s) for s, t in random.sample(edges, random.randint(1, len(edges)))]
    fed = {target for _, target in edges}
    components, first = [], 1
    for name in names:
        tasks = tuple(range(first, first + random.randint(1, 6)))
        first += len(tasks)
        components.append(_component(random, name, "bolt" if name in fed else "spout", tasks))
    rate = [None, 0.0, 50.0, 100.0, 100.0, 300.0]
    declared = tuple(Edge(s, "default", t, "shuffle", random.choice(rate)) for s, t in edges)
    return Topology("t-1", "t", 4, tuple(components), declared)


def _component(random: Random, name: str, kind: str, tasks: tuple[int, ...]) -> Component:
    executors = tuple(Executor(*ends) for ends in executor_ranges(tasks, random.randint(1, len(tasks))))
    return Component(
        name,
        kind,  # type: ignore[arg-type]
        tasks,
        executors,
        emitted_per_s=random.choice([0.0, 100.0, 200.0]),
        executed_per_s=random.choice([0.0, 50.0, 100.0, 100.0, 300.0]),
        capacity=random.choice([None, 0.5, 0.99]),
        queue=random.choice([None, 0.0, 5000.0]),
    )


@pytest.mark.parametrize("rules", RULES, ids=lambda r: f"{r.score}-{r.shared_sink}-{r.congestion}-{r.congestion_rate}")
def test_the_answer_is_the_papers_on_random_graphs(rules: StelaParameters) -> None:
    random = Random(7)
    given_out = 0
    for _ in range(250):
        shape, slots = random_topology(random), random.randint(0, 25)
        answer = assign_executors(shape, slots, rules)
        assert answer == reference.assign(shape, slots, rules)
        given_out += sum(answer.values())
    assert given_out > 500  # most graphs had something to give


@pytest.mark.parametrize("rules", [r for r in RULES if r.shared_sink == "once"], ids=str)
def test_the_answer_is_the_papers_on_graphs_with_cycles(rules: StelaParameters) -> None:
    random = Random(11)
    for _ in range(150):
        shape, slots = random_topology(random, cycles=True), random.randint(0, 25)
        assert assign_executors(shape, slots, rules) == reference.assign(shape, slots, rules)


def test_per_path_on_a_cycle_ends_too() -> None:
    random = Random(13)
    for _ in range(100):
        shape = random_topology(random, cycles=True)
        grown = assign_executors(shape, 10, StelaParameters(shared_sink="per_path"))
        assert all(count <= len(shape.component(name).tasks) for name, count in grown.items())


def test_projection_scales_processing_and_emission_by_k_plus_one_over_k() -> None:
    # The spout has one executor: a second doubles what it emits, and so congests all four bolts, then the sink.
    shape = topology(
        DIAMOND,
        tasks=4,
        executors=1,
        workers=4,
        inflow={"spout": 100.0, **{f"bolt_{i}": 100.0 for i in range(1, 5)}},
        processing={**{f"bolt_{i}": 100.0 for i in range(1, 5)}, "sink": 400.0},
    )
    rules = StelaParameters()
    assert assign_executors(shape, 1, rules) == {"spout": 2}
    # bolts reach the sink and so have an ETP of 1, until the first one that grows sends it 500 of 400: 25 % too many.
    assert assign_executors(shape, 2, rules) == {"spout": 2, "bolt_1": 2}
    assert assign_executors(shape, 3, rules) == {"spout": 2, "bolt_1": 2, "sink": 2}


def test_nothing_congested_grows_the_source_with_fewest_executors_and_stops_at_its_tasks() -> None:
    shape = topology([("a", "c"), ("b", "c")], tasks=3, executors=1, workers=1, inflow={"a": 1.0, "b": 1.0})
    calm = replace(shape, components=tuple(replace(c, executed_per_s=1000.0) for c in shape.components))
    assert assign_executors(calm, 1, StelaParameters()) == {"a": 2}
    assert assign_executors(calm, 2, StelaParameters()) == {"a": 2, "b": 2}
    assert assign_executors(calm, 100, StelaParameters()) == {"a": 3, "b": 3}


@pytest.mark.parametrize(("score", "target"), [("etp", "a"), ("etp_per_executor", "b")])
def test_etp_per_executor_divides_by_the_parallelism(score: str, target: str) -> None:
    # a and b are congested and reach sinks of 1000/s and 600/s; a has two executors already.
    edges = [("s", "a"), ("s", "b"), ("a", "x"), ("b", "y")]
    processing = {"a": 100.0, "b": 100.0, "x": 1000.0, "y": 600.0}
    shape = topology(edges, tasks=4, executors=1, workers=1, inflow={"s": 1000.0}, processing=processing)
    grown = tuple(
        replace(c, executors=(Executor(c.tasks[0], c.tasks[1]), Executor(c.tasks[2], c.tasks[3])))
        if c.name == "a"
        else c
        for c in shape.components
    )
    rules = StelaParameters(score=score)  # type: ignore[arg-type]
    assert set(assign_executors(replace(shape, components=grown), 1, rules)) == {target}
