"""One run over a fake cluster: what it leaves, and whose failure each failure is."""

import json
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest

from barograph.campaign.steps import attempt_next_run
from barograph.errors import (
    BarographError,
    Interrupted,
    MachineLost,
    OutcomeUnknown,
    PolicyHung,
    RunBroken,
    RunInvalid,
    ServiceRestarted,
)
from barograph.policy_service import ServiceRefused, ServiceUnreachable
from barograph.run.context import SeriesContext
from barograph.series.run_record import read_run
from barograph.series.series import Series, read_series
from scheduler_plugins.model import Slot
from tests.support import worker_lines
from tests.support.fakes.storm import FakeStorm

PHASES = ["reset", "configure", "submit", "first_tuple", "warm_up", "join", "scale", "after", "collect"]


def events(series: Series, run_id: str) -> list[dict[str, Any]]:
    path = series.run_folder(run_id) / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def document(series: Series, run_id: str) -> dict[str, Any]:
    found = read_run(series.run_folder(run_id))
    assert found is not None
    return found


def first(series: Series) -> str:
    return series.plan()[0].run_id


def test_a_run_leaves_a_complete_record(series: Series, bench: SeriesContext) -> None:
    run_id = attempt_next_run(series, bench)
    assert run_id == first(series)
    run = document(series, run_id)
    assert run["status"] == "complete" and run["failure"] is None
    assert [phase["name"] for phase in run["phases"]] == PHASES
    assert all(phase["end_s"] >= phase["start_s"] for phase in run["phases"])
    assert [c["name"] for c in run["topology"]["components"] if c["sink"]] == ["sink_1"]
    assert run["topology"]["id"] == "star-1", "as its samples have it"
    assert run["machines"]["m5"]["joins_at_scale"] is True and run["machines"]["m1"]["joins_at_scale"] is False
    assert run["series_id"] == series.series_id and run["experiment"] == "stela/star"
    assert worker_lines.of_run(series.run_folder(run_id))


def test_events_tell_the_run_in_order(series: Series, bench: SeriesContext) -> None:
    told = events(series, attempt_next_run(series, bench) or "")
    assert [event["kind"] for event in told] == [
        "run_started",
        "topology_submitted",
        "first_tuple",
        "steady",
        "machines_joined",
        "scale_requested",
        "decision",
        "applied",
        "steady",
        "topology_killed",
        "run_ended",
    ]
    assert [event["t"] for event in told] == sorted(event["t"] for event in told)
    assert [event["phase"] for event in told if event["kind"] == "steady"] == ["before", "after"]
    assert all(event["steady"] for event in told if event["kind"] == "steady")


def test_only_watched_time_is_planned(series: Series, bench: SeriesContext) -> None:
    run = document(series, attempt_next_run(series, bench) or "")
    planned = {phase["name"]: phase["planned_s"] for phase in run["phases"]}
    assert planned["warm_up"] >= 45 and planned["after"] > 40
    assert sum(planned.values()) == planned["warm_up"] + planned["after"]
    assert sum(planned.values()) <= run["ended_s"] - run["started_s"]


def test_every_run_is_done_once(series: Series, bench: SeriesContext) -> None:
    done = [attempt_next_run(series, bench) for _ in series.plan()]
    assert done == [run.run_id for run in series.plan()]
    assert attempt_next_run(series, bench) is None and series.missing_runs() == 0


