"""Small tables are replaced as wholes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.errors import RecordError
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from tests.support.series_by_hand import cut_short, drop_column

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


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut short": (lambda root: cut_short(root, "downtime"), r"downtime.parquet cannot be read: .*footer.*; "),
    "empty": (lambda root: first_file(root).write_bytes(b""), r"downtime.parquet cannot be read: .*0 bytes.*; "),
    "a column less": (lambda root: drop_column(root, "downtime", "run_id"), r"downtime.parquet has no column run_id; "),
}


def first_file(root: Path) -> Path:
    return next((root / "tables" / "downtime.parquet").glob("*.parquet"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_table_is_named_with_what_is_wrong_and_what_to_do(tmp_path: Path, damage: str) -> None:
    root = tmp_path / "stela" / "star" / "20261121-000000-a"
    small_tables.write(SeriesPaths(root), "downtime", ROWS)
    needed = ["downtime", "runs"]  # there is no table `runs`
    small_tables.check(SeriesPaths(root), needed)
    make, said = DAMAGES[damage]
    make(root)
    with pytest.raises(RecordError, match=rf"^stela/star/20261121-000000-a/tables/{said}.*`barograph report`"):
        small_tables.check(SeriesPaths(root), needed)
    with pytest.raises(RecordError, match=rf"^stela/star/20261121-000000-a/tables/{said}"):
        small_tables.rows(SeriesPaths(root), "downtime")


def test_of_several_files_each_is_looked_at(tmp_path: Path) -> None:
    small_tables.write(SeriesPaths(tmp_path), "downtime", ROWS)
    shutil.copy(first_file(tmp_path), first_file(tmp_path).with_name("part-1.parquet"))
    small_tables.check(SeriesPaths(tmp_path), ["downtime"])
    first_file(tmp_path).with_name("part-1.parquet").write_bytes(b"PAR1")
    with pytest.raises(RecordError, match=r"downtime\.parquet cannot be read"):
        small_tables.check(SeriesPaths(tmp_path), ["downtime"])


def test_a_text_that_is_none_is_damage(tmp_path: Path) -> None:
    """Arrow reads a column of texts without looking whether they are UTF-8."""
    root = tmp_path / "stela" / "star" / "20261121-000000-a"
    small_tables.write(SeriesPaths(root), "downtime", ROWS)
    file = first_file(root)
    table = pq.read_table(file)
    wrong = pa.array([b"r\xff"] * table.num_rows).cast(pa.string(), safe=False)
    pq.write_table(table.set_column(table.schema.get_field_index("run_id"), "run_id", wrong), file)
    with pytest.raises(RecordError, match=r"downtime\.parquet cannot be read"):
        small_tables.rows(SeriesPaths(root), "downtime")
