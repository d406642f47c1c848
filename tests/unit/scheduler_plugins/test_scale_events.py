"""Scale events between harness, policy and bridge: machines that leave, decisions that fail, samples that stop."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.model import Decision, Memory, Observation, Slot
from scheduler_plugins.policies import POLICIES, Entry, bind
from scheduler_plugins.replay import replay
from scheduler_plugins.service_state import CallRefusal, ServiceState, decide
from tests.support.rounds import PLACED, TOPOLOGY, line, request
from tests.unit.scheduler_plugins.test_service_state import Clock, feed

OUT = {"event_id": "e1", "kind": "scale_out", "joined": ["m3"]}
IN = {"event_id": "e1", "kind": "scale_in", "leave": 1}
ON_M1 = {task: slot.replace("m2", "m1") for task, slot in PLACED.items()}


@dataclass(frozen=True)
class Release:
    machine: str = "m2"
    to: str = "m1:6700"


def release(observation: Observation, memory: Memory, parameters: Release = Release()) -> Decision:
    """Moves what is on a machine elsewhere and releases it; counts the events it has decided on."""
    if observation.event is None:
        return bind("even", {})(observation, memory)
    moved = {
        topology.topology_id: {
            task: Slot.parse(parameters.to)
            for task, slot in topology.placement.items()
            if slot.machine == parameters.machine and slot != Slot.parse(parameters.to)
        }
        for topology in observation.topologies
    }
    count = {"events": memory.get("events", 0) + 1}
    return Decision(placement=moved, release=(parameters.machine,), settled=True, memory=count, reason="released")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceState:
    both = frozenset({"scale_in", "scale_out"})
    monkeypatch.setitem(POLICIES, "release", Entry(release, Release, both))
    desk = ServiceState(tmp_path, Clock())
    begin(desk, "release")
    return desk


def begin(desk: ServiceState, policy: str, **parameters: Any) -> None:
    desk.configure({"run_id": "r1", "policy": policy, "parameters": parameters, "window_s": 30})


def tell(desk: ServiceState, ok: bool, message: str = "", topology: str = TOPOLOGY, decision: str = "d1") -> None:
    desk.applied({"decision_id": decision, "topology": topology, "t": 1010.0, "ok": ok, "message": message})


def last_logged(desk: ServiceState) -> dict[str, Any]:
    logged: dict[str, Any] = json.loads(desk.log_path.read_text().splitlines()[-1])
    return logged


def test_a_scale_in_is_decided_and_says_what_may_leave(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    answer = desk.schedule(request(1001.0, PLACED))
    assert answer["release"] == ["m2"] and set(answer["topologies"][TOPOLOGY]["placement"]) == {"3", "4"}
    assert last_logged(desk)["decision"]["release"] == ["m2"]
    (decision,) = desk.state()["decisions"]
    assert decision["release"] == ["m2"] and not decision["applied"] and decision["applied_t"] is None
    tell(desk, ok=True)
    (decision,) = desk.state()["decisions"]
    assert decision["applied"] and decision["applied_t"] == 1010.0


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({**IN, "leave": 0}, 400, "leave is 0; allowed are 1 to 1: at least one machine must stay"),
        (
            {**IN, "leave": 2},
            400,
            "leave is 2; allowed are 1 to 1: at least one machine must stay, and m1, m2 are alive",
        ),
        ({**IN, "leave": True}, 400, "leave is True"),
        ({**IN, "leave": "1"}, 400, "leave is '1'"),
        ({**IN, "joined": ["m2"]}, 400, "joined is m2 with a scale_in; allowed is none"),
    ],
)
def test_a_scale_in_that_cannot_be_is_refused(desk: ServiceState, body: dict[str, Any], status: int, said: str) -> None:
    desk.schedule(request(1000.0, PLACED))
    with pytest.raises(CallRefusal, match=said) as refused:
        desk.scale(body)
    assert refused.value.status == status
    assert desk.state()["pending_event"] is None


def test_the_last_machine_stays(desk: ServiceState) -> None:
    with pytest.raises(CallRefusal, match="has not said yet") as refused:
        desk.scale(IN)
    assert refused.value.status == 409
    desk.schedule(request(1000.0, ON_M1, machines=1))
    with pytest.raises(CallRefusal, match="nothing is allowed: at least one machine must stay, and m1 is alive"):
        desk.scale(IN)


def test_an_empty_machine_may_leave_at_once(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, ON_M1))
    desk.scale(IN)
    answer = desk.schedule(request(1001.0, ON_M1))
    assert (answer["release"], answer["topologies"]) == (["m2"], {})
    (decision,) = desk.state()["decisions"]
    assert decision["applied"] and decision["applied_t"] == desk.clock()


def test_a_machine_that_still_runs_something_is_not_released(desk: ServiceState) -> None:
    begin(desk, "release", to="m2:6701")
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    answer = desk.schedule(request(1001.0, PLACED))
    assert answer["topologies"] == {} and "release" not in answer
    state = desk.state()
    assert "machine m2 is to be released" in state["policy_error"] and state["pending_event"] == "e1"
    assert "machine m2 is to be released" in state["held"]


def test_nothing_is_placed_on_a_machine_that_was_released_until_it_joins_again(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, ON_M1))
    desk.scale(IN)
    desk.schedule(request(1001.0, ON_M1))
    lost = {task: slot for task, slot in ON_M1.items() if task in ("1", "2")}
    placed = desk.schedule(request(1002.0, lost))["topologies"][TOPOLOGY]["placement"]
    assert {slot.split(":")[0] for slot in placed.values()} == {"m1"}
    with pytest.raises(CallRefusal, match="at least one machine must stay"):
        desk.scale({**IN, "event_id": "e2"})
    desk.scale({"event_id": "e3", "kind": "scale_out", "joined": ["m2"]})
    desk.schedule(request(1003.0, ON_M1))
    assert [m["alive"] for m in last_logged(desk)["observation"]["machines"]] == [True, True]


def test_a_machine_that_left_and_came_back_counts_again(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, ON_M1))
    desk.scale(IN)
    desk.schedule(request(1001.0, ON_M1))
    desk.schedule(request(1002.0, ON_M1, machines=1))
    desk.schedule(request(1003.0, ON_M1))
    assert [m["alive"] for m in last_logged(desk)["observation"]["machines"]] == [True, True]


def test_a_decision_that_failed_never_was_and_the_operation_may_be_sent_again(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    desk.schedule(request(1001.0, PLACED))
    tell(desk, ok=False, message="slot m1:6700 was lost between decision and rebalance; nothing was moved")
    state = desk.state()
    assert state["pending_event"] is None and state["held"] is None
    assert not state["decisions"][0]["applied"] and "m1:6700 was lost" in state["decisions"][0]["message"]
    assert desk.memory == {}
    with pytest.raises(CallRefusal, match="e1 was decided already; send it again under another id"):
        desk.scale(IN)
    desk.scale({**IN, "event_id": "e1.2"})
    assert desk.schedule(request(1012.0, PLACED))["release"] == ["m2"]
    assert [m["alive"] for m in last_logged(desk)["observation"]["machines"]] == [True, True]
    tell(desk, ok=True, decision="d2")
    assert [d["applied"] for d in desk.state()["decisions"]] == [False, True]
    assert desk.memory == {"events": 1}


def test_a_policy_with_more_to_do_loses_its_event_when_a_step_fails(desk: ServiceState) -> None:
    def by_steps(observation: Observation, memory: Memory) -> Decision:
        return replace(release(observation, memory), settled=False)

    desk.policy = by_steps
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    desk.schedule(request(1001.0, PLACED))
    assert desk.state()["pending_event"] == "e1"
    tell(desk, ok=False, message="m1 died")
    assert desk.state()["pending_event"] is None
    desk.scale({**IN, "event_id": "e1.2"})


def test_a_decision_is_applied_when_it_is_for_every_topology_and_never_by_one_of_a_run_before(
    desk: ServiceState,
) -> None:
    both = request(1000.0, PLACED)
    other = {slot: slot.replace("6700", "6701") for slot in PLACED.values()}
    second = {**both["topologies"][0], "id": "sun-1", "placement": {t: other[s] for t, s in PLACED.items()}}
    both["topologies"].append(second)
    begin(desk, "even", rebalance=True)
    desk.schedule(both)
    desk.scale({**OUT, "joined": ["m2"]})
    assert set(desk.schedule(both)["topologies"]) == {TOPOLOGY, "sun-1"}
    tell(desk, ok=True, topology="of-a-run-before")
    tell(desk, ok=True)
    assert not desk.state()["decisions"][0]["applied"]
    tell(desk, ok=False, message="m2 died", topology="sun-1")
    (decision,) = desk.state()["decisions"]
    assert not decision["applied"] and decision["message"] == "m2 died" and decision["applied_t"] == 1010.0


def test_without_samples_nothing_is_decided_and_with_them_again_it_is(desk: ServiceState) -> None:
    begin(desk, "stela")
    desk.schedule(request(1000.0, PLACED, machines=3))
    now = feed(desk, 20)
    desk.schedule(request(now, PLACED, machines=3))
    desk.scale(OUT)
    assert desk.state()["held"] == "held: no scheduling round since the event"
    assert desk.schedule(request(now + 12, PLACED, machines=3))["decision_id"] is None
    state = desk.state()
    assert state["held"] == "held: samples are 12.5 s old, allowed are 10 s" and state["pending_event"] == "e1"
    now = feed(desk, 20, start=now + 12)
    assert desk.schedule(request(now, PLACED, machines=3))["decision_id"] == "d1"
    assert desk.state()["held"] is None and desk.state()["pending_event"] is None


def test_one_worker_that_is_silent_is_enough_to_hold(desk: ServiceState) -> None:
    begin(desk, "stela")
    desk.schedule(request(1000.0, PLACED, machines=3))
    now = feed(desk, 20)
    desk.take_samples([line(now + 12, "m1", {"spout": (100, 0), "centre": (50, 50)})])
    desk.scale(OUT)
    desk.schedule(request(now + 12, PLACED, machines=3))
    assert desk.state()["held"] == "held: samples are 12.5 s old, allowed are 10 s"


def test_what_a_crash_unplaced_is_placed_while_the_event_waits(desk: ServiceState) -> None:
    begin(desk, "stela")
    desk.schedule(request(1000.0, PLACED, machines=3))
    desk.scale(OUT)
    lost = {task: slot for task, slot in PLACED.items() if not slot.startswith("m2")}
    answer = desk.schedule(request(1001.0, lost, machines=3))
    assert set(answer["topologies"][TOPOLOGY]["placement"]) == {"3", "4"}
    state = desk.state()
    assert state["held"] == "held: 2 tasks without a slot are placed first" and state["pending_event"] == "e1"
    assert state["decisions"][0]["event_id"] is None
    now = feed(desk, 20)
    assert desk.schedule(request(now, PLACED, machines=3))["decision_id"] == "d2"
    assert desk.state()["decisions"][1]["event_id"] == "e1"
    assert all(r.same and r.refused is None for r in replay(desk.log_path, "stela"))


def test_what_storm_says_of_tasks_without_a_slot_is_in_the_state(desk: ServiceState) -> None:
    begin(desk, "storm", scheduler="resource_aware")
    why = "resource_aware left 3 of 3 executors of star without a slot: Not enough resources"
    desk.schedule(request(1000.0, {}, machines=3, unplaced_why=why))
    assert desk.state()["unplaced_why"] == why
    desk.scale(OUT)
    desk.schedule(request(1001.0, {}, machines=3, unplaced_why=why))
    assert desk.state()["held"] == f"held: 6 tasks without a slot are placed first ({why})"
    desk.schedule(request(1002.0, PLACED, machines=3))
    assert desk.state()["unplaced_why"] is None and desk.state()["pending_event"] is None


def test_storms_rebalance_is_applied_when_the_bridge_says_so(desk: ServiceState) -> None:
    begin(desk, "storm", rebalance=True)
    assert desk.schedule(request(1000.0, PLACED, machines=3))["scheduler"] == {"name": "default", "conf": {}}
    desk.scale(OUT)
    answer = desk.schedule(request(1001.0, PLACED, machines=3))
    assert (answer["decision_id"], answer["rebalance"]) == ("d1", [TOPOLOGY])
    assert not desk.state()["decisions"][0]["applied"] and desk.state()["pending_event"] is None
    tell(desk, ok=True)
    assert desk.state()["decisions"][0]["applied"]
    assert all(r.same for r in replay(desk.log_path, "storm", {"rebalance": True}))
    assert not all(r.same for r in replay(desk.log_path, "storm", {"rebalance": False}))


@pytest.mark.parametrize("factor", [0, -1, True, None, "2", float("nan"), float("inf")])
def test_an_input_rate_that_cannot_be_is_refused(desk: ServiceState, factor: object) -> None:
    with pytest.raises(CallRefusal, match="allowed is a number above 0") as refused:
        desk.change_input_rate({"factor": factor})
    assert refused.value.status == 400 and desk.state()["input_rate_factor"] == 1.0


def test_spouts_hear_of_the_input_rate_until_the_next_run(desk: ServiceState) -> None:
    assert desk.take_samples([]) == {"input_rate_factor": 1.0}
    assert desk.change_input_rate({"factor": 1.5}) == {"factor": 1.5, "t": desk.clock()}
    assert desk.take_samples(["damaged"]) == {"input_rate_factor": 1.5}
    assert desk.state()["input_rate_factor"] == 1.5
    begin(desk, "even")
    assert desk.take_samples([]) == {"input_rate_factor": 1.0}


def test_a_decision_whose_answer_got_lost_was_never_made(desk: ServiceState) -> None:
    begin(desk, "stela")
    desk.schedule(request(1000.0, PLACED, machines=3) | {"last_decision": None})
    now = feed(desk, 20)
    desk.schedule(request(now, PLACED, machines=3) | {"last_decision": None})
    desk.scale(OUT)
    before = desk.memory
    first = desk.schedule(request(now, PLACED, machines=3) | {"last_decision": None})
    assert first["decision_id"] == "d1" and desk.event is None
    again = desk.schedule(request(now + 2, PLACED, machines=3) | {"last_decision": None})
    assert (again["decision_id"], again["topologies"]) == ("d2", first["topologies"])
    assert [d["decision_id"] for d in desk.state()["decisions"]] == ["d2"]
    assert last_logged(desk)["withdrawn"] == "d1" and last_logged(desk)["memory"] == before
    desk.schedule(request(now + 4, PLACED, machines=3, rebalancing=True) | {"last_decision": "d2"})
    tell(desk, ok=True, decision="d1")
    assert not desk.state()["decisions"][0]["applied"]
    tell(desk, ok=True, decision="d2")
    assert desk.state()["decisions"][0]["applied"]


def test_a_decision_says_whether_it_arrived_and_in_which_slots_workers_restart(desk: ServiceState) -> None:
    """m1's worker gives one of the centre's two tasks away; m2's has nothing to do with it."""
    begin(desk, "stela")
    desk.schedule(request(1000.0) | {"last_decision": None})
    (placed,) = desk.state()["decisions"]
    assert (placed["arrived"], placed["slots"]) == (False, []), "what is only placed restarts nothing"
    desk.schedule(request(1001.0, PLACED, machines=3) | {"last_decision": "d1"})
    tell(desk, ok=True)
    now = feed(desk, 20)
    desk.scale(OUT)
    desk.schedule(request(now, PLACED, machines=3) | {"last_decision": "d1"})
    assert [d["arrived"] for d in desk.state()["decisions"]] == [True, False]
    assert desk.state()["decisions"][1]["slots"] == ["m1:6700", "m3:6700"]
    desk.schedule(request(now + 2, PLACED, machines=3, rebalancing=True) | {"last_decision": "d2"})
    assert desk.state()["decisions"][1]["arrived"]


