"""The page of a family of experiments: published figures beside ours, the ledger, ablation, and links to reports."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from analysis.claims import publications
from analysis.claims.rows import VERDICTS
from analysis.errors import RecordError
from analysis.metrics import scale_decisions
from analysis.metrics.scale_decisions import AblationRow
from analysis.numerals import MISSING, number
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.schemas import LARGE_TABLES, STORED
from analysis.record.simulated import first_date_s, is_simulated_series, simulated_words
from analysis.record.small_tables import Row, rows
from analysis.record.sweep_record import is_sweep
from analysis.report import index_page, page, words
from analysis.report.figures import decision_graph, published_figures, series_data, sweep_curves, topology_graph
from analysis.report.figures.points import Drawing
from analysis.report.figures.renderer import page_figure
from analysis.report.ledger_table import ledger_blocks, ledger_row
from analysis.report.page import Definitions, PageContent, Panels, Section, Sentence, Warnings
from analysis.report.table import BREAK, Heading, ResultTable, bold, code, columns, joined, link, small
from barograph.errors import ConfigurationError
from barograph.plan.experiment import SIMULATED

DRAWS = frozenset(published_figures.PANELS) | frozenset(published_figures.SWEEP_PANELS)
NEEDED = [name for name in STORED if name not in LARGE_TABLES]


WORDS_OF_VERDICTS = {
    "reproduced": "are reproduced",
    "differs": "differ",
    "undecided": "are undecided",
    "not testable here": "cannot be tested here",
}
TIMELINES_NOTE = (
    "Bold lines are medians over the runs of a variant, bands reach from the smallest to the largest run, vertical"
    " lines are events. Dashed lines show what the spouts were scheduled to emit; throughput may be higher where"
    " tuples are copied. Bars are medians and dots are runs. A hollow triangle is a run that had not converged at its"
    " end, an open bar is a lower bound. "
)
GRAPHS_NOTE = "Yellow components were congested at the first event; coloured text is what a variant changed there."
VERDICTS_NOTE = (
    "A claim is reproduced where the whole 95 % interval lies where the number has to lie (the stated number and a"
    " resolution that was fixed before anything was measured), and differs where none of it does. An indication rests"
    " on fewer than six blocks, or is not sure among all claims of its experiment (Holm). A/A floor: no interval is"
    " narrower than what neighbouring runs of one variant differ by. This page rests on one series of each experiment,"
    " the newest of those that were given; "
)
ABLATION_NOTE = (
    "The authors' code differs from the paper's rule. Here both decide on what the runs of each experiment observed at"
    " an event. The first row is the most frequent decision of the paper's rule; the reports of the experiments have"
    " the whole tables."
)


def figures_of(simulated_only: bool) -> str:
    """Return the name of the folder beside the page with the files of its figures."""
    return f"figures_{SIMULATED}" if simulated_only else "figures"


def write(
    series_dirs: Sequence[Path], target: Path, evaluate: Any, *, simulated_only: bool = False, left_out: int = 0
) -> Path:
    """Write the page to `target` and return its path; `evaluate` gives the ledger of series folders, `simulated` or
    not.

    It shows series on machines, or with `simulated_only` simulated ones: simulated results never stand beside
    measurements. `left_out`: number of simulated series that the caller left out. Unreadable series are named on the
    page. Raises ConfigurationError if no series is left.
    """
    folders = [each for each in series_dirs if (is_sweep(each) or is_simulated_series(each)) == simulated_only]
    if not folders:
        requirement, other = ("simulated", "measured") if simulated_only else ("on machines", "simulated")
        explanation = f"the {len(series_dirs)} that are given are {other}" if series_dirs else "none was given"
        raise ConfigurationError(f"a family report needs one series or more {requirement}; {explanation}")
    left_out += 0 if simulated_only else len(series_dirs) - len(folders)
    readable_folders, damages = [], []
    for folder in folders:
        try:
            small_tables.check(SeriesPaths(folder), NEEDED)
            readable_folders.append(folder)
        except RecordError as error:
            damages.append(str(error))
    if not readable_folders:
        raise ConfigurationError(f"no series for the family report can be read: {'; '.join(damages)}")
    series, older_ids = newest_series(readable_folders)
    families = publications.families_of(series)
    ledger = [
        ledger_row(row, simulated=simulated_only)
        for row in evaluate([paths.root for paths in series.values()], simulated=simulated_only)
        if row.claim.family in families and (simulated_only or not row.claim.simulated)
    ]
    runs = [run for paths in series.values() for run in rows(paths, "runs")]
    trust = page.folded(words.model_sentence(runs, *(paths.root for paths in series.values())))
    legend = (TIMELINES_NOTE if "stela" in families else "") + GRAPHS_NOTE
    headlines = [(name, text) for name in sorted(series) if (text := index_page.headline_of(series[name]))]
    family = " and ".join(sorted({experiment.partition("/")[0] for experiment in series}))
    complete = sum(run["status"] == "complete" for run in runs)
    answers = {name: scale_decisions.ablation_rows(paths) for name, paths in series.items() if not is_sweep(paths.root)}
    ablations = {experiment: of_series for experiment, of_series in answers.items() if of_series}
    ledger_notes = [] if simulated_only else [
        Sentence(joined([VERDICTS_NOTE, code("barograph claims"),
                         " judges each claim by the blocks of all series that were asked for alike."]), "small")
    ]  # fmt: skip
    verb = "is" if len(damages) == 1 else "are"
    unread = f"{len(damages)} series could not be read and {verb} not on this page: {'. '.join(damages)}."
    others = f"This page is about series on machines: {simulated_words(left_out)}."
    older = f"Left out, because there is a newer series of the same experiment: {', '.join(older_ids)}."
    notes = ((damages, Sentence(unread)), (left_out, Sentence(others, "small")), (older_ids, Sentence(older, "small")))
    content = PageContent(
        title=f"{family}, all experiments",
        heading=f"{family}: all experiments{', simulated' if simulated_only else ''}",
        meta=f"{len(series)} experiment{'' if len(series) == 1 else 's'}, {complete} complete runs",
        css="wide",
        blocks=[
            Warnings([trust] if trust else []),
            Section("In short", [Sentence(_summary(ledger, simulated_only)), Definitions(headlines)]),
            Section("Figures", [*_figures(series, families, simulated_only), Sentence(legend, "small")]),
            *_published_tables(families, ledger, simulated=simulated_only),
            Section("Ledger", [*ledger_blocks(ledger, simulated=simulated_only), *ledger_notes]),
            *([Section("Ablation", [Sentence(ABLATION_NOTE), ablation_table(ablations)])] if ablations else []),
            Section("Series", [_series_table(series, target), *(note for is_there, note in notes if is_there)]),
        ],
    )  # fmt: skip
    return page.save(target, content, figures_of(simulated_only))


def newest_series(series_dirs: Sequence[Path]) -> tuple[dict[str, SeriesPaths], list[str]]:
    """Return the newest series of each experiment, and the ids of the older ones."""
    series: dict[str, SeriesPaths] = {}
    older_ids = []
    for folder in sorted(series_dirs, key=lambda path: path.name):
        paths = SeriesPaths(folder)
        runs = rows(paths, "runs")
        if not runs:
            raise ConfigurationError(
                f"{folder} is not analysed: it has no table of runs. Run `barograph report {folder}`."
            )
        experiment = next((run["experiment"] for run in runs if run["experiment"]), folder.parent.name)
        if experiment in series:
            older_ids.append(f"{experiment} {series[experiment].root.name}")
        series[experiment] = paths
    return series, older_ids


def _summary(claims: Sequence[Row], simulated_only: bool) -> str:
    if simulated_only:
        number = sum(SIMULATED in row and row["measured"] is not None for row in claims)
        return (
            f"Of {len(claims)} statements of the papers the model gives a number of {number}. None of them is evidence"
            " about Storm, and none has a verdict."
        )
    counts = Counter(str(row["verdict"]) for row in claims)
    verdicts = ", ".join(f"{counts[name]} {WORDS_OF_VERDICTS.get(name, 'were not run')}" for name in VERDICTS)
    return (
        f"Of {len(claims)} statements of the papers {verdicts}. A verdict needs an interval, and an interval needs"
        " three complete runs of each variant. The ledger below has every statement."
    )


def _figures(series: Mapping[str, SeriesPaths], families: Sequence[str], simulated_only: bool) -> Iterator[Panels]:
    """Yield each published figure: one drawing, one for each graph, or none if nothing of it was run (or simulated)."""
    sweeps = {name: sweep_curves.collect(paths) for name, paths in series.items() if is_sweep(paths.root)}
    data = {name: series_data.collect(paths) for name, paths in series.items() if name not in sweeps}
    absent = "not simulated" if simulated_only else "not run"
    figures = (each for each in publications.load_figures(DRAWS, families=families)
               if simulated_only or not each.is_simulated)  # fmt: skip
    for place, figure in enumerate(figures, start=1):
        name, of_sweeps = f"figure_{place}", figure.is_simulated
        experiments = sweeps.keys() if of_sweeps else data.keys()
        drawings, gaps = [], []
        if figure.is_graphs:
            for panel in figure.panels:
                drawing = _graph(panel, series if panel.experiment in data else {})
                drawings.append(page_figure(f"{name}_{panel.topology}", panel.title, "", drawing))
        else:
            gaps = [panel.experiment for panel in figure.panels if panel.experiment not in experiments]
            if len(gaps) < len(figure.panels):
                charts = published_figures
                chart = charts.sweep_chart(figure, sweeps) if of_sweeps else charts.chart(figure, data)
                drawings = [page_figure(name, figure.title, "", chart)]
        missing = f" {absent.capitalize()}: {', '.join(dict.fromkeys(gaps))}." if gaps else ""
        caption = [bold(f"Figure {place}. {figure.title}"), f" ({figure.source}). {figure.caption}{missing}"]
        yield Panels(f"figure-{place}", joined(caption), drawings, absent)


def _graph(panel: publications.PublishedPanel, series: Mapping[str, SeriesPaths]) -> Drawing:
    """Return the graph that was run, with the decisions; without a run the graph of the topology's file."""
    title = f"Logical graph of {panel.topology}"
    run = decision_graph.collect(series[panel.experiment]) if panel.experiment in series else None
    if run is None:
        return topology_graph.graph_drawing(decision_graph.graph_from_catalogue(panel.topology), title)
    return topology_graph.graph_drawing(run.graph, title, decision_graph.notes(run))


