"""`barograph run` of several experiments: which, in what order, what is skipped, and what a failure does."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from analysis.record.simulated import is_simulated_series
from barograph import settings
from barograph.campaign.steps import attempt_next_run
from barograph.cli import run
from barograph.cli.terminal import stdout_console
from barograph.errors import ExperimentError, MachineLost, RunBroken, worst_exit
from barograph.plan.durations import run_s
from barograph.plan.experiment import load, with_changes
from barograph.run.context import context_of
from barograph.series import results
from barograph.series.progress import hours
from barograph.series.series import Series, open_series
from tests.support.durations import SHORT

KNOWN = ("henge/diurnal", "stela/diamond", "stela/linear", "stela/star")
FAKE: dict[str, Any] = {**SHORT, "testbed": "fake", "repetitions": 1}


@pytest.fixture
def unreported() -> set[str]:
    """Experiments whose execution ends before its report."""
    return set()


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreported: set[str]) -> list[str]:
    """Experiments as they are carried out: on the fake testbed, in this process."""
    carried: list[str] = []

    def prepare(name: str, changes: Mapping[str, Any], *, new: bool, console: Console) -> Series:
        return open_series(with_changes(load(name), changes), new=new)

    def carry_out(series: Series, console: Console) -> int:
        carried.append(series.experiment.name)
        bench = context_of(series)
        while attempt_next_run(series, bench):
            pass
        if series.experiment.name not in unreported:
            results.analyse_results(series.folder, str)
        return 0

    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))

    def analyse(_folder: results.Results, series_dir: Path, _master: str, _say: object) -> Path:
        (series_dir / "report.html").write_text(series_dir.name)
        return series_dir / "report.html"

    monkeypatch.setattr(results.Results, "analyse", analyse)
    monkeypatch.setattr(run, "prepare", prepare)
    monkeypatch.setattr(run, "carry_out", carry_out)
    monkeypatch.setattr(run, "_family_report", lambda family, _rows, _simulated: tmp_path / f"{family}.html")
    return carried


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=100)


def said(console: Console) -> str:
    text: str = console.file.getvalue()  # type: ignore[attr-defined] # it is the StringIO of the fixture
    return text


NAMES = ["stela/linear", "stela/diamond"]


def test_globs_and_names_mean_each_experiment_once_in_order() -> None:
    assert run.select_experiments(["stela/*"], KNOWN) == KNOWN[1:]
    assert run.select_experiments(["stela/star", "*/d*", "stela/s*"], KNOWN) == (
        "henge/diurnal",
        "stela/diamond",
        "stela/star",
    )
    with pytest.raises(ExperimentError, match=r"no experiment is called stela/x\*, sun; there are: henge/diurnal, "):
        run.select_experiments(["stela/x*", "sun", "stela/star"], KNOWN)
    assert [run.is_suite(names) for names in (["stela/star"], ["stela/*"], ["a", "b"])] == [False, True, True]


def test_every_experiment_is_done_in_order_of_name(done: list[str], console: Console) -> None:
    assert run.run_suite(NAMES, FAKE, new=False, console=console) == 0
    assert done == sorted(NAMES)
    text = said(console)
    each_s = sum(105 + 2 * run_s(with_changes(load(name), FAKE)) for name in NAMES)
    assert f"2 experiments, 4 runs to do, about {hours(each_s)}" in text
    assert text.count("2 of 2  complete") == 2 and text.count("report.html") == 2 and "stela.html" in text


def test_what_is_complete_is_skipped_unless_new(done: list[str], console: Console) -> None:
    run.run_suite(NAMES, FAKE, new=False, console=console)
    assert run.run_suite(NAMES, FAKE, new=False, console=console) == 0
    assert len(done) == 2 and said(console).count("skipped (--new does it again)") == 2
    assert "2 experiments, 0 runs to do, about 0 min" in said(console)
    run.run_suite(NAMES, FAKE, new=True, console=console)
    assert len(done) == 4


def test_what_is_measured_without_a_report_is_resumed_for_its_report(
    done: list[str], console: Console, unreported: set[str]
) -> None:
    unreported.add("stela/linear")
    run.run_suite(NAMES, FAKE, new=False, console=console)
    unreported.clear()
    assert run.estimate_suite(NAMES, FAKE, new=False).startswith("2 experiments, 0 runs to do")
    run.run_suite(NAMES, FAKE, new=False, console=console)
    assert done == [*sorted(NAMES), "stela/linear"] and said(console).count("skipped (--new does it again)") == 1
    (series,) = settings.results_root().glob("stela/linear/*")
    assert (series / "report.html").exists() and len(list((series / "runs").iterdir())) == 2


def test_an_unfinished_series_counts_with_what_is_left(done: list[str], console: Console) -> None:
    series = open_series(with_changes(load("stela/linear"), FAKE))
    attempt_next_run(series, context_of(series))
    assert run.estimate_suite(["stela/linear"], FAKE, new=False).startswith("1 experiment, 1 runs to do")
    run.run_suite(["stela/linear"], FAKE, new=False, console=console)
    assert "2 of 2" in said(console) and len(list(series.folder.parent.iterdir())) == 1


def test_one_failure_does_not_stop_the_rest(done: list[str], console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    well = vars(run)["carry_out"]  # of `done`

    def sometimes(series: Series, console: Console) -> int:
        if series.experiment.name == "stela/diamond":
            raise RunBroken("no tuple reached a sink")
        return well(series, console)

    monkeypatch.setattr(run, "carry_out", sometimes)
    assert run.run_suite(NAMES, FAKE, new=False, console=console) == 5
    assert done == ["stela/linear"]
    assert "0 of 2  system under test: no tuple reached a sink" in said(console)


def test_an_interruption_ends_the_suite(done: list[str], console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "carry_out", lambda _series, _console: 130)
    assert run.run_suite(NAMES, FAKE, new=False, console=console) == 130
    assert "stela/diamond" in said(console) and "stela/linear" not in said(console)
    assert "stela.html" not in said(console)


def test_a_family_report_that_fails_is_said(done: list[str], console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_family: str, _rows: object, _simulated: bool) -> Path:
        raise MachineLost("no space")

    monkeypatch.setattr(run, "_family_report", broken)
    assert run.run_suite(NAMES, FAKE, new=False, console=console) == 4
    assert "stela: no report of the family: infrastructure: no space" in said(console)


def test_a_familys_report_takes_this_suites_series_and_the_others_newest(done: list[str], console: Console) -> None:
    run.run_suite(["stela/linear", "stela/star"], FAKE, new=False, console=console)
    run.run_suite(["stela/linear"], FAKE | {"repetitions": 2}, new=False, console=console)
    first, second = sorted(
        Path(settings.results_root() / "stela" / "linear").iterdir(), key=lambda one: one.stat().st_ino
    )
    (star,) = (settings.results_root() / "stela" / "star").iterdir()
    assert run.family_series("stela", {"stela/linear": first}) == [first, star]
    (second / "report.html").unlink()
    assert run.family_series("stela", {}) == [first, star]


def test_simulated_series_are_on_another_page_of_the_family(
    done: list[str], console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[tuple[str, bool]] = []

    def note(family: str, _rows: object, simulated: bool) -> None:
        pages.append((family, simulated))

    monkeypatch.setattr(run, "_family_report", note)
    run.run_suite(["stela/star"], FAKE, new=False, console=console)
    for changes in ({"testbed": "simulated", "demo": True}, FAKE):
        run.run_suite(["stela/linear"], changes, new=True, console=console)
    assert pages == [("stela", False), ("stela", True), ("stela", False)]
    (star,) = (settings.results_root() / "stela" / "star").iterdir()
    faked, simulated = sorted((settings.results_root() / "stela" / "linear").iterdir(), key=is_simulated_series)
    assert run.family_series("stela", {}) == [faked, star]
    assert run.family_series("stela", {}, simulated=True) == [simulated]
    older = faked.rename(faked.with_name("20200101-000000-older"))
    assert run.family_series("stela", {"stela/star": star}) == [older, star]


def test_the_worst_exit_code() -> None:
    assert worst_exit([]) == 0 and worst_exit([0, 5, 4]) == 4 and worst_exit([5, 1, 2]) == 1
    assert worst_exit([130, 1]) == 130
    assert hours(59) == "1 min" and hours(3600 + 7 * 60) == "1 h 07 min"


def test_square_brackets_in_a_table_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    run.show_suite([run.SuiteRow("stela/star", "infrastructure: [eth0] is down [/]", 3, None)], stdout_console())
    assert "infrastructure: [eth0] is down [/]" in capsys.readouterr().out