def test_an_unsteady_run_ends_at_ceiling_and_horizon(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["unsteady"] = True
    run_id = attempt_next_run(series, bench) or ""
    steady = [event for event in events(series, run_id) if event["kind"] == "steady"]
    assert [event["steady"] for event in steady] == [False, False]
    assert "100 s" in steady[0]["reason"] and "90 s" in steady[1]["reason"]
    assert document(series, run_id)["status"] == "complete"


def test_a_fallback_of_the_bridge_makes_the_run_invalid(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["fallback"] = ("no answer within 2 s",)
    with pytest.raises(RunInvalid, match="invalid: the bridge fell back: no answer within 2 s"):
        attempt_next_run(series, bench)
    run_id = first(series)
    assert (document(series, run_id)["status"], document(series, run_id)["attempt"]) == ("invalid", 2)
    assert [e["reason"] for e in events(series, run_id) if e["kind"] == "fallback"] == ["no answer within 2 s"]
    assert series.complete() == frozenset()


def test_an_invalid_run_is_done_again(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["fallback"] = ("no answer within 2 s",)

    def mend() -> bool:
        del storm.faults["fallback"]
        return True

    with patch.object(storm, "make_whole", mend):
        assert attempt_next_run(series, bench) == first(series)
    assert (document(series, first(series))["status"], document(series, first(series))["attempt"]) == ("complete", 2)


def test_a_fallback_makes_a_run_that_failed_invalid_too(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults |= {"fallback": ("no answer within 2 s",), "policy_fails_after_s": 20}
    run_id = first(series)
    with pytest.raises(RunInvalid):
        attempt_next_run(series, bench)
    run = document(series, run_id)
    assert run["status"] == "invalid" and run["failure"] is None, "it is no result about the policy"
    assert run["invalid"].startswith("the bridge fell back: no answer within 2 s; after that: the policy even failed")
    assert events(series, run_id)[-1] | {"t": 0} == {
        "t": 0, "kind": "run_ended", "status": "invalid", "reason": run["invalid"]
    }  # fmt: skip
    assert series.complete() == frozenset()


@pytest.mark.parametrize("line", ['{"t": 1700000050, "kind": "fallb', '{"kind": "fallback"}\n', "[1]\n"])
def test_a_damaged_line_of_the_bridge_may_be_a_fallback(
    line: str, series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["damaged_bridge_line"] = line
    with pytest.raises(RunInvalid):
        attempt_next_run(series, bench)
    run = document(series, first(series))
    assert (run["status"], run["invalid"]) == (
        "invalid", "the bridge fell back: a line of bridge.jsonl is damaged and may have said so"
    )  # fmt: skip


def test_a_fallback_does_not_hide_whose_machine_died(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults |= {"fallback": ("no answer within 2 s",), "dead": ("m2",), "dies_after_s": 20}
    with pytest.raises(MachineLost):
        attempt_next_run(series, bench)
    assert document(series, first(series))["status"] == "failed"


def test_a_spout_that_restarts_by_itself_is_a_result_of_the_variant(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    """Not left out and measured again until it happens to go well: that would count the good runs only."""
    storm.faults["restarts"] = [(15, "m2:6700", ()), (20, "m1:6700", (1,))]
    with pytest.raises(RunBroken, match=r"m1:6700 restarted and nobody asked for that: .* every machine is there"):
        attempt_next_run(series, bench)
    run = document(series, first(series))
    assert (run["status"], run["failure"]["blame"], run["attempt"]) == ("failed", "system_under_test", 1)
    restarts = [event for event in events(series, first(series)) if event["kind"] == "worker_restarted"]
    assert [(e["slot"], e["spouts"], e["asked"]) for e in restarts] == [
        ("m2:6700", [], False),
        ("m1:6700", [1], False),
    ]


def test_a_spout_that_restarts_where_the_bridge_fell_back_is_nobodys_result(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"restarts": [(20, "m1:6700", (1,))], "fallback": ("no answer within 2 s",)}
    with pytest.raises(RunInvalid):
        attempt_next_run(series, bench)
    assert document(series, first(series))["status"] == "invalid"


def test_a_spout_that_moves_because_its_machine_was_missed_is_the_machines_failure(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"restarts": [(20, "m2:6700", (1,))], "missed": ("m2", 12.0, 16.0)}
    with pytest.raises(MachineLost, match="Nimbus did not know m2 for a while"):
        attempt_next_run(series, bench)


def test_a_worker_that_restarts_without_spouts_is_on_record_only(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["restarts"] = [(30, "m2:6700", ())]
    run_id = attempt_next_run(series, bench) or ""
    assert document(series, run_id)["status"] == "complete"
    assert [e["slot"] for e in events(series, run_id) if e["kind"] == "worker_restarted"] == ["m2:6700"]


@pytest.mark.parametrize(
    ("after_s", "slots", "asked"),
    [(8, ["m1:6700"], True), (8, None, True), (8, ["m2:6700"], False), (85, ["m1:6700"], False)],
)
def test_a_spout_that_a_decision_moves_is_a_part_of_the_result(
    after_s: float, slots: list[str] | None, asked: bool, series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["unsteady"] = True  # until the horizon, 90 s after the zero
    storm.faults |= {"restarts_after_scale": [(after_s, "m1:6700", (1,))], "slots": slots}
    with nullcontext() if asked else pytest.raises(RunBroken, match="nobody asked for that"):
        attempt_next_run(series, bench)
    assert document(series, first(series))["status"] == ("complete" if asked else "failed")
    restarts = [event for event in events(series, first(series)) if event["kind"] == "worker_restarted"]
    assert [event["asked"] for event in restarts] == [asked]


def test_a_policy_service_that_begins_anew_in_a_run_ends_it(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["service_restarts_after_s"] = 30
    with pytest.raises(ServiceRestarted, match="serves run none in place of even_rebalance-r1: it was started anew"):
        attempt_next_run(series, bench)
    assert document(series, first(series))["failure"]["blame"] == "infrastructure"


def test_a_policy_that_hung_in_one_call_is_a_result_and_the_bridges_fallback_a_part_of_it(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"policy_hangs_after_s": 20, "fallback": ("no answer within 2 s",)}
    with pytest.raises(PolicyHung, match="the policy even failed: its decide hung"):
        attempt_next_run(series, bench)
    run = document(series, first(series))
    assert (run["status"], run["failure"]["blame"], run["attempt"]) == ("failed", "system_under_test", 1)


def test_tasks_that_lose_their_place_before_the_first_event_repeat_the_run(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"lost_after_s": 20, "missed": ("m2", 12.0, 16.0)}
    assert attempt_next_run(series, bench) == first(series)
    kept = series.attempts / f"{first(series)}.attempt-1"
    failed = read_run(kept)
    assert failed is not None and failed["failure"]["blame"] == "infrastructure"
    assert failed["failure"]["message"] == (
        "m2: 1 tasks lost their place before the first event of the run; Nimbus did not know m2 for a while"
    )
    told = [json.loads(line) for line in (kept / "events.jsonl").read_text().splitlines()]
    assert [(e["tasks"], e["machines"]) for e in told if e["kind"] == "tasks_lost"] == [(1, ["m2"])]


def test_tasks_that_lose_their_place_where_every_machine_lives_are_a_result_of_the_variant(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"lost_after_s": 20, "missed": ("m3", 12.0, 16.0)}
    with pytest.raises(RunBroken, match=r"^m2: 1 tasks lost their place before the first event .* every machine is"):
        attempt_next_run(series, bench)
    run = document(series, first(series))
    assert (run["failure"]["blame"], run["attempt"]) == ("system_under_test", 1)
    assert len([e for e in events(series, first(series)) if e["kind"] == "tasks_lost"]) == 1


def test_tasks_that_lose_their_place_with_a_machine_that_is_silent_are_the_machines(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"lost_after_s": 20, "dead": ("m2",), "dies_after_s": 900}
    with pytest.raises(MachineLost):
        attempt_next_run(series, bench)
    failed = read_run(series.attempts / f"{first(series)}.attempt-1")
    assert failed is not None and failed["failure"]["blame"] == "infrastructure"
    assert failed["failure"]["message"].startswith("m2 stopped answering; seen first as: m2: 1 tasks lost their place")


def test_tasks_that_lose_their_place_later_are_on_record(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["lost_after_s"] = 80
    run_id = attempt_next_run(series, bench) or ""
    assert document(series, run_id)["status"] == "complete" and document(series, run_id)["attempt"] == 1
    assert len([e for e in events(series, run_id) if e["kind"] == "tasks_lost"]) == 1


SYSTEM, INFRASTRUCTURE, HARNESS = "system_under_test", "infrastructure", "harness"
FAILURES: list[tuple[dict[str, Any], type[Exception], str, str, str]] = [
    ({"policy_fails_after_s": 20}, RunBroken, SYSTEM, "warm_up", "ZeroDivisionError"),
    ({"policy_fails_after_s": 55}, RunBroken, SYSTEM, "after", "ZeroDivisionError"),
    ({"silent_after_s": 10}, RunBroken, SYSTEM, "warm_up", "silent for"),
    ({"no_tuples": True}, RunBroken, SYSTEM, "first_tuple", "no tuple reached a sink within 150 s"),
    ({"refused": "more executors than tasks"}, RunBroken, SYSTEM, "scale", "more executors than tasks"),
    ({"never_decides": True}, RunBroken, SYSTEM, "scale", "not decided and applied within 90 s"),
    (
        {"nimbus_silent_after_s": 115, "unsteady": True},
        RunBroken,
        SYSTEM,
        "after",
        "Nimbus has asked for no placement for 61 s",
    ),
    ({"unanswered": True}, OutcomeUnknown, INFRASTRUCTURE, "scale", "decision d2: Nimbus has not said within 75 s"),
    ({"dead": ("m2",), "dies_after_s": 20}, MachineLost, INFRASTRUCTURE, "warm_up", "m2 stopped answering"),
    ({"dead": ("m2",), "dies_after_s": 900}, MachineLost, INFRASTRUCTURE, "after", "m2 stopped answering"),
    ({"never_registers": True}, MachineLost, INFRASTRUCTURE, "join", "m5 did not register"),
    ({"unreachable_after_s": 20}, ServiceUnreachable, INFRASTRUCTURE, "warm_up", "does not answer"),
    ({"submit": [RuntimeError("bug")]}, RuntimeError, HARNESS, "submit", "RuntimeError: bug"),
    ({"configure": [ServiceRefused("answered 400")]}, ServiceRefused, HARNESS, "configure", "answered 400"),
]


@pytest.mark.parametrize(("faults", "kind", "blame", "where", "message"), FAILURES)
def test_each_failure_is_blamed_and_kept(
    faults: dict[str, Any],
    kind: type[Exception],
    blame: str,
    where: str,
    message: str,
    series: Series,
    bench: SeriesContext,
    storm: FakeStorm,
) -> None:
    storm.faults.update(faults)
    with pytest.raises(kind):
        attempt_next_run(series, bench)
    run = document(series, first(series))
    assert run["status"] == "failed"
    assert (run["failure"]["blame"], run["failure"]["where"]) == (blame, where)
    assert message in run["failure"]["message"]
    assert storm.calls[-2:] == ["stop", "collect"]
    assert events(series, first(series))[-1]["kind"] == "run_ended"


@pytest.mark.parametrize("call", ["reset", "submit", "join"])
def test_an_infrastructure_failure_is_repeated_once(
    call: str, series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults[call] = [MachineLost("ssh to m3 failed")]
    assert attempt_next_run(series, bench) == first(series)
    assert document(series, first(series))["attempt"] == 2
    kept = read_run(series.attempts / f"{first(series)}.attempt-1")
    assert kept is not None and kept["failure"]["blame"] == "infrastructure"


def test_a_run_whose_topology_was_placed_without_a_machine_is_repeated(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["unknown_at_submission"] = ("m2", "m4")
    assert attempt_next_run(series, bench) == first(series)
    assert document(series, first(series))["attempt"] == 2
    kept = read_run(series.attempts / f"{first(series)}.attempt-1")
    assert kept is not None and kept["failure"]["where"] == "first_tuple"
    assert kept["failure"]["blame"] == "infrastructure"
    assert kept["failure"]["message"].endswith(
        "m2, m4: not known to Nimbus when it placed the topology, which would run without them"
    )


def test_a_second_infrastructure_failure_ends_the_run(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["reset"] = [MachineLost("first"), MachineLost("second"), MachineLost("third")]
    with pytest.raises(MachineLost, match="second"):
        attempt_next_run(series, bench)


def test_a_broken_system_is_a_result_and_not_repeated(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["no_tuples"] = True
    with pytest.raises(RunBroken):
        attempt_next_run(series, bench)
    assert storm.calls.count("submit") == 1


def test_after_a_failure_the_execution_goes_on_with_the_next(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["submit"] = [RunBroken("topology refused")]
    with pytest.raises(RunBroken):
        attempt_next_run(series, bench)
    assert attempt_next_run(series, bench) == series.plan()[1].run_id


def test_a_resumed_series_begins_with_the_failed_run_and_keeps_its_record(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults["submit"] = [RunBroken("topology refused")]
    with pytest.raises(RunBroken):
        attempt_next_run(series, bench)
    later = Series(series.folder, series.experiment, storm.clock.now() + 1)
    storm.clock.sleep(5)
    assert attempt_next_run(later, bench) == first(series)
    kept = read_run(series.attempts / f"{first(series)}.attempt-1")
    assert kept is not None and "topology refused" in kept["failure"]["message"]


@pytest.mark.parametrize("call", ["reset", "configure", "submit", "state", "join", "scale", "stop", "collect"])
def test_ctrl_c_in_each_phase_keeps_what_was_measured(
    call: str, series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults[call] = [Interrupted()]
    with pytest.raises(Interrupted):
        attempt_next_run(series, bench)
    run = document(series, first(series))
    assert run["status"] == "incomplete" and run["failure"] is None
    assert storm.calls[-2:] == ["stop", "collect"]
    assert first(series) not in series.complete()


def test_trouble_in_collecting_does_not_hide_the_failure(
    series: Series, bench: SeriesContext, storm: FakeStorm
) -> None:
    storm.faults |= {"no_tuples": True, "collect": [OSError("connection reset")]}
    with pytest.raises(RunBroken):
        attempt_next_run(series, bench)
    assert "no tuple" in document(series, first(series))["failure"]["message"]


def test_a_full_disk_is_said_and_what_is_there_stays(series: Series, bench: SeriesContext, storm: FakeStorm) -> None:
    storm.faults["collect"] = [OSError(28, "No space left on device"), OSError(28, "No space left on device")]
    with pytest.raises(BarographError, match="disk is full") as caught:
        attempt_next_run(series, bench)
    assert getattr(caught.value, "blame", None) == "capacity"
    assert document(series, first(series))["status"] == "failed"


def test_read_series_finds_the_same_plan(series: Series) -> None:
    again = read_series(series.folder)
    assert again == series


def test_processes_of_a_slot_have_a_file_each_though_they_begin_within_a_millisecond(storm: FakeStorm) -> None:
    slot, files = Slot("m1", 6700), set[str]()
    for _ in range(3):
        storm._start_worker("star-1", slot)
        files.add(storm._workers["star-1", slot][1])
    assert len(files) == 3
