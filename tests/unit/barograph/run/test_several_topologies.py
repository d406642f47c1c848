"""Runs of several topologies on a fake cluster: submission, first tuples, steadiness, arrival and departure."""

import json
from dataclasses import replace
from typing import Any

import pytest

from analysis.record.files import RunPaths
from analysis.record.worker_files import read
from barograph.errors import MachineLost, RunBroken
from barograph.plan.events.rates import RateChange
from barograph.plan.events.scaling import Arrival, Departure
from barograph.plan.topologies import ServiceLevelChoice, TopologyChoice
from scheduler_plugins.service.run_snapshot import RunSnapshot
from tests.unit.barograph.run.conftest import SetUp, of

STAR = TopologyChoice("star")
OTHER = TopologyChoice("other", flux="linear", service_level=ServiceLevelChoice(latency_ms=100.0, max_utility=2.0))
LATE = TopologyChoice("late", flux="linear")
RATE, ARRIVAL, DEPARTURE = RateChange("steady", 1.5), Arrival("steady", ("late",)), Departure("steady", ("star",))


def test_each_is_submitted_and_judged_and_the_warm_up_counts_from_the_last_first_tuple(stage: SetUp) -> None:
    here = stage(RATE, topologies=(STAR, OTHER))
    told = here.go()
    assert [event["topology"] for event in of(told, "topology_submitted")] == ["star", "other"]
    firsts = {event["topology"]: event["t"] for event in of(told, "first_tuple")}
    (changed,) = of(told, "rate_changed")
    assert firsts.keys() == {"star", "other"}
    assert changed["t"] - max(firsts.values()) >= here.series.experiment.durations.warm_up_floor_s
    levels = here.storm.arguments["configure"]["service_levels"]
    assert levels == {"other": {"latency_ms": 100.0, "max_utility": 2.0}}
    verdicts = [(event["phase"], event["topology"], event["steady"]) for event in of(told, "steady")]
    assert verdicts == [(phase, name, True) for phase in ("before", "after") for name in ("star", "other", "all")]


def test_one_that_is_not_steady_keeps_the_phase_open_and_is_named(stage: SetUp) -> None:
    here = stage(RATE, topologies=(STAR, OTHER))
    judge, calls = here.context.is_steady, [0]

    def every_other(seconds: Any, counts: Any) -> tuple[bool, str]:
        calls[0] += 1
        return (False, "still climbing") if calls[0] % 2 == 0 else judge(seconds, counts)

    here.context = replace(here.context, is_steady=every_other)
    found = {(event["phase"], event["topology"]): event for event in of(here.go(), "steady")}
    assert found["before", "star"]["steady"] and not found["before", "other"]["steady"]
    assert not found["before", "all"]["steady"]
    assert found["before", "all"]["reason"].startswith("other: not steady within 100 s: still climbing")


def test_a_topology_that_arrives_is_submitted_then_and_counts_from_its_first_tuple(stage: SetUp) -> None:
    told = stage(ARRIVAL, topologies=(STAR, LATE)).go()
    (arrived,) = of(told, "event_performed")
    assert (arrived["event"], arrived["topologies"], arrived["label"]) == ("arrival", ["late"], "late arrives")
    (submitted,), (first,) = (
        [event["t"] for event in of(told, kind) if event["topology"] == "late"]
        for kind in ("topology_submitted", "first_tuple")
    )
    assert arrived["t"] <= submitted <= first
    verdicts = [(event["phase"], event["topology"]) for event in of(told, "steady")]
    assert verdicts[:2] == [("before", "star"), ("before", "all")]
    assert verdicts[2:] == [("after", name) for name in ("star", "late", "all")]


def test_several_arrive_and_depart_at_one_event(stage: SetUp) -> None:
    here = stage(
        Arrival("steady", ("late", "other")), Departure("steady", ("star", "late")), topologies=(STAR, LATE, OTHER)
    )
    told = here.go()
    assert [e["topology"] for e in of(told, "topology_submitted")] == ["star", "late", "other"]
    (arrived, departed) = of(told, "event_performed")
    assert [arrived["label"], departed["label"]] == ["late, other arrive", "star, late depart"]
    firsts = {event["topology"]: event["t"] for event in of(told, "first_tuple")}
    assert arrived["t"] <= firsts["late"] and arrived["t"] <= firsts["other"]
    assert [e["topology"] for e in of(told, "topology_killed") if "topology" in e] == ["star", "late"]
    assert [e["topology"] for e in of(told, "steady") if e["phase"] == "after"][-2:] == ["other", "all"]


