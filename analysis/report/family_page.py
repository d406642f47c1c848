"""One page a family of experiments: the papers' figures side by side, the ledger, ablation, and where to read on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.claims import statements
from analysis.claims.ledger_rows import LedgerRow
from analysis.errors import SeriesError
from analysis.metrics import scale_decisions
from analysis.metrics.scale_decisions import AblationRow
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, rows
from analysis.report import index_page, page
from analysis.report.figures import decision_graph, paper_figures, series_data, topology_graph
from analysis.report.figures.catalogue import Figure, page_figure
from analysis.report.figures.points import Drawing
from analysis.report.figures.series_data import SeriesData
from analysis.report.ledger_table import ledger_row
from analysis.report.page import Download

TEMPLATE = "family.html.j2"
FIGURES = "figures"  # the folder beside the page with the files of its figures


@dataclass(frozen=True)
class FamilyFigure:
    """A published figure: one drawing, one a graph, or none where nothing of it was run."""

    source: str
    title: str
    caption: str
    drawings: tuple[Figure, ...]  # with a heading each where there are several
    not_run: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """One series that the page was made from."""

    experiment: str
    series_id: str
    runs: int
    complete: int
    begun: str
    headline: str  # of its report; empty where there is none
    report: str | None  # relative to the page, where there is one


@dataclass(frozen=True)
class FamilyContent:
    family: str
    figures: list[FamilyFigure]
    counts: list[tuple[str, int]]
    ledger: list[Row]
    ablation: list[tuple[str, str, list[str]]]
    ablated: list[str]
    sources: list[Source]
    older: list[str]
    files: dict[str, tuple[Download, ...]]  # by figure or table


def newest_series(series_dirs: Sequence[Path]) -> tuple[dict[str, SeriesPaths], list[str]]:
    """The newest series of each experiment, and the ids of those that it supersedes here."""
    found: dict[str, SeriesPaths] = {}
    older = []
    for folder in sorted(series_dirs, key=lambda path: path.name):
        paths = SeriesPaths(folder)
        experiment = _experiment_of(paths)
        if experiment in found:
            older.append(f"{experiment} {found[experiment].root.name}")
        found[experiment] = paths
    return found, older


def _experiment_of(paths: SeriesPaths) -> str:
    runs = rows(paths, "runs")
    if not runs:
        raise SeriesError(
            f"{paths.root} is not analysed: it has no table of runs. Run `barograph report {paths.root}`."
        )
    return next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)


def collect(
    found: dict[str, SeriesPaths], older: list[str], ledger: Sequence[LedgerRow], target: Path
) -> FamilyContent:
    data = {experiment: series_data.collect(paths) for experiment, paths in found.items()}
    figures = statements.load_figures(frozenset(paper_figures.PANELS))
    lines = {experiment: mine for experiment, paths in found.items() if (mine := scale_decisions.ablation_rows(paths))}
    told = [ledger_row(row) for row in ledger]
    given = Counter(index_page.verdict_of(row) for row in told)
    shown = [_family_figure(number, figure, found, data) for number, figure in enumerate(figures, start=1)]
    files = {drawn.name: drawn.files for figure in shown for drawn in figure.drawings}
    files["claims"] = page.row_downloads("claims", told)
    return FamilyContent(
        family=" and ".join(sorted({experiment.partition("/")[0] for experiment in found})),
        figures=shown,
        counts=[(verdict, given[verdict]) for verdict in index_page.VERDICTS],
        ledger=told,
        ablation=ablation_table(lines),
        ablated=list(lines),
        sources=[_source(experiment, paths, target) for experiment, paths in sorted(found.items())],
        older=older,
        files=files,
    )


def ablation_table(lines: dict[str, list[AblationRow]]) -> list[tuple[str, str, list[str]]]:
    """Variant, what it changes, and per experiment whether that mattered at any event."""
    variants = dict.fromkeys((line.variant, line.changed) for mine in lines.values() for line in mine)
    return [
        (
            variant,
            changed,
            [_difference_text([line for line in mine if line.variant == variant]) for mine in lines.values()],
        )
        for variant, changed in variants
    ]


def _difference_text(mine: Sequence[AblationRow]) -> str:
    if mine and mine[0].variant == scale_decisions.PAPER:
        return "; ".join(line.answers[0] for line in mine)
    differing, runs = sum(line.differing for line in mine), sum(line.runs for line in mine)
    return f"differs in {differing} of {runs}" if differing else "no difference"


def _family_figure(
    number: int, figure: statements.PublishedFigure, found: dict[str, SeriesPaths], data: dict[str, SeriesData]
) -> FamilyFigure:
    missing = tuple(dict.fromkeys(p.experiment for p in figure.panels if p.experiment not in data))
    drawn = []
    if figure.is_graphs:
        drawn = [page_figure(f"figure_{number}_{p.topology}", p.title, "", _graph(p, found)) for p in figure.panels]
    elif any(panel.experiment in data for panel in figure.panels):
        drawn = [page_figure(f"figure_{number}", figure.title, "", paper_figures.draw(figure, data))]
    return FamilyFigure(figure.source, figure.title, figure.caption, tuple(drawn), missing)


def _graph(panel: statements.Panel, found: dict[str, SeriesPaths]) -> Drawing:
    """As it was run, with what was decided; else as its file has it."""
    title = f"Logical graph of {panel.topology}"
    run = decision_graph.collect(found[panel.experiment]) if panel.experiment in found else None
    if run is None:
        return topology_graph.graph_drawing(decision_graph.graph_from_catalogue(panel.topology), title)
    return topology_graph.graph_drawing(run.graph, title, decision_graph.notes(run))


def _source(experiment: str, paths: SeriesPaths, target: Path) -> Source:
    runs = rows(paths, "runs")
    begun = min((run["started_s"] for run in runs if run["started_s"]), default=None)
    return Source(
        experiment, next((run["series_id"] for run in runs if run["series_id"]), paths.root.name), len(runs),
        sum(run["status"] == "complete" for run in runs),
        "–" if begun is None else datetime.fromtimestamp(begun, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        index_page.headline_of(paths),
        os.path.relpath(paths.report, target.parent) if paths.report.is_file() else None,
    )  # fmt: skip


def write(series_dirs: Sequence[Path], target: Path, evaluate: Any) -> Path:
    """The page at `target`; `evaluate` gives the ledger of series folders."""
    if not series_dirs:
        raise SeriesError("a family report needs one series or more; none was given")
    found, older = newest_series(series_dirs)
    content = collect(found, older, evaluate([paths.root for paths in found.values()]), target)
    for offered in content.files.values():
        page.write_downloads(target.parent / FIGURES, offered)
    return page.write(target, page.render(TEMPLATE, c=content, links=page.download_links(content.files, FIGURES)))
