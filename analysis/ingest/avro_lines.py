"""Lines of workers' Avro files as rows of Spark. A line is decoded only if its checksum proves it unchanged,
so damage costs only the lines that it hits, in any part of a file, and no second reading.

Spark splits a file at the marker between its blocks, as it splits text into lines, and decodes the parts. Its
own source of Avro files stops reading a file at the first damage, and takes the cut end of a file for its end. See
docs/decisions/measuring.md.
"""

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.record import worker_files


def blocks(spark: SparkSession, files: Sequence[str], place: Sequence[Column]) -> DataFrame:
    """Return a row a block or part of one: `place`, `bytes`, and its line's columns, all null in a damaged one.
    `files`: or folders of them."""
    from pyspark.sql.avro.functions import from_avro

    reader = spark.read.option("lineSep", worker_files.MARKER.decode())
    texts = reader.option("pathGlobFilter", f"*{worker_files.SUFFIX}").text(list(files))
    rows = texts.select(*place, f.col("value").cast("binary").alias("bytes")).where(
        f.col("bytes") != f.lit(worker_files.header())
    )
    checksum = f.crc32(f.concat(f.lit(worker_files.SCHEMA_CHECKSUM), f.col("bytes")))
    valid_bytes = f.when(checksum == worker_files.RESIDUE, f.col("bytes"))
    line = from_avro(valid_bytes, json.dumps(worker_files.framed()), {"mode": "PERMISSIVE"})
    names = [field["name"] for field in worker_files.SCHEMA["fields"] if field["name"] != worker_files.CHECKSUM]
    return rows.select("*", line.alias("line")).select(
        *rows.columns, *[f.col(f"line.`{name}`").alias(name) for name in names]
    )
