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

from markupsafe import Markup

from analysis.claims import ledger as claims_ledger
from analysis.claims.ledger_rows import LedgerRow, SeriesConditions
from analysis.claims.publications import families_of
from analysis.claims.statements import Claim, load_claims
from analysis.metrics import scale_decisions
from analysis.record import event_timeline, small_tables
from analysis.record.event_timeline import FIRST_EVENT, EventOutcome
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row, rows
from analysis.report import (
    index_page,
    page,
    run_page,
    series_facts,
    series_tables,
    words,
)
from analysis.report.figures import catalogue, decision_graph, series_data, style, topology_graph
from analysis.report.figures.catalogue import page_figure
from analysis.report.figures.decision_graph import DecisionRow
from analysis.report.headline import headline
from analysis.report.ledger_table import ledger_blocks, ledger_row, ledger_version
from analysis.report.markup import joined, link
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
from analysis.report.series_facts import SeriesCost
from analysis.report.series_tables import Measurements
from analysis.report.table import Heading
from barograph.plan.experiment import WHOLE_CLUSTER

RUN = Heading("run", "run_id", css="k")


@dataclass(frozen=True)
class LogicalGraph:
    """The graph of a topology, and the decisions at its components."""

    figure: Figure
    components: tuple[str, ...]
    decisions: list[DecisionRow]


@dataclass(frozen=True)
class TopologyReport:
    """Results of one topology: the only one (`name` is empty), one of several, or the cluster (`all`)."""

    name: str
    title: str
    level: str  # its service level in words
    headline: str
    graph: LogicalGraph | None
    figures: list[Figure]
    measurements: Measurements
    runs: list[Row]
    steady: list[Row]
    losses: list[Row]

    @property
    def suffix(self) -> str:
        """Return the suffix of the names of its figures and tables."""
        return small_tables.topology_suffix(self.name)

    @property
    def timelines(self) -> list[Figure]:
        return [figure for figure in self.figures if figure.name == f"throughput{self.suffix}"]


def build_report(series_dir: Path | str) -> Path:
    """Write figures, claims.json, report.html and the page of each run; return the report's path."""
    paths = SeriesPaths(Path(series_dir))
    runs = sorted(rows(paths, "runs"), key=lambda run: (run["order"] is None, run["order"], run["run_id"]))
    of_model = any(map(is_simulated, runs))
    conditions = claims_ledger.conditions([paths])
    ledger = claims_ledger.ledger_rows(load_claims(), conditions, simulated=of_model)
    outcomes = [
        (run["run_id"], outcome) for run in runs for outcome in event_timeline.event_outcomes(paths.run(run["run_id"]))
    ]
    reports = topology_reports(paths, runs, ledger, conditions, outcomes)
    write_json_atomic(
        paths.root / "claims.json",
        {
            "v": ledger_version(simulated=of_model),
            "claims": [ledger_row(row, simulated=of_model) for row in ledger],
        },
    )
    run_page.write_all(paths, outcomes)
    page.save(paths.report, content(paths, runs, ledger, outcomes, reports))
    experiment = experiment_of(paths, runs)
    claims = [ledger_row(row, simulated=of_model) for row in ledger if row.claim.experiment == experiment]
    index_page.write_summary(paths, index_page.summary_of(paths, claims, first_sentence(reports, of_model=of_model)))
    return paths.report


def experiment_of(paths: SeriesPaths, runs: Sequence[Row]) -> str:
    return next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)


def first_sentence(reports: Sequence[TopologyReport], *, of_model: bool) -> str:
    """Return the headline of the only topology, or of the cluster."""
    first, how = reports[0], "Simulated. " if of_model else ""
    return how + (f"{first.title}: {first.headline}" if first.name else first.headline)


def topology_reports(
    paths: SeriesPaths, runs: Sequence[Row], ledger: Sequence[LedgerRow], conditions: SeriesConditions,
    outcomes: series_tables.Outcomes,
) -> list[TopologyReport]:  # fmt: skip
    """Return the results of the only topology, or of the cluster and of each of several."""
    experiment = experiment_of(paths, runs)
    claims = [row.claim for row in ledger if row.claim.experiment == experiment]
    events = event_kinds([outcome for _, outcome in outcomes])
    names = small_tables.topologies(paths)
    return [
        _topology_report(paths, name, runs, experiment, events, conditions, claims)
        for name in ((names[-1], *names[:-1]) if names else ("",))
    ]


