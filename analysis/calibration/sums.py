"""The input of the fit from one series: starts of workers, and sums by run, worker, component and window, by Spark.

A run has at most about MOST_WINDOWS windows, so the data in this process does not grow with its length.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analysis.calibration import starts
from analysis.calibration.starts import Join, Span, StartGroup
from analysis.ingest.tables import view
from analysis.record.small_tables import Row, frame_of_rows
from scheduler_plugins.simulator.work import SimulatedTopology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORTEST_WINDOW_S, MOST_WINDOWS = 10, 100
SECOND = (0.9, 1.1)  # lengths of lines that are of one second
SATURATED = (0.95, 1.1)  # share of a second that an executor was busy which never waits
PROCESS = ("run_id", "topology", "machine", "port", "pid")
Works = Mapping[tuple[str, str], SimulatedTopology]
"""By run and the topology's name: what its components do to a tuple."""


@dataclass(frozen=True)
class RunSums:
    """The data of one run; topologies by their ids. `works`: of topologies whose components' costs are stated, except
    those with ackers, which the fit leaves out. `window_s`: length of the windows of `activity` and `machine_cpu`;
    `begun_s`: of processes, by topology, machine, port and id. `*_of_spans`: of starts and joins."""

    run_id: str  # with its series, so that it is unique
    works: Mapping[str, SimulatedTopology]
    activity: tuple[Row, ...]
    machine_cpu: tuple[Row, ...]
    starts: tuple[StartGroup, ...]
    joins: tuple[Join, ...]
    cpu_of_spans: Mapping[Span, float]
    tuples_of_spans: tuple[tuple[Span, Row], ...]
    speeds: tuple[Row, ...]
    cores: Mapping[str, float]  # of each machine, if known
    latencies: tuple[Row, ...]
    intervals: tuple[Row, ...]
    zeros_s: Mapping[str, float]  # of events
    settled: tuple[Row, ...]
    topology_ids: Mapping[str, str]  # by name
    window_s: float
    begun_s: Mapping[tuple[str, str, int, int], float]


def collect(
    spark: SparkSession, stored: Callable[[str], DataFrame], small: Callable[[str], list[Row]], works: Works, label: str
) -> list[RunSums]:
    """Return the data of complete runs. `stored`: a table as Spark reads it; `small`: rows of a small one."""
    lines, samples, placements = stored("worker_lines"), stored("machine_samples"), stored("placements")
    length_s, processes = window_s(small("zeros")), processes_in(lines)
    ids = {(row["run_id"], row["topology"]): row["topology_id"] for row in small("topologies") if row["topology_id"]}
    groups = starts.merge(
        starts.start_groups(starts.orders(small("events"), _first_rounds(placements), ids), processes)
    )
    joins = starts.joins(small("phases"), small("events"), groups)
    spans = [*(group.span for group in groups), *(join.span for join in joins)]
    cpu = cpu_in_spans(spark, samples, spans) if spans else {}
    tuples = tuples_in_spans(spark, lines, spans) if spans else []
    of_executors = with_executors((row for _, row in tuples), executors(placements), processes)
    tuples = list(zip((span for span, _ in tuples), of_executors, strict=True))
    by_run: dict[str, dict[str, list[Row]]] = {}
    for name, rows in {
        "activity": with_executors(activity(lines, length_s), executors(placements), processes),
        "machine_cpu": machine_cpu(samples, length_s),
        "speeds": speeds(lines),
        **{name: small(name) for name in ("latency", "intervals", "scale_events", "settled", "machines")},
    }.items():
        by_run[name] = defaultdict(list)
        for row in rows:
            by_run[name][row["run_id"]].append(row)
    return [
        RunSums(
            run_id=f"{label} {run_id}",
            works={
                ids[key]: work for key, work in works.items() if key[0] == run_id and key in ids and work.acking is None
            },
            activity=tuple(by_run["activity"][run_id]),
            machine_cpu=tuple(by_run["machine_cpu"][run_id]),
            starts=tuple(group for group in groups if group.run_id == run_id),
            joins=tuple(join for join in joins if join.run_id == run_id),
            cpu_of_spans={span: value for span, value in cpu.items() if span.run_id == run_id},
            tuples_of_spans=tuple(each for each in tuples if each[0].run_id == run_id),
            speeds=tuple(by_run["speeds"][run_id]),
            cores={row["machine"]: row["cores"] for row in by_run["machines"][run_id] if row["cores"] is not None},
            latencies=tuple(by_run["latency"][run_id]),
            intervals=tuple(by_run["intervals"][run_id]),
            zeros_s={row["event_id"]: row["zero_s"] for row in by_run["scale_events"][run_id]},
            settled=tuple(by_run["settled"][run_id]),
            topology_ids={name: topology for (run, name), topology in ids.items() if run == run_id},
            window_s=float(length_s),
            begun_s={
                (row["topology"], row["machine"], row["port"], row["pid"]): row["begun_s"]
                for row in processes
                if row["run_id"] == run_id
            },
        )
        for run_id in (row["run_id"] for row in small("runs") if row["status"] == "complete")
    ]