def test_one_of_several_that_finds_no_slot_is_named(stage: SetUp) -> None:
    told = stage(Arrival("steady", ("late", "other")), topologies=(STAR, LATE, OTHER), unplaced=("late",)).go()
    (end,) = [event for event in of(told, "steady") if event["topology"] == "all" and event["phase"] == "after"]
    assert not end["steady"] and "no tuple of topology late reached a sink" in end["reason"]


def test_one_that_finds_no_slot_is_a_result_and_not_a_failure(stage: SetUp) -> None:
    told = stage(ARRIVAL, topologies=(STAR, LATE), unplaced=("late",)).go()
    (late,) = [event for event in of(told, "steady") if event["topology"] == "all" and event["phase"] == "after"]
    assert not late["steady"]
    assert "no tuple of topology late reached a sink; 0 of its 2 tasks are placed" in late["reason"]


def test_one_that_departs_is_killed_and_the_others_are_judged_without_it(stage: SetUp) -> None:
    here = stage(DEPARTURE, topologies=(STAR, OTHER))
    told = here.go()
    assert here.storm.arguments["kill"] == {"topology": "star"}
    assert [event["topology"] for event in of(told, "topology_killed") if "topology" in event] == ["star"]
    assert [event["topology"] for event in of(told, "steady") if event["phase"] == "after"] == ["other", "all"]


def test_one_that_nimbus_does_not_forget_ends_the_run(stage: SetUp) -> None:
    here = stage(DEPARTURE, topologies=(STAR, OTHER))
    here.storm.kill = lambda _topology: None  # type: ignore[method-assign]
    here.fails(RunBroken, "topology star, which was killed")


@pytest.mark.parametrize("topologies", [(STAR, OTHER), (STAR,)])
def test_one_that_vanishes_ends_the_run(stage: SetUp, topologies: tuple[TopologyChoice, ...]) -> None:
    """Also the only one: nothing else would be wrong then."""
    here = stage(RATE, topologies=topologies, forgotten_after_s=70)
    here.fails(RunBroken, "Nimbus has topology star no more, and nobody asked for that")


def test_a_machine_that_any_placement_missed_ends_the_run(stage: SetUp) -> None:
    here = stage(RATE, topologies=(STAR, OTHER), unknown_at_submission=("m2",))
    state = here.storm.state

    def missing() -> RunSnapshot:
        seen = state()
        late = (replace(each, placed_among=("m1",)) if each.name == "other" else each for each in seen.topologies)
        return replace(seen, topologies=tuple(late))

    here.storm.state = missing  # type: ignore[method-assign]
    here.fails(MachineLost, "m2, m3, m4: not known to Nimbus when it placed the topology")


def test_the_record_has_every_topology_in_the_files_order(stage: SetUp) -> None:
    here = stage(ARRIVAL, DEPARTURE, topologies=(STAR, LATE, OTHER))
    here.go()
    document = here.document()
    assert [each["name"] for each in document["topologies"]] == ["star", "late", "other"]
    assert document["topology"] == document["topologies"][0]
    assert document["topologies"][2]["service_level"] == {"latency_ms": 100.0, "juice": None, "max_utility": 2.0}
    assert "topology" not in document["spec"] and len(document["spec"]["topologies"]) == 3
    run = RunPaths(here.series.run_folder(here.run_id))
    lines = [line for file in sorted(run.root.glob("workers/*.avro")) for line in read(file) if line]
    assert {line["topology"] for line in lines} == {"star-1", "late-1", "other-1"}


def test_the_record_of_one_topology_says_nothing_of_several(stage: SetUp) -> None:
    here = stage(RATE)
    told = here.go()
    assert "topologies" not in here.document() and "topologies" not in here.document()["spec"]
    assert not [event for event in told if "topology" in event]
    assert json.dumps(here.document()["spec"]["topology"]).find("flux") == -1
