"""Spark SQL over the tables of analysed series: each table is a view of all of them, with a column for the series.

Only the tables that a query names are read. A note names series that lack one, or have it from another version with
other columns: they are left out.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, experiment_of
from analysis.record.schemas import TABLES, WORKER_LINES
from barograph.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SERIES = ("experiment", "series_id")
OF_FOLDER = tuple(f"{column}_of_folder" for column in SERIES)
QUERY = re.compile(r"\(*\s*(select|with|values|table)\b", re.IGNORECASE)
COMMENT = re.compile(r"--[^\n]*(\n|\Z)|/\*.*?\*/", re.DOTALL)
# In Spark's path of a row's file: everything above the table's own folder.
ABOVE = r"^(?:file:)?/*(.*)/[^/]+\.parquet/[^/]+$"
MOST_LISTED = 3  # series named in a note
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] ")  # at the beginning of Spark's messages
MESSAGE_CHARACTERS = 300  # characters of Spark's message
UNREADABLE = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER")


@dataclass(frozen=True)
class SeriesTables:
    """The location of one series' tables. `folder`: in Spark's notation; `local`: this process can read it too."""

    experiment: str
    series_id: str
    folder: str
    names: frozenset[str]
    local: bool = True

    def table(self, name: str) -> str:
        return f"{self.folder}/{name}.parquet"

    def has(self, name: str) -> bool:
        """Return whether there is such a table or view."""
        return _source(name) in self.names


def tables_on_disk(series_dir: Path) -> SeriesTables | None:
    """Return the tables; None if the series was not analysed."""
    root = series_dir.absolute()
    folder = root / "tables"
    names = frozenset(path.parent.stem for path in folder.glob("*.parquet/*.parquet"))
    if not names:
        return None
    return SeriesTables(experiment_of(root), root.name, str(folder), names & frozenset(TABLES))


def require_query(text: str) -> str:
    """Return the query without its terminator. Raises ConfigurationError for a statement that changes data, before
    Spark starts."""
    query = text.strip().rstrip(";").rstrip()
    begin = COMMENT.sub(" ", query).strip()
    if not QUERY.match(begin):
        fault = f"begins with {begin.split()[0]!r}" if begin else "is empty"
        raise ConfigurationError(f"the query {fault}; tables are only read: give select …, with … select … or values …")
    return query


def tables_in(query: str) -> list[str]:
    """Return tables whose name is a word of the query; a superfluous one costs a moment, but changes no answer."""
    words = set(re.findall(r"\w+", query.lower()))
    return [name for name in TABLES if name in words]


# --- views -----------------------------------------------------------------------------------------------------------


def open_views(spark: SparkSession, query: str, stored: Sequence[SeriesTables], tell: Callable[[str], None]) -> None:
    """Create a view for every table that the query names; pass differences between series to `tell`."""
    for name in tables_in(query):
        holders = [series for series in stored if series.has(name)]
        if rest := [series for series in stored if not series.has(name)]:
            tell(f"{name}: no such table in {_series_list(rest, len(stored))}; left out")
        view(spark, name, holders, tell).createOrReplaceTempView(name)


def view(spark: SparkSession, name: str, having: Sequence[SeriesTables], tell: Callable[[str], None]) -> DataFrame:
    """Return one table of several series, with its declared columns after `experiment` and `series_id`."""
    from pyspark.sql import functions as f

    from analysis.ingest import tables

    source = _source(name)
    readable = [series for series in having if _is_readable(spark, series, source, tell)]
    if not readable:
        nobody = [f.lit(None).cast("string").alias(column) for column in SERIES]
        return small_tables.empty_frame(spark, TABLES[name].ddl).select(*nobody, *_own_columns(name))
    rows = _read(spark, source, readable)
    return tables.view(rows, name, SERIES) if TABLES[name].group else rows


def _source(name: str) -> str:
    """Return the stored table of a table or view."""
    return WORKER_LINES.name if TABLES[name].group else name


def _read(spark: SparkSession, name: str, stored: Sequence[SeriesTables]) -> DataFrame:
    """Return rows of a stored table; the path of a row's file gives its series."""
    from pyspark.sql import functions as f

    folders = small_tables.frame_of_rows(
        spark,
        [(each.folder.lstrip("/"), each.experiment, each.series_id) for each in stored],
        f"above string, {', '.join(f'{column} string' for column in OF_FOLDER)}",
    )
    # A plus in a path is a plus; decoding would make a space of it.
    path = f.url_decode(f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B")))
    read = spark.read.schema(TABLES[name].ddl).parquet(*[each.table(name) for each in stored])
    rows = read.select(f.regexp_extract(path, ABOVE, 1).alias("above"), *_own_columns(name))
    series = [f.col(source).alias(column) for column, source in zip(SERIES, OF_FOLDER, strict=True)]
    return rows.join(f.broadcast(folders), "above", how="left").select(*series, *_own_columns(name))


def _own_columns(name: str) -> list[str]:
    """Return the columns of the table itself."""
    return [f"`{column.name}`" for column in TABLES[name].columns if column.name not in SERIES]


def _is_readable(spark: SparkSession, series: SeriesTables, name: str, tell: Callable[[str], None]) -> bool:
    """Return whether a stored table can be read and has the declared columns; if not, say so."""
    try:
        if series.local:
            small_tables.check(SeriesPaths(Path(series.folder).parent), [name])
        else:
            small_tables.require_columns(series.table(name), name, spark.read.parquet(series.table(name)).columns)
    except RecordError as error:
        tell(f"left out: {error}")
        return False
    return True


def _series_list(some: Sequence[SeriesTables], of: int) -> str:
    ids = [series.series_id for series in some[:MOST_LISTED]] + (["…"] if len(some) > MOST_LISTED else [])
    return f"{len(some)} of {of} series ({', '.join(ids)})"


# --- asking ----------------------------------------------------------------------------------------------------------


def run_query(spark: SparkSession, query: str) -> DataFrame:
    """Return the answer, not yet computed. Raises ConfigurationError with a message of one line."""
    with query_errors():
        plan = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)  # Spark's own parser
        if "Insert" in plan.getClass().getSimpleName() or re.search(r"'Insert\w+", plan.toString()):
            raise ConfigurationError("the query writes; tables are only read: give select …")
        return spark.sql(query)


