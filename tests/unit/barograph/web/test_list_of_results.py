"""The plain list shows what one may read, newest first."""

from pathlib import Path

import pytest

from barograph.web import pages
from barograph.web.pages import MOST_SERIES, result_groups
from barograph.web.result_files import Freshness, scope_of


def series(root: Path, name: str, report: str | None = None) -> None:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "series.json").write_text("{}")
    if report:
        (folder / report).write_text("x")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    series(tmp_path, "stela/star/20261121-084501-a1b2c3d4", "report.html")
    series(tmp_path, "stela/star/20261122-084501-a1b2c3d4")
    series(tmp_path, "compare/stela_star/20261122-091500-a1b2c3d4", "comparison.html")
    (tmp_path / "nightly" / "quick" / "nights").mkdir(parents=True)
    (tmp_path / "nightly" / "quick" / "nights" / "20261121-020000.html").write_text("x")
    (tmp_path / "stela" / "empty").mkdir()
    return tmp_path


def test_newest_first_with_their_reports(root: Path) -> None:
    shown = result_groups(root, lambda _dag: True)
    assert [group.title for group in shown] == [
        "Comparison compare/stela_star",
        "Nights of quick",
        "Experiment stela/star",
    ]
    newest, older = shown[2].rows
    assert (newest.text, newest.report) == ("2026-11-22 08:45:01 UTC", None)
    assert older.report == "stela/star/20261121-084501-a1b2c3d4/report.html"
    html = pages.results_html(shown)
    assert 'href="files/compare/stela_star/20261122-091500-a1b2c3d4/comparison.html"' in html


def test_a_series_says_its_result(root: Path) -> None:
    summary = root / "stela/star/20261121-084501-a1b2c3d4" / "report.json"
    summary.write_text('{"v": 1, "headline": "Stela was 43 % above the default."}')
    result = root / "compare/stela_star/20261122-091500-a1b2c3d4" / "comparison_result.json"
    result.write_text('{"v": 1, "sentence": "my-branch is faster."}')
    html = pages.results_html(result_groups(root, lambda _dag: True))
    assert "Stela was 43 % above the default." in html and "my-branch is faster." in html


def test_what_one_may_not_read_is_not_named(root: Path) -> None:
    html = pages.results_html(result_groups(root, lambda dag: dag == "compare_branches"))
    assert "compare/stela_star" in html and "stela/star" not in html and "quick" not in html
    assert "none that you may read" in pages.results_html(result_groups(root, lambda _dag: False))


def test_many_series_are_counted(root: Path) -> None:
    for number in range(MOST_SERIES):
        series(root, f"stela/star/20260101-0000{number:02d}-a1b2c3d4")
    assert result_groups(root, lambda dag: dag == "stela.star")[0].older == 2
    assert "and 2 older" in pages.results_html(result_groups(root, lambda _dag: True))


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("index.html", ""), ("stela/report.html", ""), ("nightly/quick/index.html", "nightly/quick"),
        ("nightly/quick", "nightly/quick"),
        ("nightly/quick/nights/x.html", "nightly/quick"),
        ("stela/star/s1", "stela/star/s1"), ("stela/star/s1/figures/cpu.svg", "stela/star/s1"),
    ],
)  # fmt: skip
def test_what_is_brought_for_a_name(name: str, scope: str) -> None:
    assert scope_of(name) == scope


def test_a_bucket_is_not_asked_at_every_click_and_its_failure_hides_nothing(root: Path) -> None:
    from analysis.errors import StorageError

    asked = []

    class Broken:
        def refresh(self, scope: str = "", *, digest: bool = False) -> None:
            asked.append((scope, digest))
            raise StorageError("the bucket does not answer")

    fresh = Freshness()
    for _ in range(3):
        fresh.refresh(Broken(), "stela/star/s1/report.html")  # type: ignore[arg-type]  # only what is asked here
    fresh.refresh(Broken(), "index.html")  # type: ignore[arg-type]
    assert asked == [("stela/star/s1", True), ("", False)]
