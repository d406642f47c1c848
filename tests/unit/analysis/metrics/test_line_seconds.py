"""A line of several seconds counts evenly in each of them."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from analysis.metrics.line_seconds import in_phases, in_windows
from analysis.metrics.machine_load import GROUPS, cpu, cpu_windows, group_windows, network, network_windows
from analysis.metrics.placement import first_sample_of_tasks, process_starts
from analysis.metrics.throughput import observation_times

pytestmark = pytest.mark.spark
ZERO = 1000.4  # no full second: lines end at these
TYPES = {
    **dict.fromkeys(("run_id", "topology", "event_id", "phase", "machine", "interface"), "string"),
    **dict.fromkeys(("executed", "rx_bytes", "tx_bytes"), "bigint"),
    **dict.fromkeys(("memory_bytes", "memory_limit_bytes", "worker_memory_bytes"), "bigint"),
    **dict.fromkeys(("port", "pid", "seq", "task"), "int"), "joins_at_scale": "boolean",
}  # fmt: skip
AXIS = "run_id topology event_id zero_s"
LOAD = (
    "run_id topology t_s dt_s machine cpu_cores cpu_quota_cores throttled_ms steal_percent memory_bytes"
    " memory_limit_bytes worker_memory_bytes"
)
BYTES = "run_id topology t_s dt_s machine interface rx_bytes tx_bytes"
PART = "run_id topology event_id phase start_s end_s"


def frame(spark: SparkSession, columns: str, *rows: tuple[Any, ...]) -> DataFrame:
    """Numbers are double unless `TYPES` says more."""
    return spark.createDataFrame(rows, ", ".join(f"{name} {TYPES.get(name, 'double')}" for name in columns.split()))


def samples(spark: SparkSession, *lines: tuple[float, float, int | None]) -> DataFrame:
    rows = [("r", "", t_s, dt_s, executed, 4.0) for t_s, dt_s, executed in lines]
    return frame(spark, "run_id topology t_s dt_s executed queue", *rows)


def windows(spark: SparkSession, *lines: tuple[float, float, int | None]) -> list[tuple[Any, ...]]:
    axes = frame(spark, AXIS, ("r", "", "e1", ZERO))
    found = in_windows(samples(spark, *lines), axes, ["executed"]).orderBy("window_s", "t_s").collect()
    return [(row.window_s, round(row.dt_s, 6), row.executed) for row in found]


def phases(spark: SparkSession, *lines: tuple[float, float, int | None]) -> list[tuple[Any, ...]]:
    rows = [("r", "", "e1", ZERO, None, 1020.4), ("r", "", "e2", 1020.4, ZERO, None)]
    spans = frame(spark, f"{AXIS} from_s until_s", *rows)
    found = in_phases(samples(spark, *lines), spans, ["executed"]).orderBy("event_id", "phase", "t_s").collect()
    return [(row.event_id, row.phase, round(row.dt_s, 6), row.executed) for row in found]


def test_a_line_of_a_second_lies_in_the_window_of_its_middle(spark: SparkSession) -> None:
    assert windows(spark, (1010.0, 1.0, 7), (1011.0, 1.0, 8), (1000.9, 1.4, 9)) == [
        (-10.0, 1.4, 9), (0.0, 1.0, 7), (10.0, 1.0, 8),
    ]  # fmt: skip


def test_a_line_of_several_seconds_is_in_every_window_by_its_seconds_there(spark: SparkSession) -> None:
    """1006 to 1013: the middles of four seconds lie before 1010.4, those of three after it."""
    assert windows(spark, (1013.0, 7.0, 100)) == [(0.0, 4.0, 57), (10.0, 3.0, 43)]
    assert windows(spark, (1025.0, 25.0, 100)) == [(0.0, 10.0, 40), (10.0, 10.0, 40), (20.0, 5.0, 20)]


def test_whole_tuples_add_up_and_what_is_null_stays_null(spark: SparkSession) -> None:
    lines = [(1000.0 + 7 * i, 7.0, 11 * i + 1) for i in range(9)]
    assert sum(row[2] for row in windows(spark, *lines)) == sum(line[2] for line in lines)
    assert sum(row[1] for row in windows(spark, *lines)) == pytest.approx(63)
    assert windows(spark, (1013.0, 7.0, None)) == [(0.0, 4.0, None), (10.0, 3.0, None)]


def test_a_line_without_a_length_lies_where_it_ends(spark: SparkSession) -> None:
    assert windows(spark, (1005.0, 0.0, 3)) == [(0.0, 0.0, 3)]
    assert phases(spark, (1005.0, 0.0, 3)) == [("e1", "after", 0.0, 3), ("e2", "before", 0.0, 3)]


def test_a_line_across_a_zero_is_on_both_sides_by_its_seconds(spark: SparkSession) -> None:
    """999 to 1004: the middle of one second lies before the zero."""
    assert phases(spark, (1004.0, 5.0, 50)) == [
        ("e1", "after", 4.0, 40), ("e1", "before", 1.0, 10), ("e2", "before", 4.0, 40),
    ]  # fmt: skip
    assert phases(spark, (1000.0, 1.0, 7)) == [("e1", "before", 1.0, 7)]
    assert phases(spark, (1030.0, 1.0, 7)) == [("e2", "after", 1.0, 7)]


def test_means_over_windows_are_over_time(spark: SparkSession) -> None:
    lines = [("r", "", 1004.0, 1.0, "m1", 0.1, 0.5, None, 100), ("r", "", 1013.0, 7.0, "m1", 0.3, 0.5, 1.5, 200)]
    machines = frame(spark, "run_id topology t_s dt_s machine cpu_cores cpu_quota_cores runnable memory_bytes", *lines)
    zeros = frame(spark, "run_id topology zero_s", ("r", "", ZERO))
    found = cpu_windows(machines, zeros).orderBy("window_s").collect()
    means = [(round(row.utilisation_mean, 6), row.runnable_mean, row.memory_bytes_mean) for row in found]
    assert list(zip((row.window_s for row in found), means, strict=True)) == [
        (0.0, (0.52, 1.5, 180.0)), (10.0, (0.6, 1.5, 200.0)),
    ]  # fmt: skip


def test_a_machines_line_of_eight_seconds_weighs_as_many(spark: SparkSession) -> None:
    lines = [("r", "", 1001.0, 1.0, "m1", 0.2, 1.0, 0.0, 0.0, 100, 1000, None),
             ("r", "", 1009.0, 8.0, "m1", 1.0, 1.0, 0.0, 5.0, 200, 1000, 60),
             ("r", "", 1010.0, 1.0, "m1", 0.2, 1.0, 0.0, None, 100, None, 42)]  # fmt: skip
    machines = frame(spark, "run_id machine joins_at_scale", ("r", "m1", False))
    intervals, axes = (
        frame(spark, PART, ("r", "", "e1", "after", 0.0, 20.0)),
        frame(spark, AXIS, ("r", "", "e1", 1000.0)),
    )
    (row,) = cpu(frame(spark, LOAD, *lines), machines, intervals, axes).collect()
    assert (round(row.utilisation_mean, 6), row.utilisation_p50, row.memory_bytes_mean) == (0.84, 1.0, 180.0)
    assert row.memory_share_mean == pytest.approx((0.1 + 8 * 0.2) / 9), "over the seconds with a limit"
    assert row.worker_memory_bytes_mean == pytest.approx((8 * 60 + 42) / 9)
    assert row.samples == 10, "seconds"
    assert row.steal_percent_mean == pytest.approx(40 / 9), "over the seconds of which it is known"


def test_a_machines_line_across_the_end_of_a_part_counts_by_its_seconds_there(spark: SparkSession) -> None:
    """16 to 24 s: half of it is in the part until 20 s and half in the next one, which had all of it by its middle."""
    lines = [
        ("r", "", 1016.0, 1.0, "m1", 0.0, 1.0, 0.0, 0.0, 100, None, None),
        ("r", "", 1024.0, 8.0, "m1", 1.0, 1.0, 800.0, 0.0, 200, None, None),
    ]
    machines, axes = (
        frame(spark, "run_id machine joins_at_scale", ("r", "m1", False)),
        frame(spark, AXIS, ("r", "", "e1", 1000.0)),
    )
    intervals = frame(spark, PART, ("r", "", "e1", "before", -10.0, 20.0), ("r", "", "e1", "after", 20.0, 50.0))
    found = {row.phase: row for row in cpu(frame(spark, LOAD, *lines), machines, intervals, axes).collect()}
    assert (found["before"].samples, found["after"].samples) == (5, 4)
    assert (found["before"].cores_mean, found["after"].cores_mean) == (0.8, 1.0)
    assert (found["before"].throttled_ms_per_s, found["after"].throttled_ms_per_s) == (80.0, 100.0)
    sent = frame(spark, BYTES, ("r", "", 1024.0, 8.0, "m1", "exp0", 801, 80))
    rates = {row.phase: (row.rx_bytes_per_s, row.tx_bytes_per_s) for row in network(sent, intervals, axes).collect()}
    assert rates == {"before": (100.0, 10.0), "after": (100.25, 10.0)}
    silent = frame(spark, BYTES, ("r", "", 1030.0, 5.0, "m1", "exp0", None, None))
    (after,) = network(sent.union(silent), intervals, axes).where("phase = 'after'").collect()
    assert after.rx_bytes_per_s == 100.25, "over the seconds in which it was measured"


def test_an_axis_has_windows_as_far_as_it_was_observed(spark: SparkSession) -> None:
    """e1 from 995 to 1010, e2 from there to 1060: else a run has all of its windows for each of its events."""
    rows = [("r", "", "e1", ZERO, 995.0, 1010.0), ("r", "", "e2", 1030.4, 1000.4, 1060.0)]
    axes = frame(spark, f"{AXIS} first_s last_s", *rows)
    lines = samples(spark, (990.0, 1.0, 5), (1013.0, 7.0, 100), (1090.0, 10.0, 9))
    found = in_windows(lines, axes, ["executed"]).orderBy("event_id", "window_s").collect()
    assert [(row.event_id, row.window_s, row.executed) for row in found] == [
        ("e1", 0.0, 57), ("e2", -30.0, 57), ("e2", -20.0, 43),
    ]  # fmt: skip


def workers(spark: SparkSession, *lines: tuple[int, int, float, float]) -> DataFrame:
    """pid, number of the line, its end and length."""
    rows = [("r", "", "m1", 6700, *line, 3) for line in lines]
    return frame(spark, "run_id topology machine port pid seq t_s dt_s task", *rows)


def test_a_process_was_there_in_the_first_second_of_its_first_line(spark: SparkSession) -> None:
    lines = workers(spark, (1, 0, 1010.0, 10.0), (1, 1, 1013.4, 3.4), (2, 0, 1030.0, 8.0), (2, 1, 1031.0, 1.0))
    found = process_starts(lines).orderBy("t_s").collect()
    assert [(row.t_s, row.began_again) for row in found] == [
        (1001.0, None), (1011.0, False), (1023.0, True), (1031.0, False),
    ]  # fmt: skip
    (first,) = first_sample_of_tasks(lines).collect()
    assert first.first_s == 1001.0


def test_how_long_lines_are_is_what_most_of_them_are(spark: SparkSession) -> None:
    lines = workers(spark, (1, 0, 1003.0, 3.0), (1, 1, 1010.0, 10.0), (1, 2, 1020.0, 10.0), (1, 3, 1021.2, 1.2))
    machines = frame(spark, "run_id topology t_s dt_s", ("r", "", 1025.0, 5.0))
    (row,) = observation_times(lines, machines).collect()
    assert (row.first_s, row.worker_last_s, row.machine_last_s, row.line_s) == (1000.0, 1021.2, 1025.0, 6.5)
    (alone,) = observation_times(lines.where("seq in (1, 2)"), machines).collect()
    assert alone.line_s == 10


def test_a_machine_is_silent_in_a_window_in_which_bytes_of_it_are_missing(spark: SparkSession) -> None:
    """m1 says all of both windows, in lines of 1.1 s; m2 a second of the first and, with one whose bytes are null, all
    but one of the second; m3 nothing at all; the master is no worker's machine."""
    lines: list[tuple[Any, ...]] = [("r", "", 1000.0 + 1.1 * n, 1.1, "m1", "exp0", 10, 10) for n in range(1, 20)]
    lines += [("r", "", 1001.0, 1.0, "m2", "exp0", 5, 5), ("r", "", 1002.0, 1.0, "m2", "exp0", None, None)]
    lines += [("r", "", 1010.0 + n, 1.0, "m2", "exp0", 5, 5) for n in range(1, 10)]
    lines += [("r", "", 1000.0 + n, 1.0, "master", "exp0", 99, 99) for n in range(1, 21)]
    machines = frame(spark, "run_id machine", *[("r", f"m{n}") for n in range(1, 4)])
    axes = frame(spark, f"{AXIS} first_s last_s", ("r", "", "e1", 1000.0, 1000.0, 1020.0))
    found = network_windows(frame(spark, BYTES, *lines), machines, axes).orderBy("window_s").collect()
    assert [(row.window_s, row.machines, row.silent, row.tx_bytes) for row in found] == [
        (0.0, 1, ["m2", "m3"], 95), (10.0, 2, ["m3"], 135),
    ]  # fmt: skip


def test_a_group_s_utilisation_is_of_the_cores_that_it_has_then(spark: SparkSession) -> None:
    """0.5 of 1 core, and 1.5 of 3 more from the second window on; m3 has no group."""
    lines = [("r", "", 1004.0, 1.0, "m1", 0.5, 1.0), ("r", "", 1014.0, 1.0, "m1", 0.5, 1.0),
             ("r", "", 1014.0, 1.0, "m2", 1.5, 3.0), ("r", "", 1014.0, 1.0, "m3", 9.0, 9.0)]  # fmt: skip
    samples = frame(spark, "run_id topology t_s dt_s machine cpu_cores cpu_quota_cores", *lines)
    groups = spark.createDataFrame([("r", "m1", "a"), ("r", "m2", "a")], GROUPS)
    zeros = frame(spark, "run_id topology zero_s", ("r", "", ZERO))
    windows = group_windows(samples, groups, zeros).orderBy("window_s").collect()
    assert [(row.window_s, row.group, row.machines, row.utilisation_mean) for row in windows] == [
        (0.0, "a", 1, 0.5), (10.0, "a", 2, 0.5),
    ]  # fmt: skip
