"""The report of a series, one self-contained HTML page: claims, figures, runs, losses, the environment of the
measurement, and in sentences the workload description (offered rate, cost model, buffers, machines; where runs differ
in it, the sentence says so).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from analysis.claims import ledger as claims_ledger
from analysis.claims.ledger_rows import Conditions, LedgerRow
from analysis.claims.publications import families_of
from analysis.claims.statements import Claim, load_claims
from analysis.metrics import scale_decisions
from analysis.metrics.definitions import RUN_TABLES
from analysis.record import event_timeline, small_tables
from analysis.record.event_timeline import FIRST_EVENT, EventOutcome
from analysis.record.files import SeriesPaths, read_json, write_json_atomic
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row, rows
from analysis.record.topology_file import PARAMETERS_KEY, flux_config
from analysis.report import index_page, latency_sentences, page, run_page, series_tables, simulated
from analysis.report.figures import catalogue, decision_graph, series_data, style, topology_graph
from analysis.report.figures.catalogue import Figure, page_figure
from analysis.report.figures.decision_graph import DecisionRow
from analysis.report.headline import headline
from analysis.report.ledger_table import ledger_row, ledger_version
from analysis.report.page import Download
from analysis.report.series_tables import Measurements
from barograph.plan.experiment import WHOLE_CLUSTER
from topologies.work import BUFFER, UNBOUNDED


def workload_sentences(
    paths: SeriesPaths, runs: Sequence[Row], measurements: Measurements, machines: Sequence[Row]
) -> list[str]:
    """How the runs were loaded, as far as the record says it."""
    configs = [config for run in runs if (config := flux_config(paths.run(run["run_id"])))]
    sentences = [
        _offered_load(configs, measurements),
        _capped_sinks(configs),
        _cost_model(configs),
        _buffer_sizes(configs),
        _machine_types(machines),
    ]
    return [sentence for sentence in sentences if sentence]


def _parameter_values(configs: Sequence[Mapping[str, Any]], parameter: str) -> str:
    values = {str(config.get(PARAMETERS_KEY, {}).get(parameter)) for config in configs}
    return " or ".join(sorted(values - {"None"}))


def _offered_load(configs: Sequence[Mapping[str, Any]], measurements: Measurements) -> str:
    due = [values["due_before"][0] for (_, event), values in measurements.items()
           if event == FIRST_EVENT and "due_before" in values]  # fmt: skip
    if not due:
        return ""
    if _parameter_values(configs, "unthrottled") == "True":
        return (
            "Offered load: spouts were not throttled. All together they emitted"
            f" {median(due):.0f} tuples/s before the first event (median over runs)."
        )
    rate = _parameter_values(configs, "rate_per_s")
    sentence = f"Offered load: {median(due):.0f} tuples/s over all spouts before the first event (median over runs)"
    sentence += f", {rate} tuples/s of each spout component." if rate else "."
    if not _parameter_values(configs, "cost_model"):
        return sentence
    return (
        f"{sentence} It is chosen above what the costliest component can do at first, so that there is congestion to"
        " cure."
    )


def _capped_sinks(configs: Sequence[Mapping[str, Any]]) -> str:
    """Of OpenGov: what leaves its join does not follow what comes in."""
    if not _parameter_values(configs, "surge_days"):
        return ""
    return (
        "Throughput at the sink is capped: the join emits a company at most once a day, whatever comes in. How much the"
        " topology carries is what its spouts emit."
    )


def _cost_model(configs: Sequence[Mapping[str, Any]]) -> str:
    model, cost = _parameter_values(configs, "cost_model"), _parameter_values(configs, "ms_per_character")
    if not model:
        return ""
    words = {"sleep": "sleep (a tuple waits)", "busy": "busy (a tuple burns CPU)", "none": "none"}
    per = f" of {cost} ms a character of the tuple's text" if cost else ""
    return f"Cost model of the costly components: {words.get(model, model)}{per}."


def _buffer_sizes(configs: Sequence[Mapping[str, Any]]) -> str:
    sizes = {config[BUFFER] for config in configs if BUFFER in config}
    if not sizes:
        return ""
    lengths = [f"{size:,}".replace(",", "\u2009") for size in sorted(sizes - {UNBOUNDED})]
    texts = [f"{' or '.join(lengths)} tuples an executor"] * bool(lengths) + [UNBOUNDED] * (UNBOUNDED in sizes)
    sentence = f"Receive buffer: {' or '.join(texts)}"
    if not _parameter_values(configs, "cost_model"):
        return f"{sentence}."
    return (
        f"{sentence}, large enough that a queue grows during the whole run instead of Storm's back-pressure stopping"
        " the spouts, which would hide congestion from the policies."
    )


def _machine_types(machines: Sequence[Row]) -> str:
    kinds: dict[tuple[Any, ...], int] = {}
    for row in machines:
        key = (row["type"], row["cores"], row["memory_mb"], row["slots"], row["bandwidth_mbit"])
        kinds[key] = kinds.get(key, 0) + 1
    texts = [
        f"{number} of {kind or 'no named type'} with {cores:g} cores, {memory:.0f} MB, {slots} slots"
        + (f", {bandwidth:.0f} Mbit/s" if bandwidth else "")
        for (kind, cores, memory, slots, bandwidth), number in kinds.items()
        if None not in (cores, memory, slots)
    ]
    return f"Machines: {'; '.join(texts)} (the master not counted)." if texts else ""


TEMPLATE = "report.html.j2"
FIGURES = "figures"  # the folder with the files that the page offers, beside it


@dataclass(frozen=True)
class TopologyContent:
    """The logical graph, and what was decided at its components."""

    name: str
    figure: Figure
    components: tuple[str, ...]
    decisions: list[DecisionRow]


@dataclass(frozen=True)
class Section:
    """What is of one topology: of the only one (`name` is empty), of one of several, or of the cluster (`all`)."""

    name: str
    title: str
    level: str  # its service level in words
    headline: str
    topology: TopologyContent | None
    figures: list[Figure]
    measurements: Measurements
    run_tables: list[tuple[str, list[str], list[list[str]]]]
    runs: list[Row]
    steady: list[Row]
    losses: list[Row]

    @property
    def suffix(self) -> str:
        """Of the names of its figures and tables."""
        return small_tables.topology_suffix(self.name)

    @property
    def several_events(self) -> bool:
        return any(entry["event_id"] != FIRST_EVENT for entry in self.runs)

    @property
    def unsteady(self) -> bool:
        """Whether a value in the tables of runs has the mark for it."""
        return any(series_tables.UNSTEADY in text for _, _, cells in self.run_tables for row in cells for text in row)


@dataclass(frozen=True)
class SeriesContent:
    """What the template shows; every list is bounded by runs x events, machines or claims."""

    title: str
    experiment: str
    series_id: str
    complete: int
    all_runs: int
    sections: list[Section]  # one, or of the cluster and each of several topologies
    legend: list[tuple[str, str]]  # variant and its colour in every figure
    simulated: str  # what is to be known of runs that were; empty for others
    notes: list[str]
    ledger: list[Row]
    elsewhere: list[str]
    warnings: list[str]
    outcomes: list[tuple[str, EventOutcome]]
    outcome_rows: list[Row]  # the same in words
    boots: list[series_tables.Boot]
    money: series_tables.SeriesCost | None
    ablation: list[scale_decisions.AblationRow]
    unread: str
    latencies: list[str]  # what their readers must know
    not_counted: list[Row]
    damaged: list[Row]
    files_read: int
    files_numbered: int
    lines_read: int
    load: list[str]
    machines: list[Row]
    environment: list[tuple[str, str]]
    assumptions: list[tuple[str, str]]
    glossary: list[tuple[str, str]]

    @property
    def several_events(self) -> bool:
        return any(section.several_events for section in self.sections)

    @property
    def headline(self) -> str:
        """Of the only topology, or of the cluster."""
        first, how = self.sections[0], "Simulated. " if self.simulated else ""
        return how + (f"{first.title}: {first.headline}" if first.name else first.headline)


def build_report(series_dir: Path | str) -> Path:
    """Write figures, claims.json, report.html and a page a run; returns the report's path."""
    paths = SeriesPaths(Path(series_dir))
    conditions = claims_ledger.conditions([paths])
    of_model = any(map(is_simulated, rows(paths, "runs")))
    ledger = claims_ledger.ledger_rows(load_claims(), conditions, simulated=of_model)
    content = collect(paths, ledger, conditions)
    claims = [ledger_row(row, simulated=of_model) for row in ledger]
    write_json_atomic(paths.root / "claims.json", {"v": ledger_version(simulated=of_model), "claims": claims})
    files = downloads_by_name(content)
    for downloads in files.values():
        page.write_downloads(paths.figures, downloads)
    run_page.write_all(paths, content.outcomes)
    page.write(paths.report, page.render(TEMPLATE, c=content, links=page.download_links(files, FIGURES)))
    index_page.write_summary(paths, index_page.summary_of(paths, content.ledger, content.headline))
    return paths.report


