"""Where a task was when a tuple was sent to it."""

from typing import TYPE_CHECKING

import pytest

from analysis.metrics import traffic
from analysis.record.small_tables import frame_of_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TASKS = "run_id string, topology string, t_s double, dt_s double, machine string, port int, pid bigint, task int"
SENT = "run_id string, topology string, t_s double, dt_s double, machine string, port int, from int, to int, n bigint"
INTERVALS = (
    "run_id string, topology string, event_id string, phase string, start_s double, end_s double, windows double"
)
AXES = "run_id string, topology string, event_id string, zero_s double"


def test_placement_goes_by_time_and_a_task_stays_where_it_was_last(spark: "SparkSession") -> None:
    """Task 2 has a process on m1 from 10 on, is on m2 from 20 to 30, and on m1 again, in another process."""
    lines = [("r", "", t + 1.0, 1.0, machine, 6700, pid, 2) for machine, pid, begin, end in
             (("m1", 1, 10, 15), ("m2", 1, 20, 30), ("m1", 2, 30, 40)) for t in range(begin, end)]  # fmt: skip
    stays = traffic.stays(frame_of_rows(spark, lines, TASKS))
    found = [tuple(row) for row in stays.select("slot", "from_s", "until_s").orderBy("from_s").collect()]
    assert found == [("m1:6700", 10.0, 20.0), ("m2:6700", 20.0, 30.0), ("m1:6700", 30.0, None)]

    sent = [("r", "", t + 1.0, 1.0, "m1", 6700, 1, 2, 4) for t in range(40)]
    intervals = frame_of_rows(spark, [("r", "", "e1", "after", 0.0, 50.0, 4.0)], INTERVALS)
    axes = frame_of_rows(spark, [("r", "", "e1", 0.0)], AXES)
    passed = traffic.task_traffic(frame_of_rows(spark, sent, SENT), stays, intervals, axes)
    rates = {row["to_slot"]: row["tuples_per_s"] for row in passed.collect()}
    # 10 s before it was anywhere, 10 + 10 s on m1 (5 s of these without a line), 10 s on m2; of 40 s, 4 tuples each.
    # Nobody reported the last of the part's five windows: it is no time in which nothing was sent.
    assert rates == {None: 1.0, "m1:6700": 2.0, "m2:6700": 1.0}


def test_of_a_long_line_the_middle_of_what_lies_in_the_part_says_where_the_receiver_was(spark: "SparkSession") -> None:
    """Of a line from 0 to 10 the part has the first 2 s, and of the next the last 4: 16 to 20. The receiver moves at 5
    and at 17.5, so it is on m1 at 1, and on m2 at 15 but m1 again at 18."""
    lines = [
        ("r", "", 5.0, 5.0, "m1", 6700, 1, 2),
        ("r", "", 17.5, 12.5, "m2", 6700, 1, 2),
        ("r", "", 20.0, 2.5, "m1", 6700, 2, 2),
    ]
    stays = traffic.stays(frame_of_rows(spark, lines, TASKS))
    sent = [("r", "", t_s, 10.0, "m1", 6700, 1, 2, 100) for t_s in (10.0, 20.0)]
    parts = [("r", "", "e1", "before", 0.0, 2.0, 0.2), ("r", "", "e1", "after", 16.0, 20.0, 0.4)]
    intervals, axes = frame_of_rows(spark, parts, INTERVALS), frame_of_rows(spark, [("r", "", "e1", 0.0)], AXES)
    passed = traffic.task_traffic(frame_of_rows(spark, sent, SENT), stays, intervals, axes)
    found = {(row["phase"], row["to_slot"], row["tuples_per_s"]) for row in passed.collect()}
    assert found == {("before", "m1:6700", 10.0), ("after", "m1:6700", 10.0)}
