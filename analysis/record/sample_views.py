"""The tables that are views of `worker_lines`, which has every line of a worker once, with its columns of values.

Nothing is stored twice, and a query reads only the columns that it names. See docs/decisions/measuring.md.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from analysis.record.columns import LINE
from analysis.record.schemas import IN_EVERY_LINE, TABLES, group_fields


def view(lines: DataFrame, name: str, beside: Sequence[str] = ()) -> DataFrame:
    """Return rows of a declared view, of intact lines only. `beside`: columns of `lines` to keep before its own."""
    table = TABLES[name]
    valid_lines = lines.where(f.col("damaged_text").isNull())
    if table.group == LINE:
        return valid_lines.select(*beside, *[column.name for column in table.columns])
    of_line = [*beside, *IN_EVERY_LINE]
    first, *rest = group_fields(table)
    entries = valid_lines.select(
        *of_line, table.group, f.posexplode(f"{table.group}.`{first}`").alias("position", first)
    )
    values = [f.get(f.col(f"{table.group}.`{other}`"), f.col("position")).alias(other) for other in rest]
    return entries.select(*of_line, f"`{first}`", *values)
