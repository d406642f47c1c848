"""Who sends to whom, before and after an event: a cell a pair of tasks, which stand in the order of their machines, so
that what stays in a machine lies in the squares along the diagonal. A row of panels a variant, of one run each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from analysis.numerals import number
from analysis.report.figures import points, style
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.series_data import SeriesData, Traffic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


MOST_TASKS = 400  # beyond that a cell is a pair of machines
MOST_MARKED = 20  # machines, for each pair of which a mark says how much passes
PANEL_IN = 3.4
PHASES = ("before", "after")
COLUMNS = (
    Column("from_machine", "from machine", kind="word"),
    Column("to_machine", "to machine", kind="word"),
    Column("tuples_per_s", "tuples", "tuples/s"),
)
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrafficMap:
    """`cells[i, j]`: tuples/s from i to j; NaN where nothing passed. `machines`: by name, with the first and the last
    place of each."""

    cells: Matrix
    machines: tuple[tuple[str, int, int], ...]


def draw(data: SeriesData) -> Drawing | None:
    """None where no run counted its traffic."""
    rows = len(_variants(data))
    if not rows:
        return None
    with style.canvas(PANEL_IN * rows + 0.9, len(PHASES), rows) as (figure, axes_of):
        images = draw_panels(axes_of, data)
        if images:
            bar = figure.colorbar(images[0], ax=list(axes_of), location="top", shrink=0.5, aspect=50)
            bar.set_label("tuples/s, in all panels alike", fontsize=8)
            bar.ax.tick_params(labelsize=7.5)
        figure.supxlabel("task that is sent to, by machine", fontsize=9)
        figure.supylabel("task that sends, by machine", fontsize=9)
        return style.drawing(figure, "Tuples from task to task, by machine", COLUMNS, panels=True)


def _variants(data: SeriesData) -> list[str]:
    return [variant for variant in data.variants if any(each.variant == variant for each in data.traffic)]


def draw_panels(axes_of: Sequence[Axes], data: SeriesData) -> list[AxesImage]:
    """A colour means the same rate in all of them."""
    sides = {(traffic.variant, traffic.phase): (traffic, traffic_map(traffic)) for traffic in data.traffic}
    most = max((float(np.nan_to_num(found.cells).max(initial=0.0)) for _, found in sides.values()), default=0.0)
    colours = style.colours(data.variants)
    images: list[AxesImage] = []
    for axes, (variant, phase) in zip(axes_of, product(_variants(data), PHASES), strict=True):
        if (variant, phase) in sides:
            images.append(_draw_panel(axes, *sides[variant, phase], most or 1.0, colours[variant]))
        else:
            axes.set_visible(False)
    return images


def traffic_map(traffic: Traffic) -> TrafficMap:
    """Tasks in the order of machine, port and number; of very many tasks a place is a machine."""
    tasks = sorted(traffic.slots, key=lambda task: (_slot_order(traffic.slots[task]), task))
    machine_of = {task: traffic.slots[task].partition(":")[0] for task in tasks}
    grouped = [(name, len(list(of))) for name, of in groupby(tasks, key=machine_of.__getitem__)]
    by_machine = len(tasks) > MOST_TASKS
    sizes = [1 if by_machine else size for _, size in grouped]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    machines = tuple((name, a, a + size - 1) for (name, _), a, size in zip(grouped, starts, sizes, strict=True))
    first = {name: start for name, start, _ in machines}
    places = {task: first[machine_of[task]] if by_machine else place for place, task in enumerate(tasks)}
    cells = np.zeros((sum(sizes), sum(sizes)))
    for (one, other), rate in traffic.rates.items():
        if one in places and other in places:
            cells[places[one], places[other]] += rate
    return TrafficMap(np.where(cells > 0.0, cells, np.nan), machines)


def _slot_order(slot: str) -> tuple[str, int, int]:
    """`m2:6700` before `m10:6700`."""
    machine, _, port = slot.partition(":")
    digits = re.search(r"\d+$", machine)
    return machine.rstrip("0123456789"), int(digits.group()) if digits else 0, int(port or 0)


def _draw_panel(axes: Axes, traffic: Traffic, found: TrafficMap, most: float, colour: str) -> AxesImage:
    image = axes.imshow(found.cells, cmap="viridis_r", interpolation="nearest", vmin=0.0, vmax=most)
    image.set_gid(f"map_{traffic.variant}_{traffic.phase}")  # two maps may look alike, and an id is one's alone
    for _, first, _ in found.machines[1:]:
        axes.axvline(first - 0.5, color=style.FAINT, lw=0.6)
        axes.axhline(first - 0.5, color=style.FAINT, lw=0.6)
    middles = [(first + last) / 2 for _, first, last in found.machines]
    names = [name for name, _, _ in found.machines] if len(middles) <= MOST_MARKED else [""] * len(middles)
    axes.set_xticks(middles, names, fontsize=7.5)
    axes.set_yticks(middles, names, fontsize=7.5)
    axes.grid(visible=False)
    share = traffic.between_percent
    between = "" if share is None else f": {number(share, 1)} % between machines"
    axes.set_title(f"{style.display_name(traffic.variant)}, {traffic.phase}{between}", loc="left", color=colour,
                   fontsize=9)  # fmt: skip
    if len(found.machines) <= MOST_MARKED:
        points.add_points(axes, style.display_name(traffic.variant), traffic.phase, colour, _spots(found, traffic))
    return image


def _spots(found: TrafficMap, traffic: Traffic) -> Sequence[Spot]:
    """One for each pair of machines between which anything passed, as tuples went; a machine that all its tasks left in
    the meantime has no place."""
    spots = []
    for source, top, bottom in found.machines:
        for target, left, right in found.machines:
            rate = traffic.machines.get((source, target), 0.0)
            if rate > 0.0:
                values: dict[str, points.Value] = {
                    "from_machine": source, "to_machine": target, "tuples_per_s": rate,
                }  # fmt: skip
                spots.append(Spot((left + right) / 2, (top + bottom) / 2, values, traffic.run_id))
    return spots
