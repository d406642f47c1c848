"""A topology that ran beside the run's own, with the same task numbers and component names, changes no metric."""

import copy
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.ingest import tables
from analysis.metrics import build
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.schemas import TABLES
from tests.golden import records
from tests.golden.series import GoldenSeries
from tests.support import worker_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RUN = "even_rebalance-r1"
UNNAMED = "even_rebalance-r2"  # an older record, which does not name its topology
OTHER = "page_load-2-1763700001"
METRICS = (
    "zeros", "activity", "event_throughput", "throughput", "intervals", "convergence", "downtime", "losses",
    "emissions", "latency", "interval_latency", "cpu", "settled", "slots", "moves", "running", "loading",
    "measurements",
)  # fmt: skip


def add_other(folder: Path) -> None:
    """It has ports of its own and three times the tuples, begins earlier, restarts elsewhere and goes on longer."""
    slots: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in worker_lines.of_run(folder):
        slots[line["machine"], line["port"] + 10].append(line)
    for (machine, port), lines in slots.items():
        lines.sort(key=lambda line: line["t"])
        both = [
            *(line | {"t": line["t"] - 20} for line in lines[:20]),
            *(line | {"t": line["t"] + 25} for line in lines),
        ]
        others = [_line_of_other(line, port, seq) for seq, line in enumerate(both)]
        records.write_worker(folder / "workers", f"{machine}-{port}", others)
    decisions = folder / "decisions.jsonl"
    rounds = [json.loads(line) for line in decisions.read_text().splitlines()]
    for number, each in enumerate(rounds):
        (own,) = each["request"]["topologies"]
        placement = {task: f"m{1 + (int(task) + number) % 4}:6710" for task in list(own["placement"])[number % 3 :]}
        other = own | {"id": OTHER, "name": "page_load", "placement": placement, "rebalancing": number % 2 == 0}
        each["request"]["topologies"] = [other, own]
    records.write_lines(decisions, rounds)


def _line_of_other(line: dict[str, Any], port: int, seq: int) -> dict[str, Any]:
    again = line["t"] > records.START + 1000 + 85
    line = copy.deepcopy(line) | {"topology": OTHER, "port": port, "pid": 9000 + again, "seq": seq}
    for group in ("tasks", "streams", "sources", "sinks", "spouts"):
        for name in ("emitted", "executed", "queue", "n", "sum_ms", "due"):
            if name in (line.get(group) or {}):
                line[group][name] = [3 * n for n in line[group][name]]
    if line.get("sinks"):
        line["sinks"]["counts"] = [[3 * n for n in counts] for counts in line["sinks"]["counts"]]
    return line


def rows(root: Path, name: str, run: str) -> list[dict[str, Any]]:
    found = [row for row in small_tables.rows(SeriesPaths(root), name) if row["run_id"] == run]
    return sorted(found, key=lambda row: tuple(str(row[column]) for column in TABLES[name].key))


def test_metrics_are_those_of_the_runs_own_topology(
    golden_series: GoldenSeries, spark: "SparkSession", tmp_path: Path
) -> None:
    series = tmp_path / golden_series.root.name
    for run in (RUN, UNNAMED):
        shutil.copytree(golden_series.root / "runs" / run, series / "runs" / run)
    add_other(series / "runs" / RUN)
    document = json.loads((series / "runs" / UNNAMED / "run.json").read_text())
    del document["topology"]["id"]
    (series / "runs" / UNNAMED / "run.json").write_text(json.dumps(document))
    tables.build_tables(spark, series)
    build.build_metrics(spark, series)
    reported = tables.read(spark, SeriesPaths(series), "task_samples").select("topology").distinct().collect()
    assert {row["topology"] for row in reported} == {records.TOPOLOGY, OTHER}
    for name in METRICS:
        for run in (RUN, UNNAMED):
            alone, beside = rows(golden_series.root, name, run), rows(series, name, run)
            assert alone, (name, run)
            assert [_rounded(row) for row in beside] == [_rounded(row) for row in alone], (name, run)


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of floats depend on their order."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
