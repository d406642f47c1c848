from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from scheduler_plugins.model import Decision, Observation, ScaleEvent
from scheduler_plugins.policies import bind
from scheduler_plugins.policies.topology_aware import STRATEGIES, TopologyAwareParameters
from scheduler_plugins.service.refusal import refusal
from tests.support.topologies_by_hand import LINEAR, STAR, dealt_evenly, machines, topology

Edges = Sequence[tuple[str, str]]
# a short cut past b and c, and a dead end e
SHORT_CUT = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "e")]


def observe(
    edges: Edges, inflow: Mapping[str, float], *, executors: int = 2, before: int = 4, new: int = 1
) -> Observation:
    names = {name for edge in edges for name in edge}
    shape = topology(
        edges, tasks=2 * executors, executors=executors, workers=12, inflow=inflow, processing=dict.fromkeys(names, 1.0)
    )
    event = ScaleEvent("e1", "scale_out", tuple(f"m{before + i}" for i in range(1, new + 1)))
    return Observation(0.0, machines(before + new), (dealt_evenly(shape, machines(before)),), 1.0, event)


def moved(observation: Observation, decision: Decision) -> dict[str, int]:
    """Component → executors that changed their slot; checks that the driver accepts the decision and nothing grows."""
    assert refusal(observation, decision) is None and not decision.executors
    shape = observation.topologies[0]
    after = decision.placement[shape.topology_id]
    for executor in (e for c in shape.components for e in c.executors):
        tasks = range(executor.first_task, executor.last_task + 1)
        assert len({after.get(task) for task in tasks}) == 1
    counts = {c.name: sum(1 for e in c.executors if e.first_task in after) for c in shape.components}
    return {name: count for name, count in counts.items() if count}


def ask(strategy: str, observation: Observation, **parameters: object) -> dict[str, int]:
    decision = bind(strategy, parameters)(observation, {})
    assert decision.settled
    return moved(observation, decision)


STAR_LOADS = {"spout_1": 100.0, "spout_2": 200.0, "centre": 300.0}  # sinks: 300 each; links of centre: 900


def test_least_link_load_begins_at_the_lightest_links_and_goes_on_beside_them() -> None:
    # Ten executors on four machines: three move (2.5). spout_1 (100/s), then its neighbour rather than spout_2 (200/s);
    # of the neighbours of these spout_1 again.
    assert ask("least_link_load", observe(STAR, STAR_LOADS)) == {"spout_1": 2, "centre": 1}
    assert ask("least_link_load", observe(STAR, STAR_LOADS), slots="per_machine_floor") == {"spout_1": 1, "centre": 1}


def test_most_link_load_begins_at_the_heaviest_links() -> None:
    # centre (900/s), then of its neighbours a sink (300/s), declared before the other one; then centre beside that.
    assert ask("most_link_load", observe(STAR, STAR_LOADS)) == {"centre": 2, "sink_1": 1}


def test_least_link_load_gathers_the_end_of_a_line_where_little_arrives() -> None:
    loads = {"spout": 2000.0, "bolt_1": 1500.0, "bolt_2": 300.0}
    grown = observe(LINEAR, loads, executors=6, before=6)
    # 24 executors on 6 machines: sink (300/s), then bolt_2 beside it, and so on in turn.
    assert ask("least_link_load", grown) == {"bolt_2": 2, "sink": 2}
    assert ask("most_link_load", grown) == {"spout": 2, "bolt_1": 2}


def test_the_authors_link_load_is_the_mean_of_a_components_links() -> None:
    edges = [("x", "hub"), ("y", "hub"), ("hub", "a"), ("z", "b")]
    loads = {"x": 50.0, "y": 50.0, "hub": 10.0, "z": 30.0}
    # Sums: hub 50 + 50 + 10 = 110, x and y 50, z and b 30, a 10. Means: hub 110 / 3 = 36.7, the others have one link.
    grown = observe(edges, loads, executors=1, before=6)
    assert ask("most_link_load", grown) == {"hub": 1}
    assert ask("most_link_load", grown, link_load="mean") == {"x": 1}
    assert ask("least_link_load", grown) == ask("least_link_load", grown, link_load="mean") == {"a": 1}


def test_streams_between_the_same_components_are_one_link() -> None:
    loads = {"x": 40.0, "y": 60.0}
    observation = observe([("x", "a"), ("y", "b")], loads, executors=1, before=4)
    (shape,) = observation.topologies
    twice = replace(shape, edges=(*shape.edges, replace(shape.edges[0], stream="second")))
    doubled = replace(observation, topologies=(twice,))  # x to a: 80/s over one link of two streams
    assert ask("most_link_load", observation, link_load="mean") == {"y": 1}
    assert ask("most_link_load", doubled, link_load="mean") == {"x": 1}