def collect(paths: SeriesPaths, ledger: Sequence[LedgerRow], conditions: Conditions) -> SeriesContent:
    """Read what the template shows, except for the ledger, from small tables and the runs' own lines."""
    runs = sorted(rows(paths, "runs"), key=lambda run: (run["order"] is None, run["order"], run["run_id"]))
    experiment = next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)
    rows_of_experiment = [row for row in ledger if row.claim.experiment == experiment]
    damaged_files = sorted(rows(paths, "damaged"), key=lambda row: (row["run_id"], row["file"]))
    machines = rows(paths, "machines")
    outcomes = [
        (run["run_id"], outcome) for run in runs for outcome in event_timeline.event_outcomes(paths.run(run["run_id"]))
    ]
    names = small_tables.topologies(paths)
    claims = [row.claim for row in rows_of_experiment]
    of_model = any(map(is_simulated, runs))
    sections = [
        _section(
            paths,
            name,
            runs,
            experiment,
            event_kinds([outcome for _, outcome in outcomes]),
            conditions,
            claims,
            of_model,
        )
        for name in ((names[-1], *names[:-1]) if names else ("",))
    ]
    return SeriesContent(
        title=index_page.spec_title(paths) or experiment,
        experiment=experiment,
        series_id=next((run["series_id"] for run in runs if run["series_id"]), paths.root.name),
        complete=sum(run["status"] == "complete" for run in runs),
        all_runs=len(runs),
        sections=sections,
        legend=_legend(runs),
        simulated=simulated.sentence(runs, paths.root),
        notes=[*series_tables.exclusions(runs), *series_tables.machine_warnings(paths)],
        ledger=[ledger_row(row, simulated=of_model) for row in rows_of_experiment],
        elsewhere=_elsewhere(ledger, experiment),
        warnings=series_tables.event_warnings(outcomes),
        outcomes=outcomes,
        outcome_rows=[series_tables.outcome_row(run_id, outcome) for run_id, outcome in outcomes],
        boots=series_tables.machine_boots([paths.run(run["run_id"]) for run in runs]),
        money=series_tables.series_cost(paths),
        ablation=scale_decisions.ablation_rows(paths),
        unread=scale_decisions.unread_sentence(scale_decisions.unread_rounds(paths)),
        latencies=latency_sentences.series_sentences(paths),
        not_counted=[
            row
            for row in series_tables.run_rows(runs, sections[0].measurements)
            if not row["counts"] and row["event_id"] == FIRST_EVENT
        ],
        damaged=[row for row in damaged_files if row["damaged"] or row.get("missing")],
        files_read=len(damaged_files),
        files_numbered=sum(row.get("missing") is not None for row in damaged_files),
        lines_read=sum(row["lines"] for row in damaged_files),
        load=workload_sentences(paths, runs, sections[0].measurements, _machines_of_one_run(machines)),
        machines=series_tables.machine_facts(machines),
        environment=series_tables.environment_facts(runs),
        assumptions=series_tables.specification_facts(runs),
        glossary=glossary(of_model=of_model),
    )


