"""The decision log: the policy service and the golden series write the same line, and the analysis reads the fields
that are in it.
"""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from analysis.ingest import tables
from analysis.ingest.tables import LINES
from analysis.record.event_timeline import read_timeline
from analysis.record.files import RunPaths
from scheduler_plugins.replay import ablate, read_rounds
from scheduler_plugins.service.state import ServiceState
from tests.golden import records
from tests.support.rounds import PLACED, line, request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHDRAWAL = "withdrawn"  # only of a round that takes a decision back
OF_OTHERS = ("decision_id", "policy")  # below `decision` in logs that the service did not write


def real_log(folder: Path) -> Path:
    """Placed; an event whose first answer is lost on its way, and that is decided again."""
    now = [1000.0]
    state = ServiceState(folder, lambda: now[0])
    state.configure({"run_id": "stela-r1", "policy": "stela", "window_s": 30})
    state.schedule(request(1000.0) | {"last_decision": None})
    placed = request(1002.0, PLACED, machines=3)
    state.schedule(placed | {"last_decision": "d1"})
    state.applied({"decision_id": "d1", "topology": "star-1-1000", "t": 1001.0, "ok": True})
    for second in range(20):
        t = 1002.5 + second
        state.take_samples([line(t, "m1", {"spout": (100, 0), "centre": (50, 50)}), line(t, "m2", {"sink": (0, 50)})])
    state.scale({"event_id": "e1", "kind": "scale_out", "joined": ["m3"]})
    for second in (22.0, 24.0):
        now[0] = 1000 + second
        state.schedule(placed | {"t": now[0], "last_decision": "d1"})
    state.schedule(placed | {"t": now[0], "last_decision": "d3"})
    return state.log_path


def real_lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in real_log(folder).read_text().splitlines()]


def test_a_round_names_its_decision_and_who_decided_beside_the_decision(tmp_path: Path) -> None:
    lines = real_lines(tmp_path)
    assert [(line["decision_id"], line["policy"], line.get(WITHDRAWAL)) for line in lines] == [
        ("d1", "stela", None), (None, "stela", None), ("d2", "stela", None), ("d3", "stela", "d2"),
        (None, "stela", None),
    ]  # fmt: skip


def test_the_golden_series_has_the_line_of_the_service(tmp_path: Path) -> None:
    real = real_lines(tmp_path)[0]
    golden = records.decision_line(records.runs()[0], 5, records.BEFORE, False)
    assert set(golden) == set(real) and set(golden["decision"]) == {*real["decision"], "memory"}


def test_every_field_that_is_read_of_a_round_is_written() -> None:
    """All names of the declared schema, at whatever depth."""
    names = set(re.findall(r"(\w+)[: ](?:struct|array|map|string|double|boolean|int)", LINES["decision"]))
    assert {"decision_id", "policy", "request", "placement", "reason"} <= names
    written = set(_keys(records.decision_line(records.runs()[0], 5, records.BEFORE, False)))
    assert names - written == {WITHDRAWAL}


def _keys(data: Any) -> set[str]:
    if isinstance(data, dict):
        return set(data).union(*map(_keys, data.values()))
    return set().union(*map(_keys, data)) if isinstance(data, list) else set()


@pytest.mark.spark
def test_the_table_has_the_decisions_that_reached_nimbus(tmp_path: Path, spark: "SparkSession") -> None:
    folder = tmp_path / "runs" / "stela-r1"
    folder.mkdir(parents=True)
    log = real_log(folder)
    rows = tables.decisions(tables.read_lines(spark, "decision", [log])).orderBy("t_s").collect()
    assert [(row["run_id"], row["decision_id"], row["policy"]) for row in rows] == [
        ("stela-r1", "d1", "stela"), ("stela-r1", "d3", "stela"),
    ]  # fmt: skip
    assert all(row["reason"] for row in rows)


@pytest.mark.spark
def test_how_long_a_simulated_round_took_is_null_in_the_table(tmp_path: Path, spark: "SparkSession") -> None:
    simulated, measured = (real_lines(tmp_path)[0] | {"duration_ms": value} for value in (None, 0.5))
    log = tmp_path / "runs" / "stela-r1" / "decisions.jsonl"
    log.parent.mkdir(parents=True)
    records.write_lines(log, [each | {"decision_id": f"d{n}"} for n, each in enumerate((simulated, measured))])
    rows = tables.decisions(tables.read_lines(spark, "decision", [log])).orderBy("decision_id").collect()
    assert [row["duration_ms"] for row in rows] == [None, 0.5]


def test_on_a_simulated_clock_nobody_knows_how_long_a_round_takes(tmp_path: Path) -> None:
    state = ServiceState(tmp_path, lambda: 1000.0, is_simulated=True)
    state.configure({"run_id": "even-r1", "policy": "even"})
    state.schedule(request(1000.0))
    assert json.loads(state.log_path.read_text())["duration_ms"] is None


@pytest.mark.spark
def test_a_log_whose_decision_has_its_id_is_read_too(tmp_path: Path, spark: "SparkSession") -> None:
    folder = tmp_path / "runs" / "stela-r1"
    folder.mkdir(parents=True)
    for each in (log := real_lines(tmp_path)):
        each["decision"] |= {name: each.pop(name) for name in OF_OTHERS}
    records.write_lines(folder / "decisions.jsonl", log[:1])
    (row,) = tables.decisions(tables.read_lines(spark, "decision", [folder / "decisions.jsonl"])).collect()
    assert (row["decision_id"], row["policy"]) == ("d1", "stela")


def test_a_decision_that_was_taken_back_settles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "stela-r1"
    folder.mkdir(parents=True)
    log = real_log(folder)
    assert [each.line["decision_id"] for each in read_timeline(RunPaths(folder)).rounds] == ["d3"]
    assert {row["t"] for row in ablate(read_rounds(log))} == {1024.0}
