"""The logs of Henge's authors: `output.log`, `result.log`, `slo.log`, `capacity.log`. They end in the tables `service`
and `actions`.

    star-1-1481769773,0.998,0.995,0.0,4.97,5.0,1.7976931348623157E308,79200,78920,1481770614645
    /var/nimbus/storm/bin/storm rebalance star -w 0  -e bolt_1=10 -e bolt_2=8
    1481770651949

A reading has the topology's id, juice now, the average juice and, the more the newer: sent tuples of sources, executed
of sinks; before these latency in ms; after that utility and the largest utility; after that the 99 % latency; and the
epoch ms. Of other numbers of columns only juice and its average are read, of twelve all that is known. The average is
the mean of the last 30 readings since the topology was rebalanced; it is computed again, and differences are reported.

Commands to rebalance stand between the readings, with their time in the next line or the one before; `Reduction` or
`Reverting` is the line before a command. 0 ms and the largest double stand for no latency. A capacity is of the busiest
executor of a component; those at the time of a command are in the action's reason.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as f

from analysis.ingest.readers.contract import LogSource, ReaderOptions, SeriesReader
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, append_event, experiment_of, write_json_atomic
from barograph.errors import ConfigurationError, Say
from scheduler_plugins.service.messages import VERSION

ID, NUMBER = r"[^,\s]+-\d+-\d{9,11}", r"-?(?:\d[-+.\dEe]*|NaN|Infinity)"
PATTERN = (
    rf"^\s*(?:({ID})((?:,{NUMBER})+),(\d{{12,13}})"  # a reading
    r"|(\S*storm\s+(?:henge-)?rebalance\s+\S.*?)"
    r"|(\d{13})"
    r"|(Reduction|Reverting)"
    r"|Rebalance at time:\s*(\d{13})"
    rf"|({ID})\s+(\S+)\s+({NUMBER})\s+(\d{{13}})"  # a capacity
    r"|(?:Running observer at: \d+|Not choosing \S+|TriggeredInstability|\S*storm old-workers: \d+))\s*$"
)
GROUPS = (
    "id",
    "numbers",
    "t_ms",
    "command",
    "time_ms",
    "mark",
    "rebalance_ms",
    "of_id",
    "component",
    "capacity",
    "capacity_ms",
)
EXAMPLE = "star-1-1481769773,0.998,0.995,0.0,79200,78920,1481770614645"
MARKS = {"Reduction": "reduce", "Reverting": "revert"}
READINGS = 30  # of the average
ROUNDING = 1e-6  # by which an average may differ
NO_LATENCY_MS = 1e300
REPEATED_S = 5.0  # a reading so soon after the one before repeats it
LONGEST_S = 60.0  # a reading covers no more time than this before it
READING = ("t", "dt_s", "topology", "juice", "average", "latency_ms", "p99_ms", "utility", "max_utility", "emitted",
           "executed")  # fmt: skip


class HengeOptions(ReaderOptions):
    """`run`: files of one run have the same; else the name of their folder. `latency_ms`, `juice`, `max_utility`: the
    level of topologies whose utility the log does not say."""

    run: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]+$")
    variant: str = "henge"
    repetition: int = Field(default=1, ge=1)
    latency_ms: float | None = Field(default=None, gt=0)
    juice: float | None = Field(default=None, gt=0, le=1)
    max_utility: float = Field(default=1.0, gt=0)


def run_of(source: LogSource) -> str:
    assert isinstance(source.options, HengeOptions)
    return source.options.run or re.sub(r"[^A-Za-z0-9._-]+", "_", source.file.parent.name) or "run"


def lines_in_order(parsed: DataFrame, sources: Sequence[LogSource]) -> DataFrame:
    """Return valid lines with `run` and `place`; empty texts are null."""
    rows = [(str(source.file), run_of(source)) for source in sources]
    runs = small_tables.frame_of_rows(parsed.sparkSession, rows, "file string, run string")
    groups = [f.when(f.col(group) != "", f.col(group)).alias(group) for group in GROUPS]
    valid = parsed.where(f.col("damaged").isNull()).select("file", "place", *groups)
    return valid.join(f.broadcast(runs), "file", how="inner")


def readings(lines: DataFrame) -> DataFrame:
    """Return one row a reading: `run`, `id`, `place`, `columns` and the numbers of `READING`; null: not in the log."""
    texts = f.split(f.substring(f.col("numbers"), 2, 1_000_000), ",")
    size = f.size("v")

    def number(place: int | Column) -> Column:
        text = f.get(f.col("v"), place if isinstance(place, Column) else f.lit(place))
        value = text.try_cast("double")
        return f.when(~f.isnan(value) & (f.abs(value) < NO_LATENCY_MS), value)

    has_counts, has_latency, has_utility = size.isin(4, 5, 7, 8, 9, 10), size.isin(5, 7, 8, 9, 10), size >= 7
    has_utility = has_utility & (size <= 10)
    counts = {name: f.when(has_counts, number(size - place)).cast("bigint").alias(name)
              for name, place in (("emitted", 2), ("executed", 1))}  # fmt: skip
    latency = f.when(has_latency, number(2))
    return lines.where(f.col("id").isNotNull()).withColumn("v", texts).select(
        "run", "file", "id", "place", (size + 2).alias("columns"),
        (f.col("t_ms").cast("double") / 1000).alias("t"), number(0).alias("juice"), number(1).alias("average"),
        f.when(latency > 0, latency).alias("latency_ms"),
        f.when(size == 8, f.when(number(5) > 0, number(5))).alias("p99_ms"),
        f.when(has_utility, number(3)).alias("utility"), f.when(has_utility, number(4)).alias("max_utility"),
        *counts.values(),
    )  # fmt: skip


def commands(lines: DataFrame) -> DataFrame:
    """Return one row a command to rebalance: its time, in the line after it, else before it, else of the nearest
    reading; and its mark."""
    of_file = Window.partitionBy("file").orderBy("place")
    following, before = of_file.rowsBetween(1, Window.unboundedFollowing), of_file.rowsBetween(-10, -1)
    reading_ms = f.coalesce(
        f.first("t_ms", ignorenulls=True).over(following),
        f.last("t_ms", ignorenulls=True).over(of_file.rowsBetween(Window.unboundedPreceding, -1)),
    )
    time_ms = f.coalesce(f.lead("time_ms").over(of_file), f.lag("time_ms").over(of_file), reading_ms)
    mark = f.last("mark", ignorenulls=True).over(before)
    # A mark is of the next command: not where another command or a reading stands between.
    others = f.last(f.when(f.col("command").isNotNull() | f.col("t_ms").isNotNull(), f.col("place")), ignorenulls=True)
    marked = f.last(f.when(f.col("mark").isNotNull(), f.col("place")), ignorenulls=True).over(before)
    is_marked = f.coalesce(marked > others.over(before), marked.isNotNull())
    ordered = lines.select(
        "run", "file", "place", "command", time_ms.alias("ms"), f.when(is_marked, mark).alias("mark")
    )
    return ordered.where(f.col("command").isNotNull())


def averages(rows: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Return readings with `recomputed`: the mean juice of the last `READINGS` since the last of `rebalances` (run,
    file, id, place)."""
    both = rows.select("run", "file", "id", "place", "juice", "average").unionByName(
        rebalances.select("run", "file", "id", "place"), allowMissingColumns=True
    )
    of_id = Window.partitionBy("file", "id").orderBy("place")
    counted = both.select("*", f.count_if(f.col("juice").isNull()).over(of_id).alias("epoch"))
    last = Window.partitionBy("file", "id", "epoch").orderBy("place").rowsBetween(1 - READINGS, 0)
    return counted.where(f.col("juice").isNotNull()).select("*", f.avg("juice").over(last).alias("recomputed"))


