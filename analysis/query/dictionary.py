"""The data dictionary as a page: every table and column with its type, unit, meaning and when it is null."""

from collections.abc import Iterator

from analysis.record.columns import Table
from analysis.record.schemas import TABLES

HEAD = """# Tables

Parquet in `tables/<table>.parquet/` of every analysed series; `barograph sql "select …"` asks all series together,
with the columns `experiment` and `series_id` before each table's own. `barograph sql --tables` and `--describe TABLE`
show this page on a terminal. A view has no files: its rows are made of `worker_lines` when they are asked for, by
`barograph sql`; another program unnests the group's columns side by side. This page is written from
`analysis/record/schemas.py` by `python -m analysis.query.dictionary > docs/tables.md`; a test compares the two.

A measurement that is missing is null, never 0. Columns that end in `_s` are seconds (`t_s`, `zero_s`, `started_s`:
since the epoch), in `_ms` milliseconds. The key tells the rows of a table apart within one series; across series it is
the key with `series_id`.
"""


def markdown() -> str:
    """docs/tables.md."""
    return "\n".join([HEAD, *(line for table in TABLES.values() for line in _section(table))]).rstrip() + "\n"


def _section(table: Table) -> Iterator[str]:
    key = ", ".join(f"`{name}`" for name in table.key)
    view = " A view of `worker_lines`." if table.group else ""
    yield f"## {table.name}\n{table.meaning[0].upper()}{table.meaning[1:]}. Key: {key}.{view}\n"
    yield "| column | type | unit | meaning | null when |\n|---|---|---|---|---|"
    for column in table.columns:
        cells = (f"`{column.name}`", column.type.replace("`", ""), column.unit, column.meaning, column.null_when)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


if __name__ == "__main__":
    print(markdown(), end="")
