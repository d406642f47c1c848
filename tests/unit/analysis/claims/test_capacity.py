"""What topologies can do at rest, by hand and against what was computed independently of this code."""

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from random import Random
from time import process_time
from typing import Any

import pytest

from analysis.claims import capacity
from scheduler_plugins.policies.stela import Parameters
from topologies import catalogue
from topologies.work import SOURCE_CHARACTERS


def shipped(name: str, parameters: Mapping[str, Any] | None = None, **overrides: Any) -> capacity.Topology:
    topology = capacity.topology_of_flux(catalogue.render(name, parameters, overrides))
    assert topology is not None
    return topology


def chain(offered_per_s: float, *bolts: capacity.Component) -> capacity.Topology:
    """A source, then `bolts` one after the other."""
    components = (capacity.Component("spout", "spout", 1, 1, offered_per_s=offered_per_s), *bolts)
    names = [component.name for component in components]
    return capacity.Topology(components, tuple(pairwise(names)), tuple(names))


def bolt(tasks: int, executors: int, **what: float) -> capacity.Component:
    return capacity.Component("bolt", "bolt", tasks, executors, **what)


@pytest.mark.parametrize(
    ("name", "machines", "slots", "at_rest", "rule", "best"),
    [
        # 2 executors of 8.05 ms, and two sinks that each get every tuple; centre 2 → 3 (the second slot goes to a sink)
        ("star", 4, 2, 2 * 2 * 1000 / 8.05, 50, 100),
        ("linear", 6, 4, 6 * 1000 / 24.15, 50, 400 / 6),  # bolt_2 6 → 9; at best 6 → 10
        ("diamond", 6, 4, 4 * 1000 / 24.15, 100, 100),  # sink 4 → 8
        # transform, filter, join and filter_2 get one each. Best: transform does 174/s, and filter's five executors get
        # 2, 2, 2, 1 and 1 eighths of that: 3 x 31.1 + 2 x 21.7 = 136.6/s, where transform alone did 99.4/s.
        ("page_load", 7, 4, 4 * 1000 / 40.25 * 0.64, 25, 37.5),
        ("processing", 8, 4, 4 * 1000 / 40.25 * 1.8, 25, 31.9),
        ("network_monitoring", 8, 5, 4 * 1000 / 40.25 * 1.44, 25, 38.9),
    ],
)
def test_what_the_shipped_topologies_can_do(
    name: str, machines: int, slots: int, at_rest: float, rule: float, best: float
) -> None:
    topology = shipped(name)
    assert capacity.throughput(topology, topology.initial) == pytest.approx(at_rest)
    assert capacity.new_executors(topology, machines, 1, "per_machine") == slots
    assert capacity.stela_gain_percent(topology, slots, Parameters()) == pytest.approx(rule)
    assert capacity.best_gain_percent(topology, slots) == pytest.approx(best, abs=0.05)


def test_stelas_rule_is_the_policys_own() -> None:
    """With a higher rate of congestion, transform's child is none, and transform gets more."""
    sizes = capacity.stela_executors(shipped("page_load"), 4, Parameters(congestion_rate=1.3))
    assert (sizes["transform"], sizes["join"]) == (7, 4)
    assert capacity.new_executors(shipped("page_load"), 7, 1, "with_new") == 3


def test_eight_tasks_on_five_executors_have_loads_of_two_and_one() -> None:
    # 12.5/s a task; an executor can do 20/s, so those of two tasks leave 5/s of their 25/s.
    topology = chain(100.0, bolt(8, 5, ms_per_character=50 / SOURCE_CHARACTERS))
    assert capacity.throughput(topology, {"spout": 1, "bolt": 5}) == pytest.approx(3 * 20 + 2 * 12.5)
    assert capacity.throughput(topology, {"spout": 1, "bolt": 8}) == pytest.approx(100)


def test_texts_cost_by_the_length_that_the_components_before_leave_them() -> None:
    shorter = capacity.Component("shorter", "bolt", 1, 1, keeps=0.5)
    longer = capacity.Component("longer", "bolt", 1, 1, appends=8.0, passes=0.5)
    topology = chain(1e6, shorter, longer, bolt(1, 1, ms_per_character=1.0))
    assert capacity.throughput(topology, topology.initial) == pytest.approx(1000 / (40.25 * 0.5 + 8))
    few = chain(10.0, shorter, longer, bolt(1, 1, ms_per_character=1.0))
    assert capacity.throughput(few, few.initial) == 5.0


