"""The communication graph of a run, made in Spark from its workers' raw lines: a vertex a task, an edge the tuples
between two tasks (MP III-C), for METIS.

METIS wants each edge in the lines of both ends with one weight, so the counts of both directions are added up. A vertex
has the weight of its task's sent and received tuples. Spark sums the lines; only the graph itself comes to this
process, as Arrow.
"""

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analysis.metrics.machine_load import in_intervals
from analysis.record.event_timeline import event_order
from analysis.record.units import Unit
from barograph.errors import ConfigurationError
from scheduler_plugins.policies.communication import Integers

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
    """Return the graph of the tasks of one topology. Raises ConfigurationError if no tuple between tasks is on
    record."""
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
