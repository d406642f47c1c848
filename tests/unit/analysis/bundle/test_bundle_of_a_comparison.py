"""A comparison as a bundle: its floor is that of the A/A comparisons that go along, and its page is made again too."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from analysis.bundle import reproduction
from analysis.record.files import SeriesPaths
from barograph import cli
from tests.support import bundled_series as packed
from tests.support import compared_series as compared


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results that each test has a copy of."""
    folder = tmp_path_factory.mktemp("made") / "results"
    packed.comparison(folder)
    return folder


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BAROGRAPH_RESULTS", str(tmp_path / "results"))
    for name in ("STATE", "HOME"):
        monkeypatch.setenv(f"BAROGRAPH_{name}", str(tmp_path / name.lower()))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shutil.copytree(made, tmp_path / "results")
    return tmp_path / "results" / "compare" / "stela_star" / packed.SERIES_ID


def bundle(root: Path, target: Path) -> int:
    return cli.main(["bundle", str(root), "--without", "raw", "--to", str(target)])


def test_it_is_made_again_elsewhere_with_the_floor_on_record(root: Path, tmp_path: Path) -> None:
    (row,) = json.loads((root / "comparison_result.json").read_text())["rows"]
    assert row["floor_on_record"] and row["verdict"] == "undecided", "the floor decides here"
    assert bundle(root, tmp_path / "a.tar.gz") == 0
    folder = packed.unpacked(tmp_path / "a.tar.gz", tmp_path / "moved")
    assert [path.name for path in (folder / "beside").iterdir()] == ["20251231-000000-aa"]
    done = packed.remake(folder, tmp_path / "elsewhere", "--python", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    page = folder / "series" / "comparison.html"
    page.write_text(page.read_text().replace("my-branch", "their-branch", 1))
    ours, theirs = SeriesPaths(folder / "series"), SeriesPaths(folder / "remade" / packed.SERIES_ID)
    differences, _ = reproduction.series_differences(ours, theirs, "*")
    assert [line.split(":")[0] for line in differences] == ["comparison.html"]


def test_an_answer_from_before_other_comparisons_came_on_record_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = (compared.SideOf({"throughput_after": [100.0] * 6}),
             compared.SideOf({"throughput_after": [100.0, 150.0] * 3}))  # fmt: skip
    compared.write(root.parent / "20260102-000000-aa", {"stela": sides}, sides=compared.same_code())
    assert bundle(root, tmp_path / "a.tar.gz") == 2
    said = capsys.readouterr().err
    assert said.startswith("configuration: ") and "is missing or out of date, for example because A/A" in said
    assert f"run barograph report {root}, then bundle" in said and not (tmp_path / "a.tar.gz").exists()
