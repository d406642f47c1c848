"""Raw JSON lines of a series -> Parquet tables. Parsed once; damaged lines are counted per file, never hidden.

Workers' lines stay as they are, one row a line: the tables of samples are views of them (`sample_views`).
"""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis import session
from analysis.ingest import avro_lines, run_tables
from analysis.ingest.lines import DAMAGED_COLUMN, PARALLEL, RANGES, REQUIRED, array_groups, schema_of
from analysis.record import sample_views, small_tables, worker_files
from analysis.record.files import SeriesPaths, folders_of
from analysis.record.schemas import LARGE_TABLES, TABLES, WORKER_LINES
from scheduler_plugins.service.samples import LONGEST_LINE_S

EXCERPT_CHARACTERS = 200
EXCERPT_BYTES = 64
IMPOSSIBLE = "a column is missing or uneven, or a number cannot be"
STAGED = ("machine", "event", "decision")
STAGE_COLUMNS = f"run_id string, file string, {DAMAGED_COLUMN} string"
# Depth of the files of a kind of line below their run's folder.
DEPTH = {"worker": 1, "machine": 1, "event": 0, "decision": 0}
# In a bucket an incomplete run is among the attempts.
ATTEMPT = r"\.attempt-\d+$"


def build_tables(spark: SparkSession, series: SeriesPaths | Path | str) -> None:
    """Write every table of a series to `tables/`, replacing existing ones."""
    paths = series if isinstance(series, SeriesPaths) else SeriesPaths(Path(series))
    run_tables.write(paths, paths.all_runs())
    session.side_by_side(spark, [
        partial(_write_worker_lines, spark, paths),
        partial(_write_decisions, spark, paths),
        partial(_write_machine_samples, spark, paths),
        partial(_write_events, spark, paths),
    ])  # fmt: skip
    write(damaged_lines(spark, paths), paths, "damaged")
    for kind in STAGED:
        _drop_stage(paths, kind)


def _write_worker_lines(spark: SparkSession, paths: SeriesPaths) -> None:
    lines = worker_lines(spark, paths.raw_files("workers"), in_folders=True)
    write(lines, paths, WORKER_LINES.name)


def _write_machine_samples(spark: SparkSession, paths: SeriesPaths) -> None:
    lines = _stage_lines(spark, "machine", folders_of(paths.raw_files("machines")), paths)
    write(machine_samples(lines), paths, "machine_samples")
    write(network_samples(lines), paths, "network_samples")


def _write_events(spark: SparkSession, paths: SeriesPaths) -> None:
    write(events(_stage_lines(spark, "event", paths.raw_files("events.jsonl"), paths)), paths, "events")


def _write_decisions(spark: SparkSession, paths: SeriesPaths) -> None:
    lines = _stage_lines(spark, "decision", paths.raw_files("decisions.jsonl"), paths)
    write(decisions(lines), paths, "decisions")
    write(placements(lines), paths, "placements")


def worker_lines(spark: SparkSession, files: Sequence[Path | str], *, in_folders: bool = False) -> DataFrame:
    """Return workers' lines as the table has them, damaged ones too: Avro files, and JSON lines that were read from
    other people's logs. `in_folders`: their folders have no other files, so that Spark need not look for each.
    """
    names = [str(file) for file in files]
    kinds = [[name for name in names if name.endswith(worker_files.SUFFIX) == is_avro] for is_avro in (True, False)]
    avro_files, json_files = [folders_of(files) if in_folders else files for files in kinds]
    parts = [_avro_lines(spark, avro_files)] if avro_files else []
    if json_files or not parts:
        parts.append(read_lines(spark, "worker", json_files))
    columns = [column.name for column in WORKER_LINES.columns]
    first, *rest = (part.withColumnRenamed("t", "t_s").select(*columns) for part in parts)
    for other in rest:
        first = first.unionByName(other)
    return first


