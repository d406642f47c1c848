"""How long it took: from an event's request to the last executor running, and from the submission to all of them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.placement import begun
from analysis.scale_events import happened, phased

Row = Mapping[str, Any]


def running(settled: DataFrame, slots: DataFrame, workers: DataFrame, tasks: DataFrame, spans: DataFrame) -> DataFrame:
    """Per event that changed a worker's executors: seconds from its zero to the decision, to its application, and to
    the first samples of all executors of the changed workers; `rebalance_s` is from the decision to those samples.

    `censored`: an executor had left no sample when the next event or the end came; the time is then that horizon.
    """
    wanted = touched(settled, slots)
    first = first_samples(wanted, processes(workers, spans), tasks)
    horizon = f.col("last_s") - f.col("zero_s")
    silent = f.count_if(f.col("first_s").isNull())
    reached = (
        wanted.join(first, ["run_id", "event_id", "task"], how="left")
        .groupBy("run_id", "event_id")
        .agg(f.max("first_s").alias("running_s"), (silent > 0).alias("censored"))
    )
    request_to_running = f.when(f.col("censored"), horizon).otherwise(_since_zero("running_s"))
    return (
        reached.join(spans.drop("first_s"), ["run_id", "event_id"], how="inner")
        .select("run_id", "event_id", _since_zero("decided_s").alias("request_to_decision_s"),
                _since_zero("applied_s").alias("request_to_applied_s"),
                request_to_running.alias("request_to_running_s"),
                (request_to_running - _since_zero("decided_s")).alias("rebalance_s"), "censored")
    )  # fmt: skip


def _since_zero(column: str) -> Column:
    return f.col(column) - f.col("zero_s")


def touched(settled: DataFrame, slots: DataFrame) -> DataFrame:
    """The first tasks of the executors that workers with a changed set of executors have after an event."""
    changed = slots.where(f.col("changed") & (f.col("executors_after") > 0)).select("run_id", "event_id", "slot")
    return (
        settled.where((f.col("phase") == "after") & (f.col("first_task") == f.col("task")))
        .join(f.broadcast(changed), ["run_id", "event_id", "slot"], how="left_semi")
        .select("run_id", "event_id", "slot", "task")
    )


def processes(workers: DataFrame, spans: DataFrame) -> DataFrame:
    """Per event and slot: when the worker that has the new executors began. It is the first one after Storm was asked
    to rebalance; where a slot has only one that began earlier after the request, that one."""
    starts = begun(workers).where(f.coalesce("began_again", f.lit(True))).select("run_id", "slot", "t_s")
    asked = f.coalesce("applied_s", "zero_s")
    return (
        phased(starts, happened(spans), f.col("t_s"))
        .where(f.col("phase") == "after")
        .join(f.broadcast(spans.select("run_id", "event_id", asked.alias("asked_s"))), ["run_id", "event_id"], "inner")
        .groupBy("run_id", "event_id", "slot")
        .agg(f.coalesce(f.min(f.when(f.col("t_s") >= f.col("asked_s"), f.col("t_s"))), f.max("t_s")).alias("begun_s"))
        .select("run_id", "event_id", "slot", "begun_s")
    )


def first_samples(wanted: DataFrame, processes: DataFrame, tasks: DataFrame) -> DataFrame:
    """When each task first had a sample from its worker's new process."""
    due = wanted.join(processes, ["run_id", "event_id", "slot"], how="inner")
    return (
        tasks.select("run_id", "t_s", f.concat_ws(":", "machine", "port").alias("slot"), "task")
        .join(f.broadcast(due), ["run_id", "slot", "task"], how="inner")
        .where(f.col("t_s") >= f.col("begun_s"))
        .groupBy("run_id", "event_id", "task")
        .agg(f.min("t_s").alias("first_s"))
        .select("run_id", "event_id", "task", "first_s")
    )


def firsts(tasks: DataFrame) -> DataFrame:
    """When each task first had a sample."""
    return tasks.groupBy("run_id", "task").agg(f.min("t_s").alias("first_s")).select("run_id", "task", "first_s")


def loading(events: Sequence[Row], firsts: Iterable[Row], components: Iterable[Row]) -> list[dict[str, Any]]:
    """Per run: seconds from the submission until every task had a sample; null where one never had."""
    submitted: dict[str, float] = {}
    for event in events:
        if event["kind"] == "topology_submitted":
            submitted[event["run_id"]] = min(event["t_s"], submitted.get(event["run_id"], event["t_s"]))
    first = {(row["run_id"], row["task"]): row["first_s"] for row in firsts}
    tasks: dict[str, set[int]] = defaultdict(set)
    for row in components:
        tasks[row["run_id"]].add(row["task"])
    return [_loaded(run_id, submitted[run_id], [first.get((run_id, task)) for task in mine])
            for run_id, mine in tasks.items() if run_id in submitted]  # fmt: skip


def _loaded(run_id: str, submitted_s: float, firsts: Sequence[float | None]) -> dict[str, Any]:
    reporting = [first_s for first_s in firsts if first_s is not None]
    loaded_s = max(reporting) - submitted_s if len(reporting) == len(firsts) else None
    return {"run_id": run_id, "submit_to_loaded_s": loaded_s, "tasks": len(firsts), "tasks_reporting": len(reporting)}
