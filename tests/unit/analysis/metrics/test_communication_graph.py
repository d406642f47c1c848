"""Pairs of tasks to arrays: both directions are one edge, and a task without traffic is a vertex."""

from typing import TYPE_CHECKING

import pytest

from analysis.metrics import traffic
from analysis.record.small_tables import frame_of_rows
from barograph.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_directions_are_added_up_and_silent_tasks_stay(spark: "SparkSession") -> None:
    """Tasks 3, 5, 7 and 9 (which is silent): 3 → 5 10 and 5 → 3 4, 7 → 3 1; 5 → 5 is no edge, but its work, twice; task
    8 is of another run, and what task 3 sent it is no more its work than an edge."""
    sent = [(3, 5, 10), (5, 3, 4), (7, 3, 1), (5, 5, 2), (3, 8, 6)]
    tasks = [*(("r", "t", task) for task in (9, 7, 3, 5)), ("q", "t", 8)]
    found = traffic.arrays(
        frame_of_rows(spark, sent, "from int, to int, n bigint"),
        frame_of_rows(spark, tasks, "run_id string, topology string, task int"),
        ("r", "t"),
    )
    assert found.tasks.tolist() == [3, 5, 7, 9] and found.edge_count == 2
    assert found.starts.tolist() == [0, 2, 3, 4, 4]
    assert found.neighbours.tolist() == [1, 2, 0, 0]
    assert found.edge_weights.tolist() == [14, 1, 14, 1]
    assert found.vertex_weights.tolist() == [15, 18, 1, 0]


@pytest.mark.spark
def test_a_part_that_the_run_does_not_have_is_refused_with_those_that_it_has(spark: "SparkSession") -> None:
    parts = [("r", "t", event, side) for event in ("e10", "e2") for side in ("after", "before")] + [
        ("q", "t", "e3", "after")
    ]
    intervals = frame_of_rows(spark, parts, "run_id string, topology string, event_id string, phase string")
    with pytest.raises(
        ConfigurationError, match=r"no part e3\.after; there are e2\.before, e2\.after, e10\.before, e10\.a"
    ):
        traffic.in_part(intervals, intervals, intervals, ("e3", "after"), ("r", "t"))
    with pytest.raises(ConfigurationError, match=r"x/t has no part e2\.after; there are none"):
        traffic.in_part(intervals, intervals, intervals, ("e2", "after"), ("x", "t"))
