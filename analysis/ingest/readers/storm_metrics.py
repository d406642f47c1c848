"""Storm's LoggingMetricsConsumer log (`worker.log.metrics`), in both formats that Storm has given it.

    2026-11-21 12:04:53,887 18949    1795262693<tab>localhost:1024<tab>  4:sink<tab>__execute-count-bolt:de<tab>961

Before 2.3 a count is a map of streams (`__execute-count  {bolt:default=120}`) and is of one interval. Since then
(with `topology.enable.v2.metrics.tick`; without it the log has no counts at all) it is one number a stream, cumulative
since the executor's start; a name is cut at 23 characters, so that a count and its one-minute rate may have the same
one: the count is the one without a decimal point. The cut part distinguishes streams; a task's sums do not need it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, Field
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from analysis.ingest.readers.contract import LogReader, LogSource, ReaderOptions, RunFacts
from analysis.ingest.readers.series_folder import SAMPLE_COLUMNS
from analysis.record import small_tables
from barograph.errors import ConfigurationError
from scheduler_plugins.model import SYSTEM_PREFIX

GROUPS = ("t_s", "machine", "port", "task", "component", "metric", "value")
PATTERN = r"(?:^|\s)(\d{9,11})\t\s*([^\s:]+):(\d+)\s*\t\s*(-?\d+):([^\t]*?)\s*\t([^\t]+?)\s*\t(.*)$"
EXAMPLE = "2026-11-21 12:04:53,887 18949 1795262693<tab>m1:6700<tab>4:sink<tab>__execute-count<tab>{bolt:default=120}"
METRICS = {"__emit-count": "emitted", "__transfer-count": "transferred", "__execute-count": "executed"}
BUCKET_S = 60.0  # Storm's own default of topology.builtin.metrics.bucket.size.secs


class StormMetricsOptions(ReaderOptions):
    """`run`, `topology`: from the path (`workers-artifacts/<topology id>/<port>/…`), else the file's name."""

    run: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+$")
    variant: str = "unknown"
    repetition: int = Field(default=1, ge=1)
    topology: str | None = None
    scaled_at: float | AwareDatetime | None = None
    scale_event: Literal["scale_out", "scale_in"] = "scale_out"
    interval_s: float | None = Field(default=None, gt=0)
    sinks: tuple[str, ...] | None = None


def run_of(source: LogSource) -> str:
    """Return the run's id. All files of one topology are one run: each consumer task logs in its own worker."""
    parts = source.file.parts
    position = parts.index("workers-artifacts") + 1 if "workers-artifacts" in parts else len(parts)
    topology_id = parts[position] if position < len(parts) - 1 else None
    name = _options(source).run or topology_id
    return name or re.sub(r"[^A-Za-z0-9._-]+", "_", source.file.name.split(".")[0])


def _options(source: LogSource) -> StormMetricsOptions:
    assert isinstance(source.options, StormMetricsOptions)
    return source.options


def runs(parsed: DataFrame, sources: Sequence[LogSource]) -> Mapping[str, RunFacts]:
    """Return the facts of every run; files of one run must agree."""
    del parsed
    facts_by_run: dict[str, RunFacts] = {}
    for source in sources:
        options, run, at = _options(source), run_of(source), _options(source).scaled_at
        topology = options.topology or re.sub(r"-\d+-\d{9,11}$", "", run)
        event_s = at.timestamp() if isinstance(at, datetime) else at
        of_event = (event_s, options.scale_event, options.sinks)
        facts = RunFacts(run, options.variant, options.repetition, topology, *of_event)
        if facts_by_run.setdefault(facts.run, facts) != facts:
            raise ConfigurationError(
                f"{source.file}: belongs to run {facts.run!r} as another file does, but {facts} is said of it and "
                f"{facts_by_run[facts.run]} of the other; say the same, or give another `run`"
            )
    return facts_by_run


def run_of_file(parsed: DataFrame, sources: Sequence[LogSource]) -> Mapping[str, str]:
    del parsed
    return {str(source.file): run_of(source) for source in sources}