# --- a series ---------------------------------------------------------------------------------------------------------


def write(
    parsed: DataFrame, sources: Sequence[LogSource], paths: SeriesPaths, staging: Path, record: Mapping[str, Any],
    say: Say,
) -> list[str]:  # fmt: skip
    """Write every run's folder; return the runs. Raises ConfigurationError for a run without readings."""
    lines, options = lines_in_order(parsed, sources), {run_of(source): source.options for source in sources}
    rows = readings(lines).persist()
    try:
        topologies = _topologies(rows)
        for run in sorted(set(options) - set(topologies)):
            raise ConfigurationError(f"run {run!r}: no reading in any of its lines; give its output.log or result.log, "
                                     f"such as {EXAMPLE!r}")  # fmt: skip
        names = {run: _names([row.id for row in of_run]) for run, of_run in topologies.items()}
        actions = _actions(commands(lines).collect(), topologies, names)
        _write_readings(rows, parsed, sources, names, paths, staging)
        capacities = _capacities(lines, actions)
        agreement = _agreement(rows, actions)
    finally:
        rows.unpersist()
    for run, of_run in topologies.items():
        of_options = options[run]
        assert isinstance(of_options, HengeOptions)
        _write_run(paths, run, of_run, names[run], actions[run], capacities, of_options, record)
        say(_summary(run, of_run, actions[run], agreement[run], _unread(lines, run)))
    return sorted(topologies)


