"""DoDo (DT 6.2, 7.1.1): worked cases of its algorithms, and whole rounds on groups of machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from random import Random
from statistics import fmean, pvariance
from typing import Any

import pytest

from scheduler_plugins.model import (
    Component,
    Decision,
    Edge,
    Executor,
    Failure,
    HeldRequest,
    MachineLimits,
    Observation,
    ScaleEvent,
    Topology,
    executor_ranges,
)
from scheduler_plugins.policies import bind
from scheduler_plugins.policies.dodo import (
    DodoParameters,
    correlation,
    decide,
    group_series,
    instances_to_add,
    static_mapping,
    transmissions,
)
from scheduler_plugins.service.refusal import refusal
from tests.support import topologies_by_hand

RISING, FALLING, LEVEL = [0.2, 0.4, 0.6, 0.8], [0.8, 0.6, 0.4, 0.2], [0.5, 0.5, 0.5, 0.5]


def test_a_group_s_load_is_the_sum_of_its_components_over_its_machines() -> None:
    """Eq. 1: (0.6 + 0.9) / 3 in the first period, (0.3 + 0.6) / 3 in the second."""
    assert group_series({"a": [0.6, 0.3], "b": [0.9, 0.6]}, 3) == pytest.approx([0.5, 0.3])
    assert group_series({"a": [7.0, 0.6, 0.3], "b": [0.9, 0.6]}, 3) == pytest.approx([0.5, 0.3])  # one began later
    assert group_series({}, 3) == []


def test_the_static_mapping_takes_the_largest_load_first_and_weighs_by_machines() -> None:
    """6.2.1 by hand, groups of 3 and 1: 9 → a (0, 0), 5 → b (3, 0), 4 → a (3, 5), 3 → a (13/3, 5)."""
    mapping = static_mapping({"p": 3.0, "q": 9.0, "r": 5.0, "s": 4.0}, {"a": 3, "b": 1})
    assert mapping == {"q": "a", "r": "b", "s": "a", "p": "a"}
    assert static_mapping({"p": 3.0}, {}) == {}


def test_the_static_mapping_is_within_four_thirds_of_the_best_one_on_equal_groups() -> None:
    """Graham's bound of the greedy rule, (4/3 − 1/3k) times the best of all mappings, on 100 small problems."""
    random = Random(1)
    for _ in range(100):
        loads = {f"p{n}": random.uniform(0.1, 1.0) for n in range(6)}
        groups = ("a", "b", "c")

        def largest(mapping: Mapping[str, str], loads: Mapping[str, float] = loads) -> float:
            return max(sum(loads[name] for name in loads if mapping[name] == group) for group in ("a", "b", "c"))

        best = min(largest(dict(zip(loads, choice, strict=True))) for choice in product(groups, repeat=6))
        assert largest(static_mapping(loads, dict.fromkeys(groups, 1))) <= best * (4 / 3 - 1 / 9) + 1e-9


def test_the_correlation_is_the_covariance_over_the_deviations() -> None:
    assert correlation(RISING, RISING) == pytest.approx(1)
    assert correlation(RISING, FALLING) == pytest.approx(-1)
    assert correlation(RISING, LEVEL) == correlation([], RISING) == correlation([1.0], [2.0]) == 0
    assert correlation(RISING, [5.0, 5.001, 5.002, 5.003]) == 0  # noise
    a, b = [0.1, 0.5, 0.2, 0.9], [0.3, 0.1, 0.7, 0.4]
    covariance = fmean(x * y for x, y in zip(a, b, strict=True)) - fmean(a) * fmean(b)  # eq. 4
    assert correlation(a, b) == pytest.approx(covariance / (pvariance(a) * pvariance(b)) ** 0.5)
    assert correlation([9.0, *a], b) == pytest.approx(correlation(a, b))  # the periods that both have


LAX = DodoParameters(correlation=1.01, most_moves=9)  # whatever the correlation


