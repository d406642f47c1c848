"""A hold over a fake cluster: decisions of the policy by itself, and machines that it asks for."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from analysis.record.event_timeline import event_marks, event_outcomes, own_decisions, planned_marks
from analysis.record.files import RunPaths
from barograph.errors import (
    BudgetSpent,
    CapacityError,
    InfrastructureError,
    Interrupted,
    MachineLost,
    PolicyHung,
    RunBroken,
)
from barograph.plan.durations import longest_run_s
from barograph.plan.events.faults import CpuLoad, Crash
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.rates import RateChange, Sine
from barograph.plan.events.scaling import AutonomousPhase, Reschedule, ScaleOut
from barograph.run import clocks
from barograph.run.clocks import ClockWrong
from barograph.run.simulation import SimulatedClock
from barograph.series.progress import PHASE_WORDS
from tests.support.fakes.policy import ACT_S
from tests.support.fakes.storm import BOOT_S, ROUND_S
from tests.unit.barograph.run.conftest import Lines, Stage, of
from tests.unit.barograph.run.conftest import SetUp as StageSetUp

HOLD = AutonomousPhase("steady", decide_every_s=4.0, for_s=120.0)  # Nimbus asks every other second


SetUp = Callable[..., Stage]


@pytest.fixture
def elastic(stage: StageSetUp) -> SetUp:
    """Four machines at the start; in the hold the policy may have two to six. `asks`: see the fake policy."""

    def set_up(*asks: Any, events: Sequence[PlannedEvent] = (HOLD,), limits: Any = (2, 6), **more: Any) -> Stage:
        return stage(*events, limits=limits, durations={"horizon_s": 300.0}, asks=asks, **more)

    return set_up


def kinds_of_request(told: Lines, request_id: str) -> list[str]:
    return [event["kind"] for event in told if event.get("request_id") == request_id]


def test_a_machine_that_is_up_joins_and_leaves_and_all_of_it_is_on_record(elastic: SetUp) -> None:
    here = elastic((10, 1), (60, ("m5",)))
    told = here.go()
    (begun,) = of(told, "event_performed")
    asked, released = of(told, "machine_request")
    assert (asked["event_id"], asked["request_id"], asked["request"], asked["number"]) == ("e1", "q1", "acquire", 1)
    assert asked["reason"] == "asks for 1" and 10 <= asked["t"] - begun["t"] <= 14 + ROUND_S
    assert (released["request"], released["machines"]) == ("release", ["m5"])
    (joined,), (left,) = of(told, "machines_joined"), of(told, "machines_left")
    assert (joined["machines"], joined["event_id"], joined["request_id"]) == (["m5"], "e1", "q1")
    assert (left["machines"], left["request_id"], left["given_back"]) == (["m5"], "q2", False)
    assert asked["t"] <= joined["t"] < asked["t"] + 10 and left["t"] >= released["t"] + ACT_S
    (closed,) = of(told, "requests_closed")
    assert {key: closed[key] for key in ("event_id", "done", "refused", "failed")} == {
        "event_id": "e1", "done": 2, "refused": 0, "failed": 0,
    }  # fmt: skip
    assert not {"more_machines", "fewer_machines"} & {phase["name"] for phase in here.document()["phases"]}
    listener: Any = here.context.listener
    shown = [line["phase"] for line in listener.lines if line["kind"] == "phase"]
    first = shown.index("more_machines")
    assert shown[first - 1 : first + 4] == ["hold", "more_machines", "hold", "fewer_machines", "hold"]
    assert PHASE_WORDS["release"] == "releasing machines", "of the series"
    assert here.storm.arguments["end_machine_request"]["outcome"] == "done"
    assert "grow" not in here.storm.calls


def test_the_next_run_begins_with_the_machines_of_the_start(elastic: SetUp) -> None:
    here = elastic((10, 2), (60, ("m1", "m5")))
    for planned in here.series.plan():
        here.run_id = planned.run_id
        told = here.go()
        assert [event["machines"] for event in of(told, "machines_joined")] == [["m5", "m6"]]
        assert not here.document()["missing"]
    assert set(here.document()["machines"]) == {"m1", "m2", "m3", "m4", "m5", "m6"}


def test_a_machine_that_left_may_join_again_and_is_collected_whole(elastic: SetUp) -> None:
    here = elastic((10, ("m4",)), (40, 1), (60, ("m4",)), (80, 3))
    told = here.go()
    assert [event["machines"] for event in of(told, "machines_joined")] == [["m4"], ["m4", "m5", "m6"]]
    assert of(told, "requests_closed")[0]["done"] == 4
    lines = (here.series.run_folder(here.run_id) / "machines" / "m4.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["t"] > of(told, "hold_ended")[0]["t"], "also what came after it had joined again"


def test_machines_boot_at_the_request_and_are_given_back_when_they_leave_or_the_run_ends(elastic: SetUp) -> None:
    here = elastic((5, 2), (60, ("m5",)), (80, 1), joining="booted")
    told = here.go()
    assert kinds_of_request(told, "q1") == [
        "machine_request", "machines_requested", "machine_booted", "machine_booted", "machines_joined",
    ]  # fmt: skip
    booted = [(event["machine"], event["boot_s"]) for event in of(told, "machine_booted")]
    assert booted == [("m5", BOOT_S), ("m6", BOOT_S), ("m7", BOOT_S)], "no name twice in a run"
    assert of(told, "machines_left")[0]["given_back"] is True
    assert [event["machines"] for event in of(told, "machines_returned")] == [["m5"], ["m6", "m7"]]
    assert here.storm.returned == {"m5", "m6", "m7"}
    assert here.document()["machines"]["m7"]["joins_at_scale"] is True
    assert (here.series.run_folder(here.run_id) / "machines" / "m7.jsonl").exists()
    assert here.attempt() and here.storm.returned >= {"m5", "m6", "m7"}, "the next run boots its own"


def test_a_machine_of_the_start_that_left_is_had_again_before_another_boots(elastic: SetUp) -> None:
    told = elastic((5, ("m2",)), (30, 2), joining="booted").go()
    assert [event["machines"] for event in of(told, "machines_joined")] == [["m2", "m5"]]
    assert [event["machine"] for event in of(told, "machine_booted")] == ["m5"]


def test_what_is_asked_for_while_a_request_is_under_way_is_refused_and_counted(elastic: SetUp) -> None:
    """The boot takes 40 s; the policy asks every five."""
    here = elastic(*((after_s, 1) for after_s in range(5, 45, 5)), joining="booted")
    told = here.go()
    assert [event["request"] for event in of(told, "machine_request")] == ["acquire", "acquire"], "said once"
    (refused,) = of(told, "request_refused")
    assert refused["reason"] == "request q1 (acquire 1) is under way; ask again once it is over"
    (closed,) = of(told, "requests_closed")
    assert (closed["done"], closed["refused"]) == (1, 7)


@pytest.mark.parametrize(
    ("limits", "asked", "why"),
    [
        ((None, None), 1, "the experiment's machines has no max: "),
        ((None, None), ("m2",), "the experiment's machines has no min: "),
        ((2, 6), 3, "acquire is 3; allowed: at most 2, for 4 are there and machines.max is 6"),
        ((3, None), 1, "acquire is 1; allowed: at most 0, for 4 are there and machines.max is 4"),
        ((3, 6), ("m1", "m2"), "release is m1, m2; allowed: at most 1, for 4 are there and machines.min is 3"),
        ((2, 6), ("m9",), "release is m9; m9 is not alive, or has been released"),
    ],
)
def test_what_is_beyond_the_limits_is_refused(elastic: SetUp, limits: Any, asked: Any, why: str) -> None:
    here = elastic((5, asked), limits=limits)
    told = here.go()
    (refused,) = of(told, "request_refused")
    assert refused["reason"].startswith(why)
    assert not of(told, "machines_joined") + of(told, "machines_left")


@pytest.mark.parametrize("error", [CapacityError("no zone has one"), InfrastructureError("m5 is silent")])
def test_a_boot_that_fails_is_the_policys_news(elastic: SetUp, error: Exception) -> None:
    here = elastic((5, 1), (60, 1), joining="booted", grow=[error])
    told = here.go()
    (failed,) = of(told, "request_failed")
    assert (failed["request_id"], failed["reason"]) == ("q1", str(error))
    assert [event["machines"] for event in of(told, "machines_joined")] == [["m5"]], "it has one at the second try"
    assert here.document()["attempt"] == 1
    assert (of(told, "requests_closed")[0]["done"], of(told, "requests_closed")[0]["failed"]) == (1, 1)


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_a_policy_that_hangs_while_its_request_is_carried_out_is_to_blame(
    outcome: str, elastic: SetUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service that began anew knows no such request."""
    here = elastic((5, 1) if outcome == "failed" else (5, ("m4",)), joining="booted")

    def hang(*_: object, **_about: object) -> None:
        here.storm.faults["policy_hangs_after_s"] = 0
        if outcome == "failed":
            raise CapacityError("no zone has one")

    name = "barograph.run.machine_changes." + ("boot" if outcome == "failed" else "return_booted")
    monkeypatch.setattr(name, hang)
    here.fails(PolicyHung, "its decide hung")
    assert "end_machine_request" in here.storm.calls


