"""From what Spark counted in windows to rates: silence is 0, nobody reporting is null."""

from math import floor
from random import Random
from statistics import fmean
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.ingest.run_tables import component_rows
from analysis.metrics.placement import time_to_load
from analysis.metrics.throughput import EDGE_S, downtime, grid, silences, throughput_rows, zeros
from tests.support.series_with_answers import CHAIN, PLACES, chain_record, poisson_silences, silences_between

UNIT = {"run_id": "r", "topology": ""}

AXIS = {**UNIT, "event_id": "e1", "zero_s": 100.0, "first_s": 75.0, "last_s": 130.0}
COMPONENTS = [
    {**UNIT, "component": name, "sink": name.startswith("sink"), "throughput": name.startswith("sink"), "task": task}
    for task, name in enumerate(("spout", "sink_1", "sink_2"))
]
TASKS = "run_id string, topology string, t_s double, dt_s double, task int, executed bigint, emitted bigint"
MEASURED = "run_id string, topology string, task int, kind string, throughput boolean"


def counted(window_s: float, component: str | None, **counts: int | None) -> dict[str, Any]:
    nothing = {"executed": None, "dropped": None, "queue": None, "emitted": None, "due": None, "due_unknown": False}
    return {**UNIT, "event_id": "e1", "window_s": window_s, "component": component} | nothing | counts


def rates(scope: str, *activity: dict[str, Any]) -> dict[tuple[str, float], float | None]:
    found = throughput_rows([AXIS], activity, COMPONENTS)
    return {(row["component"], row["window_s"]): row["rate"] for row in found if row["scope"] == scope}


def test_windows_are_complete_a_second_within_what_was_observed() -> None:
    assert grid(AXIS) == [(-30.0, False), (-20.0, True), (-10.0, True), (0.0, True), (10.0, True), (20.0, False),
                          (30.0, False)]  # fmt: skip
    assert grid(AXIS | {"last_s": 70.0}) == []


def test_silent_workers_are_zero_and_unobserved_windows_null() -> None:
    found = rates(
        "total", counted(-10.0, "sink_1", executed=30), counted(-10.0, "sink_2", executed=20), counted(0.0, None)
    )
    assert found["", -10.0] == 5.0
    assert found["", 0.0] == 0.0
    assert found["", 10.0] is None


def test_every_sink_has_a_series_and_spouts_only_what_was_measured() -> None:
    activity = (counted(0.0, "sink_1", executed=30), counted(0.0, "spout", executed=0, emitted=50))
    assert rates("sink", *activity)["sink_2", 0.0] == 0.0
    assert rates("spouts", *activity)["", 0.0] == 5.0
    assert rates("due", *activity) == {}


def test_of_what_fell_due_nobody_knows_a_part_is_not_all() -> None:
    """Two of three spouts say 50 each in the second window; the third one ended for good, or nobody told it."""
    one = [counted(0.0, "spout", due=150, emitted=150), counted(10.0, "spout", due=None, emitted=100, due_unknown=True)]
    other = counted(10.0, "spout_2", due=100, emitted=100)
    due = rates("due", *one, other)
    assert due["", 0.0] == 15.0 and due["", 10.0] is None and due["", 20.0] is None
    assert rates("spouts", *one, other)["", 10.0] == 20.0


def test_what_fell_due_without_a_process_is_no_report_of_its_window() -> None:
    """As of a spout whose worker died, in a run without the machines' samples."""
    gap = counted(10.0, "spout", due=40, due_unknown=True)
    assert rates("total", counted(0.0, "sink_1", executed=30), gap)["", 10.0] is None


def test_drops_have_windows_where_a_queue_has_a_limit() -> None:
    activity = [counted(0.0, "sink_1", executed=30, dropped=200), counted(10.0, "sink_1", executed=30, dropped=0)]
    assert rates("dropped", *activity, counted(0.0, "work", dropped=100))["", 0.0] == 30.0
    assert rates("dropped", *activity)["", 10.0] == 0.0
    assert rates("dropped", counted(0.0, "sink_1", executed=30)) == {}


