"""The seconds of a line: one of several seconds counts evenly in each of them, in windows and in phases. A throttled
sampler wrote it, or the run was simulated with such lines (`sample_s`).

The live series has the same rule (scheduler_plugins.service.samples). A second belongs to the window, or to the side
of a zero, that holds its middle; a line of at most a second and a half is one. Tuples stay whole and add up to those of
the line.
"""

from collections.abc import Iterator, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.small_tables import EVENT, PHASE, UNIT

WHOLE_TYPES = ("int", "bigint")
AXIS_EDGES = ("from_window", "to_window")  # the first and the last window of an axis
SEVERAL_S = 1.5  # from here on a line has several seconds


def line_seconds(dt_s: Column) -> Column:
    """Return the number of seconds in which a line of `dt_s` counts: whole ones (int), at least one."""
    return f.greatest(f.lit(1), f.round(dt_s).cast("int"))


def first_second_s() -> Column:
    """Return when the first of a line's seconds ends: for a process's first line, when it existed."""
    return f.when(f.col("dt_s") >= SEVERAL_S, f.col("t_s") - f.col("dt_s") + 1.0).otherwise(f.col("t_s"))


def usual_line_s() -> Column:
    """Return over lines how many seconds half of them have at most; rows with a null `dt_s` do not count. Limits for
    late and silent lines follow from it."""
    return f.median(f.when(f.col("dt_s").isNotNull(), line_seconds(f.col("dt_s"))))


def seconds_before(instant: Column) -> Column:
    """Return how many of a line's seconds have their middle before `instant`."""
    t_s, dt_s = f.col("t_s"), f.col("dt_s")
    seconds = line_seconds(dt_s)
    place = f.ceil(f.try_divide((instant - (t_s - dt_s)) * seconds, dt_s) - 0.5)
    several = f.least(seconds, f.greatest(f.lit(0), place.cast("int")))
    return f.when(seconds == 1, (t_s - dt_s / 2 < instant).cast("int")).otherwise(several)


def parts(samples: DataFrame, counts: Sequence[str]) -> Iterator[Column]:
    """Yield the columns of `samples`; `dt_s` and the `counts` of the line's seconds from the column `first` on and
    before `until`. Both are columns and not expressions, which Spark would repeat in each of these and then no longer
    compile the function.
    """
    first, stop = f.col("first"), f.col("until")
    seconds, share = line_seconds(f.col("dt_s")), stop - first
    for name, kind in samples.dtypes:
        value = f.col(f"`{name}`")
        if name not in (*counts, "dt_s"):
            yield value
            continue
        # Differences of rounded-down sums, so they add up. Multiplied first: a third of 3000 tuples is 1000, not 999.
        tuples = f.floor(value * stop / seconds) - f.floor(value * first / seconds)
        part = tuples.cast(kind) if kind in WHOLE_TYPES else value * share / seconds
        yield f.when(share == seconds, value).otherwise(part).alias(name)


def middle_s() -> Column:
    """Return the middle of the line's seconds from the column `first` on and before `until`."""
    share = (f.col("first") + f.col("until")) / 2 / line_seconds(f.col("dt_s"))
    return f.col("t_s") - f.col("dt_s") + f.col("dt_s") * share


