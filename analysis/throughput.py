"""Throughput (SP II-A: tuples executed at sinks per second) in windows aligned to an event, spouts beside.

`axes`: rows (run_id, event_id, zero_s, first_s, last_s), either of the runs as a whole or of each of their events.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.scale_events import ZEROS, happened

WINDOW_S = 10
# Workers' lines end up to a second apart: closer to the edges of a run a window may miss some workers' counts.
EDGE_S = 1.0
# Machines that go on reporting this long after the last worker line show that the workers really were silent.
SILENCE_S = 5.0
OVERLAP_S = 0.25


def zeros(runs: DataFrame, events: DataFrame, workers: DataFrame, machines: DataFrame) -> DataFrame:
    """Per run: the zero of its time axis (its first event; else the first sample) and how far it was observed."""
    named = f.col("kind").isin(*ZEROS) & f.col("event_id").isNotNull()
    scaled = events.where(named).groupBy("run_id").agg(f.min("t_s").alias("request_s"))
    ended = (
        events.where(f.col("kind").isin("topology_killed", "run_ended"))
        .groupBy("run_id")
        .agg(f.min("t_s").alias("end_s"))
    )
    seen = workers.groupBy("run_id").agg(
        f.min(f.col("t_s") - f.col("dt_s")).alias("first_s"), f.max("t_s").alias("worker_last_s")
    )
    probed = machines.groupBy("run_id").agg(f.max("t_s").alias("machine_last_s"))
    bound = f.least(f.coalesce("end_s", "machine_last_s"), f.col("machine_last_s"))
    silent = f.col("worker_last_s") < bound - SILENCE_S
    last = f.when(silent, bound).otherwise(f.least(f.col("worker_last_s"), f.coalesce("end_s", "worker_last_s")))
    return (
        runs.select("run_id")
        .join(scaled, "run_id", how="left")
        .join(ended, "run_id", how="left")
        .join(seen, "run_id", how="inner")
        .join(probed, "run_id", how="left")
        .select(
            "run_id",
            f.coalesce("request_s", "first_s").alias("zero_s"),
            f.col("request_s").isNotNull().alias("scaled"),
            "first_s",
            last.alias("last_s"),
        )
    )


def window_of(t_s: Column, dt_s: Column, zero_s: Column, width_s: float = WINDOW_S) -> Column:
    """Start of the window, relative to zero, that holds the middle of the sampled interval."""
    return f.floor((t_s - dt_s / 2 - zero_s) / width_s).cast("double") * width_s


def windowed(samples: DataFrame, axes: DataFrame) -> DataFrame:
    """Samples with `event_id` and `window_s`, once an axis; runs without one fall out."""
    columns = [f.col(f"`{name}`") for name in samples.columns]
    return samples.join(f.broadcast(axes.select("run_id", "event_id", "zero_s")), "run_id", how="inner").select(
        *columns, "event_id", window_of(f.col("t_s"), f.col("dt_s"), f.col("zero_s")).alias("window_s")
    )


def grid(axes: DataFrame) -> DataFrame:
    """Every window of every axis, `complete` where it lies wholly inside what was observed."""
    first = f.col("first_s") - f.col("zero_s")
    last = f.col("last_s") - f.col("zero_s")
    starts = f.sequence(f.floor(first / WINDOW_S), f.floor(last / WINDOW_S))
    inside = (f.col("window_s") >= f.col("first") + EDGE_S) & (f.col("window_s") + WINDOW_S <= f.col("last") - EDGE_S)
    return (
        axes.where(f.col("last_s") >= f.col("first_s"))
        .select("run_id", "event_id", first.alias("first"), last.alias("last"), f.explode(starts).alias("index"))
        .select("run_id", "event_id", "first", "last", (f.col("index") * WINDOW_S).cast("double").alias("window_s"))
        .select("run_id", "event_id", "window_s", inside.alias("complete"))
    )


def observed(workers: DataFrame, machines: DataFrame, axes: DataFrame) -> DataFrame:
    """Windows in which anything at all was reported: only there is an absent count a zero."""
    both = workers.select("run_id", "t_s", "dt_s").unionByName(machines.select("run_id", "t_s", "dt_s"))
    return windowed(both, axes).select("run_id", "event_id", "window_s").distinct()


def counts(tasks: DataFrame, spouts: DataFrame, components: DataFrame, axes: DataFrame) -> DataFrame:
    """Tuples per window by scope: `sink` (a component), `total` (all sinks), `spouts` (emitted), `due` (offered)."""
    sinks = components.where("sink").select("run_id", "task", "component")
    executed = (
        windowed(tasks.select("run_id", "t_s", "dt_s", "task", "executed"), axes)
        .join(f.broadcast(sinks), ["run_id", "task"], how="inner")
        .groupBy("run_id", "event_id", "window_s", "component")
        .agg(f.sum("executed").alias("tuples"))
        .select("run_id", "event_id", "window_s", f.lit("sink").alias("scope"), "component", "tuples")
    )
    total = (
        executed.groupBy("run_id", "event_id", "window_s")
        .agg(f.sum("tuples").alias("tuples"))
        .select("run_id", "event_id", "window_s", f.lit("total").alias("scope"), f.lit("").alias("component"), "tuples")
    )
    offered = (
        windowed(spouts.select("run_id", "t_s", "dt_s", "due", "emitted"), axes)
        .groupBy("run_id", "event_id", "window_s")
        .agg(f.sum("emitted").alias("spouts"), f.sum("due").alias("due"))
        .unpivot(["run_id", "event_id", "window_s"], ["spouts", "due"], "scope", "tuples")
        .select("run_id", "event_id", "window_s", "scope", f.lit("").alias("component"), "tuples")
    )
    return executed.unionByName(total).unionByName(offered)


def scopes(components: DataFrame, spouts: DataFrame, axes: DataFrame) -> DataFrame:
    """What an axis has a series of: all sinks; at the spouts what was measured (other people's logs lack some)."""
    sinks = (
        components.where("sink")
        .select("run_id", "component")
        .distinct()
        .join(axes.select("run_id", "event_id"), "run_id", how="inner")
        .select("run_id", "event_id", f.lit("sink").alias("scope"), "component")
    )
    totals = axes.select("run_id", "event_id", f.lit("total").alias("scope"), f.lit("").alias("component"))
    offered = (
        spouts.groupBy("run_id")
        .agg(f.count("emitted").alias("spouts"), f.count("due").alias("due"))
        .unpivot(["run_id"], ["spouts", "due"], "scope", "samples")
        .where(f.col("samples") > 0)
        .join(axes.select("run_id", "event_id"), "run_id", how="inner")
        .select("run_id", "event_id", "scope", f.lit("").alias("component"))
    )
    return sinks.unionByName(totals).unionByName(offered)


def throughput(counts: DataFrame, scopes: DataFrame, grid: DataFrame, observed: DataFrame) -> DataFrame:
    """Tuples per second of every window: 0 where workers were silent, null where nobody reported."""
    rate = f.when(f.col("reported"), f.coalesce(f.col("tuples"), f.lit(0)) / float(WINDOW_S))
    seen = observed.select("run_id", "event_id", "window_s", f.lit(True).alias("reported"))
    return (
        grid.join(scopes, ["run_id", "event_id"], how="inner")
        .join(counts, ["run_id", "event_id", "window_s", "scope", "component"], how="left")
        .join(seen, ["run_id", "event_id", "window_s"], how="left")
        .select("run_id", "event_id", "window_s", "scope", "component", rate.alias("rate"), "complete")
    )


def downtime(tasks: DataFrame, components: DataFrame, axes: DataFrame) -> DataFrame:
    """Seconds at zero throughput after each event, until the next: in all, the longest stretch, and 10 s windows x 10.

    A line that executed anything makes every second busy that it overlaps by more than `OVERLAP_S`, so that lines out
    of step with the seconds leave no false zero.
    """
    spans = happened(axes).select(
        "run_id",
        "event_id",
        "zero_s",
        f.floor(f.col("last_s") - f.col("zero_s") - EDGE_S).cast("bigint").alias("seconds"),
    )
    sinks = components.where("sink").select("run_id", "task")
    busy = (
        tasks.where(f.col("executed") > 0)
        .select("run_id", "t_s", "dt_s", "task")
        .join(f.broadcast(sinks), ["run_id", "task"], how="left_semi")
        .join(f.broadcast(spans), "run_id", how="inner")
        .select(
            "run_id",
            "event_id",
            f.explode(
                f.sequence(
                    f.floor(f.col("t_s") - f.col("dt_s") - f.col("zero_s") + OVERLAP_S),
                    f.floor(f.col("t_s") - f.col("zero_s") - OVERLAP_S),
                )
            ).alias("second"),
        )
        .distinct()
    )
    idle = (
        spans.where(f.col("seconds") > 0)
        .select(
            "run_id", "event_id", f.explode(f.sequence(f.lit(0).cast("bigint"), f.col("seconds") - 1)).alias("second")
        )
        .join(busy, ["run_id", "event_id", "second"], how="left_anti")
    )
    return _stretches(idle, spans)


def _stretches(idle: DataFrame, spans: DataFrame) -> DataFrame:
    """Neighbouring idle seconds share `second - rank`: count them per stretch and per window."""
    from pyspark.sql import Window

    rank = f.row_number().over(Window.partitionBy("run_id", "event_id").orderBy("second"))
    stretches = (
        idle.select("run_id", "event_id", (f.col("second") - rank).alias("stretch"))
        .groupBy("run_id", "event_id", "stretch")
        .agg(f.count("*").alias("seconds"))
        .groupBy("run_id", "event_id")
        .agg(f.sum("seconds").alias("downtime"), f.max("seconds").alias("longest"))
    )
    windows = (
        idle.select("run_id", "event_id", f.floor(f.col("second") / WINDOW_S).alias("window"))
        .groupBy("run_id", "event_id", "window")
        .agg(f.count("*").alias("seconds"))
        .where(f.col("seconds") == WINDOW_S)
        .groupBy("run_id", "event_id")
        .agg((f.count("*") * WINDOW_S).alias("windows"))
    )
    joined = (
        spans.select("run_id", "event_id")
        .join(stretches, ["run_id", "event_id"], how="left")
        .join(windows, ["run_id", "event_id"], how="left")
    )
    return joined.select(
        "run_id",
        "event_id",
        f.coalesce("downtime", f.lit(0)).cast("double").alias("downtime_s"),
        f.coalesce("longest", f.lit(0)).cast("double").alias("longest_s"),
        f.coalesce("windows", f.lit(0)).cast("double").alias("windows_at_zero_s"),
    )
