"""The few pages that are made here, in the style of the reports."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dags.places import ROOT
from dags.plugin.list_page import Group
from dags.plugin.run_page import Page, sparks

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDERS = (Path(__file__).parent / "templates", ROOT / "analysis" / "templates")


def run(page: Page) -> str:
    return _render("run.html.j2", p=page, sparks=sparks(page.throughput, 600, 80), top=_top(page))


def results(groups: tuple[Group, ...]) -> str:
    return _render("results.html.j2", groups=groups)


def message(title: str, text: str, login: str | None = None) -> str:
    return _render("message.html.j2", title=title, text=text, login=login)


def href(name: str) -> str:
    """Relative to the site's own root, where all of these pages are."""
    return f"files/{quote(name)}"


def _top(page: Page) -> float | None:
    return max((value for value in page.throughput if value is not None), default=None)


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(href=href, **values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(FOLDERS), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
