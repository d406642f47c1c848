"""What this process has, as Spark's DataFrames; nothing is pickled, for that starts Python workers, on a cluster too.

`createDataFrame` of a list does it, however short the list is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.small_tables import arrow_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def of_rows(spark: "SparkSession", rows: Sequence[Sequence[Any]], declared: str) -> "DataFrame":
    """`declared`: flat columns and their types, in the order of each row's values."""
    import pyarrow as pa

    if not rows:
        return empty(spark, declared)
    schema = arrow_columns(declared)
    arrays = [pa.array(values, type=field.type) for field, values in zip(schema, zip(*rows, strict=True), strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema), declared)


def empty(spark: "SparkSession", declared: str) -> "DataFrame":
    """No row of these columns, of whatever types."""
    from pyspark.sql import functions as f

    nothing = f.from_json(f.lit(None).cast("string"), declared)
    return spark.range(0).select(nothing.alias("row")).select("row.*")