def test_a_machine_with_another_time_is_given_back_at_once(elastic: SetUp) -> None:
    here = elastic((5, 1), joining="booted", clock_offset_ms={"m5": 5000.0})
    told = here.go()
    assert "m5 +5.000 s" in of(told, "request_failed")[0]["reason"] and here.storm.returned == {"m5"}
    assert "join" not in here.storm.calls


def test_what_the_budget_does_not_cover_is_refused(elastic: SetUp) -> None:
    here = elastic((5, 1), joining="booted")
    asked: list[tuple[tuple[str, ...], float]] = []

    def spent(names: Sequence[str], rest_s: float) -> None:
        asked.append((tuple(names), rest_s))
        raise BudgetSpent("$9.90 of the budget of $10.00 are spent")

    here.context = replace(here.context, require_covered=spent)
    told = here.go()
    assert "$9.90 of the budget" in of(told, "request_refused")[0]["reason"] and "grow" not in here.storm.calls
    ((names, rest_s),) = asked
    assert names == ("m5",) and 0 < rest_s < longest_run_s(here.context.experiment) + 600


def test_a_request_that_comes_too_late_is_closed(elastic: SetUp) -> None:
    """Its decision is not applied when the hold is over."""
    here = elastic((116, ("m4",)), events=(replace(HOLD, for_s=118.0),))
    told = here.go()
    (refused,) = of(told, "request_refused")
    assert refused["reason"] == "the hold is over" and not of(told, "machines_left")
    kinds = [event["kind"] for event in told]
    assert kinds.index("request_refused") < kinds.index("requests_closed") < kinds.index("hold_ended")


