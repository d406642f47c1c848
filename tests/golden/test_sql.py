"""`barograph sql` on the golden series: views of several series, older ones too, and what Spark says in one line."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from analysis import sql
from analysis.record.schemas import TABLES
from analysis.sql import SeriesTables
from barograph.errors import ConfigurationError
from tests.golden.series import GoldenSeries

pytestmark = pytest.mark.spark
# What a path may hold and a URL would not.
ODD = "odd +%2B name"


@pytest.fixture(scope="module")
def results(golden_series: GoldenSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden series, and one with a table less and a column less."""
    root = tmp_path_factory.mktemp("results") / ODD
    for series in ("20260101-000000-aaaaaaaa", "20260102-000000-bbbbbbbb"):
        folder = root / "stela" / "star" / series
        folder.mkdir(parents=True)
        shutil.copytree(golden_series.root / "tables", folder / "tables")
        (folder / "series.json").write_text(json.dumps({"v": 1, "series_id": series, "experiment": "stela/star"}))
    shutil.rmtree(folder / "tables" / "moves.parquet")
    (part,) = (folder / "tables" / "phases.parquet").glob("*.parquet")
    pq.write_table(pq.read_table(part).drop_columns(["planned_s"]), part)
    return root


@pytest.fixture(scope="module")
def stored(results: Path) -> Sequence[SeriesTables]:
    found = [sql.tables_on_disk(path.parent) for path in sorted(results.glob("*/*/*/series.json"))]
    return [one for one in found if one is not None]


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def ask(golden_series: GoldenSeries, stored: Sequence[SeriesTables], notes: list[str]) -> Iterator["Ask"]:
    yield Ask(golden_series, stored, notes)
    for name in TABLES:
        golden_series.spark.catalog.dropTempView(name)


class Ask:
    def __init__(self, golden_series: GoldenSeries, stored: Sequence[SeriesTables], notes: list[str]) -> None:
        self._spark, self._stored, self._notes = golden_series.spark, stored, notes

    def __call__(self, query: str) -> list[tuple[object, ...]]:
        sql.open_views(self._spark, query, self._stored, self._notes.append)
        return [tuple(row) for row in sql.stream_rows(sql.run_query(self._spark, query), None)]


def test_every_table_is_a_view_of_all_series(golden_series: GoldenSeries, stored: Sequence[SeriesTables]) -> None:
    for name in TABLES:
        having = [one for one in stored if one.has(name)]
        frame = sql.view(golden_series.spark, name, having, lambda _note: None)
        own = [column.name for column in TABLES[name].columns if column.name not in sql.SERIES]
        assert frame.columns == ["experiment", "series_id", *own], name
        types = dict(frame.dtypes)
        expected = dict(golden_series.spark.createDataFrame([], TABLES[name].ddl).dtypes)
        assert {column: types[column] for column in own} == {column: expected[column] for column in own}, name


def test_rows_tell_their_series_wherever_it_lies(ask: "Ask", golden_series: GoldenSeries, notes: list[str]) -> None:
    found = ask("select experiment, series_id, count(*), sum(rate) from throughput group by 1, 2 order by 2")
    rows = golden_series.rows("throughput")
    total = pytest.approx(sum(row["rate"] or 0 for row in rows))
    assert found == [
        ("stela/star", "20260101-000000-aaaaaaaa", len(rows), total),
        ("stela/star", "20260102-000000-bbbbbbbb", len(rows), total),
    ]
    assert notes == []


def test_runs_without_a_readable_record_have_a_series_too(ask: "Ask") -> None:
    found = ask("select distinct experiment, series_id from runs where run_id = 'even_rebalance-r4' order by 2")
    assert found == [("stela/star", "20260101-000000-aaaaaaaa"), ("stela/star", "20260102-000000-bbbbbbbb")]


