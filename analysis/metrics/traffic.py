"""Tuples from task to task in the parts of a run that count, and the places of both tasks at that time (MP III-C,
IV-A); and the communication graph of a run for METIS: a vertex a task, an edge the tuples between two tasks.

Placement goes by time: the sender's line gives its place. The receiver's place is given by the lines of its worker: a
worker's process has the same tasks as long as it lives, so a task is with the process that had it last.
"""

from dataclasses import dataclass

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analysis.metrics.line_seconds import in_intervals
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import event_order
from analysis.record.small_tables import PHASE, UNIT, Unit
from barograph.errors import ConfigurationError
from scheduler_plugins.model import ACKER, SYSTEM_PREFIX
from scheduler_plugins.policies.communication import Integers


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
    return intervals.select(*PHASE, (f.col("windows") * WINDOW_S).alias("seconds"))  # those that were measured


def tuple_rates(
    traffic: DataFrame, tasks: DataFrame, components: DataFrame, placements: DataFrame, intervals: DataFrame,
    axes: DataFrame,
) -> DataFrame:  # fmt: skip
    """Return per part that counts the tuples between tasks, workers and machines (`traffic`: of `task_traffic`), and
    those executed by bolts and Storm's ackers; the latter is unknown for a run that recorded no placement."""

    def rate(which: Column) -> Column:
        return f.sum(f.when(which, f.col("tuples_per_s")).otherwise(0.0))

    passed = traffic.groupBy(*PHASE).agg(
        f.sum("tuples_per_s").alias("traffic_per_s"),
        rate(f.col("from_slot") != f.col("to_slot")).alias("between_workers_per_s"),
        rate(f.col("from_machine") != f.col("to_machine")).alias("between_machines_per_s"),
        rate(f.col("to_slot").isNull()).alias("unplaced_per_s"),
    )
    bolts = components.where(f.col("kind") == "bolt").select(*UNIT, "task", f.lit(True).alias("is_bolt"))
    counted = tasks.select(*UNIT, "t_s", "dt_s", "task", "component", "executed")
    executed = (
        in_intervals(intervals, counted, axes, ["executed"])
        .join(f.broadcast(bolts), [*UNIT, "task"], how="left")
        .groupBy(*PHASE)
        .agg(
            f.sum(f.when(f.col("is_bolt"), f.col("executed"))).alias("executed"),
            f.sum(f.when(f.col("component") == ACKER, f.col("executed"))).alias("ackers"),
        )
    )
    acked = placements.groupBy(*UNIT).agg(f.max(f.col("component") == ACKER).alias("acked"))
    ackers_per_s = f.col("ackers") / f.col("seconds")
    return (
        _lengths(intervals)
        .join(passed, list(PHASE), how="left")
        .join(executed, list(PHASE), how="left")
        .join(f.broadcast(acked), list(UNIT), how="left")
        .select(*PHASE, "traffic_per_s", "between_workers_per_s", "between_machines_per_s", "unplaced_per_s",
                (f.col("executed") / f.col("seconds")).alias("executed_per_s"),
                f.when(f.col("ackers").isNull() & ~f.col("acked"), 0.0).otherwise(ackers_per_s)
                .alias("ackers_executed_per_s"))
    )  # fmt: skip


# --- the graph --------------------------------------------------------------------------------------------------------


Part = tuple[str, str]  # an event's id, and one side of it


@dataclass(frozen=True, eq=False)
class CommunicationArrays:
    """A graph in arrays. The neighbours of vertex v are `neighbours[starts[v]:starts[v + 1]]`, ascending.

    `edge_weights`: of each neighbour, tuples of both directions; `vertex_weights`: tuples that a task sent and
    received; `tasks`: its number in the topology, ascending.
    """

    tasks: Integers
    starts: Integers  # vertices + 1
    neighbours: Integers  # 2 * edges
    edge_weights: Integers  # 2 * edges
    vertex_weights: Integers

    @property
    def edge_count(self) -> int:
        return len(self.neighbours) // 2


