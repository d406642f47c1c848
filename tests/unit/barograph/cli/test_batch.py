"""`barograph batch`: times and lists of a small batch, and what is refused before it begins."""

import json
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from analysis import session
from barograph import cli
from barograph.cli import batch

SMALL = ("--scale", "0.0001", "--parameter", "movies=50", "--parameter", "history_size=5")


@pytest.mark.spark
def test_a_batch_leaves_times_and_lists_and_nothing_else(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    into = tmp_path / "batch"
    assert (
        cli.main(["batch", *SMALL, "--days", "1,2", "--repetitions", "3", "--machines", "11", "--into", str(into)]) == 0
    )
    result = json.loads((into / "batch.json").read_text())
    assert sorted(path.name for path in into.iterdir()) == ["batch.json", "lists-1.parquet", "lists-2.parquet"]
    runs = result["runs"]
    assert sorted((run["repetition"], run["days"]) for run in runs) == [
        (block, day) for block in (1, 2, 3) for day in (1, 2)
    ]
    assert {(run["days"], run["records"]) for run in runs} == {(1, 1728), (2, 3456)}
    assert all(0 < run["distinct_pairs"] < run["pairs"] < 5 * run["records"] for run in runs)
    assert all(run["elapsed_s"] >= run["fans_s"] + run["pairs_s"] + run["lists_s"] > 0 for run in runs)
    rows = spark.read.parquet(str(into / "lists-2.parquet")).where("place = 1").count()
    assert rows == pytest.approx(50, abs=5)
    printed = capsys.readouterr().out
    assert "2 days over 1 day:" in printed and "+100.0 % of ratings" in printed
    assert f"{0.05132 * 11:.2f}" in printed, "a day at once an hour of eleven machines"
    assert "scale 0.0001: 1,728 ratings a day; times are those of this machine" in printed
    assert "under one billed hour, which alone decides: 1 day, 2 days" in " ".join(printed.split())
    assert result["spark_settings"] == session.options_of("local[*]", session.SHORT_BYTES)


@pytest.mark.spark
def test_an_ended_batch_goes_on(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    into, ran = tmp_path / "x[1]", list[str]()
    (into / ".work-killed" / "spark").mkdir(parents=True)
    (into / "lists-1.parquet").mkdir()  # of a batch that was killed in its first run
    words = ["batch", *SMALL, "--days", "1", "--repetitions", "3", "--into", str(into)]
    run = batch.batch

    def ended(*given: Any) -> dict[str, Any]:
        ran.append(str(given[2]))
        if len(ran) == 3:
            raise KeyboardInterrupt
        return run(*given)

    monkeypatch.setattr(batch, "batch", ended)
    assert cli.main(words) == 130
    assert "1 runs are kept; the same command with --into" in capsys.readouterr().out
    (first,) = json.loads((into / "batch.json").read_text())["runs"]
    assert cli.main([*words, "--machines", "2"]) == 0
    runs = json.loads((into / "batch.json").read_text())["runs"]
    assert runs[0] == first and [(one["repetition"], one["order"]) for one in runs] == [(1, 1), (2, 2), (3, 3)]
    assert sorted(path.name for path in into.iterdir()) == ["batch.json", "lists-1.parquet"] and len(ran) == 6
    assert cli.main(words) == 0 and len(ran) == 6, "all is there"
    capsys.readouterr()
    assert cli.main([*words, "--scale", "0.0002"]) == 2
    assert "whose batches have another recommendation, scale (batch.json)" in capsys.readouterr().err
    with batch.locked(into):
        assert cli.main(words) == 3
    assert "which another batch writes" in capsys.readouterr().err


@pytest.mark.spark
def test_a_file_of_any_name_is_read_and_one_without_lines_leaves_nothing(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "x[1] {a,b}*?%20"
    folder.mkdir()
    file, into = folder / "r.csv", tmp_path / "into"
    words = ["batch", "--ratings", str(file), "--repetitions", "1", "--into", str(into)]
    for text, message in (("", "which has no lines"), ("1,2,6,2005-01-01\n", "1 ratings are out of range")):
        file.write_text(text)
        assert cli.main(words) == 2
        assert message in capsys.readouterr().err and not into.exists()
    file.write_text("1,2,5,2005-01-01\n1,3,5,2005-01-02\n")
    assert cli.main(words) == 0
    (run,) = json.loads((into / "batch.json").read_text())["runs"]
    assert (run["records"], run["pairs"], run["days"]) == (2, 1, None)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--days", "0,3"), 2, "--days is '0,3'; allowed: whole numbers above 0, up to 1,000,000, as 1,3,6"),
        (("--days", "1.5"), 2, "--days is '1.5'"),
        (("--scale", "0"), 2, "--scale is 0; allowed: above 0"),
        (("--every", "3,never"), 2, "--every is '3,never'; allowed: numbers above 0"),
        (("--every", "nan"), 2, "--every is 'nan'; allowed: numbers above 0, up to 1,000,000"),
        (("--every", "3,inf"), 2, "--every is '3,inf'"),
        (("--days", "1" + 400 * "0"), 2, "allowed: whole numbers above 0, up to 1,000,000"),
        (("--repetitions", "0"), 2, "--repetitions is 0; allowed: 1 or more"),
        (("--parameter", "movie_ratio=0.7"), 2, "parameter movie_ratio: 0.7 is not a number from 0.001 to 0.5"),
        (("--parameter", "stars=6"), 2, "parameter 'stars' is unknown"),
        (("--instance", "m1.small"), 2, "has no price for m1.small"),
        (("--ratings", "none.csv"), 2, "--ratings is none.csv, which is no file"),
        (("--into", "."), 2, "which is there and not empty"),
        ((), 3, "this batch needs up to 1,202,688,000 bytes of disk"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    words: tuple[str, ...], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").touch()
    monkeypatch.setattr("shutil.disk_usage", lambda _: namedtuple("usage", "free")(10**6))
    assert cli.main(["batch", "--into", str(tmp_path / "x"), *words]) == code
    error = capsys.readouterr().err
    assert message in error
    assert not (tmp_path / "x").exists()
