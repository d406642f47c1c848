"""Every figure of a series, drawn for the page, with its files."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from analysis.report.downloads import drawing_downloads
from analysis.report.figures import cpu, event_times, renderer, throughput_timeline, traffic_map
from analysis.report.figures.chart import Chart
from analysis.report.figures.points import Drawing
from analysis.report.figures.series_data import SeriesData
from analysis.report.page import Figure


@dataclass(frozen=True)
class FigureSpec:
    title: str
    caption: str
    chart: Callable[[SeriesData], Chart | None]


FIGURES = {
    "throughput": FigureSpec(
        "Throughput over time",
        "Tuples executed at the sinks, in 10 s windows aligned to the first event (upright line). Bold lines are the "
        "median over the runs of a variant, bands the smallest to the largest run. Numbers are the level after the "
        "last event. The dashed line is what the spouts were scheduled to emit "
        "(what fell due while a spout had no process is in it; of spouts that are not throttled there is none); "
        "where a tuple reaches several sinks, their sum may lie above it.",
        throughput_timeline.chart,
    ),
    "convergence": FigureSpec(
        "Convergence time",
        "From the event until throughput is stable, in the three definitions in use. Dots are runs, bars "
        "medians (Kaplan and Meier's). A hollow triangle is a run that had not converged when its watch ended: its "
        "time is longer than shown, and no value. A dashed bar is a lower bound: the median was not reached.",
        event_times.convergence_chart,
    ),
    "downtime": FigureSpec(
        "Downtime",
        "Seconds in which no sink executed a tuple, after machines left or died. Dots are runs, bars medians (Kaplan "
        "and Meier's). A hollow triangle is a run that was still at zero when its watch ended: it was down for longer "
        "than shown. A dashed bar is a lower bound: the median was not reached.",
        event_times.downtime_chart,
    ),
    "cpu": FigureSpec(
        "CPU of each machine",
        "Utilisation of each machine's CPU share in the steady part before the first event (grey) and after the last "
        "(coloured). Dots are the medians over the seconds of single runs, pale bars the 10th to 90th percentile, "
        "strokes the median over runs. A machine that left has no mark after.",
        cpu.chart,
    ),
    "traffic": FigureSpec(
        "Traffic from task to task",
        "Tuples a second from each task (row) to each task (column) in the part that counts before and after the first "
        "event, in one run of each variant. Tasks stand in the order of their machines, which lines part: what passes "
        "inside a machine lies in the squares along the diagonal. A colour is the same rate in every panel. Of very "
        "many tasks a cell is a pair of machines.",
        traffic_map.chart,
    ),
}


def build(data: SeriesData, suffix: str = "", of: str = "") -> list[Figure]:
    """Return the figures that have data. `suffix` and `of` distinguish those of one topology from others on their
    page."""
    charts = {name: entry.chart(data) for name, entry in FIGURES.items()}
    return [
        page_figure(f"{name}{suffix}", f"{FIGURES[name].title}{of}", FIGURES[name].caption, chart)
        for name, chart in charts.items()
        if chart is not None
    ]


def page_figure(name: str, title: str, caption: str, chart: Chart | Drawing) -> Figure:
    """Return a figure of the page; `name` is unique on the page and names its files."""
    drawing = renderer.draw(chart) if isinstance(chart, Chart) else chart
    svg = prefix_ids(drawing.svg, name)
    return Figure(name, title, caption, svg, drawing.points(), drawing_downloads(name, drawing, svg))


def prefix_ids(svg: str, name: str) -> str:
    """Prefix every id, because several figures share one page."""
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