def _topology_report(
    paths: SeriesPaths, name: str, runs: Sequence[Row], experiment: str, events: Mapping[str, str],
    conditions: SeriesConditions, claims: Sequence[Claim],
) -> TopologyReport:  # fmt: skip
    """Return the results of one topology; `name` is empty for the only one. Machines belong to the cluster."""
    read = partial(rows, paths, topology=name or None)
    measurements = series_tables.measurements_by_event(read("measurements"))
    title = small_tables.topology_words(name)
    suffix = small_tables.topology_suffix(name)
    return TopologyReport(
        name=name,
        title=title[:1].upper() + title[1:] if name == WHOLE_CLUSTER else title,
        level="" if name in ("", WHOLE_CLUSTER) else _service_level(read("topologies")),
        headline=headline(
            experiment, planned_variants(paths, runs), events, conditions, claims, name or None,
            of_model=any(map(is_simulated, runs)),
        ),
        graph=None if name == WHOLE_CLUSTER else logical_graph(paths, runs, name or None, suffix),
        figures=catalogue.build(series_data.collect(paths, name or None), suffix, f": {title}" if name else ""),
        measurements=measurements,
        runs=series_tables.run_rows(runs, measurements),
        steady=series_tables.steady_rows(read("intervals")),
        losses=series_facts.edge_losses(read("losses")),
    )  # fmt: skip


def logical_graph(
    paths: SeriesPaths, runs: Sequence[Row], topology: str | None = None, suffix: str = ""
) -> LogicalGraph | None:
    """Return the graph of the runs with the decisions at its components."""
    decisions = decision_graph.collect(paths, topology)
    if decisions is None:
        return None
    name = topology or next((run["topology"] for run in runs if run["topology"]), "topology")
    title = f"Logical graph of {name}"
    drawing = topology_graph.graph_drawing(decisions.graph, title, decision_graph.notes(decisions))
    figure = page_figure(f"topology{suffix}", title, words.GRAPH_CAPTION, drawing)
    return LogicalGraph(
        figure, tuple(node.name for node in decisions.graph.components), decision_graph.decision_table(decisions)
    )


def content(
    paths: SeriesPaths, runs: Sequence[Row], ledger: Sequence[LedgerRow], outcomes: series_tables.Outcomes,
    reports: Sequence[TopologyReport],
) -> PageContent:  # fmt: skip
    """Return the page. Every list on it is bounded by runs x events, machines or claims."""
    experiment = experiment_of(paths, runs)
    series_id = next((run["series_id"] for run in runs if run["series_id"]), paths.root.name)
    complete = sum(run["status"] == "complete" for run in runs)
    several_events = any(row["event_id"] != FIRST_EVENT for report in reports for row in report.runs)
    event = Heading("event", "event_id") if several_events else None
    number = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    return PageContent(
        title=f"{experiment}, {series_id}",
        heading=index_page.spec_title(paths) or experiment,
        meta=f"{experiment} · series {series_id} · {number}, {complete} complete and counted",
        blocks=list(_blocks(paths, runs, ledger, outcomes, reports, event)),
    )


def _blocks(
    paths: SeriesPaths, runs: Sequence[Row], ledger: Sequence[LedgerRow], outcomes: series_tables.Outcomes,
    reports: Sequence[TopologyReport], event: Heading | None,
) -> Iterator[Block]:  # fmt: skip
    of_model = any(map(is_simulated, runs))
    trust = page.folded(words.model_sentence(runs, paths.root))
    first, has_several = reports[0], len(reports) > 1
    variants = series_data.order_variants({run["variant"] for run in runs if run["status"] == "complete"})
    legend = [(style.display_name(name), colour) for name, colour in style.colours(variants).items()]
    yield Warnings([trust] if trust else [])
    yield Sentence(first_sentence(reports, of_model=of_model), "answer")
    yield from _timeline(first, legend, "" if has_several else "Figure 1. ")
    if has_several:
        yield Sentence(_topology_links(reports))
    yield Warnings([*series_facts.exclusions(runs), *series_facts.machine_warnings(paths)])
    yield Section("Claims", list(_claims(ledger, experiment_of(paths, runs), of_model=of_model)))
    latencies = [Sentence(sentence, "small") for sentence in words.latency_sentences(paths)]
    if has_several:
        for report in reports:
            parts: list[Block] = [Sentence(report.level)] if report.level else []
            if report is not first:
                parts += [Sentence(report.headline), *_timeline(report, legend)]
            loss_blocks = [_lost(report, event)] if report.losses else []
            parts += [*_graph_and_figures(report, event), _runs(report, event), _steady(report, event), *loss_blocks]
            yield Section(report.title, parts, anchor=f"of{report.suffix}")
        yield from latencies
    else:
        yield from _graph_and_figures(first, event)
    yield Section("Events", list(_events(paths, runs, outcomes, event)))
    if (cost := series_facts.series_cost(paths)) is not None:
        yield Section("Cost", list(_cost(cost)))
    yield from _ablation(paths, event)
    if not has_several:
        yield _runs(first, event)
        yield from latencies
    for run in series_tables.run_rows(runs, first.measurements):
        if not run["counts"] and run["event_id"] == FIRST_EVENT:
            cause = f", {run['why']}" if run["why"] else ""
            yield Sentence(f"* {run['run_id']} is not counted in any claim or figure: {run['status']}{cause}.", "small")
    damage_blocks = list(_damaged(rows(paths, "damaged")))
    if has_several:
        yield Section("Lines that were read", damage_blocks)
    else:
        yield _steady(first, event)
        yield _lost(first, event)
        yield from damage_blocks
    yield from _environment(paths, runs, first.measurements)
    yield Section("Terms", [Definitions(words.glossary("report", of_model=of_model))])


