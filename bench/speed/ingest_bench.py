"""How fast raw lines become tables: Spark as we use it, beside polars and DuckDB on the same files.

    python -m bench.speed.ingest_bench --mb 100,1000,10000 --rounds 3

Writes generated worker lines to a temporary folder, lets each engine parse all groups of columns into Parquet
(interleaved, after a warm-up round), checks that all hold the same rows and sums, and prints medians. Spark does what
the analysis does, with its checks for damage, from Avro as workers write it; the others read the same lines as JSON, as
workers wrote them before. `duckdb tables` writes a table a group. Of several sizes the seconds a GB of each
engine follow. More than 1 GB is several runs with the same lines: hard links.
"""

import argparse
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from analysis.record import worker_files
from analysis.record.schemas import GROUPS, TABLES, group_fields
from barograph.errors import BarographError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILES = 16
MB_A_RUN = 1000.0
TASKS = 5
# What is summed of each group.
CHECKED = {
    "tasks": ("emitted", "executed", "queue", "execute_ms"),
    "streams": ("emitted",),
    "sources": ("executed", "execute_ms"),
    "sinks": ("n", "sum_ms"),
    "spouts": ("due", "emitted"),
}


@dataclass(frozen=True)
class Check:
    """What must agree between engines: by group its rows, and sums of its columns."""

    rows: tuple[int, ...]
    sums: tuple[float, ...]


def generate(folder: Path, megabytes: float) -> list[Path]:
    """Worker lines as docs/contracts.md has them, about `megabytes` in all, over 16 workers of one run."""
    workers = folder / "runs" / "bench-r1" / "workers"
    workers.mkdir(parents=True)
    paths = []
    for number in range(FILES):
        path = workers / f"m{number // 4 + 1}-{6700 + number % 4}.jsonl"
        _write_lines(path, number, int(megabytes * 1e6 / FILES))
        paths.append(path)
    return paths


def _write_lines(path: Path, number: int, size: int) -> None:
    """Only time, count and a few numbers change from line to line: building each with json.dumps would take minutes."""
    pattern = _pattern(number)
    with path.open("w", encoding="ascii") as file:
        second = written = 0
        while written < size:
            block = [
                pattern % (s % 1000, s, 400 + s % 37, 90 + s % 11, s % 7, s % 5000, 90 + s % 11)
                for s in range(second, second + 1000)
            ]
            written += file.write("".join(block))
            second += 1000


def _pattern(number: int) -> str:
    tasks = list(range(number * TASKS, (number + 1) * TASKS))
    fixed: dict[str, Any] = {"v": 1, "dt_s": 1.0, "machine": f"m{number // 4 + 1}", "port": 6700 + number % 4,
                             "pid": 4000 + number, "topology": "star-1-1763712300"}  # fmt: skip
    counts = [10 + task % 7 for task in tasks[1:]]
    groups = (
        f'"tasks": {{"task": {tasks}, "component": {json.dumps(["centre"] * TASKS)}, "emitted": [%d, '
        f'{str(counts)[1:]}, "transferred": {[220] * TASKS}, "executed": [%d, {str(counts)[1:]}, '
        f'"execute_ms": [%d.25, {str([9.5] * (TASKS - 1))[1:]}, "process_ms": {json.dumps([None] * TASKS)}, '
        f'"queue": [%d, {str([12] * (TASKS - 1))[1:]}}}'
    )
    rest = {
        "streams": {"task": tasks, "stream": ["default"] * TASKS, "emitted": [110] * TASKS},
        "sources": {"task": tasks, "component": ["spout_1"] * TASKS, "stream": ["default"] * TASKS,
                    "executed": [112] * TASKS, "execute_ms": [903.1] * TASKS},
        "sinks": {"task": tasks[:1], "source_machine": ["m1"], "n": [55], "sum_ms": [405.9], "max_ms": [31.0],
                  "buckets": [[492, 633]], "counts": [[54, 1]]},
    }  # fmt: skip
    tail = json.dumps(rest)[1:-1]
    spouts = f'"spouts": {{"task": [{tasks[0]}], "due": [%d], "emitted": [100], "behind_ms": [0.0]}}'
    head = json.dumps(fixed)[1:-1]
    return f'{{"t": 1763712345.%03d, {head}, "seq": %d, {groups}, {tail}, {spouts}}}\n'


def to_avro(file: Path) -> Path:
    """The same lines as workers write them, in a folder beside."""
    path = _avro(file)
    with file.open(encoding="ascii") as lines:
        worker_files.write(path, map(json.loads, lines))
    return path


