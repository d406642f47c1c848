"""Every part of a graph answers, at its place."""

import re

import pytest

from analysis.report.figures import decision_graph, topology_graph
from topologies import catalogue


@pytest.mark.parametrize("name", catalogue.names())
def test_every_box_and_edge_of_a_graph_answers_within_the_drawing(name: str) -> None:
    graph = decision_graph.graph_from_catalogue(name)
    drawing = topology_graph.graph_drawing(graph, name)
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawing.svg)
    assert size is not None
    spots = [one for trace in drawing.traces for one in trace.spots]
    assert len(spots) == len(graph.nodes) + len(graph.links)
    assert all(0 < one.x < int(size[1]) and 0 < one.y < int(size[2]) for one in spots)
    assert drawing.pdf.startswith(b"%PDF-") and len(re.findall(rb"/Type /Page\b", drawing.pdf)) == 1


def test_edges_are_the_same_curves_in_the_pdf() -> None:
    from analysis.report.figures import topology_graph

    vertices, codes = topology_graph._path_vertices("M1.0 2.0H5.0C6.0 2.0 7.0 3.5 8.0 3.5")
    assert vertices == [(1, 2), (5, 2), (6, 2), (7, 3.5), (8, 3.5)]
    assert codes == [1, 2, 4, 4, 4]
