"""Small tables, to and from Parquet without Spark, and rows of this process as Spark's DataFrames.

A metric is of one topology in one run, or of the cluster (`all`) in a run of several topologies. Its rows have both
columns of `UNIT`: task numbers and component names of two topologies may be the same, so whatever joins or groups rows
of a run does so by both.

For data bounded by runs x windows Spark is too slow. Nothing is pickled on the way to Spark, because that
starts Python workers, on a cluster too; `createDataFrame` of a list does it, however short the list is.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from boltons.iterutils import chunked_iter

from analysis.errors import RecordError
from analysis.record.files import SeriesPaths
from analysis.record.schemas import TABLES
from barograph.plan.experiment import WHOLE_CLUSTER

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession


Row = dict[str, Any]
UNIT = ("run_id", "topology")
EVENT = (*UNIT, "event_id")
PHASE = (*EVENT, "phase")
Unit = tuple[str, str]

HISTOGRAM = ("buckets", "counts")  # columns of `latency` that make up most of it
CHUNK_ROWS = 50_000
FEW_ROWS = 2_000
TABLE_DEPTH = 5  # names in family/experiment/series/tables/table.parquet


def rows(
    paths: SeriesPaths,
    name: str,
    without: Collection[str] = (),
    runs: Collection[str] | None = None,
    topology: str | None = None,
) -> list[Row]:
    """Return all rows of a table, or those of some runs, or (if a row is of one) of one topology; none if it was not
    built. Raises RecordError if it cannot be read."""
    import pyarrow.dataset as ds

    with _reading(paths, name):
        table = _stored(paths, name)
        if table is None:
            return []
        columns = [column for column in table.schema.names if column not in without]
        condition = None if runs is None else ds.field("run_id").isin(list(runs))
        if topology is not None and TABLES[name].names_topology:
            topology_filter = ds.field("topology") == topology
            condition = topology_filter if condition is None else condition & topology_filter
        table_rows: list[Row] = table.to_table(columns=columns, filter=condition).to_pylist()
    return table_rows


def check(paths: SeriesPaths, names: Iterable[str]) -> None:
    """Raise RecordError if an existing table cannot be read, by the ends of its files, or was made by another version.
    Code that reads several series checks each, and goes on without those."""
    for name in names:
        with _reading(paths, name):
            if (table := _stored(paths, name)) is not None:
                table.count_rows()


def _stored(paths: SeriesPaths, name: str) -> "ds.Dataset | None":
    """Return the dataset; None if it was not built. Raises RecordError for the columns of another version."""
    import pyarrow.dataset as ds

    folder = paths.table(name)
    if not any(folder.glob("*.parquet")):
        return None
    table = ds.dataset(str(folder), format="parquet")
    require_columns("/".join(folder.absolute().parts[-TABLE_DEPTH:]), name, table.schema.names)
    return table


def require_columns(path: str, name: str, stored: Collection[str]) -> None:
    """Raise RecordError unless a stored table has the declared columns: their names are the version of the tables."""
    declared = [column.name for column in TABLES[name].columns]
    if gaps := [column for column in declared if column not in stored]:
        raise _damage(path, f"has no column {', '.join(gaps)}")
    if others := sorted(set(stored).difference(declared)):
        raise _damage(path, f"has the columns {', '.join(others)} of another version")


@contextmanager
def _reading(paths: SeriesPaths, name: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # Arrow reads texts without checking them
        message = " ".join(str(error).split()).rpartition("': ")[2].rstrip(".")  # after the paths of the file
        path = "/".join(paths.table(name).absolute().parts[-TABLE_DEPTH:])
        raise _damage(path, f"cannot be read: {message}") from error


def _damage(path: str, what: str) -> RecordError:
    """Return an error about a table, named from the folder of results on."""
    message = f"{path} {what}; analyse it again: `barograph report` of a series, `barograph sweep` of a sweep"
    return RecordError(message, blame="configuration")


def topologies(paths: SeriesPaths) -> tuple[str, ...]:
    """Return the topologies of a series whose runs have several, in the order of the plan, and `all` for the cluster;
    none for other series, whose rows are all of the only one."""
    table_rows = sorted(rows(paths, "topologies"), key=lambda row: (row["position"], row["topology"]))
    is_multiple = any(row["position"] > 1 for row in table_rows)
    return (*dict.fromkeys(row["topology"] for row in table_rows), WHOLE_CLUSTER) if is_multiple else ()


def topology_words(name: str) -> str:
    """Return the name for a heading."""
    return "all topologies" if name == WHOLE_CLUSTER else name


def topology_suffix(name: str) -> str:
    """Return the suffix of names of figures and tables, which are files too; empty for the only topology."""
    return f"_{re.sub(r'[^A-Za-z0-9-]+', '_', name)}" if name else ""


def cluster(paths: SeriesPaths) -> str | None:
    """Return the `topology` of rows of the cluster and of machines; None: all rows are of the only topology."""
    return WHOLE_CLUSTER if topologies(paths) else None


def by_run(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows of each run, in the order given."""
    split: dict[str, list[Any]] = {}
    for row in rows:
        split.setdefault(row["run_id"], []).append(row)
    return split


