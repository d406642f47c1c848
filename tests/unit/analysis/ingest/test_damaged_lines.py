"""Every damaged worker line is counted, whatever is wrong with it; large files: `bench.speed.damaged_lines`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.record import worker_files
from bench.speed import damaged_lines, ingest_bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("generate", [damaged_lines.generate, damaged_lines.generate_avro])
def test_every_damaged_line_is_counted(
    tmp_path: Path, spark: "SparkSession", generate: Callable[..., damaged_lines.Written]
) -> None:
    written = generate(tmp_path, megabytes=2)
    seen, intact = damaged_lines.counted(spark, tmp_path)
    assert seen == written
    assert intact == sum(written.lines.values()) - sum(written.damaged.values()) > 0


@pytest.mark.spark
def test_lines_that_are_not_there_are_counted(tmp_path: Path, spark: "SparkSession") -> None:
    """As of a full disk, or of a file system that lost a block of the file."""
    from analysis.ingest import tables
    from analysis.record.files import SeriesPaths
    from analysis.record.small_tables import rows

    (source, *others) = ingest_bench.generate(tmp_path, 0.3)
    for other in others:
        other.unlink()
    lines = [json.loads(line) for line in source.read_text().splitlines()][:20]
    cases = {
        "whole": lines, "one": [lines[0], *lines[2:]], "first": lines[3:],
        "some": [*lines[:4], *lines[6:9], *lines[10:]], "end": lines[:15], "none": [],
    }  # fmt: skip
    for name, left in cases.items():
        worker_files.write(source.with_name(f"{name}.avro"), left)
    damaged = source.with_name("some.avro")
    damaged.write_bytes(damaged.read_bytes().replace(worker_files.block(lines[12]), b"x"))
    tables.build_tables(spark, SeriesPaths(tmp_path))
    found = {row["file"].removeprefix("workers/"): row for row in rows(SeriesPaths(tmp_path), "damaged")}
    missing = {name.removesuffix(".avro"): row["missing"] for name, row in found.items() if name.endswith(".avro")}
    assert missing == {"whole": 0, "one": 1, "first": 3, "some": 3, "end": 0}
    assert found["some.avro"]["damaged"] == 1 and found[source.name]["missing"] is None


def test_each_way_of_damage_changes_a_line(tmp_path: Path) -> None:
    ingest_bench.generate(tmp_path, 0.1)
    line = next(tmp_path.rglob("*.jsonl")).read_bytes().splitlines()[0]
    assert all(way(line) != line for way in damaged_lines.WAYS.values())
    read = json.loads(line)
    assert all(way(read) != worker_files.block(read) for way in damaged_lines.AVRO_WAYS.values())
