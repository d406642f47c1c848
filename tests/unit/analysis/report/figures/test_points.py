"""What a figure says of itself: tooltip, CSV and drawing are the same marks at the same places."""

import json
import re
from typing import Any

import pytest

from analysis.report.figures import decision_graph, points, style, topology_graph
from analysis.report.figures.catalogue import page_figure
from analysis.report.figures.points import Column, Drawing, Spot
from topologies import catalogue

COLUMNS = (Column("time_s", "time", "s"), Column("word", "word", kind="word"))


def drawn(*spots: Spot, name: str = "Stela") -> Drawing:
    with style.canvas(2.0) as (figure, (axes,)):
        axes.plot([spot.x for spot in spots], [spot.y for spot in spots], color="#D55E00")
        points.add_points(axes, name, "run", "#D55E00", spots)
        return style.drawing(figure, "a title", COLUMNS)


def spot(x: float, y: float, word: str | None = "w", run_id: str = "") -> Spot:
    return Spot(x, y, {"time_s": x, "word": word}, run_id)


def document(drawing: Drawing) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(drawing.points())
    return found


def test_points_lie_where_the_line_is_drawn() -> None:
    drawing = drawn(spot(0, 1), spot(3, 5), spot(10, 2))
    path = re.search(r'<path d="([^"]+)"[^>]*stroke: #d55e00', drawing.svg)
    assert path is not None
    corners = [float(number) for number in re.findall(r"-?[\d.]+", path[1])]
    trace = document(drawing)["traces"][0]
    assert trace["x"] == pytest.approx(corners[0::2], abs=0.06)
    assert trace["y"] == pytest.approx(corners[1::2], abs=0.06)


def test_the_files_have_every_mark_with_all_its_digits() -> None:
    drawing = drawn(spot(1 / 3, 1, run_id="stela-r1"), spot(2, 5, None))
    assert drawing.rows() == [
        {"variant": "Stela", "mark": "run", "run_id": "stela-r1", "time_s": 1 / 3, "word": "w"},
        {"variant": "Stela", "mark": "run", "run_id": None, "time_s": 2, "word": None},
    ]
    assert [column.name for column in drawing.data_columns()] == list(drawing.rows()[0])


def test_what_is_the_same_all_along_is_said_once_and_what_is_missing_not_at_all() -> None:
    trace = document(drawn(spot(1, 1), spot(2, 2)))["traces"][0]
    assert trace["v"] == {"0": [1, 2], "1": "w"} and "r" not in trace
    assert document(drawn(spot(1, 1, None), spot(2, 2, None)))["traces"][0]["v"] == {"0": [1, 2]}
    unknown = Spot(1, 1, {"time_s": float("nan"), "word": "w"})
    assert document(drawn(unknown, spot(2, 2)))["traces"][0]["v"]["0"] == [None, 2]
    assert document(drawn(spot(float("nan"), 1), spot(2, 2)))["traces"][0]["x"] == [pytest.approx(260, abs=260)]


def test_no_value_ends_the_element_that_carries_it() -> None:
    text = drawn(spot(1, 1, "</script><script>alert(1)</script>"), name="<b>").points()
    assert "<" not in text
    assert json.loads(text)["traces"][0]["n"] == "<b>"


def test_a_figure_is_the_same_bytes_again() -> None:
    first, second = (page_figure("x", "X", "", drawn(spot(0, 1), spot(2, 3))) for _ in range(2))
    assert first == second
    assert {file.kind for file in first.files} == {"csv", "parquet", "svg", "pdf"}


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
