"""The contract of a reader (a pattern, an example of a line for messages, its options, lines -> samples), and the steps
before all readers: options of a file and text -> parsed and damaged lines.

Options come from the caller and, with precedence, from `<file>.yaml` beside the file. The check of a file's
beginning needs no Spark; the whole of a file never leaves Spark.
"""

import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from barograph.errors import ConfigurationError, Say
from scheduler_plugins.model import SINKS


class ReaderOptions(BaseModel):
    """The facts that a log lacks; every reader adds its own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class LogSource:
    """A file to read, with its options."""

    file: Path
    options: ReaderOptions


@dataclass(frozen=True)
class RunFacts:
    """The input of one run's `run.json` and `events.jsonl`. `sinks` None: found in the samples. `throughput`: where it
    is measured. `note`: what the reader had to mend."""

    run: str
    variant: str
    repetition: int
    topology: str | None
    scaled_at_s: float | None
    scale_event: str
    sinks: tuple[str, ...] | None = None
    throughput: str = SINKS
    note: str | None = None


@dataclass(frozen=True)
class LogFormat:
    """What every reader has. `pattern` is valid in Python and in Java; its groups become the string columns `groups`,
    in order."""

    pattern: str
    groups: tuple[str, ...]
    example: str
    options: type[ReaderOptions]


@dataclass(frozen=True)
class SeriesReader(LogFormat):
    """A reader of several topologies, or of more than counts of tuples. `write`: parsed lines, sources, the series, a
    folder for its stages, what all runs' records have, a function for lines to the user -> the runs that it wrote."""

    write: Callable[[DataFrame, Sequence[LogSource], SeriesPaths, Path, Mapping[str, Any], Say], list[str]]


@dataclass(frozen=True)
class LogReader(LogFormat):
    """A reader of counts of tuples.

    `samples`: parsed lines (the groups as strings, `file`) -> frame of `samples.COLUMNS`.
    `runs`: parsed lines -> the facts of every run; may raise ConfigurationError. `run_of_file`: file -> its first run.
    """

    samples: Callable[[DataFrame, Sequence[LogSource]], DataFrame]
    runs: Callable[[DataFrame, Sequence[LogSource]], Mapping[str, RunFacts]]
    run_of_file: Callable[[DataFrame, Sequence[LogSource]], Mapping[str, str]]


def source_with_options(reader: LogFormat, file: Path, options: Mapping[str, Any]) -> LogSource:
    """Return a file with its options; ConfigurationError names file, field, value and what is allowed."""
    if not file.is_file():
        raise ConfigurationError(f"{file}: no such file")
    path = options_file(file)
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(document, Mapping | None):
        raise ConfigurationError(f"{path}: holds a {type(document).__name__}; give options as `name: value` lines")
    try:
        return LogSource(file.absolute(), reader.options.model_validate({**options, **(document or {})}))
    except ValidationError as error:
        first, names = error.errors()[0], ", ".join(reader.options.model_fields)
        place, field = path if path.is_file() else "options", ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise ConfigurationError(f"{place}: unknown option {field!r}; there are {names}") from error
        fault = f"{field} is {first['input']!r}: {first['msg'].lower()}"
        raise ConfigurationError(f"{place}: {fault}; options are {names}") from error


def options_file(file: Path) -> Path:
    return file.with_name(file.name + ".yaml")


CHECK_LINES = 1000
EXCERPT_CHARACTERS = 80
# More damaged lines than good ones: a file of another kind that happens to contain some lines of ours.
DAMAGED_SHARE = 0.5


