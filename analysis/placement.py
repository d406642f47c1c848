"""Placements before and after each event: executors moved, workers restarted, the others left alone or not."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from analysis.scale_events import happened, phased


def settled(placements: DataFrame, spans: DataFrame) -> DataFrame:
    """The last rounds before each event and before the next one in which every task of ours was placed."""
    ours = placements.where(f.coalesce("kind", f.lit("")) != "system")
    rounds = (
        ours.groupBy("run_id", "t_s")
        .agg((f.count("*") == f.count("slot")).alias("placed"), f.max("rebalancing").alias("rebalancing"))
        .where(f.col("placed") & ~f.coalesce("rebalancing", f.lit(False)))
        .select("run_id", "t_s")
    )
    chosen = (
        phased(rounds, happened(spans), f.col("t_s"))
        .groupBy("run_id", "event_id", "phase")
        .agg(f.max("t_s").alias("t_s"))
    )
    return ours.join(f.broadcast(chosen), ["run_id", "t_s"], how="inner").select(
        "run_id", "event_id", "phase", "component", "task", "first_task", "last_task", "slot", "machine"
    )


def moves(settled: DataFrame, spans: DataFrame) -> DataFrame:
    """Per event: executors whose slot or task range changed, tasks whose machine changed, what joined machines got."""
    sides = (
        settled.groupBy("run_id", "event_id", "component", "task")
        .pivot("phase", ["before", "after"])
        .agg(f.first(f.struct("first_task", "last_task", "slot", "machine")))
    )
    shape = f.broadcast(spans.select("run_id", "event_id", "joined", "machines_before"))
    heads_before = f.col("before.first_task") == f.col("task")
    heads_after = f.col("after.first_task") == f.col("task")
    same = (
        (f.col("before.first_task") == f.col("after.first_task"))
        & (f.col("before.last_task") == f.col("after.last_task"))
        & (f.col("before.slot") == f.col("after.slot"))
    )
    elsewhere = f.col("before.machine") != f.col("after.machine")
    on_joined = f.array_contains("joined", f.col("after.machine"))
    return (
        sides.where(f.col("before").isNotNull() & f.col("after").isNotNull())
        .join(shape, ["run_id", "event_id"], how="inner")
        .groupBy("run_id", "event_id", f.size("joined").cast("bigint").alias("joined_machines"),
                 f.col("machines_before").cast("bigint").alias("old_machines"))
        .agg(
            f.count_if(heads_before).alias("executors_before"),
            f.count_if(heads_after).alias("executors_after"),
            f.count_if(heads_after & ~same).alias("executors_moved"),
            f.count_if(elsewhere).alias("tasks_moved"),
            f.count_if(elsewhere & ~on_joined).alias("tasks_moved_to_old_machines"),
            f.count_if(heads_after & on_joined).alias("instances_on_joined"),
        )
        .select("run_id", "event_id", "executors_before", "executors_after", "executors_moved", "tasks_moved",
                "tasks_moved_to_old_machines", "instances_on_joined", "joined_machines", "old_machines")
    )  # fmt: skip


def slots(settled: DataFrame, restarts: DataFrame, machines: DataFrame) -> DataFrame:
    """Per event and slot: executors before and after, whether that set changed, how often the worker restarted."""
    label = f.concat_ws("-", "component", "first_task", "last_task")
    sets = (
        settled.groupBy("run_id", "event_id", "slot")
        .pivot("phase", ["before", "after"])
        .agg(f.array_sort(f.collect_set(label)))
    )
    known = machines.select("run_id", "machine", "joins_at_scale")
    before, after = (f.coalesce(side, f.array().cast("array<string>")) for side in ("before", "after"))
    return (
        sets.join(restarts, ["run_id", "event_id", "slot"], how="left")
        .select("run_id", "event_id", "slot", f.substring_index("slot", ":", 1).alias("machine"), before.alias("b"),
                after.alias("a"), "seen_before", "seen_after", "restarts")
        .join(f.broadcast(known), ["run_id", "machine"], how="left")
        .select("run_id", "event_id", "slot", "machine", "joins_at_scale", f.size("b").alias("executors_before"),
                f.size("a").alias("executors_after"), (f.col("b") != f.col("a")).alias("changed"),
                f.coalesce("seen_before", f.lit(False)).alias("seen_before"),
                f.coalesce("seen_after", f.lit(False)).alias("seen_after"),
                f.coalesce("restarts", f.lit(0)).cast("int").alias("restarts"))
    )  # fmt: skip


def restarts(workers: DataFrame, spans: DataFrame) -> DataFrame:
    """Per slot, after each event: how often its worker's pid changed or its count of lines began again."""
    after = f.col("phase") == "after"
    return (
        phased(begun(workers), happened(spans), f.col("t_s"))
        .groupBy("run_id", "event_id", "slot")
        .agg(
            f.bool_or(~after).alias("seen_before"),
            f.bool_or(after).alias("seen_after"),
            f.count_if(after & f.col("began_again")).alias("restarts"),
        )
        .select("run_id", "event_id", "slot", "seen_before", "seen_after", "restarts")
    )


def begun(workers: DataFrame) -> DataFrame:
    """Every worker line with `began_again`: whether it is the first of another process; null for a slot's first."""
    lines = Window.partitionBy("run_id", "machine", "port").orderBy("t_s")
    again = (f.col("pid") != f.lag("pid").over(lines)) | (f.col("seq") < f.lag("seq").over(lines))
    return workers.select(
        "run_id", f.concat_ws(":", "machine", "port").alias("slot"), "t_s", again.alias("began_again")
    )