def test_a_worker_that_is_given_a_dead_ones_executors_restarts(desk: ServiceState) -> None:
    """The topology has no slot more than that one."""
    begin(desk, "stela")
    left = {task: slot for task, slot in PLACED.items() if slot.startswith("m1")}
    placed = desk.schedule(request(1000.0, left, machines=1, workers=1))["topologies"][TOPOLOGY]["placement"]
    assert placed == {"3": "m1:6700", "4": "m1:6700"}
    assert desk.state()["decisions"][0]["slots"] == ["m1:6700"]


def test_storms_own_scheduler_may_restart_any_worker(desk: ServiceState) -> None:
    begin(desk, "storm", rebalance=True)
    desk.schedule(request(1000.0, PLACED, machines=3))
    desk.scale(OUT)
    desk.schedule(request(1001.0, PLACED, machines=3))
    (decision,) = desk.state()["decisions"]
    assert decision["slots"] is None


def test_a_machine_that_a_lost_answer_released_stays(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED) | {"last_decision": None})
    desk.scale(IN)
    assert desk.schedule(request(1001.0, PLACED) | {"last_decision": None})["release"] == ["m2"]
    assert desk.schedule(request(1002.0, PLACED) | {"last_decision": None})["release"] == ["m2"]
    assert [m["alive"] for m in last_logged(desk)["observation"]["machines"]] == [True, True]


