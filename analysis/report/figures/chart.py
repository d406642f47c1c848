"""A chart as data: panels of marks on two axes. `renderer.draw` makes the drawing.

A mark that has a word for its points (median, run, event …) is also a trace of the page and rows of the files, so that
tooltips, files and drawing agree. Places are (x, y): where along the panel, and how much. A `flipped` panel has x down
its left side and y to the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

from analysis.record.event_timeline import EventMark
from analysis.report.figures.points import Column, Row, Spot, Trace, Value, rows
from analysis.report.figures.style import INK, WIDTH_IN

HOURS_FROM, MOST_TICKS = 3.0, 10  # of a time axis: from how many hours on it is in hours, and of them its ticks
ARROW_LEFT, ARROW_RIGHT, ARROW_UP, ARROW_DOWN = 8, 9, 10, 11  # matplotlib's CARETLEFTBASE and so on


@dataclass(frozen=True)
class Mark:
    """Spots in one colour. Without a word (`mark`) for its points it is only drawn; of this class itself the points are
    only told, for other marks draw them. `label`: in the legend."""

    spots: Sequence[Spot]
    colour: str
    name: str = ""  # whose it is, in a reader's words
    mark: str = ""
    label: str = ""
    of_height: bool = False  # y is a part of the panel's height


@dataclass(frozen=True)
class Line(Mark):
    width: float = 2.0
    dashes: Any = "-"
    marker: Any = None


@dataclass(frozen=True)
class Band(Mark):
    """From each spot's y to its end."""

    alpha: float = 0.18


@dataclass(frozen=True)
class Dot(Mark):
    """Hollow: all of them, or those spots that are bounds, which are triangles towards where the value lies."""

    marker: Any = "o"
    size: float = 4.5
    alpha: float = 1.0
    is_hollow: bool = False


@dataclass(frozen=True)
class Interval(Mark):
    """A straight bar along y, from each spot's y to its end."""

    width: float = 5.0
    alpha: float = 0.25


@dataclass(frozen=True)
class Stroke(Mark):
    """A short line across y, at each spot."""

    half: float = 0.28
    width: float = 2.0


@dataclass(frozen=True)
class Bar(Mark):
    """From zero, or from each spot's end, to its y. That of a bound is open."""

    thickness: float = 0.6
    alpha: float = 0.3


@dataclass(frozen=True)
class Text(Mark):
    """The `texts` of the spots, beyond them."""

    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Cells(Mark):
    """A map: `values[row][column]`, NaN where there is none, over `extent` (left, right, bottom, top)."""

    values: Any = None
    extent: tuple[float, float, float, float] | None = None
    palette: str = "cividis"
    highest: float = 1.0
    words: str = ""  # of its scale
    gid: str = ""  # two maps may look alike, and an id is one's alone


@dataclass(frozen=True)
class Moment:
    """One event over all runs."""

    label: str
    low_s: float
    middle_s: float
    high_s: float


@dataclass(frozen=True)
class Events(Mark):
    """Upright lines, with the range over runs; `is_labelled`: their labels have room above all else."""

    moments: Sequence[Moment] = ()
    is_labelled: bool = True


@dataclass(frozen=True)
class End:
    """A label at the right of the panel, at the height of what ends there."""

    text: str
    colour: str
    height: float


@dataclass(frozen=True)
class Axis:
    """None: as the marks need it. `ticks`: of names or hours."""

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
class Panel:
    marks: Sequence[Mark] = ()
    title: str = ""
    x: Axis = Axis()
    y: Axis = Axis()
    flipped: bool = False
    title_colour: str = INK
    rules: Sequence[float] = ()  # lines across y
    borders: Sequence[float] = ()  # faint lines across both axes
    spans: Sequence[tuple[float, float]] = ()  # of x, that count
    ends: Sequence[End] = ()
    message: str = ""  # why it is empty
    is_hidden: bool = False
    height_in: float = 0.0  # of charts whose panels have heights of their own


