"""A real browser for tests of pages: the system's Chromium, with no way out of this machine.

`open_page` gives a page of a file; when a test ends, nothing may have gone wrong on any page that it opened, and
nothing may have been asked of a network. The browser ends with this folder's tests: others have event loops too.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden.series import GoldenSeries
from tests.support import programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

FLAGS = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
LOCAL = ("file:", "data:", "blob:", "about:")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=programs.chromium(), args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`open_page(path, width=1200, height=1600, **settings of the browser's context)`."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def opened(path: Path, width: int = 1200, height: int = 1600, **settings: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        context.route(lambda url: not url.startswith(LOCAL), lambda route: route.abort())
        page = context.new_page()
        page.on("request", lambda request: None if request.url.startswith(LOCAL) else wrong.append(request.url))
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session")
def results(golden_series: GoldenSeries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results with the golden series in it, a report of its family, and the index."""
    from analysis.claims import ledger
    from analysis.report import family_page, index_page

    root = tmp_path_factory.mktemp("results")
    folder = root / "stela" / "star" / golden_series.root.name
    shutil.copytree(golden_series.root, folder)
    family_page.write([folder], root / "stela" / "report.html", ledger.evaluate)
    index_page.write(root, time.time())
    return root


@pytest.fixture(scope="session")
def report(results: Path) -> Path:
    """The golden series' report; its files and the pages of its runs are beside it."""
    return next(results.glob("stela/star/*/report.html"))
