from itertools import pairwise
from math import inf
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from analysis.metrics import measurements
from analysis.metrics.machine_load import MEMBERSHIPS, memberships, of_members
from analysis.metrics.scale_events import SPANS, events_of_unit, rests, scale_event_rows, split_at_ends
from analysis.record.event_timeline import absent_machines
from analysis.record.small_tables import frame_of_rows

UNIT = {"run_id": "r", "topology": ""}

AXIS = {**UNIT, "zero_s": 100.0, "first_s": 10.0, "last_s": 500.0}
FOUR = ("m1", "m2", "m3", "m4")
FIELDS = ("event_id", "event", "joined", "machines", "machine", "decision_id", "ok", "given_back")


def event(t_s: float, kind: str, **fields: Any) -> dict[str, Any]:
    return {**UNIT, "t_s": t_s, "kind": kind} | dict.fromkeys(FIELDS) | fields


def mixed_plan() -> list[dict[str, Any]]:
    """Out by one, in by one at the second attempt, a changed rate, a crash."""
    return [
        event(100, "scale_requested", event_id="e1", event="scale_out", joined=["m5"]),
        event(101, "decision", decision_id="d1"),
        event(102, "applied", decision_id="d1", ok=True),
        event(200, "scale_requested", event_id="e2", event="scale_in", joined=[]),
        event(201, "decision", decision_id="d2"),
        event(202, "applied", decision_id="d2", ok=False),
        event(203, "scale_aborted", event_id="e2"),
        event(204, "scale_requested", event_id="e2.2", event="scale_in", joined=[]),
        event(205, "decision", decision_id="d3"),
        event(206, "applied", decision_id="d3", ok=True),
        event(207, "machines_left", machines=["m2"], given_back=True),
        event(300, "rate_changed", event_id="e3"),
        event(400, "crashed", event_id="e4", machine="m3"),
        event(410, "restarted", event_id="e4", machine="m3"),
    ]


def test_every_event_is_bounded_by_its_neighbours_and_the_ends_of_the_run_are_open() -> None:
    found = events_of_unit(mixed_plan(), AXIS, machines=FOUR)
    assert [(row["event_id"], row["kind"]) for row in found] == [
        ("e1", "scale_out"), ("e2", "scale_in"), ("e3", "rate"), ("e4", "crash"),
    ]  # fmt: skip
    assert [(row["from_s"], row["zero_s"], row["until_s"]) for row in found] == [
        (None, 100, 200), (100, 200, 300), (200, 300, 400), (300, 400, None),
    ]  # fmt: skip
    assert [(row["first_s"], row["last_s"]) for row in found] == [(10, 200), (100, 300), (200, 400), (300, 500)]


def test_a_repeated_operation_counts_from_its_first_request_and_has_the_decision_that_was_carried_out() -> None:
    row = events_of_unit(mixed_plan(), AXIS, machines=FOUR)[1]
    assert (row["attempts"], row["decided_s"], row["applied_s"]) == (2, 205, 206)
    assert (row["released"], row["given_back"]) == (["m2"], 1)


def test_what_an_event_began_is_over_by_the_line_that_names_it() -> None:
    plan = [
        event(100, "event_performed", event_id="e1", event="lan_cut"),
        event(140, "disturbance_ended", event_id="e1", machines=["m1"]),
        event(200, "event_performed", event_id="e2", event="slow_cpu"),
        event(300, "event_performed", event_id="e3", event="hold"),
        event(350, "hold_ended", event_id="e3"),
        event(400, "disturbance_ended", machines=["m2"]),  # e2's, as the run ends
    ]
    found = events_of_unit(plan, AXIS, machines=FOUR)
    assert [(row["kind"], row["ended_s"]) for row in found] == [("lan_cut", 140), ("slow_cpu", None), ("hold", 350)]


def test_what_a_policy_decides_by_itself_answers_no_event() -> None:
    plan = [
        event(100, "rate_changed", event_id="e1"),
        event(101, "decision", decision_id="d1", own=True),
        event(102, "applied", decision_id="d1", ok=True, own=True),
    ]
    (row,) = events_of_unit(plan, AXIS, machines=FOUR)
    assert (row["decided_s"], row["applied_s"]) == (None, None)


def test_a_decision_that_names_its_event_is_its_own_whatever_clock_its_time_is_of() -> None:
    """The master's is 6 s behind; it also moved something by itself, which is no answer to any event."""
    of_event = {"d1": "e1", "d2": "e2", "d3": "e2.2"}
    behind = [
        {**line, "t_s": line["t_s"] - 6, "event_id": of_event[line["decision_id"]]} if line["decision_id"] else line
        for line in mixed_plan()
    ]
    own = [event(150, "decision", decision_id="d9"), event(151, "applied", decision_id="d9", ok=True)]
    found = scale_event_rows([*behind, *own], [AXIS], [])
    assert [(row["event_id"], row["decided_s"], row["applied_s"]) for row in found[:3]] == [
        ("e1", 95, 96), ("e2", 199, 200), ("e3", None, None),
    ]  # fmt: skip


