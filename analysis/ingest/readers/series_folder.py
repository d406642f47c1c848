"""Samples, the one format of every reader's output, and their way into a series' folder (docs/contracts.md).

A sample says: in the `dt_s` seconds up to `t_s` this task emitted, transferred and executed so many tuples. Foreign
samples are longer than our second and out of step with our windows; each is cut at the windows' edges, and its tuples
are shared among the pieces by their length, in whole tuples, so that the total stays the same. The time within a sample
is unknown: a change is located no more sharply than its interval. Worker lines are written by Spark, the
small files about each run by this process.
"""

import hashlib
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from analysis.ingest.readers import contract
from analysis.ingest.readers.contract import LogFormat, LogReader, LogSource, RunFacts, SeriesReader
from analysis.metrics.definitions import place_words
from analysis.metrics.throughput import WINDOW_S
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, append_event, experiment_of, write_json_atomic
from barograph.errors import ConfigurationError, Say
from scheduler_plugins.model import SINKS, SPOUTS

SAMPLE_COUNTS = ("emitted", "transferred", "executed")
SAMPLE_COLUMNS = ("run", "machine", "port", "task", "component", "spout", "t_s", "dt_s", *SAMPLE_COUNTS)
OUT_OF_STEP = 1.5  # intervals by which the last reports of living tasks may differ
SHORTEST_S = 1e-6  # a remainder of rounding at a window's edge is no piece


def run_spans(samples: DataFrame) -> DataFrame:
    """Return `run`, `started_s`, `ended_s`, `usual_s` (a sample's length): while all tasks reported,
    except those that fell silent long before the end.

    Tasks report out of step: in the last interval of a log some have not reported yet, which is no silence.
    """
    tasks = samples.groupBy("run", "task").agg(
        f.min(f.col("t_s") - f.col("dt_s")).alias("first_s"), f.max("t_s").alias("last_s")
    )
    edges = tasks.groupBy("run").agg(f.min("first_s").alias("earliest_s"), f.max("last_s").alias("latest_s"))
    usual = samples.groupBy("run").agg(f.mode("dt_s", deterministic=True).alias("usual_s"))
    began_late = f.col("first_s") > f.col("earliest_s") + OUT_OF_STEP * f.col("usual_s")
    fell_silent = f.col("last_s") < f.col("latest_s") - OUT_OF_STEP * f.col("usual_s")
    return (
        tasks.join(edges, "run", how="inner")
        .join(usual, "run", how="inner")
        .groupBy("run")
        .agg(
            f.max(f.when(~began_late, f.col("first_s"))).alias("started_s"),
            f.min(f.when(~fell_silent, f.col("last_s"))).alias("ended_s"),
            f.max("usual_s").alias("usual_s"),
        )
    )


def cut_at_windows(samples: DataFrame, runs: DataFrame) -> DataFrame:
    """Cut samples at the edges of the windows and of the run (`runs`: `run`, `started_s`, `ended_s`, `zero_s`)."""
    rest = [column for column in SAMPLE_COLUMNS if column not in ("t_s", "dt_s", *SAMPLE_COUNTS)]
    begins = f.col("t_s") - f.col("dt_s")
    seen_from, seen_to = f.greatest(begins, f.col("started_s")), f.least(f.col("t_s"), f.col("ended_s"))
    first = f.floor((seen_from - f.col("zero_s")) / WINDOW_S + SHORTEST_S)
    last = f.ceil((seen_to - f.col("zero_s")) / WINDOW_S - SHORTEST_S) - 1
    opens = f.col("zero_s") + f.col("window") * WINDOW_S
    pieces = (
        samples.join(f.broadcast(runs), "run", how="inner")
        .where(seen_to - seen_from > SHORTEST_S)
        .select(*SAMPLE_COLUMNS, seen_from.alias("from_s"), seen_to.alias("to_s"), "zero_s",
                f.explode(f.sequence(first, f.greatest(first, last))).alias("window"))
    )  # fmt: skip
    start, end = f.greatest("from_s", opens), f.least("to_s", opens + WINDOW_S)
    counts = []
    for name in SAMPLE_COUNTS:  # whole tuples: differences of rounded-down sums, so they add up
        # Multiplied before it is divided: a third of 3000 tuples is 1000 of them, not 999.
        sums = [f.floor(f.col(name) * (at - begins) / f.col("dt_s") + SHORTEST_S) for at in (start, end)]
        counts.append((sums[1] - sums[0]).alias(name))
    return pieces.select(*rest, end.alias("t_s"), (end - start).alias("dt_s"), *counts).select(*SAMPLE_COLUMNS)


