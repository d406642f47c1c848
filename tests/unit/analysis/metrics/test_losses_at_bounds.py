"""Lines of several seconds at a zero, and at the end of a process: queues there, and what nobody reported."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.metrics.losses import longest_lines, waiting_at_bounds
from analysis.metrics.scale_events import SPANS
from analysis.record.small_tables import frame_of_rows

pytestmark = pytest.mark.spark
TASKS = "run_id string, topology string, t_s double, dt_s double, machine string, port int, task int, queue bigint"
WORKERS = "run_id string, topology string, t_s double, dt_s double, machine string, port int, pid bigint"
COMPONENTS = "run_id string, topology string, task int, component string"
# e1 at 100, e2 at 200; observed from 0 to 300
SPAN_ROWS = [("r", "", "e1", 100.0, None, 200.0, 0.0, 200.0), ("r", "", "e2", 200.0, 100.0, None, 100.0, 300.0)]


def waiting(spark: SparkSession, *lines: tuple[float, float, int]) -> dict[str, tuple[float, float, float]]:
    tasks = frame_of_rows(spark, [("r", "", t_s, dt_s, "m1", 6700, 1, queue) for t_s, dt_s, queue in lines], TASKS)
    components = frame_of_rows(spark, [("r", "", 1, "x")], COMPONENTS)
    found = waiting_at_bounds(tasks, components, frame_of_rows(spark, SPAN_ROWS, SPANS)).collect()
    return {row.event_id: (row.begin, row.zero, row.end) for row in found}


def test_a_queue_inside_a_line_of_several_seconds_is_between_its_ends(spark: SparkSession) -> None:
    """96 to 104, from 100 waiting tuples to 900: half of its seconds and half of its growth are before the zero."""
    lines = [(96.0, 1.0, 100), (104.0, 8.0, 900), (198.0, 1.0, 60), (206.0, 8.0, 20), (300.0, 1.0, 5)]
    assert waiting(spark, *lines) == {"e1": (0, 500, 50), "e2": (500, 50, 5)}


def test_the_first_line_of_a_process_begins_with_an_empty_queue(spark: SparkSession) -> None:
    """What waited at 80 went with the process that had it."""
    assert waiting(spark, (80.0, 1.0, 5000), (104.0, 8.0, 400), (300.0, 1.0, 0))["e1"] == (0, 200, 0)


@pytest.mark.parametrize(("length_s", "waits"), [(1.0, 0), (10.0, 700)])
def test_after_a_long_line_a_task_is_gone_after_a_longer_time(spark: SparkSession, length_s: float, waits: int) -> None:
    """Its last line ends 12 s before the zero, the next one begins there."""
    assert waiting(spark, (88.0, length_s, 700), (104.0, 4.0, 20), (300.0, 1.0, 0))["e1"] == (0, waits, 0)


def longest(spark: SparkSession, *lines: tuple[float, float, int]) -> dict[tuple[str, str], float]:
    """`lines`: end, length, pid; of a source on its own machine all lines have a second."""
    tasks: list[tuple[Any, ...]] = [("r", "", t_s, dt_s, "m1", 6700, 1, 0) for t_s, dt_s, _ in lines]
    workers: list[tuple[Any, ...]] = [("r", "", t_s, dt_s, "m1", 6700, pid) for t_s, dt_s, pid in lines]
    for second in range(1, 301):
        tasks.append(("r", "", float(second), 1.0, "m2", 6700, 2, 0))
        workers.append(("r", "", float(second), 1.0, "m2", 6700, 7))
    components = frame_of_rows(spark, [("r", "", 1, "x"), ("r", "", 2, "source")], COMPONENTS)
    found = longest_lines(
        frame_of_rows(spark, workers, WORKERS), frame_of_rows(spark, tasks, TASKS), components,
        frame_of_rows(spark, SPAN_ROWS, SPANS),
    ).collect()  # fmt: skip
    assert all(row.component == "x" for row in found)
    return {(row.event_id, row.phase): row.line_s for row in found}


def test_a_line_that_holds_a_zero_or_adjoins_it_counts_on_both_sides(spark: SparkSession) -> None:
    assert longest(spark, (50.0, 8.0, 1), (97.0, 5.0, 1), (104.0, 7.0, 1), (150.0, 9.0, 1), (151.0, 1.0, 1)) == {
        ("e1", "before"): 7, ("e1", "after"): 7, ("e2", "before"): 7,
    }  # fmt: skip
    assert longest(spark, (95.0, 6.0, 1), (96.0, 1.0, 1)) == {
        ("e1", "before"): 6, ("e1", "after"): 6, ("e2", "before"): 6,
    }  # fmt: skip


def test_the_last_line_of_a_process_says_how_much_it_may_not_have_reported(spark: SparkSession) -> None:
    """Killed 40 s after e1 with a throttled sampler; what began then reported every second."""
    assert longest(spark, (140.0, 8.0, 1), (161.0, 1.0, 2), (299.0, 1.0, 2)) == {
        ("e1", "after"): 8, ("e2", "before"): 8,
    }  # fmt: skip
    assert longest(spark, (290.0, 1.0, 1), (297.0, 7.0, 1)) == {("e2", "after"): 7}
