"""The page of a comparison, made from tables written by hand."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from analysis import compare
from analysis.compare import drawings, evaluation, question, result
from analysis.record import wall_time
from analysis.record.files import SeriesPaths
from analysis.report.figures import series_data
from analysis.report.figures.style import PALETTE
from tests.support import compared_series
from tests.support.compared_series import METRICS, SideOf, one_pair, write
from tests.support.series_by_hand import write_series

LINK = re.compile(r'href="([^"#]+)"')


def test_the_page_has_the_sentence_every_row_run_and_failure_and_links_that_lead_somewhere(tmp_path: Path) -> None:
    root = one_pair(tmp_path / "20260101-000000-aa", log=["abc1234 Faster <moves>"])
    (root / "report.html").write_text("")
    (root / "runs" / "stela_a-r1" / "report.html").write_text("")
    text = compare.write(root).read_text()
    found = json.loads((root / result.RESULT).read_text())
    body = text[text.index("<h1>") :]
    assert body.index('class="answer"') < body.index("<table>")
    for words in ("my-branch against main", "failed in 1 of 4 runs", "&lt;no slot&gt;", "block 2 is left out", "a" * 40,
                  "abc1234 Faster &lt;moves&gt;", "in 0 of 3 runs of main", "memory of all machines"):  # fmt: skip
        assert words in body, words
    assert all(run in body for run in (f"stela_{letter}-r{n}" for letter in "ab" for n in range(1, 5)))
    assert {row["metric"] for row in found["rows"]} == {*METRICS, "latency_all_p50_ms_after", "runs_failed"}
    assert found["v"] == 1
    assert found["runs"][0]["b"] == {
        "variant": "stela_b", "complete": 3, "failed": 1,
        "lost": [{"run_id": "stela_b-r2", "block": 2, "blame": "system_under_test",
                  "message": "IllegalStateException: <no slot> for task 7\nat a.b.C"}],
    }  # fmt: skip
    assert not re.findall(r'src="[^"]*"|@import|url\((?!#)|href="https?:', text)
    identifiers = re.findall(r'\bid="([^"]+)"', text)
    assert len(identifiers) == len(set(identifiers)) > 20
    links = [link for link in LINK.findall(text) if not link.startswith("data:")]
    assert {"report.html", "runs/stela_a-r1/report.html"} <= set(links)
    assert all((root / link).is_file() for link in links) and "runs/stela_a-r2/report.html" not in text


def test_a_comparison_of_which_nothing_ran_has_a_page_with_what_it_took(tmp_path: Path) -> None:
    root = write(tmp_path / "20260101-000000-aa", {"stela": (SideOf({}), SideOf({}))})
    text = compare.write(root).read_text()
    assert "my-branch cannot be compared with main." in text and "No block is complete" in text and "<svg" not in text
    assert "Wall time" not in text
    took = wall_time.WallTime(3600.0, watched_s=2400.0, switching_s=600.0, checks_s=120.0, analysis_s=60.0, runs=8)
    (root / "comparison_time.json").write_text(json.dumps({"v": 1, **asdict(took), "rest_s": 420.0}))
    text = compare.write(root).read_text()
    assert "60.0 min = 40.0 min watched + 10.0 min switching in 8 runs" in text
    assert "+ 7.0 min machines (20.0 % over the runs themselves)" in text
    (root / "comparison_time.json").write_text('{"v": 1}')
    assert "Wall time" not in compare.write(root).read_text()


def test_figures_say_what_the_rows_say(tmp_path: Path) -> None:
    root = one_pair(tmp_path / "20260101-000000-aa")
    found = evaluation.compare(root)
    forest = drawings.forest(found)
    assert forest is not None
    drawn = {row["metric"]: row for row in forest.rows()}
    # What is 0 at A has no percent of A; what was never reached has no interval.
    assert set(drawn) == {"throughput after", "95 % latency after"}
    throughput = next(row for row in found.rows if row.metric == "throughput_after")
    assert drawn["throughput after"]["difference_percent"] == pytest.approx(throughput.difference)
    assert drawn["throughput after"]["floor_percent"] == pytest.approx(throughput.floor)
    dots = drawings.block_panels(found)
    assert dots is not None
    rows = [row for row in dots.rows() if row["metric"] == "convergence_sp_s"]
    assert [(row["side"], row["value"], row["horizon"]) for row in rows] == [("main", None, 120.0)] * 3 + [
        ("my-branch", 60.0, None)
    ] * 3, "a horizon is no value"
    assert {row["run_id"] for row in rows} == {f"stela_{letter}-r{n}" for letter in "ab" for n in (1, 3, 4)}


def test_sides_are_drawn_by_their_names_in_the_same_colours(tmp_path: Path) -> None:
    root = write_series(tmp_path / "20260101-000000-aa", "compare/stela_star", {"stela_a": 90.0, "stela_b": 150.0})
    (root / "comparison.json").write_text(json.dumps(compared_series.question(["stela"])))
    unread = evaluation.evaluate(question.read_question(root), [], [], {}, {})
    drawn = drawings.throughput_panels(unread, series_data.collect(SeriesPaths(root)))
    assert drawn is not None
    colours = {trace.name: trace.colour for _, _, trace in drawn.traces() if trace.mark == "median"}
    assert colours["main"] == PALETTE[0] and colours["my-branch"] == PALETTE[1]
    assert max(row["tuples_per_s"] for row in drawn.rows() if row["side"] == "my-branch") == 153.0
