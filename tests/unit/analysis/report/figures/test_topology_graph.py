"""Logical graphs: where components stand, how they are drawn, and the decisions at them."""

import random
import re
from itertools import combinations
from pathlib import Path

import pytest

from analysis.metrics.scale_decisions import ScaleDecision
from analysis.record.files import SeriesPaths
from analysis.report.figures import decision_graph, topology_graph
from analysis.report.figures.decision_graph import DecisionGraph
from analysis.report.figures.topology_graph import Edge, GridCell, Layers, layer_graph
from topologies import catalogue
from topologies.catalogue import ComponentSpec, EdgeSpec


def shipped(name: str) -> tuple[list[str], list[Edge]]:
    topology = catalogue.read(name)
    return [c.name for c in topology.components], [(e.source, e.target) for e in topology.edges]


def columns(drawn: Layers) -> list[list[str]]:
    """Components by column, each from top to bottom."""
    standing = sorted(drawn.cells, key=lambda name: drawn.cells[name].row)
    last = max(cell.column for cell in drawn.cells.values())
    return [[name for name in standing if drawn.cells[name].column == column] for column in range(last + 1)]


COLUMNS = {
    "star": "spout_1 spout_2|centre|sink_1 sink_2",
    "linear": "spout|bolt_1|bolt_2|sink",
    "diamond": "spout|bolt_1 bolt_2 bolt_3 bolt_4|sink",
    "page_load": "spout|transform|filter|join|filter_2|aggregate|sink",
    "processing": "spout|transform|filter join_2|join_1 normalize|sink_1 sink_2",
    "network_monitoring": "spout|parse_lines|filter_failure filter_success|parse_failures parse_success|aggregate"
    "|filter|functor|join_output",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_papers_topologies_stand_as_the_papers_draw_them(name: str) -> None:
    assert columns(layer_graph(*shipped(name))) == [column.split() for column in COLUMNS[name].split("|")]


def test_rows_are_centred_and_a_long_edge_passes_beside_what_stands_between() -> None:
    drawn = layer_graph(*shipped("diamond"))
    assert drawn.cells["spout"] == GridCell(0, 0)
    assert [drawn.cells[f"bolt_{i}"].row for i in range(1, 5)] == [-1.5, -0.5, 0.5, 1.5]
    drawn = layer_graph(*shipped("network_monitoring"))
    long = ("parse_success", "join_output")
    assert set(drawn.bends) == {long} and [cell.column for cell in drawn.path(long)] == [3, 4, 5, 6, 7]
    assert not set(drawn.bends[long]) & set(drawn.cells.values())


def test_edges_do_not_cross_where_they_need_not_and_what_must_cross_is_counted() -> None:
    edges = [("a1", "b3"), ("a2", "b2"), ("a3", "b1"), ("b1", "c2"), ("b3", "c1")]
    components = ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2"]
    assert layer_graph(components, edges).crossings(edges) == 0
    edges = [(a, b) for a in ("a1", "a2", "a3") for b in ("b1", "b2", "b3")]
    assert layer_graph(components[:6], edges).crossings([*edges, *edges]) == 9  # of K3,3 in two columns


@pytest.mark.parametrize(
    ("components", "edges", "expected"),
    [
        ("s a b t", "sa ab ba bt bb", [["s"], ["a"], ["b"], ["t"]]),  # a cycle leads back
        ("a b c", "ab bc ca", [["a"], ["b"], ["c"]]),  # one that is all begins somewhere
        ("a b", "", [["a", "b"]]),
    ],
)
def test_odd_graphs(components: str, edges: str, expected: list[list[str]]) -> None:
    drawn = layer_graph(components.split(), [(edge[0], edge[1]) for edge in edges.split()])
    assert columns(drawn) == expected and drawn.bends == {}
    assert layer_graph([], []).cells == {}


@pytest.mark.parametrize("seed", range(10))
def test_any_graph_is_laid_out_once_and_everywhere_apart(seed: int) -> None:
    rng = random.Random(seed)
    components = [f"c{i}" for i in range(12)]
    edges = [(a, b) for a in components for b in components if rng.random() < 0.15]
    drawn = layer_graph(components, edges)
    places = [*drawn.cells.values(), *(cell for bends in drawn.bends.values() for cell in bends)]
    assert len(places) == len(set(places)) and drawn == layer_graph(components, list(edges))
    for column in {cell.column for cell in places}:
        assert sum(cell.row for cell in places if cell.column == column) == 0
    for source, target in edges:
        first, last = drawn.cells[source].column, drawn.cells[target].column
        if first < last:
            assert [cell.column for cell in drawn.path((source, target))] == list(range(first, last + 1))


@pytest.mark.parametrize("name", catalogue.names())
def test_a_shipped_topology_is_drawn_whole_without_crossings_and_every_part_answers(name: str) -> None:
    components, edges = shipped(name)
    layers = layer_graph(components, edges)
    assert layers.crossings(edges) == 0 and list(layers.cells) == components
    graph = decision_graph.graph_from_catalogue(name)
    grid = topology_graph.grid_of(graph, topology_graph.layout(graph), topology_graph.NO_NOTES)
    corners = [grid.corner(cell) for cell in grid.layers.cells.values()]
    assert all(x >= 0 and y >= 0 and x + grid.box <= grid.width for x, y in corners)
    assert all(abs(a - x) >= grid.box or abs(b - y) >= grid.height for (x, y), (a, b) in combinations(corners, 2))
    drawing = topology_graph.graph_drawing(graph, name)
    text = "".join(re.findall(r">([^<>]+)</text>", drawing.svg))
    assert all(component in text for component in components)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.svg)
    assert size is not None
    spots = [spot for trace in drawing.traces for spot in trace.spots]
    assert len(spots) == len(graph.components) + len(graph.edges)
    assert all(0 < spot.x < float(size[1]) and 0 < spot.y < float(size[2]) for spot in spots)
    assert [trace.mark for trace in drawing.traces].count("sink") == len(catalogue.read(name).sinks)
    assert drawing.pdf.startswith(b"%PDF-") and len(re.findall(rb"/Type /Page\b", drawing.pdf)) == 1


