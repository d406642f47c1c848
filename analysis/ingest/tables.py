"""Raw lines of a series (docs/contracts.md) -> Parquet tables. Parsed once; damaged lines are counted per file, never
hidden.

Workers' lines stay as they are, one row a line: the tables of samples are views of them, so that nothing is stored
twice, and a query reads only the columns that it names. See docs/decisions/measuring.md.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from analysis import session
from analysis.ingest import run_tables
from analysis.record import small_tables, worker_files
from analysis.record.files import SeriesPaths, folders_of
from analysis.record.record_tables import LINE
from analysis.record.schemas import GROUPS, IN_EVERY_LINE, LARGE_TABLES, TABLES, WORKER_LINES, group_fields
from scheduler_plugins.service.samples import LONGEST_LINE_S

DAMAGED_COLUMN = "damaged_text"
EXCERPT_CHARACTERS, EXCERPT_BYTES = 200, 64
IMPOSSIBLE = "a column is missing or uneven, or a number cannot be"
# Kinds of lines that are parsed into a stage first, from which several tables are made.
STAGE_COLUMNS = f"run_id string, file string, {DAMAGED_COLUMN} string"
# Depth of the files of a kind of line below their run's folder.
DEPTH = {"worker": 1, "machine": 1, "reading": 1, "event": 0, "decision": 0}
READING_COLUMNS = (
    "dt_s", "juice", "average", "latency_ms", "p99_ms", "utility", "max_utility", "emitted", "executed"
)  # fmt: skip
ATTEMPT = r"\.attempt-\d+$"  # in a bucket an incomplete run is among the attempts
# Lists of sinks in a worker's line, equally long, and their least and greatest entries; any other entry is damage.
RANGES = {"buckets": (-2048, 2047), "counts": (0, 2**53)}
# The fields that are read from each kind of line, and those of them without which a line is damaged.
LINES = {
    "worker": "v int, t double, dt_s double, machine string, port int, pid bigint, topology string, seq bigint, "
    + ", ".join(f"`{column.name}` {column.type}" for column in WORKER_LINES.columns if column.name in GROUPS),
    "machine": (
        "v int, t double, dt_s double, machine string, cpu_cores double, cpu_quota_cores double, throttled_ms double, "
        "steal_percent double, runnable double, memory_bytes bigint, memory_limit_bytes bigint, "
        "worker_memory_bytes bigint, "
        "interfaces struct<name array<string>, rx_bytes array<bigint>, tx_bytes array<bigint>>"
    ),
    "reading": (
        "t double, dt_s double, topology string, juice double, average double, latency_ms double, p99_ms double, "
        "utility double, max_utility double, emitted bigint, executed bigint"
    ),
    "event": (
        "t double, kind string, phase string, steady boolean, reason string, machines array<string>, event_id string, "
        "event string, joined array<string>, leave int, decision_id string, ok boolean, own boolean, "
        "factor double, machine string, given_back boolean, topology string, topologies array<string>"
    ),
    "decision": (
        "t double, duration_ms double, decision_id string, policy string, withdrawn string, "
        "request struct<topologies array<struct<id string, name string, "
        "components array<struct<name string, kind string, tasks array<int>, executors array<array<int>>>>, "
        "placement map<string, string>, rebalancing boolean>>>, "
        "observation struct<may_act boolean>, "
        # `decision` contains the id and the policy in logs of others; in ours they are beside it. A slot map is a text.
        "decision struct<decision_id string, policy string, reason string, kind string, "
        "executors map<string, map<string, int>>, placement map<string, string>, rebalance array<string>>"
    ),
}
REQUIRED = {
    "worker": ("t", "dt_s", "machine", "port", "pid", "seq"), "machine": ("t", "dt_s", "machine"),
    "event": ("t", "kind"), "decision": ("t",), "reading": ("t", "topology"),
}  # fmt: skip
# Groups of parallel columns in a line -> their fields.
PARALLEL = {
    "worker": {group: group_fields(TABLES[view]) for group, view in GROUPS.items()},
    "machine": {"interfaces": ["name", "rx_bytes", "tx_bytes"]},
}


def build_tables(spark: SparkSession, series: SeriesPaths | Path | str) -> None:
    """Write every table of a series to `tables/`, replacing existing ones."""
    paths = series if isinstance(series, SeriesPaths) else SeriesPaths(Path(series))
    run_tables.write(paths, paths.all_runs())

    def write_worker_lines() -> None:
        write(worker_lines(spark, paths.raw_files("workers"), in_folders=True), paths, WORKER_LINES.name)

    session.side_by_side(spark, [
        write_worker_lines,
        partial(_write_from_stage, spark, paths, "decision", paths.raw_files("decisions.jsonl")),
        partial(_write_from_stage, spark, paths, "machine", folders_of(paths.raw_files("machines"))),
        partial(_write_from_stage, spark, paths, "event", paths.raw_files("events.jsonl")),
        partial(_write_readings, spark, paths),
    ])  # fmt: skip
    write(damaged_lines(spark, paths), paths, "damaged")
    for stage in map(_stage_name, STAGED):
        if paths.shared:
            paths.shared.drop_table(stage)
        else:
            shutil.rmtree(paths.table(stage), ignore_errors=True)


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
    return reduce(DataFrame.unionByName, (part.withColumnRenamed("t", "t_s").select(*columns) for part in parts))


def read(spark: SparkSession, paths: SeriesPaths, name: str) -> DataFrame:
    """Return a table with its declared schema, or a view of one."""
    if TABLES[name].group:
        return view(read(spark, paths, WORKER_LINES.name), name)
    return spark.read.schema(TABLES[name].ddl).parquet(paths.spark_table(name))


def empty(spark: SparkSession, name: str) -> DataFrame:
    return small_tables.empty_frame(spark, TABLES[name].ddl)


def write(frame: DataFrame, paths: SeriesPaths, name: str) -> None:
    """Replace a table. In a bucket, also fetch the files that this process reads later."""
    frame.write.mode("overwrite").parquet(paths.spark_table(name))
    if paths.shared and name not in LARGE_TABLES:
        paths.shared.fetch_table(name, paths.table(name))


def view(lines: DataFrame, name: str, beside: Sequence[str] = ()) -> DataFrame:
    """Return rows of a declared view, of intact lines only. `beside`: columns of `lines` to keep before its own."""
    table, valid_lines = TABLES[name], _intact(lines)
    if table.group == LINE:
        return valid_lines.select(*beside, *[column.name for column in table.columns])
    of_line = [*beside, *IN_EVERY_LINE]
    first, *rest = group_fields(table)
    entries = valid_lines.select(
        *of_line, table.group, f.posexplode(f"{table.group}.`{first}`").alias("position", first)
    )
    values = [f.get(f.col(f"{table.group}.`{other}`"), f.col("position")).alias(other) for other in rest]
    return entries.select(*of_line, f"`{first}`", *values)


# --- lines -----------------------------------------------------------------------------------------------------------


def _stage_name(kind: str) -> str:
    return f"_{kind}_lines"


def _write_from_stage(spark: SparkSession, paths: SeriesPaths, kind: str, files: Sequence[str]) -> None:
    """Parse the lines of one kind once, into nested Parquet; each table then reads only its own columns of it."""
    target, lines = paths.spark_table(_stage_name(kind)), read_lines(spark, kind, files)
    lines.write.mode("overwrite").parquet(target)
    stage = spark.read.schema(lines.schema).parquet(target)  # a declared schema saves the job that infers one
    for transform in STAGED[kind]:
        write(transform(_intact(stage)), paths, transform.__name__)


def _write_readings(spark: SparkSession, paths: SeriesPaths) -> None:
    """Write the readings of other people's logs; ours have none, so that Spark need not look for them."""
    if files := paths.raw_files("readings"):
        _write_from_stage(spark, paths, "reading", folders_of(files))
    else:
        small_tables.write(paths, "readings", [])


