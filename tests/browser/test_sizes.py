"""Pages on paper and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import looks

if TYPE_CHECKING:
    from playwright.sync_api import Page


Open = Callable[..., "Page"]
PAGES = ("index.html", "stela/report.html", "stela/star/*/report.html", "stela/star/*/runs/stela-r1/report.html",
         "stela/star/*/runs/stela-r4/report.html")  # fmt: skip


def found(results: Path, pattern: str) -> Path:
    return next(results.glob(pattern))


@pytest.mark.parametrize("pattern", PAGES)
def test_a_phone_never_scrolls_sideways(open_page: Open, results: Path, pattern: str) -> None:
    page = open_page(found(results, pattern), width=360, height=780, is_mobile=True, has_touch=True)
    assert looks.overflow_px(page) == 0
    page.evaluate('() => document.querySelectorAll("details").forEach(details => { details.open = true; })')
    assert looks.overflow_px(page) == 0


@pytest.mark.parametrize("pattern", PAGES)
def test_paper_cuts_nothing(open_page: Open, results: Path, pattern: str) -> None:
    width, height = looks.A4_PX
    page = open_page(found(results, pattern), width=width, height=height)
    page.emulate_media(media="print")
    assert looks.too_large(page, width, height) == []
    cut: int = page.evaluate(
        """() => [...document.querySelectorAll("figure svg")].filter(svg => {
          // A figure of graphs may break between them.
          const kept = svg.closest(".graphs > div") || svg.closest("figure");
          return getComputedStyle(kept).breakInside !== "avoid";
        }).length"""
    )
    assert cut == 0
    scrolling: int = page.evaluate(
        """() => [...document.querySelectorAll("*")].filter(element =>
        ["auto", "scroll"].includes(getComputedStyle(element).overflowX)).length"""
    )
    assert scrolling == 0


def test_a_report_prints_on_as_many_pages_as_it_needs(open_page: Open, report: Path) -> None:
    page = open_page(report)
    printed = page.pdf(prefer_css_page_size=True)
    boxes = re.findall(rb"/MediaBox\s*\[([^\]]+)\]", printed)
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 4 <= pages <= 14, pages
    assert boxes and all([round(float(n)) for n in box.split()] == [0, 0, 595, 842] for box in boxes)


def test_hidden_parts_are_on_paper_but_for_long_lists(open_page: Open, report: Path) -> None:
    page = open_page(report)
    page.emulate_media(media="print")
    shown: list[list[bool]] = page.evaluate(
        """() => [...document.querySelectorAll("details")].map(details =>
        [details.classList.contains("long"), details.querySelector("table").checkVisibility()])"""
    )
    assert shown and all(long != visible for long, visible in shown)