def in_windows(samples: DataFrame, axes: DataFrame, counts: Sequence[str] = ()) -> DataFrame:
    """Return samples with `event_id` and `window_s`, a row an axis and window in which the line has seconds; runs
    without an axis are dropped. `dt_s` and the `counts` are those of its seconds there; every other column is the
    line's.

    If `axes` have the observed time of an axis (`first_s`, `last_s`), only windows in it are kept: in a long run with
    many events all windows would otherwise appear once for each event.
    """
    half = f.col("dt_s") / line_seconds(f.col("dt_s")) / 2
    begins, ends = (f.col("t_s") - f.col("dt_s") + half - f.col("zero_s"), f.col("t_s") - half - f.col("zero_s"))
    earliest, latest = f.floor(begins / WINDOW_S), f.floor(ends / WINDOW_S)
    window, edges = f.col("window"), (f.col("earliest"), f.col("latest"))
    opens = f.col("zero_s") + window * WINDOW_S
    first = f.when(window == edges[0], 0).otherwise(seconds_before(opens))
    until = f.when(window == edges[1], line_seconds(f.col("dt_s"))).otherwise(seconds_before(opens + WINDOW_S))
    columns = [f.col(f"`{name}`") for name in samples.columns]
    bounds: list[Column] = [f.lit(None).cast("bigint")] * 2  # of unknown axes: none
    if {"first_s", "last_s"} <= set(axes.columns):
        bounds = [f.floor((f.col(name) - f.col("zero_s")) / WINDOW_S) for name in ("first_s", "last_s")]
    axis = f.broadcast(
        axes.select(*EVENT, "zero_s", *[bound.alias(name) for bound, name in zip(bounds, AXIS_EDGES, strict=True)])
    )
    begin, end = f.greatest("earliest", "from_window"), f.least(f.greatest("earliest", "latest"), "to_window")
    spread = (
        samples.join(axis, list(UNIT), how="inner")
        .select(*columns, "event_id", "zero_s", earliest.alias("earliest"), latest.alias("latest"), *AXIS_EDGES)
        .select("*", f.explode(f.when(begin <= end, f.sequence(begin, end))).alias("window"))
    )
    bounded = spread.select(*columns, "event_id", "window", first.alias("first"), until.alias("until"))
    return bounded.select(*parts(samples, counts), "event_id", (window * WINDOW_S).cast("double").alias("window_s"))


def in_phases(samples: DataFrame, spans: DataFrame, counts: Sequence[str]) -> DataFrame:
    """Return samples with `event_id` and `phase`, a row an event and side of it on which the line has seconds. `dt_s`
    and the `counts` are those of its seconds there."""
    begun = f.when(f.col("from_s").isNull(), 0).otherwise(seconds_before(f.col("from_s")))
    ended = f.when(f.col("until_s").isNull(), line_seconds(f.col("dt_s"))).otherwise(seconds_before(f.col("until_s")))
    zero = seconds_before(f.col("zero_s"))
    sides = [
        f.struct(f.lit(name).alias("phase"), first.alias("first"), until.alias("until"))
        for name, first, until in (("before", begun, zero), ("after", zero, ended))
    ]
    columns = [f.col(f"`{name}`") for name in samples.columns]
    bounds = f.broadcast(spans.select(*EVENT, "zero_s", "from_s", "until_s"))
    sides_with_seconds = f.filter(f.array(*sides), lambda side: side["until"] > side["first"])
    spread = samples.join(bounds, list(UNIT), how="inner").select(
        *columns, "event_id", f.explode(sides_with_seconds).alias("side")
    )
    bounded = spread.select(*columns, "event_id", "side.*")
    return bounded.select(*parts(samples, counts), "event_id", "phase")


def in_intervals(intervals: DataFrame, samples: DataFrame, axes: DataFrame, counts: Sequence[str]) -> DataFrame:
    """Return samples with `event_id` and `phase`, a row an interval in which the line has seconds. `dt_s` and the
    `counts` are those of its seconds there, `middle_s` is the middle of these."""
    opens, closes = f.col("zero_s") + f.col("start_s"), f.col("zero_s") + f.col("end_s")
    spans = intervals.join(axes.select(*EVENT, "zero_s"), list(EVENT), how="inner").select(
        *PHASE, opens.alias("opens_s"), closes.alias("closes_s")
    )
    columns = [f.col(f"`{name}`") for name in samples.columns]
    first, until = seconds_before(f.col("opens_s")), seconds_before(f.col("closes_s"))
    inside = (
        samples.join(f.broadcast(spans), list(UNIT), how="inner")
        .select(*columns, "event_id", "phase", first.alias("first"), until.alias("until"))
        .where(f.col("until") > f.col("first"))
    )
    return inside.select(*parts(samples, counts), middle_s().alias("middle_s"), "event_id", "phase")
