"""One number a run, event and metric, in long form: what claims, comparisons and the table of runs are made of.

Numbers of a run as a whole have the event `e0`.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.scale_events import KEYS, WHOLE_RUN, happened

Reader = Callable[[str], DataFrame]


def measurements(read: Reader) -> DataFrame:
    """Every number. `censored`: the value is the horizon that the run reached without converging."""
    parts = [levels(read), offered(read), convergence(read), downtime(read), lost(read), latencies(read), loads(read),
             moved(read), restarted(read), released(read), running(read), loading(read)]  # fmt: skip
    total = parts[0]
    for part in parts[1:]:
        total = total.unionByName(part)
    return total.where(f.col("value").isNotNull()).select(*KEYS, "metric", "value", "censored")


def _long(frame: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """Columns of one row an event -> a row an event and metric."""
    wide = frame.select(*KEYS, *[column.cast("double").alias(name) for name, column in columns.items()])
    return wide.unpivot([*KEYS], list(columns), "metric", "value").select(
        *KEYS, "metric", "value", f.lit(False).alias("censored")
    )


def levels(read: Reader) -> DataFrame:
    """Mean throughput of the part that counts before and after, tuples/s, and the gain in percent."""
    sides = read("intervals").groupBy(*KEYS).pivot("phase", ["before", "after"]).agg(f.first("mean"))
    gain = 100 * (f.try_divide("after", "before") - 1)
    return _long(
        sides,
        {"throughput_before": f.col("before"), "throughput_after": f.col("after"), "gain_percent": gain},
    )


def offered(read: Reader) -> DataFrame:
    """Rates at the spouts, emitted and due, over the same parts."""
    spans = read("intervals").select(*KEYS, "phase", "start_s", "end_s")
    inside = (f.col("window_s") >= f.col("start_s")) & (f.col("window_s") < f.col("end_s"))
    return (
        read("event_throughput")
        .where(f.col("scope").isin("spouts", "due"))
        .join(f.broadcast(spans), [*KEYS], how="inner")
        .where(inside)
        .groupBy(*KEYS, f.concat_ws("_", "scope", "phase").alias("metric"))
        .agg(f.avg("rate").alias("value"))
        .select(*KEYS, "metric", "value", f.lit(False).alias("censored"))
    )


def convergence(read: Reader) -> DataFrame:
    return read("convergence").select(
        *KEYS,
        f.concat(f.lit("convergence_"), "definition", f.lit("_s")).alias("metric"),
        f.coalesce("time_s", "horizon_s").alias("value"),
        "censored",
    )


def downtime(read: Reader) -> DataFrame:
    return _long(read("downtime"), {name: f.col(name) for name in ("downtime_s", "longest_s", "windows_at_zero_s")})


def lost(read: Reader) -> DataFrame:
    """Tuples lost on all edges in each phase, and the share of what was sent after the event."""
    sides = (
        read("losses")
        .groupBy(*KEYS)
        .pivot("phase", ["before", "after"])
        .agg(f.sum("lost").alias("lost"), f.sum("sent").alias("sent"))
    )
    share = 100 * f.try_divide("after_lost", "after_sent")
    return _long(
        sides, {"lost_before": f.col("before_lost"), "lost_after": f.col("after_lost"), "lost_after_percent": share}
    )


def latencies(read: Reader) -> DataFrame:
    """Median over the windows of the part that counts of the windows' median and 95th percentile."""
    spans = read("intervals").select(*KEYS, "phase", "start_s", "end_s")
    inside = (f.col("window_s") >= f.col("start_s")) & (f.col("window_s") < f.col("end_s"))
    return (
        read("latency")
        .join(f.broadcast(spans), [*KEYS], how="inner")
        .where(inside)
        .groupBy(*KEYS, "phase")
        .agg(f.median("p50_ms").alias("latency_p50_ms"), f.median("p95_ms").alias("latency_p95_ms"))
        .unpivot([*KEYS, "phase"], ["latency_p50_ms", "latency_p95_ms"], "name", "value")
        .select(*KEYS, f.concat_ws("_", "name", "phase").alias("metric"), "value", f.lit(False).alias("censored"))
    )


def loads(read: Reader) -> DataFrame:
    """Utilisation in percent of quota, its mean over machines and its spread; cores and MB of all machines together."""
    spread = f.max("utilisation_mean") - f.min("utilisation_mean")
    return (
        read("cpu")
        .groupBy(*KEYS, "phase")
        .agg(
            (100 * f.avg("utilisation_mean")).alias("cpu_percent"),
            (100 * spread).alias("cpu_spread_percent"),
            f.sum("cores_mean").alias("cpu_cores"),
            (f.sum("memory_bytes_mean") / 1e6).alias("memory_mb"),
        )
        .unpivot([*KEYS, "phase"], ["cpu_percent", "cpu_spread_percent", "cpu_cores", "memory_mb"], "name", "value")
        .select(*KEYS, f.concat_ws("_", "name", "phase").alias("metric"), "value", f.lit(False).alias("censored"))
    )


def moved(read: Reader) -> DataFrame:
    """Moves, and how far the joined machines' instances are from SP II-B's instances / machines."""
    expected = f.floor(f.try_divide("executors_before", "old_machines")) * f.col("joined_machines")
    columns = {
        name: f.col(name)
        for name in ("executors_before", "executors_after", "executors_moved", "tasks_moved",
                     "tasks_moved_to_old_machines", "instances_on_joined")
    }  # fmt: skip
    over = f.when(f.col("joined_machines") > 0, f.col("instances_on_joined") - expected)
    return _long(read("moves"), columns | {"instances_on_joined_over_expected": over})


def restarted(read: Reader) -> DataFrame:
    """Workers that restarted after the event, and those of them whose own executors had not changed."""
    alive = f.col("seen_before")
    again = f.col("restarts") > 0
    return _long(
        read("slots")
        .groupBy(*KEYS)
        .agg(
            f.count_if(alive).alias("workers_before"),
            f.count_if(alive & ~f.col("changed")).alias("workers_unaffected"),
            f.count_if(again).alias("workers_restarted"),
            f.count_if(again & ~f.col("changed")).alias("unaffected_workers_restarted"),
        ),
        {
            name: f.col(name)
            for name in ("workers_before", "workers_unaffected", "workers_restarted", "unaffected_workers_restarted")
        },
    )


def released(read: Reader) -> DataFrame:
    """Machines that left for good or joined in an event, and how often it was asked for until it was carried out."""
    return _long(
        happened(read("scale_events")),
        {
            "machines_released": f.size("released"),
            "machines_given_back": f.col("given_back"),
            "machines_joined": f.size("joined"),
            "attempts": f.col("attempts"),
        },
    )


def running(read: Reader) -> DataFrame:
    """From the request to the last executor running and its parts; censored where one never ran."""
    bounded = ("request_to_running_s", "rebalance_s")
    names: list[Column | str] = ["request_to_decision_s", "request_to_applied_s", *bounded]
    return (
        read("running")
        .unpivot([*KEYS, "censored"], names, "metric", "value")
        .select(*KEYS, "metric", "value", (f.col("censored") & f.col("metric").isin(*bounded)).alias("censored"))
    )


def loading(read: Reader) -> DataFrame:
    whole = read("loading").select("run_id", f.lit(WHOLE_RUN).alias("event_id"), "submit_to_loaded_s")
    return _long(whole, {"submit_to_loaded_s": f.col("submit_to_loaded_s")})
