"""Between two blocks only new runs are parsed, and what comes out is what the whole analysis says."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis import pipeline
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.schemas import TABLES
from tests.golden.series import GoldenSeries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.spark


def numbers(root: Path, runs: set[str]) -> dict[tuple[str, str, str, bool], float]:
    rows = [row for row in small_tables.rows(SeriesPaths(root), "measurements") if row["run_id"] in runs]
    found = {(row["run_id"], row["event_id"], row["metric"], row["censored"]): row["value"] for row in rows}
    assert len(found) == len(rows), "each number once"
    return found


def keys(root: Path, name: str, runs: set[str]) -> list[tuple[object, ...]]:
    """Of the rows of a table; there are some, but of service levels, which this series has none of."""
    found = [row for row in small_tables.rows(SeriesPaths(root), name) if row["run_id"] in runs]
    assert found or name == "service", name
    return sorted(tuple(str(row[column]) for column in TABLES[name].key) for row in found)


def test_block_by_block_is_the_same_as_all_at_once(
    golden_series: GoldenSeries, spark: "SparkSession", tmp_path: Path
) -> None:
    series, parsed = tmp_path / "series", list[int]()
    (series / "runs").mkdir(parents=True)

    def start(raw_bytes: int) -> "SparkSession":
        parsed.append(raw_bytes)
        return spark

    complete = {
        row["run_id"]
        for row in small_tables.rows(SeriesPaths(golden_series.root), "runs")
        if row["status"] == "complete"
    }
    first, second = ({run for run in complete if run.endswith(f"-r{number}")} for number in (1, 2))
    assert first and second
    _copy(golden_series.root, first, series)
    folder = pipeline.analyse_new_runs(series, start)
    assert numbers(folder, first) == pytest.approx(numbers(golden_series.root, first), rel=1e-9)
    again = min(first)
    _copy(golden_series.root, second, series)
    _change(series / "runs" / again / "run.json", attempt=2)
    assert pipeline.analyse_new_runs(series, start) == folder
    wanted = [first, {*second, again}]
    assert parsed == [_raw_bytes(series, runs) for runs in wanted], "new blocks, and a run that was measured again"
    runs = first | second
    assert numbers(folder, runs) == pytest.approx(numbers(golden_series.root, runs), rel=1e-9)
    for name in pipeline.INCREMENTAL_TABLES:
        assert keys(folder, name, runs) == keys(golden_series.root, name, runs), name
    assert {row["run_id"] for row in small_tables.rows(SeriesPaths(folder), "scale_events")} == runs
    assert pipeline.analyse_new_runs(series, _never) == folder, "nothing is new: no Spark"
    _change(series / "runs" / again / "run.json", status="failed")
    paths = SeriesPaths(pipeline.analyse_new_runs(series, _never))
    assert {row["run_id"]: row["status"] for row in small_tables.rows(paths, "runs")}[again] == "failed"
    assert {row["run_id"] for row in small_tables.rows(paths, "measurements")} == runs - {again}


def _copy(root: Path, runs: set[str], series: Path) -> None:
    for run in runs:
        shutil.copytree(root / "runs" / run, series / "runs" / run)


def _raw_bytes(series: Path, runs: set[str]) -> int:
    """An Avro file counts as the JSON lines that it would be, twice as long."""
    files = [file for run in runs for file in (series / "runs" / run).rglob("*.*")]
    return sum(file.stat().st_size * {".jsonl": 1, ".avro": 2}.get(file.suffix, 0) for file in files)


def _never(_raw_bytes: int) -> Any:
    raise AssertionError("nothing to parse")


def _change(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
