"""Placement before and after each event: executors moved, workers restarted, the others left alone or not; and the time
from an event's request to the last executor running, and from the submission to all of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from analysis.metrics.line_seconds import first_second_s
from analysis.metrics.scale_events import event_spans, with_phase
from analysis.record.small_tables import EVENT, PHASE, UNIT, Row, Unit, unit_columns, unit_of


def last_placements(placements: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the last rounds before each event and before the next one in which every task of ours was placed."""
    ours = placements.where(f.coalesce("kind", f.lit("")) != "system")
    rounds = (
        ours.groupBy(*UNIT, "t_s")
        .agg((f.count("*") == f.count("slot")).alias("placed"), f.max("rebalancing").alias("rebalancing"))
        .where(f.col("placed") & ~f.coalesce("rebalancing", f.lit(False)))
        .select(*UNIT, "t_s")
    )
    chosen = with_phase(rounds, event_spans(spans), f.col("t_s")).groupBy(*PHASE).agg(f.max("t_s").alias("t_s"))
    return ours.join(f.broadcast(chosen), [*UNIT, "t_s"], how="inner").select(
        *PHASE, "component", "task", "first_task", "last_task", "slot", "machine"
    )


def moves(settled: DataFrame, spans: DataFrame) -> DataFrame:
    """Return per event executors with another slot or task range, tasks on another machine, the joined ones' share."""
    sides = (
        settled.groupBy(*EVENT, "component", "task")
        .pivot("phase", ["before", "after"])
        .agg(f.first(f.struct("first_task", "last_task", "slot", "machine")))
    )
    shape = f.broadcast(spans.select(*EVENT, "joined", "machines_before"))
    heads_before = f.col("before.first_task") == f.col("task")
    heads_after = f.col("after.first_task") == f.col("task")
    parts = ("first_task", "last_task", "slot")
    same = reduce(and_, (f.col(f"before.{part}") == f.col(f"after.{part}") for part in parts))
    elsewhere = f.col("before.machine") != f.col("after.machine")
    on_joined = f.array_contains("joined", f.col("after.machine"))
    return (
        sides.where(f.col("before").isNotNull() & f.col("after").isNotNull())
        .join(shape, list(EVENT), how="inner")
        .groupBy(*EVENT, f.size("joined").cast("bigint").alias("joined_machines"),
                 f.col("machines_before").cast("bigint").alias("old_machines"))
        .agg(
            f.count_if(heads_before).alias("executors_before"),
            f.count_if(heads_after).alias("executors_after"),
            f.count_if(heads_after & ~same).alias("executors_moved"),
            f.count_if(elsewhere).alias("tasks_moved"),
            f.count_if(elsewhere & ~on_joined).alias("tasks_moved_to_old_machines"),
            f.count_if(heads_after & on_joined).alias("instances_on_joined"),
        )
        .select(*EVENT, "executors_before", "executors_after", "executors_moved", "tasks_moved",
                "tasks_moved_to_old_machines", "instances_on_joined", "joined_machines", "old_machines")
    )  # fmt: skip


def slots(settled: DataFrame, restarts: DataFrame, machines: DataFrame) -> DataFrame:
    """Return per event and slot executors before and after, whether they changed, and the worker's restarts."""
    label = f.concat_ws("-", "component", "first_task", "last_task")
    sets = settled.groupBy(*EVENT, "slot").pivot("phase", ["before", "after"]).agg(f.array_sort(f.collect_set(label)))
    described = machines.select("run_id", "machine", "joins_at_scale")
    before, after = (f.coalesce(side, f.array().cast("array<string>")) for side in ("before", "after"))
    return (
        sets.join(restarts, [*EVENT, "slot"], how="left")
        .select(*EVENT, "slot", f.substring_index("slot", ":", 1).alias("machine"), before.alias("b"),
                after.alias("a"), "seen_before", "seen_after", "restarts")
        .join(f.broadcast(described), ["run_id", "machine"], how="left")
        .select(*EVENT, "slot", "machine", "joins_at_scale", f.size("b").alias("executors_before"),
                f.size("a").alias("executors_after"), (f.col("b") != f.col("a")).alias("changed"),
                f.coalesce("seen_before", f.lit(False)).alias("seen_before"),
                f.coalesce("seen_after", f.lit(False)).alias("seen_after"),
                f.coalesce("restarts", f.lit(0)).cast("int").alias("restarts"))
    )  # fmt: skip


def restarts(workers: DataFrame, spans: DataFrame) -> DataFrame:
    """Return per slot, after each event, how often its worker's pid changed or its count of lines began again."""
    after = f.col("phase") == "after"
    return (
        with_phase(process_starts(workers), event_spans(spans), f.col("t_s"))
        .groupBy(*EVENT, "slot")
        .agg(
            f.bool_or(~after).alias("seen_before"),
            f.bool_or(after).alias("seen_after"),
            f.count_if(after & f.col("began_again")).alias("restarts"),
        )
        .select(*EVENT, "slot", "seen_before", "seen_after", "restarts")
    )


def process_starts(workers: DataFrame) -> DataFrame:
    """Return every worker line, at the end of its first second (`t_s`), with `began_again`: whether it is the first of
    another process; null for a slot's first."""
    lines = Window.partitionBy(*UNIT, "machine", "port").orderBy("t_s")
    again = (f.col("pid") != f.lag("pid").over(lines)) | (f.col("seq") < f.lag("seq").over(lines))
    slot = f.concat_ws(":", "machine", "port").alias("slot")
    return workers.select(*UNIT, slot, first_second_s().alias("t_s"), again.alias("began_again"))


