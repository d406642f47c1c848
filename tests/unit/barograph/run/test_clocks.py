"""Machines' clocks: compared before and after a run, followed, and a run refused where they cannot be trusted."""

import re
import time
from contextlib import nullcontext
from typing import Any

import pytest

from analysis.metrics.uncertainty import corrected_error_ms
from barograph.errors import RunBroken
from barograph.plan.events.kind import PlannedEvent
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.run.clocks import APART_MS, ClockWrong, correction_ms, latency_error_ms, require_close
from barograph.series.run_record import MonotonicClock
from playbooks.clock import ClockOffset
from tests.unit.barograph.run.conftest import SetUp, Stage

OUT = ScaleOut("steady", 1)


ALL = ("master", "m1", "m2", "m3", "m4", "m5")


def refused(here: Stage, match: str) -> dict[str, Any]:
    """The record of a run that is refused in both attempts."""
    document = here.fails(ClockWrong, match)
    assert document["status"] == "failed" and document["failure"]["blame"] == "infrastructure"
    return document


def test_offsets_within_the_bound_are_recorded_and_the_runs_clock_follows_them(stage: SetUp) -> None:
    here = stage(OUT, clock_offset_ms=dict.fromkeys(ALL, 400.0))
    before_s = here.storm.clock.now()
    here.go()
    document = here.document()
    assert document["clock_offset_ms"] == pytest.approx(dict.fromkeys(ALL, 400.0))
    assert document["clock_correction_ms"] == pytest.approx(400)
    assert document["clock_end_offset_ms"] == pytest.approx(document["clock_offset_ms"])
    assert here.storm.clock.shift_s == pytest.approx(0.4)
    submitted = next(event["t"] for event in here.events() if event["kind"] == "topology_submitted")
    assert submitted == pytest.approx(before_s + 0.4), "on the machines' time"


def test_a_machine_whose_clock_is_far_off_is_named_and_nothing_is_submitted(stage: SetUp) -> None:
    here = stage(OUT, clock_offset_ms={"m3": -31_200.0})
    document = refused(here, r"m3 -31\.200 s; allowed: 0\.05 s to either side; synchronise")
    assert document["clock_offset_ms"]["m3"] == -31_200
    assert "submit" not in here.storm.calls


STEPPED = "clocks were stepped during the run"


