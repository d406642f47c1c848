"""What fell due while a spout had no process is due when it was, once; what nobody knows is null."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.ingest.tables import empty
from analysis.metrics.losses import emissions, gap_seconds
from analysis.metrics.scale_events import SPANS
from analysis.metrics.throughput import activity
from analysis.record.schemas import TABLES
from analysis.record.small_tables import frame_of_rows

UNIT = {"run_id": "r", "topology": ""}

pytestmark = pytest.mark.spark
UNSEEN = "run_id string, topology string, t_s double, dt_s double, task int, due bigint"


def table(spark: SparkSession, name: str, *rows: dict[str, Any]) -> DataFrame:
    known = {**UNIT, "machine": "m1", "port": 6700, "dt_s": 1.0, "component": "spout"}
    columns = [column.split()[0].strip("`") for column in TABLES[name].ddl.split(", ")]
    return frame_of_rows(spark, [[(known | row).get(c) for c in columns] for row in rows], TABLES[name].ddl)


def second(t: float, **counts: float | None) -> dict[str, Any]:
    return {"t_s": t, "task": 1, "due": 100, "emitted": 100, "behind": 0, "missed": 0, "late": 0} | counts


def gap(t: float, from_s: float | None, until_s: float, due: int | None) -> dict[str, Any]:
    return {"t_s": t, "task": 1, "from_s": from_s, "until_s": until_s, "due": due}


# The worker dies at 110.4, its newest line that arrived is of 108; the next process is asked for a tuple at 120.5.
LINES = [
    *(second(100.0 + n) for n in range(1, 11)),
    second(110.4, due=40, dt_s=0.4),
    second(120.0, due=None, emitted=0, missed=None, late=None),
    second(121.0, due=50, emitted=900, missed=3, late=880),
]
GAP = gap(121.0, 108.0, 120.5, 1250)


def components(spark: SparkSession) -> DataFrame:
    return table(spark, "components", {"task": 1, "kind": "spout", "sink": False})


def spans(spark: SparkSession) -> DataFrame:
    return frame_of_rows(spark, [("r", "", "e1", 112.0, None, None, 100.0, 121.0)], SPANS)


def unseen(spark: SparkSession, lines: list[dict[str, Any]], gaps: list[dict[str, Any]]) -> DataFrame:
    spouts, samples = table(spark, "spout_samples", *lines), table(spark, "gap_samples", *gaps)
    return gap_seconds(samples, spouts, spans(spark))


def found(spark: SparkSession, lines: list[dict[str, Any]], gaps: list[dict[str, Any]]) -> dict[str, Any]:
    frame = emissions(
        table(spark, "spout_samples", *lines), unseen(spark, lines, gaps), components(spark), spans(spark)
    )
    return {row.phase: (row.due, row.emitted, row.missed, row.late) for row in frame.collect()}


def test_due_is_rate_times_time_whatever_restarts(spark: SparkSession) -> None:
    sums = found(spark, LINES, [GAP])
    assert sums["before"][0] + sums["after"][0] == 100 * 21 == 1040 + 1010 + 50
    assert sums["before"][0] == pytest.approx(1200, abs=60)  # a second of the gap lies across the zero
    assert sums["after"][1:] == (900, 3, 880)


def windows(spark: SparkSession, lines: list[dict[str, Any]], gaps: list[dict[str, Any]]) -> dict[float, int | None]:
    axes = frame_of_rows(
        spark, [("r", "", "e1", 100.0)], "run_id string, topology string, event_id string, zero_s double"
    )
    tasks, workers = (empty(spark, name) for name in ("task_samples", "worker_samples"))
    machines = empty(spark, "machine_samples").withColumn("topology", f.lit(""))
    frame = activity(tasks, table(spark, "spout_samples", *lines), unseen(spark, lines, gaps), workers, machines,
                     components(spark), axes)  # fmt: skip
    return {row.window_s: row.due for row in frame.collect() if row.component}


def test_windows_have_what_was_due_in_them(spark: SparkSession) -> None:
    due = windows(spark, LINES, [GAP])
    assert sum(n or 0 for n in due.values()) == 2100
    assert due[0.0] == pytest.approx(1000, abs=60) and due[10.0] == pytest.approx(1000, abs=110)
    assert list(due) and None not in due.values()


def test_seconds_of_a_gap_have_whole_tuples_and_all_of_them(spark: SparkSession) -> None:
    parts = gap(121.0, 108.0, 118.5, 7), gap(121.0, 118.5, 120.5, 5), gap(121.0, 120.5, 120.5, 0)
    gaps = table(spark, "gap_samples", *parts)
    rows = gap_seconds(gaps, empty(spark, "spout_samples"), spans(spark)).orderBy("t_s").collect()
    assert [row.due for row in rows if row.t_s <= 118.5] == [0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1]
    assert sum(row.due for row in rows) == 12
    assert max(row.t_s for row in rows) == 120.5


def test_what_nobody_knew_is_null(spark: SparkSession) -> None:
    unknown = [gap(121.0, None, 120.5, None)]
    lines = [*LINES[:-1], second(121.0, due=50, missed=None)]
    sums = found(spark, lines, unknown)
    assert sums["before"] == (None, 1100, None, 0), "from 110.4 on, 1.6 s before the zero"
    assert sums["after"] == (None, 100, None, 0)
    assert windows(spark, lines, unknown) == {0.0: 1000, 10.0: None, 20.0: None}
    no_line_before = [second(121.0, due=50, missed=None)]
    assert found(spark, no_line_before, unknown) == {"after": (None, 100, None, 0)}


def test_a_spout_that_never_comes_back_leaves_no_sum(spark: SparkSession) -> None:
    """Its process ends 1.6 s before the zero, and the run goes on for 40 s: 1000 a window were due, and not 40."""
    later = frame_of_rows(spark, [("r", "", "e1", 112.0, None, None, 100.0, 151.0)], SPANS)
    spouts = table(spark, "spout_samples", *LINES[:11])
    rows = gap_seconds(empty(spark, "gap_samples"), spouts, later).collect()
    assert min(row.t_s - row.dt_s for row in rows) == pytest.approx(110.4)
    assert max(row.t_s for row in rows) == pytest.approx(151) and {row.due for row in rows} == {None}
    frame = emissions(spouts, frame_of_rows(spark, [tuple(row) for row in rows], UNSEEN), components(spark), later)
    sums = {row.phase: (row.due, row.emitted, row.missed, row.late) for row in frame.collect()}
    assert sums == {"before": (None, 1100, None, 0), "after": (None, None, None, None)}


@pytest.mark.parametrize(("last_s", "gaps"), [(149.0, False), (149.5, True)])
def test_a_spout_with_long_lines_is_gone_after_a_longer_time(spark: SparkSession, last_s: float, gaps: bool) -> None:
    ends = frame_of_rows(spark, [("r", "", "e1", 112.0, None, None, 100.0, last_s)], SPANS)
    spouts = table(spark, "spout_samples", *(second(100.0 + 10 * n, dt_s=10.0) for n in range(1, 4)))
    assert bool(gap_seconds(empty(spark, "gap_samples"), spouts, ends).collect()) == gaps
