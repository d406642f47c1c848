from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.calibration import ingest_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


def test_three_engines_make_the_same_table_of_generated_lines(tmp_path: Path, spark: "SparkSession") -> None:
    files = ingest_bench.generate(tmp_path, 2)
    engines = {
        "spark": lambda files, out: ingest_bench.spark_table(spark, files, out),
        "polars": ingest_bench.polars_table,
        "duckdb": ingest_bench.duckdb_table,
    }
    seconds = ingest_bench.compare(engines, files, tmp_path, rounds=1)
    lines = sum(file.read_text().count("\n") for file in files)
    assert ingest_bench.check(tmp_path / "spark.parquet").rows == lines * ingest_bench.TASKS
    assert all(len(taken) == 1 for taken in seconds.values())
