"""From the index to every page and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    from playwright.sync_api import Page


Open = Callable[..., "Page"]


def targets(page: Page) -> set[Path]:
    """Files that the page leads to, as the browser resolves them."""
    found: list[str] = page.evaluate('() => [...document.querySelectorAll("a[href]")].map(a => a.href)')
    return {Path(unquote(urlparse(href).path)) for href in found if href.startswith("file:")}


def test_every_page_is_reached_from_the_index_and_every_link_leads_somewhere(open_page: Open, results: Path) -> None:
    seen: set[Path] = set()
    waiting = {results / "index.html"}
    while waiting:
        path = waiting.pop()
        seen.add(path)
        assert path.is_file(), path
        if path.suffix == ".html":
            waiting |= targets(open_page(path)) - seen
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