def time_to_running(
    settled: DataFrame, slots: DataFrame, workers: DataFrame, tasks: DataFrame, spans: DataFrame
) -> DataFrame:
    """Return per event that changed a worker's executors the seconds from its zero to the decision, to its application,
    and to the first samples of all executors of the changed workers; `rebalance_s` is from the decision to those
    samples.

    `censored`: an executor had left no sample when the next event or the end came; the time is then that horizon.
    """
    executors = executors_of_changed_workers(settled, slots)
    first = first_samples(executors, new_processes(workers, spans), tasks)
    horizon = f.col("last_s") - f.col("zero_s")
    silent = f.count_if(f.col("first_s").isNull())
    reached = (
        executors.join(first, [*EVENT, "task"], how="left")
        .groupBy(*EVENT)
        .agg(f.max("first_s").alias("running_s"), (silent > 0).alias("censored"))
    )
    request_to_running = f.when(f.col("censored"), horizon).otherwise(_since_zero("running_s"))
    return (
        reached.join(spans.drop("first_s"), list(EVENT), how="inner")
        .select(*EVENT, _since_zero("decided_s").alias("request_to_decision_s"),
                _since_zero("applied_s").alias("request_to_applied_s"),
                request_to_running.alias("request_to_running_s"),
                (request_to_running - _since_zero("decided_s")).alias("rebalance_s"), "censored")
    )  # fmt: skip


def _since_zero(column: str) -> Column:
    return f.col(column) - f.col("zero_s")


def executors_of_changed_workers(settled: DataFrame, slots: DataFrame) -> DataFrame:
    """Return the first tasks of the executors that workers with a changed set of executors have after an event."""
    changed = slots.where(f.col("changed") & (f.col("executors_after") > 0)).select(*EVENT, "slot")
    return (
        settled.where((f.col("phase") == "after") & (f.col("first_task") == f.col("task")))
        .join(f.broadcast(changed), [*EVENT, "slot"], how="left_semi")
        .select(*EVENT, "slot", "task")
    )


def new_processes(workers: DataFrame, spans: DataFrame) -> DataFrame:
    """Return per event and slot when the worker with the new executors began. It is the first one after the request to
    Storm to rebalance; if a slot has only one that began earlier after the event's request, that one."""
    starts = process_starts(workers).where(f.coalesce("began_again", f.lit(True))).select(*UNIT, "slot", "t_s")
    requested_s = f.coalesce("applied_s", "zero_s")
    return (
        with_phase(starts, event_spans(spans), f.col("t_s"))
        .where(f.col("phase") == "after")
        .join(f.broadcast(spans.select(*EVENT, requested_s.alias("asked_s"))), list(EVENT), how="inner")
        .groupBy(*EVENT, "slot")
        .agg(f.coalesce(f.min(f.when(f.col("t_s") >= f.col("asked_s"), f.col("t_s"))), f.max("t_s")).alias("begun_s"))
        .select(*EVENT, "slot", "begun_s")
    )


def first_samples(executors: DataFrame, processes: DataFrame, tasks: DataFrame) -> DataFrame:
    """Return when each task first had a sample from its worker's new process: the first second of it."""
    due = executors.join(processes, [*EVENT, "slot"], how="inner")
    return (
        tasks.select(*UNIT, first_second_s().alias("t_s"), f.concat_ws(":", "machine", "port").alias("slot"), "task")
        .join(f.broadcast(due), [*UNIT, "slot", "task"], how="inner")
        .where(f.col("t_s") >= f.col("begun_s"))
        .groupBy(*EVENT, "task")
        .agg(f.min("t_s").alias("first_s"))
        .select(*EVENT, "task", "first_s")
    )


def first_sample_of_tasks(tasks: DataFrame) -> DataFrame:
    """Return when each task first had a sample: the first second of it."""
    first = f.min(first_second_s()).alias("first_s")
    return tasks.groupBy(*UNIT, "task").agg(first).select(*UNIT, "task", "first_s")


def time_to_load(events: Sequence[Row], firsts: Iterable[Row], components: Iterable[Row]) -> list[Row]:
    """Return per topology the seconds from the submission until every task had a sample; null if one never had."""
    submitted: dict[Unit, float] = {}
    for event in events:
        if event["kind"] == "topology_submitted":
            unit = unit_of(event)
            submitted[unit] = min(event["t_s"], submitted.get(unit, event["t_s"]))
    first = {(unit_of(row), row["task"]): row["first_s"] for row in firsts}
    tasks: dict[Unit, set[int]] = defaultdict(set)
    for row in components:
        tasks[unit_of(row)].add(row["task"])
    rows = []
    for unit, wanted in tasks.items():
        if unit in submitted:
            reporting = [first[unit, task] for task in wanted if first.get((unit, task)) is not None]
            loaded_s = max(reporting) - submitted[unit] if len(reporting) == len(wanted) else None
            rows.append({**unit_columns(unit), "submit_to_loaded_s": loaded_s, "tasks": len(wanted),
                         "tasks_reporting": len(reporting)})  # fmt: skip
    return rows