def samples(parsed: DataFrame, sources: Sequence[LogSource]) -> DataFrame:
    """Return one sample a task and report."""
    rows = [(str(source.file), run_of(source), _options(source).interval_s) for source in sources]
    runs_frame = small_tables.frame_of_rows(parsed.sparkSession, rows, "file string, run string, given_s double")
    sums = [f.sum(f.when(f.col("kind") == kind, f.col("n"))).alias(kind) for kind in METRICS.values()]
    reports = (
        _tuple_counts(parsed)
        .join(f.broadcast(runs_frame), "file", how="inner")
        .groupBy("run", "given_s", "machine", "port", "task", "component", "t_s", "cumulative")
        .agg(*sums)
    )
    before = f.lag("t_s").over(Window.partitionBy("run", "task").orderBy("t_s"))
    intervals = (  # as given, else the commonest distance of a task's reports, else Storm's default
        reports.select("run", "given_s", (f.col("t_s") - before).alias("distance_s"))
        .groupBy("run")
        .agg(f.max("given_s").alias("given_s"), f.mode("distance_s").alias("seen_s"))
        .select("run", f.coalesce("given_s", "seen_s", f.lit(BUCKET_S)).alias("interval_s"))
    )
    component = Window.partitionBy("run", "component")
    return _differences(reports, intervals).select(
        "run", "machine", "port", "task", "component",
        # A spout has no execute count; a bolt that never got a tuple emits nothing.
        (f.col("emitted").isNotNull() & ~f.bool_or(f.col("executed").isNotNull()).over(component)).alias("spout"),
        *SAMPLE_COLUMNS[6:],
    )  # fmt: skip


def _tuple_counts(parsed: DataFrame) -> DataFrame:
    """Return lines that count tuples of the topology's own components: `kind`, `n`, and whether `n` is cumulative."""
    kind = f.coalesce(*[f.when(f.col("metric").startswith(name), kind) for name, kind in METRICS.items()])
    rest = f.regexp_replace("metric", "^__[a-z]+-count-?", "")
    is_map = f.col("value").startswith("{")
    # 120 for `{bolt:default=120, bolt:__ack=3}`: Storm's own streams and components are left out.
    numbers = f.regexp_extract_all("value", f.lit(r"[{ ](?!__)(?![^=,]*:__)[^=,{}]+=(\d+)(?=[,}])"), f.lit(1))
    sum_of_map = f.aggregate(numbers, f.lit(0).cast("bigint"), lambda sum_, text: sum_ + text.cast("bigint"))
    integer = f.col("value").try_cast("bigint")
    is_system = f.col("component").startswith(SYSTEM_PREFIX) | rest.startswith(SYSTEM_PREFIX)
    count_lines = parsed.where(f.col("damaged").isNull() & kind.isNotNull() & ~is_system)
    return count_lines.where(is_map | (integer.isNotNull() & (rest != ""))).select(
        "file", f.col("t_s").cast("double").alias("t_s"), "machine", f.col("port").cast("int").alias("port"),
        f.col("task").cast("int").alias("task"), "component", kind.alias("kind"),
        f.when(is_map, sum_of_map).otherwise(integer).alias("n"), (~is_map).alias("cumulative"),
    )  # fmt: skip


def _differences(reports: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return counts of each interval. A cumulative count says nothing before the second report, and begins again from 0
    if its worker did: where it fell, or on another slot."""
    task = Window.partitionBy("run", "task").orderBy("t_s")
    before_s = f.lag("t_s").over(task)
    is_moved = (f.lag("machine").over(task) != f.col("machine")) | (f.lag("port").over(task) != f.col("port"))
    fell = f.lit(False)
    for name in METRICS.values():
        fell = fell | f.coalesce(f.col(name) < f.lag(name).over(task), f.lit(False))
    is_restart = f.coalesce(is_moved, f.lit(False)) | fell
    distance = f.coalesce(f.col("t_s") - before_s, f.col("interval_s"))
    steps = [
        f.when(~f.col("cumulative") | is_restart, f.col(name))
        .otherwise(f.col(name) - f.coalesce(f.lag(name).over(task), f.lit(0)))
        .alias(name)
        for name in METRICS.values()
    ]
    length_s = f.when(f.col("cumulative") & ~is_restart, distance).otherwise(f.least(distance, f.col("interval_s")))
    first = f.col("cumulative") & before_s.isNull()
    return (
        reports.join(f.broadcast(intervals), "run", how="inner")
        .select("run", "machine", "port", "task", "component", "t_s", length_s.alias("dt_s"), *steps,
                first.alias("first"))
        .where(~f.col("first"))
    )  # fmt: skip


READER = LogReader(PATTERN, GROUPS, EXAMPLE, StormMetricsOptions, samples, runs, run_of_file)
