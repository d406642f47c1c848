"""Latency in windows: from when a tuple should have been emitted to the end of its execution at a sink."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analysis.throughput import windowed


def latency(sinks: DataFrame, axes: DataFrame) -> DataFrame:
    """Mean and maximum are exact. Percentiles: the median over a window's task-seconds, weighted by their tuples, of
    each task-second's own percentile (the lines carry percentiles, not tuples)."""
    samples = windowed(
        sinks.where(f.col("n") > 0).select(
            "run_id", "t_s", "dt_s", "n", "sum_ms", "max_ms", "p50_ms", "p95_ms", "p99_ms"
        ),
        axes,
    )
    medians = [f.percentile(name, f.lit(0.5), f.col("n")).alias(name) for name in ("p50_ms", "p95_ms", "p99_ms")]
    return (
        samples.groupBy("run_id", "event_id", "window_s")
        .agg(f.sum("n").alias("n"), f.try_divide(f.sum("sum_ms"), f.sum("n")).alias("mean_ms"), *medians,
             f.max("max_ms").alias("max_ms"))
        .select("run_id", "event_id", "window_s", "n", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms")
    )  # fmt: skip