def read_lines(spark: SparkSession, kind: str, files: Sequence[Path | str]) -> DataFrame:
    """Return JSON lines of one kind with `run_id`, `file` and, if the line is damaged, its beginning in `damaged_text`.

    `files`: files, or folders of them.
    """
    schema = f"{LINES[kind]}, {DAMAGED_COLUMN} string"
    if not files:
        frame = small_tables.empty_frame(spark, schema)
        return frame.select(f.lit("").alias("run_id"), f.lit("").alias("file"), *frame.columns)
    reader = spark.read.schema(schema).option("pathGlobFilter", "*.jsonl").option("mode", "PERMISSIVE")
    lines = reader.option("columnNameOfCorruptRecord", DAMAGED_COLUMN).json([str(file) for file in files])
    columns = [name for name in lines.columns if name != DAMAGED_COLUMN]
    return _note_damage(lines.select(*_place(kind), *columns, DAMAGED_COLUMN), kind)


def _avro_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return lines of Avro files, or of folders of them, as `read_lines` does. A line is decoded only if its checksum
    proves it unchanged, so damage costs only the lines that it hits, in any part of a file, and no second reading; a
    damaged one is shown in hexadecimal digits.

    Spark splits a file at the marker between its blocks, as it splits text into lines, and decodes the parts. Its own
    source of Avro files stops at the first damage, and takes the cut end of a file for its end.
    """
    from pyspark.sql.avro.functions import from_avro

    reader = spark.read.option("lineSep", worker_files.MARKER.decode())
    texts = reader.option("pathGlobFilter", f"*{worker_files.SUFFIX}").text(list(files))
    blocks = texts.select(*_place("worker"), f.col("value").cast("binary").alias("bytes")).where(
        f.col("bytes") != f.lit(worker_files.header())
    )
    checksum = f.crc32(f.concat(f.lit(worker_files.SCHEMA_CHECKSUM), f.col("bytes")))
    valid_bytes = f.when(checksum == worker_files.RESIDUE, f.col("bytes"))
    line = from_avro(valid_bytes, json.dumps(worker_files.framed()), {"mode": "PERMISSIVE"})
    names = [field["name"] for field in worker_files.SCHEMA["fields"] if field["name"] != worker_files.CHECKSUM]
    digits = f.hex(f.substring("bytes", 1, EXCERPT_BYTES))
    damage = f.when(
        f.col("line.t").isNull(),
        f.concat(f.length("bytes"), f.lit(" bytes with a wrong checksum, which begin: "), digits),
    )
    columns = [f.col(f"line.`{name}`").alias(name) for name in names]
    lines = blocks.select("*", line.alias("line")).select("run_id", "file", *columns, damage.alias(DAMAGED_COLUMN))
    return _note_damage(lines, "worker")


def _note_damage(lines: DataFrame, kind: str) -> DataFrame:
    """Keep the beginning of a line that has a wrong type, lacks a required field, or has an impossible number."""
    text = f.when(reduce(or_, _faults(kind)), f.coalesce(f.col(DAMAGED_COLUMN), f.lit(IMPOSSIBLE)))
    columns = [name for name in lines.columns if name != DAMAGED_COLUMN]
    # A line need not be UTF-8, but the table must be, or nothing else could read it.
    return lines.select(*columns, f.make_valid_utf8(f.substring(text, 1, EXCERPT_CHARACTERS)).alias(DAMAGED_COLUMN))


def _faults(kind: str) -> Iterator[Column]:
    yield f.col(DAMAGED_COLUMN).isNotNull()
    for name in REQUIRED[kind]:
        yield f.col(name).isNull()
    if "dt_s" in REQUIRED[kind]:
        yield ~f.coalesce(f.col("dt_s").between(0, LONGEST_LINE_S), f.lit(False))
    for group, (first, *others) in PARALLEL.get(kind, {}).items():
        for size in (f.size(f.col(f"{group}.`{name}`")) for name in others):
            # Lines of other people's logs may lack a worker's column.
            is_absent = size.isNull() if kind == "worker" else f.lit(False)
            yield f.col(group).isNotNull() & ~is_absent & ~size.eqNullSafe(f.size(f.col(f"{group}.`{first}`")))
    if kind == "worker":
        # Flattened, because a function for each entry takes a third of the reading time; so for lists of unequal
        # length only the sums are compared.
        flat = {name: f.flatten(f"sinks.`{name}`") for name in RANGES}
        for name, (low, high) in RANGES.items():
            yield f.coalesce((f.array_min(flat[name]) < low) | (f.array_max(flat[name]) > high), f.lit(False))
        yield ~f.size(flat["counts"]).eqNullSafe(f.size(flat["buckets"]))


def _place(kind: str) -> tuple[Column, Column]:
    """Return `run_id` and `file` from a line's path, by cheap string functions: they run for every line."""

    def decoded(text: Column) -> Column:  # but a plus, which decoding would turn into a space, is kept
        decoding = f.url_decode(f.replace(text, f.lit("+"), f.lit("%2B")))
        return f.when(f.contains(text, f.lit("%")), decoding).otherwise(text)

    path, depth = f.col("_metadata.file_path"), DEPTH[kind]
    place = f.substring_index(path, "/", -depth - 3)  # runs/<run>/<file>, attempts/<run>.attempt-<n>/<file>
    folder = f.substring_index(f.substring_index(place, "/", 2), "/", -1)
    run = f.when(f.startswith(place, f.lit("attempts/")), f.regexp_replace(folder, ATTEMPT, "")).otherwise(folder)
    return decoded(run).alias("run_id"), decoded(f.substring_index(path, "/", -depth - 1)).alias("file")