def numbered_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield lines that are not blank, with their numbers from 1; `.gz` is unpacked on the way."""
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def check_formats(format: str, sources: Sequence[LogSource], readers: Mapping[str, LogFormat]) -> None:
    """Refuse files that are empty, given twice or of another format, by the beginning of each."""
    if not sources:
        raise ConfigurationError(f"no file was given; give one or more {format} logs")
    names = [source.file for source in sources]
    for twice in {file for file in names if names.count(file) > 1}:
        raise ConfigurationError(f"{twice}: given twice; give every file once")
    for source in sources:
        _check_format(format, source.file, readers)


def _check_format(format: str, file: Path, readers: Mapping[str, LogFormat]) -> None:
    try:
        beginning = list(islice(numbered_lines(file), CHECK_LINES))
    except (OSError, EOFError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error
    if not beginning:
        raise ConfigurationError(f"{file}: is empty; wanted are {format} lines such as {readers[format].example!r}")
    if not _matches(readers[format], beginning):
        other = next((name for name, reader in readers.items() if _matches(reader, beginning)), None)
        advice = f"; it looks like {other}: read it as that, apart from the others" if other else ""
        raise _format_error(format, readers[format], file, *beginning[0], advice)


def _matches(reader: LogFormat, beginning: Sequence[tuple[int, str]]) -> bool:
    return any(re.search(reader.pattern, line) for _, line in beginning)


def _format_error(
    format: str, reader: LogFormat, file: Path, number: int, line: str, advice: str = ""
) -> ConfigurationError:
    excerpt = line[:EXCERPT_CHARACTERS]
    return ConfigurationError(
        f"{file}: line {number} is {excerpt!r}; wanted is a {format} line such as {reader.example!r}{advice}"
    )


def read_text(spark: SparkSession, sources: Sequence[LogSource], folder: Path) -> DataFrame:
    """Return every line that is not blank: `file` (its path), `place` (ascending in it) and `line`. Spark reads
    links in `folder`, because it takes characters of a name for a pattern or a scheme, and leaves some names out."""
    folder.mkdir()
    links = [
        f"{number}{source.file.suffix if source.file.suffix == '.gz' else ''}" for number, source in enumerate(sources)
    ]
    for link, source in zip(links, sources, strict=True):
        (folder / link).symlink_to(source.file)
    rows = [(link, str(source.file)) for link, source in zip(links, sources, strict=True)]
    names = small_tables.frame_of_rows(spark, rows, "link string, file string")
    frame = spark.read.schema("value string").text([str(folder / link) for link in links])
    place = f.monotonically_increasing_id().alias("place")
    return (
        frame.select(f.col("_metadata.file_name").alias("link"), place, "value")
        .where(f.trim("value") != "")
        .join(f.broadcast(names), "link", how="inner")
        .select("file", "place", f.col("value").alias("line"))
    )


def parse_lines(text: DataFrame, reader: LogFormat) -> DataFrame:
    """Return `file`, `place`, `damaged` (the beginning of a line that does not fit, else null), and a string column a
    group."""
    pattern = reader.pattern
    columns = [f.regexp_extract("line", pattern, number).alias(group) for number, group in enumerate(reader.groups, 1)]
    fits: Column = f.regexp_like("line", f.lit(pattern))
    return text.select("file", "place", f.when(~fits, f.col("line")).alias("damaged"), *columns)


def count_lines(parsed: DataFrame, format: str, reader: LogFormat) -> dict[str, tuple[int, int]]:
    """Return lines and damaged lines of every file; a file of mostly damaged lines is refused."""
    rows = parsed.groupBy("file").agg(f.count("*").alias("lines"), f.count("damaged").alias("damaged")).collect()
    for row in rows:
        if row.damaged > DAMAGED_SHARE * row.lines:
            number, line = first_mismatch(Path(row.file), reader)
            advice = f"; {row.damaged} of {row.lines} lines are not of this format: take them out or give another file"
            raise _format_error(format, reader, Path(row.file), number, line, advice)
    return {row.file: (row.lines, row.damaged) for row in rows}


def first_mismatch(file: Path, reader: LogFormat) -> tuple[int, str]:
    """Stream through the file to find the first line that does not fit, for a message."""
    return next((number, line) for number, line in numbered_lines(file) if not re.search(reader.pattern, line))
