"""The index of all results: what is listed, in which order, and that every link leads somewhere."""

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from analysis.record.files import SeriesPaths
from analysis.record.small_tables import rows
from analysis.report import index_page, series_page
from tests.support import bundled_series
from tests.support.series_by_hand import write_series, write_table

NOW = 1_763_700_000.0
SUMMARY = {
    "v": 1, "experiment": "stela/star", "title": "Star from 4 to 5 machines", "begun_s": NOW, "runs": 9, "complete": 8,
    "not_complete": {"infrastructure": 1}, "verdicts": {"differs": 1, "reproduced": 4},
}  # fmt: skip


def write(root: Path, series: str, summary: dict[str, Any] | None = SUMMARY, **files: Any) -> Path:
    """`files`: name without its ending -> JSON, or text of a page."""
    folder = root / series
    folder.mkdir(parents=True)
    (folder / "series.json").write_text(json.dumps({"v": 1, "spec": {"title": "As planned"}}))
    if summary is not None:
        (folder / "report.json").write_text(json.dumps(summary))
        (folder / "report.html").write_text("a report")
    for name, content in files.items():
        is_page = isinstance(content, str)
        (folder / f"{name}.{'html' if is_page else 'json'}").write_text(content if is_page else json.dumps(content))
    return folder


def text(root: Path) -> str:
    """What a reader sees, and every link tried."""
    page = index_page.write(root, NOW).read_text()
    for href in re.findall(r'href="([^"]+)"', page):
        assert (root / unquote(href)).is_file(), href
    body = page.partition("<body>")[2]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_series_are_listed_newest_first_with_runs_verdicts_and_links(tmp_path: Path) -> None:
    write(tmp_path, "stela/star/20260101-000000-aa", SUMMARY | {"headline": "Stela's throughput was 43 % higher."})
    write(tmp_path, "stela/star/20260102-000000-bb", SUMMARY | {"complete": 9, "not_complete": {}})
    (tmp_path / "stela" / "report.html").write_text("the family")
    seen = text(tmp_path)
    assert seen.index("20260102-000000-bb") < seen.index("20260101-000000-aa")
    for words in ("stela/star Star from 4 to 5 machines", "2025-11-21 04:40", "All experiments of stela on one page",
                  "8 of 9 1 infrastructure Stela&#39;s throughput was 43 % higher. 4 reproduced , 1 differs report",
                  "1 experiment ·"):  # fmt: skip
        assert words in seen, words


def test_a_simulated_series_says_so_and_when_it_was_made(tmp_path: Path) -> None:
    folder = write(tmp_path, "stela/star/20260102-030405-bb", SUMMARY | {"begun_s": NOW, "simulated": True})
    write(tmp_path, "stela/star/20260101-000000-aa")
    (tmp_path / "stela" / "report_simulated.html").write_text("of the family")
    seen = text(tmp_path)
    assert "2025-11-21 04:40 20260102-030405-bb simulated" in seen and seen.count("simulated") == 1
    assert "Simulated series of stela on one page" in seen
    (folder / "report.json").unlink()
    spec = {"title": "As planned", "testbed": {"name": "simulated"}}
    (folder / "series.json").write_text(json.dumps({"v": 1, "spec": spec}))
    assert "2026-01-02 03:04 20260102-030405-bb simulated" in text(tmp_path), "it is not analysed yet"


def test_counterfactuals_of_runs_are_listed_with_their_series(tmp_path: Path) -> None:
    folder = write(tmp_path, "stela/star/20260102-030405-bb")
    for second in range(7):
        page = folder / "counterfactuals" / f"20260103-00000{second}-stela r<{second}>" / "report.html"
        page.parent.mkdir(parents=True)
        page.write_text("a page")
    (folder / "counterfactuals" / "20260104-000000-unfinished").mkdir()
    seen = text(tmp_path)
    assert "report stela r&lt;6&gt; with other policies (2026-01-03 00:00)" in seen and "stela r&lt;2&gt; with" in seen
    assert "stela r&lt;1&gt; with" not in seen and "and 2 older" in seen and "unfinished" not in seen


