"""Small tables straight from Parquet: figures and reports show what is bounded by runs x windows."""

from typing import Any

from analysis.record import SeriesPaths

Row = dict[str, Any]


def rows(paths: SeriesPaths, name: str) -> list[Row]:
    """All rows of a table; none where it was not built, as in series that an older version analysed."""
    import pyarrow.dataset as ds

    folder = paths.table(name)
    if not folder.is_dir() or not any(folder.glob("*.parquet")):
        return []
    found: list[Row] = ds.dataset(str(folder), format="parquet").to_table().to_pylist()
    return found


def by_run(found: list[Row]) -> dict[str, list[Row]]:
    """Rows of each run, in the order given."""
    split: dict[str, list[Row]] = {}
    for row in found:
        split.setdefault(row["run_id"], []).append(row)
    return split
