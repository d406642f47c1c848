"""Text -> parsed and damaged lines. A first look at each file needs no Spark; the whole of it never leaves Spark."""

import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.errors import ForeignLogError
from analysis.readers.contract import Reader, Source

LOOKED_AT = 1000
SHOWN_CHARACTERS = 80
# More damaged lines than good ones: a file of another kind that happens to hold some lines of ours.
MOST_DAMAGED = 0.5


def numbered(file: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1; `.gz` is unpacked on the way."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def first_look(format: str, sources: Sequence[Source], readers: Mapping[str, Reader]) -> None:
    """Refuse what is empty, given twice or of another format, by the beginning of each file."""
    if not sources:
        raise ForeignLogError(f"no file was given; give one or more {format} logs")
    names = [source.file for source in sources]
    for twice in {file for file in names if names.count(file) > 1}:
        raise ForeignLogError(f"{twice}: given twice; give every file once")
    for source in sources:
        _look(format, source.file, readers)


def _look(format: str, file: Path, readers: Mapping[str, Reader]) -> None:
    try:
        beginning = list(islice(numbered(file), LOOKED_AT))
    except (OSError, EOFError) as error:
        raise ForeignLogError(f"{file}: cannot be read: {error}") from error
    if not beginning:
        raise ForeignLogError(f"{file}: is empty; wanted are {format} lines such as {readers[format].example!r}")
    if not _matches(readers[format], beginning):
        other = next((name for name, reader in readers.items() if _matches(reader, beginning)), None)
        advice = f"; it looks like {other}: read it as that, apart from the others" if other else ""
        raise _wrong(format, readers[format], file, *beginning[0], advice)


def _matches(reader: Reader, beginning: Sequence[tuple[int, str]]) -> bool:
    return any(re.search(reader.pattern, line) for _, line in beginning)


def _wrong(format: str, reader: Reader, file: Path, number: int, line: str, advice: str = "") -> ForeignLogError:
    seen = line[:SHOWN_CHARACTERS]
    return ForeignLogError(
        f"{file}: line {number} is {seen!r}; wanted is a {format} line such as {reader.example!r}{advice}"
    )


def text(spark: SparkSession, sources: Sequence[Source]) -> DataFrame:
    """Every line that is not blank: `file` (its path) and `line`."""
    path = f.regexp_replace(f.url_decode(f.col("_metadata.file_path")), "^file:/+", "/")
    frame = spark.read.schema("value string").text([_escaped(source.file) for source in sources])
    return frame.where(f.trim("value") != "").select(path.alias("file"), f.col("value").alias("line"))


def _escaped(file: Path) -> str:
    """Spark reads a path as a glob."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(file))


def parsed(text: DataFrame, reader: Reader) -> DataFrame:
    """`file`, `damaged` (the beginning of a line that does not fit, else null), and a string column a group."""
    pattern = reader.pattern
    columns = [f.regexp_extract("line", pattern, number).alias(group) for number, group in enumerate(reader.groups, 1)]
    fits: Column = f.regexp_like("line", f.lit(pattern))
    return text.select("file", f.when(~fits, f.col("line")).alias("damaged"), *columns)


def counts(parsed: DataFrame, format: str, reader: Reader) -> dict[str, tuple[int, int]]:
    """Lines and damaged lines of every file; a file of mostly damaged lines is refused."""
    rows = parsed.groupBy("file").agg(f.count("*").alias("lines"), f.count("damaged").alias("damaged")).collect()
    for row in rows:
        if row.damaged > MOST_DAMAGED * row.lines:
            number, line = first_misfit(Path(row.file), reader)
            advice = f"; {row.damaged} of {row.lines} lines are not of this format: take them out or give another file"
            raise _wrong(format, reader, Path(row.file), number, line, advice)
    return {row.file: (row.lines, row.damaged) for row in rows}


def first_misfit(file: Path, reader: Reader) -> tuple[int, str]:
    """Streams through the file: only a message needs it."""
    return next((number, line) for number, line in numbered(file) if not re.search(reader.pattern, line))
