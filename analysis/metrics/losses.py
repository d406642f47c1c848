"""Tuples that sources missed (never emitted) or emitted late (over 1 s after due), and tuples lost on each edge, or
dropped there by a limit on queues, before and after each event, with the uncertainty of that (docs/metrics.md).

While a spout has no process, due tuples are not counted; the process that continues its schedule reports them as gaps.

Tuples sent and not executed are not always lost: they may wait in the target's queue, whose tuples are known in sum
only, or be on their way over the zero. Each may explain a difference of one edge by the opposite difference where it
belongs, and nowhere else. Spark sums the samples; a few rows an edge and event are plain Python.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.line_seconds import SEVERAL_S, in_phases, line_seconds, seconds_before, usual_line_s
from analysis.metrics.scale_events import phase_of, within_span
from analysis.record.small_tables import EVENT, PHASE, UNIT, Row, Unit, by_unit, unit_of
from scheduler_plugins.service.samples import FRESH_S

# A task that has been silent this long at a boundary had no process: its queue is gone, not waiting. After a
# line of several seconds the next one comes as much later.
TASK_SILENCE_S = 5.0
LINE_S = 1.0  # a count may belong to the line before or after the one that has it; some lines are longer
Edge = tuple[str, str, str]
Phase = tuple[str, str]
EDGE = ("source", "stream", "target")
Within = Callable[[DataFrame, Sequence[str]], DataFrame]  # samples, counts -> those of each part of an event


def counts_on_edges(
    streams: DataFrame, sources: DataFrame, components: DataFrame, edges: DataFrame, within: Within, part: str = "phase"
) -> DataFrame:  # fmt: skip
    """Return tuples sent, executed and dropped, one row a run, event, part of its time and edge on which any was
    counted. `within` and `part`: the function that divides samples, and the column for the part."""
    keys = [*EVENT, part, *EDGE]
    none = f.lit(0.0)
    return (
        sent_on_edges(streams, components, edges, within, part)
        .join(executed_on_edges(sources, components, within, part), keys, how="full")
        .join(f.broadcast(edges.select(*UNIT, *EDGE, "grouping")), [*UNIT, *EDGE], how="inner")
        .select(*keys, "grouping", f.coalesce("sent", none).alias("sent"),
                f.coalesce("executed", none).alias("executed"), "dropped")
    )  # fmt: skip


def sent_on_edges(streams: DataFrame, components: DataFrame, edges: DataFrame, within: Within, part: str) -> DataFrame:
    """Return tuples sent on every edge: emitted x fan-out (tasks of the target if all of them get a copy, else 1)."""
    fan = components.groupBy(*UNIT, f.col("component").alias("target")).agg(f.count("*").alias("tasks"))
    fan_out = f.when(f.col("grouping") == "all", f.col("tasks")).otherwise(f.lit(1))
    wide_edges = edges.join(fan, [*UNIT, "target"], how="left").select(
        *UNIT, "source", "stream", "target", fan_out.alias("fan_out")
    )
    owners = components.select(*UNIT, "task", f.col("component").alias("source"))
    emitted = (
        within(streams.select(*UNIT, "t_s", "dt_s", "task", "stream", "emitted"), ["emitted"])
        .join(f.broadcast(owners), [*UNIT, "task"], how="inner")
        .groupBy(*EVENT, part, "source", "stream")
        .agg(f.sum("emitted").alias("emitted"))
    )
    return emitted.join(wide_edges, [*UNIT, "source", "stream"], how="inner").select(
        *EVENT, part, *EDGE, (f.col("emitted") * f.col("fan_out")).cast("double").alias("sent")
    )


def executed_on_edges(sources: DataFrame, components: DataFrame, within: Within, part: str) -> DataFrame:
    """Return tuples executed at the target of every edge, and dropped there: null without a limit on its queue."""
    owners = components.select(*UNIT, "task", f.col("component").alias("target"))
    counts = ("executed", "dropped")
    samples = sources.select(*UNIT, "t_s", "dt_s", "task", f.col("component").alias("source"), "stream", *counts)
    return (
        within(samples, counts)
        .join(f.broadcast(owners), [*UNIT, "task"], how="inner")
        .groupBy(*EVENT, part, "source", "stream", "target")
        .agg(*[f.sum(name).cast("double").alias(name) for name in counts])
    )


def waiting_at_bounds(tasks: DataFrame, components: DataFrame, spans: DataFrame) -> DataFrame:
    """Return tuples that wait at each component, in sum, where a phase begins and ends; a run begins empty.

    A queue is read where a line ends. If a line's seconds lie on both sides of a zero so do its counts, and the
    queue changes evenly from the line before to this one.
    """
    owners = components.select(*UNIT, "task", f.col("component").alias("target"))
    bounds = ["zero_s", "from_s", "until_s", "last_s"]
    ends = {"begin": f.col("from_s"), "zero": f.col("zero_s"), "end": f.coalesce("until_s", "last_s")}
    seconds = line_seconds(f.col("dt_s"))
    before = {
        "begin": f.when(f.col("from_s").isNull(), 0).otherwise(seconds_before(f.col("from_s"))),
        "zero": seconds_before(f.col("zero_s")),
        "end": f.when(f.col("until_s").isNull(), seconds).otherwise(seconds_before(f.col("until_s"))),
    }
    shares = {name: f.col(f"{name}_share") for name in before}
    lines = [
        f.max(f.when(inside, f.struct("t_s", "dt_s", "queue", share.alias("share")))).alias(f"{name}_{what}")
        for name, share in shares.items()
        for what, inside in (("whole", share == 1), ("part", (share > 0) & (share < 1)))
    ]
    at = (
        tasks.where(f.col("queue").isNotNull())
        .select(*UNIT, "t_s", "dt_s", "task", "queue")
        .join(f.broadcast(spans.select(*EVENT, *bounds)), list(UNIT), how="inner")
        .select("*", *[(number / seconds).alias(f"{name}_share") for name, number in before.items()])
        .groupBy(*EVENT, "task", *bounds)
        .agg(*lines)
    )
    queues = {}
    for name, end in ends.items():  # a task's queue: after its last line before the bound, or within the line there
        part = f.col(f"{name}_part")
        begun = _queue_of_line(name, part["t_s"] - part["dt_s"])
        within = begun + (part["queue"] - begun) * part["share"]
        queues[name] = f.when(part.isNull(), _queue_of_line(name, end)).otherwise(within)
    return (
        at.join(f.broadcast(owners), [*UNIT, "task"], how="inner")
        .groupBy(*EVENT, "target")
        .agg(*[f.sum(queue).cast("double").alias(name) for name, queue in queues.items()])
        .select(*EVENT, "target", "begin", "zero", "end")
    )


def _queue_of_line(name: str, instant: Column) -> Column:
    line = f.col(f"{name}_whole")
    silence_s = TASK_SILENCE_S + f.when(line["dt_s"] >= SEVERAL_S, line["dt_s"] - LINE_S).otherwise(0.0)
    return f.when(line["t_s"] >= instant - silence_s, line["queue"]).otherwise(0)


def longest_lines(workers: DataFrame, tasks: DataFrame, components: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the longest line of each component that can have moved tuples over a bound of a phase; none if all have a
    second: a line that holds a bound or adjoins it, and the last one of a process that ended in the phase, because
    its later counts were not reported."""
    several = f.col("dt_s") >= SEVERAL_S
    line = [*UNIT, "machine", "port", "t_s"]
    newest = f.max(f.struct("t_s", "dt_s")).alias("last")
    ended = workers.groupBy(*UNIT, "machine", "port", "pid").agg(newest).where(f.col("last.dt_s") >= SEVERAL_S)
    last = f.broadcast(ended.select(*UNIT, "machine", "port", "last.t_s", f.lit(True).alias("ended")))
    lines = tasks.where(several).select(*line, "dt_s", "task").join(last, line, how="left")

    def moves(bound: str) -> Column:
        """Return whether the line holds a bound or adjoins it; no line does where the run itself begins or ends."""
        reach = (f.col("t_s") - 2 * f.col("dt_s") < f.col(bound)) & (f.col(bound) < f.col("t_s") + f.col("dt_s"))
        return f.coalesce(reach, f.lit(False))

    inside = within_span(f.col("t_s")) & f.coalesce("ended", f.lit(False))
    early = phase_of(f.col("t_s")) == "before"
    before = moves("from_s") | moves("zero_s") | (inside & early)
    after = moves("zero_s") | moves("until_s") | (inside & ~early)
    phases = f.array(f.when(before, "before"), f.when(after, "after"))
    return (
        lines.join(f.broadcast(spans), list(UNIT), how="inner")
        .select(*EVENT, "task", "dt_s", f.explode(f.array_compact(phases)).alias("phase"))
        .join(f.broadcast(components.select(*UNIT, "task", "component")), [*UNIT, "task"], how="inner")
        .groupBy(*PHASE, "component")
        .agg(f.max("dt_s").alias("line_s"))
        .select(*PHASE, "component", "line_s")
    )


