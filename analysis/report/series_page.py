"""The report of a series, one self-contained HTML page: claims, figures, runs, losses, the environment of the
measurement, and in sentences the workload description (offered rate, cost model, buffers, machines; where runs differ
in it, the sentence says so).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

from analysis.claims import ledger as claims_ledger
from analysis.claims.publications import families_of
from analysis.claims.rows import LedgerRow, SeriesConditions
from analysis.claims.statements import load_claims
from analysis.metrics import scale_decisions
from analysis.record import event_timeline, small_tables
from analysis.record.event_timeline import FIRST_EVENT
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row, rows
from analysis.report import index_page, page, run_page, series_facts, series_tables, words
from analysis.report.figures import decision_graph, series_charts, series_data, service_charts, style, topology_graph
from analysis.report.figures.renderer import page_figure
from analysis.report.headline import headline
from analysis.report.ledger_table import ledger_blocks, ledger_row, ledger_version
from analysis.report.page import (
    Block,
    Definitions,
    Downloads,
    Figure,
    Folded,
    PageContent,
    Section,
    Sentence,
    Warnings,
    variant_legend,
)
from analysis.report.series_tables import Measurements
from analysis.report.table import Heading, joined, link
from barograph.plan.experiment import WHOLE_CLUSTER

RUN = Heading("run", "run_id", css="k")
MOST_SECTIONS = 8  # of topologies; of more the page has the cluster, a map and a table


@dataclass(frozen=True)
class SeriesRecord:
    """The data of a series that several parts of its report need."""

    paths: SeriesPaths
    runs: Sequence[Row]
    outcomes: series_tables.Outcomes
    conditions: SeriesConditions
    ledger: Sequence[LedgerRow]
    measurements: Mapping[str, Measurements]  # by topology (series_tables)

    @property
    def of_model(self) -> bool:
        return any(map(is_simulated, self.runs))

    @property
    def experiment(self) -> str:
        return next((run["experiment"] for run in self.runs if run["experiment"]), self.paths.root.parent.name)

    @property
    def own_ledger(self) -> list[LedgerRow]:
        """Return the claims about its experiment."""
        return [row for row in self.ledger if row.claim.experiment == self.experiment]

    @property
    def event(self) -> Heading | None:
        """Return the column of events of tables, if runs had several."""
        events = {event for values in self.measurements.values() for _, event in values}
        return Heading("event", "event_id") if events - {FIRST_EVENT} else None


@dataclass(frozen=True)
class TopologyReport:
    """Results of one topology: the only one (`name` is empty), one of several, or the cluster (`all`)."""

    name: str
    title: str
    headline: str
    timelines: list[Figure]
    figures: list[Section]  # graph and decisions; the other figures
    runs: Section
    steady: Section
    lost: Section
    has_losses: bool

    @property
    def suffix(self) -> str:
        """Return the suffix of the names of its figures and tables."""
        return small_tables.topology_suffix(self.name)


def build_report(series_dir: Path | str) -> Path:
    """Write figures, claims.json, report.html and the page of each run; return the report's path."""
    paths = SeriesPaths(Path(series_dir))
    runs = series_tables.runs_in_order(paths)
    of_model = any(map(is_simulated, runs))
    conditions = claims_ledger.conditions([paths])
    series = SeriesRecord(
        paths, runs,
        [(run["run_id"], each) for run in runs for each in event_timeline.event_outcomes(paths.run(run["run_id"]))],
        conditions, claims_ledger.ledger_rows(load_claims(), conditions, simulated=of_model),
        series_tables.measurements_by_topology(paths),
    )  # fmt: skip
    names = list(series.measurements)
    reports = [_topology_report(series, name) for name in (names if len(names) - 1 <= MOST_SECTIONS else names[:1])]
    claims = [ledger_row(row, simulated=of_model) for row in series.ledger]
    write_json_atomic(paths.root / "claims.json", {"v": ledger_version(simulated=of_model), "claims": claims})
    run_page.write_all(paths, series.outcomes)
    first = reports[0]
    answer = ("Simulated. " if of_model else "") + (f"{first.title}: " if first.name else "") + first.headline
    series_id = next((run["series_id"] for run in runs if run["series_id"]), paths.root.name)
    complete = sum(run["status"] == "complete" for run in runs)
    number = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    content = PageContent(
        title=f"{series.experiment}, {series_id}",
        heading=index_page.spec_title(paths) or series.experiment,
        meta=f"{series.experiment} · series {series_id} · {number}, {complete} complete and counted",
        blocks=list(_blocks(series, reports, answer)),
    )
    page.save(paths.report, content)
    own_claims = [row for row in claims if row["experiment"] == series.experiment]
    write_json_atomic(paths.root / index_page.SUMMARY_FILE, index_page.summary_of(paths, own_claims, answer))
    return paths.report


