import re
from itertools import combinations
from pathlib import Path

import pytest

from analysis.metrics.scale_decisions import ScaleDecision
from analysis.report.figures import decision_graph, topology_graph
from analysis.report.figures.decision_graph import DecisionGraph
from topologies import catalogue
from topologies.catalogue import ComponentSpec, EdgeSpec

BEFORE = {"spout": 2, "centre": 2, "sink": 2}
LINKS = (EdgeSpec("spout", "default", "centre", "shuffle"), EdgeSpec("centre", "default", "sink", "fields"))
NODES = tuple(ComponentSpec(name, "spout" if name == "spout" else "bolt", 4, 2, "") for name in BEFORE)


def answer(run: int, variant: str = "stela", moved: dict[str, int] | None = None, **after: int) -> ScaleDecision:
    return ScaleDecision(f"{variant}-r{run}", variant, "e1", BEFORE, BEFORE | after, moved or {}, {"centre": 2.0 + run})


def made(*answers: ScaleDecision) -> DecisionGraph:
    return DecisionGraph(
        topology_graph.Graph(NODES, LINKS, ("sink",)), tuple(dict.fromkeys(a.variant for a in answers)), answers
    )


@pytest.mark.parametrize("name", catalogue.names())
def test_a_shipped_topology_is_drawn_whole_and_every_part_answers_within_the_drawing(name: str) -> None:
    graph = decision_graph.graph_from_catalogue(name)
    drawing = topology_graph.graph_drawing(graph, name)
    text = "".join(re.findall(r">([^<>]+)</text>", drawing.svg))
    assert all(node.name in text for node in graph.components)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.svg)
    assert size is not None
    spots = [spot for trace in drawing.traces for spot in trace.spots]
    assert len(spots) == len(graph.components) + len(graph.edges)
    assert all(0 < spot.x < float(size[1]) and 0 < spot.y < float(size[2]) for spot in spots)
    assert [trace.mark for trace in drawing.traces].count("sink") == len(catalogue.read(name).sinks)
    assert drawing.pdf.startswith(b"%PDF-") and len(re.findall(rb"/Type /Page\b", drawing.pdf)) == 1


@pytest.mark.parametrize("name", catalogue.names())
def test_boxes_do_not_overlap_and_stay_on_the_page(name: str) -> None:
    graph = decision_graph.graph_from_catalogue(name)
    grid = topology_graph.grid_of(graph, topology_graph.layout(graph), topology_graph.NO_NOTES)
    corners = [grid.corner(cell) for cell in grid.layers.cells.values()]
    assert all(x >= 0 and y >= 0 and x + grid.box <= grid.width for x, y in corners)
    assert all(abs(a - x) >= grid.box or abs(b - y) >= grid.height for (x, y), (a, b) in combinations(corners, 2))


def test_changes_stand_in_the_variants_colour_with_their_share_of_runs() -> None:
    notes = decision_graph.notes(made(answer(1, centre=3), answer(2, centre=3), answer(3, centre=4)))
    assert [note.text for note in notes.changes["centre"]] == ["Stela 2 → 3 (2 of 3)", "Stela 2 → 4 (1 of 3)"]
    assert notes.pressure == {"centre": 4.0}
    assert "input 4.0 × processed" in topology_graph.graph_drawing(made().graph, "g", notes).svg


def test_what_few_runs_saw_congested_is_not_marked() -> None:
    quiet = [ScaleDecision(f"stela-r{n}", "stela", "e1", BEFORE, BEFORE, {}, {}) for n in (1, 2)]
    assert decision_graph.notes(made(answer(3), *quiet)).pressure == {}


def test_runs_that_decided_alike_share_a_row() -> None:
    rows = decision_graph.decision_table(made(answer(1, centre=3), answer(2, centre=3), answer(3, centre=4),
                              answer(1, "even_rebalance", {"sink": 1})))  # fmt: skip
    assert [(row.variant, row.runs, row.cells) for row in rows] == [
        ("Stela", "r1, r2", ("–", "2 → 3", "–")),
        ("Stela", "r3", ("–", "2 → 4", "–")),
        ("even + rebalance", "r1", ("–", "–", "1 of 2 moved")),
    ]


def test_a_series_without_a_record_of_its_topology_has_no_graph(tmp_path: Path) -> None:
    from analysis.record.files import SeriesPaths

    assert decision_graph.collect(SeriesPaths(tmp_path)) is None
