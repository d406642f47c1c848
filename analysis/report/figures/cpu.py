"""CPU of each machine before the first event and after the last: median over seconds, 10th to 90th percentile."""

from __future__ import annotations

import re
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from analysis.report.figures import points, style
from analysis.report.figures.points import Column, Drawing, Spot
from analysis.report.figures.series_data import Load, SeriesData

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ABREAST = 2  # nine machines and the master have room for their names, …
MANY_MACHINES = 9  # … though smaller ones
OFFSETS = {"before": -0.16, "after": 0.16}
COLUMNS = (
    Column("machine", "machine", kind="word"),
    Column("phase", "phase", kind="word"),
    Column("cpu_p50_percent", "CPU, median", "% of its share"),
    Column("cpu_p10_percent", "10th percentile", "%"),
    Column("cpu_p90_percent", "90th percentile", "%"),
)


def draw(data: SeriesData) -> Drawing | None:
    loads = [load for load in data.loads if load.p50 is not None and not (load.left and load.phase == "after")]
    if not loads:
        return None
    machines = sorted({load.machine for load in loads}, key=_by_number)
    joined = {load.machine for load in loads if load.joined}
    columns = min(ABREAST, len(data.variants))
    rows = ceil(len(data.variants) / columns)
    with style.canvas((2.5 if rows < 3 else 1.7) * rows + 0.4, columns, rows, sharey=True) as (figure, panels):
        for axes, variant in zip(panels, data.variants, strict=False):
            loads_of_variant = [load for load in loads if load.variant == variant]
            _draw_panel(axes, loads_of_variant, machines, variant, data)
            axes.set_xticks(
                range(len(machines)),
                [_machine_label(machine, machine in joined, loads_of_variant) for machine in machines],
                fontsize=8.5 if len(machines) < MANY_MACHINES else 7.5,
            )
        for axes in panels[len(data.variants) :]:
            axes.set_visible(False)
        figure.supylabel("CPU (% of the machine's share)", fontsize=9)
        panels[0].set_ylim(0, max(112.0, 117.0 * max(load.p90 or 0.0 for load in loads)))  # room for the legend
        panels[0].set_yticks(range(0, 101, 20))
        return style.drawing(figure, "CPU utilisation of every machine before and after the scale event", COLUMNS)


def _machine_label(machine: str, joined: bool, loads: list[Load]) -> str:
    """With what happened to it; where it left in a part of the runs only, in how many."""
    departures = {load.run_id: load.left for load in loads if load.machine == machine}
    times = sum(departures.values())
    if times:
        return f"{machine}\n(left)" if times == len(departures) else f"{machine}\n(left,\n{times} of {len(departures)})"
    return f"{machine}\n(joins)" if joined else machine


def _draw_panel(axes: Axes, loads: list[Load], machines: list[str], variant: str, data: SeriesData) -> None:
    colour = style.colours(data.variants)[variant]
    labelled: set[str] = set()
    for load in sorted(loads, key=lambda load: load.phase != "before"):
        at = machines.index(load.machine) + OFFSETS[load.phase]
        shade = colour if load.phase == "after" else style.GREY
        low, mid, high = _percents(load)
        axes.plot([at, at], [low, high], color=shade, lw=4, alpha=0.22, solid_capstyle="butt")
        axes.plot(at, mid, marker="o", ms=4, ls="", color=shade, mfc="white" if load.phase == "before" else shade,
                  label=load.phase if load.phase not in labelled else None)  # fmt: skip
        labelled.add(load.phase)
    for phase in OFFSETS:
        loads_of_phase = [load for load in loads if load.phase == phase]
        _add_run_points(axes, loads_of_phase, machines, colour)
        _draw_medians(axes, loads_of_phase, machines, colour)
    axes.set_title(style.display_name(variant), loc="left", color=colour, fontweight="bold")
    axes.legend(loc="upper left", frameon=False, ncols=2, handletextpad=0.2, fontsize=8.5)
    axes.set_xlim(-0.6, len(machines) - 0.4)
    axes.grid(axis="x", visible=False)


def _percents(load: Load) -> tuple[float, float, float]:
    low, middle, high = (100.0 * (value or 0.0) for value in (load.p10, load.p50, load.p90))
    return low, middle, high


def _add_run_points(axes: Axes, loads: list[Load], machines: list[str], colour: str) -> None:
    """Machine by machine, as the eye goes along the axis."""
    spots = []
    for load in sorted(loads, key=lambda load: (machines.index(load.machine), load.run_id)):
        low, middle, high = _percents(load)
        values = _values(load.machine, load.phase, middle) | {"cpu_p10_percent": low, "cpu_p90_percent": high}
        spots.append(Spot(machines.index(load.machine) + OFFSETS[load.phase], middle, values, load.run_id))
    if loads:
        points.add_points(axes, style.display_name(loads[0].variant), "run", colour, spots)


def _values(machine: str, phase: str, middle: float) -> dict[str, points.Value]:
    return {"machine": machine, "phase": phase, "cpu_p50_percent": middle}


def _draw_medians(axes: Axes, loads: list[Load], machines: list[str], colour: str) -> None:
    """A short stroke at the median over the repetitions."""
    spots = []
    for position, machine in enumerate(machines):
        values = [100.0 * load.p50 for load in loads if load.machine == machine and load.p50 is not None]
        if values:
            phase = loads[0].phase
            at = position + OFFSETS[phase]
            shade = colour if phase == "after" else style.GREY
            middle = median(values)
            axes.plot([at - 0.13, at + 0.13], [middle] * 2, color=shade, lw=1.6)
            spots.append(Spot(at + 0.13, middle, _values(machine, phase, middle)))
    if loads:
        points.add_points(axes, style.display_name(loads[0].variant), "median", colour, spots)


def _by_number(machine: str) -> tuple[str, int]:
    number = re.search(r"\d+$", machine)
    return machine.rstrip("0123456789"), int(number.group()) if number else 0
