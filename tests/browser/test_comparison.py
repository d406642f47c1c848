"""The page of a comparison in a browser: points answer, nothing overflows on a phone or on paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis import compare
from tests.browser import looks
from tests.support.compared_series import one_pair

if TYPE_CHECKING:
    from playwright.sync_api import Page


Open = Callable[..., "Page"]
FORKED = "feature/least-link-load-with-a-very-long-name-that-nobody-shortens"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results") / "compare" / "stela_star" / "20260101-000000-aa"
    sides = {"a": {"label": "main", "commit": "a" * 40}, "b": {"label": FORKED, "commit": "b" * 40}}
    return compare.write(one_pair(root, sides=sides, log=[f"{n:07x} A commit of that branch" for n in range(12)]))


def test_every_point_says_whose_it_is_and_its_value(open_page: Open, compared: Path) -> None:
    page = open_page(compared, height=6000)
    figures = looks.points(page)
    assert len(figures) == 3 and all(figures)
    for points in figures[:2]:
        for point in points:
            page.mouse.move(point["x"], point["y"])
            said = page.locator(".tip").inner_text()
            assert point["head"] in said or "more here" in said, (point, said)
    page.locator("#figure-comparison_forest svg").focus()
    page.keyboard.press("Home")
    said = page.locator(".tip").inner_text()
    assert "throughput after" in said and "B against A: 12" in said and "A/A floor" in said


def test_it_says_the_answer_first(open_page: Open, compared: Path) -> None:
    page = open_page(compared)
    answer = page.locator(".answer").bounding_box()
    assert answer is not None and answer["y"] + answer["height"] < 500
    assert page.locator(".answer").inner_text().startswith(f"In complete runs {FORKED} is ahead of main in")


def test_a_phone_never_scrolls_sideways(open_page: Open, compared: Path) -> None:
    page = open_page(compared, width=360, height=780, is_mobile=True, has_touch=True)
    assert looks.overflow_px(page) == 0
    page.evaluate('() => document.querySelectorAll("details").forEach(details => { details.open = true; })')
    assert looks.overflow_px(page) == 0


def test_paper_cuts_nothing(open_page: Open, compared: Path) -> None:
    width, height = looks.A4_PX
    page = open_page(compared, width=width, height=height)
    page.emulate_media(media="print")
    assert looks.too_large(page, width, height) == []


def test_downloads_of_the_table_are_in_the_page(open_page: Open, compared: Path) -> None:
    page = open_page(compared)
    with page.expect_download() as got:
        page.locator('a[download="comparison_rows.csv"]').click()
    lines = got.value.path().read_text().splitlines()
    assert lines[0].startswith("pair,metric,event,") and len(lines) == 8
