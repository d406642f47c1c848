"""What the terminal shows: progress lines in, phase, time left and throughput out."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from barograph.cli.execution import SeriesView, panel
from barograph.plan.durations import DEFAULT_OVERHEAD
from barograph.plan.experiment import Durations, load
from barograph.series.progress import (
    ProgressFile,
    ProgressReader,
    SeriesStatus,
    fact_rows,
    failures_since,
    initial_status,
    lines_since,
    minutes,
    sparkline,
    update_status,
)

STAR = replace(load("stela/star"), durations=Durations(45, 100, 75, 130))
RUN = [
    {"t": 0.0, "kind": "phase", "phase": "deploy", "expected_s": 45},
    {"t": 40.0, "kind": "run_started", "run_id": "stela-r1", "order": 1, "attempt": 1},
    {"t": 40.0, "kind": "phase", "run_id": "stela-r1", "phase": "reset", "expected_s": 10},
    {"t": 60.0, "kind": "phase", "run_id": "stela-r1", "phase": "warm_up", "expected_s": 100},
    {"t": 61.0, "kind": "throughput", "run_id": "stela-r1", "per_s": 210.0},
]
ENDED = {"t": 240.0, "kind": "run_ended", "run_id": "stela-r1", "status": "complete"}


def test_the_first_step_that_failed_is_the_cause_and_a_failed_run_before_any_step(tmp_path: Path) -> None:
    progress = ProgressFile(tmp_path)
    progress.tell("step_failed", blame="capacity", message="testbed local is in use")
    progress.tell("step_failed", blame="harness", message="series s1 has no record yet")
    assert [line["message"] for line in failures_since(tmp_path, 0.0)] == ["testbed local is in use"]
    progress.tell("run_failed", blame="infrastructure", message="m1 died", run_id="stela-r1", again=False)
    assert [line["message"] for line in failures_since(tmp_path, 0.0)] == ["m1 died"]


def status_after(*lines: dict[str, Any], runs: int = 2) -> SeriesStatus:
    status = initial_status(runs, STAR)
    for line in lines:
        status = update_status(status, line)
    return status


def test_time_left_learns_from_runs_that_are_done() -> None:
    early, later = status_after(*RUN), status_after(*RUN, ENDED)
    assert later.lengths_s == (200.0,)
    assert later.time_left_s(240.0) == 200 + DEFAULT_OVERHEAD.closing_s, "one more run as long as this one"
    assert early.time_left_s(100.0) > later.time_left_s(240.0)


@given(st.floats(0, 1e6))
def test_time_left_is_never_negative(now_s: float) -> None:
    assert status_after(*RUN).time_left_s(now_s) >= 0
    assert status_after(*RUN, ENDED, runs=1).time_left_s(now_s) >= 0


def test_failures_are_noted_and_repeats_do_not_count() -> None:
    failed = {"t": 90.0, "kind": "run_failed", "run_id": "stela-r1", "blame": "infrastructure", "message": "m2 died"}
    again = status_after(*RUN, {**failed, "again": True})
    assert again.done == () and "repeated" in again.notes[0]
    final = status_after(*RUN, {**failed, "again": False})
    assert final.done == (("stela-r1", "failed"),)


def test_an_unknown_line_changes_nothing() -> None:
    assert status_after({"t": 0.0, "kind": "news"}) == initial_status(2, STAR)


def test_sparkline_scales_from_zero_and_shows_gaps() -> None:
    assert sparkline([0, 50, None, 100]) == "▁▅ █"
    assert sparkline([]) == "" and sparkline([0, 0]) == "▁▁"
    assert minutes(187) == "3:07"


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


def test_plain_lines() -> None:
    out = console(False)
    view = SeriesView(out, initial_status(2, STAR), clock=lambda: 100.0)
    for line in [*RUN, ENDED]:
        view.update(line)
        view.tick()
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "stela-r1: warming up until steady (about" in text
    assert "stela-r1: 210 tuples/s" in text and "stela-r1: complete" in text
    assert "\x1b" not in text


def test_no_throughput_is_said_of_a_run_that_is_over() -> None:
    out, now_s = console(False), [100.0]
    view = SeriesView(out, initial_status(2, STAR), clock=lambda: now_s[0])
    for line in [*RUN, ENDED]:
        view.update(line)
    now_s[0] = 250.0
    view.tick()
    assert "tuples/s" not in out.file.getvalue()  # type: ignore[attr-defined]


def test_the_panel_shows_phase_throughput_and_runs() -> None:
    out = console(True)
    out.print(panel(status_after(*RUN, {"t": 70.0, "kind": "money", "used_usd": 1.5, "budget_usd": 5.0}), now_s=90.0))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "warming up until steady, for 0:30" in text and "210 tuples/s" in text and "0 of 2 done" in text
    assert "█" in text and "$1.50 of $5.00" in text


def test_a_day_is_left_in_hours_and_no_phase_lasts_less_than_nothing() -> None:
    """On the terminal as on the page; the clock may be set back."""
    facts = dict(fact_rows(status_after(*RUN, runs=200), now_s=10.0))
    assert " h " in facts["runs"] and facts["phase"] == "warming up until steady, for 0:00"
    soon = dict(fact_rows(status_after(*RUN, runs=2), now_s=10.0))
    assert re.search(r"about \d+:\d\d left", soon["runs"]), "below an hour with seconds"


def test_progress_is_followed_line_by_line(tmp_path: Path) -> None:
    ProgressFile(tmp_path).tell("message", text="of an earlier execution")
    reader = ProgressReader(tmp_path)
    assert list(reader.new()) == []
    ProgressFile(tmp_path).tell("message", text="one")
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('{"kind": "mess')
    assert [line["text"] for line in reader.new()] == ["one"]
    with (tmp_path / "progress.jsonl").open("a") as file:
        file.write('age", "text": "two", "t": 1}\n')
    assert [line["text"] for line in reader.new()] == ["two"]


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    reader, progress = ProgressReader(tmp_path), ProgressFile(tmp_path)
    progress.tell("message", text="one")
    with (tmp_path / "progress.jsonl").open("ab") as file:
        file.write(b'{"kind": "message"}\n[1]\n\xff\xfe\n{"t": 1.0, "kind": "mess')  # the disk is full
    progress.tell("message", text="two")
    assert [line["text"] for line in reader.new()] == ["one", "two"]
    assert reader.damaged == 4
    assert [line["text"] for line in lines_since(tmp_path, "message", 0.0)] == ["one", "two"]


def test_a_failure_without_its_blame_is_no_failure_to_judge_by(tmp_path: Path) -> None:
    whole = {"t": 6.0, "kind": "step_failed", "blame": "capacity", "message": "the disk is full"}
    lines = [
        {"t": 5.0, "kind": "run_failed"},
        {"t": 5.0, "kind": "step_failed", "blame": "nobody", "message": "x"},
        whole,
    ]
    (tmp_path / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert failures_since(tmp_path, 0.0) == [whole]


def test_failures_are_of_their_execution_though_the_clock_was_set_back(tmp_path: Path) -> None:
    def failed(t: float, message: str) -> dict[str, object]:
        return {"t": t, "kind": "run_failed", "blame": "harness", "message": message, "again": False}

    opened_s = 5000.0
    lines = [failed(9000.0, "earlier"), {"t": opened_s, "kind": "opened", "opened_s": opened_s}, failed(1400.0, "ours")]
    (tmp_path / "progress.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [line["message"] for line in failures_since(tmp_path, opened_s)] == ["ours"]
    assert [line["message"] for line in lines_since(tmp_path, "run_failed", 2000.0)] == ["earlier"], "of any moment"
