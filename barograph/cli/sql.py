"""`barograph sql`: select the series, run the query in Spark SQL, and print or write the rows.

Rows are aligned for people, CSV or JSON for programs. Errors that need no Spark are reported before Spark starts.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import session, sql
from analysis.record.files import experiment_of, series_folders
from analysis.record.schemas import TABLES
from analysis.record.simulated import is_of_testbed, is_simulated_series, simulated_words
from barograph.cli.arguments import add_testbed_choice
from barograph.cli.terminal import note, say
from barograph.errors import ConfigurationError, ExperimentError
from barograph.series.series import find_series
from barograph.settings import spark_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from analysis.sql import SeriesTables
    from barograph.errors import Say
    from barograph.series.results import Results


Row = Sequence[object]
WIDEST = 60  # of a cell on a terminal; programs get all of it
DIGITS = 6


EPILOG = (
    "A missing measurement is null, never 0. Columns that end in _s are seconds (t_s, zero_s, started_s: since the"
    " epoch), in _ms milliseconds. A table's key tells its rows apart within one series."
)


def add_sql_arguments(sql: argparse.ArgumentParser) -> None:
    sql.epilog = EPILOG
    add = sql.add_argument
    add("query", nargs="?", help="'select …'; every table has the columns experiment and series_id")
    of = sql.add_mutually_exclusive_group()
    of.add_argument(
        "--series", metavar="SERIES", help="only this one: its folder or id, or an experiment for its newest"
    )
    of.add_argument("--experiment", metavar="FAMILY/NAME", help="only the series of this experiment")
    add_testbed_choice(sql)
    add("--format", choices=("table", "csv", "json"), default="table", help="how rows are shown (default table)")
    add("--to", type=Path, metavar="FILE.parquet", help="write the rows to this file instead")
    add("--limit", type=int, metavar="N", help="rows to show (default 50 of a table, else all)")
    add("--tables", action="store_true", help="list the tables; no query is run")
    add("--describe", metavar="TABLE", help="show the columns of a table, or of all: types, units, meanings")


def execute_sql(options: argparse.Namespace) -> int:
    if options.tables or options.describe:
        say("\n".join(table_description(options.describe) if options.describe else table_list()))
        return 0
    if options.query is None:
        raise ConfigurationError(
            'give a query: barograph sql "select …"; --tables and --describe TABLE say what there is'
        )
    request = SqlRequest(
        options.query, options.series, options.experiment, options.format, options.to, options.limit, options.testbed
    )
    return run_query(request, note)


def as_table(columns: Sequence[str], rows: Iterator[Row], widest: int = WIDEST) -> Iterator[str]:
    """Yield the rows as a table, numbers to the right. All rows are in memory to compute widths, so limit them."""
    all_rows = list(rows)
    cells = [[_cell(value, widest) for value in row] for row in all_rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    alignments = [
        bool(all_rows) and all(_number(row[i]) or row[i] is None for row in all_rows) for i in range(len(columns))
    ]
    yield _line(columns, widths, alignments)
    yield _line(["-" * width for width in widths], widths, alignments)
    for row in cells:
        yield _line(row, widths, alignments)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    columns = zip(texts, widths, right, strict=True)
    cells = (f"{text:>{width}}" if to_right else f"{text:<{width}}" for text, width, to_right in columns)
    return "  ".join(cells).rstrip() + "\n"


def _number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: object, widest: int) -> str:
    text = f"{value:.{DIGITS}g}" if isinstance(value, float) and abs(value) < 10**DIGITS else _text(value)
    text = " ".join(text.split())
    return text if len(text) <= widest else f"{text[: widest - 1]}…"


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def as_csv(columns: Sequence[str], rows: Iterator[Row]) -> Iterator[str]:
    """Yield the rows as CSV: null is an empty cell, lists are JSON."""
    yield _csv_line(columns)
    for row in rows:
        yield _csv_line(["" if value is None else _text(value) for value in row])


def _csv_line(texts: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(texts)
    return buffer.getvalue()


def as_json(columns: Sequence[str], rows: Iterator[Row]) -> Iterator[str]:
    """Yield a JSON list of objects, one a line. JSON has no NaN and no infinity: they are texts."""
    prefix = "[\n"
    for row in rows:
        pairs = zip(columns, row, strict=True)
        yield prefix + json.dumps({name: _plain(value) for name, value in pairs}, ensure_ascii=False, allow_nan=False)
        prefix = ",\n"
    yield "[]\n" if prefix == "[\n" else "\n]\n"


def _plain(value: object) -> object:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if hasattr(value, "asDict"):  # a struct of Spark's
        return _plain(value.asDict())
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


FORMATS: dict[str, Callable[[Sequence[str], Iterator[Row]], Iterator[str]]] = {
    "table": as_table, "csv": as_csv, "json": as_json,
}  # fmt: skip


TABLE_ROWS = 50  # of a table on a terminal, without --limit


@dataclass(frozen=True)
class SqlRequest:
    """A query. `limit`: rows to show; None: 50 of a table, all otherwise. `testbed`: only series from it; None: all but
    simulated ones, where no series is named."""

    query: str
    series: str | None
    experiment: str | None
    format: str
    to: Path | None
    limit: int | None
    testbed: str | None = None


def run_query(request: SqlRequest, say: Say) -> int:
    """Print or write the rows of the query; notes go to `say`. Raises errors that need no Spark before Spark starts."""
    query = sql.require_query(request.query)
    require_target(request)
    place, folders = _select_series(request, say)
    stored = [one for folder in folders if (one := place.tables(folder))]
    _require_tables(stored, folders, request)
    with _session(place, stored, say) as spark:
        sql.silence_spark(spark)
        sql.open_views(spark, query, stored, say)
        frame = sql.run_query(spark, query)
        if request.to is not None:
            parent = request.to.absolute().parent
            with tempfile.TemporaryDirectory(prefix=".sql-", dir=parent) as scratch:
                if not session.is_local(spark_master()):
                    session.require_shared_folder(frame.sparkSession, Path(scratch))
                with sql.query_errors():
                    frame.coalesce(1).write.parquet(f"file://{scratch}/answer")
                (part,) = (Path(scratch) / "answer").glob("*.parquet")
                part.rename(request.to.absolute())
            say(f"answer: {request.to}")
            return 0
        if request.format == "json" and len(set(frame.columns)) < len(frame.columns):
            raise ConfigurationError(
                f"two columns of the answer have one name ({', '.join(frame.columns)}); name them with `as`"
            )
        limit = TABLE_ROWS if request.limit is None and request.format == "table" else request.limit
        rows = sql.stream_rows(frame, None if limit is None else limit + 1)
        visible = islice(rows, limit)
        for line in FORMATS[request.format](frame.columns, visible):
            sys.stdout.write(line)
        sys.stdout.flush()
        if next(rows, None) is not None:
            more = "--limit N shows more, --format csv or --to FILE.parquet has all"
            say(f"only the first {limit} rows are shown; {more}")
    return 0


def require_target(request: SqlRequest) -> None:
    if request.limit is not None and request.limit < 1:
        raise ConfigurationError(f"--limit is {request.limit}; give 1 or more")
    if request.to is None:
        return
    if request.to.suffix != ".parquet":
        raise ConfigurationError(f"--to {request.to} does not end in .parquet; of other formats: --format csv > FILE")
    if request.to.exists():
        raise ConfigurationError(f"--to {request.to} exists; nothing is overwritten: give another name, or remove it")
    if not request.to.absolute().parent.is_dir():
        raise ConfigurationError(f"--to {request.to}: there is no folder {request.to.absolute().parent}; make it")


def _select_series(request: SqlRequest, say: Say) -> tuple[Results, list[Path]]:
    """Return the series to query and the place of their results. Simulated rows never mix with measured ones."""
    from barograph.plan.experiment import SIMULATED
    from barograph.series.results import results, results_of

    if request.series is not None:
        folder = find_series(request.series, request.testbed)
        if is_simulated_series(folder):
            say(f"{folder.name} is simulated")
        return results_of(folder), [folder]
    place = results()
    place.refresh(request.experiment or "")
    folders = series_folders(place.root)
    experiment = request.experiment
    mine = [folder for folder in folders if experiment is None or experiment_of(folder) == experiment]
    folders_of_testbed = [folder for folder in mine if is_of_testbed(folder, request.testbed)]
    left_out = [folder for folder in mine if folder not in folders_of_testbed and is_simulated_series(folder)]
    if left_out and not folders_of_testbed:
        raise ExperimentError(f"{simulated_words(len(left_out))}, and no other is there; add --testbed {SIMULATED}")
    if words := simulated_words(len(left_out)):
        say(f"{words}; --testbed {SIMULATED} asks {'it' if len(left_out) == 1 else 'them'}")
    if not mine and experiment is not None:
        names = sorted({experiment_of(folder) for folder in folders})
        raise ExperimentError(
            f"no series of {request.experiment!r}; there are series of {', '.join(names) or 'nothing'}"
        )
    return place, folders_of_testbed


def _require_tables(stored: Sequence[SeriesTables], folders: Sequence[Path], request: SqlRequest) -> None:
    if stored:
        return
    if folders:
        where = request.series or request.experiment or "here"
        raise ConfigurationError(
            f"none of {len(folders)} series ({where}) is analysed; barograph report SERIES does it"
        )
    raise ConfigurationError("there are no results yet; barograph run EXPERIMENT makes some, or set BAROGRAPH_RESULTS")


@contextmanager
def _session(place: Results, stored: Sequence[SeriesTables], say: Say) -> Iterator[SparkSession]:
    master = spark_master()
    spark = session.spark(master, settings=place.spark_settings(say))
    with session.stopped_afterwards(spark):
        if not session.is_local(master) and all(one.local for one in stored):
            session.require_shared_folder(spark, place.root)
        yield spark


def table_list() -> list[str]:
    """Return a line for each table."""
    width = max(len(name) for name in TABLES)
    return [f"{table.name:{width}}  {table.meaning}" for table in TABLES.values()]


def table_description(name: str) -> list[str]:
    """Return the columns of one table, or of `all`. Raises ConfigurationError for an unknown table."""
    if name == "all":
        return [line for each in TABLES for line in (*table_description(each), "")]
    if name not in TABLES:
        matches = difflib.get_close_matches(name, TABLES, n=1)
        guess = f"did you mean {matches[0]}? " if matches else ""
        raise ConfigurationError(f"no table {name!r}; {guess}there are {', '.join(TABLES)}")
    table = TABLES[name]
    view = "; a view of worker_lines, without files" if table.group else ""
    rows = (astuple(column) for column in table.columns)
    heads = ("column", "type", "unit", "meaning", "null when")
    lines = "".join(as_table(heads, rows, widest=sys.maxsize)).splitlines()
    return [
        f"{table.name}: {table.meaning}{view}",
        f"key: {', '.join(table.key)} (with series_id across series)",
        *lines,
    ]