def _avro(file: Path) -> Path:
    return file.parents[3] / "avro" / Path(*file.parts[-4:]).with_suffix(worker_files.SUFFIX)


def more_runs(files: list[Path], runs: int) -> list[Path]:
    """The files of so many runs: those of the first one, under other names."""
    found = list(files)
    for number in range(2, runs + 1):
        for file in files:
            for path in (file, _avro(file)):
                linked = path.parents[2] / f"bench-r{number}" / Path(*path.parts[-2:])
                linked.parent.mkdir(parents=True, exist_ok=True)
                linked.hardlink_to(path)
                found += [linked] if path == file else []
    return found


def spark_lines(spark: "SparkSession", files: list[Path], out: Path) -> None:
    """The production path, from the Avro files of these lines."""
    from analysis.ingest import tables

    tables.worker_lines(spark, [_avro(file) for file in files]).write.mode("overwrite").parquet(str(out))


def _duckdb_lines(files: list[Path]) -> str:
    names = ", ".join(f"'{file}'" for file in files)
    columns = {"t": "DOUBLE", "dt_s": "DOUBLE", "machine": "VARCHAR", "port": "INTEGER", "pid": "BIGINT",
               "topology": "VARCHAR", "seq": "BIGINT"}  # fmt: skip
    columns |= {group: f"STRUCT({_duckdb_fields(group)})" for group in GROUPS}
    types = ", ".join(f"{name}: '{kind}'" for name, kind in columns.items())
    return (
        "SELECT 'bench-r1' AS run_id, t AS t_s, * EXCLUDE t"
        f" FROM read_json([{names}], format='newline_delimited', columns={{{types}}})"
    )


def _duckdb_fields(group: str) -> str:
    kinds = {"int": "INTEGER", "bigint": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "array<int>": "INTEGER[]",
             "array<bigint>": "BIGINT[]"}  # fmt: skip
    view = TABLES[GROUPS[group]]
    own = [column for column in view.columns if column.name in group_fields(view)]
    return ", ".join(f'"{column.name}" {kinds[column.type]}[]' for column in own)


def duckdb_lines(files: list[Path], out: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"COPY ({_duckdb_lines(files)}) TO '{out}' (FORMAT parquet, COMPRESSION lz4_raw)")


def duckdb_tables(files: list[Path], out: Path) -> None:
    import duckdb

    out.mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TEMP TABLE lines AS {_duckdb_lines(files)}")
        for group, name in GROUPS.items():
            fields = ", ".join(f'unnest({group}."{field}") AS "{field}"' for field in group_fields(TABLES[name]))
            rows = f"SELECT run_id, t_s, dt_s, machine, port, topology, {fields} FROM lines"
            connection.execute(f"COPY ({rows}) TO '{out / group}.parquet' (FORMAT parquet, COMPRESSION lz4_raw)")


def polars_lines(files: list[Path], out: Path) -> None:
    import polars as pl

    kinds: dict[str, Any] = {"int": pl.Int32, "bigint": pl.Int64, "double": pl.Float64, "string": pl.String,
             "array<int>": pl.List(pl.Int32), "array<bigint>": pl.List(pl.Int64)}  # fmt: skip
    schema: Any = {"t": pl.Float64, "dt_s": pl.Float64, "machine": pl.String, "port": pl.Int32, "pid": pl.Int64,
              "topology": pl.String, "seq": pl.Int64}  # fmt: skip
    for group, name in GROUPS.items():
        own = [column for column in TABLES[name].columns if column.name in group_fields(TABLES[name])]
        schema[group] = pl.Struct({column.name: pl.List(kinds[column.type]) for column in own})
    rows = pl.scan_ndjson(files, schema=schema).select(pl.lit("bench-r1").alias("run_id"), pl.all())
    rows.sink_parquet(out, compression="lz4")


def check(out: Path) -> Check:
    """Rows and sums of every group, read by an engine of its own."""
    import pyarrow.compute as pc

    found = [_columns(out, group) for group in CHECKED]
    rows = tuple(len(columns[0]) for columns in found)
    return Check(rows, tuple(round(float(pc.sum(column).as_py()), 3) for columns in found for column in columns))


