"""Tuples from task to task in the parts of a run that count, and the places of both tasks at that time (MP III-C,
IV-A).

Placement goes by time: the sender's line gives its place. The receiver's place is given by the lines of its worker: a
worker's process has the same tasks as long as it lives, so a task is with the process that had it last.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analysis.metrics.machine_load import in_intervals
from analysis.record.units import PHASE, UNIT
from scheduler_plugins.model import ACKER, SYSTEM_PREFIX


def own_tasks(tasks: DataFrame) -> DataFrame:
    """Return tasks without Storm's own."""
    return tasks.where(~f.coalesce(f.startswith("component", f.lit(SYSTEM_PREFIX)), f.lit(False)))


def stays(tasks: DataFrame) -> DataFrame:
    """Return the place of each task, from when until when: a row a process that had it; `until_s` is null for the last.
    `tasks`: samples with the `pid` of their line."""
    begun = f.min(f.col("t_s") - f.col("dt_s"))
    following = Window.partitionBy(*UNIT, "task").orderBy("from_s", "slot", "pid")
    processes = (
        tasks.groupBy(*UNIT, "task", "machine", "port", "pid")
        .agg(begun.alias("from_s"))
        .select(*UNIT, "task", _slot().alias("slot"), "machine", "pid", "from_s")
    )
    until = f.lead("from_s").over(following)
    return processes.select(*UNIT, "task", "slot", "machine", "from_s", until.alias("until_s"))


def _slot() -> Column:
    return f.concat_ws(":", "machine", "port")


def task_traffic(traffic: DataFrame, stays: DataFrame, intervals: DataFrame, axes: DataFrame) -> DataFrame:
    """Return tuples/s of each pair of tasks in each part that counts; a pair has a row for each pair of slots in it."""
    sent = in_intervals(intervals, traffic, axes, ["n"]).select(
        *PHASE, "from", "to", _slot().alias("from_slot"), f.col("machine").alias("from_machine"),
        f.col("middle_s").alias("sent_s"), "n",
    )  # fmt: skip
    receivers = f.broadcast(stays.select(
        f.col("run_id").alias("stay_run"), f.col("topology").alias("stay_topology"), f.col("task").alias("stay_task"),
        f.col("slot").alias("to_slot"), f.col("machine").alias("to_machine"), "from_s", "until_s",
    ))  # fmt: skip
    there = (f.col("from_s") <= f.col("sent_s")) & (f.col("until_s").isNull() | (f.col("sent_s") < f.col("until_s")))
    same_unit = (f.col("stay_run") == f.col("run_id")) & (f.col("stay_topology") == f.col("topology"))
    is_receiver = same_unit & (f.col("stay_task") == f.col("to"))
    pair = ("from", "to", "from_slot", "from_machine", "to_slot", "to_machine")
    return (
        sent.join(receivers, is_receiver & there, how="left")
        .groupBy(*PHASE, *pair)
        .agg(f.sum("n").alias("n"))
        .join(f.broadcast(_lengths(intervals)), list(PHASE), how="inner")
        .select(*PHASE, *pair, (f.col("n") / f.col("seconds")).alias("tuples_per_s"))
    )


def _lengths(intervals: DataFrame) -> DataFrame:
    return intervals.select(*PHASE, (f.col("end_s") - f.col("start_s")).alias("seconds"))


def tuple_rates(
    traffic: DataFrame, tasks: DataFrame, components: DataFrame, placements: DataFrame, intervals: DataFrame,
    axes: DataFrame,
) -> DataFrame:  # fmt: skip
    """Return per part that counts the tuples between tasks, workers and machines (`traffic`: of `task_traffic`), and
    those executed by bolts and Storm's ackers; the latter is unknown for a run that recorded no placement."""
    acked = placements.groupBy(*UNIT).agg(f.max(f.col("component") == ACKER).alias("acked"))
    return (
        _lengths(intervals)
        .join(_passed(traffic), list(PHASE), how="left")
        .join(_executed(tasks, components, intervals, axes), list(PHASE), how="left")
        .join(f.broadcast(acked), list(UNIT), how="left")
        .select(*PHASE, "traffic_per_s", "between_workers_per_s", "between_machines_per_s", "unplaced_per_s",
                (f.col("executed") / f.col("seconds")).alias("executed_per_s"),
                f.when(f.col("ackers").isNull() & ~f.col("acked"), 0.0)
                .otherwise(f.col("ackers") / f.col("seconds")).alias("ackers_executed_per_s"))
    )  # fmt: skip


def _passed(traffic: DataFrame) -> DataFrame:
    def rate(which: Column) -> Column:
        return f.sum(f.when(which, f.col("tuples_per_s")).otherwise(0.0))

    return traffic.groupBy(*PHASE).agg(
        f.sum("tuples_per_s").alias("traffic_per_s"),
        rate(f.col("from_slot") != f.col("to_slot")).alias("between_workers_per_s"),
        rate(f.col("from_machine") != f.col("to_machine")).alias("between_machines_per_s"),
        rate(f.col("to_slot").isNull()).alias("unplaced_per_s"),
    )


def _executed(tasks: DataFrame, components: DataFrame, intervals: DataFrame, axes: DataFrame) -> DataFrame:
    bolts = components.where(f.col("kind") == "bolt").select(*UNIT, "task", f.lit(True).alias("is_bolt"))
    counted = tasks.select(*UNIT, "t_s", "dt_s", "task", "component", "executed")
    return (
        in_intervals(intervals, counted, axes, ["executed"])
        .join(f.broadcast(bolts), [*UNIT, "task"], how="left")
        .groupBy(*PHASE)
        .agg(
            f.sum(f.when(f.col("is_bolt"), f.col("executed"))).alias("executed"),
            f.sum(f.when(f.col("component") == ACKER, f.col("executed"))).alias("ackers"),
        )
    )
