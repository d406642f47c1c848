"""Latency in windows, through Spark: the same buckets, and clocks taken out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from analysis.ingest import tables
from analysis.metrics import latency
from analysis.metrics.uncertainty import CLOCKS, clock_lines
from analysis.record.small_tables import by_run, frame_of_rows
from scheduler_plugins.service.latency_buckets import bounds_us, bucket_of, merged, middle_ms, percentile_ms

pytestmark = pytest.mark.spark
BEGIN_S = 1_763_700_000.0
AXES = "run_id string, topology string, event_id string, zero_s double"
SINKS = (
    "run_id string, topology string, t_s double, dt_s double, machine string, source_machine string, n bigint, "
    "sum_ms double, "
    "max_ms double, buckets array<int>, counts array<bigint>"
)


def test_every_bucket_is_that_of_python(spark: SparkSession) -> None:
    """Whose edges are those of the contract."""
    rows = [(bucket, *bounds_us(bucket)) for bucket in range(-2048, 2048)]
    frame = frame_of_rows(spark, rows, "bucket int, first bigint, last bigint")
    of_edges = [latency.bucket_of(f.col(name)) for name in ("first", "last")]
    for bucket, *found in frame.select("*", *latency.bounds_us(f.col("bucket")), *of_edges).collect():
        assert found == [*bounds_us(bucket), *bounds_us(bucket), bucket, bucket]


def sample(second: float, machine: str, source: str | None, *latencies_ms: float) -> tuple[Any, ...]:
    buckets = sorted(bucket_of(round(1000 * each)) for each in latencies_ms)
    counts = {bucket: buckets.count(bucket) for bucket in buckets}
    return (BEGIN_S + second, 1.0, machine, source, len(latencies_ms), sum(latencies_ms), max(latencies_ms),
            list(counts), list(counts.values()))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A run of 100 s, whose event is at its 50th. `offsets` of each clock before the run and after it, ms."""

    samples: Sequence[tuple[Any, ...]]
    offsets: Mapping[str, tuple[float | None, float | None]]
    events: Sequence[tuple[float, str, str]] = ()  # at its second, kind, machine


SAME = {"m1": (0.0, 0.0)}
AHEAD = {"m1": (-10.0, -10.0), "m2": (20.0, 20.0)}
APART = {"m1": (0.0, 0.0), "m2": (10.0, 30.0)}
MIXED = [sample(55, "m2", "m1", 50.0), sample(55, "m1", "m1", 50.0), sample(55, "m1", None, 50.0)]
CASES = {
    "slow sink": Case([sample(52 + n, "m1", "m1", *[5000.0 if n == 3 else 100.0] * 10) for n in range(4)], SAME),
    "ahead at the sink": Case([sample(55, "m2", "m1", *[50.0] * 3)], AHEAD),
    "ahead at the source": Case([sample(55, "m1", "m2", *[-10.0] * 3)], AHEAD),
    "on one machine": Case([sample(55, "m2", "m2", *[20.0] * 3)], AHEAD),
    "apart": Case([sample(second, "m2", "m1", 100.0) for second in (0.5, 50.5, 100.0)], APART),
    "booted": Case(
        [sample(second, "m2", "m1", 100.0) for second in (60, 75, 90, 100)],
        {"m1": (0.0, 0.0), "m2": (10.0, 30.0)},
        [(52, "machine_booted", "m2"), (60, "machines_joined", "m2"), (90, "machines_left", "m2")],
    ),
    "added from the start": Case(
        [sample(50, "m2", "m1", 100.0)], {"m1": (0.0, 0.0), "m2": (10.0, 30.0)}, [(40, "machines_joined", "m2")]
    ),
    "not in the record": Case(MIXED, SAME),
    "not measured": Case(MIXED, {**SAME, "m2": (None, None)}),
    "measured once": Case([sample(55, "m2", "m1", *[50.0] * 3)], {"m1": (0.0, None), "m2": (None, 30.0)}),
    "throttled": Case([(BEGIN_S + 53, 6.0, *sample(53, "m1", "m1", 30.0, 60.0, 90.0)[2:])], SAME),
}
Windows = Mapping[str, Sequence[Mapping[str, Any]]]