def read(spark: SparkSession, paths: SeriesPaths, name: str) -> DataFrame:
    """Return a table with its declared schema, or a view of one."""
    if TABLES[name].group:
        return sample_views.view(read(spark, paths, WORKER_LINES.name), name)
    return spark.read.schema(TABLES[name].ddl).parquet(paths.spark_table(name))


def empty(spark: SparkSession, name: str) -> DataFrame:
    return small_tables.empty_frame(spark, TABLES[name].ddl)


def write(frame: DataFrame, paths: SeriesPaths, name: str) -> None:
    """Replace a table. In a bucket, also fetch the files that this process reads later."""
    frame.write.mode("overwrite").parquet(paths.spark_table(name))
    if paths.shared and name not in LARGE_TABLES:
        paths.shared.fetch_table(name, paths.table(name))


# --- lines -----------------------------------------------------------------------------------------------------------


def _stage_name(kind: str) -> str:
    return f"_{kind}_lines"


def _drop_stage(paths: SeriesPaths, kind: str) -> None:
    if paths.shared:
        paths.shared.drop_table(_stage_name(kind))
    else:
        shutil.rmtree(paths.table(_stage_name(kind)), ignore_errors=True)


def _stage_lines(spark: SparkSession, kind: str, files: Sequence[Path | str], paths: SeriesPaths) -> DataFrame:
    """Parse the lines of one kind once, into nested Parquet; each table then reads only its own columns of it."""
    target, lines = paths.spark_table(_stage_name(kind)), read_lines(spark, kind, files)
    lines.write.mode("overwrite").parquet(target)
    return spark.read.schema(lines.schema).parquet(target)  # a declared schema saves the job that infers one


def read_lines(spark: SparkSession, kind: str, files: Sequence[Path | str]) -> DataFrame:
    """Return JSON lines of one kind with `run_id`, `file` and, if the line is damaged, its beginning in `damaged_text`.

    `files`: files, or folders of them.
    """
    schema = f"{schema_of(kind)}, {DAMAGED_COLUMN} string"
    if not files:
        frame = small_tables.empty_frame(spark, schema)
        return frame.select(f.lit("").alias("run_id"), f.lit("").alias("file"), *frame.columns)
    lines = (
        spark.read.schema(schema)
        .option("pathGlobFilter", "*.jsonl")
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", DAMAGED_COLUMN)
        .json([str(file) for file in files])
    )
    columns = [name for name in lines.columns if name != DAMAGED_COLUMN]
    return _note_damage(lines.select(*_place(kind), *columns, DAMAGED_COLUMN), kind)


