"""Latency in windows aligned to an event: how many tuples took how long, from sinks' histograms to the table `latency`.

A tuple's two times are of two machines' clocks. The lead of the sink's clock over the source's is subtracted from every
latency, by the clocks' offsets and a straight line between them. Everything runs in Spark, because the histograms
of a long run's windows are too large for one process.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.line_seconds import in_windows
from analysis.record.small_tables import EVENT, PHASE, UNIT
from scheduler_plugins.service.latency_buckets import BITS, LONGEST_US, ROUNDING

PERCENTILES = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}
WINDOW = (*EVENT, "window_s")


def windows(sinks: DataFrame, axes: DataFrame, clocks: DataFrame) -> DataFrame:
    """Return rows of the table `latency`: per window tuples, those with corrected clocks, mean, maximum and histogram.

    A line of several seconds counts evenly in them: most of its buckets hold one tuple, so parts of tuples are kept,
    in `n` as in the counts of which it is the sum. `clocks`: of `uncertainty.clock_lines`.
    """
    timed = without_clocks(sinks.where(f.col("n") > 0).withColumn("n", f.col("n").cast("double")), clocks)
    samples = in_windows(timed, axes, ["n", "sum_ms"])
    shift_ms = f.coalesce("shift_ms", f.lit(0.0))
    totals = samples.groupBy(*WINDOW).agg(
        f.sum("n").alias("n"),
        f.sum(f.when(f.col("shift_ms").isNotNull(), f.col("n")).otherwise(0.0)).alias("corrected"),
        f.try_divide(f.sum(f.col("sum_ms") - f.col("n") * shift_ms), f.sum("n")).alias("mean_ms"),
        f.max(f.col("max_ms") - shift_ms).alias("max_ms"),
    )
    return totals.join(histograms(bucket_counts(samples), *WINDOW), [*WINDOW], how="left").select(
        *WINDOW, "n", "corrected", "mean_ms", *PERCENTILES, "max_ms", "buckets", "counts"
    )


def of_intervals(latency: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return rows of the table `interval_latency`: all tuples of the windows that count, on each side of an event."""
    spans = f.broadcast(intervals.select(*PHASE, "start_s", "end_s"))
    inside = (f.col("window_s") >= f.col("start_s")) & (f.col("window_s") < f.col("end_s"))
    found = latency.join(spans, list(EVENT), how="inner").where(inside)
    totals = found.groupBy(*PHASE).agg(f.sum("n").alias("n"))
    entries = found.select(*PHASE, f.explode(f.arrays_zip("buckets", "counts")).alias("entry"))
    merged = entries.select(*PHASE, f.col("entry.buckets").alias("bucket"), f.col("entry.counts").alias("count"))
    return totals.join(histograms(merged, *PHASE), list(PHASE), how="left").select(*PHASE, "n", *PERCENTILES)


def bucket_counts(samples: DataFrame) -> DataFrame:
    """Return per window and line the buckets that hold a tuple, corrected for clock differences."""
    entries = samples.select(
        *WINDOW, "shift_ms", f.coalesce(f.try_divide("dt_s", "line_s"), f.lit(1.0)).alias("share"),
        f.explode(f.arrays_zip("buckets", "counts")).alias("entry"),
    )  # fmt: skip
    count = (f.col("entry.counts") * f.col("share")).alias("count")
    buckets = entries.select(*WINDOW, "shift_ms", f.col("entry.buckets").alias("bucket"), count)
    return without_shift(buckets).select(*WINDOW, "bucket", "count")


def histograms(entries: DataFrame, *keys: str) -> DataFrame:
    """Add up counts by bucket: per key the buckets in order, their counts, and the percentiles of all."""
    sums = entries.groupBy(*keys, "bucket").agg(f.sum("count").alias("count"))
    ordered = f.sort_array(f.collect_list(f.struct("bucket", "count"))).alias("entries")
    bounds = {name: bounds_us(f.col("at")[name]) for name in PERCENTILES}
    middles_ms = [((first + last) / 2000).alias(name) for name, (first, last) in bounds.items()]
    return (
        sums.groupBy(*keys)
        .agg(ordered, f.sum("count").alias("tuples"))
        .select(*keys, "entries", percentile_buckets(f.col("entries"), f.col("tuples")).alias("at"))
        .select(*keys, f.col("entries.bucket").alias("buckets"), f.col("entries.count").alias("counts"), *middles_ms)
    )


