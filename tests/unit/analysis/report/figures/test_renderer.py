"""Marks, axes and labels, and that points lie where their marks are drawn."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest

from analysis.record.event_timeline import EventMark
from analysis.report.figures import renderer
from analysis.report.figures.chart import (
    Band,
    Bar,
    Chart,
    ChartAxis,
    ChartPanel,
    Dot,
    End,
    LineMark,
    Mark,
    Moment,
    Stroke,
    Text,
    Whisker,
    categories,
    events,
    moments,
)
from analysis.report.figures.points import Spot, point_columns
from analysis.report.figures.renderer import page_figure

COLUMNS = point_columns("time_s = time (s); word /word")
RED = "#D55E00"


def spot(x: float, y: float, word: str | None = "w", run_id: str = "", **more: Any) -> Spot:
    return Spot(x, y, {"time_s": x, "word": word}, run_id, **more)


def chart(*marks: Mark, **settings: Any) -> Chart:
    return Chart("a <title>", COLUMNS, [ChartPanel(marks, **settings)], 2.0)


def line(*spots: Spot, name: str = "Stela") -> Chart:
    return chart(LineMark(spots, RED, name, "run"))


def document(of: Chart) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(renderer.draw(of).points())
    return found


def test_points_lie_where_the_line_is_drawn() -> None:
    drawing = renderer.draw(line(spot(0, 1), spot(3, 5), spot(10, 2)))
    path = re.search(r'<path d="([^"]+)"[^>]*stroke: #d55e00', drawing.svg)
    assert path is not None
    corners = [float(number) for number in re.findall(r"-?[\d.]+", path[1])]
    trace = json.loads(drawing.points())["traces"][0]
    assert trace["x"] == pytest.approx(corners[0::2], abs=0.06)
    assert trace["y"] == pytest.approx(corners[1::2], abs=0.06)
    assert "<title>a &lt;title&gt;</title>" in drawing.svg


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize(
    "mark",
    [
        LineMark([spot(0, 1), spot(1, 5)], RED, "a", "m"),
        Dot([spot(0, 1), spot(1, 5, is_bound=True)], RED, "a", "m"),
        Whisker([spot(0, 1, end=3), spot(1, 5, end=9)], RED, "a", "m"),
        Stroke([spot(0, 1), spot(1, 5)], RED, "a", "m"),
        Bar([spot(0, 1, end=-1), spot(1, 5, end=-5)], RED, "a", "m"),
        Text([spot(0, 1), spot(1, 5)], RED, "a", "m", texts=["one", "two"]),
        Mark([spot(0, 1), spot(1, 5)], RED, "a", "m"),
    ],
)
def test_every_mark_is_told_and_x_goes_down_where_it_is_flipped(mark: Mark, flipped: bool) -> None:
    names = categories(["one", "two"])
    drawing = renderer.draw(chart(mark, x=names, y=ChartAxis(low=-9.0, high=9.0), flipped=flipped))
    ((first, second),) = (trace.spots for trace in drawing.traces)
    if flipped:
        assert first.y < second.y and first.x < second.x, "from the top, and the larger the more to the right"
    else:
        assert first.x < second.x and first.y > second.y
    assert (RED.lower() in drawing.svg) is (type(mark) is not Mark)


def test_a_bound_is_hollow_and_its_bar_open_and_what_is_only_drawn_is_told_nowhere() -> None:
    for bound in (False, True):
        marks = (Bar([spot(0, 5, is_bound=bound)], RED), Dot([spot(0, 5, is_bound=bound)], RED))
        drawing = renderer.draw(chart(*marks, Band([spot(0, 1, end=2), spot(1, 2, end=3)], RED)))
        assert ("stroke-dasharray" in drawing.svg) is bound and drawing.traces == ()


def test_the_files_have_every_mark_with_all_its_digits_and_the_same_bytes_again() -> None:
    of = line(spot(1 / 3, 1, run_id="stela-r1"), spot(2, 5, None))
    rows: list[dict[str, Any]] = [
        {"variant": "Stela", "mark": "run", "run_id": "stela-r1", "time_s": 1 / 3, "word": "w"},
        {"variant": "Stela", "mark": "run", "run_id": None, "time_s": 2, "word": None},
    ]
    assert of.rows() == renderer.draw(of).rows() == rows
    assert [column.name for column in renderer.draw(of).data_columns()] == list(rows[0])
    first, second = (page_figure("x", "X", "", of) for _ in range(2))
    assert first == second and {file.kind for file in first.files} == {"csv", "parquet", "svg", "pdf"}


def test_points_say_a_shared_value_once_and_a_missing_one_not_at_all_and_end_no_script() -> None:
    trace = document(line(spot(1, 1), spot(2, 2)))["traces"][0]
    assert trace["v"] == {"0": [1, 2], "1": "w"} and "r" not in trace
    assert document(line(spot(1, 1, None), spot(2, 2, None)))["traces"][0]["v"] == {"0": [1, 2]}
    unknown = Spot(1, 1, {"time_s": float("nan"), "word": "w"})
    assert document(line(unknown, spot(2, 2)))["traces"][0]["v"]["0"] == [None, 2]
    assert len(document(line(spot(float("nan"), 1), spot(2, 2)))["traces"][0]["x"]) == 1
    text = renderer.draw(line(spot(1, 1, "</script><script>alert(1)</script>"), name="<b>")).points()
    assert "<" not in text and json.loads(text)["traces"][0]["n"] == "<b>"


def test_panels_that_share_an_axis_show_all_of_each() -> None:
    panels = [
        ChartPanel([LineMark([spot(0, 1), spot(1, top)], RED, "a", "m")], f"p\n{top}", y=ChartAxis(has_zero=True))
        for top in (2, 9)
    ]
    drawing = renderer.draw(Chart("t", COLUMNS, panels, 2.0, 2, shares="xy", tells_panels=True))
    low, high = (trace.spots for trace in drawing.traces)
    assert low[0].y == high[0].y and low[1].y > high[1].y > 0
    assert [trace.panel for trace in drawing.traces] == ["p 2", "p 9"]


def test_an_empty_panel_says_why_and_a_hidden_one_nothing() -> None:
    panels = [ChartPanel(message="not run"), ChartPanel(is_hidden=True, title="unseen")]
    svg = renderer.draw(Chart("t", COLUMNS, panels, 2.0, 2)).svg
    assert "not run" in svg and "unseen" not in svg and svg.count('<g id="axes_') == 1


def test_an_event_is_shown_at_its_median_with_its_range() -> None:
    marks = [EventMark(t, "e2", "crash", "m3 crashes") for t in (98.0, 100.0, 120.0)] + [
        EventMark(0, "e1", "rate", "rate × 2")
    ]
    first, second = moments(marks)
    assert (first.label, second.low_s, second.middle_s, second.high_s) == ("rate × 2", 98.0, 100.0, 120.0)


def test_labels_in_one_tier_never_overlap() -> None:
    spans = [(t, t + 190.0) for t in (0.0, 3.0, 5.0, 200.0, 210.0)]
    tiers = renderer.label_tiers(spans)
    assert tiers == [0, 1, 2, 0, 1]
    for tier in set(tiers):
        row = [span for span, of in zip(spans, tiers, strict=True) if of == tier]
        assert all(b[0] >= a[1] for a, b in pairwise(row))


def test_a_label_stands_left_of_its_line_where_the_panel_ends_too_soon_and_has_more_room_there() -> None:
    short = [Moment("m3 has 50 % of the CPU for 20 s", t, t, t) for t in (0.0, 100.0, 230.0)]
    assert renderer.event_labels(short, -60.0, 240.0, 4.95) == [(False, 0), (False, 1), (True, 2)]
    long = [Moment("the policy decides by itself, every 5 s for 240 s", t, t, t) for t in (0, 300)]
    assert [is_left for is_left, _ in renderer.event_labels(long, -60.0, 360.0, 4.95)] == [False, True]


@pytest.mark.parametrize("height_in", [0.0, 1.6])
def test_lines_end_below_the_labels_of_eleven_events(height_in: float, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = [EventMark(60.0 * i, f"e{i}", "sine", f"a sine of the input rate in number {i}") for i in range(11)]
    x, y = ChartAxis(low=-60.0, high=172800.0), ChartAxis(low=0.0)
    panel = ChartPanel([LineMark([spot(0, 1), spot(9, 100)], RED, "a", "m"), events(marks)], x=x, y=y,
                  ends=[End("a", RED, 100.0)], height_in=height_in)  # fmt: skip
    seen: list[tuple[float, float]] = []

    def look(axes: Any, *_: Any) -> None:
        lowest = min(text.get_window_extent().y0 for text in axes.texts if text.get_text().startswith("a sine"))
        seen.append((axes.transData.transform((0.0, 100.0))[1], lowest))

    monkeypatch.setattr(renderer, "_ends", look)
    renderer.draw(Chart("t", COLUMNS, [panel], 3.4))
    ((highest, lowest),) = seen
    assert highest < lowest


def test_labels_at_the_end_keep_their_order_and_their_distance() -> None:
    assert renderer.spread_labels([5.0, 1.0, 1.5], 2.0) == [5.0, 1.0, 3.0]
