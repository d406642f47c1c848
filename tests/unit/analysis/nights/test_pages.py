"""Pages of nights: complete without a library or a network, links that lead somewhere, everything escaped."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from analysis.nights import pages
from analysis.nights.chart import month_labels, round_values
from analysis.nights.findings import review
from analysis.nights.night_records import append_night
from analysis.nights.regressions import Settings
from analysis.nights.settings import Accepted
from bench.statistics.synthetic_nights import experiment, night
from tests.support.nights_by_hand import judged, quiet, stepped
from tests.support.series_by_hand import cut_short
from tests.unit.analysis.calibration.test_validation import judged_and_simulated

EVIL = "<script>alert(1)</script>"
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Every tag is closed, and what refers to where."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [given["href"] or ""] if tag == "a" and "href" in given else []
        self.ids += [given["id"] or ""] if "id" in given else []
        self.loads += [f"{tag} {name}" for name in given if name in ("src", "srcset", "data") or name.startswith("on")]
        self.loads += ["link"] if tag == "link" else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag


CLAIM = {"id": "S06/star", "verdict": "reproduced", "measured": 50.0, "low": 40.0, "high": 60.0, "direction": "same",
         "runs": 6, "indication": False, "statement": f"faster {EVIL}", "stated_text": "45 %"}  # fmt: skip
PALE = {"id": "S07/star", "runs": 3, "indication": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression, an accepted one, a failure, a missing night, other machines, a claim that turned, and indications
    that changed."""
    results = tmp_path_factory.mktemp("nights") / "results"
    (results / "stela/star/s1").mkdir(parents=True)
    (results / "stela/star/s1/report.html").write_text("a report")
    suite = results / "nightly" / "quick"
    slower, more, same = stepped(24, 10, -12), stepped(24, 10, 30, seed=3), quiet(34, seed=5)
    for i in (*range(20), *range(21, 34)):
        variants: dict[str, Any] = {
            "stela": {"throughput_after": {"e1": [slower[i], slower[i] + 1, slower[i] - 1]},
                      "latency_all_p95_ms_after": {"e1": [more[i]]}, "due_after": {"e1": [same[i]]}},
        }  # fmt: skip
        unmet = CLAIM | {"verdict": "differs", "direction": "opposite"}
        claims = [CLAIM if i < 30 else unmet, (unmet if i in (25, 33) else CLAIM) | PALE]
        made = experiment("stela/star", variants, series="stela/star/s1", claims=claims)
        if i == 10:
            made = experiment("stela/star", {}, status="infrastructure", reason=f"m3 died {EVIL}")
        machine = "old" if i < 3 else "new"
        append_night(suite, night(i, "quick", [made], machine=machine, status="partial" if i == 10 else "complete"))
    settings = Settings("Quick <suite>", accepted=(Accepted("*/latency*", "2026-01-25", "wanted"),))
    pages.write(suite, review(suite, settings))
    return suite


