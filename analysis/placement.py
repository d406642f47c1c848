"""Placements before and after a scale event: executors moved, workers restarted, the others left alone or not."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f


def settled(placements: DataFrame, zeros: DataFrame) -> DataFrame:
    """The last round before the request and the last of the run in which every task of ours was placed."""
    ours = placements.where(f.coalesce("kind", f.lit("")) != "system")
    rounds = (
        ours.groupBy("run_id", "t_s")
        .agg((f.count("*") == f.count("slot")).alias("placed"), f.max("rebalancing").alias("rebalancing"))
        .where(f.col("placed") & ~f.coalesce("rebalancing", f.lit(False)))
        .join(f.broadcast(zeros.where("scaled").select("run_id", "zero_s")), "run_id", how="inner")
    )
    before = rounds.where(f.col("t_s") <= f.col("zero_s")).groupBy("run_id").agg(f.max("t_s").alias("t_s"))
    after = rounds.where(f.col("t_s") > f.col("zero_s")).groupBy("run_id").agg(f.max("t_s").alias("t_s"))
    chosen = before.select("run_id", "t_s", f.lit("before").alias("phase")).unionByName(
        after.select("run_id", "t_s", f.lit("after").alias("phase"))
    )
    return ours.join(f.broadcast(chosen), ["run_id", "t_s"], how="inner").select(
        "run_id", "phase", "component", "task", "first_task", "last_task", "slot", "machine"
    )


def moves(settled: DataFrame, machines: DataFrame) -> DataFrame:
    """Per run: executors whose slot or task range changed, tasks whose machine changed, what joined machines got."""
    sides = (
        settled.groupBy("run_id", "component", "task")
        .pivot("phase", ["before", "after"])
        .agg(f.first(f.struct("first_task", "last_task", "slot", "machine")))
    )
    joined = machines.where("joins_at_scale").select("run_id", f.col("machine").alias("new_machine"))
    old = machines.where(~f.col("joins_at_scale")).groupBy("run_id").agg(f.count("*").alias("old_machines"))
    news = joined.groupBy("run_id").agg(f.count("*").alias("joined_machines"))
    heads_before = f.col("before.first_task") == f.col("task")
    heads_after = f.col("after.first_task") == f.col("task")
    same = (
        (f.col("before.first_task") == f.col("after.first_task"))
        & (f.col("before.last_task") == f.col("after.last_task"))
        & (f.col("before.slot") == f.col("after.slot"))
    )
    elsewhere = f.col("before.machine") != f.col("after.machine")
    on_joined = f.col("new_machine").isNotNull()
    return (
        sides.where(f.col("before").isNotNull() & f.col("after").isNotNull())
        .join(
            f.broadcast(joined),
            (sides["run_id"] == joined["run_id"]) & (f.col("after.machine") == joined["new_machine"]),
            how="left",
        )
        .select(sides["run_id"], "task", "before", "after", "new_machine")
        .groupBy("run_id")
        .agg(
            f.count_if(heads_before).alias("executors_before"),
            f.count_if(heads_after).alias("executors_after"),
            f.count_if(heads_after & ~same).alias("executors_moved"),
            f.count_if(elsewhere).alias("tasks_moved"),
            f.count_if(elsewhere & ~on_joined).alias("tasks_moved_to_old_machines"),
            f.count_if(heads_after & on_joined).alias("instances_on_joined"),
        )
        .join(news, "run_id", how="left")
        .join(old, "run_id", how="left")
        .select("run_id", "executors_before", "executors_after", "executors_moved", "tasks_moved",
                "tasks_moved_to_old_machines", "instances_on_joined",
                f.coalesce("joined_machines", f.lit(0)).alias("joined_machines"),
                f.coalesce("old_machines", f.lit(0)).alias("old_machines"))
    )  # fmt: skip


def slots(settled: DataFrame, restarts: DataFrame, machines: DataFrame) -> DataFrame:
    """Per slot: its executors before and after, whether that set changed, and how often its worker restarted."""
    label = f.concat_ws("-", "component", "first_task", "last_task")
    sets = settled.groupBy("run_id", "slot").pivot("phase", ["before", "after"]).agg(f.array_sort(f.collect_set(label)))
    known = machines.select("run_id", "machine", "joins_at_scale")
    before, after = (f.coalesce(side, f.array().cast("array<string>")) for side in ("before", "after"))
    return (
        sets.join(restarts, ["run_id", "slot"], how="left")
        .select("run_id", "slot", f.substring_index("slot", ":", 1).alias("machine"), before.alias("b"),
                after.alias("a"), "seen_before", "seen_after", "restarts")
        .join(f.broadcast(known), ["run_id", "machine"], how="left")
        .select("run_id", "slot", "machine", "joins_at_scale", f.size("b").alias("executors_before"),
                f.size("a").alias("executors_after"), (f.col("b") != f.col("a")).alias("changed"),
                f.coalesce("seen_before", f.lit(False)).alias("seen_before"),
                f.coalesce("seen_after", f.lit(False)).alias("seen_after"),
                f.coalesce("restarts", f.lit(0)).cast("int").alias("restarts"))
    )  # fmt: skip


def restarts(workers: DataFrame, zeros: DataFrame) -> DataFrame:
    """Per slot, after the request: how often its worker's pid changed or its count of lines began again."""
    lines = Window.partitionBy("run_id", "machine", "port").orderBy("t_s")
    began_again = (f.col("pid") != f.lag("pid").over(lines)) | (f.col("seq") < f.lag("seq").over(lines))
    after = f.col("t_s") > f.col("zero_s")
    return (
        workers.join(f.broadcast(zeros.where("scaled").select("run_id", "zero_s")), "run_id", how="inner")
        .select("run_id", "machine", "port", after.alias("after"), began_again.alias("began_again"))
        .groupBy("run_id", "machine", "port")
        .agg(
            f.bool_or(~f.col("after")).alias("seen_before"),
            f.bool_or("after").alias("seen_after"),
            f.count_if(f.col("after") & f.col("began_again")).alias("restarts"),
        )
        .select("run_id", f.concat_ws(":", "machine", "port").alias("slot"), "seen_before", "seen_after", "restarts")
    )
