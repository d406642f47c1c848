"""Latency in windows aligned to an event: how many tuples took how long, from sinks' histograms to the table `latency`.

A tuple's two times are of two machines' clocks. What the sink's machine was ahead of the source's is taken out of every
latency, by the clocks' offsets before and after the run and a straight line between them. Spark adds the counts up;
what is one row a window goes on in this process.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.latency_histogram import BITS, LONGEST_US, percentile_ms
from analysis.metrics.line_seconds import in_windows

PERCENTILES = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}
Row = Mapping[str, Any]


def windows(sinks: DataFrame, axes: DataFrame, machines: DataFrame, runs: DataFrame) -> DataFrame:
    """Per window: tuples, those whose clocks are taken out, their mean and maximum, and the counts of each bucket.

    Lines of before the histograms (`buckets` is null) have everything but the counts.
    """
    timed = without_clocks(sinks.where(f.col("n") > 0), machines, runs)
    samples = in_windows(timed, axes, ["n", "sum_ms"])
    keys = ["run_id", "event_id", "window_s"]
    shift_ms = f.coalesce("shift_ms", f.lit(0.0))
    totals = samples.groupBy(*keys).agg(
        f.sum("n").alias("n"),
        f.sum(f.when(f.col("shift_ms").isNotNull(), f.col("n")).otherwise(0)).alias("corrected"),
        f.try_divide(f.sum(f.col("sum_ms") - f.col("n") * shift_ms), f.sum("n")).alias("mean_ms"),
        f.max(f.col("max_ms") - shift_ms).alias("max_ms"),
    )
    return totals.join(bucket_counts(samples), keys, how="left").select(
        *keys, "n", "corrected", "mean_ms", "max_ms", "buckets", "counts"
    )


def bucket_counts(samples: DataFrame) -> DataFrame:
    """Per window the buckets that hold a tuple, in their order, and how many each holds.

    A line of several seconds counts evenly in them: most of its buckets hold one tuple, so parts of tuples are kept.
    """
    keys = ["run_id", "event_id", "window_s"]
    entries = samples.select(
        *keys, "shift_ms", f.coalesce(f.try_divide("dt_s", "line_s"), f.lit(1.0)).alias("share"),
        f.explode(f.arrays_zip("buckets", "counts")).alias("entry"),
    )  # fmt: skip
    bucket = moved(f.col("entry.buckets"), f.col("shift_ms")).alias("bucket")
    counted = (
        entries.select(*keys, bucket, (f.col("entry.counts") * f.col("share")).alias("counts"))
        .groupBy(*keys, "bucket")
        .agg(f.sum("counts").alias("count"))
    )
    ordered = f.sort_array(f.collect_list(f.struct("bucket", "count"))).alias("entries")
    return (
        counted.groupBy(*keys)
        .agg(ordered)
        .select(*keys, f.col("entries.bucket").alias("buckets"), f.col("entries.count").alias("counts"))
    )


def without_clocks(sinks: DataFrame, machines: DataFrame, runs: DataFrame) -> DataFrame:
    """Samples of sinks with `shift_ms`: how far the sink's clock is ahead of the source's; null where it is unknown."""
    elapsed = (f.col("t_s") - f.col("started_s")) / (f.col("ended_s") - f.col("started_s"))
    share = f.least(f.greatest(f.coalesce(elapsed, f.lit(0.0)), f.lit(0.0)), f.lit(1.0))
    ends = {"begin": ("clock_offset_ms", "clock_end_offset_ms"), "end": ("clock_end_offset_ms", "clock_offset_ms")}

    def clocks(prefix: str, machine: str) -> DataFrame:
        """Both offsets; where one was not measured the other stands for it."""
        offsets = [f.coalesce(*names).alias(f"{prefix}_{end}") for end, names in ends.items()]
        return f.broadcast(machines.select("run_id", f.col("machine").alias(machine), *offsets))

    def offset(prefix: str) -> Column:
        begin, end = f.col(f"{prefix}_begin"), f.col(f"{prefix}_end")
        return begin + (end - begin) * share

    same = f.col("source_machine") == f.col("machine")
    shift = f.when(same, f.lit(0.0)).otherwise(offset("sink") - offset("source"))
    return (
        sinks.join(f.broadcast(runs.select("run_id", "started_s", "ended_s")), "run_id", how="left")
        .join(clocks("sink", "machine"), ["run_id", "machine"], how="left")
        .join(clocks("source", "source_machine"), ["run_id", "source_machine"], how="left")
        .select("run_id", "t_s", "dt_s", f.col("dt_s").alias("line_s"), "n", "sum_ms", "max_ms", "buckets", "counts",
                shift.alias("shift_ms"))
    )  # fmt: skip


def moved(bucket: Column, shift_ms: Column) -> Column:
    """The bucket of a bucket's middle less the shift; the bucket itself where the clocks agree or are unknown."""
    first, last = bounds_us(bucket)
    moved_us = f.floor((first + last) / 2 - shift_ms * 1000)
    return f.when(shift_ms.isNull() | (shift_ms == 0), bucket).otherwise(bucket_of(moved_us))


def bucket_of(latency_us: Column) -> Column:
    """`latency_histogram.bucket_of` of a column of whole numbers."""
    bounded = f.least(_mirrored(latency_us), f.lit(LONGEST_US))
    # The digits of the binary number, for a logarithm is off by one at some powers of two.
    shift = f.greatest(f.length(f.bin(bounded)) - 1 - BITS, f.lit(0))
    bucket = shift * 2**BITS + f.floor(bounded / f.pow(f.lit(2.0), shift))
    return f.when(latency_us < 0, -1 - bucket).otherwise(bucket).cast("int")


def bounds_us(bucket: Column) -> tuple[Column, Column]:
    """`latency_histogram.bounds_us` of a column of buckets."""
    mirrored = _mirrored(bucket)
    shift = f.greatest(f.floor(mirrored / 2**BITS) - 1, f.lit(0))
    width = f.pow(f.lit(2.0), shift).cast("bigint")
    first = (mirrored - shift * 2**BITS) * width
    last = first + width - 1
    return (
        f.when(bucket < 0, -1 - last).otherwise(first),
        f.when(bucket < 0, -1 - first).otherwise(last),
    )


def _mirrored(number: Column) -> Column:
    return f.when(number < 0, -1 - number).otherwise(number).cast("bigint")


def latency_rows(found: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Windows with their percentiles, of all their tuples; null where only older lines are there."""
    for row in found:
        counts = dict(zip(row["buckets"] or (), row["counts"] or (), strict=True))
        yield {**row, **{name: percentile_ms(counts, share) for name, share in PERCENTILES.items()}}
