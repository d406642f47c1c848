"""Every table, by its name: those declared in record_tables.py and metric_tables.py, and `worker_lines`, the
source of the views of workers' samples.

Parquet files, Spark's schemas and `barograph sql --describe` are made from this. Null: not measured.
"""

from collections.abc import Sequence
from dataclasses import replace

from analysis.record.columns import LINE, RUN_ID, Column, Table
from analysis.record.metric_tables import METRIC_TABLES
from analysis.record.record_tables import RECORD_TABLES

DECLARED = (*RECORD_TABLES, *METRIC_TABLES)
IN_EVERY_LINE = ("run_id", "t_s", "dt_s", "machine", "port", "topology")


def group_fields(view: Table) -> list[str]:
    """Return the columns of a view that belong to its group."""
    return [column.name for column in view.columns if column.name not in IN_EVERY_LINE]


def _group(table: Table) -> Column:
    names = group_fields(table)
    fields = [f"`{column.name}`:array<{column.type}>" for column in table.columns if column.name in names]
    null_text = "the line has none of them; damaged lines"
    return Column(table.group, f"struct<{','.join(fields)}>", "", f"columns of `{table.name}`, equally long", null_text)


def _worker_lines(views: Sequence[Table]) -> Table:
    (line_view,) = (table for table in views if table.group == LINE)
    line_columns = [replace(column, null_when=column.null_when or "damaged lines") for column in line_view.columns[1:]]
    columns = (
        RUN_ID,
        Column("file", "string", "", "path below the run's folder"),
        *line_columns,
        *(_group(table) for table in views if table.group != LINE),
        Column("damaged_text", "string", "", "beginning of a damaged line", "the line is not damaged"),
    )
    meaning = "one row a line of a worker, damaged ones too, as it was written; what the other tables of workers are of"
    return Table("worker_lines", meaning, ("run_id", "file", "t_s", "pid", "seq", "damaged_text"), columns)


WORKER_LINES = _worker_lines([table for table in DECLARED if table.group])
TABLES = {table.name: table for table in (WORKER_LINES, *DECLARED)}
# A row a line or sample: only Spark reads them.
LARGE_TABLES = {"worker_lines", "machine_samples", "network_samples", "placements"}
STORED = tuple(name for name, table in TABLES.items() if not table.group)
GROUPS = {table.group: name for name, table in TABLES.items() if table.group not in ("", LINE)}