# --- what is lost ----------------------------------------------------------------------------------------------------


def loss_rows(
    counts: Iterable[Row], waiting: Iterable[Row], spans: Iterable[Row], lines: Iterable[Row] = ()
) -> list[Row]:
    """Return rows of the table `losses`. `spans`: of `scale_events`; the time after an event is also before the next
    one. `lines`: the longest ones, if any has more than a second."""
    longest = {(*(row[name] for name in PHASE), row["component"]): row["line_s"] for row in lines}
    queues = {(unit_of(row), row["event_id"], row["target"]): row for row in waiting}
    counted: dict[Unit, list[Row]] = defaultdict(list)
    for row in counts:
        ends = (longest.get((*(row[name] for name in PHASE), row[end]), LINE_S) for end in ("source", "target"))
        counted[unit_of(row)].append({**row, "line_s": max(LINE_S, *ends)})
    events = by_unit(sorted(spans, key=lambda span: float(span["zero_s"])))
    return [row for unit, found in events.items() for row in _rows_of_unit(found, counted[unit], queues)]


def _rows_of_unit(spans: Sequence[Row], counted: Sequence[Row], queues: Mapping[Any, Row]) -> list[Row]:
    """Each stretch between two zeros once, in order; it is then after one event and before the next."""
    names = [(spans[0]["event_id"], "before"), *((span["event_id"], "after") for span in spans)]
    seconds = [spans[0]["zero_s"] - spans[0]["first_s"], *(span["last_s"] - span["zero_s"] for span in spans)]
    by_phase: dict[Phase, list[Row]] = defaultdict(list)
    for row in counted:
        by_phase[row["event_id"], row["phase"]].append(row)
    chains: dict[Edge, list[Row]] = defaultdict(list)
    for name, length in zip(names, seconds, strict=True):
        by_target: dict[str, list[Row]] = defaultdict(list)  # the queue at a target is known in sum only
        for row in by_phase[name]:
            by_target[row["target"]].append(row)
        for target, into in by_target.items():
            queue = queues.get((unit_of(into[0]), into[0]["event_id"], target))
            ends = ("begin", "zero") if name[1] == "before" else ("zero", "end")
            first, last = (0.0, 0.0) if queue is None else (queue[end] for end in ends)
            for row in _settle_queue(into, first, last, length):
                chains[row["source"], row["stream"], target].append(row)
    # From zero to zero: tuples sent before one and executed after it were on their way; the reverse is limited to the
    # tuples that one line moves.
    for row, next_row in (pair for chain in chains.values() for pair in pairwise(chain)):
        moved = 0.0
        if row["left"] > 0 > next_row["left"]:
            moved = min(row["left"], -next_row["left"])
        elif row["left"] < 0 < next_row["left"]:
            moved = -min(-row["left"], next_row["left"], row["uncertainty"])
        row["left"] -= moved
        next_row["left"] += moved
    found = [  # what lines cannot tell from none counts as none
        row | {"lost": row["left"] if row["left"] > row["uncertainty"] else 0.0}
        for chain in chains.values() for row in chain
    ]  # fmt: skip
    following = {one["event_id"]: two["event_id"] for one, two in pairwise(spans)}
    return found + [
        row | {"event_id": following[row["event_id"]], "phase": "before"}
        for row in found
        if row["phase"] == "after" and row["event_id"] in following
    ]