def _section(
    paths: SeriesPaths, name: str, runs: Sequence[Row], experiment: str, events: Mapping[str, str],
    conditions: Conditions, claims: Sequence[Claim], of_model: bool,
) -> Section:  # fmt: skip
    """`name`: empty of the only topology. What is of machines is the cluster's. `of_model`: the runs were simulated."""
    read = partial(rows, paths, topology=name or None)
    measurements = series_tables.measurements_by_event(read("measurements"))
    entries = series_tables.run_rows(runs, measurements)
    title = small_tables.topology_words(name)
    section = Section(
        name=name,
        title=title[:1].upper() + title[1:] if name == WHOLE_CLUSTER else title,
        level="" if name in ("", WHOLE_CLUSTER) else _service_level(read("topologies")),
        headline=headline(
            experiment, planned_variants(paths, runs), events, conditions, claims, name or None, of_model=of_model
        ),
        topology=None,
        figures=[],
        measurements=measurements,
        run_tables=[
            series_tables.run_table(title, names, entries, measurements) for title, names in RUN_TABLES.items()
        ],
        runs=entries,
        steady=series_tables.steady_rows(read("intervals")),
        losses=series_tables.edge_losses(read("losses")),
    )
    of = f": {title}" if name else ""
    return replace(
        section,
        topology=None if name == WHOLE_CLUSTER else topology_content(paths, runs, name or None, section.suffix),
        figures=catalogue.build(series_data.collect(paths, name or None), section.suffix, of),
    )


