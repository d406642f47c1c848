"""What topologies can do at rest, by hand and against what was computed independently of this code."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, product
from random import Random
from time import process_time
from typing import Any

import pytest

from analysis.claims import capacity
from barograph.plan.experiment import load
from barograph.run.storm_cluster import render_topology
from scheduler_plugins.model import Observation, ScaleEvent
from scheduler_plugins.policies import bind, initial_placement, scaling
from scheduler_plugins.policies.stela import StelaParameters
from tests.support.closed_form_gains import best_gain_percent, stela_gain_percent
from tests.support.topologies_by_hand import machines
from topologies import catalogue
from topologies.work import SOURCE_CHARACTERS, topology_work


def shipped(name: str, parameters: Mapping[str, Any] | None = None, **overrides: Any) -> capacity.TopologyCapacity:
    topology = capacity.topology_of_flux(catalogue.render(name, parameters, overrides))
    assert topology is not None
    return topology


def chain(offered_per_s: float, *bolts: capacity.ComponentCapacity) -> capacity.TopologyCapacity:
    """A source, then `bolts` one after the other."""
    components = (capacity.ComponentCapacity("spout", "spout", 1, 1, offered_per_s=offered_per_s), *bolts)
    names = [component.name for component in components]
    return capacity.TopologyCapacity(components, tuple(pairwise(names)), tuple(names))


def bolt(tasks: int, executors: int, **what: float) -> capacity.ComponentCapacity:
    return capacity.ComponentCapacity("bolt", "bolt", tasks, executors, **what)


@pytest.mark.parametrize(
    ("name", "machines", "slots", "at_rest", "rule", "best"),
    [
        # 2 executors of 8.05 ms, and two sinks that each get every tuple; centre 2 → 4 (the third slot goes to a sink)
        ("star", 4, 3, 2 * 2 * 1000 / 8.05, 100, 100),
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
    assert stela_gain_percent(topology, slots, StelaParameters()) == pytest.approx(rule)
    assert best_gain_percent(topology, slots) == pytest.approx(best, abs=0.05)


@pytest.mark.parametrize(("rule", "slots"), [("per_machine_floor", 2), ("with_new", 2)])
def test_a_slot_less_leaves_star_at_half_of_it(rule: scaling.SlotsRule, slots: int) -> None:
    """centre 2 → 3 and a sink. Both for centre are +100 %, so no distribution of two gives what SP states, +65 %."""
    star = shipped("star")
    assert capacity.new_executors(star, 4, 1, rule) == slots
    assert stela_gain_percent(star, slots, StelaParameters()) == pytest.approx(50)
    assert best_gain_percent(star, slots) == pytest.approx(100)


def test_stelas_rule_is_the_policys_own() -> None:
    """With a higher rate of congestion, transform's child is none, and transform gets more."""
    sizes = capacity.stela_executors(shipped("page_load"), 4, StelaParameters(congestion_rate=1.3))
    assert (sizes["transform"], sizes["join"]) == (7, 4)
    assert capacity.new_executors(shipped("page_load"), 7, 1, "with_new") == 3


def test_eight_tasks_on_five_executors_have_loads_of_two_and_one() -> None:
    # 12.5/s a task; an executor can do 20/s, so those of two tasks leave 5/s of their 25/s.
    topology = chain(100.0, bolt(8, 5, ms_per_character=50 / SOURCE_CHARACTERS))
    assert capacity.throughput(topology, {"spout": 1, "bolt": 5}) == pytest.approx(3 * 20 + 2 * 12.5)
    assert capacity.throughput(topology, {"spout": 1, "bolt": 8}) == pytest.approx(100)


def test_texts_cost_by_the_length_that_the_components_before_leave_them() -> None:
    shorter = capacity.ComponentCapacity("shorter", "bolt", 1, 1, keeps=0.5)
    longer = capacity.ComponentCapacity("longer", "bolt", 1, 1, appends=8.0, passes=0.5)
    topology = chain(1e6, shorter, longer, bolt(1, 1, ms_per_character=1.0))
    assert capacity.throughput(topology, topology.initial) == pytest.approx(1000 / (40.25 * 0.5 + 8))
    few = chain(10.0, shorter, longer, bolt(1, 1, ms_per_character=1.0))
    assert capacity.throughput(few, few.initial) == 5.0


def test_the_best_distribution_keeps_within_tasks_and_adds_nothing_in_vain() -> None:
    star = shipped("star")
    assert capacity.best(star, 9).executors == {"spout_1": 2, "spout_2": 2, "centre": 4, "sink_1": 2, "sink_2": 2}
    assert best_gain_percent(star, 0) == 0.0
    free = shipped("star", {"cost_model": "none"})
    assert capacity.best(free, 3).executors == free.initial


def random_topology(random: Random, bolts: int, most_tasks: int) -> capacity.TopologyCapacity:
    """Streams of texts of several lengths, which part and join."""
    components = [capacity.ComponentCapacity("spout", "spout", 1, 1, offered_per_s=random.choice([100.0, 1000.0, 1e5]))]
    edges = []
    for number in range(bolts):
        sources = random.sample(components, min(len(components), random.choice([1, 1, 2, 3])))
        tasks = random.randint(1, most_tasks)
        components.append(capacity.ComponentCapacity(
            f"bolt_{number}", "bolt", tasks, random.randint(1, tasks), ms_per_character=random.choice([0.0, 1.0, 2.0]),
            passes=random.choice([1.0, 0.5]), keeps=random.choice([1.0, 1.0, 0.1]), appends=random.choice([0.0, 8.0]),
        ))  # fmt: skip
        edges += [(source.name, f"bolt_{number}") for source in sources]
    return capacity.TopologyCapacity(tuple(components), tuple(edges), tuple(component.name for component in components))


