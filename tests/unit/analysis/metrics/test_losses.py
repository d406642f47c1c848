"""What is lost on each edge, from counts whose truth is known."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics import measurements
from analysis.metrics.losses import loss_rows

UNIT = {"run_id": "r", "topology": ""}

# 100 s on each side of the event
SPAN: Mapping[str, Any] = {**UNIT, "event_id": "e1", "zero_s": 100.0, "first_s": 0.0, "last_s": 200.0}


def counted(
    source: str, target: str, phase: str, sent: float, executed: float, event: str = "e1", dropped: float | None = None
) -> dict[str, Any]:
    return {**UNIT, "event_id": event, "phase": phase, "source": source, "stream": "default", "target": target,
            "grouping": "shuffle", "sent": sent, "executed": executed, "dropped": dropped}  # fmt: skip


def waiting(target: str, zero: float, end: float, begin: float = 0.0, event: str = "e1") -> dict[str, Any]:
    return {**UNIT, "event_id": event, "target": target, "begin": begin, "zero": zero, "end": end}


def lost(counts: list[dict[str, Any]], queues: list[dict[str, Any]] | None = None) -> dict[tuple[str, str], float]:
    found = loss_rows(counts, queues or [], [SPAN])
    return {(row["source"], row["phase"]): row["lost"] for row in found}


@pytest.mark.parametrize("targets", [("x", "y"), ("x", "x")])
def test_what_one_edge_lost_is_not_made_up_for_by_another(targets: tuple[str, str]) -> None:
    edges = [counted("a", targets[0], "after", 10_000, 9_500), counted("b", targets[1], "after", 10_000, 10_300)]
    assert lost(edges) == {("a", "after"): 500, ("b", "after"): 0}
    rows = loss_rows(edges, [], [SPAN])
    measured = {row["metric"]: row["value"] for row in measurements.tuple_losses(lambda _: rows)}
    assert (measured["lost_after"], measured["lost_after_uncertainty"]) == (500, pytest.approx(203))
    assert measured["lost_after_percent"] == pytest.approx(2.5)


def test_what_a_limit_on_a_queue_dropped_is_not_lost_and_a_share_of_what_was_sent_to_it() -> None:
    """Beside it the sink, without a limit, and a worker that took 500 with it. What is between two events counts once
    in the whole run."""
    spans = [SPAN, {**SPAN, "event_id": "e2", "zero_s": 200.0, "first_s": 100.0, "last_s": 300.0}]
    stretches = {("e1", "before"): 0.0, ("e1", "after"): 4_000.0, ("e2", "before"): 4_000.0, ("e2", "after"): 1_000.0}
    counts = [
        counted("a", "x", phase, 10_000, 9_500 - dropped, event, dropped=dropped)
        for (event, phase), dropped in stretches.items()
    ]
    counts += [counted("x", "sink", phase, 1_000, 1_000, event) for event, phase in stretches]
    rows = loss_rows(counts, [], spans)
    assert {(row["target"], row["lost"], row["difference"]) for row in rows} == {("x", 500, 500), ("sink", 0, 0)}
    found = {(row["event_id"], row["metric"]): row["value"] for row in measurements.tuple_drops(lambda _: rows)}
    assert found == {
        ("e1", "dropped_before"): 0, ("e1", "dropped_percent_before"): 0,
        ("e1", "dropped_after"): 4_000, ("e1", "dropped_percent_after"): 40,
        ("e2", "dropped_before"): 4_000, ("e2", "dropped_percent_before"): 40,
        ("e2", "dropped_after"): 1_000, ("e2", "dropped_percent_after"): 10,
        ("e0", "dropped"): 5_000, ("e0", "dropped_percent"): pytest.approx(100 / 6),
    }  # fmt: skip
    assert list(measurements.tuple_drops(lambda _: loss_rows([counted("a", "x", "after", 9, 9)], [], [SPAN]))) == []


def test_what_was_on_its_way_at_the_zero_is_not_lost() -> None:
    edges = [counted("a", "x", "before", 10_000, 9_400), counted("a", "x", "after", 10_000, 10_600)]
    assert lost(edges) == {("a", "before"): 0, ("a", "after"): 0}
    assert [row["difference"] for row in loss_rows(edges, [], [SPAN])] == [600, -600]


def test_tuples_executed_before_they_were_sent_are_one_line_s_at_most() -> None:
    edges = [counted("a", "x", "before", 10_000, 10_090), counted("a", "x", "after", 10_000, 9_910)]
    assert lost(edges) == {("a", "before"): 0, ("a", "after"): 0}
    edges = [counted("a", "x", "before", 10_000, 10_600), counted("a", "x", "after", 10_000, 9_000)]
    assert lost(edges) == {("a", "before"): 0, ("a", "after"): pytest.approx(1_000 - 106)}


def test_whose_tuples_wait_in_a_queue_is_not_known() -> None:
    """The golden star: both spouts send as much, and the centre executes 60 more of the second one's."""
    edges = [counted("a", "x", "before", 7_200, 2_970), counted("b", "x", "before", 7_200, 3_030)]
    assert lost(edges, [waiting("x", 8_400, 8_400)]) == {("a", "before"): 0, ("b", "before"): 0}
    rows = loss_rows(edges, [waiting("x", 8_400, 8_400)], [SPAN])
    assert [(row["queued"], row["difference"]) for row in rows] == [(4_200, 30), (4_200, -30)]