def worker_lines(samples: DataFrame) -> DataFrame:
    """Return `run`, `worker`, `value`: one JSON line a worker and moment, oldest first within a worker."""
    tasks = f.array_sort(f.collect_list(f.struct("task", "component", "spout", *SAMPLE_COUNTS)))
    worker = f.concat_ws("-", "machine", f.col("port").cast("string"))
    lines = (
        samples.groupBy("run", "machine", "port", "t_s", "dt_s")
        .agg(tasks.alias("entries"))
        .withColumn("seq", f.row_number().over(Window.partitionBy("run", "machine", "port").orderBy("t_s")) - 1)
    )
    spouts = f.filter("entries", lambda entry: entry["spout"])
    line = f.struct(
        f.lit(1).alias("v"), f.col("t_s").alias("t"), "dt_s", "machine", "port", f.lit(0).alias("pid"), "seq",
        # Nulls, never zeros, for data that foreign logs lack.
        _columns(f.col("entries"), ("task", "component", *SAMPLE_COUNTS), ("execute_ms", "process_ms", "queue"))
        .alias("tasks"),
        f.when(f.size(spouts) > 0, _columns(spouts, ("task", "emitted"), ("due", "behind_ms"))).alias("spouts"),
    )  # fmt: skip
    text = f.to_json(line, {"ignoreNullFields": "true"})
    return lines.select("run", worker.alias("worker"), "t_s", text.alias("value"))


def _columns(entries: Column, names: Sequence[str], missing: Sequence[str]) -> Column:
    return f.struct(
        *[entries[name].alias(name) for name in names],  # of each entry
        *[f.transform(entries, lambda _: f.lit(None).cast("bigint")).alias(name) for name in missing],
    )


def run_components(samples: DataFrame) -> DataFrame:
    """Return one row a run and component: its tasks, tuples, and whether it is a spout."""
    return (
        samples.groupBy("run", "component")
        .agg(
            f.array_sort(f.collect_set("task")).alias("tasks"),
            f.bool_or("spout").alias("spout"),
            f.coalesce(f.sum("emitted"), f.lit(0)).alias("emitted"),
            f.coalesce(f.sum("executed"), f.lit(0)).alias("executed"),
        )
        .select("run", "component", "tasks", "spout", "emitted", "executed")
    )


STAGING = ".reading"


@dataclass(frozen=True)
class RunSamples:
    """The samples' data on one run; bounded by its components and tasks."""

    facts: RunFacts
    components: tuple[Row, ...]
    started_s: float
    ended_s: float
    usual_s: float


def write_series(
    spark: SparkSession, format: str, reader: LogFormat, sources: Sequence[LogSource], experiment_dir: Path, stamp: str,
    say: Say,
) -> Path:  # fmt: skip
    """Read the files into a new series of `experiment_dir`; nothing is left behind if that fails."""
    text = "\n".join(f"{source.file} {source.options.model_dump_json()}" for source in sources)
    digest = hashlib.sha256(f"{text}\n{time.time_ns()}".encode()).hexdigest()[:8]
    root = experiment_dir / f"{stamp}-{digest}"
    (root / STAGING).mkdir(parents=True)
    try:
        _write_folder(spark, format, reader, sources, SeriesPaths(root), say)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return root


def _write_folder(
    spark: SparkSession, format: str, reader: LogFormat, sources: Sequence[LogSource], paths: SeriesPaths, say: Say
) -> None:
    staging = paths.root / STAGING
    lines_parsed = _store(
        contract.parse_lines(contract.read_text(spark, sources, staging / "files"), reader), staging / "lines"
    )
    line_counts = contract.count_lines(lines_parsed, format, reader)
    files = [
        {"file": source.file.name, "lines": line_counts[str(source.file)][0],
         "damaged": line_counts[str(source.file)][1]} | source.options.model_dump(mode="json", exclude_none=True)
        for source in sources
    ]  # fmt: skip
    read_lines, damaged_lines = (sum(numbers) for numbers in zip(*line_counts.values(), strict=True))
    record = {  # the same for all runs of the series
        "harness_facts": {"read_from": format, "lines_read": read_lines, "lines_damaged": damaged_lines},
        "spec": {"read": {"format": format, "files": files}},
    }
    if isinstance(reader, SeriesReader):
        runs = reader.write(lines_parsed, sources, paths, staging, record, say)
    else:
        assert isinstance(reader, LogReader)
        runs = _write_samples(lines_parsed, reader, sources, paths, record, say)
    write_json_atomic(paths.series_json, {
        "v": 1, "series_id": paths.root.name, "experiment": experiment_of(paths.root), "spec": {"read_from": format},
        "runs": runs, "opened_s": time.time(), "resumed": False, "git_commit": None, "git_dirty": None,
    })  # fmt: skip
    shutil.rmtree(staging)