def of_unit(rows: DataFrame, unit: Unit) -> DataFrame:
    return rows.where((f.col("run_id") == unit[0]) & (f.col("topology") == unit[1]))


def in_part(traffic: DataFrame, intervals: DataFrame, axes: DataFrame, part: Part, unit: Unit) -> DataFrame:
    """Return samples, with their seconds in the part of one side of an event that counts, of one topology.
    Raises ConfigurationError if it has no such part."""
    own = of_unit(intervals, unit)
    chosen = own.where((f.col("event_id") == part[0]) & (f.col("phase") == part[1]))
    if chosen.isEmpty():
        known = own.select("event_id", "phase").distinct().collect()  # a few events
        names = sorted(
            ((row["event_id"], row["phase"]) for row in known),
            key=lambda each: (event_order(each[0]), each[1] != "before"),
        )
        there = ", ".join(map(".".join, names)) or "none"
        raise ConfigurationError(f"{'/'.join(unit)} has no part {'.'.join(part)}; there are {there}")
    return in_intervals(chosen, traffic, axes, ["n"])


def sent_tuples(traffic: DataFrame) -> DataFrame:
    """Return for one run's samples the tuples from task to task, a row a pair and direction."""
    return traffic.groupBy("from", "to").agg(f.sum("n").alias("n")).select("from", "to", "n")


def edges(sent: DataFrame) -> DataFrame:
    """Return each edge from both of its ends: (task, neighbour, weight). Tuples of a task to itself are no edge."""
    one = sent.where((f.col("from") != f.col("to")) & (f.col("n") > 0))
    directions = one.select(f.col("from").alias("task"), f.col("to").alias("neighbour"), "n").unionByName(
        one.select(f.col("to").alias("task"), f.col("from").alias("neighbour"), "n")
    )
    return directions.groupBy("task", "neighbour").agg(f.sum("n").alias("weight")).select("task", "neighbour", "weight")


def between_tasks(sent: DataFrame, tasks: DataFrame) -> DataFrame:
    """Return counts without pairs that name an unknown task, as lines of others may: no edge, and no task's work."""
    known = sent
    for end in ("from", "to"):
        known = known.join(tasks.select(f.col("task").alias(end)), end, how="left_semi")
    return known.select("from", "to", "n")


def vertices(sent: DataFrame, tasks: DataFrame) -> DataFrame:
    """Return every task, even without any tuples: (task, weight)."""
    ends = sent.select(f.col("from").alias("task"), "n").unionByName(sent.select(f.col("to").alias("task"), "n"))
    weights = ends.groupBy("task").agg(f.sum("n").alias("weight"))
    return tasks.join(weights, "task", how="left").select("task", f.coalesce("weight", f.lit(0)).alias("weight"))


def arrays(sent: DataFrame, components: DataFrame, unit: Unit) -> CommunicationArrays:
    """Return the graph of a topology's tasks. Raises ConfigurationError without a tuple between tasks."""
    own = of_unit(components, unit).select("task").distinct()
    known = between_tasks(sent, own)
    points = vertices(known, own).sort("task").toArrow()
    lines = edges(known).sort("task", "neighbour").toArrow()
    tasks, weights_of_tasks = (np.asarray(points[name], dtype=np.int64) for name in ("task", "weight"))
    ends, others, weights = (np.asarray(lines[name], dtype=np.int64) for name in ("task", "neighbour", "weight"))
    if not len(ends):
        raise ConfigurationError(
            f"{'/'.join(unit)}: no tuple from task to task is on record; its topology needs barograph.traffic: true"
        )
    places = np.searchsorted(tasks, ends)
    return CommunicationArrays(
        tasks=tasks,
        starts=np.concatenate(([0], np.cumsum(np.bincount(places, minlength=len(tasks))))),
        neighbours=np.searchsorted(tasks, others),
        edge_weights=weights,
        vertex_weights=weights_of_tasks,
    )