def test_a_component_moves_that_is_less_than_half_the_difference_to_the_other_group() -> None:
    """Algorithm 1 by hand. One machine with loads 0.6 and 0.3 (0.9), six with 1.8 (0.3): half the difference is 0.3. On
    the other group 0.6 is 0.1, and with the 0.3 it is 0.15: both go. With one machine there too neither does."""
    groups = {"one": {"count": [0.6] * 4, "top": [0.3] * 4}, "six": {"extract": [1.8] * 4}}
    assert set(transmissions(groups, {"one": 1, "six": 6}, LAX)) == {("count", "one", "six"), ("top", "one", "six")}
    assert len(transmissions(groups, {"one": 1, "six": 6}, replace(LAX, most_moves=1))) == 1
    even = {"one": groups["one"], "six": {"extract": [0.3] * 4}}
    assert transmissions(even, {"one": 1, "six": 1}, LAX) == []  # 0.3 is not less than (0.9 − 0.3) / 2
    light = {"one": {"count": [0.65] * 4, "top": [0.25] * 4}, "six": {"extract": [0.3] * 4}}
    assert transmissions(light, {"one": 1, "six": 1}, LAX) == [("top", "one", "six")]


def test_without_capacity_a_component_goes_to_a_group_that_has_no_room_for_it() -> None:
    """DT 6.4: both moves of figure 23 (b). One machine is full, so `count` goes to six; then these are, and `extract`,
    which is most of them, goes to the one: it would be at 4 there."""
    blind = DodoParameters(correlation=1.01, capacity=False)
    sizes = {"six": 6.0, "one": 1.0}
    before = {"six": {"extract": RISING}, "one": {"count": LEVEL, "top": [0.4, 0.3, 0.5, 0.4]}}
    assert len(transmissions(before, sizes, blind)) == 1
    after = {"six": {"extract": [4.0, 4.2, 4.4, 4.6], "count": [1.0, 1.1, 1.2, 1.3]}, "one": {"top": [0.2] * 4}}
    assert transmissions(after, sizes, blind) == [("extract", "six", "one")]
    assert transmissions(after, sizes, LAX) == []


def test_groups_that_rise_and_fall_together_are_left_alone_and_those_that_do_not_are_not() -> None:
    paper = DodoParameters()  # below 0
    full = {"a": [each + 1 for each in RISING], "b": [0.1] * 4}
    assert transmissions({"x": full, "y": {"c": RISING}}, {"x": 1, "y": 2}, paper) == []
    assert transmissions({"x": full, "y": {"c": FALLING}}, {"x": 1, "y": 2}, paper) == [("b", "x", "y")]
    assert transmissions({"x": full, "y": {}}, {"x": 1, "y": 9}, paper)  # no load: nothing to correlate with
    near = {"x": {"a": [0.5, 0.4]}, "y": {"b": [0.3, 0.4]}}
    assert transmissions(near, {"x": 1, "y": 1}, paper) == []  # a difference of 0.1 is below the threshold


def test_of_components_the_one_moves_that_is_close_to_its_group_and_far_from_the_other() -> None:
    """(ρ(P, C1) − ρ(P, C2)) / 2: `up` rises with the rest of its group and against the other; `down` is the reverse."""
    groups = {"x": {"up": RISING, "up_2": RISING, "down": FALLING}, "y": {"c": [each / 4 for each in FALLING]}}
    moves = transmissions(groups, {"x": 1, "y": 2}, replace(LAX, most_moves=1))
    assert moves == [("up", "x", "y")]


def test_the_fullest_group_is_paired_with_the_idlest_and_the_middle_one_with_none() -> None:
    loads = {"a": 0.9, "b": 0.7, "c": 0.5, "d": 0.2, "e": 0.0}
    groups = {group: {f"{group}{n}": [load / 4] * 3 for n in range(4)} for group, load in loads.items()}
    pairs = {(source, target) for _, source, target in transmissions(groups, dict.fromkeys(loads, 1), LAX)}
    assert pairs == {("a", "e"), ("b", "d")}