def test_a_table_that_an_older_series_lacks_is_told(ask: "Ask", notes: list[str]) -> None:
    assert ask("select distinct series_id from moves") == [("20260101-000000-aaaaaaaa",)]
    assert notes == ["moves: no such table in 1 of 2 series (20260102-000000-bbbbbbbb); left out"]


def test_a_table_of_another_version_is_left_out(ask: "Ask", notes: list[str]) -> None:
    assert ask("select distinct series_id from phases") == [("20260101-000000-aaaaaaaa",)]
    (note,) = notes
    assert note.startswith("left out: stela/star/20260102-000000-bbbbbbbb/tables/phases.parquet has no column")


def test_tables_are_joined_on_series_and_run(ask: "Ask") -> None:
    (row,) = ask(
        "select r.variant, count(*), round(avg(m.value), 1) from runs r join measurements m using (series_id, run_id)"
        " where m.metric = 'throughput_after' and r.status = 'complete' and r.variant = 'stela' group by 1"
    )
    assert row[:2] == ("stela", 6) and 155 < float(str(row[2])) < 165


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from thruput", r"no table 'thruput'; did you mean throughput\? there are worker_lines, runs, "),
        ("select rat from throughput", "no column 'rat' in the tables asked; is it one of "),
        ("select ( from runs", "PARSE_SYNTAX_ERROR"),
        ("select 1 / 0", "DIVIDE_BY_ZERO"),
        ("select cast(variant as int) from runs", "CAST_INVALID_INPUT"),
        ("select run_id, count(*) from runs", "MISSING_GROUP_BY|MISSING_AGGREGATION"),
        ("with a as (select 1 as x) insert into runs select * from a", "writes; tables are only read|SYNTAX"),
        ("select * from parquet.`/no/such/file`", "PATH_NOT_FOUND"),
    ],
)
def test_an_error_of_sql_is_one_line(ask: "Ask", query: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        ask(query)
    assert "\n" not in str(caught.value) and "stacktrace" not in str(caught.value)


def command(
    results: Path, folder: Path, *arguments: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    own = {"BAROGRAPH_RESULTS": str(results), "BAROGRAPH_STATE": str(folder / "state")}
    environment = {**os.environ, **own, **(variables or {})}
    argv = [sys.executable, "-m", "barograph", "sql", *arguments]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, cwd=folder)


def test_the_command_shows_some_rows_and_says_that_there_are_more(
    results: Path, tmp_path: Path, spark_variables: dict[str, str]
) -> None:
    query = "select series_id, window_s, rate from throughput where scope = 'total' order by 1, 2, 3"
    done = command(results, tmp_path, query, "--limit", "3", variables=spark_variables)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["series_id", "window_s", "rate"] and len(lines) == 5
    assert done.stderr.endswith(
        "only the first 3 rows are shown; --limit N shows more, --format csv or --to FILE.parquet has all\n"
    )
    assert not (tmp_path / "spark-warehouse").exists() and not list(tmp_path.glob("*.db"))


def test_the_command_writes_one_parquet_file(results: Path, tmp_path: Path, spark_variables: dict[str, str]) -> None:
    target = tmp_path / "an answer.parquet"
    done = command(results, tmp_path, "select series_id, run_id from runs", "--to", str(target),
                   "--series", "20260102-000000-bbbbbbbb", variables=spark_variables)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(pq.read_table(target)["series_id"].to_pylist()) == {"20260102-000000-bbbbbbbb"}
    assert [path.name for path in tmp_path.iterdir() if path.name != "state"] == [target.name]


def test_the_command_fails_in_one_line(results: Path, tmp_path: Path) -> None:
    done = command(results, tmp_path, "select run_id / 0 from runs", "--format", "json")
    ours = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and ours.startswith("configuration: ") and "CAST_INVALID_INPUT" in ours, done.stderr
    # Three lines are of Spark's JVM, which says them whenever it starts.
    assert len(done.stderr.splitlines()) <= 4 and done.stdout == ""