LASTING = AutonomousPhase("steady", decide_every_s=5.0)


def test_the_requests_of_each_hold_are_closed_and_counted(elastic: SetUp) -> None:
    second = AutonomousPhase(20.0, decide_every_s=5.0, for_s=60.0)
    told = elastic((10, 1), (15, 9), (25, 1), events=(LASTING, second)).go()
    closed = [(each["event_id"], each["done"], each["refused"]) for each in of(told, "requests_closed")]
    assert closed == [("e1", 1, 1), ("e2", 1, 0)]
    kinds = [each["kind"] for each in told if each["kind"] in ("event_performed", "requests_closed")]
    assert kinds == ["event_performed", "requests_closed", "event_performed", "requests_closed"]


def test_a_hold_that_lasts_is_served_in_later_events_and_watches(elastic: SetUp) -> None:
    load = CpuLoad(at="steady", machines=("m1",), cores=0.2, for_s=30.0)
    here = elastic((10, 1), (110, 1), events=(LASTING, load))
    told = here.go()
    begun = [event["t"] for event in told if event["kind"] == "event_performed"]
    first, second = (event["t"] for event in of(told, "machines_joined"))
    assert begun[0] < first < begun[1] < second
    assert {event["event_id"] for event in of(told, "machines_joined")} == {"e1"}
    (closed,) = of(told, "requests_closed")
    kinds = [event["kind"] for event in told]
    assert kinds.index("requests_closed") < kinds.index("topology_killed") and closed["done"] == 2
    assert here.document()["ended_s"] - here.document()["started_s"] <= longest_run_s(here.context.experiment)