def test_a_queue_explains_no_more_than_waited_in_it() -> None:
    edges = [counted("a", "x", "after", 10_000, 9_500), counted("b", "x", "after", 10_000, 10_200)]
    assert lost(edges, [waiting("x", 0, 300)]) == {("a", "after"): pytest.approx(200), ("b", "after"): 0}


def test_a_queue_that_went_with_its_worker_is_lost() -> None:
    edges = [counted("a", "x", "before", 10_000, 6_000), counted("a", "x", "after", 10_000, 10_000)]
    assert lost(edges, [waiting("x", 4_000, 0)]) == {("a", "before"): 0, ("a", "after"): 4_000}


def test_what_a_second_moves_is_no_loss() -> None:
    assert lost([counted("a", "x", "after", 10_000, 9_901)]) == {("a", "after"): 0}
    assert lost([counted("a", "x", "after", 10_000, 9_899)]) == {("a", "after"): 101}


def test_with_a_throttled_sampler_it_is_what_its_line_moves() -> None:
    """500 of 10,000 in 100 s: five seconds of its rate, and the receiver's lines have eight where it was killed."""
    edges = [counted("a", "x", "after", 10_000, 9_500)]
    lines = [{**UNIT, "event_id": "e1", "phase": "after", "component": "x", "line_s": 8.0}]
    (row,) = loss_rows(edges, [], [SPAN], lines)
    assert (row["lost"], row["uncertainty"], row["difference"]) == (0, 800, 500)
    (row,) = loss_rows(edges, [], [SPAN], [{**lines[0], "component": "elsewhere"}])
    assert (row["lost"], row["uncertainty"]) == (500, 100)


def test_what_is_after_an_event_is_before_the_next() -> None:
    spans = [SPAN, {**SPAN, "event_id": "e2", "zero_s": 200.0, "first_s": 100.0, "last_s": 300.0}]
    counts = [
        counted("a", "x", "before", 10_000, 10_000), counted("a", "x", "after", 10_000, 8_000),
        counted("a", "x", "before", 10_000, 8_000, "e2"), counted("a", "x", "after", 10_000, 10_500, "e2"),
    ]  # fmt: skip
    found = {(row["event_id"], row["phase"]): row["lost"] for row in loss_rows(counts, [], spans)}
    assert found == {("e1", "before"): 0, ("e1", "after"): 1_500, ("e2", "before"): 1_500, ("e2", "after"): 0}


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 5_000)), min_size=2, max_size=6), st.integers(0, 5_000))
def test_nothing_is_lost_beyond_what_the_differences_sum_to(sides: list[tuple[int, int]], end: int) -> None:
    counts = [counted(f"s{i}", "x", "after", sent, executed) for i, (sent, executed) in enumerate(sides)]
    rows = loss_rows(counts, [waiting("x", 0, end)], [SPAN])
    gone = sum(row["lost"] for row in rows)
    assert all(row["lost"] >= 0 for row in rows)
    assert gone <= sum(max(0.0, row["difference"]) for row in rows) + 1e-6
    assert gone >= sum(row["difference"] for row in rows) - sum(row["uncertainty"] for row in rows) - 1e-6
