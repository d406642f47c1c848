from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.model import Component, Executor, Observation, ScaleEvent, Slot, executor_ranges
from scheduler_plugins.policies import PolicyError, bind, etp, scaling, stela
from tests.support.topologies_by_hand import DIAMOND, LINEAR, STAR, dealt_evenly, machines, topology


def observe(edges, *, before, tasks, executors, workers, inflow, processing, joined=1, age=1.0) -> Observation:  # type: ignore[no-untyped-def]
    shape = topology(edges, tasks=tasks, executors=executors, workers=workers, inflow=inflow, processing=processing)
    event = ScaleEvent("e1", "scale_out", tuple(f"m{before + i}" for i in range(1, joined + 1)))
    return Observation(0.0, machines(before + joined), (dealt_evenly(shape, machines(before)),), age, event)


def star(**changes) -> Observation:  # type: ignore[no-untyped-def]
    given = {
        "before": 4,
        "tasks": 4,
        "executors": 2,
        "workers": 12,
        "inflow": {"spout_1": 240.0, "spout_2": 240.0, "centre": 240.0},
        "processing": {"centre": 240.0, "sink_1": 240.0, "sink_2": 240.0},
    }
    return observe(STAR, **{**given, **changes})


def test_star_grows_the_centre_a_sink_that_its_projection_congests_and_the_centre_again() -> None:
    """Children keep their processing rates in the projection (SP II-E). With three executors the centre sends 360/s,
    of which each sink "processes" 240: the path to both is blocked, and sink_1 is the first of two equals. Then the
    centre, sent 480 and doing 360, reaches sink_1 (360 of 600) again, and sink_2 only itself (240 of 600)."""
    decision = stela.decide(star(), {})
    assert decision.executors == {"t-1": {"centre": 4, "sink_1": 3}}
    assert decision.settled
    moved = decision.placement["t-1"]
    assert {slot.machine for slot in moved.values()} == {"m5"}
    assert len(set(moved.values())) == 3
    assert decision.reason == "t: 3 slots, centre 2→4, sink_1 2→3"


@pytest.mark.parametrize("rule", ["per_machine_floor", "with_new"])
def test_two_slots_of_star_leave_the_centre_congested(rule: str) -> None:
    assert bind("stela", {"slots": rule})(star(), {}).executors == {"t-1": {"centre": 3, "sink_1": 3}}


def test_new_machines_get_the_executors_in_turn_as_they_are_given_out() -> None:
    """SP II-E. Two machines: five times. The two that follow star's three are sink_1 (sent 480, doing 360 of 600) and
    sink_2; so m5 has the first, third and fifth."""
    observation = star(joined=2)
    assert etp.choose_targets(observation.topologies[0], 5, stela.StelaParameters()) == [
        "centre", "sink_1", "centre", "sink_1", "sink_2",
    ]  # fmt: skip
    decision = stela.decide(observation, {})
    assert decision.executors["t-1"] == {"centre": 4, "sink_1": 4, "sink_2": 3}
    tasks = {task: c.name for c in observation.topologies[0].components for task in c.tasks}
    assert Counter((tasks[task], slot.machine) for task, slot in decision.placement["t-1"].items()) == {
        ("centre", "m5"): 2, ("sink_2", "m5"): 1, ("sink_1", "m6"): 2,
    }  # fmt: skip


CHAIN = [("spout", "transform"), ("transform", "filter"), ("filter", "sink")]


@pytest.mark.parametrize(
    ("congestion_rate", "grown"),
    [(1.2, {"transform": 5, "filter": 5}), (1.3, {"transform": 6}), (1.25, {"transform": 6})],
)
def test_a_fifth_executor_beside_four_congests_what_follows_at_the_papers_rate(
    congestion_rate: float, grown: dict[str, int]
) -> None:
    """16 executors on 8 machines: 2 slots. transform, sent 300 and doing 100/s, gets the first. Then filter is sent
    5/4 of what it does: congestion above 1.2, which blocks transform's path to the sink, and none above 1.25 or 1.3."""
    rates = {"inflow": {"spout": 300.0, "transform": 100.0, "filter": 100.0},
             "processing": {"transform": 100.0, "filter": 100.0, "sink": 100.0}}  # fmt: skip
    observation = observe(CHAIN, before=8, tasks=8, executors=4, workers=28, **rates)
    decision = bind("stela", {"congestion_rate": congestion_rate})(observation, {})
    assert decision.executors == {"t-1": grown}


def test_rates_over_less_time_than_asked_for_are_said_to_be() -> None:
    observation = star()
    for window_s, said in ((47.0, "; rates over 47 s, as no more was measured of the 200 s asked for"), (200.0, "")):
        measured = replace(observation, topologies=(replace(observation.topologies[0], window_s=window_s),))
        decision = bind("stela", {"window_s": 200})(measured, {})
        assert decision.reason == "t: 3 slots, centre 2→4, sink_1 2→3" + said


