"""Settings of the tests' Spark session: expressions interpreted, or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Where a query grows beyond what can be compiled, Spark says so and interprets it: here it is an error.
COMPILED = {
    "spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    "spark.sql.codegen.fallback": "false",
}  # fmt: skip


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """As in the product, for the block."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.codegen.fallback")
        for name, value in INTERPRETED.items():
            spark.conf.set(name, value)
