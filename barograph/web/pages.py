"""Pages that the site renders itself, in the style of the reports: a DAG run, a message, and the list of results.

The list is for readers who may not see all results, and for a site without an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from analysis.record.files import COMPARISONS, NIGHTS, SeriesPaths
from analysis.record.simulated import is_simulated_series
from analysis.report import page
from analysis.report.page import Block, Definitions, PageContent, Section, Sentence, Warnings
from analysis.report.table import Heading, ResultTable, code, columns, element, joined, link, lists
from barograph.plan.blocks import stamp_time
from barograph.web.dag_run import REPORTS
from barograph.web.result_files import dag_of, experiment_folders
from barograph.web.run_page import Page, sparkline_points

MOST_SERIES = 20  # the newest series of each experiment


@dataclass(frozen=True)
class ResultRow:
    name: str
    text: str
    report: str | None  # below the results
    sentence: str = ""  # the report's first sentence


@dataclass(frozen=True)
class ResultGroup:
    title: str
    rows: tuple[ResultRow, ...]
    older: int = 0


def result_groups(root: Path, may_read: Callable[[str], bool]) -> tuple[ResultGroup, ...]:
    """Return a group for each experiment, comparison and suite whose DAG may be read; newest first within."""
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
    suffix = " (simulated)" if is_simulated_series(series) else ""
    return ResultRow(series.name, _when(series.name) + suffix, link, sentence_of(SeriesPaths(series)))


def _when(series_id: str) -> str:
    """Return `2026-11-21 08:45:01` for `20261121-084501-a1b2c3d4`; other ids unchanged."""
    time = stamp_time(series_id)
    return f"{time:%Y-%m-%d %H:%M:%S} UTC" if time else series_id


def _night_group(root: Path, folder: str) -> ResultGroup:
    suite = root / folder
    index = [ResultRow("index", "All nights", f"{folder}/index.html")] if (suite / "index.html").is_file() else []
    pages = sorted((suite / "nights").glob("*.html"), reverse=True)
    rows = [ResultRow(path.stem, _when(path.stem), path.relative_to(root).as_posix()) for path in pages[:MOST_SERIES]]
    return ResultGroup(f"Nights of {suite.name}", (*index, *rows), max(0, len(pages) - MOST_SERIES))


def run_html(run: Page) -> str:
    blocks: list[Block] = [*map(Sentence, run.sentences)]
    blocks += [Sentence(link(each.text, href(each.name))) for each in run.links]
    if run.facts:
        blocks.append(Definitions(run.facts))
    if any(value is not None for value in run.throughput):
        blocks.append(_throughput(run.throughput))
    if run.rows:
        cells = [
            [cell if isinstance(cell, str) else link(cell.text, href(cell.name)) for cell in row] for row in run.rows
        ]
        blocks.append(lists(cells, run.headings, css=""))
    if run.notes:
        blocks.append(Section("What was told", [Warnings(run.notes)]))
    return page.html(PageContent(run.title, run.title, run.meta, blocks, reload_s=run.reload_s))


def _throughput(values: Sequence[float | None]) -> Markup:
    top = f"{max(value for value in values if value is not None):.0f}"
    lines = (Markup('<polyline points="{}"/>').format(points) for points in sparkline_points(values, 600, 80))
    svg = Markup(
        '<svg class="pulse" viewBox="0 -4 700 108" role="img" aria-label="Throughput of the last seconds, at most {0}'
        ' tuples/s"><line x1="0" y1="80" x2="600" y2="80"/>{1}<text x="606" y="8">{0} tuples/s</text>'
        '<text x="606" y="84">0</text><text x="600" y="100" text-anchor="end">now</text></svg>'
    ).format(top, joined(lines))
    caption = "Throughput at the sinks of the run that is under way, one point a second, at most the last minute."
    return element("figure", joined([svg, element("figcaption", caption)]))


def results_html(groups: tuple[ResultGroup, ...]) -> str:
    headings = (
        *columns("begun = text /k; id = name"),
        Heading("result", "sentence", css="v"),
        Heading("report", lambda row: link("report", href(row.report)) if row.report else "none yet"),
    )
    sections: list[Block] = []
    for group in groups:
        older = [Sentence(f"and {group.older} older", "small")] if group.older else []
        sections.append(Section(group.title, [ResultTable(headings, group.rows), *older]))
    nothing = joined(
        ["There are no results yet, or none that you may read. Trigger the DAG of an experiment, or run ",
         code("barograph run stela/star --demo"), "."]
    )  # fmt: skip
    meta = "What you may read, newest first"
    return page.html(PageContent("results", "Results", meta, sections or [Sentence(nothing)]))


def message_html(title: str, text: str, login: str | None = None) -> str:
    more = [Sentence(link("Log in to Airflow", login))] if login else []
    return page.html(PageContent(title, title, "", [Sentence(text), *more]))


def href(name: str) -> str:
    """Return a link relative to the site's own root, where all of these pages are."""
    return f"files/{quote(name)}"
