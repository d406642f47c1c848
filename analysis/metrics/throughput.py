"""Throughput and downtime: the fate of the tuples, in windows aligned to an event.

Throughput is of the components that the topology names for it: its sinks (SP II-A), its spouts, or one component.
Tuples count where they are executed, at a spout where they are emitted. `axes`: rows (of `EVENT`, zero_s, first_s,
last_s), either of the runs as a whole or of each of their events. Spark sums data that grows with the samples; data
made from windows is plain Python.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf, isfinite
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from analysis.metrics.line_seconds import in_windows, usual_line_s
from analysis.metrics.scale_events import event_spans
from analysis.record.event_timeline import WHOLE_RUN, ZEROS
from analysis.record.small_tables import EVENT, UNIT, Unit, by_unit, unit_columns, unit_of

Row = Mapping[str, Any]
WINDOW_S = 10
# Workers' lines end up to a second apart: closer to the edges of a run a window may miss some workers' counts.
EDGE_S = 1.0
# Machines that go on reporting this long after the last worker line show that the workers really were silent. For
# lines of a second; a longer one comes as much later.
SILENCE_S = 5.0
OVERLAP_S = 0.25


def observation_times(workers: DataFrame, machines: DataFrame) -> DataFrame:
    """Return per topology a worker's first and last sample, a probe's last, and the length of lines."""
    begun, ended, none = f.col("t_s") - f.col("dt_s"), f.col("t_s"), f.lit(None).cast("double")
    both = workers.select(*UNIT, "dt_s", begun.alias("begun_s"), ended.alias("worker_s"), none.alias("machine_s"))
    probes = machines.select(
        *UNIT, none.alias("dt_s"), none.alias("begun_s"), none.alias("worker_s"), ended.alias("machine_s")
    )
    return (
        both.unionByName(probes)
        .groupBy(*UNIT)
        .agg(f.min("begun_s").alias("first_s"), f.max("worker_s").alias("worker_last_s"),
             f.max("machine_s").alias("machine_last_s"), usual_line_s().alias("line_s"))
        .select(*UNIT, "first_s", "worker_last_s", "machine_last_s", "line_s")
    )  # fmt: skip


def zeros(
    events: Iterable[Row], observed: Iterable[Row], spans_s: Mapping[Unit, tuple[float, float]] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Return per topology the zero of its time axis (its first event; else the first sample) and the observed time.
    `spans_s`: from when until when topologies exist that arrive or depart meanwhile (infinite: all the time)."""
    of_units = by_unit(events)
    rows = []
    for seen in (each for each in observed if each["first_s"]):
        of_unit, (from_s, until_s) = of_units.get(unit_of(seen), []), spans_s.get(unit_of(seen), (-inf, inf))
        requests = [event["t_s"] for event in of_unit if event["kind"] in ZEROS and event["event_id"]]
        ends = [event["t_s"] for event in of_unit if event["kind"] in ("topology_killed", "run_ended")]
        ends += [until_s] if isfinite(until_s) else []
        worker_s, late_s = seen["worker_last_s"], SILENCE_S + max(0.0, (seen.get("line_s") or 1) - 1)
        bound = min((t for t in (min(ends, default=None), seen["machine_last_s"]) if t), default=None)
        silent = bound is not None and (worker_s is None or worker_s < bound - late_s)
        rows.append({
            **unit_columns(unit_of(seen)), "zero_s": min(requests, default=seen["first_s"]), "scaled": bool(requests),
            "first_s": from_s if isfinite(from_s) else seen["first_s"],  # it was to work from then on
            "last_s": bound if silent else min([worker_s, *ends]),
        })  # fmt: skip
    return rows


