"""The data of a figure: every mark with its values and its position on the drawing. Tooltip, CSV and Parquet are made
from this one list, so that they agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

Value = float | int | str | bool | None
Row = dict[str, Value]


@dataclass(frozen=True)
class PointColumn:
    """A value of a figure's marks: `name` in files, with its unit; `label` and `unit` in the tooltip."""

    name: str
    label: str
    unit: str = ""
    kind: str = "number"  # or word, or yes_no


def point_columns(spec: str) -> tuple[PointColumn, ...]:
    """Return columns from `name = label (unit) /kind`, separated by semicolons; a label equal to the name is left
    out."""
    columns = []
    for part in spec.split(";"):
        text, _, kind = part.partition(" /")
        name, _, label = text.strip().partition(" = ")
        label, _, unit = label.partition(" (")
        columns.append(PointColumn(name, label or name, unit.removesuffix(")"), kind.strip() or "number"))
    return tuple(columns)


@dataclass(frozen=True)
class Spot:
    """A mark at `x`, `y` of its axes (after drawing: of the SVG), with its values by column."""

    x: float
    y: float
    values: Mapping[str, Value] = field(default_factory=dict)
    run_id: str = ""
    end: float | None = None  # of y, for marks that reach from one value to another
    is_bound: bool = False  # the value lies beyond


@dataclass(frozen=True)
class PointTrace:
    """Marks that belong together, in the order of the arrow keys: a line, or one variant's dots in a panel.

    `mark` says what they are: median, run, smallest run, event …
    """

    name: str
    mark: str
    colour: str
    spots: tuple[Spot, ...]
    panel: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure in each of its formats. `name_column`: the column of the data for the traces' names."""

    svg: str
    pdf: bytes
    columns: tuple[PointColumn, ...]
    traces: tuple[PointTrace, ...]
    name_column: str = "variant"

    def data_columns(self) -> tuple[PointColumn, ...]:
        """Return the columns of the data's files, in order."""
        return data_columns(self.traces, self.columns, self.name_column)

    def rows(self) -> list[Row]:
        """Return the drawn data, one row a mark."""
        return rows(self.traces, self.columns, self.name_column)

    def points(self) -> str:
        """Return the data with positions, as compact JSON for the page (templates/points.js.j2 reads it). Marks whose
        value is not finite are not drawn, and left out."""
        traces = (
            replace(trace, spots=tuple(spot for spot in trace.spots if isfinite(spot.x) and isfinite(spot.y)))
            for trace in self.traces
        )
        columns = [[column.label, column.unit] for column in self.columns]
        document = {"columns": columns, "traces": [_compact(trace, self.columns) for trace in traces if trace.spots]}
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.replace("<", "\\u003c")  # so that no text can end the script element around it


def data_columns(
    traces: Sequence[PointTrace], columns: Sequence[PointColumn], name_column: str
) -> tuple[PointColumn, ...]:
    """Return the columns of a figure's data; several panels get a column."""
    first = ["panel"] if any(trace.panel for trace in traces) else []
    return (*(PointColumn(name, name, kind="word") for name in (*first, name_column, "mark", "run_id")), *columns)


def rows(traces: Sequence[PointTrace], columns: Sequence[PointColumn], name_column: str) -> list[Row]:
    """Return one row a mark, in the order of the columns."""
    names = [column.name for column in data_columns(traces, columns, name_column)]
    table = []
    for trace in traces:
        of_trace = {"panel": trace.panel, name_column: trace.name, "mark": trace.mark}
        for spot in trace.spots:
            row: Row = {**spot.values, **of_trace, "run_id": spot.run_id or None}
            table.append({name: row.get(name) for name in names})
    return table


def _compact(trace: PointTrace, columns: Sequence[PointColumn]) -> dict[str, Any]:
    """Write a column with one value once, and leave out columns without a value."""
    spots = trace.spots
    values = [(str(i), _column([spot.values.get(column.name) for spot in spots])) for i, column in enumerate(columns)]
    return {
        "n": trace.name, "m": trace.mark, "c": trace.colour, **({"p": trace.panel} if trace.panel else {}),
        "x": [round(spot.x, 1) for spot in spots], "y": [round(spot.y, 1) for spot in spots],
        **({"r": _column([spot.run_id for spot in spots])} if any(spot.run_id for spot in spots) else {}),
        "v": {i: column for i, column in values if column is not None},
    }  # fmt: skip


def _column(values: Sequence[Value]) -> Any:
    """Round to five digits, more than a reader can see on a figure; files have all digits."""
    short = [
        (float(f"{value:.5g}") if isfinite(value) else None) if isinstance(value, float) else value for value in values
    ]
    return short[0] if all(value == short[0] for value in short) else short
