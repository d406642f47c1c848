"""CPU, memory and bytes of each machine in the parts of a run that count (see convergence.interval_rows)."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.communication_costs import EXPERIMENT_LAN
from analysis.metrics.line_seconds import SEVERAL_S, in_intervals, in_windows, line_seconds
from analysis.metrics.steadiness import WINDOW_S
from analysis.record import event_timeline
from analysis.record.event_timeline import POLICY_CHANGES, WHOLE_RUN
from analysis.record.small_tables import EVENT, PHASE, UNIT, Row

GROUPS = "run_id string, machine string, group string"
MEMBERSHIPS = "run_id string, machine string, from_s double, until_s double"


def memberships(events: Iterable[Row]) -> list[tuple[str, str, float, float]]:
    """Return rows of `MEMBERSHIPS`: from when until when each machine was in the cluster that a policy had join, or let
    go, by itself, in the middle of the measurement."""
    events = list(events)
    by_policy = {(event["run_id"], name) for event in events if event["kind"] in POLICY_CHANGES and event["event_id"]
                 for name in event["machines"] or ()}  # fmt: skip
    spans = event_timeline.memberships(events)
    return [(*key, *span) for key in spans if key in by_policy for span in spans[key]]


def of_members(samples: DataFrame, memberships: DataFrame) -> DataFrame:
    """Return samples without those of these machines while they were not in the cluster; of others all."""
    columns = [f.col(f"`{name}`") for name in samples.columns]
    spans = memberships.groupBy("run_id", "machine").agg(f.collect_list(f.struct("from_s", "until_s")).alias("spans"))
    t_s = f.col("t_s")
    inside = f.exists("spans", lambda span: (t_s > span["from_s"]) & (t_s <= span["until_s"]))
    there = f.col("spans").isNull() | inside
    return samples.join(f.broadcast(spans), ["run_id", "machine"], how="left").where(there).select(*columns)


def cpu(samples: DataFrame, machines: DataFrame, intervals: DataFrame, axes: DataFrame) -> DataFrame:
    """Return mean cores, the distribution of utilisation over seconds, throttling, steal and memory of each machine and
    phase.

    A line of several seconds weighs as many, in each interval those that it has there.
    """
    used = f.try_divide("cpu_cores", "cpu_quota_cores")
    seconds = line_seconds(f.col("dt_s"))
    deciles = [f.percentile("utilisation", f.lit(q / 100), seconds).alias(f"utilisation_p{q}") for q in (10, 50, 90)]
    described = machines.select("run_id", "machine", "joins_at_scale")
    phased = in_intervals(intervals, samples, axes, ["throttled_ms"]).select(
        *PHASE, "machine", "dt_s", "cpu_cores", used.alias("utilisation"), "throttled_ms", "steal_percent",
        "memory_bytes", f.try_divide("memory_bytes", "memory_limit_bytes").alias("memory_share"), "worker_memory_bytes",
    )  # fmt: skip
    return (
        phased.groupBy(*PHASE, "machine")
        .agg(
            _mean_over_time("cpu_cores").alias("cores_mean"),
            _mean_over_time("utilisation").alias("utilisation_mean"),
            *deciles,
            f.try_divide(f.sum("throttled_ms"), f.sum("dt_s")).alias("throttled_ms_per_s"),
            _mean_over_time("steal_percent").alias("steal_percent_mean"),
            *(_mean_over_time(name).alias(f"{name}_mean")
              for name in ("memory_bytes", "memory_share", "worker_memory_bytes")),
            f.sum(seconds).cast("bigint").alias("samples"),
        )
        .join(f.broadcast(described), ["run_id", "machine"], how="left")
        .select(*PHASE, "machine", "joins_at_scale", "cores_mean", "utilisation_mean",
                "utilisation_p10", "utilisation_p50", "utilisation_p90", "throttled_ms_per_s", "steal_percent_mean",
                "memory_bytes_mean", "memory_share_mean", "worker_memory_bytes_mean", "samples")
    )  # fmt: skip


def _mean_over_time(name: str) -> Column:
    return f.try_divide(f.sum(f.col(name) * f.col("dt_s")), f.sum(f.when(f.col(name).isNotNull(), f.col("dt_s"))))


def cpu_windows(samples: DataFrame, zeros: DataFrame) -> DataFrame:
    """Return utilisation, runnable threads and memory of each machine over the whole run, in windows that count from
    its first event.

    Means are over time: a line of several seconds weighs as many in each window.
    """
    used = f.try_divide("cpu_cores", "cpu_quota_cores").alias("utilisation")
    read = samples.select(*UNIT, "t_s", "dt_s", "machine", used, "runnable", "memory_bytes")
    means = [_mean_over_time(name).alias(f"{name}_mean") for name in ("utilisation", "runnable", "memory_bytes")]
    return (
        in_windows(read, zeros.select(*UNIT, f.lit(WHOLE_RUN).alias("event_id"), "zero_s"))
        .groupBy(*UNIT, "window_s", "machine")
        .agg(*means)
        .select(*UNIT, "window_s", "machine", "utilisation_mean", "runnable_mean", "memory_bytes_mean")
    )


def group_windows(samples: DataFrame, groups: DataFrame, zeros: DataFrame) -> DataFrame:
    """Return the utilisation of each group of machines, of the cores that it has in the window, in windows as those of
    `cpu_windows`. `samples`: of machines while they are in the cluster; `groups`: the group of each that has one."""
    read = samples.join(f.broadcast(groups), ["run_id", "machine"]).select(
        *UNIT, "t_s", "dt_s", "machine", "group", "cpu_cores", "cpu_quota_cores"
    )
    used, quota = (f.sum(f.col(name) * f.col("dt_s")) for name in ("cpu_cores", "cpu_quota_cores"))
    return (
        in_windows(read, zeros.select(*UNIT, f.lit(WHOLE_RUN).alias("event_id"), "zero_s"))
        .groupBy(*UNIT, "window_s", "group")
        .agg(f.countDistinct("machine").alias("machines"), f.try_divide(used, quota).alias("utilisation_mean"))
        .select(*UNIT, "window_s", "group", "machines", "utilisation_mean")
    )


def network(samples: DataFrame, intervals: DataFrame, axes: DataFrame) -> DataFrame:
    """Return bytes per second of each machine's interfaces, over the seconds in which they were measured."""
    rates = [
        f.try_divide(f.sum(name), f.sum(f.when(f.col(name).isNotNull(), f.col("dt_s")))).alias(f"{name}_per_s")
        for name in ("rx_bytes", "tx_bytes")
    ]
    return (
        in_intervals(intervals, samples, axes, ["rx_bytes", "tx_bytes"])
        .groupBy(*PHASE, "machine", "interface")
        .agg(*rates)
        .select(*PHASE, "machine", "interface", "rx_bytes_per_s", "tx_bytes_per_s")
    )


