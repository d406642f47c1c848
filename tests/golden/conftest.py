"""One Spark session and one analysed synthetic series for all golden tests."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Analysed:
    """A series that went through the whole pipeline, and what it should have found."""

    root: Path
    spark: "SparkSession"
    expected: dict[str, records.Expected]

    def rows(self, table: str, where: str = "true") -> list[dict[str, Any]]:
        from analysis import tables
        from analysis.record import SeriesPaths

        found = tables.read(self.spark, SeriesPaths(self.root), table).where(where).collect()
        return [row.asDict() for row in found]

    def measured(self, run_id: str, event_id: str = "e1") -> dict[str, float]:
        found = self.rows("measurements", f"run_id = '{run_id}' and event_id = '{event_id}'")
        return {row["metric"]: row["value"] for row in found}


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from analysis import session

    running = session.spark("local[2]")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def analysed(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Analysed:
    """Two variants x three repetitions, two damaged lines, and two runs that must not count."""
    from analysis import metrics, report, tables

    root = tmp_path_factory.mktemp("series") / "20261121-000000-abcdef01"
    expected = records.write_series(root)
    records.add_broken_runs(root)
    tables.build(spark, root)
    metrics.build(spark, root)
    report.build(root)
    return Analysed(root, spark, expected)
