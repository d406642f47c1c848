"""Every figure of a series: drawn, written to `figures/*.svg`, and handed on for the report."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from analysis.figures import convergence, cpu, downtime, throughput
from analysis.figures.series import SeriesData
from analysis.record import SeriesPaths


@dataclass(frozen=True)
class Figure:
    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Recipe:
    title: str
    caption: str
    draw: Callable[[SeriesData], str | None]


FIGURES = {
    "throughput": Recipe(
        "Throughput over time",
        "Tuples executed at the sinks, in 10 s windows aligned to the first event (upright line). Bold lines are the "
        "median over the runs of a variant, bands the smallest to the largest run. Numbers are the level after the "
        "last event. The dashed line is what the spouts were scheduled to emit "
        "(a spout whose worker restarts schedules nothing meanwhile); "
        "where a tuple reaches several sinks, their sum may lie above it.",
        throughput.draw,
    ),
    "convergence": Recipe(
        "Convergence time",
        "From the event until throughput is stable, in the three definitions in use. Dots are runs, bars "
        "medians. A hollow triangle is a run that had not converged when it ended: its time is longer than shown. A "
        "dashed bar is a lower bound.",
        convergence.draw,
    ),
    "downtime": Recipe(
        "Downtime",
        "Seconds in which no sink executed a tuple, after machines left or died. Dots are runs, bars medians.",
        downtime.draw,
    ),
    "cpu": Recipe(
        "CPU of each machine",
        "Utilisation of each machine's CPU share in the steady part before the first event (grey) and after the last "
        "(coloured). Dots are the medians over the seconds of single runs, pale bars the 10th to 90th percentile, "
        "strokes the median over runs. A machine that left has no mark after.",
        cpu.draw,
    ),
}


def build(data: SeriesData, paths: SeriesPaths) -> list[Figure]:
    """Figures that have something to show."""
    paths.figures.mkdir(parents=True, exist_ok=True)
    figures = []
    for name, recipe in FIGURES.items():
        drawn = recipe.draw(data)
        if drawn is not None:
            svg = own_ids(drawn, name)
            (paths.figures / f"{name}.svg").write_text(svg, encoding="utf-8")
            figures.append(Figure(name, recipe.title, recipe.caption, svg))
    return figures


def own_ids(svg: str, name: str) -> str:
    """Prefix every id, for several figures share one page."""
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
