"""A policy that asks for machines in a hold, or lets some go: what the service makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.model import Decision, HeldRequest, MachineLimits, Memory, Observation, Slot
from scheduler_plugins.policies import POLICIES
from scheduler_plugins.replay import replay
from scheduler_plugins.service.messages import observation_from_log, request_from_json
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.server import CALLS, OF_THE_MACHINES
from scheduler_plugins.service.state import ServiceState
from tests.support import elastic_policy
from tests.support.rounds import PLACED, TOPOLOGY, request
from tests.unit.scheduler_plugins.service.test_state import Clock

LIMITS = {"min": 1, "max": 4}


@pytest.fixture
def state(tmp_path: Path) -> ServiceState:
    state = ServiceState(tmp_path, Clock())
    state.configure({"run_id": "r1", "policy": "even", "window_s": 30})
    return state


class Asks:
    """Answers these decisions in turn where it may act, then nothing; remembers the observations."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.observed: list[Observation] = []

    def __call__(self, observation: Observation, memory: Memory) -> Decision:
        self.observed.append(observation)
        return self.decisions.pop(0) if observation.may_act and self.decisions else Decision(memory=memory)


ALL_ON_M1 = {TOPOLOGY: dict.fromkeys((3, 4), Slot("m1", 6700))}


def hold(state: ServiceState, *decisions: Decision, machines: Any = LIMITS, every: float = 2) -> Asks:
    state.policy = policy = Asks(*decisions)
    state.change_rounds({"decide_every_s": every, "machines": machines})
    return policy


def schedule(state: ServiceState, machines: int = 3, placement: dict[str, str] = PLACED, **more: Any) -> dict[str, Any]:
    """A round, two seconds after the one before."""
    state.clock.now += 2  # type: ignore[attr-defined]
    return state.schedule(request(state.clock(), placement, machines=machines) | more)


def requests(state: ServiceState) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = state.state()["machine_requests"]
    return found


def outcomes(state: ServiceState) -> list[tuple[str, str, int]]:
    return [(each["request_id"], each["outcome"], each["times"]) for each in requests(state)]


def done(state: ServiceState, *machines: str, request_id: str = "q1") -> None:
    state.end_machine_request({"request_id": request_id, "outcome": "done", "machines": list(machines)})


def test_it_asks_and_hears_what_became_of_it(state: ServiceState) -> None:
    policy = hold(state, Decision(acquire=1, reason="queues grow"))
    schedule(state)
    (asked,) = requests(state)
    assert (asked["kind"], asked["number"], asked["ready"], asked["reason"]) == ("acquire", 1, True, "queues grow")
    schedule(state)
    assert policy.observed[-1].machine_requests == (HeldRequest("q1", "acquire", 1),)
    assert policy.observed[-1].machine_limits == MachineLimits(1, 4, 3)
    done(state, "m4")
    schedule(state, machines=4)
    assert policy.observed[-1].machine_requests == (HeldRequest("q1", "acquire", 1, ("m4",), "done"),)
    assert policy.observed[-1].machine_limits == MachineLimits(1, 4, 4)
    assert state.state()["policy_error"] is None


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_it_hears_why_it_gets_none(state: ServiceState, outcome: str) -> None:
    policy = hold(state, Decision(acquire=1))
    schedule(state)
    state.end_machine_request({"request_id": "q1", "outcome": outcome, "message": "no zone has one"})
    schedule(state)
    (heard,) = policy.observed[-1].machine_requests
    assert (heard.outcome, heard.why) == (outcome, "no zone has one")


def test_one_that_asks_each_round_is_refused_until_the_last_is_over(state: ServiceState) -> None:
    policy = hold(state, *[Decision(acquire=1)] * 6)
    for _ in range(5):
        schedule(state)
    assert outcomes(state) == [("q1", "under_way", 1), ("q2", "refused", 4)]
    refused, open_ = policy.observed[-1].machine_requests
    assert refused.why == "request q1 (acquire 1) is under way; ask again once it is over" and open_.request_id == "q1"
    done(state, "m4")
    schedule(state)
    (heard,) = policy.observed[-1].machine_requests
    assert (heard.request_id, heard.outcome) == ("q1", "done"), "the newest that is over"
    assert outcomes(state)[-1] == ("q3", "under_way", 1)
    assert state.state()["policy_error"] is None