def test_the_axis_of_a_run_begins_at_its_first_event_and_ends_with_what_was_seen() -> None:
    seen = {**UNIT, "first_s": 75.0, "worker_last_s": 130.0, "machine_last_s": 140.0}
    killed = {**UNIT, "t_s": 131.0, "kind": "topology_killed", "event_id": None}
    asked = {**UNIT, "t_s": 100.0, "kind": "scale_requested", "event_id": "e1"}
    expected = {**UNIT, "zero_s": 100.0, "scaled": True, "first_s": 75.0, "last_s": 130.0}
    assert zeros([killed, asked], [seen]) == [expected]
    # Probes that went on for longer show that the workers were silent, until the topology was killed.
    assert zeros([asked], [seen])[0]["last_s"] == 140.0
    assert zeros([asked, killed | {"t_s": 137.0}], [seen])[0]["last_s"] == 137.0
    assert zeros([killed], [seen | {"machine_last_s": None}])[0] | {"scaled": True} == expected | {"zero_s": 75.0}
    assert zeros([asked], [seen | {"first_s": None}]) == []


@pytest.mark.parametrize(("machine_last_s", "last_s"), [(144.0, 130.0), (144.1, 144.1)])
def test_workers_with_long_lines_are_silent_after_a_longer_time(machine_last_s: float, last_s: float) -> None:
    seen = {**UNIT, "first_s": 75.0, "worker_last_s": 130.0, "machine_last_s": machine_last_s, "line_s": 10.0}
    assert zeros([], [seen])[0]["last_s"] == last_s


def test_downtime_is_the_sum_of_silences_and_counts_whole_windows_apart() -> None:
    quiet = [{**UNIT, "event_id": "e1", "from_second": a, "until_second": b} for a, b in ((0, 4), (9, 30), (31, 41))]
    (row,) = downtime([AXIS], quiet)
    assert (row["downtime_s"], row["longest_s"], row["windows_at_zero_s"]) == (35.0, 21.0, 20.0)
    assert downtime([AXIS], [])[0]["downtime_s"] == 0.0
    end = floor(AXIS["last_s"] - AXIS["zero_s"] - EDGE_S)
    for length, lasts in ((9, False), (10, True)):
        quiet = [{**UNIT, "event_id": "e1", "from_second": end - length, "until_second": end}]
        assert downtime([AXIS], quiet)[0]["lasts"] is lasts
    assert downtime([AXIS | {"event_id": "e0"}], []) == []


def test_a_topology_is_loaded_when_its_last_task_has_reported() -> None:
    events = [{**UNIT, "kind": "topology_submitted", "t_s": 50.0}]
    first = [{**UNIT, "task": task, "first_s": 60.0 + task} for task in range(3)]
    assert time_to_load(events, first, COMPONENTS) == [
        {**UNIT, "submit_to_loaded_s": 12.0, "tasks": 3, "tasks_reporting": 3}
    ]
    assert time_to_load(events, first[1:], COMPONENTS)[0]["submit_to_loaded_s"] is None
    assert time_to_load([], first, COMPONENTS) == []


@pytest.mark.spark
def test_a_short_line_makes_one_second_busy(spark: SparkSession) -> None:
    """A worker that was killed wrote its last line after 0.3 s, across a full second: it was busy in one of them."""
    tasks = spark.createDataFrame(
        [("r", "", 110.1, 0.3, 1, 5, 0)],
        TASKS,
    )
    components = spark.createDataFrame([("r", "", 1, "bolt", True)], MEASURED)
    spans = spark.createDataFrame(
        [("r", "", "e1", 100.0, 100.0, 122.0)],
        "run_id string, topology string, event_id string, zero_s double, first_s double, last_s double",
    )
    found = silences(tasks, components, spans).orderBy("from_second").collect()
    assert [(row.from_second, row.until_second) for row in found] == [(0, 9), (10, 21)]