def _settle_queue(into: Sequence[Row], first: float, last: float, seconds: float) -> list[Row]:
    """Settle edges into one target. Its queue is shared among them by their sent tuples; if more of one was executed
    than that leaves, others' tuples waited instead, as far as any waited at either end."""
    sent = sum(row["sent"] for row in into)
    shares = [row["sent"] / sent if sent else 1 / len(into) for row in into]
    queued = [(last - first) * share for share in shares]
    differences = [
        row["sent"] - row["executed"] - (row["dropped"] or 0.0) - part for row, part in zip(into, queued, strict=True)
    ]
    room = sum(last * share if each < 0 else first * share for each, share in zip(differences, shares, strict=True))
    surplus, deficit = sum(each for each in differences if each > 0), -sum(each for each in differences if each < 0)
    shift = min(surplus, deficit, room)
    rows = []
    for row, part, each in zip(into, queued, differences, strict=True):
        rest = each * (1 - shift / (surplus if each > 0 else deficit)) if each and shift else each
        rate = max(row["sent"], row["executed"]) / seconds if seconds > 0 else 0.0
        rows.append({**row, "queued": part, "difference": each, "left": rest, "uncertainty": row["line_s"] * rate})
    return rows


# --- emissions of sources ---------------------------------------------------------------------------------------------


LONGEST_S = 86_400  # a longer gap is spread over so many slots


