"""CPU of each machine before the first event and after the last: median over seconds, 10th to 90th percentile."""

import re
from statistics import median

from analysis.report.figures import style
from analysis.report.figures.chart import Chart, ChartAxis, ChartPanel, categories
from analysis.report.figures.marks import Dot, Mark, Stroke, Whisker
from analysis.report.figures.points import PointColumn, Row, Spot
from analysis.report.figures.series_data import MachineUtilisation, SeriesData

ABREAST = 2  # nine machines and the master have room for their names, …
MANY_MACHINES = 9  # … though in a smaller font
OFFSETS = {"before": -0.16, "after": 0.16}
COLUMNS = (
    PointColumn("machine", "machine", kind="word"),
    PointColumn("phase", "phase", kind="word"),
    PointColumn("cpu_p50_percent", "CPU, median", "% of its share"),
    PointColumn("cpu_p10_percent", "10th percentile", "%"),
    PointColumn("cpu_p90_percent", "90th percentile", "%"),
)


def chart(data: SeriesData) -> Chart | None:
    loads = sorted(
        (load for load in data.loads if load.p50 is not None and not (load.left and load.phase == "after")),
        key=lambda load: load.run_id,
    )
    if not loads:
        return None
    machines = sorted({load.machine for load in loads}, key=_by_number)
    joiners = {load.machine for load in loads if load.joined}
    rows = -(-len(data.variants) // ABREAST)
    top = max(112.0, 117.0 * max(load.p90 or 0.0 for load in loads))  # room for the legend
    panels = []
    for variant in data.variants:
        samples = [load for load in loads if load.variant == variant]
        colour = style.colours(data.variants)[variant]
        names = [_machine_label(machine, machine in joiners, samples) for machine in machines]
        title = style.display_name(variant)
        marks = [mark for phase in OFFSETS for mark in _phase(samples, phase, machines, title, colour)]
        x = categories(names, tick_size=8.5 if len(machines) < MANY_MACHINES else 7.5)
        panels.append(ChartPanel(marks, title, x, ChartAxis(low=0.0, high=top), title_colour=colour))
    return Chart(
        "CPU utilisation of every machine before and after the scale event", COLUMNS, panels,
        (2.5 if rows < 3 else 1.7) * rows + 0.4, min(ABREAST, len(panels)), shares="y",
        y_label="CPU (% of the machine's share)", legend="panel", has_bold_titles=True,
    )  # fmt: skip


def _machine_label(machine: str, joined: bool, loads: list[MachineUtilisation]) -> str:
    """Return the machine's name and whether it joined or left; if it left only in some runs, in how many."""
    departures = {load.run_id: load.left for load in loads if load.machine == machine}
    times = sum(departures.values())
    if times:
        return f"{machine}\n(left)" if times == len(departures) else f"{machine}\n(left,\n{times} of {len(departures)})"
    return f"{machine}\n(joins)" if joined else machine


def _phase(loads: list[MachineUtilisation], phase: str, machines: list[str], name: str, colour: str) -> list[Mark]:
    """Return every run, machine by machine, and a short stroke at the median over the repetitions."""
    spots, intervals, medians = [], [], []
    for position, machine in enumerate(machines):
        offset, values = position + OFFSETS[phase], []
        for load in (load for load in loads if (load.machine, load.phase) == (machine, phase)):
            low, middle, high = (100.0 * (value or 0.0) for value in (load.p10, load.p50, load.p90))
            row: Row = {"machine": machine, "phase": phase, "cpu_p50_percent": middle}
            spots.append(Spot(offset, middle, row | {"cpu_p10_percent": low, "cpu_p90_percent": high}, load.run_id))
            intervals.append(Spot(offset, low, end=high))
            values.append(middle)
        if values:
            row = {"machine": machine, "phase": phase, "cpu_p50_percent": median(values)}
            medians.append(Spot(offset, median(values), row))
    shade = colour if phase == "after" else style.GREY
    return [
        Whisker(intervals, shade, width=4, alpha=0.22),
        Dot(spots, shade, size=4, is_hollow=phase == "before", label=phase),
        Stroke(medians, shade, half=0.13, width=1.6),
        Mark(spots, colour, name, "run"),
        Mark(medians, colour, name, "median"),
    ]


def _by_number(machine: str) -> tuple[str, int]:
    number = re.search(r"\d+$", machine)
    return machine.rstrip("0123456789"), int(number.group()) if number else 0
