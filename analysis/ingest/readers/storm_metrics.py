"""Storm's LoggingMetricsConsumer log (`worker.log.metrics`), in both formats that Storm has given it.

    2026-11-21 12:04:53,887 18949    1795262693<tab>localhost:1024<tab>  4:sink<tab>__execute-count-bolt:de<tab>961

Before 2.3 a count is a map of streams (`__execute-count  {bolt:default=120}`) and is of one interval. Since then
(with `topology.enable.v2.metrics.tick`; without it the log has no counts at all) it is one number a stream, cumulative
since the executor's start; a name is cut at 23 characters, so that a count and its one-minute rate may have the same
one: the count is the one without a decimal point. The cut part distinguishes streams; a task's sums do not need it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, Field
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from analysis.ingest.readers.contract import LogReader, LogSource, ReaderOptions, RunFacts
from analysis.ingest.readers.series_folder import OUT_OF_STEP, SAMPLE_COLUMNS
from analysis.record import small_tables
from barograph.errors import ConfigurationError
from scheduler_plugins.model import SINKS, SYSTEM_PREFIX

GROUPS = ("t_s", "machine", "port", "task", "component", "metric", "value")
PATTERN = r"(?:^|\s)(\d{9,11})\t\s*([^\s:]+):(\d+)\s*\t\s*(-?\d+):([^\t]*?)\s*\t([^\t]+?)\s*\t(.*)$"
EXAMPLE = "2026-11-21 12:04:53,887 18949 1795262693<tab>m1:6700<tab>4:sink<tab>__execute-count<tab>{bolt:default=120}"
METRICS = {"__emit-count": "emitted", "__transfer-count": "transferred", "__execute-count": "executed"}
REPORT = ("t_s", "machine", "port", "task", "component")
HOLE_TOLERANCE = 0.2  # intervals by which a report may come early or late
TASK_HOLES, HOLES_SHARE = 2, 0.1  # a restart leaves fewer holes than reports that are elsewhere
SHOWN = 10
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
    throughput: str = SINKS


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
    """Return the facts of every run. Refuses files of one run that disagree, equal names in several folders, two
    topologies in one run, and reports that other files have."""
    facts_by_run: dict[str, RunFacts] = {}
    nameless: dict[str, LogSource] = {}
    for source in sources:
        options, run, at = _options(source), run_of(source), _options(source).scaled_at
        topology = options.topology or re.sub(r"-\d+-\d{9,11}$", "", run)
        event_s = at.timestamp() if isinstance(at, datetime) else at
        of_event = (event_s, options.scale_event, options.sinks, options.throughput)
        facts = RunFacts(run, options.variant, options.repetition, topology, *of_event)
        if facts_by_run.setdefault(facts.run, facts) != facts:
            raise ConfigurationError(
                f"{source.file}: belongs to run {facts.run!r} as another file does, but {facts} is said of it and "
                f"{facts_by_run[facts.run]} of the other; say the same, or give another `run`"
            )
        if not options.run and "workers-artifacts" not in source.file.parts:
            other = nameless.setdefault(run, source)
            if other.file.parent != source.file.parent:
                raise ConfigurationError(
                    f"{other.file} and {source.file} have one name, which says nothing of their run; write `run: NAME` "
                    f"in {source.file.name}.yaml beside each, the same NAME if both are of one run"
                )
    is_map = f.bool_or(f.col("value").startswith("{"))
    reports = (
        _lines_of_runs(parsed, sources)
        .groupBy("run", "given_s", *REPORT)
        .agg(f.max("copies").alias("copies"), is_map.alias("is_map"))
        .persist()
    )
    _refuse_two_topologies(reports)
    _refuse_gaps(reports)
    counts = reports.groupBy("run").agg(f.count("*").alias("all"), f.count_if(f.col("copies") > 1).alias("again"))
    notes = {row.run: f"{row.again} of {row['all']} reports are in the files several times; each counts once"
             for row in counts.where(f.col("again") > 0).collect()}  # fmt: skip
    reports.unpersist()
    return {run: replace(facts, note=notes.get(run)) for run, facts in facts_by_run.items()}


def _lines_of_runs(parsed: DataFrame, sources: Sequence[LogSource]) -> DataFrame:
    """Return each different line of the topology's own tasks once: its run, how often the files have it (`times`) and
    how often they have its whole report (`copies`): as often as the rarest of its lines, as names that are cut may be
    equal within a report."""
    rows = [(str(source.file), run_of(source), _options(source).interval_s) for source in sources]
    runs_frame = small_tables.frame_of_rows(parsed.sparkSession, rows, "file string, run string, given_s double")
    return (
        parsed.where(f.col("damaged").isNull() & ~f.col("component").startswith(SYSTEM_PREFIX))
        .join(f.broadcast(runs_frame), "file", how="inner")
        .groupBy("run", f.col("t_s").cast("double").alias("t_s"), "machine", f.col("port").cast("int").alias("port"),
                 f.col("task").cast("int").alias("task"), "component", "metric", "value")
        .agg(f.max("given_s").alias("given_s"), f.count("*").alias("times"))
        .withColumn("copies", f.min("times").over(Window.partitionBy("run", *REPORT)))
    )  # fmt: skip


def _refuse_two_topologies(reports: DataFrame) -> None:
    """Refuse a task of two components, and one that goes on reporting from a slot while it reports from another."""
    slot = f.concat_ws(":", "machine", f.col("port").cast("string"))
    task = Window.partitionBy("run", "task").orderBy("t_s", "machine", "port")
    visits = reports.join(f.broadcast(_intervals(reports)), "run", how="inner").select(
        "run", "task", "component", slot.alias("slot"),
        f.lag("component").over(task).alias("other"), f.lag(slot).over(task).alias("before"),
        f.lead(slot).over(task).alias("after"),
        (f.lead("t_s").over(task) - f.lag("t_s").over(task) <= OUT_OF_STEP * f.col("interval_s")).alias("is_in_step"),
    )  # fmt: skip
    is_between = (f.col("before") == f.col("after")) & (f.col("before") != f.col("slot")) & f.col("is_in_step")
    wrong = visits.where((f.col("component") != f.col("other")) | is_between)
    for row in wrong.orderBy("run", "task", "slot").limit(1).collect():
        raise ConfigurationError(
            f"run {row.run!r}: task {row.task} reports as {row.other} on {row.before} and as {row.component} on "
            f"{row.slot}: these are lines of two topologies; a slot is of one topology, so give each the lines of its "
            f"slots in a file of its own (grep {row.slot!r} FILE) with a `run` of its own"
        )


def _refuse_gaps(reports: DataFrame) -> None:
    """Refuse tasks without any report between others of their component, and counts of intervals with many holes."""
    advice = "a consumer of several tasks writes several files; give them all"
    tasks: dict[str, dict[str, set[int]]] = {}
    for row in reports.groupBy("run", "component").agg(f.collect_set("task").alias("tasks")).collect():
        tasks.setdefault(row.run, {})[row.component] = set(row.tasks)
    for run, by_component in sorted(tasks.items()):
        everybody = set[int]().union(*by_component.values())
        for component, numbers in sorted(by_component.items()):
            if gaps := sorted(set(range(min(numbers), max(numbers))) - everybody):
                raise ConfigurationError(
                    f"run {run!r}: {component} has the tasks {min(numbers)} to {max(numbers)}, and no report is "
                    f"there of {', '.join(map(str, gaps[:SHOWN]))}{' …' if gaps[SHOWN:] else ''}; {advice}"
                )
    maps = reports.where("is_map")  # cumulative counts lose nothing
    steps = _distances(maps).join(f.broadcast(_intervals(maps)), "run", how="inner")
    times = f.round(f.col("distance_s") / f.col("interval_s"))
    is_hole = (times >= 2) & (f.abs(f.col("distance_s") / f.col("interval_s") - times) <= HOLE_TOLERANCE)
    holes = steps.groupBy("run").agg(
        f.count_if(is_hole).alias("holes"), f.count("*").alias("all"), f.max("interval_s").alias("interval_s"),
        f.count_distinct("task").alias("tasks"),
    )  # fmt: skip
    is_wrong = (f.col("holes") >= TASK_HOLES * f.col("tasks")) & (f.col("holes") >= HOLES_SHARE * f.col("all"))
    for row in holes.where(is_wrong).orderBy("run").limit(1).collect():
        raise ConfigurationError(
            f"run {row.run!r}: a task reports every {row.interval_s:g} s, and {row.holes} of {row['all']} times "
            f"reports between two are not there; {advice}"
        )


def _distances(reports: DataFrame) -> DataFrame:
    """Return the time between a task's reports on one slot."""
    before_s = f.lag("t_s").over(Window.partitionBy("run", "task", "machine", "port").orderBy("t_s"))
    return reports.select("run", "task", (f.col("t_s") - before_s).alias("distance_s")).where(f.col("distance_s") > 0)


