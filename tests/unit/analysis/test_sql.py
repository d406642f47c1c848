"""`barograph sql` as far as it goes without Spark: the tables' columns, what is refused, how rows are shown."""

import csv
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from analysis import sql
from analysis.record.schemas import TABLES
from barograph import cli
from barograph.cli import sql as cli_sql
from barograph.errors import ConfigurationError, ExperimentError
from tests.support.series_by_hand import cut_short, write_series


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "RESULTS", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / name.lower()))


def test_every_table_and_column_has_a_meaning_and_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", "--describe", "all"]) == 0
    screen = capsys.readouterr().out
    for name, table in TABLES.items():
        names = [column.name for column in table.columns]
        assert table.name == name and table.meaning and len(set(names)) == len(names)
        assert table.key and set(table.key) <= set(names), "the key is of declared columns"
        assert cli.main(["sql", "--describe", name]) == 0
        text = capsys.readouterr().out
        lines = {line.split()[0]: line for line in text.splitlines()[4:]}
        assert list(lines) == names and text in screen
        for column in table.columns:
            assert column.meaning and column.type
            for cell in (column.type, column.unit, column.meaning, column.null_when):
                assert cell in lines[column.name], "no cell is cut"


@pytest.mark.parametrize(
    "query",
    [
        "select 1", "  SELECT *\nFROM runs ;", "with a as (select 1) select * from a", "(select 1) union (select 2)",
        "-- what it is for\nselect 1", "/* many\nlines */ values (1)", "table runs",
    ],
)  # fmt: skip
def test_what_reads_is_a_query(query: str) -> None:
    assert not sql.require_query(query).endswith(";")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("drop table runs", "begins with 'drop'"), ("insert into runs values (1)", "begins with 'insert'"),
        ("set x = 1", "begins with 'set'"), ("", "is empty"), (" ; ", "is empty"), ("-- select 1", "is empty"),
        ("selects 1", "begins with 'selects'"), ("/* select */ delete from runs", "begins with 'delete'"),
    ],
)  # fmt: skip
def test_what_writes_is_none(query: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        sql.require_query(query)


def test_where_tables_are(tmp_path: Path) -> None:
    root = write_series(tmp_path / "stela" / "star" / "20260101-000000-aa", "stela/star", {"stela": 1.0})
    (root / "tables" / "empty.parquet").mkdir()
    stored = sql.tables_on_disk(root)
    assert stored is not None
    assert (stored.experiment, stored.series_id) == ("stela/star", "20260101-000000-aa")
    assert stored.names == {"runs", "zeros", "throughput", "convergence", "intervals", "downtime"}
    assert Path(stored.table("runs")).is_dir()
    assert sql.tables_on_disk(tmp_path / "stela") is None


def test_a_series_whose_table_cannot_be_read_is_told_and_the_others_are_asked(tmp_path: Path) -> None:
    stored = []
    for name in ("20260101-000000-aa", "20260102-000000-bb"):
        root = write_series(tmp_path / "stela" / "star" / name, "stela/star", {"stela": 1.0})
        stored += [sql.tables_on_disk(root)]
    cut_short(root, "runs")
    notes: list[str] = []
    readable = [each for each in stored if sql._is_readable(None, each, "runs", notes.append)]  # type: ignore[arg-type]
    assert [each.series_id for each in readable] == ["20260101-000000-aa"]
    (note,) = notes
    assert note.startswith("left out: stela/star/20260102-000000-bb/tables/runs.parquet cannot be read: ")


ROWS = [("stela", 1.23456789, 3, None, ["a", "b"]), ("x" * 70, 12345678.0, -1, True, None)]
NAMES = ("name", "rate", "n", "ok", "list")


def test_a_table_is_aligned_and_cells_that_were_cut_show_it() -> None:
    lines = "".join(cli_sql.as_table(NAMES, iter(ROWS))).splitlines()
    assert lines[0].split() == ["name", "rate", "n", "ok", "list"]
    assert lines[2].split() == ["stela", "1.23457", "3", "null", '["a",', '"b"]']
    assert lines[3].startswith("x" * 59 + "…  ") and "12345678.0  -1  true  null" in lines[3]
    assert {line.index("  ") > 0 for line in lines} == {True} and len(lines) == 4
    assert lines[2].index("1.23457") + len("1.23457") == lines[3].index("12345678.0") + len("12345678.0")
    assert "".join(cli_sql.as_table(["n"], iter([]))) == "n\n-\n"


def test_csv_and_json_have_values_whole() -> None:
    read = list(csv.reader(io.StringIO("".join(cli_sql.as_csv(NAMES, iter(ROWS))))))
    assert read[0] == list(NAMES)
    assert read[1] == ["stela", "1.23456789", "3", "", '["a", "b"]']
    parsed = json.loads("".join(cli_sql.as_json(NAMES, iter(ROWS))))
    assert parsed[1] == {"name": "x" * 70, "rate": 12345678.0, "n": -1, "ok": True, "list": None}
    assert json.loads("".join(cli_sql.as_json(["a"], iter([])))) == []
    odd = json.loads("".join(cli_sql.as_json(["a", "b"], iter([(math.inf, Decimal("1.5"))]))))
    assert odd == [{"a": "inf", "b": 1.5}]


BAD = [
    ([], 'give a query: barograph sql "select …"'),
    (["drop table runs"], "begins with 'drop'; tables are only read"),
    (["--describe", "thruput"], "no table 'thruput'; did you mean throughput? there are worker_lines, runs, "),
    (["select 1"], "there are no results yet; barograph run EXPERIMENT makes some"),
    (["select 1", "--experiment", "stela/sun"], "no series of 'stela/sun'; there are series of nothing"),
    (["select 1", "--series", "nothing"], "no series 'nothing'"),
    (["select 1", "--limit", "0"], "--limit is 0; give 1 or more"),
    (["select 1", "--to", "answer.csv"], "--to answer.csv does not end in .parquet"),
    (["select 1", "--to", "/no/such/folder/a.parquet"], "there is no folder /no/such/folder; make it"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_what_cannot_be_asked_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sql", *arguments]) == 2
    screen = capsys.readouterr()
    assert screen.err.startswith("configuration: ") and said in screen.err and screen.err.count("\n") == 1
    assert screen.out == ""


def test_an_answer_writes_over_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a.parquet"
    target.touch()
    assert cli.main(["sql", "select 1", "--to", str(target)]) == 2
    assert "exists; nothing is overwritten" in capsys.readouterr().err


def test_series_that_nobody_analysed_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results" / "stela" / "star" / "20260101-000000-aa"
    folder.mkdir(parents=True)
    (folder / "series.json").write_text("{}")
    assert cli.main(["sql", "select 1"]) == 2
    assert "none of 1 series (here) is analysed; barograph report SERIES does it" in capsys.readouterr().err


def test_simulated_rows_never_stand_among_measured_ones(tmp_path: Path) -> None:
    ids = {"local": "20260101-000000-aa", "simulated": "20260102-000000-bb", "ec2": "20260103-000000-cc"}
    folders = {name: tmp_path / "results" / "stela" / "star" / series_id for name, series_id in ids.items()}
    for name, folder in folders.items():
        folder.mkdir(parents=True)
        (folder / "series.json").write_text(json.dumps({"v": 1, "spec": {"testbed": {"name": name}}}))
    notes: list[str] = []

    def chosen(**asked: str) -> list[Path]:
        nothing: dict[str, Any] = {"series": None, "experiment": None}
        notes.clear()
        request = cli_sql.SqlRequest("select 1", format="table", to=None, limit=None, **(nothing | asked))
        return cli_sql._select_series(request, notes.append)[1]

    assert chosen() == chosen(experiment="stela/star") == [folders["local"], folders["ec2"]]
    assert notes == ["1 simulated series is left out; --testbed simulated asks it"]
    assert chosen(testbed="simulated") == [folders["simulated"]] and notes == []
    assert chosen(series="stela/star") == [folders["ec2"]] and notes == []
    assert chosen(series=ids["simulated"]) == [folders["simulated"]]
    assert notes == [f"{ids['simulated']} is simulated"]
    for name in ("local", "ec2"):
        (folders[name] / "series.json").unlink()
    with pytest.raises(ExperimentError, match="1 simulated series is left out, and no other is there; add --testbed"):
        chosen()