def test_executors_due_to_new_machines_are_of_the_machines_that_live_when_they_are_asked_for() -> None:
    """Star's 10 executors. One of four machines crashed: Stela gives a new one ceil(10 / 3), and ceil(10 / 4) when it
    is back. With m6 and m2 dead in a first attempt it gives m5 alone ceil(10 / 3)."""
    crash = event(50, "crashed", event_id="e1", machine="m3")
    join = event(100, "scale_requested", event_id="e2", event="scale_out", joined=["m5"])
    assert expected_executors([crash, join]) == (3, 1, 4)
    assert expected_executors([crash, event(60, "restarted", event_id="e1", machine="m3"), join]) == (4, 1, 3)
    aborted = [
        event(100, "scale_requested", event_id="e2", event="scale_out", joined=["m5", "m6"]),
        event(110, "scale_aborted", event_id="e2", machines=["m2", "m6"]),
        event(111, "scale_requested", event_id="e2.2", event="scale_out", joined=["m5"]),
    ]
    assert expected_executors(aborted) == (3, 1, 4)
    later = event(300, "scale_requested", event_id="e3", event="scale_out", joined=["m7"])
    assert expected_executors([*aborted, later]) == (4, 1, 3), "m1, m3, m4 and m5 are left"
    gone = event(200, "crashed", event_id="e3", machine="m5")
    assert expected_executors([*aborted, gone, {**later, "event_id": "e4"}]) == (3, 1, 4)


