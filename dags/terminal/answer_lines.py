"""Rows of an answer as text: aligned for people, CSV or JSON for programs. Pure; every line ends with its own end."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import isfinite

Row = Sequence[object]
WIDEST = 60  # of a cell on a terminal; programs get it whole
DIGITS = 6


def aligned(columns: Sequence[str], rows: Iterator[Row], widest: int = WIDEST) -> Iterator[str]:
    """Numbers to the right. All rows are held to know the widths, so there are few of them."""
    held = list(rows)
    cells = [[_cell(value, widest) for value in row] for row in held]
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    right = [bool(held) and all(_number(row[i]) or row[i] is None for row in held) for i in range(len(columns))]
    yield _line(columns, widths, right)
    yield _line(["-" * width for width in widths], widths, right)
    for row in cells:
        yield _line(row, widths, right)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    columns = zip(texts, widths, right, strict=True)
    padded = (f"{text:>{width}}" if to_right else f"{text:<{width}}" for text, width, to_right in columns)
    return "  ".join(padded).rstrip() + "\n"


def _number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: object, widest: int) -> str:
    text = f"{value:.{DIGITS}g}" if isinstance(value, float) and abs(value) < 10**DIGITS else _text(value)
    text = " ".join(text.split())
    return text if len(text) <= widest else f"{text[: widest - 1]}…"


def _text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def as_csv(columns: Sequence[str], rows: Iterator[Row]) -> Iterator[str]:
    """Null is an empty cell; lists are JSON."""
    yield _csv_line(columns)
    for row in rows:
        yield _csv_line(["" if value is None else _text(value) for value in row])


def _csv_line(texts: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(texts)
    return buffer.getvalue()


def as_json(columns: Sequence[str], rows: Iterator[Row]) -> Iterator[str]:
    """A list of objects, one a line. JSON has no NaN and no infinity: they are texts."""
    before = "[\n"
    for row in rows:
        named = zip(columns, row, strict=True)
        yield before + json.dumps({name: _plain(value) for name, value in named}, ensure_ascii=False, allow_nan=False)
        before = ",\n"
    yield "[]\n" if before == "[\n" else "\n]\n"


def _plain(value: object) -> object:
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if hasattr(value, "asDict"):  # a struct of Spark's
        return _plain(value.asDict())
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


FORMATS: dict[str, Callable[[Sequence[str], Iterator[Row]], Iterator[str]]] = {
    "table": aligned, "csv": as_csv, "json": as_json,
}  # fmt: skip
