"""Parts of a sentence or a cell that are more than text (what comes from a record is escaped), and a table of results:
headings over rows. It prints as HTML and text, and its rows are files, CSV and Parquet."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from markupsafe import Markup, escape

from analysis.numerals import MISSING, number

Row = Mapping[str, Any]
ARROW_TYPES = {"number": "float64", "word": "string", "yes_no": "bool_"}
BREAK = Markup("<br>")
OF_HEADS = frozenset({"n", "v"})  # styles of a column that its heading shares


def element(tag: str, content: str, **attributes: str | None) -> Markup:
    """Return `<tag …>content</tag>` without empty attributes; `css` stands for `class`."""
    attribute_text = Markup("").join(
        Markup(' {}="{}"').format({"css": "class"}.get(name, name.replace("_", "-")), value)
        for name, value in attributes.items() if value
    )  # fmt: skip
    return Markup("<{}{}>{}</{}>").format(Markup(tag), attribute_text, content, Markup(tag))


def link(text: str, target: str | None, css: str = "") -> Markup:
    """Return the text as a link, or as plain text if there is no target."""
    return element("a", text, css=css, href=target) if target else escape(text)


def bold(text: str, css: str = "") -> Markup:
    return element("b", text, css=css)


def small(text: str, css: str = "small") -> Markup:
    return element("span", text, css=css)


def badge(text: str, css: str = "") -> Markup:
    return element("span", text, css=f"badge {css}".strip())


def code(text: str, css: str = "") -> Markup:
    return element("code", text, css=css)


def joined(parts: Iterable[str], separator: str = "") -> Markup:
    return escape(separator).join(escape(part) for part in parts)


FORMATS = {  # label and media type
    "csv": ("CSV", "text/csv"),
    "svg": ("SVG", "image/svg+xml"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
    "pdf": ("PDF", "application/pdf"),
}


@dataclass(frozen=True)
class Download:
    name: str
    content: bytes

    @property
    def kind(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def embedded_bytes(self) -> int:
        return 4 * -(-len(self.content) // 3)

    def data_uri(self) -> str:
        return f"data:{FORMATS[self.kind][1]};base64,{base64.b64encode(self.content).decode()}"


def row_downloads(name: str, rows: Sequence[Row], kinds: Mapping[str, str] | None = None) -> tuple[Download, ...]:
    """Return the rows as CSV and Parquet, nothing without rows. `kinds`: declared types of columns
    (points.PointColumn.kind)."""
    if not rows:
        return ()
    return Download(f"{name}.csv", csv_of(rows)), Download(f"{name}.parquet", parquet_of(rows, kinds or {}))


def column_names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def csv_of(rows: Sequence[Row]) -> bytes:
    """Return the rows as CSV: a missing value is empty, items of a list are separated by spaces."""

    def cell(value: Any) -> Any:
        if isinstance(value, bool):
            return "true" if value else "false"
        return " ".join(map(str, value)) if isinstance(value, list | tuple) else value

    columns = column_names(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode()


def parquet_of(rows: Sequence[Row], kinds: Mapping[str, str]) -> bytes:
    """Return the rows as Parquet. `kinds`: declared types of columns (points.PointColumn.kind)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def column(name: str) -> pa.Array:
        values = [list(v) if isinstance(v := row.get(name), tuple) else v for row in rows]
        arrow_type = getattr(pa, ARROW_TYPES[kinds[name]])() if name in kinds else None
        # A column of nulls has no type of its own; it is written as text.
        return pa.array(values, arrow_type or (pa.string() if all(v is None for v in values) else None))

    buffer = io.BytesIO()
    pq.write_table(pa.table({name: column(name) for name in column_names(rows)}), buffer)
    return buffer.getvalue()


@dataclass(frozen=True)
class Heading:
    """A column. `key` names a value of a row, or computes it; `digits`: of floats; `blank`: shown instead of an empty
    value. `css`: n for numbers, k for text that is not broken, v for text after numbers, wide for long text."""

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
        """Return the value as text; markup stays markup."""
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
    """A row of one cell over all columns. `begins`: a group of rows begins here; without text only a line separates
    the groups."""

    text: str = ""
    css: str = ""
    begins: bool = False
    cell_css: str = ""


@dataclass(frozen=True)
class ResultTable:
    """A table. `headings`: None is left out. `css`: blocks if rows are blocks on a narrow screen, narrow if it is
    narrower than the page. `row_css`: the style of a row. `name`: of the files with its rows, or with `data` if
    given."""

    headings: Sequence[Heading | None]
    rows: Sequence[Any]
    css: str = ""
    row_css: Callable[[Any], str] | None = None
    name: str = ""
    data: Sequence[Row] | None = None

    @property
    def columns(self) -> list[Heading]:
        return [heading for heading in self.headings if heading is not None]

    @cached_property
    def files(self) -> tuple[Download, ...]:
        rows = self.rows if self.data is None else self.data
        return row_downloads(self.name, [row if isinstance(row, Mapping) else asdict(row) for row in rows])

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
            td = element("td", row.text, css=row.cell_css, colspan=str(len(self.columns)))
            return element("tr", td, css=row.css)
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


def columns(spec: str) -> list[Heading]:
    """Return headings that only name a value, `heading = key :digits /css`, separated by semicolons. A key equal to its
    heading is left out."""
    headings = []
    for part in spec.split(";"):
        text, _, css = part.partition(" /")
        text, _, digits = text.partition(" :")
        heading, _, key = (each.strip() for each in text.partition("="))
        headings.append(Heading(heading, key or heading, digits=int(digits) if digits else None, css=css.strip()))
    return headings


def lists(rows: Sequence[Sequence[Any]], heads: Sequence[str], css: str = "n") -> ResultTable:
    """Return a table of rows whose cells are already text."""
    headings = [Heading(text, itemgetter(place), css=css) for place, text in enumerate(heads)]
    return ResultTable(headings, rows)
