"""A series' logical graph with what its variants decided, and the same as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from analysis.metrics import scale_decisions
from analysis.metrics.scale_decisions import ScaleDecision
from analysis.record import event_timeline
from analysis.record.event_timeline import FIRST_EVENT, event_order
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, rows
from analysis.report.figures import style
from analysis.report.figures.series_data import order_variants
from analysis.report.figures.topology_graph import Graph, Link, Node, Note, Notes, layout
from topologies import catalogue

VARIANTS_WITH_NOTES = 3  # more than this under a box is a table's job


@dataclass(frozen=True)
class DecisionGraph:
    """The graph of a series' topology and every answer of its complete runs."""

    graph: Graph
    variants: tuple[str, ...]
    decisions: tuple[ScaleDecision, ...]


@dataclass(frozen=True)
class DecisionRow:
    """Runs of one variant that decided alike at one event."""

    event_id: str
    variant: str
    runs: str
    cells: tuple[str, ...]
    released: str


def collect(paths: SeriesPaths, topology: str | None = None) -> DecisionGraph | None:
    """None where no complete run knows its topology. `topology`: which one, where runs have several."""
    complete: list[Row] = [row for row in rows(paths, "runs") if row["status"] == "complete"]
    documents = [event_timeline.run_document(paths.run(row["run_id"])) for row in complete]
    records = [event_timeline.topology_document(document, topology) for document in documents]
    shape = next((record for record in records if record.get("components")), None)
    if shape is None:
        return None
    decisions = [
        answer
        for row in complete
        for answer in scale_decisions.scale_decisions(paths.run(row["run_id"]), row["variant"], topology)
    ]
    return DecisionGraph(graph_of(shape), order_variants({row["variant"] for row in complete}), tuple(decisions))


def graph_of(shape: Mapping[str, Any]) -> Graph:
    """The graph of run.json's `topology`."""
    nodes = tuple(
        Node(c["name"], c["kind"], bool(c.get("sink", False)), len(c["tasks"]), c["executors"])
        for c in shape["components"]
    )
    return in_reading_order(Graph(nodes, tuple(Link(e["source"], e["target"], e["grouping"]) for e in shape["edges"])))


def graph_from_catalogue(name: str) -> Graph:
    """The graph of a topology that ships, at the sizes of its file; for what was not run."""
    shape = catalogue.read(name)
    nodes = tuple(Node(c.name, c.kind, c.name in shape.sinks, c.tasks, c.executors) for c in shape.components)
    return in_reading_order(Graph(nodes, tuple(Link(e.source, e.target, e.grouping) for e in shape.edges)))


def in_reading_order(graph: Graph) -> Graph:
    """Nodes from left to right and top to bottom, so that tables name them as the drawing does."""
    cells = layout(graph).cells
    return Graph(tuple(sorted(graph.nodes, key=lambda n: (cells[n.name].column, cells[n.name].row))), graph.links)


def notes(decision_graph: DecisionGraph) -> Notes:
    """Changes of parallelism at the first event, and the components most runs saw congested then."""
    first = [answer for answer in decision_graph.decisions if answer.event_id == FIRST_EVENT]
    colours = style.colours(decision_graph.variants)
    changing = [
        v for v in decision_graph.variants if any(a.variant == v and dict(a.before) != dict(a.after) for a in first)
    ]
    lines: dict[str, list[Note]] = {}
    for variant in changing[:VARIANTS_WITH_NOTES]:
        for component, text in _changes([answer for answer in first if answer.variant == variant]):
            lines.setdefault(component, []).append(Note(f"{style.display_name(variant)} {text}", colours[variant]))
    return Notes(lines, _pressure(first))


def _changes(decisions: Sequence[ScaleDecision]) -> list[tuple[str, str]]:
    """Component and `2 → 3`, with the share of runs where they differ."""
    counts = Counter(
        (name, answer.cell(name)) for answer in decisions for name in answer.after if _changes_size(answer, name)
    )
    return [
        (name, cell if times == len(decisions) else f"{cell} ({times} of {len(decisions)})")
        for (name, cell), times in sorted(counts.items())
    ]


def _changes_size(answer: ScaleDecision, name: str) -> bool:
    return answer.after[name] != answer.before.get(name)


def _pressure(first: Sequence[ScaleDecision]) -> dict[str, float]:
    ratios: dict[str, list[float]] = {}
    for answer in first:
        for name, value in answer.pressure.items():
            ratios.setdefault(name, []).append(value)
    return {name: median(values) for name, values in ratios.items() if 2 * len(values) > len(first)}


def decision_table(decision_graph: DecisionGraph) -> list[DecisionRow]:
    """One row an event, variant and outcome, in that order."""
    table = []
    for event in sorted({answer.event_id for answer in decision_graph.decisions}, key=event_order):
        for variant in decision_graph.variants:
            decisions = [a for a in decision_graph.decisions if (a.event_id, a.variant) == (event, variant)]
            table += [_row(decision_graph.graph, alike) for alike in _groups_by_outcome(decisions)]
    return table


def _groups_by_outcome(decisions: Sequence[ScaleDecision]) -> list[list[ScaleDecision]]:
    groups: dict[tuple[Any, ...], list[ScaleDecision]] = {}
    for answer in sorted(decisions, key=lambda answer: answer.run_id):
        groups.setdefault(answer.outcome(), []).append(answer)
    return list(groups.values())


def _row(graph: Graph, alike: Sequence[ScaleDecision]) -> DecisionRow:
    one = alike[0]
    names = ", ".join(answer.run_id.removeprefix(f"{one.variant}-") for answer in alike)
    cells = tuple(one.cell(node.name) for node in graph.nodes)
    return DecisionRow(one.event_id, style.display_name(one.variant), names, cells, ", ".join(one.released))
