"""How fast raw lines become a table: Spark as we use it, beside polars and DuckDB on the same files.

    python -m tests.calibration.ingest_bench --mb 1000 --rounds 3

Writes generated worker lines to a temporary folder, lets each engine parse them into one Parquet table of task samples
(interleaved, after a warm-up round), checks that all tables hold the same rows and sums, and prints medians.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from analysis.errors import AnalysisError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FILES = 16
TASKS = 5
CHECK_COLUMNS = ("emitted", "executed", "queue", "execute_ms")
FIELDS = ("task", "component", "emitted", "transferred", "executed", "execute_ms", "process_ms", "queue")


@dataclass(frozen=True)
class Check:
    """What must agree between engines."""

    rows: int
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


def spark_table(spark: "SparkSession", files: list[Path], out: Path) -> None:
    """The production path of one table: read_lines with its checks for damage, then group_samples."""
    from analysis.ingest import tables

    lines = tables.read_lines(spark, "worker", files, only=("tasks",))
    tables.group_samples(lines, "tasks").write.mode("overwrite").parquet(str(out))


def duckdb_table(files: list[Path], out: Path) -> None:
    import duckdb

    fields = ", ".join(f'unnest(tasks."{name}") AS "{name}"' for name in FIELDS)
    types = (
        "task INTEGER[], component VARCHAR[], emitted BIGINT[], transferred BIGINT[], executed BIGINT[], "
        "execute_ms DOUBLE[], process_ms DOUBLE[], queue BIGINT[]"
    )
    columns = f"{{t: 'DOUBLE', dt_s: 'DOUBLE', machine: 'VARCHAR', port: 'INTEGER', tasks: 'STRUCT({types})'}}"
    names = ", ".join(f"'{file}'" for file in files)
    query = (
        f"SELECT 'bench-r1' AS run_id, t AS t_s, dt_s, machine, port, {fields} "
        f"FROM read_json([{names}], format='newline_delimited', columns={columns})"
    )
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{out}' (FORMAT parquet, COMPRESSION lz4_raw)")


def polars_table(files: list[Path], out: Path) -> None:
    import polars as pl

    ints = ("emitted", "transferred", "executed", "queue")
    kinds: dict[str, Any] = {name: pl.List(pl.Int64) for name in ints}
    kinds |= {"task": pl.List(pl.Int32), "component": pl.List(pl.String)}
    kinds |= {name: pl.List(pl.Float64) for name in ("execute_ms", "process_ms")}
    schema: Any = {"t": pl.Float64, "dt_s": pl.Float64, "machine": pl.String, "port": pl.Int32,
              "tasks": pl.Struct({name: kinds[name] for name in FIELDS})}  # fmt: skip
    (
        pl.scan_ndjson(files, schema=schema)
        .select(pl.lit("bench-r1").alias("run_id"), pl.col("t").alias("t_s"), "dt_s", "machine", "port",
                *[pl.col("tasks").struct.field(name) for name in FIELDS])
        .explode(list(FIELDS))
        .sink_parquet(out, compression="lz4")
    )  # fmt: skip


def check(out: Path) -> Check:
    """Rows and sums of a table, read by an engine of its own."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    table = ds.dataset(out, format="parquet").to_table(columns=list(CHECK_COLUMNS))
    return Check(table.num_rows, tuple(round(float(pc.sum(table[name]).as_py()), 3) for name in CHECK_COLUMNS))


def measure(engine: Callable[[list[Path], Path], None], files: list[Path], out: Path) -> tuple[float, Check]:
    """Seconds of one engine, and what its table holds."""
    shutil.rmtree(out, ignore_errors=True)
    out.unlink(missing_ok=True)
    begun = time.perf_counter()
    engine(files, out)
    return time.perf_counter() - begun, check(out)


def compare(engines: Mapping[str, Callable[[list[Path], Path], None]], files: list[Path], folder: Path,
            rounds: int) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of each engine in each round; the first, warm-up round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(rounds + 1):
        found = {}
        for name, engine in engines.items():
            elapsed, found[name] = measure(engine, files, folder / f"{name}.parquet")
            if number:
                seconds[name].append(elapsed)
        if len(set(found.values())) != 1:
            raise AnalysisError(f"the engines disagree: {found}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Raw worker lines to one Parquet table: Spark, polars, DuckDB.")
    parser.add_argument("--mb", type=float, default=100.0, help="megabytes of lines to generate (default 100)")
    parser.add_argument("--rounds", type=int, default=3, help="counted rounds after the warm-up (default 3)")
    arguments = parser.parse_args()
    from analysis import session

    with tempfile.TemporaryDirectory(prefix="barograph-bench-") as name:
        folder = Path(name)
        files = generate(folder, arguments.mb)
        spark = session.spark(raw_bytes=int(arguments.mb * 1e6))
        try:
            engines: dict[str, Callable[[list[Path], Path], None]] = {
                "spark": lambda files, out: spark_table(spark, files, out),
                "polars": polars_table,
                "duckdb": duckdb_table,
            }
            seconds = compare(engines, files, folder, arguments.rounds)
        finally:
            spark.stop()
        print_table(seconds, sum(file.stat().st_size for file in files) / 1e6)


def print_table(seconds: dict[str, list[float]], megabytes: float) -> None:
    rate = {name: megabytes / median(of_engine) for name, of_engine in seconds.items()}
    print(f"{megabytes:.0f} MB, median of {len(seconds['spark'])} rounds")
    print(f"{'engine':<8} {'s':>7} {'MB/s':>7} {'of duckdb':>10}   rounds (s)")
    for name, of_engine in seconds.items():
        rounds = " ".join(f"{s:.2f}" for s in of_engine)
        print(f"{name:<8} {median(of_engine):7.2f} {rate[name]:7.0f} {rate[name] / rate['duckdb']:10.2f}   {rounds}")


if __name__ == "__main__":
    main()
