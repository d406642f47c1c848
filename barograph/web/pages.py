"""Pages that the site renders itself, in the style of the reports: a DAG run, a message, and the list of results.

The list is for readers who may not see all results, and for a site without an index.
"""

from __future__ import annotations

from collections.abc import Callable
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
from barograph.web.result_files import dag_of, experiment_folders
from barograph.web.run_page import REPORTS, Page, sparkline_points

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
    from analysis.report.index_page import sentence_of  # it loads numpy

    groups = []
    for folder in experiment_folders(root):
        if not may_read(dag_of(f"{folder}/any") or ""):
            continue
        rows = []
        if folder.startswith(f"{NIGHTS}/"):
            title = f"Nights of {Path(folder).name}"
            paths = sorted((root / folder / "nights").glob("*.html"), reverse=True)
            if (root / folder / "index.html").is_file():
                rows.append(ResultRow("index", "All nights", f"{folder}/index.html"))
            for page in paths[:MOST_SERIES]:
                rows.append(ResultRow(page.stem, _when(page.stem), page.relative_to(root).as_posix()))
        else:
            title = f"{'Comparison' if folder.startswith(f'{COMPARISONS}/') else 'Experiment'} {folder}"
            paths = sorted((path.parent for path in (root / folder).glob("*/series.json")), reverse=True)
            for series in paths[:MOST_SERIES]:
                report = next((series / name for name in REPORTS if (series / name).is_file()), None)
                name = None if report is None else report.relative_to(root).as_posix()
                text = f"{_when(series.name)}{' (simulated)' if is_simulated_series(series) else ''}"
                rows.append(ResultRow(series.name, text, name, sentence_of(SeriesPaths(series))))
        if rows:
            groups.append(ResultGroup(title, tuple(rows), max(0, len(paths) - MOST_SERIES)))
    return tuple(groups)


def _when(series_id: str) -> str:
    """Return `2026-11-21 08:45:01` for `20261121-084501-a1b2c3d4`; other ids unchanged."""
    time = stamp_time(series_id)
    return f"{time:%Y-%m-%d %H:%M:%S} UTC" if time else series_id


def run_html(run: Page) -> str:
    blocks: list[Block] = [*map(Sentence, run.sentences)]
    blocks += [Sentence(link(each.text, href(each.name))) for each in run.links]
    if run.facts:
        blocks.append(Definitions(run.facts))
    if any(value is not None for value in run.throughput):
        top = f"{max(value for value in run.throughput if value is not None):.0f}"
        lines = (
            Markup('<polyline points="{}"/>').format(points) for points in sparkline_points(run.throughput, 600, 80)
        )
        svg = Markup(
            '<svg class="pulse" viewBox="0 -4 700 108" role="img" aria-label="Throughput of the last seconds, at most'
            ' {0} tuples/s"><line x1="0" y1="80" x2="600" y2="80"/>{1}<text x="606" y="8">{0} tuples/s</text>'
            '<text x="606" y="84">0</text><text x="600" y="100" text-anchor="end">now</text></svg>'
        ).format(top, joined(lines))
        caption = "Throughput of the run that is under way, one point a second, at most the last minute."
        blocks.append(element("figure", joined([svg, element("figcaption", caption)])))
    if run.rows:
        cells = [
            [cell if isinstance(cell, str) else link(cell.text, href(cell.name)) for cell in row] for row in run.rows
        ]
        blocks.append(lists(cells, run.headings, css=""))
    if run.notes:
        blocks.append(Section("What was told", [Warnings(run.notes)]))
    return page.html(PageContent(run.title, run.title, run.meta, blocks, reload_s=run.reload_s))


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
