"""Tasks in the order of their machines, and what passes between these."""

import numpy as np

from analysis.report.figures import traffic_map
from analysis.report.figures.series_data import SeriesData, Traffic
from analysis.report.figures.traffic_map import MOST_TASKS

# Task 3 is on m2, the others on m10; 1 sends 6 to 2, which stays on m10, and 2 to 3; 3 sends 2 to 2.
HERE = {1: "m10:6701", 2: "m10:6700", 3: "m2:6700"}
RATES = {(1, 2): 6.0, (1, 3): 2.0, (3, 2): 2.0}


def test_tasks_stand_by_machine_and_port() -> None:
    found = traffic_map.traffic_map(Traffic("r", "metis", "before", RATES, HERE))
    assert found.machines == (("m2", 0, 0), ("m10", 1, 2))
    assert np.array_equal(np.nan_to_num(found.cells), [[0, 2, 0], [0, 0, 0], [2, 6, 0]])
    assert found.between == 0.4


def test_of_very_many_tasks_a_cell_is_a_pair_of_machines() -> None:
    slots = {task: f"m{1 + task % 3}:6700" for task in range(MOST_TASKS + 1)}
    found = traffic_map.traffic_map(Traffic("r", "metis", "before", {(0, 1): 5.0, (0, 3): 1.0, (3, 4): 2.0}, slots))
    assert found.machines == (("m1", 0, 0), ("m2", 1, 1), ("m3", 2, 2))
    assert np.array_equal(np.nan_to_num(found.cells), [[1, 7, 0], [0, 0, 0], [0, 0, 0]])
    assert found.between == 7 / 8


def test_before_and_after_stand_side_by_side_and_marks_say_how_much_passes() -> None:
    sides = tuple(Traffic("metis-r1", "metis", phase, RATES, slots) for phase, slots in
                  (("before", HERE), ("after", dict.fromkeys(HERE, "m2:6700"))))  # fmt: skip
    drawing = traffic_map.draw(SeriesData(("even", "metis"), (), (), (), (), (), traffic=sides))
    assert drawing is not None
    assert "METIS, before: 40.0 % between machines" in drawing.svg and "after: 0.0 % between machines" in drawing.svg
    rows = [(row["mark"], row["from_machine"], row["to_machine"], row["tuples_per_s"]) for row in drawing.rows()]
    assert rows == [
        ("before", "m2", "m10", 2.0), ("before", "m10", "m2", 2.0), ("before", "m10", "m10", 6.0),
        ("after", "m2", "m2", 10.0),
    ]  # fmt: skip
    assert traffic_map.draw(SeriesData(("even",), (), (), (), (), ())) is None