def html(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.html"))


def test_every_page_is_whole_and_loads_nothing(folder: Path) -> None:
    assert len(html(folder)) == 33 + 1 + 1
    for path in html(folder):
        page = Page(path.read_text())
        assert page.open == [], path.name
        assert page.loads == [], path.name


def test_nothing_of_a_record_is_markup(folder: Path) -> None:
    text = "".join(path.read_text() for path in html(folder))
    assert EVIL not in text
    assert "m3 died &lt;script&gt;" in text
    assert "Quick &lt;suite&gt;" in text


def test_every_link_leads_to_a_file_and_a_place_in_it(folder: Path) -> None:
    seen = 0
    for path in html(folder):
        for link in Page(path.read_text()).links:
            file, _, place = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.is_file(), f"{path.name}: {link}"
            if place:
                assert place in Page(target.read_text()).ids, f"{path.name}: {link}"
            seen += 1
    assert seen > 100
    assert "../../../stela/star/s1/report.html" in (folder / "nights/20260105-030000.html").read_text()


def test_the_first_lines_say_how_things_are(folder: Path) -> None:
    index = (folder / "index.html").read_text()
    assert "1 confirmed regression, 0 suspected, 0 infrastructure failures last night" in index
    assert re.search(r"−1[12](\.\d)?\u00a0%", index)
    assert "accepted: wanted" in index
    assert "barograph bisect --experiment stela/star --variant stela --metric throughput_after --event e1" in index
    assert "met → <b>unmet</b>" in index
    assert "<b>Tonight:</b> S07/star: met (indication) → <b>unmet (indication)</b>" in index
    assert (
        "Verdicts that turned before: the last 1<" in index and "Indications that changed before: the last 2<" in index
    )
    assert "verdicts of S06/star, S07/star in 20260101-030000 to 20260103-030000 are of other machines" in index
    assert 'title="2026-01-21: missing: no night on record"' in index
    assert "measured on other machines until 20260103-030000" in index


def test_a_small_line_is_one_path_however_many_nights(folder: Path) -> None:
    index = (folder / "index.html").read_text()
    (first, *_) = re.findall(r'<svg class="spark".*?</svg>', index, re.S)
    assert first.count("<path") <= 6
    line = re.findall(r'class="line" d="([^"]+)"', first)[0]
    assert line.count("M") == 4, "a line is broken at a failure, a missing night and other machines"
    assert len(re.findall(r"l-?\d+[ -]\d+", line)) == 32 - 4


def test_findings_for_machines_say_the_same(folder: Path) -> None:
    found = json.loads((folder / "findings.json").read_text())
    assert found["counts"] == {"series": 6, "confirmed": 1, "suspected": 0, "recovered": 0, "accepted": 1,
                               "not_measured": 0, "improvements": 0, "new_confirmed": 0}  # fmt: skip
    worse = next(one for one in found["findings"] if one["status"] == "confirmed")
    assert (worse["series"], worse["bad_night"]) == ("stela/star/stela/throughput_after/e1", "20260125-030000")
    assert worse["commits"]["kind"] == "commits"
    assert found["night"] == "20260203-030000"
    assert [(turn["claim"], turn["indication"]) for turn in found["turned"]] == [
        ("S07/star", True), ("S07/star", True), ("S06/star", False), ("S07/star", True),
    ]  # fmt: skip
    assert [(claim["verdict"], claim["indication"]) for claim in found["claims"]] == [("unmet", False), ("unmet", True)]


def test_points_say_value_or_why_not(folder: Path) -> None:
    page = (folder / "experiments/stela-star.html").read_text()
    data = [json.loads(text) for text in re.findall(r'class="points">(.*?)</script>', page, re.S)]
    (shared,) = [json.loads(text) for text in re.findall(r'class="shared">(.*?)</script>', page, re.S)]
    assert len(data) == 3 and {len(column) for column in shared.values()} == {34}
    for one in data:
        places = [[i for first, last in trace["at"] for i in range(first, last + 1)] for trace in one["traces"]]
        assert sorted(chain(*places)) == list(range(34)), "a night is measured, or there is a reason"
        for trace, at in zip(one["traces"], places, strict=True):
            assert {len(column) for column in (trace["y"], *trace["v"]) if isinstance(column, list)} == {len(at)}
    gaps = data[0]["traces"][1]
    assert sorted(gaps["v"][-1]) == [f"infrastructure: m3 died {EVIL}", "no night on record"]
    assert gaps["v"][0] == {"of": "night"} and shared["night"][20] == "2026-01-21" and shared["night"][21] == "20260122"


def test_a_night_with_runs_that_were_not_steady_is_a_hollow_dot_and_says_so(tmp_path: Path) -> None:
    for i in range(3):
        values = {"values": [100.0 + i, 101.0, 99.0], **({"unsteady": 2} if i == 1 else {})}
        made = experiment("stela/star", {"stela": {"throughput_after": {"e1": values}}})
        append_night(tmp_path, night(i, "quick", [made]))
    pages.write(tmp_path, review(tmp_path, Settings("Quick")))
    text = (tmp_path / "experiments" / "stela-star.html").read_text()
    (hollow,) = re.findall(r'<path class="unsteady" d="([^"]+)"/>', text)
    assert hollow.count("h0") == 1
    assert '["","2 of 3 runs not steady",""]' in text


@pytest.mark.parametrize(
    ("metric", "before", "tonight", "unusual"),
    [
        ("downtime_s", [0.0] * 30, 60.0, True),
        ("downtime_s", [0.0] * 30, 2.0, True),
        ("downtime_s", [0.0] * 30, 1.0, False),  # less than is worth naming
        ("downtime_s", [0.0] * 30, 0.0, False),
        ("downtime_s", [9.0, 11.0] * 15, 12.0, False),  # as nights differ
        ("downtime_s", [12.0, 12.0, 12.0, 30.0, 12.0, 12.0] * 5, 24.0, False),  # less than nights differ now and then
        ("downtime_s", [12.0] * 28 + [30.0, 12.0], 60.0, True),
        ("throughput_after", [100.0] * 30, 99.0, True),
    ],
)
def test_a_night_that_departs_from_nights_without_scatter_is_unusual(
    metric: str, before: list[float], tonight: float, unusual: bool
) -> None:
    (found,) = pages.night_differences(judged([*before, tonight], metric).series, 30)
    assert found.unusual is unusual
    scatter, away = len(set(before)) > 1, tonight != before[-1]
    assert (pages.difference_row(found)["times"] == "∞ ×") is (away and not scatter)


def test_old_nights_are_not_written_again_and_tonights_is(folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folder, tmp_path / "quick"))
    old, last = folder / "nights/20260105-030000.html", folder / "nights/20260203-030000.html"
    old.write_text("kept")
    last.write_text("written anew")
    pages.write(folder, review(folder, Settings()))
    assert old.read_text() == "kept"
    assert "<h1>Night 20260203-030000" in last.read_text()