def _topology_report(series: SeriesRecord, name: str) -> TopologyReport:
    """Return the results of one topology; `name` is empty for the only one. Machines belong to the cluster."""
    paths, runs, event = series.paths, series.runs, series.event
    read = partial(rows, paths, topology=name or None)
    title, suffix = small_tables.topology_words(name), small_tables.topology_suffix(name)
    figures = series_charts.build(series_data.collect(paths, name or None), suffix, f": {title}" if name else "")
    timelines = [figure for figure in figures if figure.name == f"throughput{suffix}"]
    numbered: list[Block] = [
        figure if name else replace(figure, title=f"Figure {number}. {figure.title}")
        for number, figure in enumerate((each for each in figures if each not in timelines), start=1 + len(timelines))
    ]
    message = "No other figure has anything to show." if figures else words.NOTHING_TO_DRAW
    steady = series_tables.steady_table(series_tables.steady_rows(read("intervals")), (RUN, event), f"steady{suffix}")
    losses = series_facts.edge_losses(read("losses"))
    lost = Folded(
        f"{len(losses)} rows, by run and edge",
        [series_tables.loss_table(losses, (RUN, event), f"losses{suffix}")], long=True,
    )  # fmt: skip
    kinds = {outcome.event_id: outcome.kind for _, outcome in series.outcomes}
    return TopologyReport(
        name=name,
        title=title[:1].upper() + title[1:] if name == WHOLE_CLUSTER else title,
        headline=headline(
            series.experiment, planned_variants(paths, runs),
            {each: kinds[each] for each in sorted(kinds, key=event_timeline.event_order)}, series.conditions,
            [row.claim for row in series.own_ledger], name or None, of_model=series.of_model,
        ),
        timelines=timelines,
        figures=[
            *([] if name == WHOLE_CLUSTER else _graph(series, name or None, suffix)),
            Section("Figures", numbered or [Sentence(message)]),
        ],
        runs=_runs(series, name, suffix),
        steady=Section("Steady state", [steady]),
        lost=Section("Lost tuples", [Sentence(words.LOSSES_NOTE), lost]),
        has_losses=bool(losses),
    )  # fmt: skip


def _graph(series: SeriesRecord, topology: str | None, suffix: str) -> Iterator[Section]:
    """Yield the graph of the runs with the decisions at its components."""
    decisions = decision_graph.collect(series.paths, topology)
    if decisions is not None:
        name = topology or next((run["topology"] for run in series.runs if run["topology"]), "topology")
        title = f"Logical graph of {name}"
        drawing = topology_graph.graph_drawing(decisions.graph, title, decision_graph.notes(decisions))
        blocks: list[Block] = [page_figure(f"topology{suffix}", title, words.GRAPH_CAPTION, drawing)]
        if lines := decision_graph.decision_table(decisions):
            components = [node.name for node in decisions.graph.components]
            table = series_tables.decision_table(components, lines, [series.event], f"decisions{suffix}")
            blocks += [table, Sentence(words.DECISIONS_NOTE, "small")]
        yield Section("Topology and decisions", blocks)


def _runs(series: SeriesRecord, name: str, suffix: str) -> Section:
    measurements = series.measurements[name]
    entries = series_tables.run_rows(series.runs, measurements)
    leading = (
        Heading("run", lambda row: link(row["run_id"], f"runs/{quote(row['run_id'])}/report.html"), css="k"),
        series.event,
        Heading("status", lambda row: f"{row['status']}{'' if row['counts'] else ' *'}", css="k"),
    )
    tables = series_tables.run_tables(entries, measurements, leading)
    blocks: list[Block] = [Section(title, [table]) for title, table in tables]
    if series_tables.is_marked(table for _, table in tables):
        blocks.append(Sentence(words.NOT_STEADY, "small"))
    return Section("Runs", [*blocks, Downloads(f"runs{suffix}", series_tables.run_data(entries, measurements))])


