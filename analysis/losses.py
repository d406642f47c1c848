"""Tuples lost on each edge: sent - executed - growth of the receiving queue, before and after each event."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analysis.scale_events import phased

# A task that has been silent this long at a boundary had no process: what it had queued is gone, not waiting.
SILENCE_S = 5.0


def losses(
    streams: DataFrame, sources: DataFrame, tasks: DataFrame, components: DataFrame, edges: DataFrame, spans: DataFrame
) -> DataFrame:
    """One row a run, event, phase and edge. Counts of a killed worker's last, unreported second appear as lost."""
    sent = sent_on_edges(streams, components, edges, spans)
    executed = executed_on_edges(sources, components, spans)
    growth = queue_growth(tasks, components, spans)
    keys = ["run_id", "event_id", "phase", "source", "stream", "target"]
    into_target = sent.groupBy("run_id", "event_id", "phase", "target").agg(f.sum("sent").alias("sent_to_target"))
    share = f.try_divide("sent", "sent_to_target")
    queued = f.coalesce(f.col("growth") * share, f.lit(0.0))
    done = f.coalesce("executed", f.lit(0.0))
    return (
        sent.join(executed, keys, how="left")
        .join(into_target, ["run_id", "event_id", "phase", "target"], how="left")
        .join(growth, ["run_id", "event_id", "phase", "target"], how="left")
        .select(*keys, "grouping", "sent", done.alias("executed"), queued.alias("queued"),
                (f.col("sent") - done - queued).alias("lost"))
    )  # fmt: skip


def _phased(samples: DataFrame, spans: DataFrame) -> DataFrame:
    return phased(samples, spans, f.col("t_s") - f.col("dt_s") / 2)


def sent_on_edges(streams: DataFrame, components: DataFrame, edges: DataFrame, spans: DataFrame) -> DataFrame:
    """Tuples sent on every edge: emitted x fan-out (tasks of the target where all of them get a copy, else 1)."""
    fan = components.groupBy("run_id", f.col("component").alias("target")).agg(f.count("*").alias("tasks"))
    fan_out = f.when(f.col("grouping") == "all", f.col("tasks")).otherwise(f.lit(1))
    wide_edges = edges.join(fan, ["run_id", "target"], how="left").select(
        "run_id", "source", "stream", "target", "grouping", fan_out.alias("fan_out")
    )
    owners = components.select("run_id", "task", f.col("component").alias("source"))
    emitted = (
        _phased(streams.select("run_id", "t_s", "dt_s", "task", "stream", "emitted"), spans)
        .join(f.broadcast(owners), ["run_id", "task"], how="inner")
        .groupBy("run_id", "event_id", "phase", "source", "stream")
        .agg(f.sum("emitted").alias("emitted"))
    )
    return emitted.join(wide_edges, ["run_id", "source", "stream"], how="inner").select(
        "run_id", "event_id", "phase", "source", "stream", "target", "grouping",
        (f.col("emitted") * f.col("fan_out")).cast("double").alias("sent"),
    )  # fmt: skip


def executed_on_edges(sources: DataFrame, components: DataFrame, spans: DataFrame) -> DataFrame:
    """Tuples executed at the target of every edge."""
    owners = components.select("run_id", "task", f.col("component").alias("target"))
    samples = sources.select("run_id", "t_s", "dt_s", "task", f.col("component").alias("source"), "stream", "executed")
    return (
        _phased(samples, spans)
        .join(f.broadcast(owners), ["run_id", "task"], how="inner")
        .groupBy("run_id", "event_id", "phase", "source", "stream", "target")
        .agg(f.sum("executed").cast("double").alias("executed"))
    )


def queue_growth(tasks: DataFrame, components: DataFrame, spans: DataFrame) -> DataFrame:
    """Queue at the end of a phase less the queue at its start, summed over a component's tasks; a run begins empty."""
    owners = components.select("run_id", "task", f.col("component").alias("target"))
    middle = f.col("t_s") - f.col("dt_s") / 2
    bounds = ["zero_s", "from_s", "until_s", "last_s"]
    latest = {
        "begin": f.when(middle < f.col("from_s"), f.col("t_s")),
        "zero": f.when(middle < f.col("zero_s"), f.col("t_s")),
        "end": f.when(f.col("until_s").isNull() | (middle < f.col("until_s")), f.col("t_s")),
    }
    ends = {"begin": f.col("from_s"), "zero": f.col("zero_s"), "end": f.coalesce("until_s", "last_s")}
    at = (
        tasks.where(f.col("queue").isNotNull())
        .select("run_id", "t_s", "dt_s", "task", "queue")
        .join(f.broadcast(spans.select("run_id", "event_id", *bounds)), "run_id", how="inner")
        .groupBy("run_id", "event_id", "task", *bounds)
        .agg(
            *[f.max(t).alias(f"{name}_t") for name, t in latest.items()],
            *[f.max_by("queue", t).alias(f"{name}_queue") for name, t in latest.items()],
        )
    )
    known = {
        name: f.when(f.col(f"{name}_t") >= end - SILENCE_S, f.col(f"{name}_queue")).otherwise(0)
        for name, end in ends.items()
    }
    summed = (
        at.join(f.broadcast(owners), ["run_id", "task"], how="inner")
        .groupBy("run_id", "event_id", "target")
        .agg(*[f.sum(queue).alias(name) for name, queue in known.items()])
    )
    return summed.select(
        "run_id",
        "event_id",
        "target",
        (f.col("zero") - f.col("begin")).cast("double").alias("before"),
        (f.col("end") - f.col("zero")).cast("double").alias("after"),
    ).unpivot(["run_id", "event_id", "target"], ["before", "after"], "phase", "growth")
