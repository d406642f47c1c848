"""One page a family of experiments: the papers' figures side by side, the ledger, ablation, and where to read on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.claims import pools, publications
from analysis.claims.ledger_rows import VERDICTS, LedgerRow
from analysis.errors import RecordError, SeriesError
from analysis.metrics import scale_decisions
from analysis.metrics.scale_decisions import AblationRow
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.schemas import LARGE_TABLES, STORED
from analysis.record.simulated import first_date_s, is_simulated_series, simulated_words
from analysis.record.small_tables import Row, rows
from analysis.record.sweep_record import is_sweep
from analysis.report import index_page, page, simulated, sweep_data
from analysis.report.figures import decision_graph, published_figures, series_data, topology_graph
from analysis.report.figures.catalogue import Figure, page_figure
from analysis.report.figures.points import Drawing
from analysis.report.figures.series_data import SeriesData
from analysis.report.ledger_table import ledger_row
from analysis.report.page import Download
from analysis.report.sweep_data import SweepData
from barograph.plan.experiment import SIMULATED

TEMPLATE = "family.html.j2"
DRAWS = frozenset(published_figures.PANELS) | frozenset(published_figures.SWEEP_PANELS)
# Small tables, and columns that are needed of them.
NEEDED: Mapping[str, Collection[str]] = {
    **dict.fromkeys((name for name in STORED if name not in LARGE_TABLES), ()),
    **pools.NEEDED,
}


@dataclass(frozen=True)
class FamilyFigure:
    """A published figure: one drawing, one a graph, or none where nothing of it was run."""

    source: str
    title: str
    caption: str
    drawings: tuple[Figure, ...]  # with a heading each where there are several
    not_run: tuple[str, ...]  # or not simulated


@dataclass(frozen=True)
class FamilyTable:
    """A published table; `rows`: a name, and of each column the ledger's row, None where the paper has no number."""

    source: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, list[Row | None]]]


@dataclass(frozen=True)
class Source:
    """A series that the page is about."""

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
    simulated: str  # what is to be known of runs that were; empty for others
    simulated_only: bool
    left_out: str  # how many simulated series are not on the page; empty for none
    figures: list[FamilyFigure]
    has_timelines: bool  # or times; other panels say in their captions what their marks are
    tables: list[FamilyTable]
    counts: list[tuple[str, int]]
    ledger: list[Row]
    ablation: list[tuple[str, str, list[str]]]
    ablation_experiments: list[str]
    sources: list[Source]
    older: list[str]
    damages: list[str]  # of series that cannot be read
    files: dict[str, tuple[Download, ...]]  # by figure or table

    @property
    def with_number(self) -> int:
        """Claims of which the model gives a number."""
        return sum(SIMULATED in row and row["measured"] is not None for row in self.ledger)


def chosen_series(series_dirs: Sequence[Path], *, simulated_only: bool) -> tuple[list[Path], int]:
    """Those that the page is about, and how many simulated ones are none of them: a model's answers never stand beside
    measurements. Raises SeriesError where none is left."""
    chosen = [folder for folder in series_dirs if _is_of_model(folder) == simulated_only]
    if not chosen:
        given, other = ("simulated", "measured") if simulated_only else ("on machines", "simulated")
        what = f"the {len(series_dirs)} that are given are {other}" if series_dirs else "none was given"
        raise SeriesError(f"a family report needs one series or more {given}; {what}")
    return chosen, 0 if simulated_only else len(series_dirs) - len(chosen)


def _is_of_model(folder: Path) -> bool:
    return is_sweep(folder) or is_simulated_series(folder)


