"""The pages of nights in a browser: every night answers, a year of 200 series opens at once, phones and paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.nights import pages
from analysis.nights.findings import review
from analysis.nights.regressions import Settings
from bench.statistics import synthetic_nights
from tests.browser import looks

if TYPE_CHECKING:
    from playwright.sync_api import Page


Open = Callable[..., "Page"]
LOAD_MS = 30_000.0  # on an idle core it is under 1 s; here others work beside it
ELEMENTS = 6000
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A year of 200 series, with regressions, deaths and missing nights."""
    folder = tmp_path_factory.mktemp("results") / "nightly" / "bench"
    synthetic_nights.write_history(folder, series=200, nights=365, seed=1)
    pages.write(folder, review(folder, Settings("A year of nights")))
    return folder


def test_a_year_of_200_series_opens_at_once(open_page: Open, suite: Path) -> None:
    page = open_page(suite / "index.html")
    loaded_ms = page.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventEnd")
    elements = page.evaluate("() => document.querySelectorAll('*').length")
    print(f"index.html: {(suite / 'index.html').stat().st_size} bytes, {elements} elements, {loaded_ms:.0f} ms")
    assert loaded_ms < LOAD_MS
    assert elements < ELEMENTS, "no element a point"
    assert (suite / "index.html").stat().st_size < MEGABYTE
    assert "confirmed regression" in page.locator(".state").inner_text()


def test_every_night_says_its_value_or_why_there_is_none(open_page: Open, suite: Path) -> None:
    page = open_page(suite / "experiments" / "bench-part_1.html", height=1600)
    (points, *_) = looks.points(page)
    for point in points[::40] + points[-8:]:
        page.mouse.move(point["x"], point["y"])
        said = page.locator(".tip").inner_text()
        assert point["head"] in said or "more here" in said, (point, said)
    missing = [point for point in points if "not measured" in point["head"]]
    page.mouse.move(missing[0]["x"], missing[0]["y"])
    assert any(why in page.locator(".tip").inner_text() for why in ("m3 died", "no night on record"))
    page.locator("svg.nights").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    said = page.locator(".tip").inner_text()
    assert "night: 2026" in said and "runs: 3" in said and "commit: " in said


def test_a_card_leads_to_its_series(open_page: Open, suite: Path) -> None:
    page = open_page(suite / "index.html")
    page.locator("a.card.worse").first.click()
    page.wait_for_load_state()
    anchor = page.evaluate("() => document.querySelector(':target').querySelector('figcaption').innerText")
    assert "throughput after" in anchor or "latency after" in anchor


@pytest.mark.parametrize("name", ["index.html", "experiments/bench-part_1.html", "nights/20260702-030000.html"])
def test_a_phone_never_scrolls_sideways_and_paper_cuts_nothing(open_page: Open, suite: Path, name: str) -> None:
    page = open_page(suite / name, width=360, height=780, is_mobile=True, has_touch=True)
    page.evaluate('() => document.querySelectorAll("details").forEach(details => { details.open = true; })')
    assert looks.overflow_px(page) == 0
    width, height = looks.A4_PX
    paper = open_page(suite / name, width=width, height=height)
    paper.emulate_media(media="print")
    assert looks.too_large(paper, width, height) == []
