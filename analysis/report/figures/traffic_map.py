"""Rates between tasks before and after an event: a cell a pair of tasks, ordered by machine, so that
traffic within a machine lies in the squares along the diagonal. A row of panels a variant, of one run each.
"""

import re
from dataclasses import dataclass
from itertools import groupby, product

import numpy as np
import numpy.typing as npt

from analysis.numerals import number
from analysis.report.figures import style
from analysis.report.figures.chart import Cells, Chart, ChartAxis, ChartPanel, Mark
from analysis.report.figures.points import Spot, point_columns
from analysis.report.figures.series_data import RunTraffic, SeriesData

MOST_TASKS = 400  # beyond that a cell is a pair of machines
MOST_MARKED = 20  # machines; with at most so many a mark gives the rate of each pair
PANEL_IN = 3.4
PHASES = ("before", "after")
COLUMNS = point_columns(
    "from_machine = from machine /word; to_machine = to machine /word; tuples_per_s = tuples (tuples/s)"
)
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrafficMap:
    """`cells[i, j]`: tuples/s from i to j; NaN without traffic. `machines`: by name, with the first and the last index
    of each."""

    cells: Matrix
    machines: tuple[tuple[str, int, int], ...]


def chart(data: SeriesData) -> Chart | None:
    """Return the chart; None if no run counted its traffic. A colour means the same rate in all panels."""
    variants = [variant for variant in data.variants if any(each.variant == variant for each in data.traffic)]
    if not variants:
        return None
    sides = {(traffic.variant, traffic.phase): (traffic, traffic_map(traffic)) for traffic in data.traffic}
    highest = max(float(np.nan_to_num(matrix.cells).max(initial=0.0)) for _, matrix in sides.values()) or 1.0
    colours = style.colours(data.variants)
    return Chart(
        "Tuples from task to task, by machine", COLUMNS,
        [_panel(*sides[side], highest, colours[side[0]]) if side in sides else ChartPanel(is_hidden=True)
         for side in product(variants, PHASES)],
        PANEL_IN * len(variants) + 0.9, len(PHASES), x_label="task that is sent to, by machine",
        y_label="task that sends, by machine", tells_panels=True, title_size=9,
    )  # fmt: skip


def traffic_map(traffic: RunTraffic) -> TrafficMap:
    """Order tasks by machine, port and number; with very many tasks a cell is a machine."""
    places_of = {task: slot.partition(":") for task, slot in traffic.slots.items()}
    tasks = sorted(places_of, key=lambda task: (by_number(places_of[task][0]), int(places_of[task][2] or 0), task))
    machine_of = {task: place[0] for task, place in places_of.items()}
    task_counts = [(name, len(list(members))) for name, members in groupby(tasks, key=machine_of.__getitem__)]
    by_machine = len(tasks) > MOST_TASKS
    sizes = [1 if by_machine else size for _, size in task_counts]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    machines = tuple((name, a, a + size - 1) for (name, _), a, size in zip(task_counts, starts, sizes, strict=True))
    first = {name: start for name, start, _ in machines}
    places = {task: first[machine_of[task]] if by_machine else place for place, task in enumerate(tasks)}
    cells = np.zeros((sum(sizes), sum(sizes)))
    for (one, other), rate in traffic.rates.items():
        if one in places and other in places:
            cells[places[one], places[other]] += rate
    return TrafficMap(np.where(cells > 0.0, cells, np.nan), machines)


def by_number(machine: str) -> tuple[str, int]:
    """Sort `m2` before `m10`."""
    digits = re.search(r"\d+$", machine)
    return machine.rstrip("0123456789"), int(digits.group()) if digits else 0


def _panel(traffic: RunTraffic, matrix: TrafficMap, most: float, colour: str) -> ChartPanel:
    name, share = style.display_name(traffic.variant), traffic.between_percent
    cells = Cells((), colour, name, values=matrix.cells, palette="viridis_r", highest=most,
                  words="tuples/s, in all panels alike", gid=f"map_{traffic.variant}_{traffic.phase}")  # fmt: skip
    is_marked = len(matrix.machines) <= MOST_MARKED
    spots = [
        Spot((left + right) / 2, (top + bottom) / 2,
             {"from_machine": source, "to_machine": target, "tuples_per_s": traffic.machines[source, target]},
             traffic.run_id)
        for (source, top, bottom), (target, left, right) in product(matrix.machines, repeat=2)
        if traffic.machines.get((source, target), 0.0) > 0.0  # its tasks may all have left a machine meanwhile
    ]  # fmt: skip
    ticks = {(first + last) / 2: machine if is_marked else "" for machine, first, last in matrix.machines}
    axis = ChartAxis(ticks=ticks, tick_size=7.5, has_grid=False)
    between = "" if share is None else f": {number(share, 1)} % between machines"
    return ChartPanel(
        [cells, Mark(spots, colour, name, traffic.phase)] if is_marked else [cells],
        f"{name}, {traffic.phase}{between}", axis, axis, title_colour=colour,
        borders=[first - 0.5 for _, first, _ in matrix.machines[1:]],
    )  # fmt: skip