def test_an_empty_suite_has_a_page(tmp_path: Path) -> None:
    index = pages.write(tmp_path / "never", review(tmp_path / "never", Settings("Never")))
    assert "No night on record yet." in index.read_text()
    assert Page(index.read_text()).open == []


def test_an_axis_has_a_few_round_numbers_and_labels_that_do_not_touch() -> None:
    for low, high in ((0.0, 1.0), (95.3, 104.9), (-5.0, 5.0), (0.001, 0.0011), (1e5, 3e6)):
        values = round_values(low, high)
        assert 2 <= len(values) <= 6 and all(low <= value <= high for value in values)
    days = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]
    assert 3 <= len(month_labels(days)) <= 12 and len(month_labels(days[:40])) <= 10
    assert month_labels(days[:1]) == [(0, "01-01")]


def test_a_night_in_which_most_runs_never_converged_is_an_arrow_and_has_no_value(tmp_path: Path) -> None:
    suite = tmp_path / "nightly" / "quick"
    for i in range(8):
        found = (
            {"values": [50.0, 60.0], "horizons": [600.0]} if i < 6 else {"values": [50.0], "horizons": [600.0, 590.0]}
        )
        variants = {"stela": {"convergence_sp_s": {"e1": found}}, "even": {"convergence_sp_s": {"e1": {
            "values": [], "horizons": [600.0]}}}}  # fmt: skip
        append_night(suite, night(i, "quick", [experiment("stela/star", variants)]))
    pages.write(suite, review(suite, Settings()))
    charts = (suite / "experiments" / "stela-star.html").read_text()
    assert charts.count('<path class="never"') == 2, "of stela's last nights, and of even, which has no value at all"
    assert "not within 590 to 600 s: 2 of 3 runs" in charts and "1 of 3 runs never got there" in charts
    assert "not within 590 s: 1 of 3 runs" in charts, "the share has a time of its own"
    index = (suite / "index.html").read_text()
    assert "not within 590 to 600 s: 2 of 3 runs" in index and "not within 600 s: 1 of 1 runs" in index
    last = (suite / "nights" / "20260106-030000.html").read_text()
    assert "from 50; 1 of 3 runs never got there" in last


def test_a_simulated_night_repeats_the_errors_of_its_costs(tmp_path: Path) -> None:
    """On its page and in front; of series that are not here any more nothing is said."""
    judged_and_simulated(tmp_path, "stela/star/s1")
    suite, values = tmp_path / "nightly" / "quick", {"stela": {"throughput_after": {"e1": [100.0]}}}
    for i, (testbed, series) in enumerate(
        [("simulated", "s1"), ("local", "s1"), ("simulated", "gone"), ("simulated", "s1")]
    ):
        measured = experiment("stela/star", values, series=f"stela/star/{series}")
        append_night(suite, night(i, "quick", [measured], testbed=testbed))
    index = pages.write(suite, review(suite, Settings("Quick"))).read_text()
    nights = [path.read_text() for path in sorted((suite / "nights").glob("*.html"))]
    errors = "throughput after 4.0 % (9.0; −1.0)"
    assert [errors in text for text in nights] == [True, False, False, True]
    assert errors in index


def test_a_series_that_cannot_be_read_ends_no_page_of_a_simulated_night(tmp_path: Path) -> None:
    judged_and_simulated(tmp_path, "stela/star/s1", "stela/linear/s2")
    cut_short(tmp_path / "stela/star/s1", "runs")
    suite, values = tmp_path / "nightly" / "quick", {"stela": {"throughput_after": {"e1": [100.0]}}}
    measured = [experiment(name, values, series=f"{name}/{series}")
                for name, series in (("stela/star", "s1"), ("stela/linear", "s2"))]  # fmt: skip
    append_night(suite, night(0, "quick", measured, testbed="simulated"))
    index = pages.write(suite, review(suite, Settings("Quick")))
    for page in (index, *(suite / "nights").glob("*.html")):
        text = page.read_text()
        assert "throughput after 4.0 % (9.0; −1.0)" in text
        assert "Nothing is said of a series: stela/star/s1/tables/runs.parquet cannot be read: " in text