def _first_rounds(placements: DataFrame) -> list[Row]:
    """Return when each topology was placed first: the last round before which none of it had a slot."""
    rounds = placements.groupBy("run_id", "topology", "t_s").agg(f.count("slot").alias("placed"))
    placed_from = f.min(f.when(f.col("placed") > 0, f.col("t_s"))).alias("placed_from_s")
    first = rounds.groupBy("run_id", "topology").agg(placed_from)
    before = rounds.join(first, ["run_id", "topology"], how="inner").where(
        (f.col("placed") == 0) & (f.col("t_s") < f.col("placed_from_s"))
    )
    return _rows(before.groupBy("run_id", "topology").agg(f.max("t_s").alias("placed_s")))


def window_s(zeros: Iterable[Row]) -> int:
    """Return the length of the windows: the same for all runs of a series."""
    longest_s = max((float(row["last_s"]) - float(row["first_s"]) for row in zeros), default=0.0)
    return SHORTEST_WINDOW_S * max(1, math.ceil(longest_s / (SHORTEST_WINDOW_S * MOST_WINDOWS)))


def activity(lines: DataFrame, length_s: int) -> list[Row]:
    """Return the activity of each component in each process of a worker, window by window.

    `worker_s`: seconds that its lines cover. Columns that begin with `timed_` are of lines that know their CPU time.
    """
    has_cpu = f.col("cpu_ms").isNotNull()
    sums = (
        view(lines, "task_samples", ("pid",))
        .groupBy(*PROCESS, "component", _window(length_s))
        .agg(
            (f.sum("dt_s") / f.count_distinct("task")).alias("worker_s"),
            f.count_distinct("task").alias("tasks"),
            f.sum("executed").alias("executed"),
            f.sum("emitted").alias("emitted"),
            f.sum("transferred").alias("transferred"),
            f.sum("execute_ms").alias("execute_ms"),
            f.sum("cpu_ms").alias("cpu_ms"),
            f.sum(f.when(has_cpu, f.col("dt_s"))).alias("timed_s"),
            f.sum(f.when(has_cpu, f.col("executed"))).alias("timed_executed"),
            f.sum(f.when(has_cpu, f.col("transferred"))).alias("timed_transferred"),
            f.sum(f.when(has_cpu, f.col("execute_ms"))).alias("timed_execute_ms"),
        )
    )
    return _rows(sums)


def executors(placements: DataFrame) -> list[Row]:
    """Return for each slot and component its number of executors, from each round (`t_s`) on in which that changed."""
    by_slot = ("run_id", "topology", "slot", "component")
    rounds = (
        placements.where(f.col("slot").isNotNull())
        .groupBy(*by_slot, "t_s")
        .agg(f.count_distinct("first_task").alias("executors"))
    )
    before = f.lag("executors", 1, 0).over(Window.partitionBy(*by_slot).orderBy("t_s")).alias("before")
    changed = rounds.select(*by_slot, "t_s", "executors", before).where(f.col("executors") != f.col("before"))
    return _rows(changed.select(*by_slot, "t_s", "executors"))


def with_executors(activity: Iterable[Row], executors: Iterable[Row], processes: Iterable[Row]) -> list[Row]:
    """Return rows of `activity` with their `executors`, each of which may have several tasks, and `timed_executor_s`:
    as `timed_s`, but the seconds of executors. A process has the executors of the last round before it began; without
    such a round each task is one."""
    rounds: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in sorted(executors, key=lambda row: float(row["t_s"])):
        rounds.setdefault((row["run_id"], row["topology"], row["slot"], row["component"]), []).append(row)
    begun_s = {tuple(row[name] for name in PROCESS): float(row["begun_s"]) for row in processes}
    result = []
    for row in activity:
        begin_s = begun_s[tuple(row[name] for name in PROCESS)]
        slot = (row["run_id"], row["topology"], f"{row['machine']}:{row['port']}", row["component"])
        of_slot = [each["executors"] for each in rounds.get(slot, ()) if each["t_s"] <= begin_s]
        number = of_slot[-1] if of_slot else row["tasks"]
        timed_s = None if row.get("timed_s") is None else row["timed_s"] * number / row["tasks"]
        result.append(row | {"executors": number, "timed_executor_s": timed_s})
    return result


