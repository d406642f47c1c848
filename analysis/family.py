"""One page a family of experiments: the papers' figures side by side, the ledger, ablation, and where to read on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import ablated, downloads, page, published, summary
from analysis.ablated import Line
from analysis.claims import LedgerRow
from analysis.downloads import File
from analysis.errors import SeriesError
from analysis.figures import decided, graph_drawing, series, side_by_side
from analysis.figures.build import Figure, on_page
from analysis.figures.points import Drawing
from analysis.figures.series import SeriesData
from analysis.record import SeriesPaths
from analysis.report_claims import ledger_row
from analysis.small_tables import Row, rows

TEMPLATE = "family.html.j2"
FIGURES = "figures"  # the folder beside the page with the files of its figures


@dataclass(frozen=True)
class Shown:
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
    report: str | None  # relative to the page, where there is one


@dataclass(frozen=True)
class Content:
    family: str
    figures: list[Shown]
    counts: list[tuple[str, int]]
    ledger: list[Row]
    ablation: list[tuple[str, str, list[str]]]
    ablated: list[str]
    sources: list[Source]
    older: list[str]
    files: dict[str, tuple[File, ...]]  # by figure or table


def newest(series_dirs: Sequence[Path]) -> tuple[dict[str, SeriesPaths], list[str]]:
    """The newest series of each experiment, and the ids of those that it supersedes here."""
    found: dict[str, SeriesPaths] = {}
    older = []
    for folder in sorted(series_dirs, key=lambda path: path.name):
        paths = SeriesPaths(folder)
        experiment = _experiment(paths)
        if experiment in found:
            older.append(f"{experiment} {found[experiment].root.name}")
        found[experiment] = paths
    return found, older


def _experiment(paths: SeriesPaths) -> str:
    runs = rows(paths, "runs")
    if not runs:
        raise SeriesError(
            f"{paths.root} is not analysed: it has no table of runs. Run `barograph report {paths.root}`."
        )
    return next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)


def collect(found: dict[str, SeriesPaths], older: list[str], ledger: Sequence[LedgerRow], target: Path) -> Content:
    data = {experiment: series.collect(paths) for experiment, paths in found.items()}
    figures = published.load(frozenset(side_by_side.PANELS))
    lines = {experiment: mine for experiment, paths in found.items() if (mine := ablated.of_series(paths))}
    told = [ledger_row(row) for row in ledger]
    given = Counter(summary.verdict_of(row) for row in told)
    shown = [_shown(number, figure, found, data) for number, figure in enumerate(figures, start=1)]
    files = {drawn.name: drawn.files for figure in shown for drawn in figure.drawings}
    files["claims"] = downloads.of_rows("claims", told)
    return Content(
        family=" and ".join(sorted({experiment.partition("/")[0] for experiment in found})),
        figures=shown,
        counts=[(verdict, given[verdict]) for verdict in summary.VERDICTS],
        ledger=told,
        ablation=ablation_table(lines),
        ablated=list(lines),
        sources=[_source(experiment, paths, target) for experiment, paths in sorted(found.items())],
        older=older,
        files=files,
    )


def ablation_table(lines: dict[str, list[Line]]) -> list[tuple[str, str, list[str]]]:
    """Variant, what it changes, and per experiment whether that mattered at any event."""
    variants = dict.fromkeys((line.variant, line.changed) for mine in lines.values() for line in mine)
    return [
        (variant, changed, [_mattered([line for line in mine if line.variant == variant]) for mine in lines.values()])
        for variant, changed in variants
    ]


def _mattered(mine: Sequence[Line]) -> str:
    if mine and mine[0].variant == ablated.PAPER:
        return "; ".join(line.answers[0] for line in mine)
    differing, runs = sum(line.differing for line in mine), sum(line.runs for line in mine)
    return f"differs in {differing} of {runs}" if differing else "no difference"


def _shown(
    number: int, figure: published.Published, found: dict[str, SeriesPaths], data: dict[str, SeriesData]
) -> Shown:
    missing = tuple(dict.fromkeys(p.experiment for p in figure.panels if p.experiment not in data))
    drawn = []
    if figure.is_graphs:
        drawn = [on_page(f"figure_{number}_{p.topology}", p.title, "", _graph(p, found)) for p in figure.panels]
    elif any(panel.experiment in data for panel in figure.panels):
        drawn = [on_page(f"figure_{number}", figure.title, "", side_by_side.draw(figure, data))]
    return Shown(figure.source, figure.title, figure.caption, tuple(drawn), missing)


def _graph(panel: published.Panel, found: dict[str, SeriesPaths]) -> Drawing:
    """As it was run, with what was decided; else as its file has it."""
    title = f"Logical graph of {panel.topology}"
    run = decided.collect(found[panel.experiment]) if panel.experiment in found else None
    if run is None:
        return graph_drawing.drawing(decided.graph_from_catalogue(panel.topology), title)
    return graph_drawing.drawing(run.graph, title, decided.notes(run))


def _source(experiment: str, paths: SeriesPaths, target: Path) -> Source:
    runs = rows(paths, "runs")
    begun = min((run["started_s"] for run in runs if run["started_s"]), default=None)
    return Source(
        experiment, next((run["series_id"] for run in runs if run["series_id"]), paths.root.name), len(runs),
        sum(run["status"] == "complete" for run in runs),
        "–" if begun is None else datetime.fromtimestamp(begun, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        os.path.relpath(paths.report, target.parent) if paths.report.is_file() else None,
    )  # fmt: skip


def write(series_dirs: Sequence[Path], target: Path, evaluate: Any) -> Path:
    """The page at `target`; `evaluate` gives the ledger of series folders."""
    if not series_dirs:
        raise SeriesError("a family report needs one series or more; none was given")
    found, older = newest(series_dirs)
    content = collect(found, older, evaluate([paths.root for paths in found.values()]), target)
    for offered in content.files.values():
        downloads.write(target.parent / FIGURES, offered)
    return page.write(target, page.rendered(TEMPLATE, c=content, links=downloads.links(content.files, FIGURES)))
