"""A chart as data: panels of marks on two axes. Each mark draws itself on matplotlib's axes; `renderer.draw` does the
rest.

A mark with a word for its points (median, run, event …) is also a trace of the page and rows of the files, so that
tooltips, files and drawing agree. Spots are (x, y): position along the panel, and value. A `flipped` panel has x
down its left side and y to the right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

from analysis.record.event_timeline import EventMark
from analysis.report.figures.points import PointColumn, PointTrace, Row, Spot, rows
from analysis.report.figures.style import INK, WIDTH_IN, display_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOURS_FROM, MOST_TICKS = 3.0, 10  # of a time axis: from how many hours on it is in hours, and its most ticks then
WIDE_S = 5.0  # an event whose time differs by more between runs is drawn as a span
ARROW_LEFT, ARROW_RIGHT, ARROW_UP, ARROW_DOWN = 8, 9, 10, 11  # matplotlib's CARETLEFTBASE and so on


@dataclass(frozen=True)
class Mark:
    """Spots in one colour. Without a word (`mark`) for its points it is only drawn; the points of this class itself are
    only data, because other marks draw them. `label`: in the legend."""

    spots: Sequence[Spot]
    colour: str
    name: str = ""  # of the variant, topology or machine, as readers know it
    mark: str = ""
    label: str = ""
    of_height: bool = False  # y is a fraction of the panel's height

    @property
    def shift(self) -> float:
        """Return how far in x its points are before their spots: at an edge, where no dot hides them."""
        return 0.0

    def draw(self, axes: Axes, flipped: bool) -> None:
        """Draw nothing."""


def _places(spots: Sequence[Spot], flipped: bool = False) -> tuple[list[float], list[float]]:
    x, y = [spot.x for spot in spots], [spot.y for spot in spots]
    return (y, x) if flipped else (x, y)


def _ends(spots: Sequence[Spot]) -> list[float]:
    return [spot.y if spot.end is None else spot.end for spot in spots]


@dataclass(frozen=True)
class LineMark(Mark):
    width: float = 2.0
    dashes: Any = "-"
    marker: Any = None

    def draw(self, axes: Axes, flipped: bool) -> None:
        axes.plot(*_places(self.spots, flipped), color=self.colour, lw=self.width, ls=self.dashes, marker=self.marker,
                  ms=4, label=self.label or None)  # fmt: skip


@dataclass(frozen=True)
class Band(Mark):
    """An area from each spot's y to its end; in panels that are not flipped."""

    alpha: float = 0.18

    def draw(self, axes: Axes, flipped: bool) -> None:  # noqa: ARG002
        axes.fill_between(*_places(self.spots), _ends(self.spots), color=self.colour, alpha=self.alpha, lw=0)


@dataclass(frozen=True)
class Dot(Mark):
    """Dots; spots that are bounds are hollow triangles that point to where the value lies."""

    marker: Any = "o"
    size: float = 4.5
    alpha: float = 1.0
    is_hollow: bool = False

    def draw(self, axes: Axes, flipped: bool) -> None:
        dots = [spot for spot in self.spots if not spot.is_bound]
        bounds = [spot for spot in self.spots if spot.is_bound]
        look: dict[str, Any] = {
            "ls": "", "color": self.colour, "clip_on": False, "zorder": 3, "label": self.label or None,
            "transform": axes.get_xaxis_transform() if self.of_height else axes.transData,
        }  # fmt: skip
        if dots:
            fill = "white" if self.is_hollow else self.colour
            axes.plot(*_places(dots, flipped), marker=self.marker, ms=self.size, alpha=self.alpha, mfc=fill, **look)
        if bounds:
            marker = ">" if flipped else "^"
            axes.plot(*_places(bounds, flipped), marker=marker, ms=max(3.0, self.size), mfc="white", **look)


@dataclass(frozen=True)
class Whisker(Mark):
    """A straight bar along y, from each spot's y to its end."""

    width: float = 5.0
    alpha: float = 0.25

    def draw(self, axes: Axes, flipped: bool) -> None:
        lines = axes.hlines if flipped else axes.vlines
        lines(*_places(self.spots), _ends(self.spots), colors=self.colour, lw=self.width, alpha=self.alpha)


