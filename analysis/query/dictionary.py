"""The data dictionary: every table and column with its type (of `schemas`), unit, meaning and when it is null."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analysis.errors import AnalysisError
from analysis.record.schemas import TABLES

FILE = Path(__file__).with_name("dictionary.yaml")
HEAD = """# Tables

Parquet in `tables/<table>.parquet/` of every analysed series; `barograph sql "select …"` asks all series together,
with the columns `experiment` and `series_id` before each table's own. `barograph sql --tables` and `--describe TABLE`
show this page on a terminal. It is written by `python -m analysis.query.dictionary > docs/tables.md`, and a test
holds it to `analysis/record/schemas.py`.

A measurement that is missing is null, never 0. Columns that end in `_s` are seconds (`t_s`, `zero_s`, `started_s`:
since the epoch), in `_ms` milliseconds. The key tells the rows of a table apart within one series; across series it is
the key with `series_id`.
"""


@dataclass(frozen=True)
class Column:
    """`unit` is empty where there is none; `null` says when the value is missing, empty where it never is."""

    name: str
    type: str
    unit: str
    means: str
    null: str


@dataclass(frozen=True)
class Table:
    name: str
    means: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]


@cache
def tables() -> dict[str, Table]:
    """Every declared table, in the order of the schemas."""
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: _table(name, document["tables"].get(name, {}), document["common"]) for name in TABLES}


def column_types(table: str) -> list[tuple[str, str]]:
    """Columns of a table with their Spark types, in order."""
    pairs = (column.split(" ", 1) for column in TABLES[table].split(", "))
    return [(name.strip("`"), kind) for name, kind in pairs]


def _table(name: str, said: dict[str, Any], common: dict[str, list[str]]) -> Table:
    own = said.get("columns", {})
    names = [column for column, _ in column_types(name)]
    unsaid = [column for column in names if column not in own and column not in common]
    unknown = sorted({*own, *said.get("key", ())} - set(names))
    if unsaid or unknown or not said.get("key"):
        raise AnalysisError(
            f"{FILE}: table {name}: without a meaning: {', '.join(unsaid) or 'none'};"
            f" not in analysis/record/schemas.py:"
            f" {', '.join(unknown) or 'none'}; give every column [unit, meaning, when it is null], and the table a key"
        )
    columns = (_column(column, kind, own.get(column) or common[column]) for column, kind in column_types(name))
    return Table(name, said["means"], tuple(said["key"]), tuple(columns))


def _column(name: str, kind: str, said: list[str]) -> Column:
    return Column(name, kind, str(said[0]), said[1], said[2] if len(said) > 2 else "")


def markdown() -> str:
    """docs/tables.md."""
    return "\n".join([HEAD, *(line for table in tables().values() for line in _section(table))]).rstrip() + "\n"


def _section(table: Table) -> Iterator[str]:
    key = ", ".join(f"`{name}`" for name in table.key)
    yield f"## {table.name}\n{table.means[0].upper()}{table.means[1:]}. Key: {key}.\n"
    yield "| column | type | unit | meaning | null when |\n|---|---|---|---|---|"
    for column in table.columns:
        cells = (f"`{column.name}`", column.type, column.unit, column.means, column.null)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


if __name__ == "__main__":
    print(markdown(), end="")
