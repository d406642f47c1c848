"""A topology that ran beside the run's own, with the same task numbers and component names, changes no metric."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.schemas import TABLES
from tests.golden import records
from tests.golden.beside_another import OTHER, RUN, UNNAMED
from tests.golden.series import GoldenSeries

pytestmark = pytest.mark.spark

METRICS = (
    "zeros", "activity", "event_throughput", "throughput", "intervals", "convergence", "downtime", "losses",
    "emissions", "latency", "interval_latency", "cpu", "settled", "slots", "moves", "running", "loading",
    "measurements",
)  # fmt: skip


def rows(root: Path, name: str, run: str) -> list[dict[str, Any]]:
    found = [row for row in small_tables.rows(SeriesPaths(root), name) if row["run_id"] == run]
    return sorted(found, key=lambda row: tuple(str(row[column]) for column in TABLES[name].key))


def test_metrics_are_those_of_the_runs_own_topology(
    golden_series: GoldenSeries, in_one_pass: Mapping[str, GoldenSeries]
) -> None:
    beside_other = in_one_pass["beside_another"]
    reported = {row["topology"] for row in beside_other.rows("task_samples")}
    assert reported == {records.TOPOLOGY, OTHER}
    for name in METRICS:
        for run in (RUN, UNNAMED):
            alone, beside = rows(golden_series.root, name, run), rows(beside_other.root, name, run)
            assert alone, (name, run)
            assert [_rounded(row) for row in beside] == [_rounded(row) for row in alone], (name, run)


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of floats depend on their order."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
