"""A chart as data: panels of marks (marks.py) on two axes. `renderer.draw` makes the drawing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from analysis.report.figures.marks import Mark
from analysis.report.figures.points import PointColumn, PointTrace, Row, rows
from analysis.report.figures.style import INK, WIDTH_IN, display_name

HOURS_FROM, MOST_TICKS = 3.0, 10  # of a time axis: from how many hours on it is in hours, and its most ticks then


@dataclass(frozen=True)
class End:
    """A label at the right of the panel, at the height of the line's end."""

    text: str
    colour: str
    height: float


@dataclass(frozen=True)
class ChartAxis:
    """An axis; a limit of None is set by the marks. `ticks`: for names or hours."""

    label: str = ""
    low: float | None = None
    high: float | None = None
    ticks: Mapping[float, str] | None = None
    tick_size: float = 8.5
    has_grid: bool = True
    has_zero: bool = False
    is_log: bool = False
    margin: float | None = None


@dataclass(frozen=True)
class ChartPanel:
    marks: Sequence[Mark] = ()
    title: str = ""
    x: ChartAxis = ChartAxis()
    y: ChartAxis = ChartAxis()
    flipped: bool = False
    title_colour: str = INK
    rules: Sequence[float] = ()  # lines across y
    borders: Sequence[float] = ()  # faint lines across both axes
    spans: Sequence[tuple[float, float]] = ()  # of x, that count
    ends: Sequence[End] = ()
    message: str = ""  # reason why it is empty
    is_hidden: bool = False
    height_in: float = 0.0  # of charts whose panels have individual heights


@dataclass(frozen=True)
class Chart:
    """Panels with shared settings. `shares`: the axes that they share, x and y as drawn; `tells_panels`: the data has
    the panel's title as a column; `legend`: of each panel, or of the whole chart."""

    title: str
    columns: Sequence[PointColumn]
    panels: Sequence[ChartPanel]
    height_in: float = 0.0
    abreast: int = 1
    width_in: float = WIDTH_IN
    shares: str = ""
    x_label: str = ""
    y_label: str = ""
    legend: str = ""
    name_column: str = "variant"
    tells_panels: bool = False
    has_bold_titles: bool = False
    title_size: float = 9.5

    @property
    def high(self) -> int:
        """Return the number of rows of panels."""
        return ceil(len(self.panels) / self.abreast)

    def traces(self) -> list[tuple[int, Mark, PointTrace]]:
        """Return the index of the panel, the mark, and its points at their places on the axes, for each mark with
        data."""
        titles = [panel.title.replace("\n", " ") if self.tells_panels else "" for panel in self.panels]
        return [
            (number, mark, PointTrace(mark.name, mark.mark, mark.colour, tuple(mark.spots), titles[number]))
            for number, panel in enumerate(self.panels)
            for mark in panel.marks
            if mark.mark
        ]

    def rows(self) -> list[Row]:
        """Return the data of its files, a row a point."""
        return rows([trace for _, _, trace in self.traces()], self.columns, self.name_column)


def categories(names: Sequence[str], label: str = "", **settings: Any) -> ChartAxis:
    """Return an axis of names, at 0, 1, 2 …"""
    return ChartAxis(label, -0.6, len(names) - 0.4, dict(enumerate(names)), has_grid=False, **settings)


def row_panel(variants: Iterable[str], marks: Sequence[Mark], y: ChartAxis, rules: Sequence[float] = ()) -> ChartPanel:
    """Return a row a variant, the first one on top; names at the left."""
    return ChartPanel(marks, x=categories([display_name(name) for name in variants]), y=y, flipped=True, rules=rules)


def time_axis(first_s: float, last_s: float, since: str, label: str = "time since {} ({})") -> ChartAxis:
    """Return a time axis; a long one is labelled in hours with ticks at whole hours, but its values stay in seconds."""
    hours = (last_s - first_s) / 3600.0
    if hours < HOURS_FROM:
        return ChartAxis(label.format(since, "s"), first_s, last_s, has_grid=False)
    days = ceil(hours / 24 / MOST_TICKS)
    step = next((step for step in (0.5, 1, 2, 3, 6, 12) if hours <= MOST_TICKS * step), 24 * days)
    ticks = [step * i for i in range(ceil(first_s / 3600 / step), int(last_s // (3600 * step)) + 1)]
    return ChartAxis(
        label.format(since, "h"), first_s, last_s, {3600.0 * tick: f"{tick:g}" for tick in ticks}, has_grid=False
    )