def percentile_buckets(entries: Column, tuples: Column) -> Column:
    """Return by name of percentile the first bucket up to which at least that share of all tuples lies."""
    nothing = f.struct(f.lit(0.0).alias("reached"), *[f.lit(None).cast("int").alias(name) for name in PERCENTILES])

    def add(found: Column, entry: Column) -> Column:
        reached = found["reached"] + entry["count"]
        enough = {name: share * tuples <= reached * (1 + ROUNDING) for name, share in PERCENTILES.items()}
        buckets = [f.coalesce(found[name], f.when(enough[name], entry["bucket"])).alias(name) for name in PERCENTILES]
        return f.struct(reached.alias("reached"), *buckets)

    return f.aggregate(entries, nothing, add)


def without_clocks(sinks: DataFrame, clocks: DataFrame) -> DataFrame:
    """Return samples of sinks with `shift_ms`: the lead of the sink's clock over the source's; null if unknown."""
    columns = ("begin_s", "end_s", "begin_ms", "end_ms")

    def clock(prefix: str, machine: str) -> DataFrame:
        named = [f.col(column).alias(f"{prefix}_{column}") for column in columns]
        return f.broadcast(clocks.select("run_id", f.col("machine").alias(machine), *named))

    def offset(prefix: str) -> Column:
        begin_s, end_s, begin, end = (f.col(f"{prefix}_{column}") for column in columns)
        elapsed = f.coalesce(f.try_divide(f.col("t_s") - begin_s, end_s - begin_s), f.lit(0.0))
        return begin + (end - begin) * f.least(f.greatest(elapsed, f.lit(0.0)), f.lit(1.0))

    same = f.col("source_machine") == f.col("machine")
    shift = f.when(same, f.lit(0.0)).otherwise(offset("sink") - offset("source"))
    return (
        sinks.join(clock("sink", "machine"), ["run_id", "machine"], how="left")
        .join(clock("source", "source_machine"), ["run_id", "source_machine"], how="left")
        .select(*UNIT, "t_s", "dt_s", f.col("dt_s").alias("line_s"), "n", "sum_ms", "max_ms", "buckets", "counts",
                shift.alias("shift_ms"))
    )  # fmt: skip


def without_shift(counted: DataFrame) -> DataFrame:
    """Return `counted` with each `bucket` that of its middle less `shift_ms`; unchanged if clocks agree or are unknown.

    A percentile read at its middle is then off by half a bucket twice, of the measured and of the corrected
    latency: by at most 1/128 of each (but not below 1 µs). Columns between the steps, because each step names
    the one before several times, and Spark would repeat the expression as often.
    """
    shift_ms, bucket, middle_us = f.col("shift_ms"), f.col("bucket"), f.col("middle_us")
    first, last = bounds_us(bucket)
    middles = counted.withColumn("middle_us", f.floor((first + last) / 2 - shift_ms * 1000))
    shifted_bucket = f.when(shift_ms.isNull() | (shift_ms == 0), bucket).otherwise(bucket_of(middle_us))
    return middles.withColumn("bucket", shifted_bucket).drop("middle_us")


def bucket_of(latency_us: Column) -> Column:
    """Return `latency_buckets.bucket_of` of a column of whole numbers."""
    limited_us = f.least(_mirrored(latency_us), f.lit(LONGEST_US))
    # The digits of the binary number, because a logarithm is off by one at some powers of two.
    shift = f.greatest(f.length(f.bin(limited_us)) - 1 - BITS, f.lit(0))
    bucket = shift * 2**BITS + f.floor(limited_us / f.pow(f.lit(2.0), shift))
    return f.when(latency_us < 0, -1 - bucket).otherwise(bucket).cast("int")


def bounds_us(bucket: Column) -> tuple[Column, Column]:
    """Return `latency_buckets.bounds_us` of a column of buckets."""
    mirrored = _mirrored(bucket)
    shift = f.greatest(f.floor(mirrored / 2**BITS) - 1, f.lit(0))
    width = f.pow(f.lit(2.0), shift).cast("bigint")
    first = (mirrored - shift * 2**BITS) * width
    last = first + width - 1
    return (f.when(bucket < 0, -1 - last).otherwise(first), f.when(bucket < 0, -1 - first).otherwise(last))


def _mirrored(number: Column) -> Column:
    return f.when(number < 0, -1 - number).otherwise(number).cast("bigint")