def _timeline(report: TopologyReport, legend: Sequence[tuple[str, str]], start: str = "") -> Iterator[Block]:
    for figure in report.timelines:
        yield variant_legend(legend)
        yield replace(figure, title=start + figure.title)


def _topology_links(reports: Sequence[TopologyReport]) -> Markup:
    cluster, *topologies = reports
    links = joined((link(report.name, f"#of{report.suffix}") for report in topologies), ", ")
    return joined(
        [f"{len(topologies)} topologies ran side by side: ", links,
         ". Each has a section of its own below; what is of machines, and sums over the topologies, stand under ",
         link(cluster.title.lower(), f"#of{cluster.suffix}"), "."]
    )  # fmt: skip


def _claims(ledger: Sequence[LedgerRow], experiment: str, *, of_model: bool) -> Iterator[Block]:
    claims = [ledger_row(row, simulated=of_model) for row in ledger if row.claim.experiment == experiment]
    if claims:
        yield from ledger_blocks(claims, simulated=of_model)
    else:
        yield Sentence("No claim of the ledger is about this experiment.")
    if experiments := _elsewhere(ledger, experiment):
        yield Sentence(f"The other claims of the ledger belong to {', '.join(experiments)}.", "small")


def _graph_and_figures(report: TopologyReport, event: Heading | None) -> Iterator[Section]:
    if report.graph:
        components, decisions = report.graph.components, report.graph.decisions
        blocks: list[Block] = [report.graph.figure]
        if decisions:
            table = series_tables.decision_table(components, decisions, [event], f"decisions{report.suffix}")
            blocks += [table, Sentence(words.DECISIONS_NOTE, "small")]
        yield Section("Topology and decisions", blocks)
    figures = [figure for figure in report.figures if figure not in report.timelines]
    numbered: list[Block] = [
        figure if report.name else replace(figure, title=f"Figure {number}. {figure.title}")
        for number, figure in enumerate(figures, start=1 + len(report.timelines))
    ]
    message = "No other figure has anything to show." if report.figures else words.NOTHING_TO_DRAW
    yield Section("Figures", numbered or [Sentence(message)])


def _runs(report: TopologyReport, event: Heading | None) -> Section:
    def name(row: Row) -> Markup:
        return link(row["run_id"], f"runs/{quote(row['run_id'])}/report.html")

    def status(row: Row) -> str:
        return f"{row['status']}{'' if row['counts'] else ' *'}"

    leading = (Heading("run", name, css="k"), event, Heading("status", status, css="k"))
    tables = series_tables.run_tables(report.runs, report.measurements, leading)
    blocks: list[Block] = [Section(title, [table]) for title, table in tables]
    if series_tables.is_marked(table for _, table in tables):
        blocks.append(Sentence(words.NOT_STEADY, "small"))
    data = series_tables.run_data(report.runs, report.measurements)
    return Section("Runs", [*blocks, Downloads(f"runs{report.suffix}", data)])


def _steady(report: TopologyReport, event: Heading | None) -> Section:
    table = series_tables.steady_table(report.steady, (RUN, event), f"steady{report.suffix}")
    return Section("Steady state", [table])


def _lost(report: TopologyReport, event: Heading | None) -> Section:
    table = series_tables.loss_table(report.losses, (RUN, event), f"losses{report.suffix}")
    table_block = Folded(f"{len(report.losses)} rows, by run and edge", [table], long=True)
    return Section("Lost tuples", [Sentence(words.LOSSES_NOTE), table_block])


def _events(
    paths: SeriesPaths, runs: Sequence[Row], outcomes: series_tables.Outcomes, event: Heading | None
) -> Iterator[Block]:
    def run_id(row: tuple[str, EventOutcome]) -> str:
        return row[0]

    yield Warnings(series_tables.event_warnings(outcomes))
    if outcomes:
        names = Heading("event", lambda row: row[1].event_id) if event else None
        yield series_tables.outcome_table(outcomes, (Heading("run", run_id, css="k"), names), "outcomes")
    else:
        yield Sentence("No run reached an event.")
    if boots := series_facts.machine_boots([paths.run(run["run_id"]) for run in runs]):
        blocks: list[Block] = [Sentence(words.BOOTS_NOTE), series_tables.boot_table(boots)]
        yield Section("Machines that booted during a run", blocks)


