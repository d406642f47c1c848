"""Of which seconds a fit of noise may be."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.calibration import sums
from analysis.ingest import tables

pytestmark = pytest.mark.spark
SECONDS = 4


def lines(folder: Path, tasks: dict[str, list[Any]]) -> Path:
    """Of one worker, a second each; its tasks execute ten tuples more from second to second."""
    file = folder / "runs" / "r" / "workers" / "m1-6700.jsonl"
    file.parent.mkdir(parents=True)
    columns = {"component": ["bolt"] * len(tasks["task"])} | tasks
    zeros = {name: [0] * len(tasks["task"]) for name in ("emitted", "transferred", "queue", "process_ms")}
    head = {"v": 1, "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "topology": "s"}
    for second in range(SECONDS):
        executed = {"executed": [100 + 10 * second] * len(tasks["task"])}
        line = head | {"t": 100.0 + second, "seq": second, "tasks": columns | zeros | executed}
        with file.open("a") as out:
            out.write(json.dumps(line) + "\n")
    return file


def test_executors_of_a_slot_are_those_of_the_rounds_in_which_they_change(spark: SparkSession) -> None:
    rounds = [
        (t_s, task, first, None if t_s == 20.0 else "m1:6700")
        for t_s, of_tasks in ((10.0, (1, 1)), (20.0, (1, 1)), (30.0, (1, 1)), (40.0, (1, 2)))
        for task, first in enumerate(of_tasks, start=1)
    ]
    rows = [("r", t_s, "s", "bolt", task, first, slot) for t_s, task, first, slot in rounds]
    schema = "run_id string, t_s double, topology string, component string, task int, first_task int, slot string"
    found = sums.executors(spark.createDataFrame(rows, schema))
    assert [(row["slot"], row["t_s"], row["executors"]) for row in found] == [
        ("m1:6700", 10.0, 1),
        ("m1:6700", 40.0, 2),
    ]


@pytest.mark.parametrize(
    ("tasks", "pairs"),
    [
        pytest.param({"task": [1], "execute_ms": [990.0], "cpu_ms": [7.0]}, SECONDS - 1, id="never waits"),
        pytest.param({"task": [1], "execute_ms": [700.0], "cpu_ms": [7.0]}, 0, id="waits"),
        pytest.param(
            {"task": [1, 2], "execute_ms": [400.0, 590.0], "cpu_ms": [5.0, 5.0]}, SECONDS - 1, id="two tasks of one"
        ),
        pytest.param({"task": [1, 2], "execute_ms": [500.0, 490.0], "cpu_ms": [5.0, 5.1]}, 0, id="two that wait"),
        pytest.param({"task": [1], "execute_ms": [990.0]}, SECONDS - 1, id="without CPU time"),
    ],
)
def test_two_executors_that_are_half_busy_are_not_one_that_never_waits(
    tasks: dict[str, list[Any]], pairs: int, tmp_path: Path, spark: SparkSession
) -> None:
    found = sums.speeds(tables.worker_lines(spark, [lines(tmp_path, tasks)]))
    assert [row["pairs"] for row in found] == ([pairs] if pairs else [])
    if pairs:
        executed = 10.0 * len(tasks["task"])
        assert found[0]["square"] == pytest.approx(pairs * executed**2 / 2)