def test_what_else_it_decides_is_carried_out_though_its_request_is_refused(state: ServiceState) -> None:
    hold(state, Decision(placement=ALL_ON_M1, release=("m2", "m3"), acquire=1, reason="both"))
    answer = schedule(state)
    assert answer["topologies"][TOPOLOGY]["placement"] == {"3": "m1:6700", "4": "m1:6700"}
    assert not answer["release"] and not answer["acquire"]
    (refused,) = requests(state)
    assert refused["why"] == "acquire is 1 and release is m2, m3; one request at a time"
    logged = json.loads(state.log_path.read_text().splitlines()[-1])["decision"]
    assert (logged["acquire"], logged["release"]) == (1, ["m2", "m3"]), "what the policy said"


@pytest.mark.parametrize(
    ("limits", "decision", "why"),
    [
        (None, Decision(acquire=1), "the experiment's machines has no max: the policy can neither acquire nor release"),
        (None, Decision(release=("m3",)), "the experiment's machines has no min: the policy can neither"),
        (LIMITS, Decision(acquire=2), "acquire is 2; allowed: at most 1, for 3 are there and machines.max is 4"),
        ({"min": 3, "max": 4}, Decision(release=("m3",)), "release is m3; allowed: at most 0, for 3 are there"),
    ],
)
def test_what_the_experiment_does_not_allow_is_refused_in_words(
    state: ServiceState, limits: Any, decision: Decision, why: str
) -> None:
    hold(state, decision, machines=limits)
    assert schedule(state)["decision_id"] is None
    assert requests(state)[0]["why"].startswith(why) and state.state()["policy_error"] is None


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        (Decision(release=("m9",)), "machine m9, to be released, was not observed"),
        (Decision(release=("m2",)), "machine m2 is to be released, but star's executor of task 3 would be on it"),
        (Decision(acquire=-1), "acquire is -1; allowed are whole numbers from 0"),
        (Decision(acquire=True), "acquire is True; allowed are whole numbers from 0"),
        (Decision(acquire=1.5), "acquire is 1.5; allowed are whole numbers from 0"),  # type: ignore[arg-type]
        (Decision(acquire="1"), "acquire is '1'; allowed are whole numbers from 0"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_the_policys_failure(state: ServiceState, decision: Decision, said: str) -> None:
    hold(state, decision)
    assert schedule(state)["decision_id"] is None
    assert said in state.state()["policy_error"] and not requests(state)


def test_outside_of_a_hold_it_may_not_ask(state: ServiceState) -> None:
    state.policy = lambda _observation, _memory: Decision(acquire=1)
    schedule(state)
    assert "it acquires 1 machines and may not act by itself" in state.state()["policy_error"]


def test_a_machine_leaves_once_the_decision_is_carried_out(state: ServiceState) -> None:
    policy = hold(state, Decision(placement=ALL_ON_M1, release=("m2",), reason="idle"))
    answer = schedule(state)
    assert answer["release"] == ["m2"] and not requests(state)[0]["ready"]
    schedule(state, last_decision="d1")
    assert not requests(state)[0]["ready"], "it has arrived, and is not applied"
    assert not next(m.alive for m in policy.observed[-1].machines if m.name == "m2")
    assert policy.observed[-1].machine_limits == MachineLimits(1, 4, 2)
    state.applied({"decision_id": "d1", "topology": TOPOLOGY, "t": state.clock(), "ok": True})
    (asked,) = requests(state)
    assert (asked["ready"], asked["machines"], asked["decision_id"]) == (True, ["m2"], "d1")
    done(state, "m2")
    assert outcomes(state) == [("q1", "done", 1)]


def test_machines_that_are_empty_leave_at_once(state: ServiceState) -> None:
    hold(state, Decision(release=("m3", "m3")))
    schedule(state)
    (asked,) = requests(state)
    assert (asked["machines"], asked["number"], asked["ready"]) == (["m3"], 1, True)


def test_one_whose_decision_fails_stays(state: ServiceState) -> None:
    policy = hold(state, Decision(placement=ALL_ON_M1, release=("m2",)))
    schedule(state)
    state.applied({"decision_id": "d1", "topology": TOPOLOGY, "t": 1.0, "ok": False, "message": "slot m1:6700 is lost"})
    (failed,) = requests(state)
    assert (failed["outcome"], failed["ready"]) == ("failed", False)
    assert failed["why"] == "decision d1 was not carried out: slot m1:6700 is lost"
    schedule(state)
    assert all(machine.alive for machine in policy.observed[-1].machines)


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_one_that_the_harness_does_not_take_out_may_be_used_again(state: ServiceState, outcome: str) -> None:
    policy = hold(state, Decision(release=("m3",)))
    schedule(state)
    state.end_machine_request({"request_id": "q1", "outcome": outcome, "message": "the hold is over"})
    schedule(state)
    assert all(machine.alive for machine in policy.observed[-1].machines)
    assert policy.observed[-1].machine_requests[0].machines == ("m3",)


MOVE_AND_ASK = Decision(placement=ALL_ON_M1, acquire=1, reason="more")


def test_a_decision_that_did_not_arrive_boots_nothing_and_its_second_one_boots_once(state: ServiceState) -> None:
    policy = hold(state, MOVE_AND_ASK, MOVE_AND_ASK)
    schedule(state, last_decision=None)
    assert [each["ready"] for each in requests(state)] == [False], "nobody knows whether Nimbus has it"
    answer = schedule(state, last_decision=None)
    assert answer["decision_id"] == "d2" and policy.observed[-1].machine_requests == ()
    assert [(each["decision_id"], each["ready"]) for each in requests(state)] == [("d2", False)]
    schedule(state, last_decision="d2")
    assert [(each["request_id"], each["ready"]) for each in requests(state)] == [("q2", True)]


def test_machines_that_boot_survive_the_failure_of_the_decision_that_asked(state: ServiceState) -> None:
    policy = hold(state, MOVE_AND_ASK)
    schedule(state)
    schedule(state, last_decision="d1")
    state.applied({"decision_id": "d1", "topology": TOPOLOGY, "t": 1.0, "ok": False, "message": "lost"})
    schedule(state, last_decision="d1")
    assert outcomes(state) == [("q1", "under_way", 1)] and requests(state)[0]["ready"]
    assert policy.observed[-1].machine_requests[0].outcome == "under_way", "though its memory is that of before"


def test_a_request_of_a_round_in_which_the_hold_ended_is_refused(state: ServiceState) -> None:
    policy = hold(state, Decision(acquire=1))
    state.clock.now += 2  # type: ignore[attr-defined]
    round = state.begin_round(request_from_json(request(state.clock(), PLACED, machines=3)))
    decision = policy(round.observation, round.memory)
    state.change_rounds({"decide_every_s": None})
    assert state.end_round(round, decision).decision_id is None
    assert requests(state)[0]["why"] == "the policy may not act by itself any more"


def test_the_next_run_knows_nothing_of_it(state: ServiceState) -> None:
    hold(state, Decision(acquire=1))
    schedule(state)
    state.configure({"run_id": "r2", "policy": "even"})
    state.policy = policy = Asks()
    schedule(state)
    assert requests(state) == [] and policy.observed[-1].machine_limits is None


NONSENSE: list[tuple[dict[str, Any], int, str]] = [
    ({"request_id": "q7", "outcome": "done", "machines": ["m4"]}, 409, "there is no request q7; under way is q1"),
    ({"outcome": "done", "machines": ["m4"]}, 409, "there is no request None; under way is q1"),
    ({"request_id": "q1", "machines": ["m4"]}, 400, "outcome is None; allowed are done, refused, failed"),
    ({"request_id": "q1", "outcome": "ok"}, 400, "outcome is 'ok'; allowed are done, refused, failed"),
    ({"request_id": "q1", "outcome": "done"}, 400, "machines is empty; request q1 allows the names of 1 that joined"),
    ({"request_id": "q1", "outcome": "done", "machines": ["m4", "m5"]}, 400, "machines is m4, m5; request q1 allows"),
    ({"request_id": "q1", "outcome": "done", "machines": "m4"}, 400, "machines is 'm4'; allowed is a list of names"),
    ({"request_id": "q1", "outcome": "done", "machines": [4]}, 400, "machines is [4]; allowed is a list of names"),
    ({"request_id": "q1", "outcome": "failed"}, 400, "request q1 is failed, and message does not say why"),
]


@pytest.mark.parametrize(("body", "status", "said"), NONSENSE)
def test_an_answer_that_cannot_be_is_refused(state: ServiceState, body: dict[str, Any], status: int, said: str) -> None:
    hold(state, Decision(acquire=1))
    schedule(state)
    with pytest.raises(CallRefusal) as refused:
        state.end_machine_request(body)
    assert refused.value.status == status and said in str(refused.value)
    assert outcomes(state) == [("q1", "under_way", 1)]


def test_an_answer_to_a_request_that_is_over_is_refused(state: ServiceState) -> None:
    hold(state, Decision(release=("m3",)))
    schedule(state)
    with pytest.raises(CallRefusal, match="machines is m2; request q1 allows m3"):
        done(state, "m2")
    done(state, "m3")
    with pytest.raises(CallRefusal, match="request q1 is over; under way is none") as refused:
        state.end_machine_request({"request_id": "q1", "outcome": "failed", "message": "it does not leave"})
    assert refused.value.status == 409


@pytest.mark.parametrize(
    ("said", "second"),
    [
        ({"outcome": "done", "machines": ["m3"]}, Decision(acquire=1)),
        ({"outcome": "failed", "machines": [], "message": "it does not leave"}, Decision(release=("m3",))),
    ],
)
def test_the_same_answer_twice_is_as_once(state: ServiceState, said: dict[str, Any], second: Decision) -> None:
    """The harness asks again where it has not heard: another request may be under way by then."""
    policy = hold(state, Decision(release=("m3",)), second)
    schedule(state)
    body = {"request_id": "q1", **said}
    assert state.end_machine_request(body)["request_id"] == "q1"
    ended = requests(state)[0]["ended_t"]
    schedule(state)
    after = [("q1", said["outcome"], 1), ("q2", "under_way", 1)]
    assert outcomes(state) == after
    assert state.end_machine_request(body)["request_id"] == "q1"
    assert outcomes(state) == after and requests(state)[0]["ended_t"] == ended
    schedule(state)
    assert not next(m.alive for m in policy.observed[-1].machines if m.name == "m3"), "it is released, by q1 or by q2"


@pytest.mark.parametrize("machines", [{}, {"min": 2}, {"min": 3, "max": 2}, {"min": 0, "max": 2}, [2, 4], "6",
                                      {"min": True, "max": 4}, {"min": 1.0, "max": 4}])  # fmt: skip
def test_limits_that_cannot_be_are_refused(state: ServiceState, machines: Any) -> None:
    with pytest.raises(CallRefusal, match=r"rounds: machines is .*; allowed is null, or min and max") as refused:
        state.change_rounds({"decide_every_s": 10, "machines": machines})
    assert refused.value.status == 400


def test_only_the_harness_may_say_what_became_of_a_request() -> None:
    assert ("POST", "/machines") in CALLS and "/machines" not in OF_THE_MACHINES


def test_a_policys_machines_come_are_used_and_go_and_the_log_replays(
    state: ServiceState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "elastic", elastic_policy.ENTRY)  # type: ignore[arg-type]
    state.configure({"run_id": "r2", "policy": "elastic", "parameters": {"acquire_at": 2, "release_at": 5}})
    state.change_rounds({"decide_every_s": 2, "machines": LIMITS})
    machines, placement = 2, dict(PLACED)
    seen: list[tuple[str, int, bool]] = []
    for _ in range(12):
        answer = schedule(state, machines=machines, placement=placement, last_decision=None)
        for topology, change in answer["topologies"].items():
            placement |= change["placement"]
            body = {"decision_id": answer["decision_id"], "topology": topology, "t": state.clock(), "ok": True}
            state.applied(body)
        for each in requests(state):
            if each["ready"]:
                machines += 1 if each["kind"] == "acquire" else -1
                done(state, *(each["machines"] or ["m3"]), request_id=each["request_id"])
                seen.append((each["kind"], machines, "m3:6700" in placement.values()))
    assert state.state()["policy_error"] is None
    assert seen == [("acquire", 3, False), ("release", 2, False)]
    lines = [json.loads(line) for line in state.log_path.read_text().splitlines()]
    assert any("m3:6700" in line["decision"]["placement"].get(TOPOLOGY, {}).values() for line in lines), "it was used"
    assert all(each.same and each.refused is None for each in replay(
        state.log_path, "elastic", {"acquire_at": 2, "release_at": 5}
    ))  # fmt: skip
    assert not all(each.same for each in replay(state.log_path, "even")), "another policy asks for nothing"
    heard = [observation_from_log(line["observation"]) for line in lines]
    assert {request.outcome for each in heard for request in each.machine_requests} == {"done"}
    assert heard[0].machine_limits == MachineLimits(1, 4, 2)
