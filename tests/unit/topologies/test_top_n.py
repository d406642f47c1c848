"""The topology top_n: what it is, how topics get to tasks, and what it can do in the model."""

import math
from collections import Counter
from typing import Any

import pytest
import yaml

from barograph.plan.simulation import simulated_topology
from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.world import Assignment
from tests.support.worlds import Totals, world_of
from topologies import catalogue, work
from topologies.errors import BadParameter
from topologies.keys import machine_by_mod, machine_by_ring

TOPICS = 5000
RULES = ("fields", "mod", "ring")
WEIGHTS = [rank**-0.5 for rank in range(1, TOPICS + 1)]


def rendered(parameters: dict[str, Any] | None = None, **overrides: Any) -> str:
    return catalogue.render("top_n", parameters, overrides)


def test_topics_are_grouped_by_a_parameter() -> None:
    for rule in RULES:
        shape = catalogue.read_flux(rendered({"grouping": rule}))
        assert [(e.source, e.target, e.grouping, e.fields) for e in shape.edges] == [
            ("tweets", "extract", "shuffle", ()), ("extract", "count", rule, ("id",)), ("count", "top_n", "global", ()),
        ]  # fmt: skip
        assert shape.sinks == ("top_n",)
    grouping = yaml.safe_load(rendered({"grouping": "ring", "ring_points": 7}))["streams"][1]["grouping"]
    assert grouping["type"] == "CUSTOM" and grouping["customClass"]["constructorArgs"] == ["ring", "id", 7]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grouping": "hash"}, "parameter grouping: 'hash' is not one of fields, mod, ring"),
        ({"ring_points": 0}, "parameter ring_points: 0 is not a whole number from 1 to 10,000"),
        ({"topics": 0}, "parameter topics: 0 is not a whole number from 1 to 100,000"),
        ({"topic_skew": -0.1}, "parameter topic_skew: -0.1 is not a number from 0 to 10"),
        ({"list_s": 0}, "parameter list_s: 0 is not a whole number from 1 to 86,400"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadParameter, match=message):
        rendered(given)


def test_texts_are_tweets_then_hashtags_then_hashtags_with_counts() -> None:
    top_n = work.topology_work(rendered())
    lengths = {name: work.mean(each) for name, each in top_n.lengths.items()}
    assert lengths == pytest.approx({"tweets": 40.25, "extract": 49.25, "count": 8, "top_n": 16})
    assert top_n.sent_bytes("tweets") == pytest.approx(49.25 + work.LINE_BYTES)
    costs = {each.name: each.ms_per_character * lengths[each.name] for each in top_n.components}
    assert 1000 / (costs["count"] + costs["top_n"]) == pytest.approx(190, rel=0.01), "DT 6.4: 19K on one machine"
    assert 6000 / (costs["extract"] + costs["count"]) == pytest.approx(300, rel=0.01), "and 30K on six"


def test_a_task_gets_the_topics_that_its_hash_gives_it() -> None:
    tasks = [0.0] * 16
    for topic, weight in enumerate(WEIGHTS):
        tasks[(31 + topic) % 16] += weight / math.fsum(WEIGHTS)
    for rule in RULES:
        _, top_n = simulated_topology(rendered({"grouping": rule}), "x-1")
        edge = next(edge for edge in top_n.edges if edge.target == "count")
        assert edge.grouping == "fields" and len(edge.routes) == 16
        for route in edge.routes:
            assert [place for place, _ in route] == list(range(16))
            assert [share for _, share in route] == pytest.approx(tasks)


def test_one_machine_with_count_and_top_n_saturates_at_what_both_cost_together() -> None:
    """One executor each, so that neither takes more of the core than it needs: 1000 / (3.2 + 2.08) = 189/s. The others
    have machines of their own."""
    given = {"rate_per_s": 400.0, "extract_ms_per_character": 0.0}
    _, top_n = simulated_topology(rendered(given), "x-1")
    world, totals = world_of(top_n, machines=3, cores=1.0), Totals()
    machines = {"tweets": "m1", "extract": "m2", "count": "m3", "top_n": "m3"}
    placement = {task: Slot(machines[each.name], 6700) for each in top_n.components for task in each.tasks}
    world.assign("x-1", Assignment(dict.fromkeys(machines, 1), placement))
    world.advance(world.now + 60, totals.take)
    assert totals.rate("extract", 1030, 1060) == pytest.approx(400, rel=0.01)
    for name in ("count", "top_n"):
        assert totals.rate(name, 1030, 1060) == pytest.approx(1000 / (8 * 0.4 + 16 * 0.13), rel=0.02)


def test_the_busiest_task_of_count_saturates_first() -> None:
    """Executors wait 3.2 ms a topic: each does 312.5/s at most, and its tasks' topics are not all as frequent."""
    given = {"rate_per_s": 1240.0, "cost_model": "sleep", "extract_ms_per_character": 0.0, "topic_skew": 1.0}
    _, top_n = simulated_topology(rendered(given, tasks={"count": 4}), "x-1")
    totals, world = Totals(), world_of(top_n)
    world.advance(world.now + 60, totals.take)
    shares = [0.0] * 4
    for topic in range(TOPICS):
        shares[(31 + topic) % 4] += 1 / (topic + 1) / math.fsum(1 / rank for rank in range(1, TOPICS + 1))
    done = sum(min(1240 * share, 1000 / 3.2) for share in shares)
    assert totals.rate("count", 1030, 1060) == pytest.approx(done, rel=0.005) and done < 1190


def machines(number: int) -> list[str]:
    return [f"m{n}" for n in range(1, number + 1)]


def test_a_ring_is_even_within_what_its_points_give_and_only_keys_of_the_new_machine_move() -> None:
    """Arcs of a machine are a sum of 200 exponentials: one standard deviation is 7 %."""
    for size in (4, 10, 40):
        before, after = machine_by_ring(machines(size), 200), machine_by_ring(machines(size + 1), 200)
        counts = Counter(before(key) for key in range(TOPICS))
        spread = math.sqrt(1 / 200 + size / TOPICS)
        assert all(abs(counts[name] * size / TOPICS - 1) < 4 * spread for name in machines(size))
        moved = [(before(key), after(key)) for key in range(TOPICS) if before(key) != after(key)]
        assert {new for _, new in moved} == {f"m{size + 1}"}
        assert len(moved) == pytest.approx(TOPICS / (size + 1), rel=4 * spread)
        rough = Counter(map(machine_by_ring(machines(size), 1), range(TOPICS)))
        assert max(rough.values()) > 1.3 * max(counts.values()), "with one point each it is not"


def test_mod_n_counts_machines_in_the_order_of_their_numbers() -> None:
    choose = machine_by_mod(machines(12))
    assert [choose(key - 31) for key in (0, 1, 9, 10, 11, 12)] == ["m1", "m2", "m10", "m11", "m12", "m1"]
