import re
from pathlib import Path

import pytest

from analysis.metrics.scale_decisions import ScaleDecision
from analysis.report.figures import decision_graph, topology_graph
from analysis.report.figures.decision_graph import DecisionGraph
from topologies import catalogue

BEFORE = {"spout": 2, "centre": 2, "sink": 2}
LINKS = (topology_graph.Link("spout", "centre", "shuffle"), topology_graph.Link("centre", "sink", "fields"))
NODES = tuple(
    topology_graph.Node(name, "spout" if name == "spout" else "bolt", name == "sink", 4, 2) for name in BEFORE
)


def answer(run: int, variant: str = "stela", moved: dict[str, int] | None = None, **after: int) -> ScaleDecision:
    return ScaleDecision(f"{variant}-r{run}", variant, "e1", BEFORE, BEFORE | after, moved or {}, {"centre": 2.0 + run})


def made(*answers: ScaleDecision) -> DecisionGraph:
    return DecisionGraph(topology_graph.Graph(NODES, LINKS), tuple(dict.fromkeys(a.variant for a in answers)), answers)


@pytest.mark.parametrize("name", catalogue.names())
def test_shipped_topologies_are_drawn_whole(name: str) -> None:
    shape = catalogue.read(name)
    drawn = topology_graph.draw_svg(decision_graph.graph_from_catalogue(name), name)
    said = "".join(re.findall(r">([^<>]+)</text>", drawn))
    assert drawn.count("marker-end") == len({(e.source, e.target) for e in shape.edges})
    for component in shape.components:
        assert component.name in said
    assert drawn.count('rx="1.0"') == len(shape.sinks) + 1, "a double border for each sink, and one in the key"


@pytest.mark.parametrize("name", catalogue.names())
def test_boxes_do_not_overlap_and_stay_on_the_page(name: str) -> None:
    drawn = topology_graph.draw_svg(decision_graph.graph_from_catalogue(name), name)
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn)
    assert found is not None
    numbers = re.findall(
        r'<rect x="([\d.-]+)" y="([\d.-]+)" width="([\d.]+)" height="([\d.]+)" rx="(?:3\.0|\d\d\.)', drawn
    )
    boxes = [tuple(map(float, box)) for box in numbers]
    assert len(boxes) >= len(catalogue.read(name).components)
    for x, y, width, height in boxes:
        assert x >= 0 and y >= 0 and x + width <= float(found[1]) and y + height <= float(found[2])
    for i, (x, y, width, height) in enumerate(boxes):
        for a, b, _, _ in boxes[i + 1 :]:
            assert abs(a - x) >= width or abs(b - y) >= height


def test_changes_stand_in_the_variants_colour_with_their_share_of_runs() -> None:
    notes = decision_graph.notes(made(answer(1, centre=3), answer(2, centre=3), answer(3, centre=4)))
    assert [note.text for note in notes.changes["centre"]] == ["Stela 2 → 3 (2 of 3)", "Stela 2 → 4 (1 of 3)"]
    assert notes.pressure == {"centre": 4.0}
    assert "input 4.0 × processed" in topology_graph.draw_svg(made().graph, "g", notes)


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
