"""Samples, the one shape that every reader ends in, and their way into worker lines (docs/contracts.md).

A sample says: in the `dt_s` seconds up to `t_s` this task emitted, transferred and executed so many tuples. Foreign
samples are longer than our second and out of step with our windows; each is cut at the windows' edges, and its tuples
are dealt to the pieces by their length, in whole tuples, so that no tuple is made or lost. Within a sample a log says
nothing about when: a change is seen no sharper than its interval.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analysis.throughput import WINDOW_S

COUNTS = ("emitted", "transferred", "executed")
COLUMNS = ("run", "machine", "port", "task", "component", "spout", "t_s", "dt_s", *COUNTS)
OUT_OF_STEP = 1.5  # intervals by which the last reports of living tasks may lie apart
SHORTEST_S = 1e-6  # what rounding leaves over at a window's edge is no piece


def spans(samples: DataFrame) -> DataFrame:
    """`run`, `started_s`, `ended_s`: while all tasks reported, but for those that fell silent long before the end.

    Tasks report out of step: in the last interval of a log some have not reported yet, which is no silence.
    """
    tasks = samples.groupBy("run", "task").agg(
        f.min(f.col("t_s") - f.col("dt_s")).alias("first_s"), f.max("t_s").alias("last_s")
    )
    edges = tasks.groupBy("run").agg(f.min("first_s").alias("earliest_s"), f.max("last_s").alias("latest_s"))
    usual = samples.groupBy("run").agg(f.mode("dt_s").alias("usual_s"))
    began_late = f.col("first_s") > f.col("earliest_s") + OUT_OF_STEP * f.col("usual_s")
    fell_silent = f.col("last_s") < f.col("latest_s") - OUT_OF_STEP * f.col("usual_s")
    return (
        tasks.join(edges, "run", how="inner")
        .join(usual, "run", how="inner")
        .groupBy("run")
        .agg(
            f.max(f.when(~began_late, f.col("first_s"))).alias("started_s"),
            f.min(f.when(~fell_silent, f.col("last_s"))).alias("ended_s"),
        )
    )


def cut(samples: DataFrame, runs: DataFrame) -> DataFrame:
    """Samples cut at the edges of the windows and of the run (`runs`: `run`, `started_s`, `ended_s`, `zero_s`)."""
    others = [column for column in COLUMNS if column not in ("t_s", "dt_s", *COUNTS)]
    begins = f.col("t_s") - f.col("dt_s")
    seen_from, seen_to = f.greatest(begins, f.col("started_s")), f.least(f.col("t_s"), f.col("ended_s"))
    first = f.floor((seen_from - f.col("zero_s")) / WINDOW_S + SHORTEST_S)
    last = f.ceil((seen_to - f.col("zero_s")) / WINDOW_S - SHORTEST_S) - 1
    opens = f.col("zero_s") + f.col("window") * WINDOW_S
    pieces = (
        samples.join(f.broadcast(runs), "run", how="inner")
        .where(seen_to - seen_from > SHORTEST_S)
        .select(*COLUMNS, seen_from.alias("from_s"), seen_to.alias("to_s"), "zero_s",
                f.explode(f.sequence(first, f.greatest(first, last))).alias("window"))
    )  # fmt: skip
    start, end = f.greatest("from_s", opens), f.least("to_s", opens + WINDOW_S)
    counts = [_share(name, start - begins, end - begins).alias(name) for name in COUNTS]
    return pieces.select(*others, end.alias("t_s"), (end - start).alias("dt_s"), *counts).select(*COLUMNS)


def _share(name: str, from_s: Column, to_s: Column) -> Column:
    """Whole tuples between two moments of a sample: differences of rounded-down sums, so they add up."""
    # Multiplied before it is divided: a third of 3000 tuples is 1000 of them, not 999.
    until = [f.floor(f.col(name) * moment / f.col("dt_s") + SHORTEST_S) for moment in (from_s, to_s)]
    return until[1] - until[0]


def worker_lines(samples: DataFrame) -> DataFrame:
    """`run`, `worker`, `value`: one JSON line a worker and moment, oldest first within a worker."""
    tasks = f.array_sort(f.collect_list(f.struct("task", "component", "spout", *COUNTS)))
    worker = f.concat_ws("-", "machine", f.col("port").cast("string"))
    grouped = (
        samples.groupBy("run", "machine", "port", "t_s", "dt_s")
        .agg(tasks.alias("entries"))
        .withColumn("seq", f.row_number().over(Window.partitionBy("run", "machine", "port").orderBy("t_s")) - 1)
    )
    return grouped.select("run", worker.alias("worker"), "t_s", f.to_json(_line(), {"ignoreNullFields": "true"})
                          .alias("value"))  # fmt: skip


def _line() -> Column:
    spouts = f.filter("entries", lambda entry: entry["spout"])
    return f.struct(
        f.lit(1).alias("v"), f.col("t_s").alias("t"), "dt_s", "machine", "port",
        f.lit(0).alias("pid"), "seq",
        f.struct(
            *[_column("entries", name, name) for name in ("task", "component", *COUNTS)],
            *[_nulls("entries", name) for name in ("execute_ms", "process_ms", "queue")],
        ).alias("tasks"),
        f.when(f.size(spouts) > 0, f.struct(
            _column(spouts, "task", "task"), _nulls(spouts, "due"), _column(spouts, "emitted", "emitted"),
            _nulls(spouts, "behind_ms"),
        )).alias("spouts"),
    )  # fmt: skip


def _column(entries: Column | str, field: str, name: str) -> Column:
    return f.transform(entries, lambda entry: entry[field]).alias(name)


def _nulls(entries: Column | str, name: str) -> Column:
    """What no foreign log of ours says: a column of nulls, never zeros."""
    return f.transform(entries, lambda _: f.lit(None).cast("bigint")).alias(name)


def components(samples: DataFrame) -> DataFrame:
    """One row a run and component: its tasks and whether it emitted, executed or is a spout."""
    return (
        samples.groupBy("run", "component")
        .agg(
            f.array_sort(f.collect_set("task")).alias("tasks"),
            f.bool_or("spout").alias("spout"),
            (f.coalesce(f.sum("emitted"), f.lit(0)) > 0).alias("emits"),
            (f.coalesce(f.sum("executed"), f.lit(0)) > 0).alias("executes"),
        )
        .select("run", "component", "tasks", "spout", "emits", "executes")
    )
