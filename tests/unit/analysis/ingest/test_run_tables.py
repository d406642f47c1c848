"""The tables that come from run.json, for runs that were cut short too."""

import json
from pathlib import Path

from analysis.ingest import run_tables
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import rows
from tests.support.series_by_hand import TOPOLOGY


def written(root: Path, **changes: object) -> SeriesPaths:
    paths = SeriesPaths(root)
    run = paths.run("stela-r1").create()
    run.run_json.write_text(json.dumps({"v": 1, "run_id": "stela-r1", "topology": TOPOLOGY} | changes))
    run_tables.write(paths, paths.all_runs())
    return paths


def test_a_run_that_was_cut_short_has_no_topology_yet(tmp_path: Path) -> None:
    paths = written(tmp_path, status="incomplete", topology=None, machines=None, phases=None)
    assert [row["status"] for row in rows(paths, "runs")] == ["incomplete"]
    assert [rows(paths, name) for name in ("components", "edges", "phases", "machines")] == [[]] * 4


def test_a_row_a_task_an_edge_and_a_machine(tmp_path: Path) -> None:
    machines = {"m1": {"type": "type_1", "cores": 0.25, "slots": 4, "joins_at_scale": True}}
    paths = written(tmp_path, status="complete", machines=machines, clock_offset_ms={"m1": 2})
    assert [(row["task"], row["component"]) for row in rows(paths, "components")] == [
        (3, "sink"), (4, "sink"), (1, "spout"), (2, "spout"),
    ]  # fmt: skip
    assert [(row["source"], row["target"]) for row in rows(paths, "edges")] == [("spout", "sink")]
    (machine,) = rows(paths, "machines")
    assert (machine["joins_at_scale"], machine["clock_offset_ms"], machine["memory_mb"]) == (True, 2.0, None)
