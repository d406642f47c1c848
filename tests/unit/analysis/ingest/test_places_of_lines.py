"""Which run and file a line is of, from its path alone."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.ingest import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LINE = {"v": 1, "t": 1.0, "dt_s": 1.0, "machine": "m1", "port": 6700, "pid": 1, "topology": "s", "seq": 0}


def write(path: Path, line: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(line) + "\n")
    return path


def test_a_line_is_of_the_run_whose_folder_it_lies_in(tmp_path: Path, spark: "SparkSession") -> None:
    """Also where the results lie below folders called `runs` and `attempts`, and names need quoting in a URL."""
    series = tmp_path / "runs" / "attempts" / "x.attempt-9" / "results" / "series +1%"
    files = [
        write(series / "runs" / "stela-r1" / "workers" / "m1-6700.jsonl", LINE),
        write(series / "runs" / "of.attempt-2" / "workers" / "m+ 2.jsonl", LINE),
        write(series / "attempts" / "stela-r2.attempt-3" / "workers" / "m3%20.jsonl", LINE),
    ]
    found = {(row.run_id, row.file) for row in tables.worker_lines(spark, files).collect()}
    assert found == {
        ("stela-r1", "workers/m1-6700.jsonl"),
        ("of.attempt-2", "workers/m+ 2.jsonl"),
        ("stela-r2", "workers/m3%20.jsonl"),
    }


def test_events_lie_in_the_folder_of_their_run(tmp_path: Path, spark: "SparkSession") -> None:
    file = write(tmp_path / "runs" / "x" / "runs" / "stela-r1" / "events.jsonl", {"t": 1.0, "kind": "run_started"})
    (row,) = tables.read_lines(spark, "event", [file]).collect()
    assert (row.run_id, row.file) == ("stela-r1", "events.jsonl")
