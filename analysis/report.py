"""One self-contained HTML page a series: claims, figures, runs, losses, and the environment of the measurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from analysis import (
    ablated,
    claims,
    downloads,
    figures,
    happened,
    limits,
    load_told,
    page,
    rented,
    report_data,
    run_page,
    summary,
)
from analysis import report_tables as shown
from analysis.claims import LedgerRow
from analysis.event_ids import FIRST_EVENT
from analysis.figures import decided, graph_drawing, series
from analysis.figures.build import Figure, on_page
from analysis.figures.decided import AnswerRow
from analysis.happened import Happening
from analysis.record import SeriesPaths, write_json_atomic
from analysis.report_claims import headline, ledger_row
from analysis.small_tables import Row, rows

TEMPLATE = "report.html.j2"
FIGURES = "figures"  # the folder with the files that the page offers, beside it


@dataclass(frozen=True)
class Topology:
    """The logical graph, and what was decided at its components."""

    name: str
    figure: Figure
    components: tuple[str, ...]
    answers: list[AnswerRow]


@dataclass(frozen=True)
class Content:
    """What the template shows; every list is bounded by runs x events, machines or claims."""

    title: str
    experiment: str
    series_id: str
    complete: int
    all_runs: int
    several_events: bool
    headlines: list[str]
    notes: list[str]
    ledger: list[Row]
    elsewhere: list[str]
    topology: Topology | None
    figures: list[Figure]
    warnings: list[str]
    happened: list[tuple[str, Happening]]
    happenings: list[Row]  # the same in words
    boots: list[rented.Boot]
    money: rented.Money | None
    ablation: list[ablated.Line]
    measured: shown.Measured
    run_tables: list[tuple[str, list[str], list[list[str]]]]
    runs: list[Row]
    steady: list[Row]
    losses: list[Row]
    damaged: list[Row]
    files_read: int
    lines_read: int
    load: list[str]
    machines: list[Row]
    environment: list[tuple[str, str]]
    assumptions: list[tuple[str, str]]
    glossary: list[tuple[str, str]]


def build(series_dir: Path | str) -> Path:
    """Write figures, claims.json, report.html and a page a run; returns the report's path."""
    paths = SeriesPaths(Path(series_dir))
    ledger = claims.evaluate([paths.root])
    content = collect(paths, ledger)
    write_json_atomic(paths.root / "claims.json", {"v": 1, "claims": [ledger_row(row) for row in ledger]})
    files = report_data.files(content)
    for offered in files.values():
        downloads.write(paths.figures, offered)
    run_page.write_all(paths, content.happened)
    page.write(paths.report, page.rendered(TEMPLATE, c=content, links=downloads.links(files, FIGURES)))
    summary.write(paths, summary.of(paths, content.ledger))
    return paths.report


def collect(paths: SeriesPaths, ledger: Sequence[LedgerRow]) -> Content:
    """Everything but the ledger is read here, from small tables and the runs' own lines."""
    runs = sorted(rows(paths, "runs"), key=lambda run: (run["order"] is None, run["order"], run["run_id"]))
    measured = shown.measured_by_event(rows(paths, "measurements"))
    experiment = next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)
    tested = [row for row in ledger if row.claim.experiment == experiment]
    counted = sorted(rows(paths, "damaged"), key=lambda row: (row["run_id"], row["file"]))
    entries = shown.run_rows(runs, measured)
    machines = rows(paths, "machines")
    found = [(run["run_id"], happening) for run in runs for happening in happened.happenings(paths.run(run["run_id"]))]
    return Content(
        title=experiment,
        experiment=experiment,
        series_id=next((run["series_id"] for run in runs if run["series_id"]), paths.root.name),
        complete=sum(run["status"] == "complete" for run in runs),
        all_runs=len(runs),
        several_events=any(entry["event_id"] != FIRST_EVENT for entry in entries),
        headlines=[headline(row) for row in tested],
        notes=[*shown.not_counted(runs), *limits.warnings(rows(paths, "cpu"))],
        ledger=[ledger_row(row) for row in tested],
        elsewhere=sorted({row.claim.experiment for row in ledger if "/" in row.claim.experiment} - {experiment}),
        topology=topology(paths, runs),
        figures=figures.build(series.collect(paths)),
        warnings=shown.warnings(found),
        happened=found,
        happenings=[shown.happening_row(run_id, happening) for run_id, happening in found],
        boots=rented.boots([paths.run(run["run_id"]) for run in runs]),
        money=rented.money(paths),
        ablation=ablated.of_series(paths),
        measured=measured,
        run_tables=[shown.run_table(title, columns, entries, measured) for title, columns in shown.RUN_TABLES.items()],
        runs=entries,
        steady=shown.steady_rows(rows(paths, "intervals")),
        losses=shown.edge_losses(rows(paths, "losses")),
        damaged=[row for row in counted if row["damaged"]],
        files_read=len(counted),
        lines_read=sum(row["lines"] for row in counted),
        load=load_told.sentences(paths, runs, measured, _of_one_run(machines)),
        machines=shown.machine_facts(machines),
        environment=shown.fingerprint(runs),
        assumptions=shown.assumptions(runs),
        glossary=glossary(),
    )


def _of_one_run(machines: Sequence[Row]) -> list[Row]:
    first = min((row["run_id"] for row in machines), default=None)
    return [row for row in machines if row["run_id"] == first]


def topology(paths: SeriesPaths, runs: Sequence[Row]) -> Topology | None:
    """The graph as the runs had it, with the answers."""
    found = decided.collect(paths)
    if found is None:
        return None
    name = next((run["topology"] for run in runs if run["topology"]), "topology")
    drawn = graph_drawing.drawing(found.graph, f"Logical graph of {name}", decided.notes(found))
    figure = on_page("topology", f"Logical graph of {name}", "", drawn)
    return Topology(name, figure, tuple(node.name for node in found.graph.nodes), decided.table(found))


def glossary() -> list[tuple[str, str]]:
    """The words of the report's columns."""
    entries = yaml.safe_load((page.TEMPLATES / "words.yaml").read_text(encoding="utf-8"))
    return [(entry["word"], entry["means"]) for entry in entries]