def test_a_bridge_that_says_the_same_twice_says_it_once(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    desk.schedule(request(1001.0, PLACED))
    tell(desk, ok=True)
    once = desk.state()["decisions"]
    tell(desk, ok=False, message="a late one")
    assert desk.state()["decisions"] == once and once[0]["applied"]


def test_a_decision_of_which_nimbus_says_nothing_expires(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    desk.schedule(request(1001.0, PLACED))
    begun = desk.clock()
    desk.clock.now = begun + 74  # type: ignore[attr-defined]
    assert desk.state()["decisions"][0]["applied_t"] is None
    desk.clock.now = begun + 75  # type: ignore[attr-defined]
    (decision,) = desk.state()["decisions"]
    assert decision["expired"] and not decision["applied"] and decision["applied_t"] == begun + 75
    assert "Nimbus has not said within 75 s whether it was applied; it last asked 75 s ago" in decision["message"]
    assert desk.memory == {}, "it never was"
    assert desk.state()["nimbus_age_s"] == 75
    tell(desk, ok=True)
    assert not desk.state()["decisions"][0]["applied"], "it is too late to say so"


def test_a_nimbus_that_takes_over_has_the_time_of_a_decision_anew(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    desk.schedule(request(1001.0, PLACED))
    begun = desk.clock()
    rebalancing = request(1060.0, PLACED, rebalancing=True)

    def pending_at(seconds: float, asks: bool = False) -> bool:
        desk.clock.now = begun + seconds  # type: ignore[attr-defined]
        if asks:
            desk.schedule(rebalancing)
        return desk.state()["decisions"][0]["applied_t"] is None

    assert all(pending_at(seconds, asks=True) for seconds in range(10, 51, 10))
    assert pending_at(75), "Nimbus may come back, and has the plan on its disk"
    assert pending_at(80, asks=True) and pending_at(90, asks=True)
    assert all(pending_at(seconds, asks=True) for seconds in range(92, 154, 10))
    assert not pending_at(156, asks=True)


def test_what_was_decided_on_a_memory_that_is_no_more_is_not_sent(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    desk.schedule(request(1001.0, PLACED))
    round = desk.begin_round(request(1002.0, PLACED))
    outcome = decide(round)
    tell(desk, ok=False, message="m1 died")
    answer = desk.end_round(round, outcome)
    assert answer["decision_id"] is None and answer["reason"] == "held: the decision before it has failed meanwhile"


def test_a_round_of_the_run_before_decides_nothing(desk: ServiceState) -> None:
    desk.schedule(request(1000.0, PLACED))
    desk.scale(IN)
    round = desk.begin_round(request(1001.0, PLACED))
    outcome = decide(round)
    begin(desk, "even")
    assert desk.end_round(round, outcome)["decision_id"] is None
    assert desk.state()["decisions"] == [] and desk.memory == {}