@contextmanager
def query_errors() -> Iterator[None]:
    """Turn Spark's errors about a query into a ConfigurationError of one line that names the alternatives. Other errors
    pass."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        parameters = error.getMessageParameters() or {}
        fault = _query_error(error.getCondition() or "", error.getMessage() or str(error), parameters)
        if fault is None:
            raise
        raise fault from error
    except Py4JJavaError as error:  # of a task: the reason is somewhere among the causes
        cause = error.java_exception
        while cause is not None and not CONDITION.match(str(cause.getMessage())):
            cause = cause.getCause()
        message = "" if cause is None else str(cause.getMessage())
        match = CONDITION.match(message)
        fault = _query_error(match[1], message, {}) if match else None
        if fault is None:
            raise
        raise fault from error


def _query_error(condition: str, message: str, parameters: Mapping[str, str]) -> Exception | None:
    """Return None if Spark does not blame the query. `condition`: Spark's name of the error."""
    text = " ".join(message.partition("JVM stacktrace")[0].split())
    text = text if len(text) <= MESSAGE_CHARACTERS else f"{text[:MESSAGE_CHARACTERS]} …"
    if condition.startswith(UNREADABLE):
        return RecordError(f"{text}; analyse that series again: barograph report SERIES")
    if not condition or condition.startswith("INTERNAL_ERROR"):
        return None
    names = {key: value.replace("`", "") for key, value in parameters.items()}
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        name = names.get("relationName", "?")
        guess = "".join(f"did you mean {each}? " for each in difflib.get_close_matches(name, TABLES, n=1))
        text = f"no table {name!r}; {guess}there are {', '.join(TABLES)}"
    elif condition.startswith("UNRESOLVED_COLUMN"):
        proposal = names.get("proposal", "")
        suggestion = f"; is it one of {proposal}?" if proposal else ""
        text = f"no column {names.get('objectName', '?')!r} in the tables asked{suggestion}"
    return ConfigurationError(text)


def silence_spark(spark: SparkSession) -> None:
    """Silence Spark's three reports of a query's error; ours is one line."""
    from pyspark.logger import PySparkLogger

    spark.sparkContext.setLogLevel("OFF")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def stream_rows(frame: DataFrame, most: int | None) -> Iterator[Sequence[object]]:
    """Yield rows in order as they arrive; at most `most` of them."""
    with query_errors():
        yield from (frame if most is None else frame.limit(most)).toLocalIterator()