@pytest.mark.spark
def test_silence_is_that_of_the_place_that_the_topology_names(spark: SparkSession) -> None:
    """Each component's windows are seconds here; a spout's tuples are those that it emits."""
    components, tasks = [], []
    for place in PLACES:
        for row in component_rows(chain_record(place)):
            components.append((place, "", row["task"], row["kind"], row["throughput"]))
            rates = CHAIN[row["component"]].rates(30)
            counts = [(0, round(1000 * share)) for share in rates]
            for second, (none, tuples) in enumerate(counts, start=101):
                both = (none, tuples) if row["kind"] == "spout" else (tuples, 7)
                tasks.append((place, "", float(second), 1.0, row["task"], *both))
    spans = spark.createDataFrame(
        [(place, "", "e1", 100.0, 100.0, 131.0) for place in PLACES],
        "run_id string, topology string, event_id string, zero_s double, first_s double, last_s double",
    )
    found = silences(spark.createDataFrame(tasks, TASKS), spark.createDataFrame(components, MEASURED), spans)
    stretches = {(row.run_id, row.from_second, row.until_second) for row in found.collect()}
    assert stretches == {("sinks", 0, 2), ("work", 3, 7), ("sink_2", 0, 6)}


@pytest.mark.spark
def test_silences_reach_back_to_the_event_before(spark: SparkSession) -> None:
    tasks = spark.createDataFrame(
        [("r", "", t_s, 1.0, 1, 5, 0) for t_s in (92.0, 98.0, 110.0)],
        TASKS,
    )
    components = spark.createDataFrame([("r", "", 1, "bolt", True)], MEASURED)
    spans = spark.createDataFrame(
        [("r", "", "e1", 100.0, 89.5, 113.0)],
        "run_id string, topology string, event_id string, zero_s double, first_s double, last_s double",
    )
    found = silences(tasks, components, spans).orderBy("from_second").collect()
    assert [(row.from_second, row.until_second) for row in found] == [(-10, -9), (-8, -3), (-2, 9), (10, 12)]


@pytest.mark.parametrize("out_s", [0, 30, 90])
@pytest.mark.parametrize("per_s", [0.5, 1.0, 2.0, 5.0, 20.0, 1000.0])
def test_seconds_between_seldom_tuples_are_no_downtime(per_s: float, out_s: int) -> None:
    """Poisson's tuples at a sink, and an outage after the event: nearly all of it counts, and next to nothing else."""
    rng = Random(7)
    axis = AXIS | {"zero_s": 0.0, "first_s": -240.0, "last_s": 301.0}
    rows = [downtime([axis], poisson_silences(rng, per_s, -240, 300, range(20, 20 + out_s)))[0] for _ in range(200)]
    measured = [row["downtime_s"] for row in rows if row["downtime_s"] is not None]
    assert len(measured) > (100 if per_s < 1 else 195)
    assert abs(fmean(measured) - out_s) < (4.5 if per_s < 10 else 0.1)
    assert fmean(row["lasts"] for row in rows) < 0.02


def test_a_list_every_ten_seconds_is_down_after_twenty_and_one_a_minute_tells_nothing() -> None:
    def of_every(step_s: int, out_s: int) -> float | None:
        busy = [s for s in range(-240, 300, step_s) if not 0 <= s < out_s]
        value = downtime(
            [AXIS | {"zero_s": 0.0, "first_s": -240.0, "last_s": 301.0}], silences_between(busy, -240, 300)
        )
        return float(value[0]["downtime_s"]) if value[0]["downtime_s"] is not None else None

    assert [of_every(10, out_s) for out_s in (0, 10, 20, 60)] == [0.0, 0.0, 20.0, 60.0]
    assert [of_every(60, out_s) for out_s in (0, 120)] == [None, 120.0]
    assert [of_every(1, out_s) for out_s in (0, 1, 7)] == [0.0, 1.0, 7.0]
