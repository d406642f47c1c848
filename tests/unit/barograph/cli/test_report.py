"""`barograph report` of several series."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis import session
from analysis.errors import RecordError, SeriesInUse
from barograph.cli import report


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Series in the order of their analysis, each in the one session. `taken` and `damaged` cannot be analysed; at
    `last` Spark's process ends."""
    done: list[Path] = []
    alive = [True]
    open_sessions = 0

    @contextmanager
    def one_session(_folders: object, _say: object) -> Iterator[None]:
        nonlocal open_sessions
        open_sessions += 1
        yield
        open_sessions -= 1

    def analyse(folder: Path, _say: object) -> Path:
        assert open_sessions == 1
        done.append(folder)
        errors = {"taken": SeriesInUse("by process 7"), "damaged": RecordError("no JSON"), "last": OSError("refused")}
        if folder.name in errors:
            alive[0] = folder.name != "last"
            raise errors[folder.name]
        return folder / "report.html"

    monkeypatch.setattr(report, "one_session", one_session)
    monkeypatch.setattr(report, "analyse_again", analyse)
    monkeypatch.setattr(session, "is_alive", lambda: alive[0])
    monkeypatch.setattr(
        report, "find_all_series", lambda name, *_: [Path("/results") / each for each in name.split(",")]
    )
    return done


def execute(*names: str) -> int:
    options: Any = SimpleNamespace(index=False, series=list(names), testbed=None)
    return report.execute_report(options)


def test_one_that_cannot_be_analysed_leaves_the_others_theirs(
    analysed: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute("a,taken", "b", "a") == 3
    assert [folder.name for folder in analysed] == ["a", "taken", "b"], "each once"
    screen = capsys.readouterr()
    assert "2 of 3: /results/taken" in screen.out and screen.err == "capacity: by process 7\n"
    assert "report: /results/b/report.html" in screen.out


def test_the_worst_of_several_failures_is_the_exit_code(
    analysed: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute("taken,damaged,b") == 1
    traceback = capsys.readouterr().err.partition("(traceback: ")[2].rstrip(")\n")
    assert "RecordError: no JSON" in Path(traceback).read_text()
    Path(traceback).unlink()


def test_without_spark_nothing_goes_on(analysed: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="refused"):
        execute("last,a,b")
    assert len(analysed) == 1
    assert "ended at /results/last; not analysed: /results/a, /results/b" in capsys.readouterr().out


@pytest.mark.spark
def test_an_analysis_within_a_session_uses_it_and_leaves_it_running(spark: Any) -> None:
    with session.shared_session("local[2]") as running:
        assert running is spark
    assert session.is_alive() and running.range(3).count() == 3