def test_a_policy_may_ask_again_once_an_event_that_asked_it_is_over(elastic: SetUp) -> None:
    here = elastic((20, 1), events=(LASTING, Reschedule(10.0)))
    told = here.go()
    (asked,), (joined,) = of(told, "scale_requested"), of(told, "machines_joined")
    assert asked["t"] < joined["t"] and joined["event_id"] == "e1"


def test_a_machine_that_the_plan_crashed_counts(elastic: SetUp) -> None:
    here = elastic((60, 2), events=(LASTING, Crash(20.0, "m2")), limits=(1, 5))
    told = here.go()
    assert (
        "allowed: at most 1, for machines.max is 5 and 4 are there with m2" in of(told, "request_refused")[0]["reason"]
    )


def test_a_machine_that_never_registers_ends_the_run_and_what_booted_is_given_back(elastic: SetUp) -> None:
    here = elastic((5, 1), joining="booted", repetitions=1, never_registers=True)
    here.fails(MachineLost, "m5 did not register")
    told = here.events()
    assert of(told, "request_refused")[0]["reason"] == "the run broke"
    assert here.storm.returned == {"m5"} and of(told, "requests_closed")


def test_a_run_that_breaks_in_the_hold_gives_back_what_booted(elastic: SetUp) -> None:
    here = elastic((5, 2), joining="booted", policy_fails_after_s=130)
    here.fails(RunBroken, "ZeroDivisionError")
    assert here.storm.returned == {"m5", "m6"}


def test_who_interrupts_finds_the_request_closed(elastic: SetUp) -> None:
    here = elastic((5, 1), join=[Interrupted("asked to stop")])
    here.fails(Interrupted)
    assert of(here.events(), "requests_closed")[0]["refused"] == 1


def test_a_course_goes_on_while_machines_boot_for_a_policy(elastic: SetUp) -> None:
    """A boot takes 40 s; what was sent before it is used up after 30."""
    sine = Sine(at="steady", mean=1.0, amplitude=0.5, period_s=17.3, for_s=90.0)
    hold = AutonomousPhase(10.0, decide_every_s=5.0, for_s=60.0)
    here = elastic((5, 1), events=(sine, hold), joining="booted", repetitions=1)
    told = here.go()
    assert of(told, "machine_booted")
    (ended,) = of(told, "course_ended")
    assert ended["reason"] == "it is over" and not of(told, "course_interrupted")