def _topologies(rows: DataFrame) -> dict[str, list[SparkRow]]:
    """Return by run a row for each topology: readings, first and last time, largest utility, columns."""
    by_run: dict[str, list[SparkRow]] = defaultdict(list)
    totals = rows.groupBy("run", "id").agg(
        f.count("*").alias("readings"), f.min("t").alias("first_s"), f.max("t").alias("last_s"),
        f.max("max_utility").alias("max_utility"), f.array_sort(f.collect_set("columns")).alias("columns"),
    )  # fmt: skip
    for row in totals.orderBy("run", "first_s", "id").collect():
        by_run[row.run].append(row)
    return dict(by_run)


def _names(ids: Sequence[str]) -> dict[str, str]:
    """Return id -> name in Storm; the id where two have the same name."""
    names = {each: re.sub(r"-\d+-\d{9,11}$", "", each) for each in ids}
    return {each: each if [*names.values()].count(name) > 1 or name == "all" else name for each, name in names.items()}


def _actions(
    rows: Sequence[SparkRow], topologies: Mapping[str, Sequence[SparkRow]], names: Mapping[str, Mapping[str, str]]
) -> dict[str, list[dict[str, Any]]]:
    """Return by run its actions in order: time, kind, topology's id, executors by component, before where an earlier
    command says it."""
    by_run: dict[str, list[dict[str, Any]]] = {run: [] for run in topologies}
    latest: dict[tuple[str, str, str], int] = {}
    for row in sorted(rows, key=lambda row: (row.run, row.file, row.place)):
        t_s = float(row.ms) / 1000
        for command in re.split(r"\s+xyz\s+", re.sub(r"^\S*storm\s+(henge-)?rebalance\s+", "", row.command.strip())):
            name, _, rest = command.partition(" ")
            ids = [each for each in topologies.get(row.run, ()) if re.sub(r"-\d+-\d{9,11}$", "", each.id) == name]
            begun = [each for each in ids if each.first_s <= t_s] or ids
            if not begun:
                continue
            executors = {part: int(number) for part, number in re.findall(r"-e\s+(\S+?)=(\d+)", rest)}
            topology_id = begun[-1].id
            before = {part: latest.get((row.run, topology_id, part)) for part in executors}
            latest |= {(row.run, topology_id, part): number for part, number in executors.items()}
            by_run[row.run].append({"t": t_s, "kind": MARKS.get(row.mark, "reconfigure"), "id": topology_id,
                                   "name": names[row.run][topology_id], "after": executors, "before": before,
                                   "file": row.file, "place": row.place, "run": row.run})  # fmt: skip
    return by_run


def _frame_of_actions(lines: DataFrame, actions: Mapping[str, Sequence[Mapping[str, Any]]]) -> DataFrame:
    rows = [(run, each["file"], each["id"], each["t"], each["place"], component)
            for run, of_run in actions.items() for each in of_run for component in (*each["after"], "")]  # fmt: skip
    return small_tables.frame_of_rows(
        lines.sparkSession, rows, "run string, file string, id string, t double, place bigint, component string"
    )


