"""Samples -> a series' folder: worker lines written by Spark, the small files about each run by this process."""

import hashlib
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from analysis import frames
from analysis.errors import ForeignLogError
from analysis.readers import lines, samples
from analysis.readers.contract import Reader, RunFacts, Source
from analysis.record import RunPaths, SeriesPaths, append_event, write_json_atomic

STAGING = ".reading"


@dataclass(frozen=True)
class Found:
    """What the samples say of one run; bounded by its components and tasks."""

    facts: RunFacts
    components: tuple[Row, ...]
    started_s: float
    ended_s: float


def write_series(
    spark: SparkSession, format: str, reader: Reader, sources: Sequence[Source], experiment_dir: Path, stamp: str
) -> Path:
    """Read the files into a new series of `experiment_dir`; nothing stays behind where that fails."""
    root = _fresh(experiment_dir, stamp, sources)
    try:
        _write(spark, format, reader, sources, SeriesPaths(root))
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return root


def _fresh(experiment_dir: Path, stamp: str, sources: Sequence[Source]) -> Path:
    said = "\n".join(f"{source.file} {source.options.model_dump_json()}" for source in sources)
    digest = hashlib.sha256(f"{said}\n{time.time_ns()}".encode()).hexdigest()[:8]
    root = experiment_dir / f"{stamp}-{digest}"
    (root / STAGING).mkdir(parents=True)
    return root


def _write(spark: SparkSession, format: str, reader: Reader, sources: Sequence[Source], paths: SeriesPaths) -> None:
    staging = paths.root / STAGING
    parsed = _stored(lines.parsed(lines.text(spark, sources), reader), staging / "lines")
    counted = lines.counts(parsed, format, reader)
    facts = reader.runs(parsed, sources)
    read = _stored(reader.samples(parsed, sources), staging / "samples")
    found = _found(read, facts)
    whole = samples.worker_lines(samples.cut(read, _bounds(spark, found)))
    _write_lines(whole.unionByName(_damaged(parsed, reader, sources, found)), staging / "workers")
    _deal_out(staging / "workers", paths)
    for one in found.values():
        _write_run(paths.run(one.facts.run), one, _record(format, sources, counted), paths.root.name, _name(paths))
    _write_series_json(paths, format, sorted(found))
    shutil.rmtree(staging)


def _name(paths: SeriesPaths) -> str:
    return f"{paths.root.parent.parent.name}/{paths.root.parent.name}"


def _stored(frame: DataFrame, path: Path) -> DataFrame:
    """Parse once; what follows reads only the columns it needs."""
    frame.write.parquet(str(path))
    return frame.sparkSession.read.schema(frame.schema).parquet(str(path))


# --- runs ------------------------------------------------------------------------------------------------------------


def _found(read: DataFrame, facts: Mapping[str, RunFacts]) -> dict[str, Found]:
    """Runs that have samples; ForeignLogError where there are none, or no sink, or the event lies elsewhere."""
    spans = {row.run: row for row in samples.spans(read).collect()}
    components: dict[str, list[Row]] = {run: [] for run in facts}
    for row in samples.components(read).orderBy("run", "component").collect():
        components[row.run].append(row)
    for run in sorted(set(facts) - set(spans)):
        raise ForeignLogError(
            f"run {run!r}: no count of tuples in any of its lines; wanted are two reports or more of a topology's own "
            "tasks (of Storm from 2.3 on with topology.enable.v2.metrics.tick: true)"
        )
    found = {
        run: Found(one, tuple(components[run]), spans[run].started_s, spans[run].ended_s) for run, one in facts.items()
    }
    for one in found.values():
        _check(one)
    return found


def _bounds(spark: SparkSession, found: Mapping[str, Found]) -> DataFrame:
    """`zero_s`: where the analysis will lay the edge of a window (analysis.throughput.zeros)."""
    rows = [
        (run, one.started_s, one.ended_s, one.started_s if one.facts.scaled_at_s is None else one.facts.scaled_at_s)
        for run, one in found.items()
    ]
    return frames.of_rows(spark, rows, "run string, started_s double, ended_s double, zero_s double")


def _check(found: Found) -> None:
    run, at = found.facts.run, found.facts.scaled_at_s
    if at is not None and not found.started_s < at < found.ended_s:
        raise ForeignLogError(
            f"run {run!r}: the scale event is at {at:.0f}, but the log goes from {found.started_s:.0f} to "
            f"{found.ended_s:.0f} (epoch seconds); mend scaled_at"
        )
    names = [row.component for row in found.components]
    for unknown in sorted(set(found.facts.sinks or ()) - set(names)):
        raise ForeignLogError(f"run {run!r}: sinks names {unknown!r}; in the log are {', '.join(names)}")
    if not sinks_of(found):
        raise ForeignLogError(
            f"run {run!r}: no component executes without emitting, so no sink is known; name them in `sinks`, of "
            f"{', '.join(names)}"
        )