@pytest.mark.parametrize(
    ("machines", "load", "change"),
    [
        (1, 1.0, 1),  # 1 · 0.25 is nothing in whole numbers, as printed
        (4, 1.0, 1),  # 4 · (1.0 − 0.8) / 0.8
        (5, 1.6, 5),  # then each has 0.8
        (6, 0.8, 0),  # not above
        (6, 0.3, 0),  # not below
        (8, 0.16, -6),  # 8 · (1 − 0.16 / 0.64): the two left have 0.64
        (10, 0.0, -8),  # as printed it would be −12.5: more than it has
        (2, 0.0, 0),  # I_C > 2
        (3, 0.25, -1),  # 3 · (1 − 0.25 / 0.64) is 1.8
    ],
)
def test_a_group_grows_until_it_has_the_most_load_and_shrinks_until_it_has_the_ideal_one(
    machines: int, load: float, change: int
) -> None:
    assert instances_to_add(machines, load, DodoParameters(max_load=0.8, min_load=0.3)) == change


def test_no_group_swings_after_it_changed() -> None:
    """After any change of algorithm 2 the same load asks for none."""
    parameters = DodoParameters(max_load=0.8, min_load=0.3)
    for machines, load in product(range(1, 40), (n / 20 for n in range(60))):
        after = machines + instances_to_add(machines, load, parameters)
        assert after >= 1 and instances_to_add(after, load * machines / after, parameters) == 0


GROUPS = {"sources": ("m1",), "work": ("m2", "m3", "m4"), "small": ("m5",)}
COMPONENTS = {"sources": ["tweets"], "work": ["extract"], "small": ["count", "top"]}
FAST = {
    "series_s": 40,
    "most_moves": 9,
    "max_load": 0.8,
    "min_load": 0.3,
    "period_s": 10,
    "every_s": 20,
    "correlation": 1.01,
    "rest_after_move_s": 100,
    "rest_after_launch_s": 50,
}


class Cluster:
    """The thesis's pipeline; carries out what is decided, at once."""

    def __init__(self, loads: Mapping[str, float], **parameters: Any) -> None:
        self.policy = bind("dodo", {"components": COMPONENTS, **FAST, **parameters})
        self.loads, self.now, self.memory = dict(loads), 0.0, {}
        self.machines, self.requests = 5, tuple[HeldRequest, ...]()
        self.gone: set[str] = set()
        names = ("tweets", "extract", "count", "top")
        ids = {name: tuple(range(1 + 8 * n, 9 + 8 * n)) for n, name in enumerate(names)}
        components = tuple(
            Component(
                name, "spout" if name == "tweets" else "bolt", ids[name], (Executor(ids[name][0], ids[name][-1]),)
            )
            for name in names
        )
        edges = tuple(Edge(a, "default", b, "shuffle", 100.0) for a, b in pairwise(names))
        self.topology = Topology("t-1", "t", 20, components, edges)

    def observation(self, **changes: Any) -> Observation:
        """Machines have half a core each, of which the loads are shares; tuples take twice their CPU time."""
        components = tuple(
            replace(
                each, executed_per_s=100.0, execute_ms=self.loads[each.name] * 10,
                executors=tuple(
                    replace(e, cpu_load=self.loads[each.name] / 2 / len(each.executors)) for e in each.executors
                ),
            )
            if each.kind == "bolt" else each
            for each in self.topology.components
        )  # fmt: skip
        machines = tuple(
            replace(m, cores=0.5) for m in topologies_by_hand.machines(self.machines) if m.name not in self.gone
        )
        seen = replace(self.topology, components=components, samples_age_s=1.0, window_s=30.0)
        limits = MachineLimits(3, 8, len(machines))
        observation = Observation(
            self.now, machines, (seen,), 1.0, may_act=True, machine_requests=self.requests, machine_limits=limits,
            groups=GROUPS,
        )  # fmt: skip
        return replace(observation, **changes)

    def round(self, **changes: Any) -> Decision:
        observation = self.observation(**changes)
        decision = self.policy(observation, json.loads(json.dumps(self.memory)))
        assert refusal(observation, decision) is None
        self.memory = dict(decision.memory)
        executors = decision.executors.get("t-1", {})
        components = tuple(
            replace(each, executors=tuple(Executor(a, b) for a, b in executor_ranges(each.tasks, executors[each.name])))
            if each.name in executors else each
            for each in self.topology.components
        )  # fmt: skip
        placement = {**self.topology.placement, **decision.placement.get("t-1", {})}
        self.topology = replace(self.topology, components=components, placement=placement)
        self.gone |= set(decision.release)
        self.now += 10
        return decision

    def rounds(self, number: int) -> list[Decision]:
        return [decision for decision in (self.round() for _ in range(number)) if decision.changes()]

    def executors(self, component: str) -> dict[str, int]:
        """Return machine → executors of the component."""
        slots = [
            self.topology.placement[each.first_task].machine for each in self.topology.component(component).executors
        ]
        return {name: slots.count(name) for name in sorted(set(slots))}


