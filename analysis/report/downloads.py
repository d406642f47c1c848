"""Files that a page offers: rows as CSV and Parquet, figures as they are.

They stand beside the page, and in the page itself while that keeps it small, so that a page moved alone has them too
(docs/decisions/pages.md).
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.report.figures.points import Drawing

Row = Mapping[str, Any]
ARROW_TYPES = {"number": "float64", "word": "string", "yes_no": "bool_"}
# Limit for all embedded files of a page together. The first kinds are embedded first.
EMBEDDED_BYTES = 2_000_000
EMBEDDING_ORDER = ("csv", "svg", "parquet", "pdf")
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


def drawing_downloads(name: str, drawing: Drawing, svg: str) -> tuple[Download, ...]:
    """Return the data and formats of one figure; `svg` has the ids that the page uses."""
    kinds = {column.name: column.kind for column in drawing.data_columns()}
    return (
        *row_downloads(name, drawing.rows(), kinds),
        Download(f"{name}.svg", f'<?xml version="1.0" encoding="UTF-8"?>\n{svg}\n'.encode()),
        Download(f"{name}.pdf", drawing.pdf),
    )


def row_downloads(name: str, rows: Sequence[Row], kinds: Mapping[str, str] | None = None) -> tuple[Download, ...]:
    """Return the rows as CSV and Parquet, nothing without rows. `kinds`: declared types of columns
    (points.Column.kind)."""
    if not rows:
        return ()
    return Download(f"{name}.csv", csv_of(rows)), Download(f"{name}.parquet", parquet_of(rows, kinds or {}))


def write_downloads(folder: Path, files: Iterable[Download]) -> None:
    for file in files:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.name).write_bytes(file.content)


def download_links(
    groups: Mapping[str, Sequence[Download]], folder: str, budget: int = EMBEDDED_BYTES
) -> dict[str, list[Row]]:
    """Return links to the files of each figure or table; a kind is embedded for all of them or for none (`beside`)."""
    kinds = embedded_kinds([file for files in groups.values() for file in files], budget)

    def link(file: Download) -> Row:
        size, is_inside = len(file.content), file.kind in kinds
        text = f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1e6:.1f} MB"
        href = file.data_uri() if is_inside else f"{folder}/{file.name}"
        return {"name": file.name, "kind": FORMATS[file.kind][0], "href": href, "size": text, "beside": not is_inside}

    return {name: [link(file) for file in files] for name, files in groups.items()}


def embedded_kinds(files: Sequence[Download], budget: int) -> frozenset[str]:
    """Return the kinds of which all files fit into the budget, the most useful kind first."""
    kinds: set[str] = set()
    for kind in EMBEDDING_ORDER:
        size = sum(file.embedded_bytes for file in files if file.kind == kind)
        if size <= budget:
            kinds.add(kind)
            budget -= size
    return frozenset(kinds)


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
    """Return the rows as Parquet. `kinds`: declared types of columns (points.Column.kind)."""
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