def unit_of(row: Mapping[str, Any]) -> Unit:
    return row["run_id"], row["topology"]


def by_unit(rows: Iterable[Mapping[str, Any]]) -> dict[Unit, list[Any]]:
    """Return rows of each unit, in the order given."""
    split: dict[Unit, list[Any]] = {}
    for row in rows:
        split.setdefault(unit_of(row), []).append(row)
    return split


def unit_columns(unit: Unit) -> dict[str, str]:
    return {"run_id": unit[0], "topology": unit[1]}


def write(paths: SeriesPaths, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a declared table, also where Spark reads it; a missing key is null."""
    with replacement(paths, name) as add:
        add(rows)


@contextmanager
def replacement(paths: SeriesPaths, name: str) -> Iterator[Callable[[Iterable[Mapping[str, Any]]], None]]:
    """Yield a function that adds rows to a replacement of a declared table, also where Spark reads it.

    A missing key is null. The old table stays until the block ends without an error.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(name)
    folder, part = paths.table(name), paths.tables / f".{name}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        with pq.ParquetWriter(part / "part-0.parquet", schema) as writer:

            def add(rows: Iterable[Mapping[str, Any]]) -> None:
                for chunk in chunked_iter(rows, CHUNK_ROWS):
                    columns = {field: [row.get(field) for row in chunk] for field in schema.names}
                    writer.write_table(pa.table(columns, schema=schema))

            yield add
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    if paths.shared:
        paths.shared.send_table(name, folder)


def arrow_schema(name: str) -> "pa.Schema":
    """Return the declared columns of a table, as Spark would store them."""
    return arrow_columns(TABLES[name].ddl)


def arrow_columns(declared: str) -> "pa.Schema":
    """Return columns of plain values, and of lists of them."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(),
             "boolean": pa.bool_(), "array<string>": pa.list_(pa.string()), "array<int>": pa.list_(pa.int32()),
             "array<bigint>": pa.list_(pa.int64()), "array<double>": pa.list_(pa.float64())}  # fmt: skip
    columns = (column.split(" ") for column in declared.split(", "))
    return pa.schema([(field.strip("`"), kinds[kind]) for field, kind in columns])


def few_rows(spark: "SparkSession", paths: SeriesPaths, name: str) -> "DataFrame | None":
    """Return a table as values of a query; None if it has more rows than a query should have."""
    import pyarrow.dataset as ds

    ddl = TABLES[name].ddl
    schema = arrow_columns(ddl)
    dataset = ds.dataset(str(paths.table(name)), schema, format="parquet")
    if dataset.count_rows() > FEW_ROWS:
        return None
    content = dataset.to_table()
    return spark.createDataFrame(content, ddl) if content.num_rows else empty_frame(spark, ddl)


def frame_of_rows(spark: "SparkSession", rows: Sequence[Sequence[Any]], declared: str) -> "DataFrame":
    """Return a frame. `declared`: flat columns and their types, in the order of each row's values."""
    import pyarrow as pa

    if not rows:
        return empty_frame(spark, declared)
    schema = arrow_columns(declared)
    arrays = [pa.array(values, type=field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), declared)


def empty_frame(spark: "SparkSession", declared: str) -> "DataFrame":
    """Return a frame without rows, with columns of any types."""
    from pyspark.sql import functions as f

    row = f.from_json(f.lit(None).cast("string"), declared)
    return spark.range(0).select(row.alias("row")).select("row.*")