@dataclass(frozen=True)
class Chart:
    """`shares`: the axes that its panels share, x and y as they are drawn; `tells_panels`: the data says by their
    titles which panel it is of; `legend`: of each panel, or of the whole chart."""

    title: str
    columns: Sequence[Column]
    panels: Sequence[Panel]
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
        """How many rows of panels it has."""
        return ceil(len(self.panels) / self.abreast)

    def traces(self) -> list[tuple[int, Mark, Trace]]:
        """What it tells: the place of the panel, the mark, and its points at their places on the axes."""
        titles = [panel.title.replace("\n", " ") if self.tells_panels else "" for panel in self.panels]
        return [
            (number, mark, Trace(mark.name, mark.mark, mark.colour, tuple(mark.spots), titles[number]))
            for number, panel in enumerate(self.panels)
            for mark in panel.marks
            if mark.mark
        ]

    def rows(self) -> list[Row]:
        """Its data, a row a point, as the files have it."""
        return rows([trace for _, _, trace in self.traces()], self.columns, self.name_column)


def categories(names: Sequence[str], label: str = "", **settings: Any) -> Axis:
    """An axis of names, at 0, 1, 2 …"""
    return Axis(label, -0.6, len(names) - 0.4, dict(enumerate(names)), has_grid=False, **settings)


def time_axis(first_s: float, last_s: float, since: str, label: str = "time since {} ({})") -> Axis:
    """A long axis gets its ticks at whole hours, and says hours; what is drawn stays in seconds."""
    hours = (last_s - first_s) / 3600.0
    if hours < HOURS_FROM:
        return Axis(label.format(since, "s"), first_s, last_s, has_grid=False)
    days = ceil(hours / 24 / MOST_TICKS)
    step = next((step for step in (0.5, 1, 2, 3, 6, 12) if hours <= MOST_TICKS * step), 24 * days)
    ticks = [step * i for i in range(ceil(first_s / 3600 / step), int(last_s // (3600 * step)) + 1)]
    return Axis(
        label.format(since, "h"), first_s, last_s, {3600.0 * tick: f"{tick:g}" for tick in ticks}, has_grid=False
    )


def moments(marks: Sequence[EventMark]) -> list[Moment]:
    """Runs' marks of one event as one: the median time, and its range over runs."""
    times: dict[tuple[str, str, str], list[float]] = {}
    for mark in marks:
        times.setdefault((mark.event_id, mark.kind, mark.label), []).append(mark.t_s)
    every = [Moment(label, min(t), median(t), max(t)) for (_, _, label), t in times.items()]
    return sorted(every, key=lambda moment: moment.middle_s)


def events(marks: Sequence[EventMark], *, is_labelled: bool = True, is_told: bool = True, colour: str = INK) -> Events:
    every = moments(marks)
    spots = [Spot(each.middle_s, 0.85, {"time_s": each.middle_s, "event": each.label}) for each in every]
    word = "event" if is_told else ""
    return Events(spots, colour, mark=word, of_height=True, moments=every, is_labelled=is_labelled)


def spread(
    position: float, name: str, colour: str, runs: Sequence[tuple[float, str]], column: str, middle: float,
    ends: tuple[float, float] | None = None, end_columns: Sequence[str] = ("low", "high"),
) -> list[Mark]:  # fmt: skip
    """A row of runs (value, run id) as dots, their mean as a stroke, and its interval."""
    values: dict[str, Value] = {column: middle}
    marks: list[Mark] = [
        Dot([Spot(position, value, {column: value}, run_id) for value, run_id in runs], colour, name, "run", alpha=0.7)
    ]
    if ends is not None:
        marks.append(Interval([Spot(position, ends[0], end=ends[1])], colour))
        values |= dict(zip(end_columns, ends, strict=True))
    return [*marks, Stroke([Spot(position, middle, values)], colour, name, "mean")]