def test_components_are_spread_evenly_over_the_machines_of_their_groups() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1})
    cluster.round()
    cluster.rounds(1)
    assert cluster.executors("tweets") == {"m1": 1}
    assert cluster.executors("extract") == {"m2": 1, "m3": 1, "m4": 1}
    assert cluster.executors("count") == cluster.executors("top") == {"m5": 1}
    assert cluster.rounds(10) == []  # loads are 0.1 and 0.2: nothing to do
    two = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1}, executors_per_machine=2)
    two.rounds(2)
    assert two.executors("extract") == {"m2": 2, "m3": 2, "m4": 2} and two.executors("top") == {"m5": 2}


def test_an_overloaded_group_lends_a_component_and_rests_after_it() -> None:
    """`small` has 0.9, `work` 0.1: half the difference is 0.4; 0.7 / 3 fits, and with 0.2 / 3 it fits too."""
    cluster = Cluster({"extract": 0.3, "count": 0.7, "top": 0.2}, most_moves=1)
    cluster.rounds(2)
    (move,) = cluster.rounds(3)
    assert move.kind == "move" and "count small → work" in move.reason and "small 0.90" in move.reason
    assert cluster.executors("count") == {"m2": 1, "m3": 1, "m4": 1}
    cluster.loads["top"] = 2.0
    assert cluster.rounds(6) == []  # rests for 100 s
    assert "top small → work" in cluster.rounds(8)[0].reason
    still = Cluster({"extract": 0.3, "count": 0.7, "top": 0.2}, balance=False)
    still.rounds(2)
    assert still.rounds(20) == []


def test_groups_grow_in_turn_and_machines_that_joined_are_of_the_group_that_asked() -> None:
    cluster = Cluster({"extract": 2.9, "count": 0.7, "top": 0.2}, balance=False, autoscale=True)
    cluster.rounds(2)
    (first,) = cluster.rounds(3)
    assert first.acquire == 1 and first.reason == "work of 3 machines has load 0.97: +1"
    request = HeldRequest("q1", "acquire", 1)
    cluster.requests = (request,)
    assert cluster.rounds(8) == []  # under way
    cluster.machines, cluster.requests = 6, (replace(request, machines=("m6",), outcome="done"),)
    (spread,) = cluster.rounds(1)
    assert spread.groups == {"m6": "work"} and cluster.executors("extract") == {"m2": 1, "m3": 1, "m4": 1, "m6": 1}
    (second,) = cluster.rounds(2)
    assert second.acquire == 1 and second.reason.startswith("small of 1 machines has load 0.90")


def test_a_machine_that_left_may_join_another_group() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.7, "top": 0.2}, balance=False, autoscale=True, begin={"work": 1})
    cluster.rounds(6)
    assert cluster.gone == {"m3", "m4"}
    cluster.requests, cluster.gone = (HeldRequest("q2", "acquire", 1, ("m3",), "done"),), {"m4"}
    cluster.rounds(2)
    assert cluster.executors("count") == {"m3": 1, "m5": 1}