@pytest.fixture(scope="module")
def windows(spark: SparkSession) -> Windows:
    """Of all cases at once: a query of Spark costs more than what it finds."""
    machines = [
        {"run_id": run, "machine": name, "clock_offset_ms": begin, "clock_end_offset_ms": end}
        for run, case in CASES.items() for name, (begin, end) in case.offsets.items()
    ]  # fmt: skip
    runs = [{"run_id": run, "started_s": BEGIN_S, "ended_s": BEGIN_S + 100} for run in CASES]
    events = [event(run, *each) for run, case in CASES.items() for each in case.events]
    found = latency.windows(
        frame_of_rows(spark, [(run, "", *each) for run, case in CASES.items() for each in case.samples], SINKS),
        frame_of_rows(spark, [(run, "", "e1", BEGIN_S + 50) for run in CASES], AXES),
        frame_of_rows(spark, clock_lines(machines, runs, events), CLOCKS),
    )
    return by_run([row.asDict() for row in found.orderBy("window_s").collect()])


def event(run: str, second: float, kind: str, name: str) -> dict[str, Any]:
    return {"run_id": run, "t_s": BEGIN_S + second, "kind": kind, "machines": [name], "machine": name,
            "given_back": False}  # fmt: skip


def test_one_slow_sink_of_four_is_what_95_percent_of_all_tuples_wait_for(windows: Windows) -> None:
    (window,) = windows["slow sink"]
    assert (window["window_s"], window["n"], window["corrected"]) == (0, 40, 40)
    assert window["mean_ms"] == pytest.approx(1325) and window["max_ms"] == 5000
    assert window["p50_ms"] == pytest.approx(100, rel=1 / 128)
    assert window["p95_ms"] == window["p99_ms"] == pytest.approx(5000, rel=1 / 128)


@pytest.mark.parametrize("case", ["ahead at the sink", "ahead at the source", "on one machine", "measured once"])
def test_what_two_clocks_differ_by_is_taken_out_of_latencies_between_them(windows: Windows, case: str) -> None:
    """m2 is 30 ms ahead of m1: from m1 to m2 a latency of 20 ms reads 50, back it reads -10, which is no 0."""
    (window,) = windows[case]
    assert window["mean_ms"] == pytest.approx(20) and window["max_ms"] == pytest.approx(20)
    assert window["p95_ms"] == pytest.approx(20, abs=0.5), "a bucket of 50 ms is 0.5 ms wide"
    assert window["corrected"] == 3


def test_clocks_that_go_apart_are_taken_out_as_far_as_they_are_apart_by_then(windows: Windows) -> None:
    assert [row["mean_ms"] for row in windows["apart"]] == pytest.approx([89.9, 79.9, 70.0])


@pytest.mark.parametrize("case", ["not in the record", "not measured"])
def test_what_nobody_knows_of_a_clock_is_left_in_and_said(windows: Windows, case: str) -> None:
    (window,) = windows[case]
    assert (window["n"], window["corrected"], window["mean_ms"]) == (3, 1, 50)


def test_a_line_of_several_seconds_counts_evenly_in_its_windows(windows: Windows) -> None:
    """6 s from 47 on: three of them before the event, though most buckets hold one tuple that is not to be cut."""
    before, after = windows["throttled"]
    assert (before["window_s"], after["window_s"]) == (-10, 0)
    assert before["buckets"] == after["buckets"] and before["counts"] == after["counts"] == [0.5, 0.5, 0.5]
    assert before["p95_ms"] == after["p95_ms"] == pytest.approx(90, rel=1 / 128)
    assert before["n"] == after["n"] == sum(after["counts"]) == 1.5, "of what its counts are of"


def test_the_clock_of_a_machine_counts_from_when_it_was_asked(windows: Windows) -> None:
    """10 ms ahead when it joined, at 60 s, and 30 when it was given back, at 90 s; not from the run's begin to its
    end. One that was there before the run and joined later was asked before the run."""
    assert [row["mean_ms"] for row in windows["booted"]] == pytest.approx([90, 80, 70, 70], abs=0.4)
    assert [row["mean_ms"] for row in windows["added from the start"]] == pytest.approx([80])


SHARES = ([1.0] * 100, [50.0, 45.0, 5.0], [94.999, 0.001, 5.0], [1 / 3] * 60, [7.0])


