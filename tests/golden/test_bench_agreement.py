from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.speed import ingest_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = [pytest.mark.spark, pytest.mark.long]  # a bench's own; the golden series has the same reader


def test_all_engines_make_the_same_tables_of_generated_lines(tmp_path: Path, spark: "SparkSession") -> None:
    files = ingest_bench.generate(tmp_path, 2)
    for file in files:
        ingest_bench.to_avro(file)
    seconds = ingest_bench.compare(ingest_bench.engines(spark), files, tmp_path, rounds=1)
    lines = sum(file.read_text().count("\n") for file in files)
    tasks = lines * ingest_bench.TASKS
    assert ingest_bench.check(tmp_path / "spark.parquet").rows == (tasks, tasks, tasks, lines, lines)
    assert all(len(taken) == 1 for taken in seconds.values())
