from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis import bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_three_engines_make_the_same_table_of_generated_lines(tmp_path: Path, spark: "SparkSession") -> None:
    files = bench.generate(tmp_path, 2)
    engines = {
        "spark": lambda files, out: bench.spark_table(spark, files, out),
        "polars": bench.polars_table,
        "duckdb": bench.duckdb_table,
    }
    seconds = bench.compare(engines, files, tmp_path, rounds=1)
    lines = sum(file.read_text().count("\n") for file in files)
    assert bench.check(tmp_path / "spark.parquet").rows == lines * bench.TASKS
    assert all(len(taken) == 1 for taken in seconds.values())