def _write_samples(
    lines_parsed: DataFrame, reader: LogReader, sources: Sequence[LogSource], paths: SeriesPaths,
    record: Mapping[str, Any], say: Say,
) -> list[str]:  # fmt: skip
    """Write workers' lines and the files about each run; return the runs."""
    spark, staging = lines_parsed.sparkSession, paths.root / STAGING
    facts = reader.runs(lines_parsed, sources)
    read = _store(reader.samples(lines_parsed, sources), staging / "samples")
    runs = _runs_with_samples(read, facts)
    # `zero_s`: where the analysis will lay the edge of a window (analysis.metrics.throughput.zeros).
    bounds = [(name, run.started_s, run.ended_s, run.started_s if run.facts.scaled_at_s is None
               else run.facts.scaled_at_s) for name, run in runs.items()]  # fmt: skip
    columns = "run string, started_s double, ended_s double, zero_s double"
    lines = worker_lines(cut_at_windows(read, small_tables.frame_of_rows(spark, bounds, columns)))
    (
        lines.unionByName(_damaged_lines(lines_parsed, reader, sources, runs))
        .repartition("run", "worker")
        .sortWithinPartitions("run", "worker", "t_s")
        .select("run", "worker", "value")
        .write.partitionBy("run", "worker")
        .text(str(staging / "workers"))
    )
    for part in sorted((staging / "workers").glob("run=*/worker=*/part-*")):
        name, worker = (folder.name.partition("=")[2] for folder in (part.parent.parent, part.parent))
        target = paths.run(name).create().workers / f"{worker}.jsonl"
        if target.exists():
            target = target.with_name(f"{worker}.{part.name.split('-')[1]}.jsonl")
        part.rename(target)
    for run in runs.values():
        say(summary(run))
        _write_run(paths, run, record)
    return sorted(runs)


def _store(frame: DataFrame, path: Path) -> DataFrame:
    """Parse once; later steps read only the columns that they need."""
    frame.write.parquet(str(path))
    return frame.sparkSession.read.schema(frame.schema).parquet(str(path))


# --- runs ------------------------------------------------------------------------------------------------------------


def _runs_with_samples(read: DataFrame, facts: Mapping[str, RunFacts]) -> dict[str, RunSamples]:
    """Return runs that have samples; ConfigurationError if there are none, or no sink, or the event lies elsewhere."""
    spans = {row.run: row for row in run_spans(read).collect()}
    components: dict[str, list[Row]] = {run: [] for run in facts}
    for row in run_components(read).orderBy("run", "component").collect():
        components[row.run].append(row)
    for run in sorted(set(facts) - set(spans)):
        raise ConfigurationError(
            f"run {run!r}: no count of tuples in any of its lines; wanted are two reports or more of a topology's own "
            "tasks (of Storm from 2.3 on with topology.enable.v2.metrics.tick: true)"
        )
    result = {run: RunSamples(of_run, tuple(components[run]), *spans[run][1:]) for run, of_run in facts.items()}
    for run, each in result.items():
        event_s, names = each.facts.scaled_at_s, [row.component for row in each.components]
        counted = [row.component for row in each.components if (row.emitted if row.spout else row.executed)]
        if (place := each.facts.throughput) not in (SINKS, SPOUTS, *counted):
            raise ConfigurationError(
                f"run {run!r}: throughput is {place!r}; allowed: {', '.join((SINKS, SPOUTS, *counted))}"
            )
        if place == SPOUTS and not any(row.spout and row.emitted for row in each.components):
            raise ConfigurationError(
                f"run {run!r}: throughput is {SPOUTS!r}, but the log does not count what spouts emit; allowed: "
                f"{', '.join((SINKS, *counted))}"
            )
        if event_s is not None and not each.started_s < event_s < each.ended_s:
            raise ConfigurationError(
                f"run {run!r}: the scale event is at {event_s:.0f}, but the log goes from {each.started_s:.0f} to "
                f"{each.ended_s:.0f} (epoch seconds); mend scaled_at"
            )
        for name in sorted(set(each.facts.sinks or ()) - set(names)):
            raise ConfigurationError(f"run {run!r}: sinks names {name!r}; in the log are {', '.join(names)}")
        if not sinks_of(each):
            raise ConfigurationError(
                f"run {run!r}: no component executes without emitting, so no sink is known; name them in `sinks`, of "
                f"{', '.join(names)}"
            )
    return result


