"""A policy that decides by itself for a while, over a fake cluster."""

from typing import Any

import pytest

from analysis.record.event_timeline import own_decisions
from analysis.record.files import RunPaths
from barograph.errors import ExperimentError
from barograph.plan.events.hold import Hold
from barograph.plan.experiment import EXPERIMENTS, parse
from barograph.yaml_files import read_yaml
from tests.unit.barograph.run.conftest import SetUp

HOLD = Hold("steady", decide_every_s=10.0, for_s=35.0)


def test_each_decision_is_in_the_record_with_its_reason(stage: SetUp) -> None:
    here = stage(HOLD)
    here.storm.faults["acts"] = True
    told = here.go()
    (begun,) = [event for event in told if event["kind"] == "event_performed"]
    (ended,) = [event for event in told if event["kind"] == "hold_ended"]
    assert (begun["event"], begun["event_id"]) == ("hold", "e1") and 35 <= ended["t"] - begun["t"] < 37
    decisions = [event for event in told if event["kind"] == "decision"]
    assert [round(event["t"] - begun["t"]) for event in decisions] == [0, 10, 20, 30]
    assert {(event["event_id"], event["reason"], event["own"]) for event in decisions} == {(None, "moves on", True)}
    assert len([event for event in told if event["kind"] == "applied" and event["ok"]]) == 4
    run = RunPaths(here.series.run_folder(here.run_id))
    assert [(round(at), reason) for at, reason in own_decisions(run)] == [(10 * n, "moves on") for n in range(4)]


def test_the_policy_is_told_when_it_begins_and_when_it_is_over(stage: SetUp) -> None:
    here = stage(HOLD)
    here.go()
    assert here.storm.calls.count("decide_every") == 2
    assert here.storm.arguments["decide_every"] == {"seconds": None}


def test_without_an_end_it_lasts_while_other_events_happen(stage: SetUp) -> None:
    from barograph.plan.events import RateChange

    here = stage(Hold("steady", decide_every_s=10.0), RateChange("steady", 1.5))
    here.storm.faults["acts"] = True
    told = here.go()
    assert here.storm.arguments["decide_every"] == {"seconds": 10.0}
    (changed,) = [event for event in told if event["kind"] == "rate_changed"]
    assert any(event["t"] > changed["t"] for event in told if event["kind"] == "decision")


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({}, "decide_every_s"),
        ({"decide_every_s": 1.0}, "decide_every_s"),
        ({"decide_every_s": 10.0, "for_s": 999.0}, r"for_s is 999; allowed: at most 110, 60 s less than durations"),
        ({"decide_every_s": 60.0, "for_s": 30.0}, r"decide_every_s is 60; allowed: at most the hold \(30\)"),
        ({"decide_every_s": 900.0}, r"decide_every_s is 900; allowed: at most durations.horizon_s"),
    ],
)
def test_a_hold_that_cannot_be_is_refused(event: dict[str, Any], said: str) -> None:
    data = read_yaml(EXPERIMENTS / "stela" / "star.yaml")
    data |= {"machines": {"before": 4, "after": 4}, "events": [event | {"kind": "hold", "at": "steady"}]}
    with pytest.raises(ExperimentError, match=said):
        parse("stela/star", data, source="star.yaml")
