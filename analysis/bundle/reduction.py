"""Reduce a series to one of its runs: rows of other runs are left out of every table, and its report is made
again.

The run's records are links, so that pages are made without changing the records.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from analysis.record.files import TRACES, SeriesPaths, read_json, write_json_atomic
from analysis.record.schemas import TABLES
from barograph.errors import ConfigurationError

RUN_PAGE_FILES = ("report.html", "figures")


def link_runs(source: SeriesPaths, target: SeriesPaths, run_ids: Iterable[str]) -> None:
    """Give each run a new folder with links to its records, without derived files."""
    for run_id in run_ids:
        folder = target.run(run_id).root
        folder.mkdir(parents=True)
        for path in sorted(source.run(run_id).root.iterdir()):
            if path.name not in RUN_PAGE_FILES:
                (folder / path.name).symlink_to(path.resolve())


def files_of_run_page(run: Path) -> list[Path]:
    """Return the existing files of a run's page and beside it."""
    page, figures = (run / name for name in RUN_PAGE_FILES)
    return [*([page] if page.is_file() else []), *sorted(path for path in figures.rglob("*") if path.is_file())]


# Files about the whole series: they are made again for the one run, or left out.
SERIES_FILES = ("claims.json", "report.html", "report.json")


@contextmanager
def reduce_to_run(root: Path, run_id: str, scratch: Path) -> Iterator[Path]:
    """Yield a folder below `scratch` with the reduced series."""
    source = SeriesPaths(root)
    run_ids = [run.run_id for run in source.all_runs()]
    if run_id not in run_ids:
        raise ConfigurationError(f"{root.name} has no run {run_id!r}; it has {', '.join(run_ids) or 'none'}")
    target = SeriesPaths(scratch / root.name)
    link_runs(source, target, [run_id])
    for path in sorted(root.iterdir()):
        if path.is_file() and path.name not in SERIES_FILES and not path.name.startswith("comparison"):
            shutil.copyfile(path, target.root / path.name)
        elif path.name == TRACES:
            shutil.copytree(path, target.root / TRACES)
    document = read_json(target.series_json)
    write_json_atomic(target.series_json, document | {"runs": [run_id], "reduced_from": document.get("runs", run_ids)})
    for name in TABLES:
        _filter_table(source.table(name), target.table(name), run_id)
    _report(target.root)
    yield target.root


def _filter_table(source: Path, target: Path, run_id: str) -> None:
    """Copy the rows of one run, in pieces."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    if not any(source.glob("*.parquet")):
        return
    target.mkdir(parents=True)
    dataset = ds.dataset(sorted(str(path) for path in source.glob("*.parquet")), format="parquet")
    # One piece after the other, so that the order of rows is always the same.
    scanner = dataset.scanner(filter=pc.field("run_id") == run_id, use_threads=False)
    with pq.ParquetWriter(target / "part-0.parquet", dataset.schema) as writer:
        for batch in scanner.to_batches():
            if batch.num_rows:
                writer.write_batch(batch)


def _report(root: Path) -> None:
    from analysis.report import series_page

    series_page.build_report(root)