def _avro_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return lines as `read_lines` does. A damaged one has no text: it is shown in hexadecimal digits."""
    lines = avro_lines.blocks(spark, files, _place("worker"))
    digits = f.hex(f.substring("bytes", 1, EXCERPT_BYTES))
    damage = f.when(
        f.col("t").isNull(), f.concat(f.length("bytes"), f.lit(" bytes with a wrong checksum, which begin: "), digits)
    )
    columns = [name for name in lines.columns if name != "bytes"]
    return _note_damage(lines.select(*columns, damage.alias(DAMAGED_COLUMN)), "worker")


def _note_damage(lines: DataFrame, kind: str) -> DataFrame:
    fault = _is_damaged(kind) | _is_uneven(kind)
    if kind == "worker":
        fault = fault | _has_impossible_entries()
    text = f.when(fault, f.coalesce(f.col(DAMAGED_COLUMN), f.lit(IMPOSSIBLE)))
    columns = [name for name in lines.columns if name != DAMAGED_COLUMN]
    # A line need not be UTF-8, but the table must be, or nothing else could read it.
    return lines.select(*columns, f.make_valid_utf8(f.substring(text, 1, EXCERPT_CHARACTERS)).alias(DAMAGED_COLUMN))


def _place(kind: str) -> tuple[Column, Column]:
    """Return `run_id` and `file` from the end of a line's path. Only cheap string functions, as they run for every
    line."""
    path, depth = f.col("_metadata.file_path"), DEPTH[kind]
    place = f.substring_index(path, "/", -depth - 3)  # runs/<run>/<file>, attempts/<run>.attempt-<n>/<file>
    folder = f.substring_index(f.substring_index(place, "/", 2), "/", -1)
    run = f.when(f.startswith(place, f.lit("attempts/")), f.regexp_replace(folder, ATTEMPT, "")).otherwise(folder)
    file = f.substring_index(path, "/", -depth - 1)
    return _decoded(run).alias("run_id"), _decoded(file).alias("file")


def _decoded(text: Column) -> Column:
    """Decode a path, but keep a plus, which decoding would turn into a space."""
    decoding = f.url_decode(f.replace(text, f.lit("+"), f.lit("%2B")))
    return f.when(f.contains(text, f.lit("%")), decoding).otherwise(text)


def _is_damaged(kind: str) -> Column:
    """Return whether a line has a wrong type, lacks a required field, or has an impossible length."""
    fault = f.col(DAMAGED_COLUMN).isNotNull()
    for name in REQUIRED[kind]:
        fault = fault | f.col(name).isNull()
    if "dt_s" in REQUIRED[kind]:
        fault = fault | ~f.coalesce(f.col("dt_s").between(0, LONGEST_LINE_S), f.lit(False))
    return fault


def _is_uneven(kind: str) -> Column:
    """Return whether columns of one group have different lengths. Lines of other people's logs may lack a worker's
    column."""
    fault = f.lit(False)
    for group, (first, *others) in array_groups(kind).items():
        sizes = {name: f.size(f.col(f"{group}.`{name}`")) for name in (first, *others)}
        for name in others:
            is_absent = sizes[name].isNull() if kind == "worker" else f.lit(False)
            fault = fault | (f.col(group).isNotNull() & ~is_absent & ~sizes[name].eqNullSafe(sizes[first]))
    return fault


def _has_impossible_entries() -> Column:
    """Return whether lists in a worker's line have impossible numbers, or lengths other than those of the lists beside
    them. The lists are flattened, because a function for each entry takes a third of the reading time; so for lists of
    unequal length only the sums are compared."""
    fault = f.lit(False)
    for group, ranges in RANGES.items():
        for name, low, high in ranges:
            flat = f.flatten(f"{group}.`{name}`")
            fault = fault | f.coalesce((f.array_min(flat) < low) | (f.array_max(flat) > high), f.lit(False))
        first, *rest = (f.size(f.flatten(f"{group}.`{name}`")) for name in PARALLEL[group])
        for other in rest:
            fault = fault | ~other.eqNullSafe(first)
    return fault


def _intact(lines: DataFrame) -> DataFrame:
    return lines.where(f.col(DAMAGED_COLUMN).isNull())


# --- tables ----------------------------------------------------------------------------------------------------------


def machine_samples(lines: DataFrame) -> DataFrame:
    return _intact(lines).select(
        "run_id", f.col("t").alias("t_s"), "dt_s", "machine", "cpu_cores", "cpu_quota_cores", "throttled_ms",
        "steal_percent", "memory_bytes", "memory_limit_bytes",
    )  # fmt: skip


def network_samples(lines: DataFrame) -> DataFrame:
    """Return one row a machine, second and interface."""
    entries = _intact(lines).select(
        "run_id", f.col("t").alias("t_s"), "dt_s", "machine", "interfaces",
        f.posexplode("interfaces.name").alias("position", "interface"),
    )  # fmt: skip
    bytes_ = [f.get(f.col(f"interfaces.{name}"), f.col("position")).alias(name) for name in ("rx_bytes", "tx_bytes")]
    return entries.select("run_id", "t_s", "dt_s", "machine", "interface", *bytes_)


def events(lines: DataFrame) -> DataFrame:
    return _intact(lines).select(
        "run_id", f.col("t").alias("t_s"), "kind", "phase", "steady", "reason", "machines", "event_id", "event",
        "joined", "leave", "decision_id", "ok", "own", "factor", "machine", "given_back", "topology", "topologies",
    )  # fmt: skip


def decisions(lines: DataFrame) -> DataFrame:
    """Return rounds with a decision, without decisions whose answer did not reach Nimbus."""
    columns = [f.coalesce(name, f"decision.{name}").alias(name) for name in ("decision_id", "policy")]
    decision_rows = _intact(lines).select(
        "run_id", f.col("t").alias("t_s"), *columns, f.col("decision.reason").alias("reason"), "duration_ms"
    )
    withdrawn = _intact(lines).select("run_id", f.col("withdrawn").alias("decision_id"))
    return (
        decision_rows.where(f.col("decision_id").isNotNull())
        .join(withdrawn, ["run_id", "decision_id"], how="left_anti")
        .select("run_id", "t_s", "decision_id", "policy", "reason", "duration_ms")
    )


def placements(lines: DataFrame) -> DataFrame:
    """Return one row a scheduling round and task; `slot` is null if the task was not placed."""
    topologies = _intact(lines).select(
        "run_id", f.col("t").alias("t_s"), f.explode("request.topologies").alias("topology")
    )
    components = topologies.select("run_id", "t_s", "topology", f.explode("topology.components").alias("component"))
    executors = components.select(
        "run_id", "t_s", "topology", "component", f.explode("component.executors").alias("executor")
    ).where(f.size("executor") == 2)
    tasks = executors.select(
        "run_id",
        "t_s",
        "topology",
        "component",
        f.get("executor", f.lit(0)).alias("first_task"),
        f.get("executor", f.lit(1)).alias("last_task"),
        f.explode(f.sequence(f.get("executor", f.lit(0)), f.get("executor", f.lit(1)))).alias("task"),
    )
    slot = f.try_element_at("topology.placement", f.col("task").cast("string"))
    return tasks.select(
        "run_id",
        "t_s",
        f.col("topology.id").alias("topology"),
        f.col("component.name").alias("component"),
        f.col("component.kind").alias("kind"),
        "task",
        "first_task",
        "last_task",
        slot.alias("slot"),
        f.substring_index(slot, ":", 1).alias("machine"),
        f.col("topology.rebalancing").alias("rebalancing"),
    )


def damaged_lines(spark: SparkSession, paths: SeriesPaths) -> DataFrame:
    """Return lines and damaged lines of every file that was read."""
    total = _count_damaged(read(spark, paths, WORKER_LINES.name), "worker", _not_intact())
    for kind in STAGED:
        stage = spark.read.schema(STAGE_COLUMNS).parquet(paths.spark_table(_stage_name(kind)))
        total = total.unionByName(_count_damaged(stage, kind))
    return total


def _count_damaged(lines: DataFrame, kind: str, missing: Column | None = None) -> DataFrame:
    """Count damaged lines. `missing`: lines that are damaged or absent, by the numbers of the others; null without
    numbers."""
    counts = lines.groupBy("run_id", "file").agg(
        f.count("*").alias("lines"),
        f.count(DAMAGED_COLUMN).alias("damaged"),
        f.first(DAMAGED_COLUMN, ignorenulls=True).alias("first_damaged"),
        (f.lit(None) if missing is None else missing).cast("bigint").alias("not_intact"),
    )
    absent_lines = f.greatest(f.col("not_intact") - f.col("damaged"), f.lit(0))
    return counts.select(
        "run_id", "file", f.lit(kind).alias("kind"), "lines", "damaged", "first_damaged",
        f.when(f.col("not_intact").isNotNull(), absent_lines).alias("missing"),
    )  # fmt: skip


def _not_intact() -> Column:
    """Return how many lines of an Avro file are not intact. It has those of one process, which numbers them from 0
    on."""
    count = f.count(f.when(f.col(DAMAGED_COLUMN).isNull(), f.lit(1)))
    is_avro = f.endswith("file", f.lit(worker_files.SUFFIX))
    last = f.max(f.when(f.col(DAMAGED_COLUMN).isNull() & is_avro, f.col("seq")))
    return last + 1 - count