def test_a_group_shrinks_and_nothing_stays_on_what_leaves() -> None:
    """0.3 cores over three machines are 0.1: 3 · (1 − 0.1 / 0.64) is 2, and two stay, so one leaves."""
    cluster = Cluster({"extract": 0.3, "count": 0.3, "top": 0.3}, balance=False, autoscale=True)
    cluster.rounds(2)
    (shrink,) = cluster.rounds(3)
    assert shrink.release == ("m4",) and cluster.executors("extract") == {"m2": 1, "m3": 1}
    assert cluster.rounds(20) == []


def test_groups_may_begin_with_fewer_machines() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1}, begin={"work": 1})
    (begin,) = [each for each in cluster.rounds(5) if each.release]
    assert begin.release == ("m3", "m4") and begin.reason == "groups begin with sources 1, work 1, small 1"
    assert cluster.executors("extract") == {"m2": 1}


@pytest.mark.parametrize(
    ("parameters", "load"),
    [
        ({}, 0.45),  # of the executors' threads
        ({"time": "processing"}, 0.9),  # 0.9 s for the tuples of a second, of half a core: 1.8
        ({"rate": "arriving"}, 0.9),  # twice as many come as are executed
    ],
)
def test_a_load_is_cpu_time_or_processing_time_of_what_is_executed_or_comes(
    parameters: dict[str, Any], load: float
) -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.9, "top": 0.0}, balance=False, **parameters)
    cluster.topology = replace(
        cluster.topology, edges=tuple(replace(edge, tuples_per_s=200.0) for edge in cluster.topology.edges)
    )
    cluster.rounds(3)
    assert cluster.memory["loads"]["count"][-1] == pytest.approx(load)


def test_growth_ends_at_the_experiment_s_limit() -> None:
    cluster = Cluster({"extract": 9.0, "count": 0.7, "top": 0.2}, balance=False, autoscale=True)
    cluster.rounds(2)
    (growth,) = cluster.rounds(3)
    assert growth.acquire == 3  # of 9 · … / 0.8 as 8 is the most and 5 are there
    cluster.machines, cluster.requests = 8, (HeldRequest("q1", "acquire", 3, ("m6", "m7", "m8"), "done"),)
    assert cluster.rounds(1) and cluster.rounds(20) == []


def test_what_may_not_leave_is_used_again_and_less_is_asked_for_after_a_refusal() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.3, "top": 0.3}, balance=False, autoscale=True)
    cluster.rounds(2)
    (shrink,) = cluster.rounds(3)
    cluster.gone = set()
    cluster.requests = (HeldRequest("q1", "release", 1, shrink.release, "failed", "it is needed"),)
    cluster.rounds(1)
    assert cluster.executors("extract") == {"m2": 1, "m3": 1, "m4": 1}
    cluster.loads["extract"] = 9.0
    (growth,) = cluster.rounds(8)[:1]
    assert growth.acquire == 3
    cluster.requests = (HeldRequest("q2", "acquire", 3, (), "refused", "one is down"),)
    assert [each.acquire for each in cluster.rounds(8)][:1] == [1]


def test_a_machine_that_is_slow_for_a_round_keeps_its_tasks() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1})
    cluster.rounds(2)
    slow = tuple(replace(each, alive=each.name != "m3") for each in cluster.observation().machines)
    assert not cluster.round(machines=slow).changes()


def test_a_change_that_failed_is_tried_again_after_a_while() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1})
    cluster.round()
    failed = (Failure("d1", "t-1", "Nimbus refused"),)
    assert not cluster.round(failures=failed).changes()
    assert not cluster.round().changes() and cluster.round().changes()


def test_without_cpu_times_nothing_is_decided_but_for_a_component_that_had_no_tuple() -> None:
    cluster = Cluster({"extract": 2.9, "count": 0.7, "top": 0.2}, balance=False, autoscale=True)

    def observed(**top: Any) -> tuple[Topology]:
        components = tuple(
            replace(each, executors=tuple(replace(e, cpu_load=None) for e in each.executors), **top)
            if each.name == "top" else each
            for each in cluster.observation().topologies[0].components
        )  # fmt: skip
        return (replace(cluster.observation().topologies[0], components=components),)

    cluster.round()
    reasons = {cluster.round(topologies=observed()).reason for _ in range(8)}
    assert reasons == {
        "components are spread over the machines of their groups", "the CPU time of a component is not measured",
    }  # fmt: skip
    assert 1 in {cluster.round(topologies=observed(executed_per_s=0.0)).acquire for _ in range(8)}