def activity(
    tasks: DataFrame, spouts: DataFrame, unseen: DataFrame, workers: DataFrame, machines: DataFrame,
    components: DataFrame, axes: DataFrame,
) -> DataFrame:  # fmt: skip
    """Return per axis, window and component: tuples executed and dropped, mean tuples waiting, tuples emitted and due
    at spouts.

    Tuples due while a spout had no process (`unseen`: of `losses.gap_seconds`) count at their time; a window with
    an unknown number of them is `due_unknown`, and its sum null. At a spout the tuples wait that are due and not
    emitted. A row without a component stands for any report in that window, by workers or probes. A second
    without a report of a task's queue counts as an empty queue.
    """
    columns = {"task": "int", "executed": "bigint", "dropped": "bigint", "queue": "double", "emitted": "bigint",
               "due": "bigint", "unknown": "boolean"}  # fmt: skip

    def only(samples: DataFrame, *known: str) -> DataFrame:
        values = [(f.col(c) if c in known else f.lit(None)).cast(kind).alias(c) for c, kind in columns.items()]
        return samples.select(*UNIT, "t_s", "dt_s", *values)

    everything = (
        only(tasks, "task", "executed", "dropped", "queue")
        .unionByName(only(spouts.withColumn("queue", f.col("behind")), "task", "queue", "emitted", "due"))
        .unionByName(only(unseen.withColumn("unknown", f.col("due").isNull()), "task", "due", "unknown"))
        .unionByName(only(workers))
        .unionByName(only(machines))
    )
    waiting = f.sum(f.col("queue") * f.col("dt_s")) / WINDOW_S
    unknown = f.coalesce(f.bool_or("unknown"), f.lit(False))
    return (
        in_windows(everything, axes, ["executed", "dropped", "emitted", "due"])
        .join(f.broadcast(components.select(*UNIT, "task", "component")), [*UNIT, "task"], how="left")
        .groupBy(*EVENT, "window_s", "component")
        .agg(f.sum("executed").alias("executed"), f.sum("dropped").alias("dropped"), waiting.alias("queue"),
             f.sum("emitted").alias("emitted"), f.when(~unknown, f.sum("due")).alias("due"),
             unknown.alias("due_unknown"))
        .select(*EVENT, "window_s", "component", "executed", "dropped", "queue", "emitted", "due", "due_unknown")
    )  # fmt: skip


@dataclass
class _WindowCounts:
    """The counts in the windows of one axis."""

    reported: set[float] = field(default_factory=set)
    has_tasks: bool = False  # else only probes and empty workers reported
    counts: dict[tuple[str, str], dict[float, int]] = field(default_factory=lambda: defaultdict(dict))
    due_unknown: set[float] = field(default_factory=set)


def throughput_rows(axes: Iterable[Row], activity: Iterable[Row], components: Iterable[Row]) -> list[dict[str, Any]]:
    """Return tuples per second of every window of every axis: 0 if workers were silent, null without reports, or
    if the number of due tuples is unknown.

    Scopes: `sink` (a component), `total` (the throughput), `spouts` (emitted), `due` (offered), `dropped`; the last
    three as far as measured, because other people's logs lack some, and due tuples of spouts that never had a process
    are unknown.
    `complete`: the window lies wholly inside the observed time.
    """
    sinks: dict[Unit, set[str]] = defaultdict(set)
    measured: dict[Unit, set[str]] = defaultdict(set)
    for row in components:
        for flag, names in (("sink", sinks), ("throughput", measured)):
            if row[flag]:
                names[unit_of(row)].add(row["component"])
    found: dict[tuple[Unit, str], _WindowCounts] = defaultdict(_WindowCounts)
    for row in activity:
        of_axis, of_task = found[unit_of(row), row["event_id"]], (row["executed"], row["emitted"]) != (None, None)
        of_axis.has_tasks = of_axis.has_tasks or of_task
        if row["component"] is None or of_task:  # a gap is no report
            of_axis.reported.add(row["window_s"])
        if row["due_unknown"]:
            of_axis.due_unknown.add(row["window_s"])
        tuples_by_scope = {("spouts", ""): row["emitted"], ("due", ""): row["due"], ("dropped", ""): row["dropped"]}
        if row["component"] in sinks[unit_of(row)]:
            tuples_by_scope["sink", row["component"]] = row["executed"]
        if row["component"] in measured[unit_of(row)]:
            tuples_by_scope["total", ""] = row["executed"] if row["emitted"] is None else row["emitted"]
        for place, number in tuples_by_scope.items():
            if number is not None:
                counts = of_axis.counts[place]
                counts[row["window_s"]] = counts.get(row["window_s"], 0) + number
    rows = []
    for axis in axes:
        of_axis = found[unit_of(axis), axis["event_id"]]
        scopes = [("total", ""), *(("sink", name) for name in sorted(sinks[unit_of(axis)]))]
        scopes += [("spouts", "")] if of_axis.counts["spouts", ""] or not of_axis.has_tasks else []
        scopes += [(scope, "") for scope in ("due", "dropped") if of_axis.counts[scope, ""]]
        for window_s, complete in grid(axis):
            for scope, component in scopes:
                known = window_s in of_axis.reported and not (scope == "due" and window_s in of_axis.due_unknown)
                tuples = of_axis.counts[scope, component].get(window_s, 0)
                rows.append({
                    **unit_columns(unit_of(axis)), "event_id": axis["event_id"], "window_s": window_s, "scope": scope,
                    "component": component, "rate": tuples / WINDOW_S if known else None, "complete": complete,
                })  # fmt: skip
    return rows


def grid(axis: Row) -> list[tuple[float, bool]]:
    """Return every window of an axis, and whether it lies wholly inside the observed time."""
    first, last = axis["first_s"] - axis["zero_s"], axis["last_s"] - axis["zero_s"]
    starts = [float(WINDOW_S * index) for index in range(floor(first / WINDOW_S), floor(last / WINDOW_S) + 1)]
    limits = (first + EDGE_S, last - EDGE_S - WINDOW_S)
    return [(start, limits[0] <= start <= limits[1]) for start in starts] if last >= first else []


