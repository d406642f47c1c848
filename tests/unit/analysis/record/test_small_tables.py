"""Small tables are replaced as wholes."""

from pathlib import Path

import pytest

from analysis.record import small_tables
from analysis.record.files import SeriesPaths

ROWS = [{"run_id": f"r{number}", "downtime_s": float(number)} for number in range(5)]


def test_a_table_stays_as_it_was_until_the_new_one_is_whole(tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    small_tables.write(paths, "downtime", ROWS[:2])
    before = small_tables.rows(paths, "downtime")
    with pytest.raises(KeyboardInterrupt), small_tables.replacement(paths, "downtime") as add:  # noqa: PT012
        add(ROWS)
        assert small_tables.rows(paths, "downtime") == before
        raise KeyboardInterrupt
    assert small_tables.rows(paths, "downtime") == before
    assert [each.name for each in paths.tables.iterdir()] == ["downtime.parquet"]


def test_rows_are_added_in_parts_and_read_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_tables, "CHUNK_ROWS", 2)
    paths = SeriesPaths(tmp_path)
    with small_tables.replacement(paths, "downtime") as add:
        add(ROWS[:3])
        add(ROWS[3:])
    assert [row["downtime_s"] for row in small_tables.rows(paths, "downtime")] == [0.0, 1.0, 2.0, 3.0, 4.0]
    (row,) = small_tables.rows(paths, "downtime", runs=["r3", "none"])
    assert (row["run_id"], row["downtime_s"], row["event_id"]) == ("r3", 3.0, None)


def test_rows_of_one_topology_are_those_that_name_it(tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    assert small_tables.topologies(paths) == () and small_tables.cluster(paths) is None
    named = [{"run_id": "r1", "topology": name, "position": i} for i, name in enumerate(("b", "a"), 1)]
    small_tables.write(paths, "topologies", named)
    assert small_tables.topologies(paths) == ("b", "a", "all") and small_tables.cluster(paths) == "all"
    small_tables.write(paths, "downtime", [row | {"topology": name} for row in ROWS[:2] for name in ("a", "all")])
    small_tables.write(paths, "machines", [{"run_id": "r1", "machine": "m1"}])
    found = small_tables.rows(paths, "downtime", runs=["r1"], topology="a")
    assert [(row["run_id"], row["topology"]) for row in found] == [("r1", "a")]
    assert len(small_tables.rows(paths, "machines", topology="a")) == 1, "which is of no topology"
    small_tables.write(paths, "topologies", [named[0], named[1] | {"run_id": "r2", "position": 1}])
    assert small_tables.topologies(paths) == (), "each run has one"


def test_a_table_without_rows_is_there(tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    small_tables.write(paths, "downtime", [])
    assert small_tables.rows(paths, "downtime") == [] and list(paths.table("downtime").glob("*.parquet"))