def _columns(out: Path, group: str) -> list[Any]:
    """Of lines with columns of values, or of a table a group."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    names = CHECKED[group]
    if (file := out / f"{group}.parquet").is_file():
        table = ds.dataset(file, format="parquet").to_table(columns=list(names))
        return [table[name] for name in names]
    lists = ds.dataset(out, format="parquet").to_table(columns=[group])[group]
    return [pc.list_flatten(pc.struct_field(lists, name)) for name in names]


def measure(engine: Callable[[list[Path], Path], None], files: list[Path], out: Path) -> tuple[float, Check]:
    """Seconds of one engine, and what its table holds."""
    if out.is_dir():
        shutil.rmtree(out)
    out.unlink(missing_ok=True)
    begun = time.perf_counter()
    engine(files, out)
    return time.perf_counter() - begun, check(out)


def compare(chosen: Mapping[str, Callable[[list[Path], Path], None]], files: list[Path], folder: Path,
            rounds: int) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of each engine in each round; the first, warm-up round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in chosen}
    for number in range(rounds + 1):
        found = {}
        for name, engine in chosen.items():
            elapsed, found[name] = measure(engine, files, folder / f"{name}.parquet")
            if number:
                seconds[name].append(elapsed)
        if len(set(found.values())) != 1:
            raise BarographError(f"the engines disagree: {found}")
    return seconds


def engines(spark: "SparkSession") -> dict[str, Callable[[list[Path], Path], None]]:
    return {
        "spark": lambda files, out: spark_lines(spark, files, out),
        "polars": polars_lines,
        "duckdb": duckdb_lines,
        "duckdb tables": duckdb_tables,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Raw worker lines to Parquet: Spark, polars, DuckDB.")
    parser.add_argument("--mb", default="100", help="megabytes of JSON lines to generate, or several sizes")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds after the warm-up (default 3)")
    arguments = parser.parse_args()
    sizes = [float(each) for each in arguments.mb.split(",")]
    # Each size in a process of its own: a JVM keeps the options of its first session, and what it has compiled.
    alone = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=alone, max_tasks_per_child=1) as pool:
        measured = pool.map(compare_engines, sizes, [arguments.rounds] * len(sizes))
        seconds_a_gb = dict(zip(sizes, measured, strict=True))
    if len(sizes) > 1:
        print("\nseconds a GB, median (least to most)")
        for megabytes, of_engines in seconds_a_gb.items():
            cells = (f"{name} {median(s):.2f} ({min(s):.2f} to {max(s):.2f})" for name, s in of_engines.items())
            print(f"{megabytes:8.0f} MB: {', '.join(cells)}")


def compare_engines(megabytes: float, rounds: int) -> dict[str, list[float]]:
    """Seconds a GB of each engine, by round."""
    from analysis import session
    from analysis.storage import maven
    from inventory.local.rootfs import cache_dir

    runs = max(1, round(megabytes / MB_A_RUN))
    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as name:
        folder = Path(name)
        first = generate(folder, megabytes / runs)
        with ProcessPoolExecutor() as pool:
            written = list(pool.map(to_avro, first))
        files = more_runs(first, runs)
        jars = (maven.avro_jar(cache_dir(), print),)
        # As for long series, whatever their size, to compare them.
        spark = session.spark(raw_bytes=session.SHORT_BYTES, settings=session.jar_settings(jars))
        try:
            seconds = compare(engines(spark), files, folder, rounds)
        finally:
            spark.stop()
        size = sum(file.stat().st_size for file in files) / 1e6
        print_table(seconds, size)
        print_sizes(first, written)
        return {engine: [1000 * each / size for each in found] for engine, found in seconds.items()}


def print_table(seconds: dict[str, list[float]], megabytes: float) -> None:
    rate = {name: megabytes / median(of_engine) for name, of_engine in seconds.items()}
    print(f"{megabytes:.0f} MB, median of {len(seconds['spark'])} rounds")
    print(f"{'engine':<13} {'s':>7} {'MB/s':>7} {'of duckdb':>10}   rounds (s)")
    for name, of_engine in seconds.items():
        rounds = " ".join(f"{s:.2f}" for s in of_engine)
        print(f"{name:<13} {median(of_engine):7.2f} {rate[name]:7.0f} {rate[name] / rate['duckdb']:10.2f}   {rounds}")


def print_sizes(files: list[Path], written: list[Path]) -> None:
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    json_bytes, avro_bytes = (sum(path.stat().st_size for path in paths) / lines for paths in (files, written))
    print(f"bytes a line: JSON {json_bytes:.0f}, Avro {avro_bytes:.0f}")


if __name__ == "__main__":
    main()