def _intervals(reports: DataFrame) -> DataFrame:
    """Return the interval of each run: as given, else the commonest distance (the shorter of two), else Storm's
    default."""
    commonest = _distances(reports).groupBy("run").agg(f.mode("distance_s", deterministic=True).alias("mode_s"))
    given = reports.groupBy("run").agg(f.max("given_s").alias("given_s"))
    intervals = given.join(commonest, "run", how="left")
    return intervals.select("run", f.coalesce("given_s", "mode_s", f.lit(BUCKET_S)).alias("interval_s"))


def run_of_file(parsed: DataFrame, sources: Sequence[LogSource]) -> Mapping[str, str]:
    del parsed
    return {str(source.file): run_of(source) for source in sources}


def samples(parsed: DataFrame, sources: Sequence[LogSource]) -> DataFrame:
    """Return one sample a task and report."""
    sums = [f.sum(f.when(f.col("kind") == kind, f.col("n") * f.col("weight"))).alias(kind) for kind in METRICS.values()]
    lines = [f.sum(f.when(f.col("kind") == kind, f.col("weight"))) for kind in METRICS.values()]
    reports = (
        _tuple_counts(_lines_of_runs(parsed, sources))
        .groupBy("run", "given_s", *REPORT, "cumulative")
        .agg(*sums, f.greatest(*lines).alias("lines"))
    )
    component = Window.partitionBy("run", "component")
    return _differences(reports, _intervals(reports)).select(
        "run", "machine", "port", "task", "component",
        # A spout has no execute count; a bolt that never got a tuple emits nothing.
        (f.col("emitted").isNotNull() & ~f.bool_or(f.col("executed").isNotNull()).over(component)).alias("spout"),
        *SAMPLE_COLUMNS[6:],
    )  # fmt: skip


