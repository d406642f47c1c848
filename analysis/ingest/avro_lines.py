"""Lines of workers' Avro files as rows of Spark. Each is decoded only if its checksum says that it is as the worker
wrote it, so damage costs the lines that it hits, in whatever part of a file, and no second reading.

Spark splits a file at the marker between its blocks, as it splits text into lines, and decodes what lies between. Its
own source of Avro files ends a file at the first damage, and takes a file's cut end for the end. See
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
    """Files that begin alike, or folders of such files: their workers wrote them by one schema."""

    header: worker_files.Header
    files: tuple[str, ...]

    @property
    def absent(self) -> dict[str, set[str]]:
        """Columns of ours that the schema lacks, by group."""
        own, theirs = _columns(worker_files.SCHEMA), _columns(self.header.schema)
        return {group: own[group] - theirs.get(group, set()) for group in own}


def writers(files: Sequence[str], heads: Heads) -> list[Writer]:
    """Files by how they begin. Where that is no header they count as ours, for lines after it may be whole."""
    ours = worker_files.header()
    alike: dict[worker_files.Header, list[str]] = defaultdict(list)
    for file, head in zip(files, heads(files, HEAD_BYTES), strict=True):
        alike[worker_files.header_of(head) or ours].append(file)
    return [Writer(header, tuple(names)) for header, names in alike.items()]


def blocks(spark: SparkSession, writer: Writer, place: Sequence[Column]) -> DataFrame:
    """A row a block or what is left of one: `place`, `bytes`, and its line's columns, all null in a damaged one."""
    from pyspark.sql.avro.functions import from_avro

    reader = spark.read.option("lineSep", worker_files.MARKER.decode())
    raw = reader.option("pathGlobFilter", f"*{worker_files.SUFFIX}").text(list(writer.files))
    rows = raw.select(*place, f.col("value").cast("binary").alias("bytes")).where(
        f.col("bytes") != f.lit(writer.header.content)
    )
    summed = f.crc32(f.concat(f.lit(writer.header.checksum), f.col("bytes")))
    whole = f.when(summed == worker_files.RESIDUE, f.col("bytes"))
    theirs, ours = (json.dumps(worker_files.framed(schema)) for schema in (writer.header.schema, worker_files.SCHEMA))
    line = from_avro(whole, theirs, {"mode": "PERMISSIVE", "avroSchema": ours})
    names = [field["name"] for field in worker_files.SCHEMA["fields"] if field["name"] != worker_files.CHECKSUM]
    return rows.select("*", line.alias("line")).select(
        *rows.columns, *[f.col(f"line.`{name}`").alias(name) for name in names]
    )


def _columns(schema: worker_files.Schema) -> dict[str, set[str]]:
    """Columns by group."""
    found = {}
    for field in schema["fields"]:
        if field["name"] in GROUPS and isinstance(field["type"], list):
            (group,) = (kind for kind in field["type"] if kind != "null")
            found[field["name"]] = {column["name"] for column in group["fields"]}
    return found