def network_windows(samples: DataFrame, machines: DataFrame, axes: DataFrame) -> DataFrame:
    """Return bytes of the workers' machines on the experiment LAN, all together, in windows that count from each event.
    A line counts whole seconds, so a window may be complete except for one at its edge (`line_seconds`)."""
    ours = f.broadcast(machines.select("run_id", "machine"))
    of_run = machines.groupBy("run_id").agg(f.array_sort(f.collect_set("machine")).alias("of_run"))
    bounds = f.broadcast(axes.select(*EVENT, "zero_s", "first_s", "last_s"))
    begun = f.col("window_s") + WINDOW_S > f.col("first_s") - f.col("zero_s")
    seen = begun & (f.col("window_s") < f.col("last_s") - f.col("zero_s"))
    read = samples.where(f.col("interface") == EXPERIMENT_LAN).join(ours, ["run_id", "machine"], how="left_semi")
    columns = (*UNIT, "t_s", "dt_s", "machine", "rx_bytes", "tx_bytes")
    measured_s = f.when(f.col("rx_bytes").isNotNull() & f.col("tx_bytes").isNotNull(), f.col("dt_s"))
    is_whole = f.col("measured_s") > WINDOW_S - SEVERAL_S
    return (
        in_windows(read.select(*columns), axes, ["rx_bytes", "tx_bytes"])
        .join(bounds, list(EVENT), how="inner")
        .where(seen)
        .groupBy(*EVENT, "window_s", "machine")
        .agg(f.sum(measured_s).alias("measured_s"), f.sum("rx_bytes").alias("rx_bytes"),
             f.sum("tx_bytes").alias("tx_bytes"))
        .groupBy(*EVENT, "window_s")
        .agg(f.collect_set(f.when(is_whole, f.col("machine"))).alias("whole"),
             f.sum("rx_bytes").alias("rx_bytes"), f.sum("tx_bytes").alias("tx_bytes"))
        .join(f.broadcast(of_run), "run_id", how="inner")
        .select(*EVENT, "window_s", f.size("whole").alias("machines"),
                f.array_except("of_run", "whole").alias("silent"), "rx_bytes", "tx_bytes")
    )  # fmt: skip
