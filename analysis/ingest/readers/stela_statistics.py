"""The statistics lines of Stela's authors: `seconds:scheduler:sinks:topology:value`, a line every 10 s.

    120:stela:sink_output_1,sink_output_2,:star-1-1438812345:55

Their code counts seconds from its first sight of the topology; `value` is the sinks' emitted tuples since the line
before, divided (in integers) by the number of sinks. Counters that fell, because executors restarted, give values below
0: no throughput, as in their own scripts. An older version wrote a comma after the scheduler.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from analysis.ingest.readers.contract import LogReader, LogSource, ReaderOptions, RunFacts
from analysis.ingest.readers.series_folder import SAMPLE_COLUMNS
from analysis.record import small_tables
from barograph.errors import ConfigurationError

GROUPS = ("seconds", "scheduler", "sinks", "topology", "value")
PATTERN = r"^\s*(\d+):([^:,\s]+)[:,]([^:\s]*[^:,\s][^:\s]*):([^:\s]+):(-?\d+(?:\.\d+)?)\s*$"
EXAMPLE = "120:stela:sink_output_1,sink_output_2,:star-1-1438812345:55"
LOG_TOPOLOGY = r"^(.+)-\d+-(\d{9,11})$"  # Storm's topology id: name-number-epoch seconds
JITTER = 0.5  # lines so much of an interval early or late are still neighbours


class StelaStatisticsOptions(ReaderOptions):
    """`scaled_at_s`: in the seconds of the lines, one for all runs or one a scheduler (its name in the log).

    `value`, `sinks`: what a value is; the defaults are what the authors' code wrote. `variants`: scheduler in the
    log -> the name that it has here, as in the claims.
    """

    scaled_at_s: float | dict[str, float] | None = None
    scale_event: Literal["scale_out", "scale_in"] = "scale_out"
    interval_s: float = Field(default=10.0, gt=0)
    value: Literal["tuples", "tuples_per_s"] = "tuples"
    sinks: Literal["mean", "sum"] = "mean"
    variants: dict[str, str] = Field(default_factory=dict)


def _options(source: LogSource) -> StelaStatisticsOptions:
    assert isinstance(source.options, StelaStatisticsOptions)
    return source.options


def runs(parsed: DataFrame, sources: Sequence[LogSource]) -> Mapping[str, RunFacts]:
    """Return a run for each scheduler and topology; repetitions are numbered in the order of the topologies' ids."""
    twice = (
        _with_run(parsed)
        .groupBy("scheduler", "topology", "seconds")
        .agg(f.count("*").alias("lines"), f.array_sort(f.collect_set("file")).alias("files"))
    )
    for row in twice.where(f.col("lines") > 1).orderBy("seconds").limit(1).collect():
        raise ConfigurationError(
            f"{', '.join(row.files)}: second {row.seconds} of {row.topology} under {row.scheduler} stands there "
            f"{row.lines} times; a run has each second once: part the executions, or give another topology id to one"
        )
    rows = _with_run(parsed).groupBy("run", "scheduler", "topology").agg(f.min("file").alias("file")).collect()
    options = {str(source.file): _options(source) for source in sources}
    schedulers = {row.scheduler for row in rows}
    for file, of_file in options.items():
        by_scheduler = of_file.scaled_at_s if isinstance(of_file.scaled_at_s, dict) else {}
        for field, given in (("scaled_at_s", by_scheduler), ("variants", of_file.variants)):
            for scheduler in sorted(set(given) - schedulers):
                names_in_logs = ", ".join(sorted(schedulers))
                raise ConfigurationError(
                    f"{file}: {field} names the scheduler {scheduler!r}; in the logs are {names_in_logs}"
                )
    names = {name_and_start(row.topology)[0] for row in rows}
    counts: dict[tuple[str, str], int] = defaultdict(int)
    result = {}
    for row in sorted(rows, key=lambda row: (name_and_start(row.topology)[1], row.run)):
        (name, start_s), of_file = name_and_start(row.topology), options[row.file]
        counts[row.scheduler, name] += 1
        times, variant = of_file.scaled_at_s, of_file.variants.get(row.scheduler, row.scheduler)
        seconds = times.get(row.scheduler) if isinstance(times, dict) else times
        result[row.run] = RunFacts(
            row.run,
            # Runs of one variant are pooled, but not those of different topologies.
            f"{variant}, {name}" if len(names) > 1 else variant,
            counts[row.scheduler, name], name, None if seconds is None else start_s + seconds, of_file.scale_event,
        )  # fmt: skip
    return result


