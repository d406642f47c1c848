"""Logs of Henge's authors: lines written by hand in their formats end in the tables of service and actions."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis.ingest import readers, tables
from analysis.ingest.readers import henge
from analysis.metrics.build import build_metrics
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from barograph.errors import ConfigurationError

BEGIN_MS = 1_480_000_000_000
MAX_DOUBLE = "1.7976931348623157E308"
A, B = "star_ill-1-1480000000", "line-2-1480000001"


def reading(topology: str, second: float, juice: float, average: float, *more: Any) -> str:
    return ",".join(map(str, (topology, juice, average, *more, BEGIN_MS + round(1000 * second))))


def ten(topology: str, second: float, juice: float, average: float, utility: float) -> str:
    return reading(topology, second, juice, average, 0.0, utility, 5.0, MAX_DOUBLE, 200, 180)


def log() -> list[str]:
    """Of 150 s: `line` is rebalanced after 60 s, `star_ill` reduced after 90 and reverted after 120 s."""
    lines, juices = [], {A: [], B: []}  # type: ignore[var-annotated]
    for second in range(0, 160, 10):
        for topology, juice in ((A, 1.0), (B, 0.5 if second <= 60 else 1.0)):
            juices[topology].append(juice)
            average = sum(juices[topology]) / len(juices[topology])
            lines.append(ten(topology, second, juice, average, 5 * average))
        if second == 60:
            lines += ["/var/nimbus/storm/bin/storm rebalance line -w 0  -e bolt_1=10 -e bolt_2=4",
                      str(BEGIN_MS + 61_000)]  # fmt: skip
            juices[B] = []
        if second == 90:
            lines += ["Reduction", "/var/nimbus/storm/bin/storm rebalance star_ill -w 0  -e center=2"]
            juices[A] = []
        if second == 120:
            lines += ["Reverting", f"{A[:8]} not of the format", "storm rebalance star_ill -e center=5 -e sink=1",
                      str(BEGIN_MS + 122_500), "Running observer at: 1480000122501"]  # fmt: skip
            juices[A] = []
    lines[lines.index(ten(A, 150, 1.0, 1.0, 5.0))] = ten(A, 150, 1.0, 0.9, 4.5)  # an average that is not ours
    return lines


@pytest.mark.parametrize(
    ("line", "group"),
    [
        (f"{A},0.5,{BEGIN_MS}", "id"), (reading(A, 0, 0.5, 0.5), "id"), (reading(A, 0, 0.5, 0.5, *"12345678"), "id"),
        (f"{A},NaN,0.0,{BEGIN_MS}", "id"), ("/x/storm rebalance a -w 0 -e b=3", "command"),
        ("/x/storm henge-rebalance a -e b=3 xyz c -e d=1", "command"), (str(BEGIN_MS), "time_ms"),
        ("Reverting", "mark"),
        (f"Rebalance at time:  {BEGIN_MS}", "rebalance_ms"), (f"{A} bolt_1 0.638 {BEGIN_MS}", "capacity"),
        ("Not choosing star-1-1480000000", None), ("pc529.emulab.net 3.84 3.57", "damaged"),
        (f"{A},0.5,oops,{BEGIN_MS}", "damaged"), (f"{A},0.5,0.5,14800", "damaged"),
    ],
)  # fmt: skip
def test_what_a_line_is(line: str, group: str | None) -> None:
    import re

    match = re.search(henge.PATTERN, line)
    assert (match is None) == (group == "damaged")
    if match is not None and group is not None:
        assert match.group(1 + henge.GROUPS.index(group))


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[SeriesPaths, list[str]]:
    folder, said = tmp_path_factory.mktemp("logs") / "mix_1", list[str]()
    folder.mkdir()
    (folder / "output.log").write_text("\n".join(log()) + "\n")
    (folder / "capacity.log").write_text(
        "".join(
            f"{B} bolt_1 {capacity} {BEGIN_MS + ms}\n"
            for ms, capacity in ((30_000, 0.2), (60_500, 0.638), (62_000, 0.1))
        )
    )
    other = folder.parent / "older"
    other.mkdir()
    latencies = [reading(A, 10 * n, 0.5, 0.5, 821.55 if n else 0.0, 420, 140) for n in range(20)]
    (other / "output.log").write_text("\n".join([*latencies, reading(A, 191, 1.0, 0.5, 821.55, 0, 0)]))
    (other / "output.log.yaml").write_text("latency_ms: 410.775\nmax_utility: 8\n")
    files = [folder / "output.log", folder / "capacity.log", other / "output.log"]
    root = readers.read(
        "henge", files, tmp_path_factory.mktemp("results"), name="old/henge", spark=spark, say=said.append
    )
    tables.build_tables(spark, root)
    build_metrics(spark, root)
    return SeriesPaths(root), said


def of(paths: SeriesPaths, table: str, run: str, topology: str) -> list[dict[str, Any]]:
    rows = small_tables.rows(paths, table, runs=[run], topology=topology)
    return sorted(rows, key=lambda row: (row.get("window_s") or 0.0, row.get("t_s") or 0.0, row.get("component") or ""))


@pytest.mark.spark
def test_readings_are_windows_of_service(series: tuple[SeriesPaths, list[str]]) -> None:
    rows = of(series[0], "service", "mix_1", "line")
    utilities = {row["window_s"]: row["utility"] for row in rows}
    assert utilities == {10.0 * n: 2.5 if n <= 6 else 5.0 for n in range(16)}, "of the reading at its end"
    assert {row["window_s"]: row["juice"] for row in rows}[80.0] == pytest.approx((4 * 0.5 + 2 * 1.0) / 6)
    assert {row["latency_ms"] for row in rows} == {None} and {row["met"] for row in rows} == {False, True}
    total = {row["window_s"]: row["utility"] for row in of(series[0], "service", "mix_1", "all")}
    assert (total[20.0], total[100.0], total[150.0]) == (7.5, 10.0, 9.5)


@pytest.mark.spark
def test_without_a_utility_in_the_log_it_is_that_of_the_level(series: tuple[SeriesPaths, list[str]]) -> None:
    """0 ms is no latency; the last reading repeats the one before it a second later."""
    rows = of(series[0], "service", "older", "star_ill")
    assert [row["utility"] for row in rows] == [None] + [pytest.approx(4.0)] * 19
    assert {row["juice"] for row in rows} == {0.5}
    (number,) = [row["value"] for row in small_tables.rows(series[0], "measurements", runs=["older"])
                 if row["metric"] == "met_percent_after"] or [None]  # fmt: skip
    assert number is None, "of one window nothing is known"


@pytest.mark.spark
def test_commands_are_actions(series: tuple[SeriesPaths, list[str]]) -> None:
    columns = ("t_s", "kind", "component", "executors_before", "executors_after", "tasks_moved", "workers_restarted")
    found = {name: [tuple(row[column] for column in columns) for row in of(series[0], "actions", "mix_1", name)]
             for name in ("line", "star_ill")}  # fmt: skip
    at = BEGIN_MS / 1000
    assert found["line"] == [
        (at + 61, "reconfigure", "", None, 14, None, None), (at + 61, "reconfigure", "bolt_1", None, 10, None, None),
        (at + 61, "reconfigure", "bolt_2", None, 4, None, None),
    ]  # fmt: skip
    assert [row[:5] for row in found["star_ill"]] == [
        (at + 100, "reduce", "", None, 2), (at + 100, "reduce", "center", None, 2),
        (at + 122.5, "revert", "", None, 6), (at + 122.5, "revert", "center", 2, 5),
        (at + 122.5, "revert", "sink", None, 1),
    ]  # fmt: skip
    reasons = {row["reason"] for row in small_tables.rows(series[0], "decisions", runs=["mix_1"])}
    assert "reconfigure: line: bolt_1 ?→10 (capacity 0.638), bolt_2 ?→4" in reasons
    costs = {row["topology"]: (row["rounds"], row["actions"]) for row in small_tables.rows(series[0], "costs")
             if row["run_id"] == "mix_1"}  # fmt: skip
    assert costs == {"line": (None, 1), "star_ill": (None, 2), "all": (None, 3)}


@pytest.mark.spark
def test_what_was_read_is_said(series: tuple[SeriesPaths, list[str]]) -> None:
    said = {line.split()[1]: line for line in series[1]}
    assert "2 topologies, 32 readings of 10 columns; actions: 1 reconfigure, 1 reduce, 1 revert;" in said["mix_1:"]
    assert "1 of 32 average juices differ" in said["mix_1:"] and "by up to 0.1" in said["mix_1:"]
    damaged = {row["run_id"]: (row["damaged"], row["first_damaged"]) for row in small_tables.rows(series[0], "damaged")
               if row["kind"] == "reading" and row["damaged"]}  # fmt: skip
    assert damaged == {"mix_1": (1, "star_ill not of the format")}
    facts = json.loads((series[0].run("mix_1").run_json).read_text())["harness_facts"]
    assert facts["lines_damaged"] == 1


@pytest.mark.spark
def test_a_run_without_readings_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "only" / "capacity.log"
    file.parent.mkdir()
    file.write_text(f"{B} bolt_1 0.2 {BEGIN_MS}\n")
    with pytest.raises(ConfigurationError, match="run 'only': no reading in any of its lines"):
        readers.read("henge", [file], tmp_path / "results", name="old/henge", spark=spark)
