"""The marks of charts: each is data, and draws itself on matplotlib's axes.

A mark with a word for its points (median, run, event …) is also a trace of the page and rows of the files, so that
tooltips, files and drawing agree. Spots are (x, y): position along the panel, and value. A `flipped` panel has x
down its left side and y to the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from analysis.record.event_timeline import EventMark
from analysis.report.figures.points import Spot
from analysis.report.figures.style import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    @property
    def ends(self) -> list[float]:
        return [spot.y if spot.end is None else spot.end for spot in self.spots]


def _places(spots: Sequence[Spot], flipped: bool) -> tuple[list[float], list[float]]:
    x, y = [spot.x for spot in spots], [spot.y for spot in spots]
    return (y, x) if flipped else (x, y)


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
        x, y = _places(self.spots, flipped=False)
        axes.fill_between(x, y, self.ends, color=self.colour, alpha=self.alpha, lw=0)


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
        x, y = _places(self.spots, flipped=False)
        lines(x, y, self.ends, colors=self.colour, lw=self.width, alpha=self.alpha)


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
    every = [Moment(label, min(t), median(t), max(t)) for (_, _, label), t in times.items()]
    return sorted(every, key=lambda moment: moment.middle_s)


def events(marks: Sequence[EventMark], *, is_labelled: bool = True, is_told: bool = True, colour: str = INK) -> Events:
    every = moments(marks)
    spots = [Spot(each.middle_s, 0.85, {"time_s": each.middle_s, "event": each.label}) for each in every]
    word = "event" if is_told else ""
    return Events(spots, colour, mark=word, of_height=True, moments=every, is_labelled=is_labelled)
