"""Pages on paper and on a phone; from the index to every page and back; pages of a comparison and of nights."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from analysis import compare
from analysis.nights import pages
from analysis.nights.findings import review
from analysis.nights.regressions import Settings
from bench.statistics import synthetic_nights
from tests.browser import looks
from tests.browser.looks import Open, tip
from tests.support.compared_series import one_pair

PAGES = ("index.html", "stela/report.html", "stela/star/*/report.html", "stela/star/*/runs/stela-r1/report.html",
         "stela/star/*/runs/stela-r4/report.html")  # fmt: skip
FORKED = "feature/least-link-load-with-a-very-long-name-that-nobody-shortens"
LOAD_MS = 30_000.0  # on an idle core it is under 1 s; here others work beside it
ELEMENTS = 6000
MEGABYTE = 1_000_000


@pytest.mark.parametrize("pattern", PAGES)
def test_a_phone_never_scrolls_sideways_and_paper_cuts_nothing(open_page: Open, results: Path, pattern: str) -> None:
    paper = looks.require_fits(open_page, next(results.glob(pattern)))
    assert paper.evaluate(looks.CUT) == paper.evaluate(looks.SCROLLING) == 0


def test_a_report_prints_on_as_many_pages_as_it_needs_without_its_long_lists(open_page: Open, report: Path) -> None:
    page = open_page(report)
    printed = page.pdf(prefer_css_page_size=True)
    boxes = re.findall(rb"/MediaBox\s*\[([^\]]+)\]", printed)
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 14
    assert boxes and all([round(float(n)) for n in box.split()] == [0, 0, 595, 842] for box in boxes)
    page.emulate_media(media="print")
    shown: list[list[bool]] = page.evaluate(
        """() => [...document.querySelectorAll("details")].map(details =>
        [details.classList.contains("long"), details.querySelector("table").checkVisibility()])"""
    )
    assert shown and all(long != visible for long, visible in shown)


def test_every_page_is_reached_from_the_index_and_every_link_leads_somewhere(open_page: Open, results: Path) -> None:
    seen: set[Path] = set()
    waiting = {results / "index.html"}
    while waiting:
        path = waiting.pop()
        seen.add(path)
        assert path.is_file(), path
        if path.suffix == ".html":
            links = open_page(path).evaluate('() => [...document.querySelectorAll("a[href]")].map(a => a.href)')
            waiting |= {Path(unquote(urlparse(href).path)) for href in links if href.startswith("file:")} - seen
    assert set(results.rglob("*.html")) <= seen
    assert len(seen) >= 3 + 8, "index, family, series and its eight runs"


def test_a_click_goes_from_the_index_to_a_run_and_back(open_page: Open, results: Path) -> None:
    page = open_page(results / "index.html")
    page.get_by_role("link", name="report", exact=True).click()
    assert page.title().startswith("Barograph: stela/star")
    page.get_by_role("link", name="stela-r2", exact=True).first.click()
    assert page.locator("h1").inner_text() == "stela-r2"
    page.get_by_role("link", name="stela/star, series").click()
    assert page.locator("h1").inner_text() == "stela/star"


# A comparison.


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results") / "compare" / "stela_star" / "20260101-000000-aa"
    sides = {"a": {"label": "main", "commit": "a" * 40}, "b": {"label": FORKED, "commit": "b" * 40}}
    return compare.write(one_pair(root, sides=sides, log=[f"{n:07x} A commit of that branch" for n in range(12)]))


def test_a_comparison_says_the_answer_first_and_its_points_and_files_answer(open_page: Open, compared: Path) -> None:
    looks.require_fits(open_page, compared)
    page = open_page(compared)
    answer = page.locator(".answer").bounding_box()
    assert answer is not None and answer["y"] + answer["height"] < 500
    assert page.locator(".answer").inner_text().startswith(f"In complete runs {FORKED} is ahead of main in")
    with page.expect_download() as got:
        page.locator('a[download="comparison_rows.csv"]').click()
    lines = got.value.path().read_text().splitlines()
    assert lines[0].startswith("pair,metric,event,") and len(lines) == 8
    page = open_page(compared, height=6000)
    figures = looks.points(page)
    assert len(figures) == 3 and all(figures)
    looks.require_answers(page, [*figures[0], *figures[1]])
    page.locator("#figure-comparison_forest svg").focus()
    page.keyboard.press("Home")
    assert all(words in tip(page) for words in ("throughput after", "B against A: 12", "A/A floor"))


# A year of 200 series of nights, with regressions, deaths and missing nights.


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "nightly" / "bench"
    synthetic_nights.write_history(folder, series=200, nights=365, seed=1)
    pages.write(folder, review(folder, Settings("A year of nights")))
    return folder


def test_a_year_of_200_series_opens_at_once_and_a_card_leads_to_its_series(open_page: Open, suite: Path) -> None:
    page = open_page(suite / "index.html")
    loaded_ms = page.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventEnd")
    elements = page.evaluate("() => document.querySelectorAll('*').length")
    print(f"index.html: {(suite / 'index.html').stat().st_size} bytes, {elements} elements, {loaded_ms:.0f} ms")
    assert loaded_ms < LOAD_MS
    assert elements < ELEMENTS, "no element a point"
    assert (suite / "index.html").stat().st_size < MEGABYTE
    assert "confirmed regression" in page.locator(".state").inner_text()
    page.locator("a.card.worse").first.click()
    page.wait_for_load_state()
    anchor = page.evaluate("() => document.querySelector(':target').querySelector('figcaption').innerText")
    assert "throughput after" in anchor or "latency after" in anchor


def test_every_night_says_its_value_or_why_there_is_none(open_page: Open, suite: Path) -> None:
    page = open_page(suite / "experiments" / "bench-part_1.html", height=1600)
    (points, *_) = looks.points(page)
    looks.require_answers(page, points[::40] + points[-8:])
    missing = [point for point in points if "not measured" in point["head"]]
    page.mouse.move(missing[0]["x"], missing[0]["y"])
    assert any(why in tip(page) for why in ("m3 died", "no night on record"))
    page.locator("svg.nights").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert all(words in tip(page) for words in ("night: 2026", "runs: 3", "commit: "))


@pytest.mark.parametrize("name", ["index.html", "experiments/bench-part_1.html", "nights/20260702-030000.html"])
def test_pages_of_nights_fit_a_phone_and_paper(open_page: Open, suite: Path, name: str) -> None:
    looks.require_fits(open_page, suite / name)