def _elsewhere(ledger: Sequence[LedgerRow], experiment: str) -> list[str]:
    """Other experiments that claims of the same family are about."""
    families = families_of([experiment])
    mine = {row.claim.experiment for row in ledger if row.claim.family in families and not row.claim.simulated}
    return sorted(name for name in mine - {experiment} if "/" in name)


def _service_level(topologies: Sequence[Row]) -> str:
    """What its runs were asked to keep to; empty where nothing was."""
    row = next((row for row in topologies if row["max_utility"] is not None), None)
    if row is None:
        return ""
    latency = "" if row["latency_ms"] is None else f"a mean latency of {row['latency_ms']:g} ms"
    juice = "" if row["juice"] is None else f"a juice of {row['juice']:g}"
    asked = " and ".join(filter(None, (latency, juice)))
    return f"Service level: {asked}, utility {row['max_utility']:g} where it is met."


def _legend(runs: Sequence[Row]) -> list[tuple[str, str]]:
    variants = series_data.order_variants({row["variant"] for row in runs if row["status"] == "complete"})
    return [(style.display_name(name), colour) for name, colour in style.colours(variants).items()]


def planned_variants(paths: SeriesPaths, runs: Sequence[Row]) -> list[str]:
    """In the order of the experiment; of a series without a specification in the order of the figures."""
    measured = {run["variant"] for run in runs if run["variant"]}
    spec = read_json(paths.series_json).get("spec") if paths.series_json.is_file() else None
    planned = [variant["name"] for variant in (spec or {}).get("variants") or ()]
    return [*planned, *series_data.order_variants(measured - set(planned))]


def event_kinds(outcomes: Sequence[EventOutcome]) -> dict[str, str]:
    """The kind of each event that a run reached, in the order of the events."""
    kinds = {outcome.event_id: outcome.kind for outcome in outcomes}
    return {event: kinds[event] for event in sorted(kinds, key=event_timeline.event_order)}


def _machines_of_one_run(machines: Sequence[Row]) -> list[Row]:
    first = min((row["run_id"] for row in machines), default=None)
    return [row for row in machines if row["run_id"] == first]


def topology_content(
    paths: SeriesPaths, runs: Sequence[Row], topology: str | None = None, suffix: str = ""
) -> TopologyContent | None:
    """The logical graph of the runs, with the decisions at its components."""
    decisions = decision_graph.collect(paths, topology)
    if decisions is None:
        return None
    name = topology or next((run["topology"] for run in runs if run["topology"]), "topology")
    drawing = topology_graph.graph_drawing(decisions.graph, f"Logical graph of {name}", decision_graph.notes(decisions))
    figure = page_figure(f"topology{suffix}", f"Logical graph of {name}", "", drawing)
    return TopologyContent(
        name, figure, tuple(node.name for node in decisions.graph.nodes), decision_graph.decision_table(decisions)
    )


def downloads_by_name(content: SeriesContent) -> dict[str, tuple[Download, ...]]:
    """By figure or table: its files. No name is of both."""
    drawn = [
        figure for section in content.sections
        for figure in (*section.figures, *([section.topology.figure] if section.topology else []))
    ]  # fmt: skip
    return {figure.name: figure.files for figure in drawn} | {
        name: page.row_downloads(name, table) for name, table in data_by_name(content).items()
    }


def data_by_name(content: SeriesContent) -> dict[str, list[Row]]:
    executions, types = series_tables.cost_data(content.money)
    return {name: table for section in content.sections for name, table in _data_of(section).items()} | {
        "claims": content.ledger,
        "outcomes": series_tables.outcome_data(content.outcomes),
        "boots": series_tables.boot_data(content.boots),
        "money": executions,
        "money_types": types,
        "ablation": series_tables.ablation_data(content.ablation),
        "damaged": content.damaged,
        "machines": content.machines,
        "environment": series_tables.pair_data(content.environment),
        "specification": series_tables.pair_data(content.assumptions),
    }


def _data_of(section: Section) -> dict[str, list[Row]]:
    graph = section.topology
    tables = {
        "decisions": series_tables.decision_data(graph.components, graph.decisions) if graph else [],
        "runs": series_tables.run_data(section.runs, section.measurements),
        "steady": series_tables.steady_data(section.steady),
        "losses": section.losses,
    }
    return {f"{name}{section.suffix}": table for name, table in tables.items()}


def glossary(*, of_model: bool) -> list[tuple[str, str]]:
    """The words of the report's columns; without those of verdicts where the runs were simulated."""
    entries = yaml.safe_load((page.TEMPLATES / "words.yaml").read_text(encoding="utf-8"))
    return [(entry["word"], entry["means"]) for entry in entries if not (of_model and entry.get("verdicts"))]
