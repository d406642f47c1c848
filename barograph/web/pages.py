"""The pages that the site renders itself, in the style of the reports: a DAG run, a message, and the list of results.

The list is for readers who may not see all results, and for when no index has been written yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from analysis.record.files import COMPARISONS, NIGHTS, SeriesPaths
from analysis.record.simulated import is_simulated_series
from barograph.plan.blocks import stamp_time
from barograph.settings import ROOT
from barograph.web.dag_run import REPORTS
from barograph.web.result_files import dag_of, experiment_folders
from barograph.web.run_page import Page, sparkline_points

if TYPE_CHECKING:
    from jinja2 import Environment


MOST_SERIES = 20  # the newest series of each experiment


@dataclass(frozen=True)
class ResultRow:
    name: str
    text: str
    report: str | None  # below the results
    sentence: str = ""  # the first one of the report


@dataclass(frozen=True)
class ResultGroup:
    title: str
    rows: tuple[ResultRow, ...]
    older: int = 0


def result_groups(root: Path, may_read: Callable[[str], bool]) -> tuple[ResultGroup, ...]:
    """One for each experiment, comparison and suite whose DAG may be read; newest first within."""
    folders = [folder for folder in experiment_folders(root) if may_read(dag_of(f"{folder}/any") or "")]
    groups = (
        _night_group(root, folder) if folder.startswith(f"{NIGHTS}/") else _series_group(root, folder)
        for folder in folders
    )
    return tuple(group for group in groups if group.rows)


def _series_group(root: Path, folder: str) -> ResultGroup:
    series = sorted((path.parent for path in (root / folder).glob("*/series.json")), reverse=True)
    kind = "Comparison" if folder.startswith(f"{COMPARISONS}/") else "Experiment"
    return ResultGroup(
        f"{kind} {folder}",
        tuple(_series_row(root, path) for path in series[:MOST_SERIES]),
        max(0, len(series) - MOST_SERIES),
    )


def _series_row(root: Path, series: Path) -> ResultRow:
    from analysis.report.index_page import sentence_of  # it loads numpy

    report = next((series / name for name in REPORTS if (series / name).is_file()), None)
    link = None if report is None else report.relative_to(root).as_posix()
    how = " (simulated)" if is_simulated_series(series) else ""
    return ResultRow(series.name, _when(series.name) + how, link, sentence_of(SeriesPaths(series)))


def _when(series_id: str) -> str:
    """`2026-11-21 08:45:01` of `20261121-084501-a1b2c3d4`; as it is where it has no date."""
    opened = stamp_time(series_id)
    return f"{opened:%Y-%m-%d %H:%M:%S} UTC" if opened else series_id


def _night_group(root: Path, folder: str) -> ResultGroup:
    suite = root / folder
    index = [ResultRow("index", "All nights", f"{folder}/index.html")] if (suite / "index.html").is_file() else []
    pages = sorted((suite / "nights").glob("*.html"), reverse=True)
    rows = [ResultRow(page.stem, _when(page.stem), page.relative_to(root).as_posix()) for page in pages[:MOST_SERIES]]
    return ResultGroup(f"Nights of {suite.name}", (*index, *rows), max(0, len(pages) - MOST_SERIES))


FOLDERS = (Path(__file__).parent / "templates", ROOT / "analysis" / "report" / "templates")


def run_html(page: Page) -> str:
    return _render("run.html.j2", p=page, sparks=sparkline_points(page.throughput, 600, 80), top=_highest(page))


def results_html(groups: tuple[ResultGroup, ...]) -> str:
    return _render("results.html.j2", groups=groups)


def message_html(title: str, text: str, login: str | None = None) -> str:
    return _render("message.html.j2", title=title, text=text, login=login)


def href(name: str) -> str:
    """Relative to the site's own root, where all of these pages are."""
    return f"files/{quote(name)}"


def _highest(page: Page) -> float | None:
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
