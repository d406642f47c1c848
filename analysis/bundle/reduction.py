"""A series reduced to one of its runs: the rows of other runs are left out of every table, and its report is made
again.

The run's records are links, so that pages are made beside records that nobody touches.
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
    """Each run gets a folder of its own, with links to what was recorded and nothing that is made of it."""
    for run_id in run_ids:
        folder = target.run(run_id).root
        folder.mkdir(parents=True)
        for path in sorted(source.run(run_id).root.iterdir()):
            if path.name not in RUN_PAGE_FILES:
                (folder / path.name).symlink_to(path.resolve())


def files_of_run_page(run: Path) -> list[Path]:
    """The page of a run and what stands beside it, where they are there."""
    page, figures = (run / name for name in RUN_PAGE_FILES)
    return [*([page] if page.is_file() else []), *sorted(path for path in figures.rglob("*") if path.is_file())]


# Of the whole series: they are made again of the one run, or are about all of them.
SERIES_FILES = ("claims.json", "report.html", "report.json")


@contextmanager
def reduce_to_run(root: Path, run_id: str, scratch: Path) -> Iterator[Path]:
    """A folder below `scratch` that is such a series while the block lasts."""
    whole = SeriesPaths(root)
    run_ids = [run.run_id for run in whole.all_runs()]
    if run_id not in run_ids:
        raise ConfigurationError(f"{root.name} has no run {run_id!r}; it has {', '.join(run_ids) or 'none'}")
    reduced = SeriesPaths(scratch / root.name)
    link_runs(whole, reduced, [run_id])
    for path in sorted(root.iterdir()):
        if path.is_file() and path.name not in SERIES_FILES and not path.name.startswith("comparison"):
            shutil.copyfile(path, reduced.root / path.name)
        elif path.name == TRACES:
            shutil.copytree(path, reduced.root / TRACES)
    document = read_json(reduced.series_json)
    write_json_atomic(reduced.series_json, document | {"runs": [run_id], "reduced_from": document.get("runs", run_ids)})
    for name in TABLES:
        _filter_table(whole.table(name), reduced.table(name), run_id)
    _report(reduced.root)
    yield reduced.root


def _filter_table(source: Path, target: Path, run_id: str) -> None:
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
    from analysis.report import series_page

    series_page.build_report(root)
