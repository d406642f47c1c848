"""A series with one of its runs: the other runs' rows are left out of every table, and its report is made anew."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.bundle.linking import link_runs
from analysis.errors import BundleError
from analysis.record import SeriesPaths, read_json, write_json_atomic
from analysis.schemas import TABLES

# Of the whole series: they are made again of the one run, or are about all of them.
OF_ALL_RUNS = ("claims.json", "report.html", "report.json")


@contextmanager
def reduced(root: Path, run_id: str, scratch: Path) -> Iterator[Path]:
    """A folder below `scratch` that is such a series while the block lasts."""
    whole = SeriesPaths(root)
    known = [run.run_id for run in whole.all_runs()]
    if run_id not in known:
        raise BundleError(f"{root.name} has no run {run_id!r}; it has {', '.join(known) or 'none'}")
    one = SeriesPaths(scratch / root.name)
    link_runs(whole, one, [run_id])
    for path in sorted(root.iterdir()):
        if path.is_file() and path.name not in OF_ALL_RUNS and not path.name.startswith("comparison"):
            shutil.copyfile(path, one.root / path.name)
    document = read_json(one.series_json)
    write_json_atomic(one.series_json, document | {"runs": [run_id], "reduced_from": document.get("runs", known)})
    for name in TABLES:
        _filter(whole.table(name), one.table(name), run_id)
    _report(one.root)
    yield one.root


def _filter(source: Path, target: Path, run_id: str) -> None:
    """Rows of one run, read and written in pieces."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    if not any(source.glob("*.parquet")):
        return
    target.mkdir(parents=True)
    found = ds.dataset(sorted(str(path) for path in source.glob("*.parquet")), format="parquet")
    # One piece after the other: the same rows in the same order, whenever it is done.
    scanner = found.scanner(filter=pc.field("run_id") == run_id, use_threads=False)
    with pq.ParquetWriter(target / "part-0.parquet", found.schema) as writer:
        for batch in scanner.to_batches():
            if batch.num_rows:
                writer.write_batch(batch)


def _report(root: Path) -> None:
    from analysis import report

    report.build(root)
