"""Bytes and emissions over the default, block by block, beside what the paper states."""

from dataclasses import replace

import pytest

from analysis.claims.publications import PublishedFigure, PublishedPanel
from analysis.report.figures import published_figures, renderer
from analysis.report.figures.chart import Chart
from analysis.report.figures.series_data import RateLine, RunNumber, SeriesData
from analysis.report.figures.sweep_curves import SweepAxis, SweepData, SweepRun

EMITTED, BYTES = "published_emitted_per_s", "published_network_mb_per_s"
# Bytes of three blocks: METIS has 2 of 10, 1 of 10 and 4 of 20; its second run and the default's third emit most.
NUMBERS = {
    BYTES: {"even": (10.0, 10.0, 20.0), "metis": (2.0, 1.0, 4.0)},
    EMITTED: {"even": (100.0, 101.0, 102.0), "metis": (150.0, 155.0, 152.0)},
}


def data() -> SeriesData:
    numbers = {
        metric: tuple(RunNumber(f"{v}-r{n}", v, n, x) for v, of in sides.items() for n, x in enumerate(of, 1))
        for metric, sides in NUMBERS.items()
    }
    line = RateLine("even-r1", "even", (0.0,), (1.0,))
    return SeriesData(("even", "metis"), (line,), (), (), (), (), experiment="metis/payload", numbers=numbers)


def figure(draw: str, *, simulated: bool = False) -> PublishedFigure:
    name = "metis/payload_machines" if simulated else "metis/payload"
    return PublishedFigure("MP", "Bytes", "", (PublishedPanel(name, "Payload", draw, simulated=simulated),))


def test_changes_are_of_blocks_and_the_best_of_three_and_the_stated_number_stand_beside() -> None:
    chart = published_figures.chart(figure("network_change"), {"metis/payload": data()})
    by_mark: dict[str, list[float]] = {}
    for row in chart.rows():
        by_mark.setdefault(str(row["mark"]), []).append(float(str(row["change_percent"])))
    assert by_mark["run"] == [pytest.approx(-80.0), pytest.approx(-90.0), pytest.approx(-80.0)]
    assert by_mark["best of three runs"] == [pytest.approx(-95.0)]
    assert by_mark["stated"] == [-88.0]
    assert by_mark["mean"] == [pytest.approx(100 * (0.004 ** (1 / 3)) - 100)]


def test_levels_are_as_measured() -> None:
    numbers = {"network_mb_per_s_after": data().numbers[BYTES]}
    levels = replace(data(), numbers=numbers)
    chart = published_figures.chart(figure("network_levels"), {"metis/payload": levels})
    means = {row["variant"]: row["network_mb_per_s_after"] for row in chart.rows() if row["mark"] == "mean"}
    assert means == {"even": pytest.approx(40 / 3), "METIS": pytest.approx(7 / 3)}


@pytest.mark.parametrize("draw", ["network_change", "network_levels"])
@pytest.mark.parametrize("of_model", [False, True])
def test_of_a_model_there_is_no_interval(draw: str, of_model: bool) -> None:
    metric = "network_mb_per_s_after" if draw == "network_levels" else BYTES
    runs = tuple(replace(each, value=each.value + each.block / 10) for each in data().numbers[BYTES])
    given = replace(data(), numbers={metric: runs}, of_model=of_model)
    chart = published_figures.chart(figure(draw), {"metis/payload": given})
    assert ("low" in {column.name for column in chart.columns}) is not of_model
    means = [row for row in chart.rows() if row["mark"] == "mean"]
    assert means and all((row.get("low") is None) is of_model for row in means)


def swept(experiment: str, field: str, values: dict[str, dict[int, float]], metric: str) -> dict[str, SweepData]:
    """`values`: by variant and step of the field."""
    steps = tuple(values["even"])
    runs = tuple(
        SweepRun(place, (place - 1,), f"{variant}-r1", variant, "e1", metric, value, False, True)
        for variant, of in values.items() for place, value in enumerate(of.values(), 1)
    )  # fmt: skip
    axis = SweepAxis((field,), tuple((step,) for step in steps))
    return {experiment: SweepData(experiment, "t", "s", (axis,), len(steps), tuple(values), {"e1": "x"}, runs, ())}


def stated(chart: Chart, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in columns) for row in chart.rows() if str(row["mark"]).startswith("stated")]


def test_of_a_sweep_a_change_is_over_the_default_of_the_same_point_and_repetition() -> None:
    values = {"even": {10: 10.0, 20: 20.0}, "metis": {10: 5.0, 20: 4.0}}
    data = swept("metis/payload_machines", "machines.before", values, BYTES)
    changes = published_figures.changes(data["metis/payload_machines"], "e1", BYTES)
    assert [(run.variant, run.value) for run in changes] == [("metis", -50.0), ("metis", -80.0)]
    chart = published_figures.sweep_chart(figure("sweep_network_change", simulated=True), data)
    assert stated(chart, "variant", "mark", "value") == [("METIS", "stated", -33.75)] * 2
    empty = published_figures.sweep_chart(figure("sweep_network", simulated=True), {})
    assert empty.rows() == [] and "not simulated" in empty.panels[0].message


def test_what_is_stated_of_some_sizes_stands_there_and_a_bound_is_no_number() -> None:
    """MP figure 9: from 10 kB on METIS gives more than four times of what the default gives."""
    sizes = (112, 1024, 10240, 20480, 28672)
    values = {"even": dict.fromkeys(sizes, 10.0), "metis": dict.fromkeys(sizes, 20.0)}
    data = swept("metis/payload_size", "topology.parameters.size_bytes", values, EMITTED)
    panel = PublishedPanel("metis/payload_size", "Payload", "sweep_emitted_change", simulated=True)
    chart = published_figures.sweep_chart(PublishedFigure("MP", "Rate", "", (panel,)), data)
    more = ("METIS", "stated to be more than")
    assert stated(chart, "variant", "mark", "x", "value") == [(*more, size, 300.0) for size in sizes[2:]]


def test_what_the_paper_states_of_all_sizes_together_has_no_mark_at_one_of_them() -> None:
    numbers = {EMITTED: (*data().numbers[EMITTED], *(RunNumber(f"greedy-r{n}", "greedy", n, 90.0) for n in (1, 2, 3)))}
    given = replace(data(), variants=("even", "greedy", "metis"), numbers=numbers)
    chart = published_figures.chart(figure("emitted_change"), {"metis/payload": given})
    marks = stated(chart, "variant", "mark", "change_percent")
    assert marks == [("METIS", "stated to be more than", 0.0)]


@pytest.mark.parametrize("panels", [1, 3, 4, 5])
def test_a_figure_has_no_axes_without_a_panel(panels: int) -> None:
    several = replace(figure("network_change"), panels=figure("network_change").panels * panels)
    assert (
        renderer.draw(published_figures.chart(several, {"metis/payload": data()})).svg.count('<g id="axes_') == panels
    )