def run_of_file(parsed: DataFrame, sources: Sequence[LogSource]) -> Mapping[str, str]:
    """Return the first run of every file."""
    del sources
    rows = _with_run(parsed).groupBy("file").agg(f.min("run").alias("run")).collect()
    return {row.file: row.run for row in rows}


def name_and_start(topology: str) -> tuple[str, float]:
    """Return name and submission of a topology id; without an epoch in it, seconds count from 0."""
    match = re.match(LOG_TOPOLOGY, topology)
    return (match.group(1), float(match.group(2))) if match else (topology, 0.0)


def _with_run(parsed: DataFrame) -> DataFrame:
    run = f.regexp_replace(f.concat_ws("-", "scheduler", "topology"), "[^A-Za-z0-9._-]+", "_")
    valid_lines = parsed.where(f.col("damaged").isNull())
    return valid_lines.select(run.alias("run"), *valid_lines.columns)


def samples(parsed: DataFrame, sources: Sequence[LogSource]) -> DataFrame:
    """Return one sample a line: tuples of all its sinks together, because the log does not separate them."""
    rows = [
        (str(source.file), o.interval_s, o.value == "tuples_per_s", o.sinks == "mean")
        for source in sources
        for o in [_options(source)]
    ]
    runs_frame = small_tables.frame_of_rows(
        parsed.sparkSession, rows, "file string, interval_s double, per_s boolean, mean boolean"
    )
    names = f.array_sort(f.filter(f.split("sinks", ","), lambda name: name != ""))
    lines = _with_run(parsed).join(f.broadcast(runs_frame), "file", how="inner").select(
        "run", f.col("seconds").cast("double").alias("seconds"), names.alias("names"),
        f.array_join(names, "+").alias("component"), "topology",
        f.greatest(f.col("value").cast("double"), f.lit(0.0)).alias("value"), "interval_s", "per_s", "mean",
    )  # fmt: skip
    # The time since the line before; if that is missing or far off, one interval; never before second 0.
    distance = f.col("seconds") - f.lag("seconds").over(Window.partitionBy("run").orderBy("seconds"))
    is_near = f.abs(distance - f.col("interval_s")) <= JITTER * f.col("interval_s")
    width = f.least(f.when(is_near, distance).otherwise(f.col("interval_s")), f.col("seconds"))
    timed = lines.select(*lines.columns, width.alias("dt_s"))
    epoch = f.regexp_extract("topology", LOG_TOPOLOGY, 2)
    start = f.when(epoch != "", epoch.cast("double")).otherwise(0.0)
    sinks = f.when(f.col("mean"), f.size("names")).otherwise(1)
    tuples = f.col("value") * sinks * f.when(f.col("per_s"), f.col("dt_s")).otherwise(1.0)
    frame = timed.where(f.col("dt_s") > 0).select(
        "run", f.lit("imported").alias("machine"), f.lit(0).alias("port"),
        f.dense_rank().over(Window.partitionBy("run").orderBy("component")).alias("task"),
        "component", f.lit(False).alias("spout"),
        (start + f.col("seconds")).alias("t_s"), "dt_s",
        f.lit(None).cast("bigint").alias("emitted"), f.lit(None).cast("bigint").alias("transferred"),
        f.round(tuples).cast("bigint").alias("executed"),
    )  # fmt: skip
    return frame.select(*SAMPLE_COLUMNS)


READER = LogReader(PATTERN, GROUPS, EXAMPLE, StelaStatisticsOptions, samples, runs, run_of_file)
