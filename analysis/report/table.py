"""A table of results: headings over rows. It prints as HTML and text; rows as they were measured as CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from markupsafe import Markup

from analysis.numerals import MISSING, number
from analysis.report.markup import element

Row = Mapping[str, Any]
ARROW_TYPES = {"number": "float64", "word": "string", "yes_no": "bool_"}
OF_HEADS = frozenset({"n", "v"})  # styles of a column that its heading has too


@dataclass(frozen=True)
class Heading:
    """One column. `key` names a value of a row, or computes it; `digits` are those of floats; `blank` stands where the
    value is empty. `css`: n for numbers, k for what is not broken, v for text after numbers, wide for long text."""

    text: str
    key: str | Callable[[Any], Any]
    unit: str = ""
    digits: int | None = None
    css: str = ""
    blank: str = MISSING

    @property
    def label(self) -> str:
        return f"{self.text} ({self.unit})" if self.unit else self.text

    @property
    def is_number(self) -> bool:
        return "n" in self.css.split()

    def cell(self, row: Any) -> str:
        """Return the value as a reader sees it; markup stays markup."""
        if callable(self.key):
            value = self.key(row)
        else:
            value = row[self.key] if isinstance(row, Mapping) else getattr(row, self.key)
        if value is None or value == "":
            return self.blank
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return number(value, self.digits)
        return value if isinstance(value, Markup) else str(value)


@dataclass(frozen=True)
class Across:
    """A row of one cell over all columns. `begins`: a group of rows begins here; without text there is only the line
    between the groups."""

    text: str = ""
    css: str = ""
    begins: bool = False
    cell_css: str = ""


@dataclass(frozen=True)
class ResultTable:
    """`headings`: None is left out. `css`: blocks for a table whose rows are blocks on a narrow screen, narrow for one
    that is not as wide as the page. `row_css`: the style of a row."""

    headings: Sequence[Heading | None]
    rows: Sequence[Any]
    css: str = ""
    row_css: Callable[[Any], str] | None = None

    @property
    def columns(self) -> list[Heading]:
        return [heading for heading in self.headings if heading is not None]

    def cells(self) -> list[list[str]]:
        return [[column.cell(row) for column in self.columns] for row in self.rows if not isinstance(row, Across)]

    def html(self) -> Markup:
        heads = (
            element("th", column.label, css=" ".join(name for name in column.css.split() if name in OF_HEADS))
            for column in self.columns
        )
        bodies: list[list[Markup]] = [[]]
        for row in self.rows:
            if isinstance(row, Across) and row.begins and bodies[-1]:
                bodies.append([])
            if not isinstance(row, Across) or row.text:
                bodies[-1].append(self._row_html(row))
        body = Markup("\n").join(element("tbody", Markup("\n").join(["", *lines, ""])) for lines in bodies)
        head = element("thead", element("tr", Markup("").join(heads)))
        table = element("table", Markup("\n").join(["", head, body, ""]), css=self.css)
        return element("div", table, css="scroll")

    def _row_html(self, row: Any) -> Markup:
        if isinstance(row, Across):
            over = element("td", row.text, css=row.cell_css, colspan=str(len(self.columns)))
            return element("tr", over, css=row.css)
        cells = []
        for column in self.columns:
            text, css, label = column.cell(row), column.css, None
            if self.css == "blocks" and column.is_number:
                label, css = column.label, f"{css} without" if text == MISSING else css
            cells.append(element("td", text, css=css, data_label=label))
        return element("tr", Markup("").join(cells), css=self.row_css(row) if self.row_css else "")

    def text_rows(self) -> list[list[str]]:
        """Return the cells without markup."""
        return [
            [Markup(cell).striptags() if isinstance(cell, Markup) else cell for cell in row] for row in self.cells()
        ]

    def lines(self) -> list[str]:
        """Return the table as text, a row a line, columns aligned."""
        rows = [[column.label for column in self.columns], *self.text_rows()]
        widths = [max(len(row[place]) for row in rows) for place in range(len(self.columns))]
        return [
            "  ".join(
                cell.rjust(width) if column.is_number else cell.ljust(width)
                for cell, width, column in zip(row, widths, self.columns, strict=True)
            ).rstrip()
            for row in rows
        ]


def lists(rows: Sequence[Sequence[Any]], heads: Sequence[str], css: str = "n") -> ResultTable:
    """Return a table of rows whose cells are text already."""
    headings = [Heading(text, itemgetter(place), css=css) for place, text in enumerate(heads)]
    return ResultTable(headings, rows)


def column_names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def csv_of(rows: Sequence[Row]) -> bytes:
    """Return the rows as CSV: a missing value is empty, and spaces part a list's values."""
    columns = column_names(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def parquet_of(rows: Sequence[Row], kinds: Mapping[str, str]) -> bytes:
    """Return the rows as Parquet. `kinds`: of columns whose type is declared (points.Column.kind)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(name: str) -> pa.Array:
        values = [list(v) if isinstance(v := row.get(name), tuple) else v for row in rows]
        declared = getattr(pa, ARROW_TYPES[kinds[name]])() if name in kinds else None
        # A column of nulls has no type of its own; it is written as text.
        return pa.array(values, declared or (pa.string() if all(v is None for v in values) else None))

    into = io.BytesIO()
    pq.write_table(pa.table({name: column(name) for name in column_names(rows)}), into)
    return into.getvalue()