def expected_executors(plan: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Machines before the last event, those that joined in it, and the executors that they are to get of 10."""
    row = events_of_unit(plan, AXIS, machines=FOUR)[-1]
    moved = {**UNIT, "event_id": row["event_id"], "executors_before": 10, "executors_after": 10,
             "executors_moved": 0, "tasks_moved": 0, "tasks_moved_to_old_machines": 0, "instances_on_joined": 0,
             "joined_machines": len(row["joined"]), "old_machines": row["machines_before"]}  # fmt: skip
    numbers = {each["metric"]: each["value"] for each in measurements.executor_moves(lambda _: [moved])}
    return row["machines_before"], len(row["joined"]), -int(numbers["instances_on_joined_over_expected"])


def test_what_a_log_of_others_does_not_say_of_machines_is_null_and_not_none_of_them() -> None:
    (row,) = scale_event_rows([event(100, "scale_requested", event_id="e1", event="scale_out")], [AXIS], [])
    unknown = ("machines_before", "joined", "released", "given_back", "attempts", "decided_s", "applied_s")
    assert {name: row[name] for name in unknown} == dict.fromkeys(unknown)
    assert [found["value"] for found in measurements.machine_changes(lambda _: [row])] == [None] * 4


def test_a_run_without_events_has_one_row_for_itself() -> None:
    machines = [{"run_id": "r", "machine": name, "joins_at_scale": name == "m3"} for name in ("m1", "m2", "m3")]
    only = scale_event_rows([event(20, "run_started")], [AXIS], machines)
    assert [(row["event_id"], row["machines_before"], row["zero_s"]) for row in only] == [("e0", 2, 100.0)]


@given(st.lists(st.floats(11, 499), min_size=1, max_size=6, unique=True))
def test_spans_cover_the_run_without_a_gap(times: list[float]) -> None:
    events = [event(t, "rate_changed", event_id=f"e{n}") for n, t in enumerate(sorted(times), 1)]
    found = events_of_unit(events, AXIS, machines=FOUR[:1])
    assert [row["zero_s"] for row in found] == sorted(times)
    for earlier, later in pairwise(found):
        assert (earlier["until_s"], later["from_s"]) == (later["zero_s"], earlier["zero_s"])


def test_machines_that_a_policy_had_join_and_leave_count_by_where_they_are_in_the_end() -> None:
    """m5 joins and stays, m6 leaves again, m2 leaves and comes back, m3 is gone."""
    moves = [("joined", ["m5", "m6"]), ("left", ["m2", "m3"]), ("left", ["m6"]), ("joined", ["m2"])]
    plan = [
        event(100, "event_performed", event_id="e1", event="hold"),
        *(event(110 + 10 * n, f"machines_{kind}", event_id="e1", machines=names)
          for n, (kind, names) in enumerate(moves)),
        event(200, "rate_changed", event_id="e2"),
    ]  # fmt: skip
    hold, rate = events_of_unit(plan, AXIS, machines=FOUR)
    assert (hold["joined"], hold["released"]) == (["m5"], ["m3"])
    assert (hold["machines_before"], rate["machines_before"]) == (4, 4)
    described = [{"run_id": "r", "machine": f"m{n}", "joins_at_scale": n > 4} for n in range(1, 7)]
    absent = absent_machines([hold, rate], described)
    assert absent[("r", ""), "e1", "before"] == {"m5", "m6"} and absent[("r", ""), "e1", "after"] == {"m3", "m6"}


def test_the_join_of_a_scale_out_is_in_its_request() -> None:
    """It comes before the request, in the span of the event before."""
    plan = [
        event(100, "rate_changed", event_id="e1"),
        event(190, "machines_joined", machines=["m5"]),
        event(200, "scale_requested", event_id="e2", event="scale_out", joined=["m5"]),
    ]
    assert [row["joined"] for row in events_of_unit(plan, AXIS, machines=FOUR)] == [[], ["m5"]]


def test_what_a_machine_did_while_it_was_not_in_the_cluster_is_not_its_load() -> None:
    """m1 is there all the time; m2 is let go, comes back and is let go again; m4 joins for the plan and leaves for the
    policy; m5 joins, leaves and comes back; m6 joins once; m7 is the plan's alone."""
    lines = [
        event(100, "machines_joined", machines=["m4", "m7"]),
        event(110, "machines_joined", machines=["m5", "m6"], event_id="e1"),
        event(120, "machines_left", machines=["m2", "m4", "m5"], event_id="e1"),
        event(150, "machines_joined", machines=["m2", "m5"], event_id="e1"),
        event(170, "machines_left", machines=["m2"], event_id="e1"),
    ]
    assert sorted(memberships(reversed(lines))) == [
        ("r", "m2", -inf, 120.0), ("r", "m2", 150.0, 170.0), ("r", "m4", 100.0, 120.0), ("r", "m5", 110.0, 120.0),
        ("r", "m5", 150.0, inf), ("r", "m6", 110.0, inf),
    ]  # fmt: skip


def test_the_load_of_a_machine_is_that_of_each_time_in_which_it_was_a_member(spark: SparkSession) -> None:
    seconds = [("r", "m5", t) for t in (110.0, 111.0, 120.0, 121.0, 150.0, 151.0)]
    samples = frame_of_rows(spark, [*seconds, ("r", "m1", 100.0), ("other", "m5", 100.0)],
                            "run_id string, machine string, t_s double")  # fmt: skip
    spans = frame_of_rows(spark, [("r", "m5", 110.0, 120.0), ("r", "m5", 150.0, inf)], MEMBERSHIPS)
    kept = sorted(tuple(row) for row in of_members(samples, spans).collect())
    assert kept == [("other", "m5", 100.0), ("r", "m1", 100.0), *(("r", "m5", t) for t in (111.0, 120.0, 151.0))]


def test_a_side_is_split_where_what_its_event_had_begun_was_over() -> None:
    """e1 lasts 30 s, e2 to the next event, e3 to the end of the run; the other run has nothing that ends."""
    plan = [
        event(100, "event_performed", event_id="e1", event="cpu_load"),
        event(130, "disturbance_ended", event_id="e1", machines=["m1"]),
        event(200, "event_performed", event_id="e2", event="hold"),
        event(300, "event_performed", event_id="e3", event="cpu_load"),
    ]
    spans = scale_event_rows(plan, [AXIS, AXIS | {"run_id": "other"}], [])
    found = split_at_ends(spans)
    assert [tuple(span.values()) for span in found] == [
        ("r", "", "e1", 100.0, None, 130.0, 10.0, 130.0), ("r", "", "e1.rest", 130.0, 100.0, 200.0, 100.0, 200.0),
        ("r", "", "e2", 200.0, 130.0, 300.0, 130.0, 300.0), ("r", "", "e3", 300.0, 200.0, None, 200.0, 500.0),
    ]  # fmt: skip
    assert [column.split()[0] for column in SPANS.split(", ")] == list(found[0])
    counted = [{"event_id": span["event_id"], "phase": phase, "n": n}
               for n, span in enumerate(found) for phase in ("before", "after")]  # fmt: skip
    assert rests(counted) == [{"event_id": "e1", "phase": "rest", "n": 1}]


def test_nothing_is_split_where_nothing_is_left_of_a_side() -> None:
    plan = [
        event(100, "event_performed", event_id="e1", event="cpu_load"),
        event(500, "disturbance_ended", event_id="e1", machines=["m1"]),
    ]
    assert split_at_ends(events_of_unit(plan, AXIS, machines=FOUR)) == []