def silences(tasks: DataFrame, components: DataFrame, axes: DataFrame) -> DataFrame:
    """Return stretches of whole seconds around each event, from the one before it until the next, without throughput:
    from, until.

    A line with a tuple of it makes every second busy that it overlaps by more than `OVERLAP_S`, so that lines out of
    step with the seconds leave no false zero.
    """
    end = f.floor(f.col("last_s") - f.col("zero_s") - EDGE_S).cast("bigint").alias("seconds")
    begin = f.ceil(f.col("first_s") - f.col("zero_s")).cast("bigint").alias("begin")
    spans = event_spans(axes).select(*EVENT, "zero_s", begin, end)
    measured = components.where("throughput").select(*UNIT, "task", "kind")
    first = f.floor(f.col("t_s") - f.col("dt_s") - f.col("zero_s") + OVERLAP_S)
    last = f.floor(f.col("t_s") - f.col("zero_s") - OVERLAP_S)
    middle = f.floor(f.col("t_s") - f.col("dt_s") / 2 - f.col("zero_s"))  # of a line shorter than both overlaps
    seconds = f.when(first <= last, f.sequence(first, last)).otherwise(f.array(middle))
    busy = (
        tasks.join(f.broadcast(measured), [*UNIT, "task"], how="inner")
        .where(f.when(f.col("kind") == "spout", f.col("emitted")).otherwise(f.col("executed")) > 0)
        .select(*UNIT, "t_s", "dt_s", "task")
        .join(f.broadcast(spans), list(UNIT), how="inner")
        .select(*EVENT, "begin", "seconds", f.explode(seconds).alias("second"))
        .where((f.col("second") >= f.col("begin")) & (f.col("second") < f.col("seconds")))
        .select(*EVENT, "begin", "second")
    )
    # What was observed ends like a silence ends: with a second that counts as busy.
    ends = spans.select(*EVENT, "begin", f.col("seconds").alias("second"))
    following = f.lag("second").over(Window.partitionBy(*EVENT).orderBy("second")) + 1
    return (
        busy.unionByName(ends)
        .select(*EVENT, "second", f.coalesce(following, "begin").alias("from_second"))
        .where(f.col("second") > f.col("from_second"))
        .select(*EVENT, "from_second", f.col("second").alias("until_second"))
    )


def downtime(axes: Iterable[Row], silences: Iterable[Row]) -> list[dict[str, Any]]:
    """Return seconds of silence after each event: in all, the longest stretch, and whole 10 s windows x 10. A topology
    that arrives is down until it works; one that has departed is not."""
    stretches: dict[tuple[Unit, str], list[tuple[int, int]]] = defaultdict(list)
    for row in silences:
        stretches[unit_of(row), row["event_id"]].append((row["from_second"], row["until_second"]))
    return [
        downtime_of_axis(axis, stretches[unit_of(axis), axis["event_id"]])
        for axis in axes if axis["event_id"] != WHOLE_RUN and axis.get("until_s") != axis["zero_s"]
    ]  # fmt: skip


def downtime_of_axis(axis: Row, stretches: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return a row of the table `downtime`. `stretches` of silence: from and until, in whole seconds after the zero.

    A stretch counts if it is more than twice as long as the longest one in the later half of the time before the event;
    for a topology that arrives, of the time after it, between two tuples. Where that was `WINDOW_S` or more and none
    counts, tuples are too seldom to tell.
    """
    begin = ceil(axis["first_s"] - axis["zero_s"])
    seconds = floor(float(axis["last_s"] - axis["zero_s"]) - EDGE_S)  # whole ones that were observed
    later = (begin // 2, 0) if begin < 0 else (max(1, seconds // 2), seconds - 1)
    usual = max((min(until, later[1]) - start for start, until in stretches
                 if later[0] <= start < later[1] and start > begin and until < seconds), default=0)  # fmt: skip
    after = [(max(0, start), until) for start, until in stretches if until > 0]
    down = [(start, until) for start, until in after if until - start > 2 * usual]
    lengths = [until - start for start, until in down]
    windows = sum(max(0, until // WINDOW_S - -(-start // WINDOW_S)) for start, until in down)
    numbers = {
        "downtime_s": sum(lengths),
        "longest_s": max(lengths, default=0),
        "windows_at_zero_s": windows * WINDOW_S,
    }
    return {
        **unit_columns(unit_of(axis)), "event_id": axis["event_id"],
        **{name: None if usual >= WINDOW_S and not down else float(number) for name, number in numbers.items()},
        "lasts": any(until >= seconds and until - start >= WINDOW_S for start, until in down),
    }  # fmt: skip
