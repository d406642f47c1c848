"""The lines that a worker posts and those that it writes are the same: `worker_lines/` has both, and the worker is held
to them (WorkerLineTest)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import fastavro
import pytest

from analysis.ingest import tables
from analysis.record import worker_files
from barograph.settings import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "worker_lines"
RESOURCE = ROOT / "topologies/src/main/resources/barograph/topologies/measure/worker_line.avsc"
POSTED = [json.loads(line) for line in (FOLDER / "posted.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_worker_has_the_declared_schema() -> None:
    assert RESOURCE.read_text() == worker_files.resource() + "\n"


def test_a_reader_of_avro_finds_what_was_posted() -> None:
    with (FOLDER / "written.avro").open("rb") as file:
        records = list(fastavro.reader(file))
    found = [
        {key: value for key, value in record.items() if value is not None and key != worker_files.CHECKSUM}
        for record in records
        if isinstance(record, dict)
    ]
    assert found == [line | {"v": 3} for line in POSTED]
    assert found == list(worker_files.read(FOLDER / "written.avro"))


def test_python_writes_as_the_worker_does(tmp_path: Path) -> None:
    worker_files.write(tmp_path / "again.avro", POSTED)
    assert (tmp_path / "again.avro").read_bytes() == (FOLDER / "written.avro").read_bytes()


@pytest.mark.spark
def test_spark_finds_what_was_posted(spark: "SparkSession") -> None:
    posted, written = (
        tables.worker_lines(spark, [FOLDER / name]).drop("run_id", "file") for name in ("posted.jsonl", "written.avro")
    )
    assert posted.schema == written.schema
    assert posted.where("damaged_text is null").count() == len(POSTED)
    assert written.collect() == posted.collect()