def _published_tables(families: Sequence[str], ledger: Sequence[Row], *, simulated: bool) -> Iterator[Section]:
    """Yield the published tables whose claims the page has: about runs on machines, or about sweeps."""
    by_name = {row["id"]: row for row in ledger}

    def cell(name: str | None) -> str | None:
        row = by_name.get(name) if name else None
        if row is None:
            return None
        best = row.get("best_of_three")
        details = [f"stated {row['stated_text']}"]
        details += [f"best of three {number(best, 1, signed=True)}"] if "best_of_three" in row else []
        details += [row["interval_text"]] if row["interval_text"] != MISSING else []
        return joined([bold(row["measured_text"]), BREAK, small("; ".join(details))])

    for paper_table in publications.load_tables(families):
        if paper_table.simulated == simulated:
            headings = [
                Heading("", itemgetter(0), css="k"),
                *(Heading(name, itemgetter(place), css="n") for place, name in enumerate(paper_table.columns, start=1)),
            ]
            table = ResultTable(headings, [(name, *map(cell, cells)) for name, cells in paper_table.rows])
            caption = Sentence(f"{paper_table.title} ({paper_table.source}). {paper_table.caption}", "small")
            yield Section(paper_table.title, [table, caption])


def ablation_table(lines: Mapping[str, Sequence[AblationRow]]) -> ResultTable:
    """Return each variant of the rule and, per experiment, whether it changed a decision at any event."""

    def difference(experiment: str) -> Callable[[tuple[str, str]], str]:
        def text(row: tuple[str, str]) -> str:
            variant_lines = [line for line in lines[experiment] if line.variant == row[0]]
            if row[0] == scale_decisions.PAPER and variant_lines:
                return "; ".join(line.answers[0] for line in variant_lines)
            differences, runs = sum(line.differing for line in variant_lines), sum(line.runs for line in variant_lines)
            return bold(f"differs in {differences} of {runs}") if differences else "no difference"

        return text

    variants = dict.fromkeys((line.variant, line.changed) for of_series in lines.values() for line in of_series)
    headings = [Heading("variant", itemgetter(0), css="k"), Heading("changes", itemgetter(1))]
    return ResultTable([*headings, *(Heading(name, difference(name)) for name in lines)], list(variants))


def _series_table(series: Mapping[str, SeriesPaths], target: Path) -> ResultTable:
    def source(item: tuple[str, SeriesPaths]) -> Row:
        experiment, paths = item
        runs = rows(paths, "runs")
        start_s = first_date_s(runs)
        report = os.path.relpath(paths.report, target.parent) if paths.report.is_file() else None
        return {
            "experiment": experiment,
            "series": next((run["series_id"] for run in runs if run["series_id"]), paths.root.name),
            "runs": len(runs),
            "complete": sum(run["status"] == "complete" for run in runs),
            "begun": start_s and datetime.fromtimestamp(start_s, UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "report": report and link(report, report),
        }

    headings = columns("experiment; series; runs /n; complete /n; begun /k; report")
    return ResultTable(headings, list(map(source, sorted(series.items()))))