def readable_series(series_dirs: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Those whose tables can be read, and of each other one what is wrong. Raises SeriesError where none is left."""
    readable, damages = [], []
    for folder in series_dirs:
        try:
            small_tables.check(SeriesPaths(folder), NEEDED)
            readable.append(folder)
        except RecordError as error:
            damages.append(str(error))
    if not readable:
        raise SeriesError(f"no series for the family report can be read: {'; '.join(damages)}")
    return readable, damages


def newest_series(series_dirs: Sequence[Path]) -> tuple[dict[str, SeriesPaths], list[str]]:
    """The newest series of each experiment, and the ids of those that it supersedes here."""
    series: dict[str, SeriesPaths] = {}
    older = []
    for folder in sorted(series_dirs, key=lambda path: path.name):
        paths = SeriesPaths(folder)
        experiment = _experiment_of(paths)
        if experiment in series:
            older.append(f"{experiment} {series[experiment].root.name}")
        series[experiment] = paths
    return series, older


def _experiment_of(paths: SeriesPaths) -> str:
    runs = rows(paths, "runs")
    if not runs:
        raise SeriesError(
            f"{paths.root} is not analysed: it has no table of runs. Run `barograph report {paths.root}`."
        )
    return next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)


def collect(
    series: dict[str, SeriesPaths], older: list[str], damages: list[str], ledger: Sequence[LedgerRow], target: Path, *,
    simulated_only: bool, left_out: int,
) -> FamilyContent:  # fmt: skip
    """`damages`: of series that cannot be read; `left_out`: simulated series that are not on the page."""
    swept = {name: sweep_data.collect(paths) for name, paths in series.items() if is_sweep(paths.root)}
    run = {name: paths for name, paths in series.items() if name not in swept}
    data = {experiment: series_data.collect(paths) for experiment, paths in run.items()}
    families = publications.families_of(series)
    figures = [
        figure for figure in publications.load_figures(DRAWS, families=families)
        if simulated_only or not figure.is_simulated
    ]  # fmt: skip
    ablation = {experiment: scale_decisions.ablation_rows(paths) for experiment, paths in run.items()}
    lines = {experiment: rows_of_series for experiment, rows_of_series in ablation.items() if rows_of_series}
    runs = [run for paths in series.values() for run in rows(paths, "runs")]
    claim_rows = [ledger_row(row, simulated=simulated_only) for row in ledger]
    verdicts = Counter(index_page.verdict_of(row) for row in claim_rows)
    family_figures = [
        _family_figure(number, figure, run, data, swept) for number, figure in enumerate(figures, start=1)
    ]
    files = {drawing.name: drawing.files for figure in family_figures for drawing in figure.drawings}
    files["claims"] = page.row_downloads("claims", claim_rows)
    return FamilyContent(
        family=" and ".join(sorted({experiment.partition("/")[0] for experiment in series})),
        simulated=simulated.sentence(runs, *(paths.root for paths in series.values())),
        simulated_only=simulated_only,
        left_out=simulated_words(left_out),
        figures=family_figures,
        has_timelines="stela" in families,
        tables=_published_tables(families, claim_rows, simulated=simulated_only),
        counts=[(verdict, verdicts[verdict]) for verdict in VERDICTS],
        ledger=claim_rows,
        ablation=ablation_table(lines),
        ablation_experiments=list(lines),
        sources=[_source(experiment, paths, target) for experiment, paths in sorted(series.items())],
        older=older,
        damages=damages,
        files=files,
    )


def ablation_table(lines: dict[str, list[AblationRow]]) -> list[tuple[str, str, list[str]]]:
    """Variant, what it changes, and per experiment whether that mattered at any event."""
    variants = dict.fromkeys((line.variant, line.changed) for rows_ in lines.values() for line in rows_)
    return [
        (
            variant,
            changed,
            [_difference_text([line for line in rows_ if line.variant == variant]) for rows_ in lines.values()],
        )
        for variant, changed in variants
    ]


def _difference_text(rows_of_variant: Sequence[AblationRow]) -> str:
    if rows_of_variant and rows_of_variant[0].variant == scale_decisions.PAPER:
        return "; ".join(line.answers[0] for line in rows_of_variant)
    differing, runs = sum(line.differing for line in rows_of_variant), sum(line.runs for line in rows_of_variant)
    return f"differs in {differing} of {runs}" if differing else "no difference"


def _family_figure(
    number: int, figure: publications.PublishedFigure, series: dict[str, SeriesPaths], data: dict[str, SeriesData],
    swept: dict[str, SweepData],
) -> FamilyFigure:  # fmt: skip
    there = swept.keys() if figure.is_simulated else data.keys()
    missing = [] if figure.is_graphs else [p.experiment for p in figure.panels if p.experiment not in there]
    drawings = []
    if figure.is_graphs:
        drawings = [page_figure(f"figure_{number}_{p.topology}", p.title, "", _graph(p, series)) for p in figure.panels]
    elif any(panel.experiment in there for panel in figure.panels):
        of_sweeps = figure.is_simulated
        chart = published_figures.sweep_chart(figure, swept) if of_sweeps else published_figures.chart(figure, data)
        drawings = [page_figure(f"figure_{number}", figure.title, "", chart)]
    return FamilyFigure(figure.source, figure.title, figure.caption, tuple(drawings), tuple(dict.fromkeys(missing)))


def _published_tables(families: Sequence[str], ledger: Sequence[Row], *, simulated: bool) -> list[FamilyTable]:
    """Those whose claims the page has: about runs on machines, or about sweeps."""
    by_name = {row["id"]: row for row in ledger}
    return [
        FamilyTable(
            table.source, table.title, table.caption, table.columns,
            [(name, [by_name.get(cell) for cell in cells]) for name, cells in table.rows],
        )
        for table in publications.load_tables(families) if table.simulated == simulated
    ]  # fmt: skip


def _graph(panel: publications.Panel, series: dict[str, SeriesPaths]) -> Drawing:
    """The graph that was run, with the decisions; without a run the graph of the topology's file."""
    title = f"Logical graph of {panel.topology}"
    run = decision_graph.collect(series[panel.experiment]) if panel.experiment in series else None
    if run is None:
        return topology_graph.graph_drawing(decision_graph.graph_from_catalogue(panel.topology), title)
    return topology_graph.graph_drawing(run.graph, title, decision_graph.notes(run))


def _source(experiment: str, paths: SeriesPaths, target: Path) -> Source:
    runs = rows(paths, "runs")
    start_s = first_date_s(runs)
    return Source(
        experiment, next((run["series_id"] for run in runs if run["series_id"]), paths.root.name), len(runs),
        sum(run["status"] == "complete" for run in runs),
        "–" if start_s is None else datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        index_page.headline_of(paths),
        os.path.relpath(paths.report, target.parent) if paths.report.is_file() else None,
    )  # fmt: skip


def write(
    series_dirs: Sequence[Path], target: Path, evaluate: Any, *, simulated_only: bool = False, left_out: int = 0
) -> Path:
    """The page at `target`; `evaluate` gives the ledger of series folders, `simulated` or not.

    It is about series on machines, or with `simulated_only` about simulated ones. `left_out`: how many more simulated
    ones there are. Series that cannot be read are named on it.
    """
    chosen, others = chosen_series(series_dirs, simulated_only=simulated_only)
    readable, damages = readable_series(chosen)
    series, older = newest_series(readable)
    families = publications.families_of(series)
    ledger = [
        row for row in evaluate([paths.root for paths in series.values()], simulated=simulated_only)
        if row.claim.family in families and (simulated_only or not row.claim.simulated)
    ]  # fmt: skip
    figures = figures_of(simulated_only)
    content = collect(series, older, damages, ledger, target, simulated_only=simulated_only, left_out=left_out + others)
    for downloads in content.files.values():
        page.write_downloads(target.parent / figures, downloads)
    return page.write(target, page.render(TEMPLATE, c=content, links=page.download_links(content.files, figures)))


def figures_of(simulated_only: bool) -> str:
    """The folder beside the page with the files of its figures."""
    return f"figures_{SIMULATED}" if simulated_only else "figures"
