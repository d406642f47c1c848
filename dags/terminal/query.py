"""`barograph sql`: which series are asked, what Spark is started for, and where the answer goes."""

from __future__ import annotations

import difflib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import dictionary
from analysis.errors import QueryError
from dags.errors import ExperimentError
from dags.terminal import answer_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from analysis.sql import Stored
    from dags.results import Results, Tell

LINES = 50  # of a table on a terminal, unless said


@dataclass(frozen=True)
class Asked:
    """`limit`: rows to show; None: 50 of a table, all of anything else."""

    query: str
    series: str | None
    experiment: str | None
    format: str
    to: Path | None
    limit: int | None


def answer(asked: Asked, tell: Tell) -> int:
    """What can be wrong without Spark is said before Spark is started. Notes go to `tell`, rows to stdout."""
    from analysis import sql

    query = sql.require_query(asked.query)
    require_target(asked)
    place, folders = _chosen(asked)
    stored = [one for folder in folders if (one := place.tables(folder))]
    _require_some(stored, folders, asked)
    with _session(place, stored, tell) as spark:
        sql.hush(spark)
        sql.open_views(spark, query, stored, tell)
        frame = sql.ask(spark, query)
        if asked.to is not None:
            return _keep(frame, asked.to, tell)
        _show(frame, asked, tell)
    return 0


def require_target(asked: Asked) -> None:
    if asked.limit is not None and asked.limit < 1:
        raise QueryError(f"--limit is {asked.limit}; give 1 or more")
    if asked.to is None:
        return
    if asked.to.suffix != ".parquet":
        raise QueryError(f"--to {asked.to} does not end in .parquet; of other formats: --format csv > FILE")
    if asked.to.exists():
        raise QueryError(f"--to {asked.to} exists; nothing is overwritten: give another name, or remove it")
    if not asked.to.absolute().parent.is_dir():
        raise QueryError(f"--to {asked.to}: there is no folder {asked.to.absolute().parent}; make it")


def _chosen(asked: Asked) -> tuple[Results, list[Path]]:
    """The series to ask, and where their results are."""
    from dags.results import results, results_of
    from dags.series import find_series

    if asked.series is not None:
        folder = find_series(asked.series)
        return results_of(folder), [folder]
    place = results()
    place.refresh(asked.experiment or "")
    folders = sorted(path.parent for path in place.root.glob("*/*/*/series.json"))
    if asked.experiment is None:
        return place, folders
    mine = [folder for folder in folders if "/".join(folder.parts[-3:-1]) == asked.experiment]
    if not mine:
        known = sorted({"/".join(folder.parts[-3:-1]) for folder in folders})
        raise ExperimentError(f"no series of {asked.experiment!r}; there are series of {', '.join(known) or 'nothing'}")
    return place, mine


def _require_some(stored: Sequence[Stored], folders: Sequence[Path], asked: Asked) -> None:
    if stored:
        return
    if folders:
        where = asked.series or asked.experiment or "here"
        raise QueryError(f"none of {len(folders)} series ({where}) is analysed; barograph report SERIES does it")
    raise QueryError("there are no results yet; barograph run EXPERIMENT makes some, or set BAROGRAPH_RESULTS")


@contextmanager
def _session(place: Results, stored: Sequence[Stored], tell: Tell) -> Iterator[SparkSession]:
    from analysis import cluster, session
    from dags.places import spark_master

    master = spark_master()
    spark = session.spark(master, settings=place.spark_settings(tell))
    try:
        if not cluster.is_local(master) and all(one.local for one in stored):
            cluster.require_shared(spark, place.root)
        yield spark
    finally:
        spark.stop()


# --- where the answer goes -------------------------------------------------------------------------------------------


def _show(frame: DataFrame, asked: Asked, tell: Tell) -> None:
    from analysis import sql

    if asked.format == "json" and len(set(frame.columns)) < len(frame.columns):
        raise QueryError(f"two columns of the answer have one name ({', '.join(frame.columns)}); name them with `as`")
    most = LINES if asked.limit is None and asked.format == "table" else asked.limit
    rows = sql.streamed(frame, None if most is None else most + 1)
    shown = islice(rows, most)
    for line in answer_lines.FORMATS[asked.format](frame.columns, shown):
        sys.stdout.write(line)
    sys.stdout.flush()
    if next(rows, None) is not None:
        tell(f"only the first {most} rows are shown; --limit N shows more, --format csv or --to FILE.parquet has all")


def _keep(frame: DataFrame, target: Path, tell: Tell) -> int:
    """One Parquet file, there whole or not at all."""
    from analysis import cluster, sql
    from dags.places import spark_master

    folder = target.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".sql-", dir=folder) as scratch:
        if not cluster.is_local(spark_master()):
            cluster.require_shared(frame.sparkSession, Path(scratch))
        with sql.explained():
            frame.coalesce(1).write.parquet(f"file://{scratch}/answer")
        (part,) = (Path(scratch) / "answer").glob("*.parquet")
        part.rename(target.absolute())
    tell(f"answer: {target}")
    return 0


# --- without Spark ---------------------------------------------------------------------------------------------------


def table_list() -> list[str]:
    """A line a table."""
    tables = dictionary.tables().values()
    width = max(len(table.name) for table in tables)
    return [f"{table.name:{width}}  {table.means}" for table in tables]


def described(name: str) -> list[str]:
    """Columns of one table. Raises QueryError for one that there is not."""
    tables = dictionary.tables()
    if name not in tables:
        near = difflib.get_close_matches(name, tables, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise QueryError(f"no table {name!r}; {guess}there are {', '.join(tables)}")
    table = tables[name]
    rows = ((column.name, column.type, column.unit, column.means, column.null) for column in table.columns)
    heads = ("column", "type", "unit", "meaning", "null when")
    lines = "".join(answer_lines.aligned(heads, rows, widest=120)).splitlines()
    return [f"{table.name}: {table.means}", f"key: {', '.join(table.key)} (with series_id across series)", *lines]