def _cost(cost: SeriesCost) -> Iterator[Block]:
    note = f" {cost.damaged_lines} lines of holdings.jsonl could not be read: what they say is in no number here."
    yield Sentence(
        f"${cost.used_usd:.2f} for {cost.machine_hours:.2f} machine-hours on {cost.testbed}, of a budget of"
        f" ${cost.budget_usd:.2f}. The cost of a machine is the time from its request to its return, times its price in"
        f" the list of {cost.prices_of}. A machine that a killed harness left behind counts to the end of its lease."
        f"{note if cost.damaged_lines else ''}"
    )
    yield from series_tables.cost_tables(cost)


def _ablation(paths: SeriesPaths, event: Heading | None) -> Iterator[Block]:
    if lines := scale_decisions.ablation_rows(paths):
        title = "Ablation: the paper's rule and the authors' code"
        yield Section(title, [Sentence(words.ABLATION_NOTE), series_tables.ablation_table(lines, [event])])
    if unread_note := scale_decisions.unread_sentence(scale_decisions.unread_rounds(paths)):
        yield Sentence(unread_note)


def _damaged(files: Sequence[Row]) -> Iterator[Block]:
    """Yield a table of what could not be read, or a sentence that everything could."""
    damaged_files = sorted(
        (row for row in files if row["damaged"] or row.get("missing")), key=lambda row: (row["run_id"], row["file"])
    )
    lines, numbered = sum(row["lines"] for row in files), sum(row.get("missing") is not None for row in files)
    if damaged_files:
        yield Sentence(f"{lines} lines in {len(files)} files were read. {words.DAMAGED_LINES_NOTE}")
        yield series_tables.damage_table(damaged_files)
    else:
        none_missing = f", and in the {numbered} files whose lines are numbered none is missing before the last"
        yield Sentence(f"All {lines} lines in {len(files)} files could be read{none_missing if numbered else ''}.")


def _environment(paths: SeriesPaths, runs: Sequence[Row], measurements: Measurements) -> Iterator[Section]:
    machines = rows(paths, "machines")
    first = min((row["run_id"] for row in machines), default=None)
    of_one_run = [row for row in machines if row["run_id"] == first]
    load = words.workload_sentences(paths, runs, measurements, of_one_run)
    facts, descriptions = series_facts.environment_facts(runs), series_facts.machine_facts(machines)
    fact_blocks: list[Block] = [
        series_tables.machine_table(descriptions),
        Definitions(facts), Downloads("environment", series_tables.pair_data(facts)),
    ]  # fmt: skip
    yield Section(
        "Load, buffers and machines",
        [
            *map(Sentence, load or ["The record does not say which load the runs had."]),
            Folded("Machines and software", fact_blocks),
        ],
    )
    assumptions = series_facts.specification_facts(runs)
    yield Section(
        "Assumptions",
        [
            Sentence(words.ASSUMPTIONS_NOTE), Definitions(assumptions),
            Downloads("specification", series_tables.pair_data(assumptions)),
        ],
    )  # fmt: skip


def _elsewhere(ledger: Sequence[LedgerRow], experiment: str) -> list[str]:
    """Return other experiments with claims of the same family."""
    families = families_of([experiment])
    experiments = {row.claim.experiment for row in ledger if row.claim.family in families and not row.claim.simulated}
    return sorted(name for name in experiments - {experiment} if "/" in name)


def _service_level(topologies: Sequence[Row]) -> str:
    """Return the service level that its runs requested; empty if there was none."""
    row = next((row for row in topologies if row["max_utility"] is not None), None)
    if row is None:
        return ""
    latency = "" if row["latency_ms"] is None else f"a mean latency of {row['latency_ms']:g} ms"
    juice = "" if row["juice"] is None else f"a juice of {row['juice']:g}"
    targets = " and ".join(filter(None, (latency, juice)))
    return f"Service level: {targets}, utility {row['max_utility']:g} where it is met."


def planned_variants(paths: SeriesPaths, runs: Sequence[Row]) -> list[str]:
    """Return the variants in the order of the experiment; without a specification in the order of the figures."""
    measured_names = {run["variant"] for run in runs if run["variant"]}
    spec = read_json(paths.series_json).get("spec") if paths.series_json.is_file() else None
    names = [variant["name"] for variant in (spec or {}).get("variants") or ()]
    return [*names, *series_data.order_variants(measured_names - set(names))]


def event_kinds(outcomes: Sequence[EventOutcome]) -> dict[str, str]:
    """Return the kind of each event that a run reached, in the order of the events."""
    kinds = {outcome.event_id: outcome.kind for outcome in outcomes}
    return {event: kinds[event] for event in sorted(kinds, key=event_timeline.event_order)}
