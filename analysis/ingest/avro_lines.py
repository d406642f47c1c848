"""Lines of workers' Avro files as rows of Spark. A line is decoded only if its checksum proves it unchanged,
so damage costs only the lines that it hits, in any part of a file, and no second reading.

Spark splits a file at the marker between its blocks, as it splits text into lines, and decodes the parts. Its
own source of Avro files stops reading a file at the first damage, and takes the cut end of a file for its end. See
docs/decisions/measuring.md.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.record import worker_files
from analysis.record.schemas import GROUPS

HEAD_BYTES = 1 << 14  # the header has 4 kB
Heads = Callable[[Sequence[str], int], Iterator[bytes]]


@dataclass(frozen=True)
class Writer:
    """Files with equal headers, or folders of such files: their workers wrote them by one schema."""

    header: worker_files.Header
    files: tuple[str, ...]

    @property
    def absent(self) -> dict[str, set[str]]:
        """Return columns of ours that the schema lacks, by group."""
        columns, written = _columns(worker_files.SCHEMA), _columns(self.header.schema)
        return {group: columns[group] - written.get(group, set()) for group in columns}


def writers(files: Sequence[str], heads: Heads) -> list[Writer]:
    """Group files by header. A file without a valid one counts as ours, because lines after it may be whole."""
    default = worker_files.header()
    files_by_header: dict[worker_files.Header, list[str]] = defaultdict(list)
    for file, head in zip(files, heads(files, HEAD_BYTES), strict=True):
        files_by_header[worker_files.header_of(head) or default].append(file)
    return [Writer(header, tuple(names)) for header, names in files_by_header.items()]


def blocks(spark: SparkSession, writer: Writer, place: Sequence[Column]) -> DataFrame:
    """Return a row a block or part of one: `place`, `bytes`, and its line's columns, all null in a damaged one."""
    from pyspark.sql.avro.functions import from_avro

    reader = spark.read.option("lineSep", worker_files.MARKER.decode())
    texts = reader.option("pathGlobFilter", f"*{worker_files.SUFFIX}").text(list(writer.files))
    rows = texts.select(*place, f.col("value").cast("binary").alias("bytes")).where(
        f.col("bytes") != f.lit(writer.header.content)
    )
    checksum = f.crc32(f.concat(f.lit(writer.header.checksum), f.col("bytes")))
    valid_bytes = f.when(checksum == worker_files.RESIDUE, f.col("bytes"))
    written, expected = (
        json.dumps(worker_files.framed(schema)) for schema in (writer.header.schema, worker_files.SCHEMA)
    )
    line = from_avro(valid_bytes, written, {"mode": "PERMISSIVE", "avroSchema": expected})
    names = [field["name"] for field in worker_files.SCHEMA["fields"] if field["name"] != worker_files.CHECKSUM]
    return rows.select("*", line.alias("line")).select(
        *rows.columns, *[f.col(f"line.`{name}`").alias(name) for name in names]
    )


def _columns(schema: worker_files.Schema) -> dict[str, set[str]]:
    """Return columns by group."""
    columns = {}
    for field in schema["fields"]:
        if field["name"] in GROUPS and isinstance(field["type"], list):
            (group,) = (kind for kind in field["type"] if kind != "null")
            columns[field["name"]] = {column["name"] for column in group["fields"]}
    return columns
