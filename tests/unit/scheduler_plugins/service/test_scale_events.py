"""Scale events between harness, policy and bridge: machines that leave, decisions that fail, samples that stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.model import Decision, Memory, Observation, Slot
from scheduler_plugins.policies import POLICIES, PolicyEntry, bind
from scheduler_plugins.replay import read_rounds, replay
from scheduler_plugins.service.messages import request_from_json
from scheduler_plugins.service.policy_call import ask_policy
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.state import ServiceState
from tests.support.rounds import PLACED, TOPOLOGY, only_topology, request
from tests.unit.scheduler_plugins.service.test_state import Clock, feed

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
def service_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceState:
    both = frozenset({"scale_in", "scale_out"})
    monkeypatch.setitem(POLICIES, "release", PolicyEntry(release, Release, both))
    service_state = ServiceState(tmp_path, Clock())
    begin(service_state, "release")
    return service_state


def begin(service_state: ServiceState, policy: str, **parameters: Any) -> None:
    service_state.configure({"run_id": "r1", "policy": policy, "parameters": parameters, "window_s": 30})


def tell(
    service_state: ServiceState, ok: bool, message: str = "", topology: str = TOPOLOGY, decision: str = "d1"
) -> None:
    service_state.applied({"decision_id": decision, "topology": topology, "t": 1010.0, "ok": ok, "message": message})


def last_logged(service_state: ServiceState) -> dict[str, Any]:
    *_, logged = read_rounds(service_state.log_path)
    return logged


def test_a_scale_in_is_decided_and_says_what_may_leave(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    answer = service_state.schedule(request(1001.0, PLACED))
    assert answer["release"] == ["m2"] and set(answer["topologies"][TOPOLOGY]["placement"]) == {"3", "4"}
    assert last_logged(service_state)["decision"]["release"] == ["m2"]
    (decision,) = service_state.state()["decisions"]
    assert decision["release"] == ["m2"] and not decision["applied"] and decision["applied_t"] is None
    tell(service_state, ok=True)
    (decision,) = service_state.state()["decisions"]
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
def test_a_scale_in_that_cannot_be_is_refused(
    service_state: ServiceState, body: dict[str, Any], status: int, said: str
) -> None:
    service_state.schedule(request(1000.0, PLACED))
    with pytest.raises(CallRefusal, match=said) as refused:
        service_state.scale(body)
    assert refused.value.status == status
    assert service_state.state()["pending_event"] is None


def test_the_last_machine_stays(service_state: ServiceState) -> None:
    with pytest.raises(CallRefusal, match="has not said yet") as refused:
        service_state.scale(IN)
    assert refused.value.status == 409
    service_state.schedule(request(1000.0, ON_M1, machines=1))
    with pytest.raises(CallRefusal, match="nothing is allowed: at least one machine must stay, and m1 is alive"):
        service_state.scale(IN)


def test_a_machine_that_still_runs_something_is_not_released(service_state: ServiceState) -> None:
    begin(service_state, "release", to="m2:6701")
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    answer = service_state.schedule(request(1001.0, PLACED))
    assert answer["topologies"] == {} and not answer["release"]
    state = service_state.state()
    assert "machine m2 is to be released" in state["policy_error"] and state["pending_event"] == "e1"
    assert "machine m2 is to be released" in state["held"]


def test_nothing_is_placed_on_a_machine_that_was_released_until_it_joins_again(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, ON_M1))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, ON_M1))
    lost = {task: slot for task, slot in ON_M1.items() if task in ("1", "2")}
    placed = service_state.schedule(request(1002.0, lost))["topologies"][TOPOLOGY]["placement"]
    assert {slot.split(":")[0] for slot in placed.values()} == {"m1"}
    with pytest.raises(CallRefusal, match="at least one machine must stay"):
        service_state.scale({**IN, "event_id": "e2"})
    service_state.scale({"event_id": "e3", "kind": "scale_out", "joined": ["m2"]})
    service_state.schedule(request(1003.0, ON_M1))
    assert [m["alive"] for m in last_logged(service_state)["observation"]["machines"]] == [True, True]


def test_a_machine_that_left_and_came_back_counts_again(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, ON_M1))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, ON_M1))
    service_state.schedule(request(1002.0, ON_M1, machines=1))
    service_state.schedule(request(1003.0, ON_M1))
    assert [m["alive"] for m in last_logged(service_state)["observation"]["machines"]] == [True, True]


def test_a_decision_that_failed_never_was_and_the_operation_may_be_sent_again(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, PLACED))
    tell(service_state, ok=False, message="slot m1:6700 was lost between decision and rebalance; nothing was moved")
    state = service_state.state()
    assert state["pending_event"] is None and state["held"] is None
    assert not state["decisions"][0]["applied"] and "m1:6700 was lost" in state["decisions"][0]["message"]
    assert service_state.memory == {}
    with pytest.raises(CallRefusal, match="e1 was decided already; send it again under another id"):
        service_state.scale(IN)
    service_state.scale({**IN, "event_id": "e1.2"})
    assert service_state.schedule(request(1012.0, PLACED))["release"] == ["m2"]
    assert [m["alive"] for m in last_logged(service_state)["observation"]["machines"]] == [True, True]
    tell(service_state, ok=True, decision="d2")
    assert [d["applied"] for d in service_state.state()["decisions"]] == [False, True]
    assert service_state.memory == {"events": 1}


def test_a_policy_with_more_to_do_loses_its_event_when_a_step_fails(service_state: ServiceState) -> None:
    def by_steps(observation: Observation, memory: Memory) -> Decision:
        return replace(release(observation, memory), settled=False)

    service_state.policy = by_steps
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, PLACED))
    assert service_state.state()["pending_event"] == "e1"
    tell(service_state, ok=False, message="m1 died")
    assert service_state.state()["pending_event"] is None
    service_state.scale({**IN, "event_id": "e1.2"})


def test_without_samples_nothing_is_decided_and_with_them_again_it_is(service_state: ServiceState) -> None:
    begin(service_state, "stela")
    service_state.schedule(request(1000.0, PLACED, machines=3))
    now = feed(service_state, 20)
    service_state.schedule(request(now, PLACED, machines=3))
    service_state.scale(OUT)
    assert service_state.state()["held"] == "held: no scheduling round since the event"
    assert service_state.schedule(request(now + 12, PLACED, machines=3))["decision_id"] is None
    state = service_state.state()
    assert state["held"] == "held: samples are 12.5 s old, allowed are 10 s" and state["pending_event"] == "e1"
    now = feed(service_state, 20, start=now + 12)
    assert service_state.schedule(request(now, PLACED, machines=3))["decision_id"] == "d1"
    assert service_state.state()["held"] is None and service_state.state()["pending_event"] is None


def test_what_a_crash_unplaced_is_placed_while_the_event_waits(service_state: ServiceState) -> None:
    begin(service_state, "stela")
    service_state.schedule(request(1000.0, PLACED, machines=3))
    service_state.scale(OUT)
    lost = {task: slot for task, slot in PLACED.items() if not slot.startswith("m2")}
    answer = service_state.schedule(request(1001.0, lost, machines=3))
    assert set(answer["topologies"][TOPOLOGY]["placement"]) == {"3", "4"}
    state = service_state.state()
    assert state["held"] == "held: 2 tasks without a slot are placed first" and state["pending_event"] == "e1"
    assert state["decisions"][0]["event_id"] is None
    now = feed(service_state, 20)
    assert service_state.schedule(request(now, PLACED, machines=3))["decision_id"] == "d2"
    assert service_state.state()["decisions"][1]["event_id"] == "e1"
    assert all(r.same and r.refused is None for r in replay(service_state.log_path, "stela"))


def test_what_storm_says_of_tasks_without_a_slot_is_in_the_state(service_state: ServiceState) -> None:
    begin(service_state, "storm", scheduler="resource_aware")
    why = "resource_aware left 3 of 3 executors of star without a slot: Not enough resources"
    service_state.schedule(request(1000.0, {}, machines=3, unplaced_why=why))
    assert only_topology(service_state.state())["unplaced_why"] == why
    service_state.scale(OUT)
    service_state.schedule(request(1001.0, {}, machines=3, unplaced_why=why))
    assert service_state.state()["held"] == f"held: 6 tasks without a slot are placed first ({why})"
    service_state.schedule(request(1002.0, PLACED, machines=3))
    assert only_topology(service_state.state())["unplaced_why"] is None
    assert service_state.state()["pending_event"] is None


def test_storms_rebalance_is_applied_when_the_bridge_says_so(service_state: ServiceState) -> None:
    begin(service_state, "storm", rebalance=True)
    asked = service_state.schedule(request(1000.0, PLACED, machines=3))["scheduler"]
    assert (asked["name"], asked["conf"]) == ("default", {})
    service_state.scale(OUT)
    answer = service_state.schedule(request(1001.0, PLACED, machines=3))
    assert (answer["decision_id"], answer["rebalance"]) == ("d1", [TOPOLOGY])
    (decision,) = service_state.state()["decisions"]
    assert not decision["applied"] and decision["slots"] is None, "it may restart any worker"
    assert service_state.state()["pending_event"] is None
    tell(service_state, ok=True)
    assert service_state.state()["decisions"][0]["applied"]
    assert all(r.same for r in replay(service_state.log_path, "storm", {"rebalance": True}))
    assert not all(r.same for r in replay(service_state.log_path, "storm", {"rebalance": False}))


@pytest.mark.parametrize("factor", [True, None, "2", float("nan"), float("inf")])
def test_an_input_rate_that_cannot_be_is_refused(service_state: ServiceState, factor: object) -> None:
    with pytest.raises(CallRefusal, match="allowed is a number from 1e-06 to 1000, times") as refused:
        service_state.change_input_rate({"factor": factor})
    assert refused.value.status == 400 and service_state.state()["input_rate_factor"] == 1.0


def test_spouts_hear_of_the_input_rate_until_the_next_run(service_state: ServiceState) -> None:
    assert service_state.take_samples(["{}"]) == {"input_rate_factor": 1.0}
    assert service_state.change_input_rate({"factor": 1.5}) == {"factor": 1.5, "t": service_state.clock()}
    assert service_state.take_samples(["damaged"]) == {"input_rate_factor": 1.5}
    assert service_state.state()["input_rate_factor"] == 1.5
    begin(service_state, "even")
    assert service_state.take_samples(["{}"]) == {"input_rate_factor": 1.0}


def test_a_decision_whose_answer_got_lost_was_never_made(service_state: ServiceState) -> None:
    begin(service_state, "stela")
    service_state.schedule(request(1000.0, PLACED, machines=3) | {"last_decision": None})
    now = feed(service_state, 20)
    service_state.schedule(request(now, PLACED, machines=3) | {"last_decision": None})
    service_state.scale(OUT)
    before = service_state.memory
    first = service_state.schedule(request(now, PLACED, machines=3) | {"last_decision": None})
    assert first["decision_id"] == "d1" and service_state.event is None
    again = service_state.schedule(request(now + 2, PLACED, machines=3) | {"last_decision": None})
    assert (again["decision_id"], again["topologies"]) == ("d2", first["topologies"])
    assert [d["decision_id"] for d in service_state.state()["decisions"]] == ["d2"]
    assert last_logged(service_state)["withdrawn"] == "d1" and last_logged(service_state)["memory"] == before
    service_state.schedule(request(now + 4, PLACED, machines=3, rebalancing=True) | {"last_decision": "d2"})
    tell(service_state, ok=True, decision="d1")
    assert not service_state.state()["decisions"][0]["applied"]
    tell(service_state, ok=True, decision="d2")
    assert service_state.state()["decisions"][0]["applied"]


def test_a_decision_says_whether_it_arrived_and_in_which_slots_workers_restart(service_state: ServiceState) -> None:
    """m1's worker gives one of the centre's two tasks away; m2's has nothing to do with it: 3 executors on 2 machines
    are one for the new one where that is rounded down."""
    begin(service_state, "stela", slots="per_machine_floor")
    service_state.schedule(request(1000.0) | {"last_decision": None})
    (placed,) = service_state.state()["decisions"]
    assert (placed["arrived"], placed["slots"]) == (False, []), "what is only placed restarts nothing"
    service_state.schedule(request(1001.0, PLACED, machines=3) | {"last_decision": "d1"})
    tell(service_state, ok=True)
    now = feed(service_state, 20)
    service_state.scale(OUT)
    service_state.schedule(request(now, PLACED, machines=3) | {"last_decision": "d1"})
    assert [d["arrived"] for d in service_state.state()["decisions"]] == [True, False]
    assert service_state.state()["decisions"][1]["slots"] == ["m1:6700", "m3:6700"]
    service_state.schedule(request(now + 2, PLACED, machines=3, rebalancing=True) | {"last_decision": "d2"})
    assert service_state.state()["decisions"][1]["arrived"]


def test_a_worker_that_is_given_a_dead_ones_executors_restarts(service_state: ServiceState) -> None:
    """The topology has no slot more than that one."""
    begin(service_state, "stela")
    left = {task: slot for task, slot in PLACED.items() if slot.startswith("m1")}
    placed = service_state.schedule(request(1000.0, left, machines=1, workers=1))["topologies"][TOPOLOGY]["placement"]
    assert placed == {"3": "m1:6700", "4": "m1:6700"}
    assert service_state.state()["decisions"][0]["slots"] == ["m1:6700"]


def test_a_machine_that_a_lost_answer_released_stays(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED) | {"last_decision": None})
    service_state.scale(IN)
    assert service_state.schedule(request(1001.0, PLACED) | {"last_decision": None})["release"] == ["m2"]
    assert service_state.schedule(request(1002.0, PLACED) | {"last_decision": None})["release"] == ["m2"]
    assert [m["alive"] for m in last_logged(service_state)["observation"]["machines"]] == [True, True]


def test_a_bridge_that_says_the_same_twice_says_it_once(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, PLACED))
    tell(service_state, ok=True)
    once = service_state.state()["decisions"]
    tell(service_state, ok=False, message="a late one")
    assert service_state.state()["decisions"] == once and once[0]["applied"]


def test_a_decision_of_which_nimbus_says_nothing_expires(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, PLACED))
    begun = service_state.clock()
    service_state.clock.now = begun + 74  # type: ignore[attr-defined]
    assert service_state.state()["decisions"][0]["applied_t"] is None
    service_state.clock.now = begun + 75  # type: ignore[attr-defined]
    (decision,) = service_state.state()["decisions"]
    assert decision["expired"] and not decision["applied"] and decision["applied_t"] == begun + 75
    assert "Nimbus has not said within 75 s whether it was applied; it last asked 75 s ago" in decision["message"]
    assert service_state.memory == {}, "it never was"
    assert service_state.state()["nimbus_age_s"] == 75
    tell(service_state, ok=True)
    assert not service_state.state()["decisions"][0]["applied"], "it is too late to say so"


def test_a_rebalance_that_waits_is_told_to_nimbus_and_expires_later(service_state: ServiceState) -> None:
    begin(service_state, "even", rebalance=True, wait_s=30)
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale({**OUT, "joined": ["m2"]})
    crowded = request(1001.0, dict.fromkeys(PLACED, "m1:6700"))
    answer = service_state.schedule(crowded)
    assert answer["wait_s"] == 30 and answer["reason"].endswith("round robin, after a wait of 30 s")
    assert last_logged(service_state)["decision"]["wait_s"] == 30
    begun = service_state.clock()
    service_state.clock.now = begun + 134  # type: ignore[attr-defined]
    assert service_state.state()["decisions"][0]["applied_t"] is None, "one that restarts at once waits 30 s again"
    service_state.clock.now = begun + 135  # type: ignore[attr-defined]
    (decision,) = service_state.state()["decisions"]
    assert decision["expired"] and "Nimbus has not said within 135 s" in decision["message"]


def test_a_nimbus_that_takes_over_waits_once_more_before_a_decision_expires(service_state: ServiceState) -> None:
    begin(service_state, "even", rebalance=True, wait_s=30)
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale({**OUT, "joined": ["m2"]})
    crowded = dict.fromkeys(PLACED, "m1:6700")
    service_state.schedule(request(1001.0, crowded))
    begun = service_state.clock()
    for seconds, pending in ((20, True), (124, True), (125, False)):
        service_state.clock.now = begun + seconds  # type: ignore[attr-defined]
        if seconds == 20:
            service_state.schedule(request(1021.0, crowded, rebalancing=True))
        assert (service_state.state()["decisions"][0]["applied_t"] is None) == pending


def test_a_reschedule_is_decided_as_a_scale_event_is(service_state: ServiceState) -> None:
    begin(service_state, "even", rebalance=True)
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale({"event_id": "e1", "kind": "reschedule"})
    answer = service_state.schedule(request(1001.0, dict.fromkeys(PLACED, "m1:6700")))
    assert set(answer["topologies"][TOPOLOGY]["placement"].values()) - {"m1:6700"}
    (decision,) = service_state.state()["decisions"]
    assert decision["event_id"] == "e1" and service_state.state()["pending_event"] is None
    assert all(each.same for each in replay(service_state.log_path, "even", {"rebalance": True}))


def test_a_reschedule_changes_no_machine(service_state: ServiceState) -> None:
    begin(service_state, "even")
    service_state.schedule(request(1000.0, PLACED))
    for body in ({"leave": 1}, {"joined": ["m2"]}):
        with pytest.raises(CallRefusal, match="with a reschedule; allowed are none and 0") as refused:
            service_state.scale({"event_id": "e1", "kind": "reschedule"} | body)
        assert refused.value.status == 400
    begin(service_state, "stela")
    with pytest.raises(CallRefusal, match="kind is 'reschedule'; stela answers scale_in, scale_out"):
        service_state.scale({"event_id": "e1", "kind": "reschedule"})


def test_a_wait_is_only_of_what_moves_something(service_state: ServiceState) -> None:
    begin(service_state, "even", rebalance=True, wait_s=30)
    dealt = service_state.schedule(request(1000.0))["topologies"][TOPOLOGY]["placement"]
    service_state.scale({**OUT, "joined": ["m2"]})
    assert not service_state.schedule(request(1001.0, dealt))["wait_s"], "all is where it would be dealt to"
    begin(service_state, "even", rebalance=True)
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale({**OUT, "joined": ["m2"]})
    assert not service_state.schedule(request(1001.0, dict.fromkeys(PLACED, "m1:6700")))["wait_s"]


def test_a_nimbus_that_takes_over_has_the_time_of_a_decision_anew(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, PLACED))
    begun = service_state.clock()
    rebalancing = request(1060.0, PLACED, rebalancing=True)

    def pending_at(seconds: float, asks: bool = False) -> bool:
        service_state.clock.now = begun + seconds  # type: ignore[attr-defined]
        if asks:
            service_state.schedule(rebalancing)
        return service_state.state()["decisions"][0]["applied_t"] is None

    assert all(pending_at(seconds, asks=True) for seconds in range(10, 51, 10))
    assert pending_at(75), "Nimbus may come back, and has the plan on its disk"
    assert pending_at(80, asks=True) and pending_at(90, asks=True)
    assert all(pending_at(seconds, asks=True) for seconds in range(92, 154, 10))
    assert not pending_at(156, asks=True)


def test_what_was_decided_on_a_memory_that_is_no_more_is_not_sent(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    service_state.schedule(request(1001.0, PLACED))
    round = service_state.begin_round(request_from_json(request(1002.0, PLACED)))
    outcome = ask_policy(round)
    tell(service_state, ok=False, message="m1 died")
    answer = service_state.end_round(round, outcome)
    assert answer.decision_id is None and answer.reason == "held: the decision before it has failed meanwhile"


def test_a_round_of_the_run_before_decides_nothing(service_state: ServiceState) -> None:
    service_state.schedule(request(1000.0, PLACED))
    service_state.scale(IN)
    round = service_state.begin_round(request_from_json(request(1001.0, PLACED)))
    outcome = ask_policy(round)
    begin(service_state, "even")
    assert service_state.end_round(round, outcome).decision_id is None
    assert service_state.state()["decisions"] == [] and service_state.memory == {}