def gap_seconds(gaps: DataFrame, spouts: DataFrame, ends: DataFrame) -> DataFrame:
    """Return rows (run_id, topology, t_s, dt_s, task, due): the tuples of each gap, evenly over its seconds; null if
    unknown.

    A gap begins with the last line that the policy service had. Lines that a killed worker wrote to disk after that are
    counted there. One of unknown begin begins with the task's last line. A spout whose process ended and that never
    came back leaves none: from its last line to the end of the run (`last_s` of `ends`) the due tuples are unknown.
    To continue at its last rate would be a guess: an unthrottled source has no rate, and the rate may have changed
    since.
    """
    key = [*UNIT, "task", "t_s", "from_s", "until_s", "due"]
    known = spouts.where(f.col("due").isNotNull())
    last = known.groupBy(*UNIT, "task").agg(f.max("t_s").alias("from_s"), usual_line_s().alias("line_s"))
    never_again = (  # to the end of the run, of each task whose last line is long before that, for lines of its length
        last.join(f.broadcast(ends.select(*UNIT, f.col("last_s").alias("until_s"))), list(UNIT), how="inner")
        .where(f.col("until_s") - f.col("from_s") > FRESH_S + f.col("line_s") - 1)
        .select(*UNIT, "task", f.col("until_s").alias("t_s"), "from_s", "until_s",
                f.lit(None).cast("bigint").alias("due"))
    )  # fmt: skip
    lines = known.select(
        f.col("run_id").alias("line_run"), f.col("topology").alias("line_topology"), f.col("task").alias("line_task"),
        f.col("t_s").alias("line_s"), (f.col("t_s") - f.col("dt_s")).alias("line_begin_s"),
    )  # fmt: skip
    same_unit = (f.col("line_run") == f.col("run_id")) & (f.col("line_topology") == f.col("topology"))
    of_the_task = same_unit & (f.col("line_task") == f.col("task"))
    inside = (f.col("line_s") > f.coalesce("from_s", f.lit(0.0))) & (f.col("line_begin_s") < f.col("until_s"))
    begin = f.least(f.coalesce(f.max("line_s"), f.col("from_s")), f.col("until_s"))
    length, whole = f.col("until_s") - f.col("begin_s"), f.col("until_s") - f.col("from_s")
    number = f.greatest(f.lit(1), f.least(f.lit(LONGEST_S), f.ceil(length))).cast("int")
    due = _share(f.col("slot")) - _share(f.col("slot") - 1)
    slot_s = f.coalesce(length / f.col("slots"), f.lit(0.0))
    return (
        gaps.select(*key)
        .unionByName(never_again.select(*key))
        .join(lines, of_the_task & inside & (f.col("line_s") < f.col("t_s")), how="left")
        .groupBy(*key)
        .agg(begin.alias("begin_s"))
        .select(*UNIT, "task", "until_s", "begin_s", f.coalesce(number, f.lit(1)).alias("slots"),
                f.when(whole > 0, f.round(f.col("due") * length / whole)).otherwise(f.col("due")).alias("due"))
        .select("*", f.explode(f.sequence(f.lit(1), f.col("slots"))).alias("slot"))
        .select(*UNIT, f.coalesce(f.col("begin_s") + slot_s * f.col("slot"), f.col("until_s")).alias("t_s"),
                slot_s.alias("dt_s"), "task", due.cast("bigint").alias("due"))
    )  # fmt: skip


def _share(first: Column) -> Column:
    """Return whole tuples of the first so many slots of a gap, so that those of all slots add up to the total."""
    return f.floor(f.col("due") * first / f.col("slots"))


def emissions(spouts: DataFrame, unseen: DataFrame, components: DataFrame, spans: DataFrame) -> DataFrame:
    """Return one row a run, event, phase and source; `unseen`: of `gap_seconds`. A sum with an unmeasured part
    is null.

    Lines from before a spout's schedule began, and those of foreign spouts, have no such counts.
    """
    nothing = f.lit(None).cast("bigint")
    lines = spouts.select(
        *UNIT, "t_s", "dt_s", "task", "due", "emitted", "missed", "late",
        f.when(f.col("due").isNotNull(), f.lit(1)).alias("scheduled"), nothing.alias("unknown"),
    )  # fmt: skip
    unseen = unseen.select(
        *UNIT, "t_s", "dt_s", "task", "due", nothing.alias("emitted"), nothing.alias("missed"),
        nothing.alias("late"), nothing.alias("scheduled"), f.when(f.col("due").isNull(), f.lit(1)).alias("unknown"),
    )  # fmt: skip
    owners = components.select(*UNIT, "task", "component")
    known = f.count("unknown") == 0
    return (
        in_phases(lines.unionByName(unseen), spans, ["due", "emitted", "missed", "late"])
        .join(f.broadcast(owners), [*UNIT, "task"], how="inner")
        .groupBy(*PHASE, "component")
        .agg(f.when(known, f.sum("due")).alias("due"), f.sum("emitted").alias("emitted"),
             f.when(known, _sum_of_all("missed")).alias("missed"), _sum_of_all("late").alias("late"))
        .select(*PHASE, "component", "due", "emitted", "missed", "late")
    )  # fmt: skip


def _sum_of_all(name: str) -> Column:
    return f.when((f.count("scheduled") > 0) & (f.count(name) == f.count("scheduled")), f.sum(name))