def _intact(lines: DataFrame) -> DataFrame:
    return lines.where(f.col(DAMAGED_COLUMN).isNull())


# --- tables, of intact lines ----------------------------------------------------------------------------------------


def machine_samples(lines: DataFrame) -> DataFrame:
    return lines.select(
        "run_id", f.col("t").alias("t_s"), "dt_s", "machine", "cpu_cores", "cpu_quota_cores", "throttled_ms",
        "steal_percent", "runnable", "memory_bytes", "memory_limit_bytes", "worker_memory_bytes",
    )  # fmt: skip


def network_samples(lines: DataFrame) -> DataFrame:
    """Return one row a machine, second and interface."""
    entries = lines.select(
        "run_id", f.col("t").alias("t_s"), "dt_s", "machine", "interfaces",
        f.posexplode("interfaces.name").alias("position", "interface"),
    )  # fmt: skip
    bytes_ = [f.get(f.col(f"interfaces.{name}"), f.col("position")).alias(name) for name in ("rx_bytes", "tx_bytes")]
    return entries.select("run_id", "t_s", "dt_s", "machine", "interface", *bytes_)


def readings(lines: DataFrame) -> DataFrame:
    return lines.select("run_id", "topology", f.col("t").alias("t_s"), *READING_COLUMNS)


