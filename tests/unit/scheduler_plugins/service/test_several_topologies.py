"""A run of two topologies: what the policy service knows of each, and what becomes of a decision on both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.policy_service import recovery_obstacle
from scheduler_plugins.model import Decision, Memory, Observation, Slot
from scheduler_plugins.replay import replay
from scheduler_plugins.service.messages import observation_from_log
from scheduler_plugins.service.run_snapshot import Move
from scheduler_plugins.service.state import ServiceState
from tests.support.rounds import PLACED, TOPOLOGY, line, request
from tests.unit.scheduler_plugins.service.test_state import Clock

OTHER = "other-2-1010"
OTHER_PLACED = {task: slot.replace("6700", "6701") for task, slot in PLACED.items()}


def round_of(t: float, *topologies: dict[str, Any], machines: int = 3) -> dict[str, Any]:
    return {**request(t, machines=machines), "topologies": list(topologies)}


def star(placement: Mapping[str, str] = PLACED, **changes: Any) -> dict[str, Any]:
    (topology,) = request(0.0, dict(placement), **changes)["topologies"]
    return dict(topology)


def other(placement: Mapping[str, str] = OTHER_PLACED, **changes: Any) -> dict[str, Any]:
    return star(placement, id=OTHER, name="other", **changes)


@pytest.fixture
def state(tmp_path: Path) -> ServiceState:
    state = ServiceState(tmp_path, Clock())
    state.configure({"run_id": "r1", "policy": "stela", "window_s": 30})
    return state


def feed(state: ServiceState, seconds: int = 20) -> float:
    """Star emits 100/s, the other 40/s."""
    for t in (1000.5 + second for second in range(seconds)):
        for topology, port, n in ((TOPOLOGY, 6700, 100), (OTHER, 6701, 40)):
            rates = {"spout": (n, 0), "centre": (n, n)}
            state.take_samples([line(t, "m1", rates, 0, topology, port)])
            state.take_samples([line(t, "m2", {"sink": (0, n)}, 0, topology, port)])
    return 1000.0 + seconds


def logged(state: ServiceState) -> Observation:
    return observation_from_log(json.loads(state.log_path.read_text().splitlines()[-1])["observation"])


def of_state(state: ServiceState) -> dict[str, Any]:
    return {topology["name"]: topology for topology in state.state()["topologies"]}


def test_each_topology_has_its_own_rates_though_their_tasks_have_the_same_numbers(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other()))
    now = state.clock.now = feed(state)  # type: ignore[attr-defined]
    state.schedule(round_of(now, star(), other()))
    rates = [topology.component("centre").executed_per_s for topology in logged(state).topologies]
    assert rates == pytest.approx([100, 40])
    assert [topology.sink_tuples_per_s for topology in logged(state).topologies] == pytest.approx([100, 40])
    assert {name: set(each["series"]["sinks"]) for name, each in of_state(state).items()} == {
        "star": {100.0}, "other": {40.0},
    }  # fmt: skip


def test_samples_are_as_old_as_those_of_the_topology_that_says_least(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other()))
    feed(state)
    state.take_samples([line(1030.0, machine, {}, 0, TOPOLOGY) for machine in ("m1", "m2")])
    state.schedule(round_of(1031.0, star(), other()))
    observation = logged(state)
    assert [topology.samples_age_s for topology in observation.topologies] == pytest.approx([1.0, 11.5])
    assert observation.samples_age_s == pytest.approx(11.5)


def test_a_worker_that_begins_hears_of_its_own_topologys_sources(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other()))
    state.note_sources(f"5,6 {OTHER}")
    assert state.take_samples([], OTHER)["schedules"].keys() == {"5", "6"}
    assert state.take_samples([], TOPOLOGY)["schedules"] == {}
    assert state.take_samples([], "unknown-3-1")["topology"] is None


def test_a_topology_that_arrives_is_placed_while_another_is_rebalanced(state: ServiceState) -> None:
    """Not where that one is, nor where it will be."""
    state.schedule(round_of(1000.0, star()))
    planned = {**PLACED, "3": "m3:6700", "4": "m3:6700"}
    answer = state.schedule(round_of(1010.0, star(rebalancing=True, planned=planned), other({})))
    assert set(answer["topologies"]) == {OTHER}
    given = set(answer["topologies"][OTHER]["placement"].values())
    assert given and not given & {"m1:6700", "m2:6700", "m3:6700"}


def test_what_a_rebalanced_topology_has_without_a_slot_is_not_placed_twice(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other()))
    answer = state.schedule(round_of(1002.0, star({"1": "m1:6700"}, rebalancing=True), other()))
    assert answer["topologies"] == {}
    assert state.snapshot().lost_tasks == ()


def test_an_event_waits_until_every_rebalance_is_over(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other()))
    now = state.clock.now = feed(state)  # type: ignore[attr-defined]
    state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m3"]})
    state.schedule(round_of(now, star(rebalancing=True), other()))
    assert logged(state).event is None
    assert (state.state()["pending_event"], state.state()["held"]) == ("e1", "held: a rebalance is under way")
    state.schedule(round_of(now, star(), other()))
    assert state.state()["pending_event"] is None
    assert [each.same for each in replay(state.log_path, "stela")] == [True] * 3


THIRD = "third-3-1020"


def third(**changes: Any) -> dict[str, Any]:
    """One for which no slot is free beside star and other on two machines."""
    return star({}, id=THIRD, name="third", **changes)


def test_an_event_waits_for_no_job_that_found_no_slot(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other(), machines=2))
    now = state.clock.now = feed(state)  # type: ignore[attr-defined]
    state.scale({"event_id": "e1", "kind": "scale_in", "leave": 1})
    state.schedule(round_of(now, star(), other(), third(), machines=2))
    assert logged(state).event is None, "first it is placed, if it can be"
    assert state.state()["held"] == "held: 6 tasks without a slot are placed first"
    state.schedule(round_of(now + 2, star(), other(), third(), machines=2))
    assert logged(state).event is not None and state.state()["pending_event"] is None
    assert state.state()["decisions"][-1]["release"] == ["m2"] and state.state()["policy_error"] is None


def test_a_job_that_found_no_slot_is_said_to_be_and_what_it_gets_later_is_no_part_of_the_event(
    state: ServiceState,
) -> None:
    state.schedule(round_of(1000.0, star(), other(), machines=2))
    now = state.clock.now = feed(state)  # type: ignore[attr-defined]
    for t in (now, now + 2):
        state.schedule(round_of(t, star(), other(), third(), machines=2))
    shown = state.snapshot()
    assert [each.unplaceable for each in shown.topologies] == [False, False, True]
    assert shown.samples_age_s is not None and shown.all_placed() and recovery_obstacle(shown, 0.0) is not None
    state.clock.now = now + 60  # type: ignore[attr-defined]
    state.scale({"event_id": "e1", "kind": "scale_in", "leave": 1})
    state.schedule(round_of(now + 60, star(), other(), third(), machines=3))
    *_, placed = state.state()["decisions"]
    assert placed["event_id"] is None and state.state()["pending_event"] == "e1", "rates are old: the event is held"


def test_a_scheduler_that_moves_what_runs_is_on_record_with_the_slots(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star()))
    state.clock.now = 1002.0  # type: ignore[attr-defined]
    state.schedule(round_of(1002.0, star()))
    assert state.snapshot().moves == ()
    task, slot = next(iter(PLACED.items()))
    state.clock.now = 1004.0  # type: ignore[attr-defined]
    state.schedule(round_of(1004.0, star({**PLACED, task: "m3:6703"})))
    assert state.snapshot().moves == (Move(1002.0, tuple(sorted([slot, "m3:6703"]))),)


def test_nobody_waits_in_a_hold_for_a_job_that_found_no_slot(state: ServiceState) -> None:
    def may_act(t: float, *topologies: dict[str, Any]) -> bool:
        state.clock.now = t  # type: ignore[attr-defined]
        state.schedule(round_of(t, *topologies, machines=2))
        return logged(state).may_act

    state.change_rounds({"decide_every_s": 2})
    assert may_act(1000.0, star(), other())
    assert [may_act(t, star(), other(), third()) for t in (1002.0, 1004.0, 1006.0)] == [False, True, True]
    assert not may_act(1008.0, star(), other({}), third()), "what has lost its slots is placed first"
    assert not may_act(1010.0, third()), "nothing runs"


def test_nobody_is_asked_while_everything_is_rebalanced(state: ServiceState) -> None:
    state.policy = lambda _observation, _memory: pytest.fail("asked")
    state.schedule(round_of(1000.0, star(rebalancing=True), other(rebalancing=True)))
    assert state.state()["policy_error"] is None


def test_a_slot_that_an_earlier_change_needs_is_not_given_away(state: ServiceState) -> None:
    state.policy = lambda _observation, _memory: Decision(placement={OTHER: {3: Slot("m3", 6700)}})
    planned = {**PLACED, "3": "m3:6700"}
    state.schedule(round_of(1000.0, star(rebalancing=True, planned=planned), other()))
    assert "m3:6700 would belong to" in state.state()["policy_error"]


def test_an_exchange_that_is_under_way_is_nobodys_conflict(state: ServiceState) -> None:
    """A third topology has the policy asked meanwhile; what the two still have and will have is the same slots."""
    state.policy = lambda _observation, memory: Decision(memory=memory)
    third = star(dict.fromkeys(PLACED, "m3:6700"), id="third-3-1000", name="third")
    swapped = ({**PLACED, "3": "m2:6701", "4": "m2:6701"}, {**OTHER_PLACED, "3": "m2:6700", "4": "m2:6700"})
    one, two = star(rebalancing=True, planned=swapped[0]), other(rebalancing=True, planned=swapped[1])
    state.schedule(round_of(1000.0, one, two, third))
    assert state.state()["policy_error"] is None


def test_a_slot_that_a_topology_has_again_is_not_silent_for_what_was_there_before(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star()))
    state.take_samples([line(1001.0, machine, {}) for machine in ("m1", "m2")])
    elsewhere = {task: slot.replace("m2", "m3") for task, slot in PLACED.items()}
    state.clock.now = 1002.0  # type: ignore[attr-defined]
    state.schedule(round_of(1002.0, star(elsewhere)))
    state.clock.now = 1100.0  # type: ignore[attr-defined]
    state.take_samples([line(1099.5, "m1", {})])
    state.schedule(round_of(1100.0, star()))
    assert of_state(state)["star"]["samples_age_s"] is None, "m2's worker of now has not sent any"
    state.take_samples([line(1101.0, "m2", {})])
    assert of_state(state)["star"]["samples_age_s"] == pytest.approx(0.5)


def exchange(observation: Observation, memory: Memory) -> Decision:
    """The sinks of both change places, once; counts its decisions, for each topology and in all."""
    decided = memory.get("decided", 0)
    if decided == 1 or len(observation.topologies) < 2:
        return Decision(memory=memory)
    sinks = {TOPOLOGY: Slot("m2", 6701), OTHER: Slot("m2", 6700)}
    return Decision(
        placement={topology: {3: slot, 4: slot} for topology, slot in sinks.items()},
        memory={"decided": decided + 1, "topologies": {topology: {"moved": 1} for topology in sinks}},
        reason="the sinks change places",
    )


def decide_exchange(state: ServiceState) -> None:
    state.policy = exchange
    state.change_rounds({"decide_every_s": 2})
    answer = state.schedule(round_of(1000.0, star(), other()) | {"last_decision": None})
    assert set(answer["topologies"]) == {TOPOLOGY, OTHER}, "two topologies may exchange their slots in one decision"


def say(state: ServiceState, topology: str, ok: bool) -> None:
    body = {"decision_id": "d1", "topology": topology, "t": 1003.0, "ok": ok, "message": "" if ok else "m2 died"}
    state.applied(body)


def test_a_decision_is_applied_when_it_is_for_every_topology(state: ServiceState) -> None:
    decide_exchange(state)
    say(state, TOPOLOGY, True)
    (decision,) = state.state()["decisions"]
    assert (decision["applied"], decision["applied_to"], decision["applied_t"]) == (False, [TOPOLOGY], None)
    say(state, OTHER, True)
    (decision,) = state.state()["decisions"]
    assert (decision["applied"], decision["applied_t"]) == (True, 1003.0)


def test_what_failed_for_one_topology_is_forgotten_for_that_one(state: ServiceState) -> None:
    decide_exchange(state)
    say(state, TOPOLOGY, False)
    say(state, OTHER, True)
    assert state.memory == {"decided": 1, "topologies": {OTHER: {"moved": 1}}}
    (decision,) = state.state()["decisions"]
    assert (decision["applied"], decision["applied_to"], decision["message"]) == (False, [OTHER], "m2 died")


def test_what_nimbus_never_says_of_one_topology_expires_for_that_one(state: ServiceState) -> None:
    decide_exchange(state)
    say(state, OTHER, True)
    state.clock.now += 75  # type: ignore[attr-defined]
    (decision,) = state.state()["decisions"]
    assert decision["expired"] and decision["applied_to"] == [OTHER]
    assert state.memory == {"decided": 1, "topologies": {OTHER: {"moved": 1}}}


def test_a_topology_that_leaves_takes_nothing_with_it(state: ServiceState) -> None:
    state.schedule(round_of(1000.0, star(), other()))
    now = state.clock.now = feed(state)  # type: ignore[attr-defined]
    state.schedule(round_of(now, star()))
    left = of_state(state)["other"]
    assert (left["running"], left["tasks_total"], state.snapshot().lost_tasks) == (False, 0, ())
    assert set(left["series"]["sinks"]) == {40.0}
    assert of_state(state)["star"]["running"]
