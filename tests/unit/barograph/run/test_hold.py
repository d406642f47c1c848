"""A policy that decides by itself for a while, over a fake cluster."""

from typing import Any

import pytest

from analysis.record.event_timeline import own_decisions
from analysis.record.files import RunPaths
from barograph.errors import ExperimentError
from barograph.plan.events.scaling import AutonomousPhase, ScaleOut
from barograph.plan.experiment import EXPERIMENTS, parse
from barograph.yaml_files import read_yaml
from tests.support.fakes.storm import ROUND_S
from tests.unit.barograph.run.conftest import SetUp

HOLD = AutonomousPhase("steady", decide_every_s=10.0, for_s=35.0)


def test_each_decision_is_in_the_record_with_its_reason(stage: SetUp) -> None:
    here = stage(HOLD)
    here.storm.faults["acts"] = True
    told = here.go()
    (begun,) = [event for event in told if event["kind"] == "event_performed"]
    (ended,) = [event for event in told if event["kind"] == "hold_ended"]
    assert (begun["event"], begun["event_id"]) == ("hold", "e1") and 35 <= ended["t"] - begun["t"] < 37
    decisions = [event for event in told if event["kind"] == "decision"]
    first = decisions[0]["t"] - begun["t"]
    assert 0 <= first <= ROUND_S, "in Nimbus' next round"
    assert [round(event["t"] - begun["t"] - first) for event in decisions] == [0, 10, 20, 30]
    assert {(event["event_id"], event["reason"], event["own"]) for event in decisions} == {(None, "moves on", True)}
    assert len([event for event in told if event["kind"] == "applied" and event["ok"]]) == 4
    run = RunPaths(here.series.run_folder(here.run_id))
    assert [(round(at), reason) for at, reason in own_decisions(run)] == [
        (round(10 * n + first), "moves on") for n in range(4)
    ]  # fmt: skip


def test_the_policy_is_told_when_it_begins_and_when_it_is_over(stage: SetUp) -> None:
    here = stage(HOLD)
    here.go()
    assert here.storm.calls.count("decide_every") == 2
    assert here.storm.arguments["decide_every"] == {"decide_every_s": None}


def test_it_is_over_once_the_last_decision_is_carried_out(stage: SetUp) -> None:
    here = stage(
        AutonomousPhase("steady", decide_every_s=14.0, for_s=30.5)
    )  # the third decision is carried out after that
    here.storm.faults["acts"] = True
    told = here.go()
    (begun,) = [event for event in told if event["kind"] == "event_performed"]
    (ended,) = [event for event in told if event["kind"] == "hold_ended"]
    applied = [event["t"] for event in told if event["kind"] == "applied"]
    assert len(applied) == 3 and ended["t"] >= max(applied) > begun["t"] + 30.5


def test_a_scale_request_waits_for_what_the_policy_has_just_decided_by_itself(stage: SetUp) -> None:
    here = stage(AutonomousPhase("steady", decide_every_s=40.0), ScaleOut(43.0, 1))
    here.storm.faults["acts"] = True
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


def test_a_second_one_after_one_without_an_end_is_refused() -> None:
    data = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    data["events"] += [{"kind": "hold", "at": "steady", "decide_every_s": 10}] * 2
    with pytest.raises(ExperimentError, match=r"events.2 is a hold, and an earlier one lasts until the run ends"):
        parse("stela/star", data, source="star.yaml")


def test_without_an_end_it_lasts_while_other_events_happen(stage: SetUp) -> None:
    from barograph.plan.events.rates import RateChange

    here = stage(AutonomousPhase("steady", decide_every_s=10.0), RateChange("steady", 1.5))
    here.storm.faults["acts"] = True
    told = here.go()
    assert here.storm.arguments["decide_every"] == {"decide_every_s": 10.0}
    (changed,) = [event for event in told if event["kind"] == "rate_changed"]
    assert any(event["t"] > changed["t"] for event in told if event["kind"] == "decision")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({}, "decide_every_s"),
        ({"decide_every_s": 1.0}, "decide_every_s"),
        ({"decide_every_s": 10.0, "for_s": 999.0}, r"for_s is 999; allowed: at most 310, 60 s less than durations"),
        ({"decide_every_s": 60.0, "for_s": 30.0}, r"decide_every_s is 60; allowed: at most the hold \(30\)"),
        ({"decide_every_s": 900.0}, r"decide_every_s is 900; allowed: at most durations.horizon_s"),
    ],
)
def test_a_hold_that_cannot_be_is_refused(event: dict[str, Any], said: str) -> None:
    data = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    data |= {"machines": {"before": 4, "after": 4}, "events": [event | {"kind": "hold", "at": "steady"}]}
    with pytest.raises(ExperimentError, match=said):
        parse("stela/star", data, source="star.yaml")