@pytest.mark.parametrize(
    ("before", "new", "per_machine", "floored", "with_new"),
    [(4, 1, 3, 2, 2), (4, 2, 5, 4, 2), (4, 4, 10, 8, 4), (5, 1, 2, 2, 1), (2, 1, 5, 5, 3)],
)
def test_slots_of_star_are_as_many_as_the_printed_loop_runs(
    before: int, new: int, per_machine: int, floored: int, with_new: int
) -> None:
    """SP II-B: 10 executors / 4 machines = 2.5 a new machine, and `while slot < Ninstances` runs three times."""
    shape = star().topologies[0]
    rules: tuple[scaling.SlotsRule, ...] = ("per_machine", "per_machine_floor", "with_new")
    counts = [scaling.executors_for_new_machines(shape, before, new, rule) for rule in rules]
    assert counts == [per_machine, floored, with_new]


def test_storms_own_executors_are_no_instances_of_an_operator() -> None:
    """SP II-A: an operator is a user-defined unit. Four ackers would make 14 / 4 of star, which is four."""
    shape = star().topologies[0]
    ackers = Component("__acker", "system", (96, 97, 98, 99), tuple(Executor(task, task) for task in (96, 97, 98, 99)))
    acked = replace(shape, components=(*shape.components, ackers))
    assert scaling.executors_for_new_machines(acked, 4, 1, "per_machine") == 3


FOUR = [f"bolt_{i}" for i in range(1, 5)]


@pytest.mark.parametrize(
    ("edges", "tasks", "inflow", "processing", "grown"),
    [
        (  # the congested bolt, and once what it feeds
            LINEAR, 12, {"spout": 2160.0, "bolt_1": 2160.0, "bolt_2": 720.0},
            {"bolt_1": 2160.0, "bolt_2": 720.0, "sink": 720.0}, {"bolt_2": 9, "sink": 7},
        ),
        (  # the sink where four streams meet
            DIAMOND, 8, {"spout": 360.0, **dict.fromkeys(FOUR, 360.0)},
            {**dict.fromkeys(FOUR, 360.0), "sink": 480.0}, {"sink": 8},
        ),
    ],
)  # fmt: skip
def test_the_congested_component_grows(edges, tasks, inflow, processing, grown) -> None:  # type: ignore[no-untyped-def]
    sizes = {"tasks": tasks, "executors": tasks // 2, "workers": 24}
    observation = observe(edges, before=6, inflow=inflow, processing=processing, **sizes)
    assert stela.decide(observation, {}).executors == {"t-1": grown}


@pytest.mark.parametrize(("age", "said"), [(None, "no samples yet"), (11.0, "samples are 11.0 s old")])
def test_no_decision_without_data(age: float | None, said: str) -> None:
    decision = stela.decide(star(age=age), {})
    assert not decision.changes() and not decision.settled
    assert said in decision.reason


def test_a_component_without_rates_holds_the_decision() -> None:
    decision = stela.decide(star(processing={"centre": 240.0, "sink_1": 240.0}), {})
    assert not decision.changes() and not decision.settled
    assert "no rates of sink_2" in decision.reason


def test_a_machine_that_nimbus_does_not_know_yet_holds_the_decision() -> None:
    observation = star()
    late = replace(observation, machines=observation.machines[:4])
    decision = stela.decide(late, {})
    assert not decision.settled and "not known to Nimbus" in decision.reason


def test_a_long_queue_is_congestion_where_queues_are_bounded() -> None:
    calm = star(inflow={"spout_1": 120.0, "spout_2": 120.0, "centre": 240.0})
    shape = calm.topologies[0]
    queued = tuple(replace(c, queue=9000.0) if c.name == "centre" else c for c in shape.components)
    observation = replace(calm, topologies=(replace(shape, components=queued),))
    # By rates nothing is congested, so a source grows first; the queue of 9000 says otherwise.
    assert stela.decide(observation, {}).executors["t-1"]["spout_1"] == 3
    bounded = stela.decide(observation, {}, stela.StelaParameters(congestion="bounded_queues"))
    assert bounded.executors["t-1"]["centre"] == 3
    assert "spout_1" not in bounded.executors["t-1"]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"congestion_rate": 0}, "congestion_rate is 0; allowed is a number above 0"),
        ({"slots": "half"}, "slots is 'half'; allowed are per_machine, per_machine_floor, with_new"),
        ({"alpha": 1.2}, "no parameter 'alpha'; known are congestion"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError, match=said.replace(".", r"\.")):
        bind("stela", parameters)


@given(tasks=st.integers(1, 40), old=st.integers(1, 40), more=st.integers(0, 40))
def test_growing_moves_exactly_the_new_executors(tasks: int, old: int, more: int) -> None:
    old = min(old, tasks)
    new = min(old + more, tasks)
    shape = topology([("a", "b")], tasks=tasks, executors=old, workers=2 * old)
    here = {
        t: Slot("m1", 6700 + i)
        for i, e in enumerate(shape.components[1].executors)
        for t in range(e.first_task, e.last_task + 1)
    }
    shape = replace(shape, placement={**here, **dict.fromkeys(shape.components[0].tasks, Slot("m1", 1))})
    fresh = [Slot("m2", port) for port in range(new - old)]
    placement = {**here, **stela.place_new_executors(shape, {"b": fresh})}
    ranges = executor_ranges(shape.components[1].tasks, new)
    on_new = [first for first, _ in ranges if placement[first].machine == "m2"]
    assert len(on_new) == new - old
    assert {placement[first] for first, _ in ranges if first not in on_new} == set(here.values())
    for first, last in ranges:
        assert len({placement[task] for task in range(first, last + 1)}) == 1
