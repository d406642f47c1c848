"""`python -m analysis.bundle.reproduction BUNDLE TARGET`: make tables, figures and report from a bundle's raw lines and
compare them with those in the bundle: tables value by value, also claims and the data of figures. And the reduction of
a series to one of its runs: its report is made again, and its records are links, which stay as they are.

A bundle's `remake.py` starts it with the code of that bundle. Exit codes: 0 equal, 10 something differs; any other
code is a failure, for example Python's 1.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from itertools import chain, zip_longest
from math import isclose, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import compare as analysis_compare
from analysis.bundle.content import RAW_FOLDERS, SERIES
from analysis.compare import question
from analysis.record.files import TRACES, SeriesPaths, read_json, write_json_atomic
from analysis.record.schemas import TABLES
from barograph.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow.dataset as ds


# Sums are added in any order, so the last digits of a float differ.
RELATIVE, ABSOLUTE = 1e-9, 1e-12
INVISIBLE_TAGS = ("script", "style")
NO_PART = "(nothing)"


def table_differences(name: str, ours: Path, theirs: Path) -> list[str]:
    """Return one line for each difference of a stored table (a folder of Parquet); none if they are equal."""
    if ours.is_dir() != theirs.is_dir():
        return [f"table {name}: only {'in the bundle' if ours.is_dir() else 'made again'}"]
    if not ours.is_dir():
        return []
    left, right = _dataset(ours).to_table(), _dataset(theirs).to_table()
    if left.schema.names != right.schema.names:
        return [f"table {name}: columns are {left.schema.names} in the bundle, {right.schema.names} made again"]
    if left.num_rows != right.num_rows:
        return [f"table {name}: {left.num_rows} rows in the bundle, {right.num_rows} made again"]
    key = [column for column in TABLES[name].key if column in left.schema.names]
    left, right = (table.sort_by([(column, "ascending") for column in key]) for table in (left, right))
    lines = []
    for column in left.schema.names:
        if left[column].equals(right[column]):
            continue
        pairs = zip(left[column].to_pylist(), right[column].to_pylist(), strict=True)
        changes = [(row, a, b) for row, (a, b) in enumerate(pairs) if not equal_values(a, b)]
        if changes:
            row, a, b = changes[0]
            place = ", ".join(f"{part} {left[part][row].as_py()}" for part in key)
            lines.append(
                f"table {name}: {len(changes)} of {left.num_rows} values of {column} differ, first at {place}: {a!r} in"
                f" the bundle, {b!r} made again"
            )
    return lines


def _dataset(folder: Path) -> ds.Dataset:
    import pyarrow.dataset as ds

    return ds.dataset(sorted(str(path) for path in folder.glob("*.parquet")), format="parquet")


def equal_values(a: Any, b: Any) -> bool:
    """Return whether the values are equal, floats but for their last digits."""
    if isinstance(a, float) and isinstance(b, float):
        return isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (isnan(a) and isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal_values(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal_values, a, b))
    return bool(a == b)


def file_differences(name: str, ours: Path, theirs: Path) -> tuple[list[str], list[str]]:
    """Return differences, and remarks: a figure with the same content that is drawn with other fonts."""
    if not ours.is_file() or not theirs.is_file():
        return [f"{name}: only {'in the bundle' if ours.is_file() else 'made again'}"], []
    if ours.read_bytes() == theirs.read_bytes():
        return [], []
    parts = PARTS.get(ours.suffix)
    if parts is None:
        return [], [f"{name} is not of the same bytes; its data are compared as CSV and as a table"]
    for number, (a, b) in enumerate(zip_longest(parts(ours), parts(theirs), fillvalue=NO_PART), start=1):
        if not equal_values(a, b):
            return [f"{name}: differs, first in part {number}: {a!r} in the bundle, {b!r} made again"], []
    return [], [f"{name} says the same in other bytes (other fonts or versions)"]


def _csv_parts(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", newline="") as text:
        yield from (_number(cell) for cell in chain.from_iterable(csv.reader(text)))


def _number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def _page_parts(path: Path) -> Iterator[Any]:
    reader = _WordParser()
    reader.feed(path.read_text(encoding="utf-8"))
    yield from map(_number, reader.words)


class _WordParser(HTMLParser):
    """Collect the words of a page or a drawing."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self._unseen += tag in INVISIBLE_TAGS

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in INVISIBLE_TAGS

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.words += data.split()


PARTS: dict[str, Callable[[Path], Iterable[Any]]] = {
    ".csv": _csv_parts, ".svg": _page_parts, ".html": _page_parts, ".json": lambda path: [read_json(path)],
}  # fmt: skip


ABOUT_SERIES = ("claims.json", "report.html", "report.json")  # of one run they are made again
OUTPUT_FILES = (*ABOUT_SERIES, "analysed.json", "comparison_result.json", "comparison.html")
BESIDE = "beside"  # other series that a comparison uses
MOST_DIFFERENCES = 20
DIFFERS = 10