def test_an_edge_that_was_silent_counts_as_no_load() -> None:
    shape = observe(STAR, {"spout_1": 100.0, "centre": 300.0})
    assert ask("least_link_load", shape) == {"spout_2": 2, "centre": 1}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("sink_closeness", {"sink_1": 2, "sink_2": 1}),
        ("source_closeness", {"spout_1": 2, "spout_2": 1}),
        ("descendants", {"spout_1": 2, "spout_2": 1}),
        ("centrality", {"spout_1": 1, "centre": 2}),
    ],
)
def test_the_others_follow_the_graph_alone(strategy: str, expected: dict[str, int]) -> None:
    assert ask(strategy, replace(observe(STAR, {}), samples_age_s=None)) == expected


@pytest.mark.parametrize(
    ("strategy", "parameters", "ranks"),
    [
        ("sink_closeness", {}, {"a": 1, "b": 2, "c": 1, "d": 0, "e": 0}),
        ("sink_closeness", {"distance": "longest_path"}, {"a": 3, "b": 2, "c": 1, "d": 0, "e": 0}),
        ("source_closeness", {}, {"a": 0, "b": 1, "c": 2, "d": 1, "e": 1}),
        ("source_closeness", {"distance": "longest_path"}, {"a": 0, "b": 1, "c": 2, "d": 3, "e": 1}),
        ("descendants", {}, {"a": -4, "b": -2, "c": -1, "d": 0, "e": 0}),
        ("centrality", {}, {"a": -3, "b": -2, "c": -2, "d": -2, "e": -1}),
        ("least_link_load", {}, {"a": 30, "b": 14, "c": 9, "d": 15, "e": 10}),
        ("most_link_load", {}, {"a": -30, "b": -14, "c": -9, "d": -15, "e": -10}),
    ],
)
def test_ranks(strategy: str, parameters: dict[str, str], ranks: dict[str, float]) -> None:
    shape = topology(SHORT_CUT, tasks=1, executors=1, workers=1, inflow={"a": 10.0, "b": 4.0, "c": 5.0})
    assert STRATEGIES[strategy].ranks(shape, TopologyAwareParameters(**parameters)) == ranks  # type: ignore[arg-type]


def test_a_cycle_ends() -> None:
    shape = topology([("s", "a"), ("a", "b"), ("b", "a"), ("b", "t")], tasks=1, executors=1, workers=1)
    longest = TopologyAwareParameters(distance="longest_path")
    assert STRATEGIES["sink_closeness"].ranks(shape, TopologyAwareParameters()) == {"s": 3, "a": 2, "b": 1, "t": 0}
    assert STRATEGIES["sink_closeness"].ranks(shape, longest) == {"s": 3, "a": 2, "b": 3, "t": 0}


def test_every_new_machine_gets_its_share_and_the_first_one_the_first_ranked() -> None:
    observation = observe(STAR, STAR_LOADS, new=2)
    decision = bind("centrality", {})(observation, {})
    # Five move (2 x 2.5): m5 gets one more than m6.
    assert moved(observation, decision) == {"centre": 2, "spout_1": 2, "spout_2": 1}
    names = {task: c.name for c in observation.topologies[0].components for task in (e.first_task for e in c.executors)}
    where = {(names[task], slot.machine) for task, slot in decision.placement["t-1"].items() if task in names}
    assert where == {("centre", "m5"), ("spout_1", "m5"), ("spout_1", "m6"), ("spout_2", "m6")}


@pytest.mark.parametrize(("age", "said"), [(None, "held: no samples yet"), (11.0, "held: samples are 11.0 s old")])
def test_link_loads_without_samples_hold(age: float | None, said: str) -> None:
    decision = bind("least_link_load", {})(replace(observe(STAR, STAR_LOADS), samples_age_s=age), {})
    assert not decision.changes() and not decision.settled
    assert decision.reason.startswith(said)


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_a_machine_that_nimbus_does_not_know_yet_holds(strategy: str) -> None:
    observation = observe(STAR, STAR_LOADS)
    decision = bind(strategy, {})(replace(observation, machines=observation.machines[:4]), {})
    assert not decision.changes() and not decision.settled
    assert "not known to Nimbus" in decision.reason


def test_a_machine_without_a_free_slot_gets_nothing_and_the_event_is_settled() -> None:
    observation = observe(STAR, STAR_LOADS)
    full = replace(observation, machines=(*machines(4), *machines(1, ports=0, first=5)))
    decision = bind("least_link_load", {})(full, {})
    assert decision.settled and not decision.changes()
    assert decision.reason == "t: nothing to move"
