"""Every damaged worker line is counted, whatever is wrong with it; large files: `tests.calibration.damaged_lines`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.record import worker_files
from tests.calibration import damaged_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("generate", [damaged_lines.generate, damaged_lines.generate_avro])
def test_every_damaged_line_is_counted(
    tmp_path: Path, spark: "SparkSession", generate: Callable[..., damaged_lines.Written]
) -> None:
    written = generate(tmp_path, megabytes=2)
    older = tmp_path / "tables" / "task_samples.parquet"
    older.mkdir(parents=True)
    seen, intact = damaged_lines.counted(spark, tmp_path)
    assert seen == written
    assert not older.exists(), "an older version stored what is a view now"
    assert intact == sum(written.lines.values()) - sum(written.damaged.values()) > 0


def test_each_way_of_damage_changes_a_line(tmp_path: Path) -> None:
    damaged_lines.ingest_bench.generate(tmp_path, 0.1)
    line = next(tmp_path.rglob("*.jsonl")).read_bytes().splitlines()[0]
    assert all(way(line) != line for way in damaged_lines.WAYS.values())
    read = json.loads(line)
    assert all(way(read) != worker_files.block(read) for way in damaged_lines.AVRO_WAYS.values())
