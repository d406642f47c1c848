"""Data of the figures of a series, and what their charts show of it."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.record import small_tables
from analysis.record.event_timeline import EventMark
from analysis.record.files import SeriesPaths
from analysis.report.figures import renderer, series_charts, series_data, style, traffic_map
from analysis.report.figures.chart import Cells, Chart, Text
from analysis.report.figures.series_charts import FIGURES
from analysis.report.figures.series_data import (
    EventTime,
    GroupLoad,
    Level,
    RateLine,
    RunTraffic,
    SeriesData,
    collect,
    order_variants,
)
from analysis.report.figures.traffic_map import MOST_TASKS
from tests.support.series_by_hand import write_series
from topologies import catalogue


def line(run_id: str, *rates: float | None) -> RateLine:
    return RateLine(run_id, run_id.partition("-")[0], tuple(-10.0 + 10 * i for i in range(len(rates))), rates)


def data(variants: Sequence[str], marks: tuple[EventMark, ...]) -> SeriesData:
    runs = [(f"{variant}-r{n}", variant, n) for variant in variants for n in (1, 2)]
    lines = tuple(line(run_id, 100.0, 0.0, 150.0 + n) for run_id, _, n in runs)
    times = tuple(EventTime(*run[:2], 40.0, d == "st", "e1", d) for run in runs for d in ("sp", "st", "script"))
    levels = tuple(Level(*run[:2], 100.0, 150.0) for run in runs)
    downtimes = tuple(EventTime(*run[:2], 4.0) for run in runs)
    return SeriesData(order_variants(set(variants)), lines, lines[:1], times, (), levels, downtimes, marks)


def chart_of(figure: str, data: SeriesData) -> Chart:
    chart = FIGURES[figure].chart(data)
    assert chart is not None
    return chart


SCALE_IN = (EventMark(0.0, "e1", "scale_in", "scale in, −4 machines"),)


def test_median_needs_more_than_half_of_the_runs() -> None:
    lines = [line("a-r1", 1.0, 2.0, None), line("a-r2", 3.0, None, None), line("a-r3", 5.0, 4.0, 9.0)]
    assert series_charts.median_line(lines) == [(-10.0, 3.0), (0.0, 3.0)]


def test_colours_are_those_of_the_family_and_never_shared() -> None:
    eight = ["even_rebalance", "stela", "least_link_load", "a", "b", "c", "d", "e"]
    assert len(set(style.colours(eight).values())) == 8
    assert style.colours(["stela"])["stela"] == style.colours(eight)["stela"]
    both = style.colours(["recorded", "even_rebalance", "stela", "metis", "even"])  # of two families
    assert len(set(both.values())) == 5 and both["stela"] == style.FAMILY_COLOURS["stela"]


@pytest.mark.parametrize("variants", [["stela"], ["even_rebalance", "stela"], [f"v{i}" for i in range(8)]])
def test_every_figure_names_every_variant_and_has_a_value_in_each_column(variants: list[str]) -> None:
    for name, entry in FIGURES.items():
        if name in ("cpu", "groups", "traffic"):
            assert entry.chart(data(variants, SCALE_IN)) is None, "nothing was sampled"
            continue
        chart = chart_of(name, data(variants, SCALE_IN))
        named = {trace.name for _, _, trace in chart.traces() if trace.spots}
        assert {style.display_name(variant) for variant in variants} <= named, name
        told = {key for _, _, trace in chart.traces() for spot in trace.spots for key in spot.values}
        assert told == {column.name for column in chart.columns}, name


def test_a_group_has_a_line_in_each_variant_s_panel_with_the_median_of_its_runs() -> None:
    loads = tuple(
        GroupLoad(f"{variant}-r{n}", variant, group, window_s, machines, n * share)
        for variant in ("none", "dodo") for n in (1, 2, 3)
        for group, window_s, machines, share in (("small", 0.0, 1, 0.3), ("small", 10.0, 1, 0.1), ("work", 0.0, 6, 0.2))
    )  # fmt: skip
    chart = chart_of("groups", replace(data(["none", "dodo"], SCALE_IN), groups=loads))
    assert [panel.title for panel in chart.panels] == ["dodo", "none"]
    assert {
        (trace.panel, trace.name): [(spot.x, round(spot.y, 6), spot.values["machines"]) for spot in trace.spots]
        for _, _, trace in chart.traces()
    } == {
        (variant, group): spots
        for variant in ("none", "dodo")
        for group, spots in (("small", [(5.0, 60.0, 1), (15.0, 20.0, 1)]), ("work", [(5.0, 40.0, 6)]))
    }


def test_downtime_is_drawn_where_machines_leave_or_die_only() -> None:
    out = (EventMark(0.0, "e1", "scale_out", "scale out, +1 machine"),)
    assert FIGURES["downtime"].chart(data(["stela"], out)) is None
    chart = chart_of("downtime", data(["stela"], SCALE_IN))
    assert [panel.title for panel in chart.panels] == ["scale in, −4 machines"]


@pytest.mark.parametrize(
    ("figure", "runs", "middle", "label"),
    [
        ("downtime", ((12.0, False), (199.0, True), (199.0, True)), (199.0, True), "> 199 s"),
        ("downtime", ((12.0, False), (14.0, False), (199.0, True)), (14.0, False), "14 s"),
        # A horizon of 50 s says nothing of 60 and 80.
        ("convergence", ((60.0, False), (80.0, False), (50.0, True)), (70.0, False), "70 s"),
        ("convergence", ((60.0, False), (600.0, True), (590.0, True)), (600.0, True), "> 600 s"),
    ],
)
def test_a_time_that_the_watch_ended_is_no_value(
    figure: str, runs: tuple[tuple[float, bool], ...], middle: tuple[float, bool], label: str
) -> None:
    definition = "sp" if figure == "convergence" else ""
    times = tuple(EventTime(f"stela-r{n}", "stela", *each, "e1", definition) for n, each in enumerate(runs))
    base = data(["stela"], SCALE_IN)
    chart = chart_of(figure, replace(base, **{"times" if definition else "downtimes": times}))
    spots = {trace.mark: [(spot.values[f"{figure}_s"], spot.values["censored"], spot.is_bound) for spot in trace.spots]
             for panel, _, trace in chart.traces() if panel == 0}  # fmt: skip
    assert spots == {"run": [(*run, run[1]) for run in runs], "median (Kaplan-Meier)": [(*middle, middle[1])]}
    assert [mark.texts for mark in chart.panels[0].marks if isinstance(mark, Text)] == [[label]]


def test_what_lasts_to_the_end_of_the_watch_is_censored(tmp_path: Path) -> None:
    paths = SeriesPaths(tmp_path)
    runs = ["stela-r1", "stela-r2"]
    small_tables.write(paths, "runs", [{"run_id": run, "variant": "stela", "status": "complete"} for run in runs])
    small_tables.write(paths, "zeros", [{"run_id": run, "scaled": True} for run in runs])
    small_tables.write(paths, "downtime", [
        {"run_id": run, "event_id": "e1", "downtime_s": 199.0, "lasts": lasts}
        for run, lasts in zip(runs, (True, False), strict=True)
    ])  # fmt: skip
    assert [(down.seconds, down.censored) for down in collect(paths).downtimes] == [(199.0, True), (199.0, False)]


def test_each_event_has_its_own_convergence_panels() -> None:
    base = data(["stela"], (*SCALE_IN, EventMark(90.0, "e2", "crash", "m3 crashes")))
    times = (*base.times, EventTime("stela-r1", "stela", 20.0, False, "e2", "sp"))
    chart = chart_of("convergence", replace(base, times=times))
    assert len(chart.panels) == 6 and {row["event"] for row in chart.rows()} == {"scale in, −4 machines", "m3 crashes"}


def test_a_long_axis_is_in_hours_and_what_is_drawn_stays_in_seconds() -> None:
    two_days = RateLine("stela-r1", "stela", tuple(600.0 * i for i in range(289)), (100.0,) * 289)
    chart = chart_of("throughput", replace(data(["stela"], SCALE_IN), totals=(two_days,), due=()))
    axis = chart.panels[0].x
    assert axis.label.endswith("the request (h)") and axis.ticks is not None and axis.ticks[48 * 3600.0] == "48"
    assert max(float(str(row["time_s"])) for row in chart.rows()) > 1e5
    assert chart_of("throughput", data(["stela"], SCALE_IN)).panels[0].x.label.endswith("(s)")


def test_a_topology_has_its_own_events_and_the_axis_of_the_run() -> None:
    marks = (
        EventMark(0.0, "e1", "rate", "rate of star × 2", "star"),
        EventMark(120.0, "e2", "scale_out", "scale out, +1 machine"),
    )
    other = replace(data(["stela"], marks), topology="other", axis_s=(-60.0, 240.0))
    chart = chart_of("throughput", other)
    assert [row["event"] for row in chart.rows() if row["mark"] == "event"] == ["scale out, +1 machine"]
    assert (chart.panels[0].x.low, chart.panels[0].x.high) == (-60.0, 240.0)
    assert other.label("e1") == "rate of star × 2"


def test_many_variants_have_a_panel_each_with_its_events_and_the_first_ones_line() -> None:
    chart = chart_of("throughput", data([f"v{i}" for i in range(8)], SCALE_IN))
    assert len(chart.panels) == 8 and sum(row["mark"] == "event" for row in chart.rows()) == 8
    assert [spot.y for spot in chart.panels[5].marks[0].spots] == [100.0, 0.0, 151.5]
    assert len({panel.y.high for panel in chart.panels}) == 1


def test_of_spouts_that_are_not_throttled_nothing_is_offered(tmp_path: Path) -> None:
    """The record has what they emitted as what was due."""
    root = write_series(tmp_path / "s", "metis/payload", {"even": 100.0})
    paths = SeriesPaths(root)
    assert len(collect(paths).due) == 3
    (paths.run("even-r2").root / "topology.yaml").write_text(catalogue.render("payload", {"unthrottled": True}))
    (paths.run("even-r3").root / "topology.yaml").write_text(catalogue.render("payload", {}))
    found = collect(paths)
    assert [line.run_id for line in found.due] == ["even-r1", "even-r3"] and len(found.totals) == 3


# Traffic from task to task.

# Task 3 is on m2, the others on m10; 1 sends 6 to 2, which stays on m10, and 2 to 3; 3 sends 2 to 2.
HERE = {1: "m10:6701", 2: "m10:6700", 3: "m2:6700"}
RATES = {(1, 2): 6.0, (1, 3): 2.0, (3, 2): 2.0}
MACHINES = {("m10", "m10"): 6.0, ("m10", "m2"): 2.0, ("m2", "m10"): 2.0}


def test_tasks_stand_by_machine_and_port() -> None:
    found = traffic_map.traffic_map(RunTraffic("r", "metis", "before", RATES, HERE, MACHINES))
    assert found.machines == (("m2", 0, 0), ("m10", 1, 2))
    assert np.array_equal(np.nan_to_num(found.cells), [[0, 2, 0], [0, 0, 0], [2, 6, 0]])


def test_of_very_many_tasks_a_cell_is_a_pair_of_machines() -> None:
    slots = {task: f"m{1 + task % 3}:6700" for task in range(MOST_TASKS + 1)}
    rates = {(0, 1): 5.0, (0, 3): 1.0, (3, 4): 2.0}
    found = traffic_map.traffic_map(RunTraffic("r", "metis", "before", rates, slots, {}))
    assert found.machines == (("m1", 0, 0), ("m2", 1, 1), ("m3", 2, 2))
    assert np.array_equal(np.nan_to_num(found.cells), [[1, 7, 0], [0, 0, 0], [0, 0, 0]])


def test_before_and_after_stand_side_by_side_and_marks_say_how_much_passes() -> None:
    sides = tuple(RunTraffic("metis-r1", "metis", phase, RATES, slots, machines) for phase, slots, machines in
                  (("before", HERE, MACHINES),
                   ("after", dict.fromkeys(HERE, "m2:6700"), {("m2", "m2"): 10.0})))  # fmt: skip
    chart = traffic_map.chart(SeriesData(("even", "metis"), (), (), (), (), (), traffic=sides))
    assert chart is not None
    assert ["40.0 %" in panel.title for panel in chart.panels] == [True, False]
    rows = [(row["mark"], row["from_machine"], row["to_machine"], row["tuples_per_s"]) for row in chart.rows()]
    assert rows == [
        ("before", "m2", "m10", 2.0), ("before", "m10", "m2", 2.0), ("before", "m10", "m10", 6.0),
        ("after", "m2", "m2", 10.0),
    ]  # fmt: skip
    assert traffic_map.chart(SeriesData(("even",), (), (), (), (), ())) is None


def test_the_share_is_the_metrics_where_a_task_moved_meanwhile_or_nobody_knows_where_a_tuple_went() -> None:
    """Task 2 was on m1 as 30 came from 1, then on m2 as 10 came: 10 of 40 crossed. Where 60 to 3 went nobody knows. The
    map has task 2 where it was busier."""
    rows = [row(2, 10.0, "m2:6700"), row(2, 30.0, "m1:6701"), row(3, 60.0, None)]
    traffic = series_data.run_traffic("r", "metis", "before", rows)
    assert traffic.between_percent == 25.0
    assert (traffic.slots, traffic.rates) == ({1: "m1:6700", 2: "m1:6701"}, {(1, 2): 40.0, (1, 3): 60.0})
    unknown = RunTraffic("r", "metis", "before", {(1, 3): 60.0}, {1: "m1:6700"}, {})
    assert unknown.between_percent is None


def row(to: int, rate: float, to_slot: str | None) -> dict[str, Any]:
    """From task 1 on m1."""
    to_machine = to_slot and to_slot.partition(":")[0]
    return {"from": 1, "to": to, "from_slot": "m1:6700", "from_machine": "m1", "to_slot": to_slot,
            "to_machine": to_machine, "tuples_per_s": rate}  # fmt: skip


def test_a_colour_is_the_same_rate_in_every_panel_and_maps_have_ids_of_their_own() -> None:
    sides = tuple(
        RunTraffic(f"{variant}-r1", variant, phase, {(1, 2): rate}, HERE, {})
        for variant, phase, rate in (("even", "before", 6.0), ("even", "after", 10.0), ("metis", "before", 10.0))
    )
    chart = traffic_map.chart(SeriesData(("even", "metis"), (), (), (), (), (), traffic=sides))
    assert chart is not None
    assert [mark.highest for panel in chart.panels for mark in panel.marks if isinstance(mark, Cells)] == [10.0] * 3
    assert [panel.is_hidden for panel in chart.panels] == [False, False, False, True]
    identifiers = re.findall(r'\bid="([^"]+)"', renderer.draw(chart).svg)
    assert len(identifiers) == len(set(identifiers)) and "map_metis_before" in identifiers
