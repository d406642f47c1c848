"""What of workers' Avro files Spark finds, whatever happened to them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.ingest import tables
from analysis.record import worker_files
from analysis.record.worker_files import MARKER
from tests.golden import records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LINES = records.worker_lines(records.runs()[0])[1]["m4:6700"][:100]
WHOLE = MARKER.join([worker_files.header(), *map(worker_files.block, LINES), b""])
BLOCK = len(worker_files.block(LINES[50])) + len(MARKER)
MIDDLE = WHOLE.index(worker_files.block(LINES[50]))
HEADER = len(worker_files.header()) + len(MARKER)


def write(tmp_path: Path, content: bytes, name: str = "m4-6700-1.avro") -> Path:
    path = tmp_path / "runs" / "stela-r1" / "workers" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def found(spark: "SparkSession", *files: Path) -> tuple[list[int], list[str]]:
    """Numbers of the intact lines, and what is shown of the damaged ones."""
    rows = tables.worker_lines(spark, files).select("seq", "damaged_text").collect()
    return (
        sorted(row.seq for row in rows if row.damaged_text is None),
        [row.damaged_text for row in rows if row.damaged_text is not None],
    )


def without(*lines: int) -> list[int]:
    return [number for number in range(100) if number not in lines]


def over(content: bytes, at: int, other: bytes) -> bytes:
    return content[:at] + other + content[at + len(other) :]


@pytest.mark.parametrize(
    ("content", "lines", "damaged"),
    [
        pytest.param(WHOLE, without(), 0, id="whole"),
        pytest.param(b"", [], 0, id="empty: its worker died before its first line"),
        pytest.param(WHOLE[:HEADER], [], 0, id="no line yet"),
        pytest.param(WHOLE[: HEADER // 2], [], 1, id="the header is cut short"),
        pytest.param(WHOLE[:-BLOCK] + WHOLE[-BLOCK:][:60], without(99), 1, id="the end is cut short"),
        pytest.param(WHOLE[: -len(MARKER) // 2], without(99), 1, id="the last marker is cut short"),
        pytest.param(WHOLE[: -len(MARKER)], without(), 0, id="the last marker is missing, its line whole"),
        pytest.param(over(WHOLE, MIDDLE + 20, b"\0" * 20), without(50), 1, id="zeros in a line"),
        pytest.param(over(WHOLE, MIDDLE, bytes(range(256))), without(50, 51), 1, id="garbage over two lines"),
        pytest.param(WHOLE[:MIDDLE] + b"x" * 999 + WHOLE[MIDDLE:], without(50), 1, id="garbage before a line"),
        pytest.param(WHOLE[: MIDDLE + 40] + WHOLE[MIDDLE + 90 :], without(50), 1, id="a part is lost"),
        pytest.param(over(WHOLE, 0, b"\0" * 100), without(), 1, id="no readable header"),
        pytest.param(WHOLE.replace(b'"executed"', b'"dxecuted"', 1), without(), 1, id="a bit of a column's name"),
        pytest.param(WHOLE.replace(b'"name"', b'"nale"', 1), without(), 1, id="a bit of the schema's structure"),
        pytest.param(WHOLE.replace(b'"long"', b'"lonf"', 1), without(), 1, id="a bit of a type"),
        pytest.param(WHOLE[HEADER + 30 :], without(0), 1, id="the beginning is lost"),
        pytest.param(b"no Avro at all", [], 1, id="something else"),
        pytest.param(over(WHOLE, MIDDLE + 70, bytes([WHOLE[MIDDLE + 70] ^ 1])), without(50), 1, id="a bit"),
    ],
)
def test_damage_costs_the_lines_that_it_hits(
    tmp_path: Path, spark: "SparkSession", content: bytes, lines: list[int], damaged: int
) -> None:
    numbers, texts = found(spark, write(tmp_path, content))
    assert (numbers, len(texts)) == (lines, damaged)
    assert all("bytes with a wrong checksum, which begin: " in text for text in texts)


def test_python_finds_the_same(tmp_path: Path) -> None:
    content = over(WHOLE, MIDDLE + 20, b"\0" * 20)[:-20]
    lines = list(worker_files.read(write(tmp_path, content)))
    assert [line and line["seq"] for line in lines] == [None if n in (50, 99) else n for n in range(100)]


@pytest.fixture
def small_splits(spark: "SparkSession") -> Iterator[None]:
    """Files are read in pieces, as large ones are."""
    name = "spark.sql.files.maxPartitionBytes"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "1000")
    yield
    spark.conf.set(name, before)


def test_a_file_that_is_read_in_pieces_is_read_once(tmp_path: Path, spark: "SparkSession", small_splits: None) -> None:
    file = write(tmp_path, over(WHOLE, MIDDLE + 20, b"\0" * 20))
    assert tables.worker_lines(spark, [file]).rdd.getNumPartitions() > 10
    assert found(spark, file)[0] == without(50) and len(found(spark, file)[1]) == 1


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    line = json.loads(json.dumps(LINES[50]))
    change(line)
    return MARKER.join([worker_files.header(), worker_files.block(line), worker_files.block(LINES[51]), b""])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda line: line.update(dt_s=3e13), id="a line of a million years"),
        pytest.param(lambda line: line.update(dt_s=-1.0), id="a negative length"),
        pytest.param(lambda line: line.update(dt_s=float("nan")), id="a length that is no number"),
        pytest.param(lambda line: line["tasks"]["queue"].clear(), id="a column that is shorter"),
        pytest.param(lambda line: line["sinks"]["buckets"][0].__setitem__(0, 2048), id="a bucket that there is not"),
        pytest.param(lambda line: line["sinks"]["counts"][0].__setitem__(0, -1), id="a negative count"),
        pytest.param(lambda line: line["sinks"]["counts"][0].append(1), id="more counts than buckets"),
    ],
)
def test_what_a_worker_cannot_have_measured_is_damaged(
    tmp_path: Path, spark: "SparkSession", change: Callable[[dict[str, Any]], object]
) -> None:
    numbers, texts = found(spark, write(tmp_path, changed(change)))
    assert numbers == [51] and texts == [tables.IMPOSSIBLE]


def test_files_of_both_formats_lie_side_by_side(tmp_path: Path, spark: "SparkSession") -> None:
    json_file = write(tmp_path, b"".join(json.dumps(line).encode() + b"\n" for line in LINES), "m4-6700.jsonl")
    avro_file = write(tmp_path, WHOLE)
    lines = tables.worker_lines(spark, [json_file, avro_file])
    assert lines.count() == 200 and lines.where("damaged_text is null").count() == 200
    for name in ("task_samples", "sink_samples", "source_samples", "worker_samples"):
        one, other = (
            sorted(map(repr, tables.view(lines.where(f"file = 'workers/{file.name}'"), name).collect()))
            for file in (json_file, avro_file)
        )
        assert one == other and one