@pytest.mark.parametrize("place", ["in the boot", "after it"])
def test_who_interrupts_a_boot_for_a_policy_leaves_no_machine(
    elastic: SetUp, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = elastic((5, 1), joining="booted")
    sleep = SimulatedClock.sleep

    def interrupt(*_arguments: object) -> None:
        raise Interrupted("asked to stop")

    def boot(self: SimulatedClock, seconds: float) -> None:
        (interrupt if seconds == BOOT_S else sleep)(self, seconds)

    if place == "in the boot":
        monkeypatch.setattr(SimulatedClock, "sleep", boot)
    else:
        monkeypatch.setattr(clocks, "note_joined", interrupt)
    here.fails(Interrupted)
    assert here.storm.returned == {"m5"} and here.document()["status"] == "incomplete"
    given_back = here.storm.calls.index("give_back")
    assert "stop" in here.storm.calls[given_back:], "at once, and not when the run is collected"


def test_a_machine_that_is_lost_is_not_had_and_the_run_is_infrastructures_as_everywhere(elastic: SetUp) -> None:
    here = elastic((10, 2), dead=("m6",))
    here.fails(MachineLost, "m6 stopped answering")
    assert of(here.events(), "request_failed")[0]["reason"].startswith("1 more would have to be up and idle")


def test_a_timeline_shows_each_change_once_and_no_series_does(elastic: SetUp) -> None:
    here = elastic((10, 1), (40, ("m5",)), (70, 1))
    here.go()
    run = RunPaths(here.series.run_folder(here.run_id))
    marks = [(mark.event_id, mark.kind, mark.label) for mark in event_marks(run)]
    assert marks == [
        ("e1", "hold", HOLD.words()), ("e1.q1", "joined", "m5 joined"), ("e1.q2", "left", "m5 left"),
        ("e1.q3", "joined", "m5 joined"), ("e1", "ended", "the hold is over"),
    ]  # fmt: skip
    assert [mark.kind for mark in planned_marks(run)] == ["hold", "ended"]
    (outcome,) = event_outcomes(run)
    assert outcome.kind == "hold"


def test_data_of_an_experiment_without_limits_are_as_before(elastic: SetUp) -> None:
    here = elastic(limits=(None, None), events=(LASTING, RateChange("steady", 1.5)))
    told = here.go()
    assert not of(told, "requests_closed")
    assert here.document()["spec"]["machines"] == {"before": 4, "after": 4}
    assert here.storm.arguments["decide_every"] == {"decide_every_s": 5.0}


def test_news_for_a_policy_are_no_bugs_of_ours() -> None:
    from barograph.run.machine_changes import _is_news

    assert _is_news(CapacityError("none")) and _is_news(ClockWrong("m5"))
    assert not _is_news(ValueError("a bug")) and not _is_news(OSError("the disk"))


# Decisions of a policy by itself


def test_each_decision_is_in_the_record_with_its_reason(stage: StageSetUp) -> None:
    here = stage(replace(HOLD, decide_every_s=10.0, for_s=35.0), acts=True)
    told = here.go()
    (begun,) = of(told, "event_performed")
    (ended,) = of(told, "hold_ended")
    assert (begun["event"], begun["event_id"]) == ("hold", "e1") and 35 <= ended["t"] - begun["t"] < 37
    decisions = of(told, "decision")
    first = decisions[0]["t"] - begun["t"]
    assert 0 <= first <= ROUND_S, "in Nimbus' next round"
    assert [round(event["t"] - begun["t"] - first) for event in decisions] == [0, 10, 20, 30]
    assert {(event["event_id"], event["reason"], event["own"]) for event in decisions} == {(None, "moves on", True)}
    assert [event["ok"] for event in of(told, "applied")] == [True] * 4
    assert here.storm.calls.count("decide_every") == 2
    assert here.storm.arguments["decide_every"] == {"decide_every_s": None}
    run = RunPaths(here.series.run_folder(here.run_id))
    assert [(round(at), reason) for at, reason in own_decisions(run)] == [
        (round(10 * n + first), "moves on") for n in range(4)
    ]  # fmt: skip


def test_it_is_over_once_the_last_decision_is_carried_out(stage: StageSetUp) -> None:
    """The third decision is carried out after that."""
    here = stage(AutonomousPhase("steady", decide_every_s=14.0, for_s=30.5), acts=True)
    told = here.go()
    (begun,) = of(told, "event_performed")
    (ended,) = of(told, "hold_ended")
    applied = [event["t"] for event in told if event["kind"] == "applied"]
    assert len(applied) == 3 and ended["t"] >= max(applied) > begun["t"] + 30.5


def test_a_scale_request_waits_for_what_the_policy_has_just_decided_by_itself(stage: StageSetUp) -> None:
    here = stage(AutonomousPhase("steady", decide_every_s=40.0), ScaleOut(43.0, 1), acts=True)
    told = here.go()
    (asked,) = [event["t"] for event in told if event["kind"] == "scale_requested"]
    own = {event["decision_id"]: event["t"] for event in told if event["kind"] == "decision" and event.get("own")}
    under_way = [
        event for event in told
        if event["kind"] == "applied" and own.get(event["decision_id"], asked) < asked < event["t"]
    ]  # fmt: skip
    assert not under_way
    due = next(event["t"] for event in told if event["kind"] == "event_performed") + 43.0
    applied = {event["decision_id"]: event["t"] for event in told if event["kind"] == "applied"}
    assert any(t < due < applied[name] for name, t in own.items()), "one had just been decided"


def test_without_an_end_it_lasts_while_other_events_happen(stage: StageSetUp) -> None:
    here = stage(AutonomousPhase("steady", decide_every_s=10.0), RateChange("steady", 1.5), acts=True)
    told = here.go()
    assert here.storm.arguments["decide_every"] == {"decide_every_s": 10.0}
    (changed,) = of(told, "rate_changed")
    assert any(event["t"] > changed["t"] for event in told if event["kind"] == "decision")
