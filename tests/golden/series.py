"""The golden series after the whole analysis, and what it should have found."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from tests.golden import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class GoldenSeries:
    root: Path
    spark: "SparkSession"
    expected: Mapping[str, records.Expected]

    def rows(self, table: str, where: str = "true") -> list[dict[str, Any]]:
        from analysis.ingest import tables
        from analysis.record.files import SeriesPaths

        found = tables.read(self.spark, SeriesPaths(self.root), table).where(where).collect()
        return [row.asDict() for row in found]

    def measured(self, run_id: str, event_id: str = "e1") -> dict[str, float]:
        found = self.rows("measurements", f"run_id = '{run_id}' and event_id = '{event_id}'")
        return {row["metric"]: row["value"] for row in found}


def analyse(root: Path, spark: "SparkSession") -> GoldenSeries:
    """Two variants x three repetitions, two damaged lines, and two runs that must not count."""
    from analysis.ingest import tables
    from analysis.metrics import build
    from analysis.report import series_page

    expected = records.write_series(root)
    records.add_broken_runs(root)
    tables.build_tables(spark, root)
    with patch.object(build, "RUNS_AT_ONCE", 3):  # in several parts, the last one not full
        build.build_metrics(spark, root)
    series_page.build_report(root)
    return GoldenSeries(root, spark, expected)
