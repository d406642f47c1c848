import json
from pathlib import Path
from typing import Any

import pytest

from analysis.record import event_timeline
from analysis.record.event_timeline import event_label
from analysis.record.files import RunPaths
from analysis.report import series_tables
from tests.support.series_by_hand import SCALED_OUT, ZERO, write_run


def held_round(t: float, reason: str) -> dict[str, Any]:
    return {"t": ZERO + t, "observation": {"event": {"event_id": "e1"}}, "decision": {"reason": reason}}


def mixed(root: Path) -> RunPaths:
    """Out (aborted once and repeated), in, a rate and a crash that Storm gets over."""
    write_run(root, "stela-r1", [
        (-60, {"kind": "first_tuple"}),
        (0, SCALED_OUT),
        (3, {"kind": "decision", "decision_id": "d1", "reason": "2 slots"}),
        (4, {"kind": "applied", "decision_id": "d1", "ok": False}),
        (5, {"kind": "scale_aborted", "event_id": "e1", "reason": "m3 died"}),
        (6, {**SCALED_OUT, "event_id": "e1.2"}),
        (9, {"kind": "applied", "decision_id": "d2", "ok": True}),
        (100, {"kind": "scale_requested", "event_id": "e2", "event": "scale_in", "joined": [], "leave": 2}),
        (104, {"kind": "machines_left", "machines": ["m1", "m2"], "given_back": False}),
        (200, {"kind": "rate_changed", "event_id": "e3", "factor": 1.5}),
        (300, {"kind": "crashed", "event_id": "e4", "machine": "m4"}),
        (320, {"kind": "restarted", "event_id": "e4", "machine": "m4"}),
    ], [held_round(1, "held: samples are 12.0 s old"), held_round(2, "held: samples are 13.0 s old"),
        held_round(3, "2 slots")])  # fmt: skip
    return RunPaths(root / "runs" / "stela-r1")


def test_marks_count_from_the_first_event_and_say_what_happened(tmp_path: Path) -> None:
    assert [(mark.t_s, mark.event_id, mark.label) for mark in event_timeline.event_marks(mixed(tmp_path))] == [
        (0, "e1", "scale out, +1 machine"), (5, "e1", "aborted"), (6, "e1", "repeated"),
        (100, "e2", "scale in, −2 machines"), (200, "e3", "rate × 1.5"), (300, "e4", "m4 crashes"),
        (320, "e4", "m4 is back"),
    ]  # fmt: skip


def test_a_number_of_machines_that_nothing_tells_is_left_out(tmp_path: Path) -> None:
    for kind, said in (("scale_out", "scale out"), ("scale_in", "scale in")):
        write_run(tmp_path, kind, [(0, {"kind": "scale_requested", "event_id": "e1", "event": kind})])
        (mark,) = event_timeline.event_marks(RunPaths(tmp_path / "runs" / kind))
        assert mark.label == said


def test_a_report_says_what_was_held_aborted_and_left(tmp_path: Path) -> None:
    found = [("stela-r1", happening) for happening in event_timeline.event_outcomes(mixed(tmp_path))]
    assert series_tables.event_warnings(found) == [
        "stela-r1, scale out, +1 machine: no decision for lack of data in 2 rounds before it was decided "
        "(samples are 13.0 s old).",
        "stela-r1, scale out, +1 machine: attempt 1 was aborted (m3 died) and repeated.",
    ]
    assert series_tables.remarks(found[1][1]) == ["m1, m2 left; kept idle, because later runs need them"]


def test_damaged_lines_and_a_run_without_an_event_leave_nothing_behind(tmp_path: Path) -> None:
    write_run(tmp_path, "stela-r1", [(0, {"kind": "run_started"})])
    run = RunPaths(tmp_path / "runs" / "stela-r1")
    run.events.write_text(run.events.read_text() + '{"t": 17, "kind"\n[1]\n')
    assert event_timeline.event_marks(run) == [] and event_timeline.event_outcomes(run) == []
    assert event_timeline.read_timeline(run).damaged == 2


def test_a_timeline_has_the_rounds_with_an_event_and_follows_its_files(tmp_path: Path) -> None:
    run = mixed(tmp_path)
    timeline = event_timeline.read_timeline(run)
    assert [each.event_id for each in timeline.rounds] == ["e1"] * 3 and timeline.damaged == 0
    assert event_timeline.read_timeline(run) is timeline, "read once"
    with run.decisions.open("a") as file:
        file.write('{"t": 1, "observation": {"event": null}}\n{"observation": {"event": {"event_id": "e2"}}}\n')
    again = event_timeline.read_timeline(run)
    assert (again.rounds, again.damaged) == (timeline.rounds, 1)


@pytest.mark.parametrize(
    ("facts", "label"),
    [
        ({"factor": 1.5}, "rate × 1.5"),
        ({"factor": 1.5, "over_s": None, "topology": None, "source": "spout_1"}, "rate of spout_1 × 1.5"),
        ({"factor": 2, "over_s": 30.0, "topology": "star", "source": None}, "rate of star × 2 over 30 s"),
        ({"factor": 2, "over_s": 30.0, "topology": "star", "source": "a"}, "rate of a of star × 2 over 30 s"),
    ],
)
def test_a_change_of_rate_says_whose_and_how_fast(facts: dict[str, Any], label: str) -> None:
    assert event_label({"t": 1.0, "kind": "rate_changed", "event_id": "e1", **facts}) == label


def test_a_course_is_marked_once(tmp_path: Path) -> None:
    """With the topology whose input alone the event changes."""
    lines = [
        {"t": 10.0, "kind": "event_performed", "event_id": "e1", "event": "sine", "label": "a", "topology": "star"},
        {"t": 15.0, "kind": "course_interrupted", "event_id": "e1", "from_s": 15.0, "until_s": 23.0},
        {"t": 18.0, "kind": "course_ended", "event_id": "e1", "reason": "it is over"},
        {"t": 20.0, "kind": "event_performed", "event_id": "e2", "event": "sine", "label": "b", "topology": "linear"},
        {
            "t": 30.0,
            "kind": "event_performed",
            "event_id": "e3",
            "event": "arrival",
            "topologies": ["linear"],
            "label": "linear arrives",
        },
        {"t": 40.0, "kind": "crashed", "event_id": "e4", "machine": "m1"},
    ]
    (tmp_path / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    marks = event_timeline.planned_marks(RunPaths(tmp_path))
    assert [(mark.label, mark.input_of) for mark in marks] == [
        ("a", "star"), ("b", "linear"), ("linear arrives", ""), ("m1 crashes", ""),
    ]  # fmt: skip


def test_a_repeated_operation_belongs_to_its_event_and_events_come_in_the_order_of_the_plan() -> None:
    lines: list[dict[str, str | None]] = [{"event_id": name} for name in ("e1", "e1.2", "e12.10", None)]
    assert [event_timeline.operation_id(line) for line in [*lines, {}]] == ["e1", "e1", "e12", "", ""]
    assert sorted(["e10", "e2", "e0", "e1"], key=event_timeline.event_order) == ["e0", "e1", "e2", "e10"]