def remake(bundle: Path, target: Path) -> int:
    packed = SeriesPaths(bundle / SERIES)
    remade = SeriesPaths(target / str(read_json(packed.series_json)["series_id"]))
    remade.runs.mkdir(parents=True)
    link_runs(packed, remade, [run.run_id for run in packed.all_runs()])
    for path in sorted(packed.root.glob("*.json")):
        if path.name not in OUTPUT_FILES:
            shutil.copyfile(path, remade.root / path.name)
    for folder in (bundle / BESIDE).glob("*"):
        shutil.copytree(folder, target / folder.name)
    if any(any(run.root.glob(f"{part}/*")) for run in packed.all_runs() for part in RAW_FOLDERS):
        from analysis.pipeline import analyse
        from analysis.storage import maven

        analyse(remade.root, jars=(maven.BUNDLED_AVRO,) if maven.BUNDLED_AVRO.is_file() else ())
    else:
        print("this bundle has no raw lines: figures and report are made again from its tables")
        shutil.copytree(packed.tables, remade.tables)
        _report(remade.root)
    if question.is_comparison(remade.root):
        analysis_compare.write(remade.root)
    # Pages of these runs were made from logs that are not in the bundle; `*`: of all of them.
    omissions = [name.split("/") for name in read_json(bundle / "environment.json").get("left_out") or {}]
    without_logs = {parts[1] for parts in omissions if parts[0] == "runs" and parts[2:3] == ["logs"]}
    differences, words = series_differences(packed, remade, without_logs)
    for line in words:
        print(f"note: {line}")
    for line in differences[:MOST_DIFFERENCES]:
        print(f"differs: {line}")
    if len(differences) > MOST_DIFFERENCES:
        print(f"differs: … and {len(differences) - MOST_DIFFERENCES} more")
    if not differences:
        figures = sum(1 for _ in packed.figures.rglob("*.svg"))
        tables = sum(packed.table(name).is_dir() for name in TABLES)
        print(f"equal: {tables} tables, {figures} figures, the ledger and all pages made again are those of the bundle")
    return DIFFERS if differences else 0


def _report(root: Path) -> None:
    from analysis.report import series_page

    series_page.build_report(root)


def series_differences(
    ours: SeriesPaths, theirs: SeriesPaths, without_logs: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Return every difference, and remarks."""
    differences = [line for name in TABLES for line in table_differences(name, ours.table(name), theirs.table(name))]
    words = []
    if without_logs:
        runs = ", ".join(sorted(without_logs))
        words.append(f"pages of runs ({runs}) tell of logs that stayed behind, and are not compared")
    for name in sorted(_outputs(ours, without_logs) | _outputs(theirs, without_logs)):
        file_lines, lines = file_differences(name, ours.root / name, theirs.root / name)
        differences += file_lines
        words += lines
    return differences, words


def _outputs(side: SeriesPaths, without_logs: Collection[str]) -> set[str]:
    """Return the files made from tables and records, relative to the series."""
    files = [side.root / name for name in OUTPUT_FILES if name != "analysed.json" and (side.root / name).is_file()]
    files += [path for path in side.figures.rglob("*") if path.is_file()]
    for run in side.all_runs():
        if not {"*", run.run_id} & set(without_logs):
            files += files_of_run_page(run.root)
    return {path.relative_to(side.root).as_posix() for path in files}


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


@contextmanager
def reduce_to_run(root: Path, run_id: str, scratch: Path) -> Iterator[Path]:
    """Yield a folder below `scratch` with the series reduced to one run: rows of others are left out of every table."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    source = SeriesPaths(root)
    run_ids = [run.run_id for run in source.all_runs()]
    if run_id not in run_ids:
        raise ConfigurationError(f"{root.name} has no run {run_id!r}; it has {', '.join(run_ids) or 'none'}")
    target = SeriesPaths(scratch / root.name)
    link_runs(source, target, [run_id])
    for path in sorted(root.iterdir()):
        if path.is_file() and path.name not in ABOUT_SERIES and not path.name.startswith("comparison"):
            shutil.copyfile(path, target.root / path.name)
        elif path.name == TRACES:
            shutil.copytree(path, target.root / TRACES)
    document = read_json(target.series_json)
    write_json_atomic(target.series_json, document | {"runs": [run_id], "reduced_from": document.get("runs", run_ids)})
    for name in TABLES:
        if not any(source.table(name).glob("*.parquet")):
            continue
        target.table(name).mkdir(parents=True)
        dataset = _dataset(source.table(name))
        # One piece after the other, so that the order of rows is always the same.
        scanner = dataset.scanner(filter=pc.field("run_id") == run_id, use_threads=False)
        with pq.ParquetWriter(target.table(name) / "part-0.parquet", dataset.schema) as writer:
            for batch in scanner.to_batches():
                if batch.num_rows:
                    writer.write_batch(batch)
    _report(target.root)
    yield target.root


def main() -> int:
    parser = argparse.ArgumentParser(description="Started by a bundle's remake.py.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    return remake(options.bundle.resolve(), options.target.resolve())


if __name__ == "__main__":
    raise SystemExit(main())