def test_the_best_distribution_keeps_within_tasks_and_adds_nothing_in_vain() -> None:
    star = shipped("star")
    assert capacity.best(star, 9).executors == {"spout_1": 2, "spout_2": 2, "centre": 4, "sink_1": 2, "sink_2": 2}
    assert capacity.best_gain_percent(star, 0) == 0.0
    free = shipped("star", {"cost_model": "none"})
    assert capacity.best(free, 3).executors == free.initial


def random_topology(random: Random, bolts: int, most_tasks: int) -> capacity.Topology:
    """Streams of texts of several lengths, which part and join."""
    components = [capacity.Component("spout", "spout", 1, 1, offered_per_s=random.choice([100.0, 1000.0, 1e5]))]
    edges = []
    for number in range(bolts):
        sources = random.sample(components, min(len(components), random.choice([1, 1, 2, 3])))
        tasks = random.randint(1, most_tasks)
        components.append(capacity.Component(
            f"bolt_{number}", "bolt", tasks, random.randint(1, tasks), ms_per_character=random.choice([0.0, 1.0, 2.0]),
            passes=random.choice([1.0, 0.5]), keeps=random.choice([1.0, 1.0, 0.1]), appends=random.choice([0.0, 8.0]),
        ))  # fmt: skip
        edges += [(source.name, f"bolt_{number}") for source in sources]
    return capacity.Topology(tuple(components), tuple(edges), tuple(component.name for component in components))


def every_distribution(topology: capacity.Topology, slots: int) -> Iterator[dict[str, int]]:
    sizes = [range(each.executors, min(each.tasks, each.executors + slots) + 1) for each in topology.components]
    for executors in product(*sizes):
        if sum(executors) - sum(topology.initial.values()) <= slots:
            yield dict(zip(topology.initial, executors, strict=True))


def test_the_best_is_that_of_all_distributions_and_the_bound_is_not_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    for _ in range(60):
        topology, slots = random_topology(random, random.randint(2, 5), 5), random.randint(0, 4)
        best = max(capacity.throughput(topology, executors) for executors in every_distribution(topology, slots))
        found = capacity.best(topology, slots)
        assert found.executors is not None
        assert found.per_s == pytest.approx(best) == pytest.approx(capacity.throughput(topology, found.executors))
        with monkeypatch.context() as patch:
            patch.setattr(capacity, "MOST_DISTRIBUTIONS", 0)
            bound = capacity.best.__wrapped__(topology, slots)
        assert (bound.executors, bound.per_s >= best - 1e-6) == (None, True)


@pytest.mark.parametrize("name", catalogue.names())
def test_a_hundred_slots_take_no_time(name: str) -> None:
    """40 slots on the eight costly components of network_monitoring can be dealt out in 377 million ways."""
    sizes = {word: dict.fromkeys(shipped(name).initial, size) for word, size in (("tasks", 60), ("executors", 4))}
    topology = shipped(name, {"rate_per_s": 5000.0}, **sizes)
    began_s = process_time()
    levels = [capacity.best(topology, slots).per_s for slots in (16, 40, 100)]
    assert process_time() - began_s < 3 * 0.5
    assert levels == sorted(levels)


@pytest.mark.parametrize("name", catalogue.names())
def test_every_shipped_topology_has_a_closed_form(name: str) -> None:
    topology = shipped(name)
    assert capacity.throughput(topology, topology.initial) > 0.0


@pytest.mark.parametrize("parameters", [{"cost_model": "busy"}, {"unthrottled": True}])
def test_what_burns_cpu_or_has_no_rate_has_none(parameters: dict[str, Any]) -> None:
    assert capacity.topology_of_flux(catalogue.render("page_load", parameters)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("type: SHUFFLE", "type: ALL"),
        ("barograph.topologies.PassBolt", "org.apache.storm.testing.TestBolt"),
        ("from: centre\n  to: sink_1", "from: centre\n  to: centre"),
    ],
)
def test_what_it_does_not_know_has_none(old: str, new: str) -> None:
    flux = catalogue.render("star")
    assert old in flux
    assert capacity.topology_of_flux(flux.replace(old, new, 1)) is None


def test_a_busy_cost_of_nothing_is_none() -> None:
    assert shipped("star", {"cost_model": "busy", "ms_per_character": 0.0})
