"""Several series in one analysis: its cost hardly grows with them, and a row depends on its run alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from analysis.ingest import tables
from analysis.metrics import build
from analysis.record.files import SeriesPaths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def analyse(spark: SparkSession, folder: Path, roots: Mapping[str, Path]) -> None:
    """Tables and metrics of the series in `roots`, by way of `folder`, where a run has its series' name in front."""
    together = SeriesPaths(folder)
    together.runs.mkdir(parents=True)
    for name, root in roots.items():
        for run in SeriesPaths(root).all_runs():
            (together.runs / f"{name}.{run.run_id}").symlink_to(run.root, target_is_directory=True)
    tables.build_tables(spark, together)
    build.build_metrics(spark, together)
    for table in sorted(together.tables.glob("*.parquet")):
        rows = ds.dataset(str(table), format="parquet").to_table()
        for name, root in roots.items():
            (target := SeriesPaths(root).tables / table.name).mkdir(parents=True)
            pq.write_table(_of_series(rows, f"{name}."), target / "part-0.parquet")


def _of_series(rows: pa.Table, prefix: str) -> pa.Table:
    own = rows.filter(pc.starts_with(rows["run_id"], prefix))
    place = own.schema.get_field_index("run_id")
    runs = pc.utf8_slice_codeunits(own["run_id"], len(prefix))
    return own.set_column(place, own.schema.field(place), runs)
