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


def test_a_table_without_rows_is_there(tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    small_tables.write(paths, "downtime", [])
    assert small_tables.rows(paths, "downtime") == [] and list(paths.table("downtime").glob("*.parquet"))