@dataclass(frozen=True)
class Stroke(Mark):
    """A short line across y, at each spot."""

    half: float = 0.28
    width: float = 2.0

    @property
    def shift(self) -> float:
        return self.half

    def draw(self, axes: Axes, flipped: bool) -> None:
        lines = axes.vlines if flipped else axes.hlines
        starts, ends = ([spot.x + side * self.half for spot in self.spots] for side in (-1, 1))
        lines([spot.y for spot in self.spots], starts, ends, colors=self.colour, lw=self.width)


@dataclass(frozen=True)
class Bar(Mark):
    """A bar from zero, or from each spot's end, to its y. The bar of a bound is open."""

    thickness: float = 0.6
    alpha: float = 0.3

    @property
    def shift(self) -> float:
        return self.thickness / 2

    def draw(self, axes: Axes, flipped: bool) -> None:
        for spot in self.spots:
            look: dict[str, Any] = {"color": self.colour, "alpha": self.alpha, "lw": 0}
            if spot.is_bound:
                look = {"color": "none", "edgecolor": self.colour, "ls": "--", "lw": 1.2}
            bar, start = axes.barh if flipped else axes.bar, spot.end or 0.0
            bar(spot.x, spot.y - start, self.thickness, start, **look)


@dataclass(frozen=True)
class Text(Mark):
    """The `texts` of the spots, beyond them."""

    texts: Sequence[str] = ()

    def draw(self, axes: Axes, flipped: bool) -> None:
        for text, *place in zip(self.texts, *_places(self.spots, flipped), strict=True):
            axes.annotate(text, (place[0], place[1]), xytext=(7, 0) if flipped else (0, 6), fontsize=8.5,
                          textcoords="offset points", ha="left" if flipped else "center", color=self.colour,
                          va="center" if flipped else "baseline")  # fmt: skip


@dataclass(frozen=True)
class Cells(Mark):
    """A map: `values[row][column]`, NaN without a value, over `extent` (left, right, bottom, top)."""

    values: Any = None
    extent: tuple[float, float, float, float] | None = None
    palette: str = "cividis"
    highest: float = 1.0
    words: str = ""  # of its scale
    gid: str = ""  # distinguishes two maps that look alike: ids are unique

    def draw(self, axes: Axes, flipped: bool) -> None:  # noqa: ARG002
        image = axes.imshow(self.values, aspect="auto" if self.extent else "equal", interpolation="nearest",
                            cmap=self.palette, vmin=0.0, vmax=self.highest, extent=self.extent)  # fmt: skip
        image.set_gid(self.gid or None)
        axes.grid(visible=False)


@dataclass(frozen=True)
class Moment:
    """An event over all runs."""

    label: str
    low_s: float
    middle_s: float
    high_s: float


@dataclass(frozen=True)
class Events(Mark):
    """Upright lines, with the range over runs; `is_labelled`: room is kept for their labels."""

    moments: Sequence[Moment] = ()
    is_labelled: bool = True

    def draw(self, axes: Axes, flipped: bool) -> None:  # noqa: ARG002
        for moment in self.moments:
            if moment.high_s - moment.low_s > WIDE_S:
                axes.axvspan(moment.low_s, moment.high_s, color=INK, alpha=0.07, lw=0)
            axes.axvline(moment.middle_s, color=self.colour, lw=0.9)


def moments(marks: Sequence[EventMark]) -> list[Moment]:
    """Combine the runs' marks of each event: the median time and its range over runs."""
    times: dict[tuple[str, str, str], list[float]] = {}
    for mark in marks:
        times.setdefault((mark.event_id, mark.kind, mark.label), []).append(mark.t_s)
    every = (Moment(label, min(t), median(t), max(t)) for (_, _, label), t in times.items())
    return sorted(every, key=lambda moment: moment.middle_s)


def events(marks: Sequence[EventMark], *, is_labelled: bool = True, is_told: bool = True, colour: str = INK) -> Events:
    every = moments(marks)
    spots = [Spot(each.middle_s, 0.85, {"time_s": each.middle_s, "event": each.label}) for each in every]
    word = "event" if is_told else ""
    return Events(spots, colour, mark=word, of_height=True, moments=every, is_labelled=is_labelled)


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
