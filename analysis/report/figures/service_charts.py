"""Service levels of a series: utility over time, how much of the time which share was attained, and a map of all
topologies. Sources: Henge's figures 13 to 20 (HP 7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from analysis.record.event_timeline import WHOLE_RUN
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row, by_run, cluster, rows, topologies
from analysis.report.figures import series_data, style
from analysis.report.figures.chart import (
    Band,
    Cells,
    Chart,
    ChartAxis,
    ChartPanel,
    Dot,
    End,
    LineMark,
    Mark,
    events,
    time_axis,
)
from analysis.report.figures.points import Spot, point_columns
from analysis.report.figures.renderer import page_figure
from analysis.report.figures.series_data import SeriesData
from analysis.report.page import Figure
from barograph.plan.experiment import WHOLE_CLUSTER

MAP_ABREAST = 2
MOST_NAMES = 50  # of topologies at the side of a map
ACTIONS = {"reconfigure": "^", "reduce": "v", "revert": "<"}  # kinds with a marker of their own; others: a square
UTILITY_COLUMNS = point_columns(
    "time_s = time (s); attained_percent = attained (%); runs; event /word; action /word; topology /word"
)
SHARE_COLUMNS = point_columns("attained_percent = attained (%); windows_percent = windows with at most that (%)")
UTILITY_CAPTION = (
    "Utility, of the largest possible sum, in parts of {part_s:.0f} s from the first event on. Bold lines are medians "
    "over the runs of a variant, bands the smallest to the largest run. A window in which something was due and "
    "nothing came counts as 0. Marks below are the actions of each variant's first run: triangles reconfigurations, "
    "upside down reductions, to the left reversions, squares the others."
)
SHARES_CAPTION = (
    "How much of the time (of 10 s windows{pooled}, from when a policy may first act) at most which share of its "
    "service level was attained; lines are medians over the runs of a variant. A variant whose line lies lower and "
    "further to the right serves more. Every 2.5 % of the windows has a point."
)
MAP_CAPTION = (
    "Attained share of each topology's service level over time, in the first run of each variant that counts: a row a "
    "topology in the order of the plan, white where nothing was due or nobody reported."
)


@dataclass(frozen=True)
class ServiceData:
    """Rows of `attained_over_time` and of the whole run in `attainment` (the cluster's, or the only topology's), of the
    runs that count; `parts` and `actions`: of each topology in one run of each variant."""

    series: SeriesData
    variants: Mapping[str, str]  # run → variant
    curves: Sequence[Row]
    attained: Sequence[Row]
    parts: Mapping[str, Sequence[Row]]  # variant → rows
    topologies: Sequence[str]
    actions: Mapping[str, Sequence[Row]]  # variant → rows of `actions` as a whole, `t_s` as on the other axes

    @property
    def part_s(self) -> float:
        return float(self.curves[0]["part_s"])


def collect(paths: SeriesPaths) -> ServiceData | None:
    """Return the data; None if no topology has a service level."""
    complete = {row["run_id"]: row["variant"] for row in rows(paths, "runs") if row["status"] == "complete"}
    whole, first = cluster(paths), {variant: run_id for run_id, variant in sorted(complete.items(), reverse=True)}
    runs = list(complete)
    curves = rows(paths, "attained_over_time", runs=runs, topology=whole) if runs else []
    if not curves:
        return None
    attained = [row for row in rows(paths, "attainment", runs=runs, topology=whole) if row["event_id"] == WHOLE_RUN]
    of_first = rows(paths, "attained_over_time", runs=list(first.values())) if whole else []
    parts = {complete[run_id]: each for run_id, each in by_run(of_first).items()}
    levelled = {row["topology"] for row in of_first}
    names = [name for name in topologies(paths) if name in levelled and name != WHOLE_CLUSTER]
    zeros = {row["run_id"]: row["zero_s"] for row in rows(paths, "zeros", runs=runs, topology=whole)}
    actions: dict[str, list[Row]] = {}
    for row in rows(paths, "actions", runs=list(first.values())):
        if not row["component"] and row["topology"] != WHOLE_CLUSTER and row["run_id"] in zeros:
            of_variant = actions.setdefault(complete[row["run_id"]], [])
            of_variant.append({**row, "t_s": row["t_s"] - zeros[row["run_id"]]})
    return ServiceData(series_data.collect(paths, whole), complete, curves, attained, parts, names, actions)


def utility_chart(data: ServiceData) -> Chart:
    marks: list[Mark] = []
    ends: list[End] = []
    lanes = [variant for variant in data.series.variants if data.actions.get(variant)]
    for variant, colour in style.colours(data.series.variants).items():
        by_begin: dict[float, list[float]] = {}
        of_variant = [row for row in data.curves if data.variants[row["run_id"]] == variant]
        for row in of_variant:
            if row["share"] is not None:
                by_begin.setdefault(row["begin_s"] + data.part_s / 2, []).append(100.0 * row["share"])
        number = len({row["run_id"] for row in of_variant})
        shares = {at_s: each for at_s, each in sorted(by_begin.items()) if 2 * len(each) > number}
        if not shares:
            continue
        name = style.display_name(variant)
        line = [
            Spot(at_s, median(each), {"time_s": at_s, "attained_percent": median(each), "runs": len(each)})
            for at_s, each in shares.items()
        ]
        if number > 1:
            marks.append(Band([Spot(at_s, min(each), end=max(each)) for at_s, each in shares.items()], colour))
        marks.append(LineMark(line, colour, name, "median", width=1.6))
        ends.append(End(name, colour, line[-1].y))
        for kind in sorted({str(row["kind"]) for row in data.actions.get(variant, ())}):
            y = -4.0 - 5.0 * lanes.index(variant)
            spots = [
                Spot(row["t_s"], y, {"time_s": row["t_s"], "action": kind, "topology": row["topology"]}, row["run_id"])
                for row in data.actions[variant] if str(row["kind"]) == kind
            ]  # fmt: skip
            marks.append(Dot(spots, colour, name, "action", marker=ACTIONS.get(kind, "s"), size=4))
    marks.append(events(data.series.own_marks))
    ticks = {float(percent): str(percent) for percent in range(0, 101, 20)}
    axis = ChartAxis("utility (% of the largest)", -2.0 - 5.0 * len(lanes), 104.0, ticks)
    panel = ChartPanel(marks, x=_time(data), y=axis, ends=ends)
    return Chart("Utility over time, of the largest possible", UTILITY_COLUMNS, [panel], 3.2)


def shares_chart(data: ServiceData) -> Chart | None:
    """Return the distribution function of the attained share over windows and topologies (HP figures 16c and 17a)."""
    marks: list[Mark] = []
    for variant, colour in style.colours(data.series.variants).items():
        runs = [row["quantiles"] for row in data.attained
                if data.variants[row["run_id"]] == variant and row["quantiles"]]  # fmt: skip
        if not runs:
            continue
        name = style.display_name(variant)
        spots = []
        for place, each in enumerate(zip(*runs, strict=True)):
            share, windows = 100.0 * median(each), 100.0 * place / (len(runs[0]) - 1)
            spots.append(Spot(share, windows, {"attained_percent": share, "windows_percent": windows}))
        marks.append(LineMark(spots, colour, name, "median", label=name, width=1.6))
    if not marks:
        return None
    x, y = ChartAxis("attained share of the service level (%)", 0.0, 102.0), ChartAxis("windows (%)", 0.0, 102.0)
    return Chart("Attained share, by share of the time", SHARE_COLUMNS, [ChartPanel(marks, x=x, y=y)], 2.8,
                 legend="chart")  # fmt: skip


def map_chart(data: ServiceData) -> Chart | None:
    """Return a map a variant; None for a single topology."""
    if len(data.topologies) < 2:
        return None
    begins = sorted({row["begin_s"] for each in data.parts.values() for row in each})
    number, has_names = len(data.topologies), len(data.topologies) <= MOST_NAMES
    places = {name: place for place, name in enumerate(data.topologies)}
    columns = {begin_s: place for place, begin_s in enumerate(np.arange(begins[0], begins[-1] + 1, data.part_s))}
    panels = []
    for variant, colour in style.colours(data.series.variants).items():
        values = np.full((number, len(columns)), np.nan)
        for row in data.parts.get(variant, ()):
            if row["topology"] in places and row["share"] is not None:
                values[places[row["topology"]], columns[row["begin_s"]]] = 100.0 * row["share"]
        cells = Cells((), colour, style.display_name(variant), values=values, palette="RdYlBu", highest=100.0,
                      extent=(begins[0], begins[-1] + data.part_s, number - 0.5, -0.5),
                      words="attained share (%)", gid=f"service_{variant}")  # fmt: skip
        ticks = {float(place): name for name, place in places.items()} if has_names else {}
        panels.append(
            ChartPanel([cells], style.display_name(variant), _time(data), ChartAxis(ticks=ticks, tick_size=6.5,
                       has_grid=False), title_colour=colour)
        )  # fmt: skip
    rows_of_panels = -(-len(panels) // MAP_ABREAST)
    height_in = rows_of_panels * (0.7 + min(6.0, max(1.2, 0.13 * number)))
    return Chart("Attained share of each topology over time", UTILITY_COLUMNS, panels, height_in,
                 min(MAP_ABREAST, len(panels)))  # fmt: skip


def _time(data: ServiceData) -> ChartAxis:
    begins = [row["begin_s"] for row in data.curves]
    return time_axis(min(begins), max(begins) + data.part_s, "the first event")


def build(data: ServiceData) -> Iterator[Figure]:
    """Yield the figures that have data."""
    pooled = " of all topologies" if data.topologies else ""
    for name, title, caption, chart in (
        ("utility", "Utility over time", UTILITY_CAPTION.format(part_s=data.part_s), utility_chart(data)),
        ("attained", "Attained share of service levels", SHARES_CAPTION.format(pooled=pooled), shares_chart(data)),
        ("service_map", "Service levels of each topology", MAP_CAPTION, map_chart(data)),
    ):
        if chart is not None:
            yield page_figure(name, title, caption, chart)