def test_a_component_of_one_task_does_not_share_its_machine_with_most_tasks_of_another() -> None:
    """Eight tasks of `extract` on three machines are 3, 3 and 2; the one of `top` goes where two are."""
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1}, components={
        "sources": ["tweets"], "work": ["extract", "top"], "small": ["count"]})  # fmt: skip
    components = tuple(
        replace(each, tasks=(25,), executors=(Executor(25, 25),)) if each.name == "top" else each
        for each in cluster.topology.components
    )
    acker = Component("__acker", "system", (40, 41), (Executor(40, 40), Executor(41, 41)))
    cluster.topology = replace(cluster.topology, components=(*components, acker))
    cluster.rounds(2)
    (place,) = cluster.executors("top")
    tasks = {slot.machine: 0 for slot in cluster.topology.placement.values()}
    for task in cluster.topology.component("extract").tasks:
        tasks[cluster.topology.placement[task].machine] += 1
    assert (tasks["m2"] + tasks["m3"] + tasks["m4"], tasks[place]) == (8, 2)
    assert cluster.executors("__acker").keys() <= {"m2", "m3", "m4", "m5"}, "not with the generators"


def test_a_reschedule_deals_all_components_out_anew() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.9, "top": 0.2})
    cluster.rounds(2)
    event = ScaleEvent("e1", "reschedule")
    decision = cluster.round(event=event, may_act=False)
    assert decision.settled and decision.reason == "static mapping: count in work, extract in small, top in work"
    assert cluster.executors("extract") == {"m5": 1} and cluster.executors("count") == {"m2": 1, "m3": 1, "m4": 1}
    held = Cluster({"extract": 0.3, "count": 0.9, "top": 0.2})
    held.rounds(2)
    late = replace(held.topology, samples_age_s=99.0)
    assert "99.0 s old" in held.round(event=event, may_act=False, topologies=(late,), samples_age_s=99.0).reason


def test_lost_tasks_are_placed_on_what_is_left_of_their_group() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1})
    cluster.rounds(2)
    lost = {task: slot for task, slot in cluster.topology.placement.items() if slot.machine == "m3"}
    cluster.gone = {"m3"}
    placement = {task: slot for task, slot in cluster.topology.placement.items() if task not in lost}
    cluster.topology = replace(cluster.topology, placement=placement)
    cluster.rounds(3)
    assert cluster.executors("extract") == {"m2": 1, "m4": 1}
    cluster.gone = {"m3", "m5"}
    cluster.topology = replace(cluster.topology, placement={
        task: slot for task, slot in cluster.topology.placement.items() if slot.machine != "m5"})  # fmt: skip
    cluster.rounds(3)
    assert sum(cluster.executors("count").values()) >= 1 and "m5" not in cluster.executors("count")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"components": {"a": ["x"], "b": ["x"]}}, "components has 'x' twice"),
        ({"components": {"a": "x"}}, "allowed are lists of components by group"),
        ({"min_load": 0.5}, "min_load is 0.5; allowed is a number below"),
        ({"correlation": 2}, "correlation is 2; allowed is a number from -1"),
        ({"executors_per_machine": 0}, "executors_per_machine is 0"),
        ({"window_s": 5}, "window_s is 5"),
        ({"rate": "all"}, "allowed are executed, arriving"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DodoParameters(**parameters)


def test_without_groups_it_places_what_has_no_slot_and_holds() -> None:
    cluster = Cluster({"extract": 0.3, "count": 0.1, "top": 0.1})
    first = decide(cluster.observation(groups={}), {}, DodoParameters())
    assert len(first.placement["t-1"]) == 32
    empty: Sequence[Topology] = ()
    assert "held" in decide(cluster.observation(topologies=tuple(empty)), {}, DodoParameters()).reason
