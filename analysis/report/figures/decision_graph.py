"""A series' logical graph with its variants' decisions, also as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from analysis.metrics import scale_decisions
from analysis.metrics.scale_decisions import ScaleDecision
from analysis.record.event_timeline import FIRST_EVENT, event_order
from analysis.record.files import SeriesPaths, run_document, topology_document
from analysis.record.small_tables import rows
from analysis.report.figures import style
from analysis.report.figures.series_data import order_variants
from analysis.report.figures.topology_graph import Graph, Note, Notes, layout
from topologies import catalogue
from topologies.catalogue import ComponentSpec, EdgeSpec

VARIANTS_WITH_NOTES = 3  # more than this under a box belongs into a table


@dataclass(frozen=True)
class DecisionGraph:
    """The graph of a series' topology and every answer of its complete runs."""

    graph: Graph
    variants: tuple[str, ...]
    decisions: tuple[ScaleDecision, ...]


@dataclass(frozen=True)
class DecisionRow:
    """Runs of one variant with the same decision at one event."""

    event_id: str
    variant: str
    runs: str
    cells: tuple[str, ...]
    released: str


def collect(paths: SeriesPaths, topology: str | None = None) -> DecisionGraph | None:
    """Return the graph; None if no complete run knows its topology. `topology`: which one, if runs have several."""
    runs = [row for row in rows(paths, "runs") if row["status"] == "complete"]
    documents = (run_document(paths.run(row["run_id"])) for row in runs)
    records = [topology_document(document, topology) for document in documents]
    shape = next((record for record in records if record.get("components")), None)
    if shape is None:
        return None
    decisions = [
        answer
        for row in runs
        for answer in scale_decisions.scale_decisions(paths.run(row["run_id"]), row["variant"], topology)
    ]
    return DecisionGraph(graph_of(shape), order_variants({row["variant"] for row in runs}), tuple(decisions))


def graph_of(record: Mapping[str, Any]) -> Graph:
    """Return the graph of run.json's `topology`."""
    components = (
        ComponentSpec(c["name"], c["kind"], len(c["tasks"]), c["executors"], "") for c in record["components"]
    )
    edges = (EdgeSpec(e["source"], e["stream"], e["target"], e["grouping"]) for e in record["edges"])
    sinks = (c["name"] for c in record["components"] if c.get("sink"))
    return in_reading_order(Graph(tuple(components), tuple(edges), tuple(sinks)))


def graph_from_catalogue(name: str) -> Graph:
    """Return the graph of a shipped topology, at the sizes of its file, for experiments without runs."""
    shape = catalogue.read(name)
    return in_reading_order(Graph(shape.components, shape.edges, shape.sinks))


def in_reading_order(graph: Graph) -> Graph:
    """Sort components from left to right and top to bottom, so that tables list them as the drawing does."""
    cells = layout(graph).cells
    order = sorted(graph.components, key=lambda each: (cells[each.name].column, cells[each.name].row))
    return replace(graph, components=tuple(order))


def notes(decision_graph: DecisionGraph) -> Notes:
    """Return changes of parallelism at the first event, and the components that most runs saw congested then."""
    first = [answer for answer in decision_graph.decisions if answer.event_id == FIRST_EVENT]
    colours = style.colours(decision_graph.variants)
    by_variant = {name: [answer for answer in first if answer.variant == name] for name in decision_graph.variants}
    changing = [name for name, answers in by_variant.items() if any(dict(a.before) != dict(a.after) for a in answers)]
    changes: dict[str, list[Note]] = {}
    for variant in changing[:VARIANTS_WITH_NOTES]:
        decisions = by_variant[variant]
        counts = Counter(
            (name, answer.cell(name))
            for answer in decisions for name, size in answer.after.items() if size != answer.before.get(name)
        )  # fmt: skip
        for (component, cell), times in sorted(counts.items()):
            share = "" if times == len(decisions) else f" ({times} of {len(decisions)})"
            note = Note(f"{style.display_name(variant)} {cell}{share}", colours[variant])
            changes.setdefault(component, []).append(note)
    ratios: dict[str, list[float]] = {}
    for answer in first:
        for name, value in answer.pressure.items():
            ratios.setdefault(name, []).append(value)
    return Notes(changes, {name: median(values) for name, values in ratios.items() if 2 * len(values) > len(first)})


def decision_table(decision_graph: DecisionGraph) -> list[DecisionRow]:
    """Return one row an event, variant and outcome, in that order."""
    table = []
    for event in sorted({answer.event_id for answer in decision_graph.decisions}, key=event_order):
        for variant in decision_graph.variants:
            groups: dict[tuple[Any, ...], list[ScaleDecision]] = {}
            for answer in sorted(decision_graph.decisions, key=lambda answer: answer.run_id):
                if (answer.event_id, answer.variant) == (event, variant):
                    groups.setdefault(answer.outcome(), []).append(answer)
            for batch in groups.values():
                runs = ", ".join(answer.run_id.removeprefix(f"{variant}-") for answer in batch)
                cells = tuple(batch[0].cell(component.name) for component in decision_graph.graph.components)
                machines = ", ".join(batch[0].released)
                table.append(DecisionRow(event, style.display_name(variant), runs, cells, machines))
    return table