def test_the_summary_has_verdicts_and_of_a_simulated_series_the_date_of_its_runs(tmp_path: Path) -> None:
    root = write_series(tmp_path / "20260102-030405-bb", "stela/star", {"stela": 1.0}, repetitions=2)
    (run, *_) = rows(SeriesPaths(root), "runs")
    facts = json.dumps({"simulated": {"seed": 1}})
    made = [
        run | {"git_commit": "a" * 40, "run_id": f"r{n}", "harness_facts": facts, "date_s": NOW + n} for n in (2, 1)
    ]
    shutil.rmtree(root / "tables" / "runs.parquet")
    write_table(root, "runs", made)
    ledger = [{"verdict": verdict, "runs": 3} for verdict in ("not run", "undecided", "differs")]
    summary = index_page.summary_of(SeriesPaths(root), ledger, "")
    assert (summary["begun_s"], summary["simulated"]) == (NOW + 1, True)
    assert summary["verdicts"] == {"differs": 1, "not run": 1, "undecided": 1}


def test_runs_that_failed_are_in_the_sentence_of_report_summary_and_index(tmp_path: Path) -> None:
    """Stela failed its first run, which was repeated, and then got through."""
    root = bundled_series.series(tmp_path)
    levels = {row["run_id"]: row["mean"] for row in rows(SeriesPaths(root), "intervals") if row["phase"] == "after"}
    write_table(root, "measurements", [
        {"run_id": run, "event_id": "e1", "metric": "throughput_after", "value": level, "censored": False}
        for run, level in levels.items()
    ])  # fmt: skip
    folder = root / "attempts" / "stela-r1.attempt-1"
    folder.mkdir(parents=True)
    failure = {"blame": "system_under_test", "message": "no tuple"}
    (folder / "run.json").write_text(json.dumps({"status": "failed", "failure": failure}))
    series_page.build_report(root)
    sentence = json.loads((root / "report.json").read_text())["headline"]
    assert sentence.startswith("In complete runs Stela's throughput after the scale-out was ")
    assert sentence.endswith("; 1 of 3 runs of Stela failed: system under test 1.")
    assert sentence in unescape((root / "report.html").read_text())
    assert sentence.replace("\u00a0", " ") in unescape(text(tmp_path))


def test_what_is_not_analysed_damaged_or_in_a_bucket_is_there(tmp_path: Path) -> None:
    write(tmp_path, "stela/star/20260101-093000-aa", None)
    damaged = write(tmp_path, "stela/star/20260101-000000-bb")
    (damaged / "report.json").write_text("{")
    seen = text(tmp_path)
    assert "As planned" in seen and "2026-01-01 09:30 20260101-093000-aa – – not analysed" in seen
    assert "20260101-000000-bb – – report" in seen
    folder = write(tmp_path, "stela/star/20260101-000000-cc", SUMMARY | {"title": "<script>alert(1)</script>"})
    (folder / "report.html").unlink()
    page = index_page.write(tmp_path, NOW).read_text()
    assert 'href="stela/star/20260101-000000-cc/report.html"' in page
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page


def test_of_many_series_only_the_newest_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_page, "MOST_SUMMARIES", 2)
    monkeypatch.setattr(index_page, "MOST_LINKS", 1)
    for day in range(1, 6):
        folder = write(tmp_path, f"stela/star/2026010{day}-000000-aa")
        if day < 4:
            (folder / "report.json").write_text('{"v": 1, "title": "must not be read"}')
    seen = text(tmp_path)
    assert "must not be read" not in seen
    assert "3 older series 20260103-000000-aa , and 2 more in stela/star/" in seen


def test_comparisons_and_nights_stand_by_themselves(tmp_path: Path) -> None:
    write(tmp_path, "compare/stela_star/20260101-000000-aa", comparison="its page",
          comparison_result={"sentence": "my-branch is worse by 12 %"})  # fmt: skip
    nights = tmp_path / "nightly" / "quick" / "nights"
    nights.mkdir(parents=True)
    (tmp_path / "nightly" / "quick" / "index.html").write_text("nights")
    for day in (1, 2):
        night = {"night": f"2026-01-0{day}", "status": "partial" if day == 2 else "complete"}
        (nights / f"2026010{day}-210000.json").write_text(json.dumps(night))
    seen = text(tmp_path)
    assert "Comparisons compare/stela_star" in seen and "my-branch is worse by 12 % comparison , report" in seen
    assert "quick 2 2026-01-02: partial nights of quick" in seen
    assert "nightly/quick" not in seen


def test_no_results_say_how_to_get_some(tmp_path: Path) -> None:
    assert "barograph run stela/star" in text(tmp_path)
    assert "barograph run stela/star" in text(tmp_path / "not" / "there")
