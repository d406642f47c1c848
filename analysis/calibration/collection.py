"""The input of the fit from one series: its sums, its starts of workers, and the small tables of placements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.calibration import starts, sums
from analysis.calibration.starts import Join, StartGroup
from analysis.calibration.sums import Span
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import SimulatedTopology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Works = Mapping[tuple[str, str], SimulatedTopology]
"""By run and the topology's name: what its components do to a tuple."""


@dataclass(frozen=True)
class RunSums:
    """The data of one run; topologies by their ids. `works`: of topologies whose components' costs are stated, except
    those with ackers, which the fit leaves out. `window_s`: length of the windows of `activity` and `machine_cpu`;
    `begun_s`: of processes, by topology, machine, port and id. `*_of_spans`: of starts and joins."""

    run_id: str  # with its series, so that it is unique
    works: Mapping[str, SimulatedTopology]
    activity: tuple[Row, ...]
    machine_cpu: tuple[Row, ...]
    starts: tuple[StartGroup, ...]
    joins: tuple[Join, ...]
    cpu_of_spans: Mapping[Span, float]
    tuples_of_spans: tuple[tuple[Span, Row], ...]
    speeds: tuple[Row, ...]
    cores: Mapping[str, float]  # of each machine, if known
    latencies: tuple[Row, ...]
    intervals: tuple[Row, ...]
    zeros_s: Mapping[str, float]  # of events
    settled: tuple[Row, ...]
    topology_ids: Mapping[str, str]  # by name
    window_s: float
    begun_s: Mapping[tuple[str, str, int, int], float]


def collect(
    spark: SparkSession, stored: Callable[[str], DataFrame], small: Callable[[str], list[Row]], works: Works, label: str
) -> list[RunSums]:
    """Return the data of complete runs. `stored`: a table as Spark reads it; `small`: rows of a small one."""
    lines, samples = stored("worker_lines"), stored("machine_samples")
    runs = [row["run_id"] for row in small("runs") if row["status"] == "complete"]
    length_s = sums.window_s(small("zeros"))
    processes = sums.processes(lines)
    ids = topology_ids(small("topologies"), processes)
    placements = stored("placements")
    first_rounds = _first_rounds(placements)
    groups = starts.merge(starts.start_groups(starts.orders(small("events"), first_rounds, ids), processes))
    joins = starts.joins(small("phases"), small("events"), groups)
    spans = [*(group.span for group in groups), *(join.span for join in joins)]
    cpu = sums.cpu_in_spans(spark, samples, spans) if spans else {}
    tuples = sums.tuples_in_spans(spark, lines, spans) if spans else []
    tables = {
        "activity": sums.with_executors(sums.activity(lines, length_s), sums.executors(placements), processes),
        "machine_cpu": sums.machine_cpu(samples, length_s),
        "speeds": sums.speeds(lines),
        **{name: small(name) for name in ("latency", "intervals", "scale_events", "settled", "machines")},
    }
    by_run = {name: _by_run(rows) for name, rows in tables.items()}

    def of(run_id: str, name: str) -> tuple[Row, ...]:
        return tuple(by_run[name].get(run_id, ()))

    return [
        RunSums(
            run_id=f"{label} {run_id}",
            works={
                ids[key]: work for key, work in works.items() if key[0] == run_id and key in ids and work.acking is None
            },
            activity=of(run_id, "activity"),
            machine_cpu=of(run_id, "machine_cpu"),
            starts=tuple(group for group in groups if group.run_id == run_id),
            joins=tuple(join for join in joins if join.run_id == run_id),
            cpu_of_spans={span: value for span, value in cpu.items() if span.run_id == run_id},
            tuples_of_spans=tuple(each for each in tuples if each[0].run_id == run_id),
            speeds=of(run_id, "speeds"),
            cores={row["machine"]: row["cores"] for row in of(run_id, "machines") if row["cores"] is not None},
            latencies=of(run_id, "latency"),
            intervals=of(run_id, "intervals"),
            zeros_s={row["event_id"]: row["zero_s"] for row in of(run_id, "scale_events")},
            settled=of(run_id, "settled"),
            topology_ids={name: topology for (run, name), topology in ids.items() if run == run_id},
            window_s=float(length_s),
            begun_s={_process(row): row["begun_s"] for row in processes if row["run_id"] == run_id},
        )
        for run_id in runs
    ]


def _process(row: Row) -> tuple[str, str, int, int]:
    return row["topology"], row["machine"], row["port"], row["pid"]


def topology_ids(topologies: Iterable[Row], processes: Iterable[Row]) -> dict[tuple[str, str], str]:
    """Return ids by run and name. Older records have no id: the only topology's is that of the run's lines."""
    ids_by_run: dict[str, set[str]] = {}
    for process in processes:
        ids_by_run.setdefault(process["run_id"], set()).add(process["topology"])
    ids = {}
    for row in topologies:
        of_lines = ids_by_run.get(row["run_id"], set())
        topology = row["topology_id"] or (min(of_lines) if len(of_lines) == 1 else None)
        if topology is not None:
            ids[row["run_id"], row["topology"]] = topology
    return ids


def _first_rounds(placements: DataFrame) -> list[Row]:
    """Return when each topology was placed first: the last round before which none of it had a slot."""
    from pyspark.sql import functions as f

    rounds = placements.groupBy("run_id", "topology", "t_s").agg(f.count("slot").alias("placed"))
    placed_from = f.min(f.when(f.col("placed") > 0, f.col("t_s"))).alias("placed_from_s")
    first = rounds.groupBy("run_id", "topology").agg(placed_from)
    before = rounds.join(first, ["run_id", "topology"], how="inner").where(
        (f.col("placed") == 0) & (f.col("t_s") < f.col("placed_from_s"))
    )
    result = before.groupBy("run_id", "topology").agg(f.max("t_s").alias("placed_s"))
    return [row.asDict() for row in result.collect()]


def _by_run(rows: Iterable[Row]) -> dict[str, list[Row]]:
    rows_by_run: dict[str, list[Row]] = {}
    for row in rows:
        rows_by_run.setdefault(row["run_id"], []).append(row)
    return rows_by_run