def events(lines: DataFrame) -> DataFrame:
    return lines.select(
        "run_id", f.col("t").alias("t_s"), "kind", "phase", "steady", "reason", "machines", "event_id", "event",
        "joined", "leave", "decision_id", "ok", "own", "factor", "machine", "given_back", "topology", "topologies",
    )  # fmt: skip


def decisions(lines: DataFrame) -> DataFrame:
    """Return rounds with a decision, without decisions whose answer did not reach Nimbus."""
    columns = [f.coalesce(name, f"decision.{name}").alias(name) for name in ("decision_id", "policy")]
    decision_rows = lines.select(
        "run_id", f.col("t").alias("t_s"), *columns, f.col("decision.kind").alias("kind"),
        f.col("decision.reason").alias("reason"), "duration_ms",
    )  # fmt: skip
    return _carried_out(decision_rows, lines).select(
        "run_id", "t_s", "decision_id", "policy", "kind", "reason", "duration_ms"
    )


def _carried_out(rows: DataFrame, lines: DataFrame) -> DataFrame:
    withdrawn = lines.select("run_id", f.col("withdrawn").alias("decision_id"))
    return rows.where(f.col("decision_id").isNotNull()).join(withdrawn, ["run_id", "decision_id"], how="left_anti")


def changes(lines: DataFrame) -> DataFrame:
    """Return one row a decision, topology that it changes or moves and that was placed before, and component."""
    decided = lines.select("run_id", f.coalesce("decision_id", "decision.decision_id").alias("decision_id"), "decision",
                           f.explode("request.topologies").alias("topology"))  # fmt: skip
    topology = f.col("topology.id")
    executors = f.try_element_at("decision.executors", topology)
    placed = f.length(f.try_element_at("decision.placement", topology)) > len("{}")
    parts = (f.size(executors) > 0, placed, f.array_contains("decision.rebalance", topology))
    is_changed = reduce(or_, (f.coalesce(part, f.lit(False)) for part in parts))
    component = f.col("component")
    before = f.when(component["executors"].isNotNull(), f.size(component["executors"]))
    return _carried_out(decided, lines).where(is_changed & (f.size("topology.placement") > 0)).select(
        "run_id", "decision_id", topology.alias("topology"), executors.alias("executors"),
        f.explode("topology.components").alias("component"),
    ).where(f.coalesce(component["kind"], f.lit("")) != "system").select(
        "run_id", "decision_id", "topology", component["name"].alias("component"), before.alias("executors_before"),
        f.coalesce(f.try_element_at("executors", component["name"]), before).alias("executors_after"),
    )  # fmt: skip


