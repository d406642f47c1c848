"""Tuples lost on each edge: sent - executed - growth of the receiving queue, before and after the scale request."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

# A task that has been silent this long at a boundary had no process: what it had queued is gone, not waiting.
SILENCE_S = 5.0


def losses(
    streams: DataFrame, sources: DataFrame, tasks: DataFrame, components: DataFrame, edges: DataFrame, zeros: DataFrame
) -> DataFrame:
    """One row a run, phase and edge. Counts of a killed worker's last, unreported second appear as lost."""
    sent = sent_on_edges(streams, components, edges, zeros)
    executed = executed_on_edges(sources, components, zeros)
    growth = queue_growth(tasks, components, zeros)
    keys = ["run_id", "phase", "source", "stream", "target"]
    into_target = sent.groupBy("run_id", "phase", "target").agg(f.sum("sent").alias("sent_to_target"))
    share = f.try_divide("sent", "sent_to_target")
    queued = f.coalesce(f.col("growth") * share, f.lit(0.0))
    done = f.coalesce("executed", f.lit(0.0))
    return (
        sent.join(executed, keys, how="left")
        .join(into_target, ["run_id", "phase", "target"], how="left")
        .join(growth, ["run_id", "phase", "target"], how="left")
        .select(*keys, "grouping", "sent", done.alias("executed"), queued.alias("queued"),
                (f.col("sent") - done - queued).alias("lost"))
    )  # fmt: skip


def _phased(samples: DataFrame, zeros: DataFrame) -> DataFrame:
    before = f.col("t_s") - f.col("dt_s") / 2 < f.col("zero_s")
    columns = samples.columns
    return samples.join(f.broadcast(zeros.select("run_id", "zero_s")), "run_id", how="inner").select(
        *columns, f.when(before, "before").otherwise("after").alias("phase")
    )


def sent_on_edges(streams: DataFrame, components: DataFrame, edges: DataFrame, zeros: DataFrame) -> DataFrame:
    """Tuples sent on every edge: emitted x fan-out (tasks of the target where all of them get a copy, else 1)."""
    fan = components.groupBy("run_id", f.col("component").alias("target")).agg(f.count("*").alias("tasks"))
    fan_out = f.when(f.col("grouping") == "all", f.col("tasks")).otherwise(f.lit(1))
    wide_edges = edges.join(fan, ["run_id", "target"], how="left").select(
        "run_id", "source", "stream", "target", "grouping", fan_out.alias("fan_out")
    )
    owners = components.select("run_id", "task", f.col("component").alias("source"))
    emitted = (
        _phased(streams.select("run_id", "t_s", "dt_s", "task", "stream", "emitted"), zeros)
        .join(f.broadcast(owners), ["run_id", "task"], how="inner")
        .groupBy("run_id", "phase", "source", "stream")
        .agg(f.sum("emitted").alias("emitted"))
    )
    return emitted.join(wide_edges, ["run_id", "source", "stream"], how="inner").select(
        "run_id", "phase", "source", "stream", "target", "grouping",
        (f.col("emitted") * f.col("fan_out")).cast("double").alias("sent"),
    )  # fmt: skip


def executed_on_edges(sources: DataFrame, components: DataFrame, zeros: DataFrame) -> DataFrame:
    """Tuples executed at the target of every edge."""
    owners = components.select("run_id", "task", f.col("component").alias("target"))
    samples = sources.select("run_id", "t_s", "dt_s", "task", f.col("component").alias("source"), "stream", "executed")
    return (
        _phased(samples, zeros)
        .join(f.broadcast(owners), ["run_id", "task"], how="inner")
        .groupBy("run_id", "phase", "source", "stream", "target")
        .agg(f.sum("executed").cast("double").alias("executed"))
    )


def queue_growth(tasks: DataFrame, components: DataFrame, zeros: DataFrame) -> DataFrame:
    """Queue at the end of a phase less the queue at its start, summed over a component's tasks."""
    owners = components.select("run_id", "task", f.col("component").alias("target"))
    axis = zeros.select("run_id", "zero_s", "last_s")
    until_zero = f.when(f.col("t_s") - f.col("dt_s") / 2 < f.col("zero_s"), f.col("t_s"))
    at = (
        tasks.where(f.col("queue").isNotNull())
        .select("run_id", "t_s", "dt_s", "task", "queue")
        .join(f.broadcast(axis), "run_id", how="inner")
        .groupBy("run_id", "task", "zero_s", "last_s")
        .agg(
            f.max(until_zero).alias("zero_t"),
            f.max_by("queue", until_zero).alias("queue_zero"),
            f.max("t_s").alias("end_t"),
            f.max_by("queue", "t_s").alias("queue_end"),
        )
    )
    zero = f.when(f.col("zero_t") >= f.col("zero_s") - SILENCE_S, f.col("queue_zero")).otherwise(0)
    end = f.when(f.col("end_t") >= f.col("last_s") - SILENCE_S, f.col("queue_end")).otherwise(0)
    summed = (
        at.join(f.broadcast(owners), ["run_id", "task"], how="inner")
        .groupBy("run_id", "target")
        .agg(f.sum(zero).alias("at_zero"), f.sum(end).alias("at_end"))
    )
    return summed.select(
        "run_id",
        "target",
        f.col("at_zero").cast("double").alias("before"),
        (f.col("at_end") - f.col("at_zero")).cast("double").alias("after"),
    ).unpivot(["run_id", "target"], ["before", "after"], "phase", "growth")