def _capacities(
    lines: DataFrame, actions: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Mapping[tuple[str, float, str], float]:
    """Return (id, time of a command, component) -> the last capacity before it."""
    asked = f.broadcast(_frame_of_actions(lines, actions).select("run", f.col("id").alias("of_id"), "t", "component"))
    at_s = f.col("capacity_ms").cast("double") / 1000
    rows = (
        lines.where(f.col("capacity").isNotNull())
        .join(asked, ["run", "of_id", "component"], how="inner")
        .where(at_s <= f.col("t"))
        .groupBy("of_id", "t", "component")
        .agg(f.max_by(f.col("capacity").try_cast("double"), at_s).alias("capacity"))
    )
    return {(row.of_id, row.t, row.component): row.capacity for row in rows.collect()}


def _agreement(
    rows: DataFrame, actions: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Mapping[str, tuple[int, int, float]]:  # fmt: skip
    """Return by run the averages, those that differ from ours by more than rounding, and by how much at most."""
    rebalances = _frame_of_actions(rows, actions).where(f.col("component") == "").select("run", "file", "id", "place")
    difference = f.abs(f.col("average") - f.col("recomputed"))
    differs = difference > ROUNDING * f.greatest(f.lit(1.0), f.abs("average"))
    counts = (
        averages(rows, rebalances)
        .groupBy("run")
        .agg(f.count("average").alias("n"), f.count_if(differs).alias("different"), f.max(difference).alias("most"))
    )
    by_run = {row.run: (row.n, row.different, row.most or 0.0) for row in counts.collect()}
    return defaultdict(lambda: (0, 0, 0.0), by_run)


def _unread(lines: DataFrame, run: str) -> Mapping[str, int]:
    """Return lines that carry nothing for the tables, by what they are."""
    kinds = {"rebalances without a topology": "rebalance_ms", "capacities": "capacity"}
    counts = lines.where(f.col("run") == run).agg(*[f.count(column).alias(column) for column in kinds.values()]).first()
    return {} if counts is None else {words: counts[column] for words, column in kinds.items() if counts[column]}


def _write_readings(
    rows: DataFrame, parsed: DataFrame, sources: Sequence[LogSource], names: Mapping[str, Mapping[str, str]],
    paths: SeriesPaths, staging: Path,
) -> None:  # fmt: skip
    """Write readings as JSON lines, oldest first, and damaged lines as they are. `dt_s` is the time since the reading
    before, null for one that repeats it."""
    spark = rows.sparkSession
    flat = [(run, each, name) for run, of_run in names.items() for each, name in of_run.items()]
    named = rows.join(f.broadcast(small_tables.frame_of_rows(spark, flat, "run string, id string, topology string")),
                      ["run", "id"], how="inner")  # fmt: skip
    since = f.col("t") - f.lag("t").over(Window.partitionBy("run", "id").orderBy("t", "place"))
    dt_s = f.when(since.isNull(), f.lit(10.0)).when(since >= REPEATED_S, since)
    line = f.to_json(f.struct(*[f.col(name) for name in READING]))
    lines = named.withColumn("dt_s", dt_s).select("run", f.lit("readings").alias("part"), "t", line.alias("value"))
    of_files = [(str(source.file), run_of(source)) for source in sources]
    runs = f.broadcast(small_tables.frame_of_rows(spark, of_files, "file string, run string"))
    damaged = parsed.where(f.col("damaged").isNotNull()).join(runs, "file", how="inner")
    (
        lines.unionByName(damaged.select("run", f.lit("damaged").alias("part"), f.lit(0.0).alias("t"),
                                         f.col("damaged").alias("value")))
        .repartition("run", "part")
        .sortWithinPartitions("run", "part", "t")
        .select("run", "part", "value")
        .write.partitionBy("run", "part")
        .text(str(staging / "readings"))
    )  # fmt: skip
    for number, part in enumerate(sorted((staging / "readings").glob("run=*/part=*/part-*"))):
        run, kind = (folder.name.partition("=")[2] for folder in (part.parent.parent, part.parent))
        target = paths.run(run).create().readings
        target.mkdir(exist_ok=True)
        part.rename(target / f"{kind}-{number}.jsonl")


def _write_run(
    paths: SeriesPaths, run_id: str, topologies: Sequence[SparkRow], names: Mapping[str, str],
    actions: Sequence[Mapping[str, Any]], capacities: Mapping[tuple[str, float, str], float], options: HengeOptions,
    record: Mapping[str, Any],
) -> None:  # fmt: skip
    """Write the files about a run: its record, events, and a decision log with the commands."""
    run = paths.run(run_id).create()
    begun_s, ended_s = min(row.first_s for row in topologies), max(row.last_s for row in topologies)
    level = {"latency_ms": options.latency_ms, "juice": options.juice, "max_utility": options.max_utility}
    has_level = options.latency_ms is not None or options.juice is not None
    facts = [
        {"id": row.id, "name": names[row.id], "workers": None, "components": [], "edges": [],
         "service_level": level if row.max_utility is None and has_level
         else None if row.max_utility is None
         else {"latency_ms": None, "juice": None, "max_utility": row.max_utility}}
        for row in topologies
    ]  # fmt: skip
    append_event(run, begun_s, "run_started")
    lines = []
    for number, action in enumerate(sorted(actions, key=lambda each: float(each["t"])), start=1):
        ids: dict[str, Any] = {"decision_id": f"d{number}", "topologies": [action["name"]], "own": True}
        shown = ", ".join(
            f"{part} {'?' if action['before'][part] is None else action['before'][part]}→{executors}"
            + (f" (capacity {capacities[key]:g})" if (key := (action["id"], action["t"], part)) in capacities else "")
            for part, executors in action["after"].items()
        )  # fmt: skip
        reason = f"{action['kind']}: {action['name']}: {shown or 'workers'}"
        append_event(run, action["t"], "decision", reason=reason, **ids)
        append_event(run, action["t"], "applied", ok=True, **ids)
        components = [
            {"name": part, "kind": "bolt", "tasks": [], "executors": None if before is None else [[]] * before}
            for part, before in action["before"].items()
        ]
        topology = {"id": action["id"], "name": action["name"], "components": components,
                    "placement": {"0": "unknown:0"}, "rebalancing": False}  # fmt: skip
        lines.append({
            "t": action["t"], "run_id": run_id, "decision_id": ids["decision_id"], "policy": "henge",
            "request": {"v": VERSION, "topologies": [topology]},
            "decision": {"kind": action["kind"], "reason": reason, "executors": {action["id"]: action["after"]}},
        })  # fmt: skip
    run.decisions.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    write_json_atomic(run.run_json, {
        "v": 1, "run_id": run_id, "series_id": paths.root.name, "experiment": experiment_of(paths.root),
        "block": options.repetition, "repetition": options.repetition, "order": None, "seed": None,
        "variant": {"name": options.variant, "policy": "henge", "parameters": {}},
        "status": "complete", "failure": None, "started_s": begun_s, "ended_s": ended_s, "phases": [],
        "topology": facts[0], "topologies": facts,
        "git_commit": None, "git_dirty": None, "versions": {}, "machines": {}, "clock_offset_ms": {}, **record,
    })  # fmt: skip


def _summary(
    run: str, topologies: Sequence[SparkRow], actions: Sequence[Mapping[str, Any]], agreement: tuple[int, int, float],
    unread: Mapping[str, int],
) -> str:  # fmt: skip
    """Return a line: topologies, readings, columns, actions by kind, and how many averages differ from ours."""
    columns = sorted({number for row in topologies for number in row.columns})
    partly = [number for number in columns if number not in (3, 4, 6, 7, 9, 10)]
    kinds = [each["kind"] for each in actions]
    shown = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)) or "none"
    number, different, most = agreement
    parts = [
        f"run {run}: {len(topologies)} topologies, {sum(row.readings for row in topologies)} readings of "
        f"{', '.join(map(str, columns))} columns", f"actions: {shown}",
        f"{different} of {number} average juices differ from the mean of the last {READINGS} readings since a rebalance"
        + (f", by up to {most:.3g}" if different else ""),
    ]  # fmt: skip
    parts += [f"of {', '.join(map(str, partly))} columns only those of known meaning"] if partly else []
    parts += [f"{count} {words} in no table" for words, count in unread.items() if words != "capacities"]
    return "; ".join(parts)


READER = SeriesReader(PATTERN, GROUPS, EXAMPLE, HengeOptions, write)
