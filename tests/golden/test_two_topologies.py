"""A topology that ran beside the run's own, with the same task numbers and component names, changes no metric."""

import json
import shutil
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

RUN = "even_rebalance-r1"
OTHER = "page_load-2-1763700001"
METRICS = (
    "zeros", "activity", "event_throughput", "throughput", "intervals", "convergence", "downtime", "losses",
    "emissions", "latency", "interval_latency", "cpu", "settled", "slots", "moves", "running", "loading",
    "measurements",
)  # fmt: skip


def add_other(folder: Path) -> None:
    """It reports from ports of its own, three times the tuples, begins later, restarts elsewhere and goes on longer."""
    for file in sorted((folder / "workers").iterdir()):
        machine, port = file.stem.split("-")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        others = [_line_of_other(line, int(port) + 10, seq) for seq, line in enumerate(lines[20:])]
        records.write_lines(folder / "workers" / f"{machine}-{int(port) + 10}.jsonl", others)
    decisions = folder / "decisions.jsonl"
    rounds = [json.loads(line) for line in decisions.read_text().splitlines()]
    for number, each in enumerate(rounds):
        (own,) = each["request"]["topologies"]
        placement = {task: f"m{1 + (int(task) + number) % 4}:6710" for task in list(own["placement"])[number % 3 :]}
        other = own | {"id": OTHER, "name": "page_load", "placement": placement, "rebalancing": number % 2 == 0}
        each["request"]["topologies"] = [other, own]
    records.write_lines(decisions, rounds)


def _line_of_other(line: dict[str, Any], port: int, seq: int) -> dict[str, Any]:
    again = line["t"] > records.START + 1000 + 60
    line |= {"topology": OTHER, "port": port, "pid": 9000 + again, "seq": seq, "t": line["t"] + 25}
    for group in ("tasks", "streams", "sources", "sinks", "spouts"):
        for name in ("emitted", "executed", "queue", "n", "sum_ms", "due"):
            if name in line.get(group, {}):
                line[group][name] = [3 * n for n in line[group][name]]
    if "sinks" in line:
        line["sinks"]["counts"] = [[3 * n for n in counts] for counts in line["sinks"]["counts"]]
    return line


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    found = [row for row in small_tables.rows(SeriesPaths(root), name) if row["run_id"] == RUN]
    return sorted(found, key=lambda row: tuple(str(row[column]) for column in TABLES[name].key))


def test_metrics_are_those_of_the_runs_own_topology(
    golden_series: GoldenSeries, spark: "SparkSession", tmp_path: Path
) -> None:
    series = tmp_path / golden_series.root.name
    shutil.copytree(golden_series.root / "runs" / RUN, series / "runs" / RUN)
    add_other(series / "runs" / RUN)
    tables.build_tables(spark, series)
    build.build_metrics(spark, series)
    reported = tables.read(spark, SeriesPaths(series), "task_samples").select("topology").distinct().collect()
    assert {row["topology"] for row in reported} == {records.TOPOLOGY, OTHER}
    for name in METRICS:
        alone, beside = rows(golden_series.root, name), rows(series, name)
        assert alone, name
        assert [_rounded(row) for row in beside] == [_rounded(row) for row in alone], name


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Sums of floats depend on their order."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
