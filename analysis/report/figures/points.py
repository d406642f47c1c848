"""What a figure shows, as data: every mark with its values and where it lies on the drawing.

A draw function says what it draws with `tell`, beside drawing it; positions come from matplotlib's own transforms once
the figure is laid out. Tooltip, CSV and Parquet are made of this one list, so that they agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


Value = float | int | str | bool | None
Row = dict[str, Value]
POINTS_PER_INCH = 72.0  # the unit of matplotlib's SVG


@dataclass(frozen=True)
class Column:
    """A value of a figure's marks: `name` in files, with its unit; `label` and `unit` in the tooltip."""

    name: str
    label: str
    unit: str = ""
    kind: str = "number"  # or word, or yes_no


@dataclass(frozen=True)
class Spot:
    """One mark, at `x`, `y` of its axes (once placed: of the SVG), with its values by column."""

    x: float
    y: float
    values: Mapping[str, Value]
    run_id: str = ""


@dataclass(frozen=True)
class Trace:
    """Marks that belong together, in the order in which arrow keys pass them: a line, or one variant's dots in a panel.

    `mark` is what they are: median, run, smallest run, event …
    """

    name: str
    mark: str
    colour: str
    spots: tuple[Spot, ...]
    panel: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure in each of its forms. `name_column`: what its traces' names are, as a column of the data."""

    svg: str
    pdf: bytes
    columns: tuple[Column, ...]
    traces: tuple[Trace, ...]
    name_column: str = "variant"

    @property
    def several_panels(self) -> bool:
        return any(trace.panel for trace in self.traces)

    def data_columns(self) -> tuple[Column, ...]:
        """Those of the data's files, in their order."""
        first = [Column("panel", "panel", kind="word")] if self.several_panels else []
        words = [Column(name, name, kind="word") for name in (self.name_column, "mark", "run_id")]
        return (*first, *words, *self.columns)

    def rows(self) -> list[Row]:
        """What is drawn, one row a mark."""
        names = [column.name for column in self.columns]
        return [
            {**self._of(trace), "run_id": spot.run_id or None, **{name: spot.values.get(name) for name in names}}
            for trace in self.traces
            for spot in trace.spots
        ]

    def _of(self, trace: Trace) -> Row:
        panel: Row = {"panel": trace.panel} if self.several_panels else {}
        return {**panel, self.name_column: trace.name, "mark": trace.mark}

    def points(self) -> str:
        """The same with positions, as compact JSON for the page (templates/points.js.j2 reads it)."""
        document = {
            "columns": [[column.label, column.unit] for column in self.columns],
            "traces": [_compact(trace, self.columns) for trace in map(_finite_spots, self.traces) if trace.spots],
        }
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.replace("<", "\\u003c")  # nothing in it ends the script element that carries it


def add_points(axes: Axes, name: str, mark: str, colour: str, spots: Iterable[Spot]) -> None:
    """What was just drawn on `axes`; `name` is whose it is, in a reader's words."""
    _traces_of(_canvas(axes)).append((axes, Trace(name, mark, colour, tuple(spots))))


def traces_on_svg(canvas: Canvas, panels: bool = False) -> tuple[Trace, ...]:
    """All traces of a figure that is laid out, in units of its SVG; `panels`: with the titles of their axes."""
    return tuple(
        replace(trace, spots=_on_svg(axes, trace.spots), panel=_title(axes) if panels else "")
        for axes, trace in _traces_of(canvas)
    )


def _traces_of(canvas: Canvas) -> list[tuple[Axes, Trace]]:
    """The figure's traces. matplotlib's artists cannot carry them, so they are kept in an attribute of the figure."""
    canvas_traces: list[tuple[Axes, Trace]] = vars(canvas).setdefault("_traces", [])
    return canvas_traces


def _canvas(axes: Axes) -> Canvas:
    canvas: Any = axes.figure
    figure: Canvas = canvas
    return figure


def _title(axes: Axes) -> str:
    return axes.get_title(loc="left").replace("\n", " ")


def _on_svg(axes: Axes, spots: Sequence[Spot]) -> tuple[Spot, ...]:
    """From the axes' coordinates to SVG's points, which count from the top."""
    if not spots:
        return ()
    canvas = _canvas(axes)
    scale = POINTS_PER_INCH / canvas.dpi
    height = canvas.get_size_inches()[1] * POINTS_PER_INCH
    pixels = axes.transData.transform([(spot.x, spot.y) for spot in spots])
    return tuple(
        replace(spot, x=float(x) * scale, y=float(height - y * scale))
        for spot, (x, y) in zip(spots, pixels, strict=True)
    )


def _finite_spots(trace: Trace) -> Trace:
    """Leave out marks that are not drawn because their value is not finite."""
    return replace(trace, spots=tuple(spot for spot in trace.spots if isfinite(spot.x) and isfinite(spot.y)))


def _compact(trace: Trace, columns: Sequence[Column]) -> dict[str, Any]:
    """Write a column with one value once, and leave out columns without a value."""
    spots = trace.spots
    values = {
        str(i): _column([_short(spot.values.get(column.name)) for spot in spots]) for i, column in enumerate(columns)
    }
    return {
        "n": trace.name, "m": trace.mark, "c": trace.colour, **({"p": trace.panel} if trace.panel else {}),
        "x": [round(spot.x, 1) for spot in spots], "y": [round(spot.y, 1) for spot in spots],
        **({"r": _column([spot.run_id for spot in spots])} if any(spot.run_id for spot in spots) else {}),
        "v": {i: column for i, column in values.items() if column is not None},
    }  # fmt: skip


def _column(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else values


def _short(value: Value) -> Value:
    """Five digits are more than a reader can see on a figure; files have them all."""
    if isinstance(value, bool) or not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if isfinite(value) else None