def test_percentiles_in_spark_are_those_of_python(spark: SparkSession) -> None:
    rows = [(str(case), 3 * bucket - 40, count) for case, counts in enumerate(SHARES)
            for bucket, count in enumerate(counts)]  # fmt: skip
    frame = frame_of_rows(spark, rows, "run_id string, bucket int, count double")
    for row in latency.histograms(frame, "run_id").collect():
        counts = dict(zip(row.buckets, row.counts, strict=True))
        expected = {name: percentile_ms(counts, share) for name, share in latency.PERCENTILES.items()}
        assert {name: row[name] for name in expected} == expected


def test_of_a_part_all_tuples_of_its_windows_count(spark: SparkSession) -> None:
    windows = [("r", "", "e1", at, 4.0, [1, 200 + int(at)], [3.0, 1.0]) for at in (-10.0, 0.0, 10.0, 20.0)]
    found = latency.of_intervals(
        frame_of_rows(spark, windows,
                      "run_id string, topology string, event_id string, window_s double, n double, "
                      "buckets array<int>, counts array<double>"),
        frame_of_rows(spark, [(run, "", "e1", "after", 0.0, 20.0) for run in "r"],
                      "run_id string, topology string, event_id string, phase string, start_s double, end_s double"),
    ).collect()  # fmt: skip
    counts = merged((row[5], row[6]) for row in windows if 0 <= row[3] < 20)
    ((phase, n, p50_ms, p95_ms),) = ((row.phase, row.n, row.p50_ms, row.p95_ms) for row in found)
    assert (phase, n, p50_ms, p95_ms) == ("after", 8, percentile_ms(counts, 0.5), percentile_ms(counts, 0.95))


def test_a_latency_without_its_clocks_is_within_half_a_bucket_twice(spark: SparkSession) -> None:
    """Of what was measured and of what is left."""
    shift_ms = 29.7
    rows = [(us, bucket_of(us + round(1000 * shift_ms))) for us in range(137, 90_000, 331)]
    frame = frame_of_rows(spark, rows, "us int, bucket int")
    moved = latency.without_shift(frame.withColumn("shift_ms", f.lit(shift_ms)))
    for us, bucket in moved.select("us", "bucket").collect():
        assert abs(1000 * middle_ms(bucket) - us) <= (us + 1000 * shift_ms) / 128 + us / 128 + 1


COUNTED = {"task": [3], "n": [2], "sum_ms": [9.0], "max_ms": [5.0]}
INTACT: Mapping[str, dict[str, Any]] = {
    "ours": {"source_machine": ["m2"], "buckets": [[4, 5]], "counts": [[1, 1]]},
    "foreign": {"source_machine": [None], "buckets": [[5]], "counts": [[2]]},
}
DAMAGED: Mapping[str, dict[str, Any]] = {
    "a count is missing": {"source_machine": ["m2"], "buckets": [[4, 5]], "counts": [[2]]},
    "no counts": {"source_machine": ["m2"], "buckets": [[4, 5]]},
    "a machine is missing": {"source_machine": [], "buckets": [[5]], "counts": [[2]]},
}


def test_lines_with_uneven_histograms_are_damaged(tmp_path: Path, spark: SparkSession) -> None:
    for name, sinks in (INTACT | DAMAGED).items():
        file = tmp_path / "runs" / name / "workers" / "m1-6700.jsonl"
        file.parent.mkdir(parents=True)
        line = {"v": 1, "t": BEGIN_S, "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "topology": "s", "seq": 0}
        file.write_text(json.dumps(line | {"sinks": COUNTED | sinks}) + "\n")
    lines = tables.worker_lines(spark, sorted(tmp_path.rglob("*.jsonl")))
    found = {row["run_id"]: row.asDict() for row in tables.view(lines, "sink_samples").collect()}
    assert set(found) == set(INTACT)
    assert {name: row["buckets"] for name, row in found.items()} == {"ours": [4, 5], "foreign": [5]}


def test_a_machine_that_left_and_came_back_is_asked_in_the_end_again() -> None:
    machines = [{"run_id": "r", "machine": name, "clock_offset_ms": 0.0, "clock_end_offset_ms": 8.0}
                for name in ("m1", "m2")]  # fmt: skip
    runs = [{"run_id": "r", "started_s": BEGIN_S, "ended_s": BEGIN_S + 100}]
    moves = [(30, "machines_left", "m1"), (40, "machines_left", "m2"), (60, "machines_joined", "m2")]
    lines = clock_lines(machines, runs, [event("r", *each) for each in moves])
    assert [(machine, end_s - BEGIN_S) for _, machine, _, end_s, *_ in lines] == [("m1", 30), ("m2", 100)]