def sinks_of(found: Found) -> set[str]:
    """As given, else what executes but emits to nobody."""
    if found.facts.sinks is not None:
        return set(found.facts.sinks)
    return {row.component for row in found.components if row.executes and not row.emits}


# --- worker lines ----------------------------------------------------------------------------------------------------


def _damaged(parsed: DataFrame, reader: Reader, sources: Sequence[Source], found: Mapping[str, Found]) -> DataFrame:
    """Damaged lines go along as they are, so that the tables count and show them as they do with ours.

    A damaged line tells no run: it is counted with the first run of its file.
    """
    runs = reader.run_of_file(parsed, sources)
    rows = [(file, run, f"damaged-{_safe(Path(file).name)}") for file, run in runs.items() if run in found]
    known = frames.of_rows(parsed.sparkSession, rows, "file string, run string, worker string")
    return (
        parsed.where(f.col("damaged").isNotNull())
        .join(f.broadcast(known), "file", how="inner")
        .select("run", "worker", f.lit(0.0).alias("t_s"), f.col("damaged").alias("value"))
    )


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)


def _write_lines(worker_lines: DataFrame, target: Path) -> None:
    (
        worker_lines.repartition("run", "worker")
        .sortWithinPartitions("run", "worker", "t_s")
        .select("run", "worker", "value")
        .write.partitionBy("run", "worker")
        .text(str(target))
    )


def _deal_out(written: Path, paths: SeriesPaths) -> None:
    """`run=R/worker=W/part-*` -> `runs/R/workers/W.jsonl`: renamed, not read."""
    for part in sorted(written.glob("run=*/worker=*/part-*")):
        run, worker = (folder.name.partition("=")[2] for folder in (part.parent.parent, part.parent))
        target = paths.run(run).create().workers / f"{worker}.jsonl"
        if target.exists():
            target = target.with_name(f"{worker}.{part.name.split('-')[1]}.jsonl")
        part.rename(target)


# --- the files about a run -------------------------------------------------------------------------------------------


def _record(format: str, sources: Sequence[Source], counted: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """What was read and how: the same for all runs of the series."""
    return {
        "harness_facts": {
            "read_from": format,
            "lines_read": sum(total for total, _ in counted.values()),
            "lines_damaged": sum(damaged for _, damaged in counted.values()),
        },
        "spec": {"read": {"format": format, "files": [
            {"file": source.file.name, "lines": counted[str(source.file)][0],
             "damaged": counted[str(source.file)][1]} | source.options.model_dump(mode="json", exclude_none=True)
            for source in sources
        ]}},
    }  # fmt: skip


def _write_run(run: RunPaths, found: Found, record: Mapping[str, Any], series_id: str, experiment: str) -> None:
    facts, sinks = found.facts, sinks_of(found)
    run.create()
    append_event(run, found.started_s, "run_started")
    if facts.scaled_at_s is not None:
        append_event(run, facts.scaled_at_s, "scale_requested", event_id="e1", event=facts.scale_event)
    write_json_atomic(run.run_json, {
        "v": 1, "run_id": facts.run, "series_id": series_id, "experiment": experiment, "block": facts.repetition,
        "repetition": facts.repetition, "order": None, "seed": None,
        "variant": {"name": facts.variant, "policy": None, "parameters": {}},
        "status": "complete", "failure": None, "started_s": found.started_s, "ended_s": found.ended_s, "phases": [],
        "topology": {"name": facts.topology, "workers": None,
                     "components": [_component(row, row.component in sinks) for row in found.components],
                     # Edges would make the analysis take tuples for lost that only wait: queues are not known.
                     "edges": []},
        "git_commit": None, "git_dirty": None, "versions": {}, "machines": {}, "clock_offset_ms": {},
        **record,
    })  # fmt: skip


def _component(row: Row, sink: bool) -> dict[str, Any]:
    kind = "spout" if row.spout else "bolt"
    return {"name": row.component, "kind": kind, "tasks": list(row.tasks), "executors": None, "sink": sink}


def _write_series_json(paths: SeriesPaths, format: str, runs: Sequence[str]) -> None:
    write_json_atomic(paths.series_json, {
        "v": 1, "series_id": paths.root.name, "experiment": _name(paths), "spec": {"read_from": format},
        "runs": list(runs), "opened_s": time.time(), "resumed": False, "git_commit": None, "git_dirty": None,
    })  # fmt: skip
