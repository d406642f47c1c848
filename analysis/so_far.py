"""The measurements of a series that goes on, between two of its blocks: only runs that are new are parsed.

`.so_far/` of the series looks like a series: the few tables that a comparison is made of, and links to the documents. A
row depends on its run alone, so those that are there stay. A full analysis replaces none of it and needs none of it.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import small_tables
from analysis.record import RunPaths, SeriesPaths, is_complete, read_json, write_json_atomic
from analysis.small_tables import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = ".so_far"  # hidden: not a part of what is stored elsewhere
PARSED = "parsed.json"
TABLES = ("measurements", "scale_events")
LINKED = ("series.json", "comparison.json", "runs")


def update(series_dir: Path, start: Callable[[int], "SparkSession"]) -> Path:
    """The folder, with the rows of every complete run in it. `start` is called with the bytes that there are to parse;
    where nothing is new it is not.
    """
    series, target = SeriesPaths(series_dir), SeriesPaths(series_dir / FOLDER)
    _link(target)
    known = _known(target)
    complete = {run.run_id: _stamp(run) for run in series.all_runs() if is_complete(run.root)}
    new = [run for run, stamp in complete.items() if known.get(run) != stamp]
    found = _measured(series, target, new, start) if new else {}
    _write_runs(series, target)
    for name in TABLES:
        kept = [
            row for row in small_tables.rows(target, name) if row["run_id"] in complete and row["run_id"] not in new
        ]
        small_tables.write(target, name, [*kept, *found.get(name, ())])
    write_json_atomic(target.root / PARSED, {"v": 1, "runs": complete})
    return target.root


def _measured(
    series: SeriesPaths, target: SeriesPaths, runs: list[str], start: Callable[[int], "SparkSession"]
) -> dict[str, list[Row]]:
    """Rows of these runs by table, from a series of their own that is gone afterwards."""
    from analysis import metrics, tables

    part = SeriesPaths(target.root / "new")
    shutil.rmtree(part.root, ignore_errors=True)
    part.runs.mkdir(parents=True)
    for run in runs:
        (part.runs / run).symlink_to(series.run(run).root.absolute(), target_is_directory=True)
    spark = start(part.raw_bytes())
    try:
        tables.build(spark, part)
        metrics.build(spark, part)
        return {name: small_tables.rows(part, name) for name in TABLES}
    finally:
        shutil.rmtree(part.root, ignore_errors=True)


def _write_runs(series: SeriesPaths, target: SeriesPaths) -> None:
    """Also of runs that failed: which ones there are is a part of the answer."""
    from analysis.tables import load_run, run_row

    small_tables.write(target, "runs", [run_row(run.run_id, load_run(run)) for run in series.all_runs()])


def _link(target: SeriesPaths) -> None:
    target.root.mkdir(exist_ok=True)
    for name in LINKED:
        link = target.root / name
        if not link.is_symlink():
            link.symlink_to(Path("..") / name)


def _known(target: SeriesPaths) -> Mapping[str, Any]:
    path = target.root / PARSED
    return read_json(path)["runs"] if path.is_file() else {}


def _stamp(run: RunPaths) -> list[Any]:
    """Another attempt under the same id is another run."""
    document = read_json(run.run_json)
    return [document.get("attempt"), document.get("started_s")]