def _blocks(series: SeriesRecord, reports: Sequence[TopologyReport], answer: str) -> Iterator[Block]:
    """Yield the page. Every list on it is bounded by runs x events, machines or claims."""
    paths, runs = series.paths, series.runs
    trust = page.folded(words.model_sentence(runs, paths.root))
    first, has_several = reports[0], len(series.measurements) > 1
    variants = series_data.order_variants({run["variant"] for run in runs if run["status"] == "complete"})
    legend = variant_legend([(style.display_name(name), colour) for name, colour in style.colours(variants).items()])

    def timeline(report: TopologyReport, start: str = "") -> list[Block]:
        return [block for figure in report.timelines for block in (legend, replace(figure, title=start + figure.title))]

    yield Warnings([trust] if trust else [])
    yield Sentence(answer, "answer")
    yield from timeline(first, "" if has_several else "Figure 1. ")
    if has_several:
        names = joined((link(report.name, f"#of{report.suffix}") for report in reports[1:]), ", ")
        places: list[str] = [": ", names, ". Each has a section of its own below; what is"] if names else [". What is"]
        yield Sentence(joined(
            [f"{len(series.measurements) - 1} topologies ran side by side", *places,
             " of machines, and sums over the topologies, stand under ",
             link(first.title.lower(), f"#of{first.suffix}"), "."]
        ))  # fmt: skip
    yield Warnings([*series_facts.exclusions(runs), *series_facts.machine_warnings(paths)])
    yield Section("Claims", list(_claims(series)))
    if (levels := service_charts.collect(paths)) is not None:
        figures = list(service_charts.build(levels))
        yield Section("Service levels", [*figures, series_tables.service_table(paths, levels.series.variants)])
    latencies = [Sentence(sentence, "small") for sentence in words.latency_sentences(paths)]
    if has_several:
        for report in reports:
            parts: list[Block] = [] if report is first else [Sentence(report.headline), *timeline(report)]
            parts += [*report.figures, report.runs, report.steady, *([report.lost] if report.has_losses else [])]
            yield Section(report.title, parts, anchor=f"of{report.suffix}")
        yield from latencies
    else:
        yield from first.figures
    yield Section("Events", list(_events(series)))
    yield from series_tables.cost_sections(paths)
    if lines := scale_decisions.ablation_rows(paths):
        table = series_tables.ablation_table(lines, [series.event])
        yield Section("Ablation: the paper's rule and the authors' code", [Sentence(words.ABLATION_NOTE), table])
    if unread_note := scale_decisions.unread_sentence(scale_decisions.unread_rounds(paths)):
        yield Sentence(unread_note)
    if not has_several:
        yield first.runs
        yield from latencies
    for run in runs:
        if run["status"] != "complete":
            cause = f", {why}" if (why := series_facts.failure_text(run)) else ""
            yield Sentence(f"* {run['run_id']} is not counted in any claim or figure: {run['status']}{cause}.", "small")
    damage_blocks = series_tables.damage_blocks(rows(paths, "damaged"))
    if has_several:
        yield Section("Lines that were read", damage_blocks)
    else:
        yield from (first.steady, first.lost, *damage_blocks)
    yield from _environment(series)
    yield Section("Terms", [Definitions(words.glossary("report", of_model=series.of_model))])


def _claims(series: SeriesRecord) -> Iterator[Block]:
    claims = [ledger_row(row, simulated=series.of_model) for row in series.own_ledger]
    if claims:
        yield from ledger_blocks(claims, simulated=series.of_model)
    else:
        yield Sentence("No claim of the ledger is about this experiment.")
    families = families_of([series.experiment])
    names = {row.claim.experiment for row in series.ledger if row.claim.family in families and not row.claim.simulated}
    if others := sorted(name for name in names - {series.experiment} if "/" in name):
        yield Sentence(f"The other claims of the ledger belong to {', '.join(others)}.", "small")


def _events(series: SeriesRecord) -> Iterator[Block]:
    yield Warnings(series_tables.event_warnings(series.outcomes))
    if series.outcomes:
        leading = (
            Heading("run", lambda row: row[0], css="k"),
            Heading("event", lambda row: row[1].event_id) if series.event else None,
        )
        yield series_tables.outcome_table(series.outcomes, leading, "outcomes")
    else:
        yield Sentence("No run reached an event.")
    if boots := series_facts.machine_boots([series.paths.run(run["run_id"]) for run in series.runs]):
        blocks: list[Block] = [Sentence(words.BOOTS_NOTE), series_tables.boot_table(boots)]
        yield Section("Machines that booted during a run", blocks)


def _environment(series: SeriesRecord) -> Iterator[Section]:
    paths, runs, measurements = series.paths, series.runs, next(iter(series.measurements.values()))
    machines = rows(paths, "machines")
    first = min((row["run_id"] for row in machines), default=None)
    of_one_run = [row for row in machines if row["run_id"] == first]
    load = words.workload_sentences(paths, runs, measurements, of_one_run)
    facts, assumptions = series_facts.environment_facts(runs), series_facts.specification_facts(runs)
    fact_blocks: list[Block] = [
        series_tables.machine_table(series_facts.machine_facts(machines)),
        Definitions(facts), Downloads("environment", series_tables.pair_data(facts)),
    ]  # fmt: skip
    sentences = map(Sentence, load or ["The record does not say which load the runs had."])
    yield Section("Load, buffers and machines", [*sentences, Folded("Machines and software", fact_blocks)])
    yield Section(
        "Assumptions",
        [
            Sentence(words.ASSUMPTIONS_NOTE), Definitions(assumptions),
            Downloads("specification", series_tables.pair_data(assumptions)),
        ],
    )  # fmt: skip


def planned_variants(paths: SeriesPaths, runs: Sequence[Row]) -> list[str]:
    """Return the variants in the order of the experiment; without a specification in the order of the figures."""
    measured_names = {run["variant"] for run in runs if run["variant"]}
    spec = read_json(paths.series_json).get("spec") if paths.series_json.is_file() else None
    names = [variant["name"] for variant in (spec or {}).get("variants") or ()]
    return [*names, *series_data.order_variants(measured_names - set(names))]