def summary(run: RunSamples) -> str:
    """Return a line with the run's interval, its spouts and its sinks with their tuples, and what was mended."""
    sinks, emitted = sinks_of(run), sum(row.emitted for row in run.components if row.spout)
    spouts = ", ".join(f"{row.component} ({row.emitted:,} emitted)" for row in run.components if row.spout)
    share = {row.component: f", {row.executed / emitted:.2%} of that" if emitted else "" for row in run.components}
    ends = ", ".join(
        f"{row.component} ({row.executed:,} executed{share[row.component]})"
        for row in run.components
        if row.component in sinks
    )
    note = f"; {run.facts.note}" if run.facts.note else ""
    places = f"spouts: {spouts or 'none'}; sinks: {ends}; throughput {place_words([run.facts.throughput])}"
    return f"run {run.facts.run}: a report every {run.usual_s:g} s; {places}{note}"


def sinks_of(found: RunSamples) -> set[str]:
    """Return the given sinks, else the components that execute but never emit."""
    if found.facts.sinks is not None:
        return set(found.facts.sinks)
    return {row.component for row in found.components if row.executed and not row.emitted}


# --- worker lines ----------------------------------------------------------------------------------------------------


def _damaged_lines(
    parsed: DataFrame, reader: LogReader, sources: Sequence[LogSource], found: Mapping[str, RunSamples]
) -> DataFrame:
    """Return damaged lines as they are, so that the tables count and show them like ours.

    A damaged line has no run: it is counted with the first run of its file.
    """
    runs = reader.run_of_file(parsed, sources)
    rows = [
        (file, run, "damaged-" + re.sub(r"[^A-Za-z0-9._-]+", "_", Path(file).name))
        for file, run in runs.items()
        if run in found
    ]
    known = small_tables.frame_of_rows(parsed.sparkSession, rows, "file string, run string, worker string")
    return (
        parsed.where(f.col("damaged").isNotNull())
        .join(f.broadcast(known), "file", how="inner")
        .select("run", "worker", f.lit(0.0).alias("t_s"), f.col("damaged").alias("value"))
    )


# --- the files about a run -------------------------------------------------------------------------------------------


def _write_run(paths: SeriesPaths, found: RunSamples, record: Mapping[str, Any]) -> None:
    facts, sinks = found.facts, sinks_of(found)
    run = paths.run(facts.run).create()
    components = [
        {"name": row.component, "kind": "spout" if row.spout else "bolt", "tasks": list(row.tasks), "executors": None,
         "sink": row.component in sinks}
        for row in found.components
    ]  # fmt: skip
    append_event(run, found.started_s, "run_started")
    if facts.scaled_at_s is not None:
        append_event(run, facts.scaled_at_s, "scale_requested", event_id="e1", event=facts.scale_event)
    write_json_atomic(run.run_json, {
        "v": 1, "run_id": facts.run, "series_id": paths.root.name, "experiment": experiment_of(paths.root),
        "block": facts.repetition, "repetition": facts.repetition, "order": None, "seed": None,
        "variant": {"name": facts.variant, "policy": None, "parameters": {}},
        "status": "complete", "failure": None, "started_s": found.started_s, "ended_s": found.ended_s, "phases": [],
        # With edges the analysis would count waiting tuples as lost, because queues are unknown.
        "topology": {"name": facts.topology, "workers": None, "throughput": facts.throughput,
                     "components": components, "edges": []},
        "git_commit": None, "git_dirty": None, "versions": {}, "machines": {}, "clock_offset_ms": {},
        **record,
    })  # fmt: skip
