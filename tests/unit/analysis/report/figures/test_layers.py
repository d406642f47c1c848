"""The layering of logical graphs, for drawing them."""

from __future__ import annotations

import random

import pytest

from analysis.report.figures.layers import Edge, GridCell, Layers, layer_graph
from topologies import catalogue


def shipped(name: str) -> tuple[list[str], list[Edge]]:
    topology = catalogue.read(name)
    return [c.name for c in topology.components], [(e.source, e.target) for e in topology.edges]


def columns(drawn: Layers) -> list[list[str]]:
    """Components by column, each from top to bottom."""
    last = max(cell.column for cell in drawn.cells.values())
    standing = sorted(drawn.cells, key=lambda name: drawn.cells[name].row)
    return [[name for name in standing if drawn.cells[name].column == column] for column in range(last + 1)]


COLUMNS = {
    "star": [["spout_1", "spout_2"], ["centre"], ["sink_1", "sink_2"]],
    "linear": [["spout"], ["bolt_1"], ["bolt_2"], ["sink"]],
    "diamond": [["spout"], ["bolt_1", "bolt_2", "bolt_3", "bolt_4"], ["sink"]],
    "page_load": [["spout"], ["transform"], ["filter"], ["join"], ["filter_2"], ["aggregate"], ["sink"]],
    "processing": [
        *(["spout"], ["transform"], ["filter", "join_2"]),
        *(["join_1", "normalize"], ["sink_1", "sink_2"]),
    ],
    "network_monitoring": [
        *(["spout"], ["parse_lines"], ["filter_failure", "filter_success"], ["parse_failures", "parse_success"]),
        *(["aggregate"], ["filter"], ["functor"], ["join_output"]),
    ],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_papers_topologies_stand_as_the_papers_draw_them(name: str) -> None:
    assert columns(layer_graph(*shipped(name))) == COLUMNS[name]


@pytest.mark.parametrize("name", catalogue.names())
def test_no_shipped_topology_has_crossings(name: str) -> None:
    components, edges = shipped(name)
    drawn = layer_graph(components, edges)
    assert drawn.crossings(edges) == 0
    assert all(drawn.cells[source].column < drawn.cells[target].column for source, target in edges)
    assert tuple(drawn.cells) == tuple(components)


def test_rows_are_centred() -> None:
    drawn = layer_graph(*shipped("diamond"))
    assert drawn.cells["spout"] == GridCell(0, 0)
    assert [drawn.cells[f"bolt_{i}"].row for i in range(1, 5)] == [-1.5, -0.5, 0.5, 1.5]


def test_a_long_edge_passes_beside_what_stands_between() -> None:
    drawn = layer_graph(*shipped("network_monitoring"))
    long = ("parse_success", "join_output")
    assert set(drawn.bends) == {long}
    assert [cell.column for cell in drawn.path(long)] == [3, 4, 5, 6, 7]
    assert not set(drawn.bends[long]) & set(drawn.cells.values())


def test_rows_are_ordered_so_that_edges_do_not_cross() -> None:
    edges = [("a1", "b3"), ("a2", "b2"), ("a3", "b1"), ("b1", "c2"), ("b3", "c1")]
    components = ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2"]
    assert layer_graph(components, edges).crossings(edges) == 0


def test_what_must_cross_is_counted() -> None:
    edges = [(a, b) for a in ("a1", "a2", "a3") for b in ("b1", "b2", "b3")]
    components = ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert layer_graph(components, edges).crossings([*edges, *edges]) == 9  # of K3,3 in two columns, however ordered


def test_a_cycle_leads_back() -> None:
    drawn = layer_graph(["s", "a", "b", "t"], [("s", "a"), ("a", "b"), ("b", "a"), ("b", "t"), ("b", "b")])
    assert columns(drawn) == [["s"], ["a"], ["b"], ["t"]]
    assert drawn.bends == {}


def test_a_graph_that_is_one_cycle_begins_somewhere() -> None:
    assert columns(layer_graph(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a")])) == [["a"], ["b"], ["c"]]


def test_odd_graphs() -> None:
    assert layer_graph([], []).cells == {}
    assert set(columns(layer_graph(["a", "b"], []))[0]) == {"a", "b"}


@pytest.mark.parametrize("seed", range(30))
def test_any_graph_is_laid_out_once_and_everywhere_apart(seed: int) -> None:
    rng = random.Random(seed)
    components = [f"c{i}" for i in range(12)]
    edges = [(a, b) for a in components for b in components if rng.random() < 0.15]
    drawn = layer_graph(components, edges)
    places = [*drawn.cells.values(), *(cell for bends in drawn.bends.values() for cell in bends)]
    assert len(places) == len(set(places))
    assert drawn == layer_graph(components, list(edges))
    for column in {cell.column for cell in places}:
        assert sum(cell.row for cell in places if cell.column == column) == 0
    forward = [e for e in edges if drawn.cells[e[0]].column < drawn.cells[e[1]].column]
    assert all([cell.column for cell in drawn.path(e)] == _steps(drawn, e) for e in forward)


def _steps(drawn: Layers, edge: Edge) -> list[int]:
    return list(range(drawn.cells[edge[0]].column, drawn.cells[edge[1]].column + 1))