def every_distribution(topology: capacity.TopologyCapacity, slots: int) -> Iterator[dict[str, int]]:
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


BURN_CPU = {"recommend", "top_n"}  # as they ship


@pytest.mark.parametrize(
    "name",
    [name for name in sorted({*catalogue.names()} - BURN_CPU) if catalogue.STATE not in catalogue.settings(name)],
)
def test_a_hundred_slots_take_no_time(name: str) -> None:
    """40 slots on the eight costly components of network_monitoring can be dealt out in 377 million ways."""
    sizes = {word: dict.fromkeys(shipped(name).initial, size) for word, size in (("tasks", 60), ("executors", 4))}
    topology = shipped(name, {"rate_per_s": 5000.0}, **sizes)
    began_s = process_time()
    levels = [capacity.best(topology, slots).per_s for slots in (16, 40, 100)]
    assert process_time() - began_s < 3 * 0.5
    assert levels == sorted(levels)


@pytest.mark.parametrize("parameters", [{"cost_model": "busy"}, {"unthrottled": True}])
def test_what_burns_cpu_or_has_no_rate_has_none(parameters: dict[str, Any]) -> None:
    assert capacity.topology_of_flux(catalogue.render("page_load", parameters)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"type": "SHUFFLE"', '"type": "ALL"'),
        ("barograph.topologies.PassBolt", "org.apache.storm.testing.TestBolt"),
        ('"from": "centre"\n  "to": "sink_1"', '"from": "centre"\n  "to": "centre"'),
    ],
)
def test_what_it_does_not_know_has_none(old: str, new: str) -> None:
    flux = catalogue.render("star")
    assert old in flux
    assert capacity.topology_of_flux(flux.replace(old, new, 1)) is None


@pytest.mark.parametrize(
    ("name", "gains"),
    [
        (
            "settings/stela_windows",
            {"window_60": 25.0, "congestion_1_3": 37.5, "slots_of_the_code": 25.0, "authors": 25.0},
        ),
        ("settings/stela_windows_page_load", {"window_60": 25.0, "congestion_1_3": 37.5, "authors": 25.0}),
        ("settings/stela_windows_processing", {"window_60": 25.0, "congestion_1_3": 31.9, "authors": 25.0}),
    ],
)
def test_the_comments_of_other_readings_say_what_the_closed_form_gives(name: str, gains: dict[str, float]) -> None:
    experiment = load(name)
    (choice,) = experiment.every_topology()
    topology, before = shipped(choice.name), experiment.machines.before
    for variant in experiment.variants:
        rules = StelaParameters(**variant.parameters)
        slots = capacity.new_executors(topology, before, experiment.machines.after - before, rules.slots)
        expected = gains["window_60"] if variant.name.startswith("window_") else gains[variant.name]
        found = stela_gain_percent(topology, slots, rules)
        assert found == pytest.approx(expected, abs=0.05), variant.name


PAPERS_TOPOLOGIES = ("star", "linear", "diamond", "page_load", "processing", "network_monitoring")


@pytest.mark.parametrize("name", PAPERS_TOPOLOGIES)
def test_by_the_authors_link_load_least_link_load_moves_the_same_executors(name: str) -> None:
    """Without noise in the rates: so that `link_load: mean` is no variant of it in any experiment."""
    by_sum = moved_tasks(name, "least_link_load", "sum")
    assert by_sum == moved_tasks(name, "least_link_load", "mean") and by_sum


def test_most_link_load_moves_others_by_it_on_three_topologies() -> None:
    """On linear the experiment whose costs make it matter has both. On star (250, 250, twice 248/s) the three are
    centre, spout_1 and centre by the sum, spout_1, centre and spout_1 by the mean."""
    others = [name for name in PAPERS_TOPOLOGIES
              if moved_tasks(name, "most_link_load", "sum") != moved_tasks(name, "most_link_load", "mean")]  # fmt: skip
    assert others == ["star", "linear", "network_monitoring"]
    both = [each for each in load("cost_models/linear_strategies_busy").variants if each.policy == "most_link_load"]
    assert [each.parameters.get("link_load", "sum") for each in both] == ["sum", "mean"]


def moved_tasks(name: str, strategy: str, link_load: str) -> set[int]:
    """At the scale-out of Stela's experiment with this topology, by the rates of the closed form."""
    experiment = load(f"stela/{name}")
    before, after = experiment.machines.before, experiment.machines.after
    flux = render_topology(*experiment.every_topology(), seed=1)
    closed = capacity.topology_of_flux(flux)
    assert closed is not None
    shape = replace(capacity.as_observed(closed), workers=topology_work(flux).workers)
    slots = initial_placement.sort_slots(initial_placement.free_slots(machines(before), ()))
    placed = replace(shape, placement=initial_placement.place_topology(shape, slots))
    event = ScaleEvent("e1", "scale_out", tuple(f"m{number}" for number in range(before + 1, after + 1)))
    observation = Observation(0.0, machines(after), (placed,), 1.0, event)
    return set(bind(strategy, {"link_load": link_load})(observation, {}).placement[shape.topology_id])
