"""Emissions of sources: due, emitted, missed (never emitted), late (over 1 s after due).

While a spout has no process, due tuples are not counted; the process that continues its schedule reports them as gaps.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.line_seconds import in_phases, usual_line_s
from analysis.record.units import PHASE, UNIT
from scheduler_plugins.service.samples import FRESH_S

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
        .unionByName(_never_again(known, ends).select(*key))
        .join(lines, of_the_task & inside & (f.col("line_s") < f.col("t_s")), how="left")
        .groupBy(*key)
        .agg(begin.alias("begin_s"))
        .select(*UNIT, "task", "until_s", "begin_s", f.coalesce(number, f.lit(1)).alias("slots"),
                f.when(whole > 0, f.round(f.col("due") * length / whole)).otherwise(f.col("due")).alias("due"))
        .select("*", f.explode(f.sequence(f.lit(1), f.col("slots"))).alias("slot"))
        .select(*UNIT, f.coalesce(f.col("begin_s") + slot_s * f.col("slot"), f.col("until_s")).alias("t_s"),
                slot_s.alias("dt_s"), "task", due.cast("bigint").alias("due"))
    )  # fmt: skip


def _never_again(lines: DataFrame, ends: DataFrame) -> DataFrame:
    """Return a gap of unknown size, to the end of the run, of every task whose last line is long before that, for lines
    of that length."""
    last = lines.groupBy(*UNIT, "task").agg(f.max("t_s").alias("from_s"), usual_line_s().alias("line_s"))
    return (
        last.join(f.broadcast(ends.select(*UNIT, f.col("last_s").alias("until_s"))), list(UNIT), how="inner")
        .where(f.col("until_s") - f.col("from_s") > FRESH_S + f.col("line_s") - 1)
        .select(*UNIT, "task", f.col("until_s").alias("t_s"), "from_s", "until_s",
                f.lit(None).cast("bigint").alias("due"))
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
    measured, schedule_count = f.count(name), f.count("scheduled")
    return f.when((schedule_count > 0) & (measured == schedule_count), f.sum(name))
