"""`python -m analysis.bundle.reproduction BUNDLE TARGET`: make tables, figures and report from a bundle's raw lines and
compare them with those in the bundle: tables value by value, also claims and the data of figures.

A bundle's `remake.py` starts it with the code of that bundle. Exit codes: 0 equal, 10 something differs; any other
code is a failure, for example Python's 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Collection, Iterator, Sequence
from html.parser import HTMLParser
from itertools import chain, islice, zip_longest
from math import isclose, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis import compare as analysis_compare
from analysis.bundle.content import RAW_FOLDERS, SERIES
from analysis.bundle.reduction import files_of_run_page, link_runs
from analysis.compare import question
from analysis.record.files import SeriesPaths, read_json
from analysis.record.schemas import TABLES

if TYPE_CHECKING:
    import pyarrow as pa


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
    left, right = _read_table(ours), _read_table(theirs)
    if left.schema.names != right.schema.names:
        return [f"table {name}: columns are {left.schema.names} in the bundle, {right.schema.names} made again"]
    if left.num_rows != right.num_rows:
        return [f"table {name}: {left.num_rows} rows in the bundle, {right.num_rows} made again"]
    key = [column for column in TABLES[name].key if column in left.schema.names]
    left, right = (table.sort_by([(column, "ascending") for column in key]) for table in (left, right))
    return [line for column in left.schema.names for line in _column_differences(name, column, key, left, right)]


def _read_table(folder: Path) -> pa.Table:
    import pyarrow.dataset as ds

    return ds.dataset(sorted(str(path) for path in folder.glob("*.parquet")), format="parquet").to_table()


def _column_differences(name: str, column: str, key: Sequence[str], left: pa.Table, right: pa.Table) -> Iterator[str]:
    if left[column].equals(right[column]):
        return
    pairs = zip(left[column].to_pylist(), right[column].to_pylist(), strict=True)
    changes = [(row, a, b) for row, (a, b) in enumerate(pairs) if not equal_values(a, b)]
    if changes:
        row, a, b = changes[0]
        place = ", ".join(f"{part} {left[part][row].as_py()}" for part in key)
        yield (
            f"table {name}: {len(changes)} of {left.num_rows} values of {column} differ, first at {place}: {a!r} in the"
            f" bundle, {b!r} made again"
        )


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


def _json_parts(path: Path) -> Iterator[Any]:
    yield json.loads(path.read_text(encoding="utf-8"))


PARTS = {".csv": _csv_parts, ".svg": _page_parts, ".html": _page_parts, ".json": _json_parts}


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines, and the number of the others."""
    remainder = len(lines) - most
    return [*islice(lines, most), *([f"… and {remainder} more"] if remainder > 0 else [])]


OUTPUT_FILES = (
    "claims.json",
    "report.html",
    "report.json",
    "analysed.json",
    "comparison_result.json",
    "comparison.html",
)
BESIDE = "beside"  # other series that a comparison uses
MOST_DIFFERENCES = 20
DIFFERS = 10


def remake(bundle: Path, target: Path) -> int:
    packed = SeriesPaths(bundle / SERIES)
    remade = SeriesPaths(target / str(read_json(packed.series_json)["series_id"]))
    _lay_out(packed, remade)
    for folder in (bundle / BESIDE).glob("*"):
        shutil.copytree(folder, target / folder.name)
    if _has_raw(packed):
        _analyse(remade)
    else:
        print("this bundle has no raw lines: figures and report are made again from its tables")
        shutil.copytree(packed.tables, remade.tables)
        _report(remade)
    if question.is_comparison(remade.root):
        analysis_compare.write(remade.root)
    differences, words = series_differences(packed, remade, _runs_without_logs(bundle))
    for line in words:
        print(f"note: {line}")
    for line in first_lines(differences, MOST_DIFFERENCES):
        print(f"differs: {line}")
    if not differences:
        print(f"equal: {_summary(packed)} made again are those of the bundle")
    return DIFFERS if differences else 0


def _lay_out(ours: SeriesPaths, theirs: SeriesPaths) -> None:
    """Lay out a series with the bundle's runs, without derived files."""
    theirs.runs.mkdir(parents=True)
    link_runs(ours, theirs, [run.run_id for run in ours.all_runs()])
    for path in sorted(ours.root.glob("*.json")):
        if path.name not in OUTPUT_FILES:
            shutil.copyfile(path, theirs.root / path.name)


def _has_raw(ours: SeriesPaths) -> bool:
    return any(any(run.root.glob(f"{part}/*")) for run in ours.all_runs() for part in RAW_FOLDERS)


def _analyse(theirs: SeriesPaths) -> None:
    from analysis.ingest import avro_jar
    from analysis.pipeline import analyse

    analyse(theirs.root, jars=(avro_jar.BUNDLED,) if avro_jar.BUNDLED.is_file() else ())


def _report(theirs: SeriesPaths) -> None:
    from analysis.report import series_page

    series_page.build_report(theirs.root)


def _runs_without_logs(bundle: Path) -> Collection[str]:
    """Return runs whose page was made from logs that are not in the bundle; `*`: all of them."""
    omissions = read_json(bundle / "environment.json").get("left_out") or {}
    return {name.split("/")[1] for name in omissions if name.startswith("runs/") and name.split("/")[2:3] == ["logs"]}


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


def _summary(ours: SeriesPaths) -> str:
    figures = sum(1 for _ in ours.figures.rglob("*.svg"))
    tables = sum(ours.table(name).is_dir() for name in TABLES)
    return f"{tables} tables, {figures} figures, the ledger and all pages"


def main() -> int:
    parser = argparse.ArgumentParser(description="Started by a bundle's remake.py.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    return remake(options.bundle.resolve(), options.target.resolve())


if __name__ == "__main__":
    raise SystemExit(main())