def _tuple_counts(lines: DataFrame) -> DataFrame:
    """Return lines that count tuples: `kind`, `n`, its `weight`, and whether `n` is cumulative."""
    kind = f.coalesce(*[f.when(f.col("metric").startswith(name), kind) for name, kind in METRICS.items()])
    rest = f.regexp_replace("metric", "^__[a-z]+-count-?", "")
    is_map = f.col("value").startswith("{")
    # 120 for `{bolt:default=120, bolt:__ack=3}`: Storm's own streams and components are left out.
    numbers = f.regexp_extract_all("value", f.lit(r"[{ ](?!__)(?![^=,]*:__)[^=,{}]+=(\d+)(?=[,}])"), f.lit(1))
    sum_of_map = f.aggregate(numbers, f.lit(0).cast("bigint"), lambda sum_, text: sum_ + text.cast("bigint"))
    integer = f.col("value").try_cast("bigint")
    count_lines = lines.where(kind.isNotNull() & ~rest.startswith(SYSTEM_PREFIX))
    return count_lines.where(is_map | (integer.isNotNull() & (rest != ""))).select(
        "run", "given_s", *REPORT, kind.alias("kind"),
        f.floor(f.col("times") / f.col("copies")).alias("weight"),
        f.when(is_map, sum_of_map).otherwise(integer).alias("n"), (~is_map).alias("cumulative"),
    )  # fmt: skip


def _differences(reports: DataFrame, intervals: DataFrame) -> DataFrame:
    """Return counts of each interval. A cumulative count says nothing before the second report, and begins again from 0
    if its worker did: where it fell, or on another slot. Two reports in one second are one of two intervals; of
    cumulative counts they are left out, as the next report has their tuples."""
    slot = Window.partitionBy("run", "task", "machine", "port").orderBy("t_s")
    after, before = f.lead("lines").over(slot), f.lag("lines").over(slot)
    usual = f.greatest(f.coalesce(after, before), f.coalesce(before, after))
    is_double = f.coalesce(f.col("cumulative") & after.isNotNull() & (f.col("lines") >= 2 * usual), f.lit(False))
    reports = reports.withColumn("double", is_double).where(~f.col("double"))
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
    length_s = f.when(f.col("cumulative") & ~is_restart, distance).otherwise(
        f.least(distance, f.col("interval_s") * f.when(f.col("cumulative"), 1).otherwise(f.col("lines")))
    )
    first = f.col("cumulative") & before_s.isNull()
    return (
        reports.join(f.broadcast(intervals), "run", how="inner")
        .select("run", "machine", "port", "task", "component", "t_s", length_s.alias("dt_s"), *steps,
                first.alias("first"))
        .where(~f.col("first"))
    )  # fmt: skip


READER = LogReader(PATTERN, GROUPS, EXAMPLE, StormMetricsOptions, samples, runs, run_of_file)