def rounds(lines: DataFrame) -> DataFrame:
    may_act = f.coalesce("observation.may_act", f.lit(False)).alias("may_act")
    return lines.where(f.col("observation").isNotNull()).select("run_id", f.col("t").alias("t_s"), may_act)


def placements(lines: DataFrame) -> DataFrame:
    """Return one row a scheduling round and task; `slot` is null if the task was not placed."""
    topologies = lines.select("run_id", f.col("t").alias("t_s"), f.explode("request.topologies").alias("topology"))
    components = topologies.select("run_id", "t_s", "topology", f.explode("topology.components").alias("component"))
    executors = components.select(
        "run_id", "t_s", "topology", "component", f.explode("component.executors").alias("executor")
    ).where(f.size("executor") == 2)
    first, last = (f.get("executor", f.lit(place)) for place in (0, 1))
    tasks = executors.select(
        "run_id", "t_s", "topology", "component", first.alias("first_task"), last.alias("last_task"),
        f.explode(f.sequence(first, last)).alias("task"),
    )  # fmt: skip
    slot = f.try_element_at("topology.placement", f.col("task").cast("string"))
    return tasks.select(
        "run_id", "t_s", f.col("topology.id").alias("topology"), f.col("component.name").alias("component"),
        f.col("component.kind").alias("kind"), "task", "first_task", "last_task", slot.alias("slot"),
        f.substring_index(slot, ":", 1).alias("machine"), f.col("topology.rebalancing").alias("rebalancing"),
    )  # fmt: skip


# Kind of line -> the tables that are made of its stage, named like the functions.
STAGED = {
    "machine": (machine_samples, network_samples), "event": (events,), "reading": (readings,),
    "decision": (decisions, placements, changes, rounds),
}  # fmt: skip


def damaged_lines(spark: SparkSession, paths: SeriesPaths) -> DataFrame:
    """Return lines and damaged lines of every file that was read. `missing`: by the numbers of the lines of an Avro
    file, which has those of one process, from 0 on."""
    is_intact = f.col(DAMAGED_COLUMN).isNull()
    last = f.max(f.when(is_intact & f.endswith("file", f.lit(worker_files.SUFFIX)), f.col("seq")))
    kinds = [("worker", read(spark, paths, WORKER_LINES.name), last + 1 - f.count(f.when(is_intact, f.lit(1))))]
    for kind in STAGED if paths.raw_files("readings") else [kind for kind in STAGED if kind != "reading"]:
        stage = spark.read.schema(STAGE_COLUMNS).parquet(paths.spark_table(_stage_name(kind)))
        kinds.append((kind, stage, f.lit(None)))
    return reduce(DataFrame.unionByName, (_count_damaged(*each) for each in kinds))


def _count_damaged(kind: str, lines: DataFrame, not_intact: Column) -> DataFrame:
    counts = lines.groupBy("run_id", "file").agg(
        f.count("*").alias("lines"),
        f.count(DAMAGED_COLUMN).alias("damaged"),
        f.first(DAMAGED_COLUMN, ignorenulls=True).alias("first_damaged"),
        not_intact.cast("bigint").alias("not_intact"),
    )
    absent_lines = f.greatest(f.col("not_intact") - f.col("damaged"), f.lit(0))
    return counts.select(
        "run_id", "file", f.lit(kind).alias("kind"), "lines", "damaged", "first_damaged",
        f.when(f.col("not_intact").isNotNull(), absent_lines).alias("missing"),
    )  # fmt: skip
