"""Tasks in the order of their machines, and what passes between these."""

import re
from typing import Any

import numpy as np

from analysis.report.figures import renderer, series_data, traffic_map
from analysis.report.figures.marks import Cells
from analysis.report.figures.series_data import RunTraffic, SeriesData
from analysis.report.figures.traffic_map import MOST_TASKS

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


def test_maps_that_look_alike_have_ids_of_their_own() -> None:
    sides = tuple(
        RunTraffic("r", variant, phase, RATES, HERE, MACHINES)
        for variant in ("even", "metis")
        for phase in ("before", "after")
    )
    chart = traffic_map.chart(SeriesData(("even", "metis"), (), (), (), (), (), traffic=sides))
    assert chart is not None
    identifiers = re.findall(r'\bid="([^"]+)"', renderer.draw(chart).svg)
    assert len(identifiers) == len(set(identifiers)) and "map_metis_after" in identifiers


def test_the_share_is_the_metrics_where_a_task_moved_meanwhile_or_nobody_knows_where_a_tuple_went() -> None:
    """Task 2 was on m1 as 30 came from 1, then on m2 as 10 came: 10 of 40 crossed. Where 60 to 3 went nobody knows. The
    map has task 2 where it was busier."""
    rows = [row(2, 10.0, "m2:6700"), row(2, 30.0, "m1:6701"), row(3, 60.0, None)]
    rates, slots = series_data._pairs(rows)
    machines = series_data._machine_pairs(rows)
    traffic = RunTraffic("r", "metis", "before", rates, slots, machines)
    assert traffic.between_percent == 25.0
    assert (slots, rates) == ({1: "m1:6700", 2: "m1:6701"}, {(1, 2): 40.0, (1, 3): 60.0})
    unknown = RunTraffic("r", "metis", "before", {(1, 3): 60.0}, {1: "m1:6700"}, {})
    assert unknown.between_percent is None


def row(to: int, rate: float, to_slot: str | None) -> dict[str, Any]:
    """From task 1 on m1."""
    to_machine = to_slot and to_slot.partition(":")[0]
    return {"from": 1, "to": to, "from_slot": "m1:6700", "from_machine": "m1", "to_slot": to_slot,
            "to_machine": to_machine, "tuples_per_s": rate}  # fmt: skip


def test_a_colour_is_the_same_rate_in_every_panel() -> None:
    sides = tuple(
        RunTraffic(f"{variant}-r1", variant, phase, {(1, 2): rate}, HERE, {})
        for variant, phase, rate in (("even", "before", 6.0), ("even", "after", 10.0), ("metis", "before", 2.0))
    )
    data = SeriesData(("even", "metis"), (), (), (), (), (), traffic=sides)
    chart = traffic_map.chart(data)
    assert chart is not None
    assert [mark.highest for panel in chart.panels for mark in panel.marks if isinstance(mark, Cells)] == [10.0] * 3
    assert [panel.is_hidden for panel in chart.panels] == [False, False, False, True]