@pytest.mark.parametrize(
    ("event", "faults", "message"),
    [
        (OUT, {"clock_offset_ms": {"m2": None}}, "the clock of m2 could not be asked"),
        (OUT, {"clock_step_ms": {"m2": 3e4}, "clock_step_after_s": 15.0, "policy_fails_after_s": 20},
         rf"{STEPPED}: m2 \+30\.000 s; .*; seen first as: the policy even failed"),
        (OUT, {"clock_step_ms": {"m2": APART_MS + 20}, "clock_step_after_s": 30.0}, rf"{STEPPED}: m2 \+0\.070 s"),
        # The median of it and the master alone blamed half of it to each, which is within what is allowed.
        (ScaleIn("steady", 1), {"clock_step_ms": {"m4": 1.8 * APART_MS}, "clock_step_after_s": 30.0},
         rf"{STEPPED}: m4 \+0\.090 s"),
    ],
)  # fmt: skip
def test_a_clock_that_cannot_be_trusted_is_infrastructure(
    stage: SetUp, event: PlannedEvent, faults: dict[str, Any], message: str
) -> None:
    refused(stage(event, **faults), message)


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"clock_offset_ms": {"master": 30.0}, "policy_fails_after_s": 20}, RunBroken),
        ({"clock_offset_ms": {"m5": 30.0}, "policy_fails_after_s": 20}, RunBroken),  # it has not joined at the end
        ({"clock_step_ms": dict.fromkeys(ALL, 300.0), "clock_step_after_s": 30.0}, None),  # the box's own pace
    ],
)
def test_what_no_tuple_is_timed_with_makes_no_latency_wrong(
    stage: SetUp, faults: dict[str, Any], error: type[Exception] | None
) -> None:
    here = stage(OUT, **faults)
    with nullcontext() if error is None else pytest.raises(error):
        here.attempt()
    assert here.document()["clock_error_ms"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("step_ms", [30_000.0, -30_000.0])
def test_a_clock_that_is_stepped_during_the_run_is_noticed_and_the_run_is_repeated(
    stage: SetUp, step_ms: float
) -> None:
    here = stage(OUT, clock_step_ms={"m2": step_ms}, clock_step_after_s=30.0)
    document = refused(here, re.escape(f"clocks were stepped during the run: m2 {step_ms / 1000:+.3f} s"))
    assert here.first_attempt(), "it was tried again, and is not counted"
    assert document["clock_end_offset_ms"]["m2"] - document["clock_offset_ms"]["m2"] == pytest.approx(step_ms)
    assert here.of("clock_stepped")[0]["machines"] == ["m2"]


def test_clocks_that_are_refused_are_not_followed(stage: SetUp) -> None:
    here = stage(OUT, clock_offset_ms=dict.fromkeys(ALL, 1500.0))
    document = refused(here, r"this box's clock is too far from the machines', whose median is \+1\.5 s; allowed: 1 s")
    assert "clock_correction_ms" not in document
    assert here.of("clock_stepped") == []


def clocks(error_ms: float = 0.0, /, **ms: float) -> dict[str, ClockOffset | None]:
    return {name: ClockOffset(offset, error_ms) for name, offset in ms.items()}


def test_clocks_are_close_about_their_median_whatever_this_boxs_is() -> None:
    require_close(clocks(m1=400.0 + APART_MS, m2=400.0 - APART_MS), 400.0)
    with pytest.raises(ClockWrong, match=r"from the median of the machines': m1 \+0\.051 s; allowed: 0\.05 s"):
        require_close(clocks(m1=401.0 + APART_MS, m2=400.0), 400.0)


def test_a_clock_that_may_be_near_enough_is_not_refused() -> None:
    require_close(clocks(30.0, m1=20.0 + APART_MS), 0.0)
    with pytest.raises(ClockWrong):
        require_close(clocks(30.0, m1=31.0 + APART_MS), 0.0)


def test_the_median_is_followed_and_unknown_clocks_say_nothing() -> None:
    assert correction_ms({**clocks(master=10.0, m1=900.0, m2=12.0), "m3": None}) == 12
    assert correction_ms({}) == 0


def test_the_error_of_a_latency_is_the_worst_pairs_with_what_was_not_measured() -> None:
    first, last = {"m1": ClockOffset(-2.0, 0.5), "m2": ClockOffset(3.0, 0.25)}, {"m1": ClockOffset(0.0, 9.0)}
    assert latency_error_ms(first, last) == 5.75
    assert latency_error_ms({"m1": ClockOffset(0.0, 10.0), "m2": ClockOffset(0.0, 1.0)}) == 11, "not of m1 with itself"
    assert latency_error_ms(last) is None and latency_error_ms() is None


def test_a_run_says_by_how_much_its_latencies_may_be_wrong(stage: SetUp) -> None:
    here = stage(OUT, clock_offset_ms={"m2": 4.0, "m3": -1.0}, clock_error_ms=0.5)
    here.go()
    assert here.document()["clock_error_ms"] == pytest.approx(6)
    assert here.document()["clock_offset_error_ms"] == dict.fromkeys(here.document()["clock_offset_ms"], 0.5)
    assert corrected_error_ms(here.document()) == pytest.approx(1, abs=0.01), "once the offsets are taken out"


def test_a_clock_that_cannot_be_asked_after_the_run_is_said(stage: SetUp, heard: Any) -> None:
    here = stage(OUT, clock_unknown_after_s={"m2": 30.0})
    here.go()
    assert [event["machines"] for event in here.of("clock_unknown")] == [["m2"]]
    assert here.document()["clock_end_offset_ms"]["m2"] is None
    text = "the clock of m2 could not be asked after the run"
    assert {"kind": "message", "text": text} in heard.lines


def test_decisions_stand_on_the_runs_clock(stage: SetUp) -> None:
    """The master is 40 ms behind the others: its decision would else come before the request."""
    here = stage(OUT, clock_offset_ms={"master": -40.0})
    on_master = here.go()
    decided = next(event["t"] for event in on_master if event["kind"] == "decision")
    requested = next(event["t"] for event in on_master if event["kind"] == "scale_requested")
    (on_masters_clock,) = [each.t for each in here.storm.state().decisions if each.event_id == "e1"]
    assert decided == pytest.approx(on_masters_clock + 0.04) and decided > requested


def test_setting_the_boxs_clock_moves_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, wall_time = MonotonicClock(), time.time
    assert clock.now() == pytest.approx(wall_time(), abs=0.5)
    before_s = clock.now()
    monkeypatch.setattr(time, "time", lambda: wall_time() + 30)
    assert 0 <= clock.now() - before_s < 5
    clock.shift(0.25)
    assert clock.now() - before_s >= 0.25
    clock.restart()
    assert clock.now() == pytest.approx(wall_time() + 30, abs=0.5), "the next attempt begins with the box's time"