# Decisions.

BEFORE = {"spout": 2, "centre": 2, "sink": 2}
LINKS = (EdgeSpec("spout", "default", "centre", "shuffle"), EdgeSpec("centre", "default", "sink", "fields"))
NODES = tuple(ComponentSpec(name, "spout" if name == "spout" else "bolt", 4, 2, "") for name in BEFORE)


def answer(run: int, variant: str = "stela", moved: dict[str, int] | None = None, **after: int) -> ScaleDecision:
    return ScaleDecision(f"{variant}-r{run}", variant, "e1", BEFORE, BEFORE | after, moved or {}, {"centre": 2.0 + run})


def decisions(*answers: ScaleDecision) -> DecisionGraph:
    graph = topology_graph.Graph(NODES, LINKS, ("sink",))
    return DecisionGraph(graph, tuple(dict.fromkeys(each.variant for each in answers)), answers)


def test_changes_stand_with_their_share_of_runs_and_what_few_saw_congested_is_not_marked() -> None:
    notes = decision_graph.notes(decisions(answer(1, centre=3), answer(2, centre=3), answer(3, centre=4)))
    assert [note.text for note in notes.changes["centre"]] == ["Stela 2 → 3 (2 of 3)", "Stela 2 → 4 (1 of 3)"]
    assert notes.pressure == {"centre": 4.0}
    assert "input 4.0 × processed" in topology_graph.graph_drawing(decisions().graph, "g", notes).svg
    quiet = [ScaleDecision(f"stela-r{n}", "stela", "e1", BEFORE, BEFORE, {}, {}) for n in (1, 2)]
    assert decision_graph.notes(decisions(answer(3), *quiet)).pressure == {}


def test_runs_that_decided_alike_share_a_row(tmp_path: Path) -> None:
    rows = decision_graph.decision_table(decisions(
        answer(1, centre=3), answer(2, centre=3), answer(3, centre=4), answer(1, "even_rebalance", {"sink": 1})
    ))  # fmt: skip
    assert [(row.variant, row.runs, row.cells) for row in rows] == [
        ("Stela", "r1, r2", ("–", "2 → 3", "–")),
        ("Stela", "r3", ("–", "2 → 4", "–")),
        ("even + rebalance", "r1", ("–", "–", "1 of 2 moved")),
    ]
    assert decision_graph.collect(SeriesPaths(tmp_path)) is None, "no run knows its topology"
