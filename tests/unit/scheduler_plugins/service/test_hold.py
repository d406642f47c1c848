"""A policy that decides by itself: when it may, what it hears of what failed, and that it may not anywhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.model import Decision, Memory, Observation, Slot
from scheduler_plugins.replay import replay
from scheduler_plugins.service.messages import observation_from_log, request_from_json
from scheduler_plugins.service.policy_call import Postponement
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.state import ServiceState
from tests.support.rounds import PLACED, TOPOLOGY, request
from tests.unit.scheduler_plugins.service.test_state import Clock

OUT = {"event_id": "e1", "kind": "scale_out", "joined": ["m3"]}


class Wanderer:
    """Moves the sinks to m3 in every round in which it may, and back; remembers the observations."""

    def __init__(self, rest_s: Any = 0.0) -> None:
        self.rest_s = rest_s
        self.observed: list[Observation] = []

    def __call__(self, observation: Observation, memory: Memory) -> Decision:
        self.observed.append(observation)
        if not observation.may_act:
            return Decision(memory=memory)
        here = observation.topologies[0].placement[3]
        to = Slot("m2", 6700) if here.machine == "m3" else Slot("m3", 6700)
        return Decision(placement={TOPOLOGY: {3: to, 4: to}}, memory=memory, reason=f"to {to}", rest_s=self.rest_s)


@pytest.fixture
def state(tmp_path: Path) -> ServiceState:
    state = ServiceState(tmp_path, Clock())
    state.configure({"run_id": "r1", "policy": "even", "window_s": 30})
    return state


def rounds(state: ServiceState, seconds: int, every: int = 2, **changes: Any) -> list[float]:
    """Nimbus asks every other second, and Storm carries out at once what is answered; when the policy decided."""
    decided, placement = [], dict(PLACED)
    for _ in range(0, seconds, every):
        now = state.clock()
        answer = state.schedule(request(now, placement, machines=3, **changes))
        if answer["decision_id"] is not None:
            placement |= answer["topologies"][TOPOLOGY]["placement"]
            state.applied({"decision_id": answer["decision_id"], "topology": TOPOLOGY, "t": now, "ok": True})
            decided.append(now - 1000.0)
        state.clock.now += every  # type: ignore[attr-defined]
    return decided


def test_it_acts_in_a_hold_and_nowhere_else(state: ServiceState) -> None:
    state.policy = Wanderer()
    assert rounds(state, 10) == []
    state.change_rounds({"decide_every_s": 10})
    assert rounds(state, 40) == [10, 20, 30, 40]
    state.change_rounds({"decide_every_s": None})
    assert rounds(state, 20) == []
    assert state.state()["policy_error"] is None


def test_it_may_rest_longer(state: ServiceState) -> None:
    state.policy = Wanderer(rest_s=25)
    state.change_rounds({"decide_every_s": 10})
    assert rounds(state, 60) == [0, 26, 52]


def test_it_is_still_asked_for_an_event_while_it_rests(state: ServiceState) -> None:
    state.policy = policy = Wanderer(rest_s=600)
    state.change_rounds({"decide_every_s": 10})
    rounds(state, 4)
    state.scale(OUT)
    rounds(state, 2)
    assert policy.observed[-1].event is not None and not policy.observed[-1].may_act


def test_the_next_run_begins_without_a_hold(state: ServiceState) -> None:
    state.change_rounds({"decide_every_s": 10})
    state.configure({"run_id": "r2", "policy": "even"})
    state.policy = Wanderer()
    assert rounds(state, 30) == []


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (
            Decision(placement={TOPOLOGY: {3: Slot("m3", 6700), 4: Slot("m3", 6700)}}),
            "it changes star and nobody asked",
        ),
        (Decision(executors={TOPOLOGY: {"centre": 2}}), "it changes star and nobody asked for that"),
        (Decision(scheduler="default", rebalance=(TOPOLOGY,)), "it changes star and nobody asked for that"),
        (Decision(release=("m3",)), "it releases m3 and nobody asked for that"),
        (Decision(rest_s="soon"), "rest_s is 'soon'; allowed are 0 to 3600"),  # type: ignore[arg-type]
        (Decision(rest_s=-1), "rest_s is -1; allowed are 0 to 3600"),
    ],
)
def test_what_nobody_asked_for_is_the_policys_failure(state: ServiceState, decision: Decision, said: str) -> None:
    state.policy = lambda _observation, _memory: decision
    assert state.schedule(request(1000.0, PLACED, machines=3))["decision_id"] is None
    assert said in state.state()["policy_error"]


def test_what_has_no_slot_may_always_be_placed(state: ServiceState) -> None:
    state.policy = lambda _observation, _memory: Decision(
        placement={TOPOLOGY: {3: Slot("m3", 6700), 1: Slot("m1", 6700)}}
    )
    left = {task: slot for task, slot in PLACED.items() if task != "3"}
    assert state.schedule(request(1000.0, left, machines=3))["decision_id"] == "d1"


def test_it_hears_once_what_of_its_decisions_failed(state: ServiceState) -> None:
    state.policy = policy = Wanderer()
    state.change_rounds({"decide_every_s": 4})
    state.schedule(request(1000.0, PLACED, machines=3))
    state.applied(
        {"decision_id": "d1", "topology": TOPOLOGY, "t": 1001.0, "ok": False, "message": "slot m3:6700 was lost"}
    )
    for _ in range(2):
        state.clock.now += 2  # type: ignore[attr-defined]
        state.schedule(request(state.clock(), PLACED, machines=3))
    heard = [observation.failures for observation in policy.observed]
    assert [[(each.decision_id, each.topology_id, each.why) for each in failures] for failures in heard] == [
        [], [("d1", TOPOLOGY, "slot m3:6700 was lost")], [],
    ]  # fmt: skip


def test_a_failure_is_not_lost_with_a_round_that_does_not_count(state: ServiceState) -> None:
    """The policy throws, and hears of it in the next round."""
    state.policy = Wanderer()
    state.change_rounds({"decide_every_s": 2})
    state.schedule(request(1000.0, PLACED, machines=3))
    state.applied({"decision_id": "d1", "topology": TOPOLOGY, "t": 1001.0, "ok": False, "message": "lost"})
    state.policy = lambda _observation, _memory: 1 / 0  # type: ignore[assignment, return-value]
    state.schedule(request(1002.0, PLACED, machines=3))
    state.policy = policy = Wanderer()
    state.schedule(request(1004.0, PLACED, machines=3))
    assert [each.why for each in policy.observed[-1].failures] == ["lost"]


def test_what_an_answer_that_got_lost_was_told_is_told_again(state: ServiceState) -> None:
    state.policy = policy = Wanderer()
    state.change_rounds({"decide_every_s": 60})
    state.schedule(request(1000.0, PLACED, machines=3) | {"last_decision": None})
    state.applied({"decision_id": "d1", "topology": TOPOLOGY, "t": 1001.0, "ok": False, "message": "lost"})
    state.clock.now += 60  # type: ignore[attr-defined]
    for _ in range(2):
        state.schedule(request(state.clock(), PLACED, machines=3) | {"last_decision": "d1"})
    assert [each.failures[0].why for each in policy.observed[1:]] == ["lost", "lost"]
    assert [each.may_act for each in policy.observed] == [True, True, True]


def test_a_round_that_a_busy_box_spoiled_is_nobodys_turn(state: ServiceState) -> None:
    state.policy = policy = Wanderer()
    state.change_rounds({"decide_every_s": 60})
    round = state.begin_round(request_from_json(request(1000.0, PLACED, machines=3)))
    assert "held: the box" in state.end_round(round, Postponement("the box is busy")).reason
    state.schedule(request(1002.0, PLACED, machines=3))
    assert policy.observed[-1].may_act


def test_the_log_has_what_the_policy_saw(state: ServiceState) -> None:
    state.policy = policy = Wanderer()
    state.change_rounds({"decide_every_s": 2})
    state.schedule(request(1000.0, PLACED, machines=3))
    state.applied({"decision_id": "d1", "topology": TOPOLOGY, "t": 1001.0, "ok": False, "message": "lost"})
    state.clock.now += 2  # type: ignore[attr-defined]
    state.schedule(request(1002.0, PLACED, machines=3))
    lines = [json.loads(line) for line in state.log_path.read_text().splitlines()]
    logged = [observation_from_log(line["observation"]) for line in lines]
    assert [(each.may_act, each.failures) for each in logged] == [(o.may_act, o.failures) for o in policy.observed]
    assert all(each.refused is None for each in replay(state.log_path, "even"))


@pytest.mark.parametrize("every", [0, 1.9, 3601, True, "10", float("nan")])
def test_a_length_of_rounds_that_cannot_be_is_refused(state: ServiceState, every: object) -> None:
    with pytest.raises(CallRefusal, match="allowed is null, or 2 to 3600 seconds") as refused:
        state.change_rounds({"decide_every_s": every})
    assert refused.value.status == 400


def test_what_it_decided_while_its_hold_ended_is_not_carried_out(state: ServiceState) -> None:
    state.policy = Wanderer()
    state.change_rounds({"decide_every_s": 5.0})
    round = state.begin_round(request_from_json(request(state.clock(), dict(PLACED), machines=3)))
    decision = state.policy(round.observation, round.memory)
    assert round.observation.may_act and decision.changes()
    state.change_rounds({"decide_every_s": None})
    answer = state.end_round(round, decision)
    assert answer.decision_id is None and answer.topologies == {}