def machine_cpu(samples: DataFrame, length_s: int) -> list[Row]:
    """Return CPU seconds of each machine and window, and the seconds that its lines cover."""
    cpu_s = f.sum(f.col("cpu_cores") * f.col("dt_s")).alias("cpu_s")
    seconds = f.sum("dt_s").alias("machine_s")
    samples_with_cpu = samples.where(f.col("cpu_cores").isNotNull())
    return _rows(samples_with_cpu.groupBy("run_id", "machine", _window(length_s)).agg(cpu_s, seconds))


def processes_in(lines: DataFrame) -> list[Row]:
    """Return every process of a worker: when its lines begin and end."""
    valid_lines = lines.where(f.col("damaged_text").isNull())
    begin = f.min(f.col("t_s") - f.col("dt_s")).alias("begun_s")
    return _rows(valid_lines.groupBy(*PROCESS).agg(begin, f.max("t_s").alias("last_s")))


def cpu_in_spans(spark: SparkSession, samples: DataFrame, spans: Sequence[Span]) -> dict[Span, float]:
    """Return CPU seconds that the machine used in each span; a span that no line touches is left out."""
    touching = _in_spans(spark, samples.where(f.col("cpu_cores").isNotNull()), spans)
    sums = touching.groupBy("number").agg(f.sum(f.col("cpu_cores") * f.col("overlap_s")).alias("cpu_s"))
    return {spans[row["number"]]: row["cpu_s"] for row in _rows(sums)}


def tuples_in_spans(spark: SparkSession, lines: DataFrame, spans: Sequence[Span]) -> list[tuple[Span, Row]]:
    """Return the activity of components on the machine in each span, and the seconds that its workers' lines cover."""
    share = f.col("overlap_s") / f.col("dt_s")
    sums = (
        _in_spans(spark, view(lines, "task_samples", ("pid",)).where(f.col("dt_s") > 0), spans)
        .groupBy("number", "run_id", "topology", "machine", "port", "pid", "component")
        .agg(
            (f.sum("overlap_s") / f.count_distinct("task")).alias("worker_s"),
            f.count_distinct("task").alias("tasks"),
            *(f.sum(f.col(name) * share).alias(name) for name in ("executed", "emitted", "transferred", "execute_ms")),
        )
    )
    return [(spans[row["number"]], row) for row in _rows(sums)]


def speeds(lines: DataFrame) -> list[Row]:
    """Return for executors that never wait how much their executions in a second differ from the second before.

    Only components of which a worker has one executor, because two that are half busy look like one that never waits:
    tasks of one executor show the same CPU time. `square`: half the sum of squared differences.
    """
    of_line = (
        view(lines, "task_samples", ("pid",))
        .where(f.col("dt_s").between(*SECOND))
        .groupBy(*PROCESS, "component", "t_s")
        .agg(
            (f.sum("executed") / f.max("dt_s")).alias("rate"),
            (f.sum("execute_ms") / f.max("dt_s") / 1000).alias("busy"),
            f.count_distinct("cpu_ms").alias("executors"),  # 0 in records without CPU time
        )
        .where(f.col("executors") <= 1)
    )
    order = Window.partitionBy(*PROCESS, "component").orderBy("t_s")
    before = {name: f.lag(name).over(order).alias(f"{name}_before") for name in ("rate", "busy", "t_s")}
    pairs = of_line.select("run_id", "topology", "component", "rate", "busy", "t_s", *before.values()).where(
        f.col("busy").between(*SATURATED)
        & f.col("busy_before").between(*SATURATED)
        & (f.col("t_s") - f.col("t_s_before") < 1.5)
    )
    difference = f.col("rate") - f.col("rate_before")
    sums = pairs.groupBy("run_id", "topology", "component").agg(
        f.count("*").alias("pairs"), f.sum("rate").alias("rates"), (f.sum(difference * difference) / 2).alias("square")
    )
    return _rows(sums)


def _window(length_s: int) -> Column:
    return (f.floor((f.col("t_s") - f.col("dt_s") / 2) / length_s) * length_s).alias("window_s")


def _in_spans(spark: SparkSession, lines: DataFrame, spans: Sequence[Span]) -> DataFrame:
    """Return the lines that touch each span, with its number and `overlap_s`."""
    rows = [(each.run_id, each.machine, each.from_s, each.until_s, number) for number, each in enumerate(spans)]
    numbered = frame_of_rows(spark, rows, "run_id string, machine string, from_s double, until_s double, number int")
    begin_s = f.greatest(f.col("t_s") - f.col("dt_s"), f.col("from_s"))
    overlap_s = f.greatest(f.lit(0.0), f.least(f.col("t_s"), f.col("until_s")) - begin_s)
    joined = lines.join(f.broadcast(numbered), ["run_id", "machine"], how="inner")
    return joined.withColumn("overlap_s", overlap_s).where(f.col("overlap_s") > 0)


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]
