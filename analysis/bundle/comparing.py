"""What was made again beside what is in the bundle: tables value by value, claims and figures' data too."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from itertools import chain, islice, zip_longest
from math import isclose, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.dictionary import tables

if TYPE_CHECKING:
    import pyarrow as pa

# Sums of many parts come in any order: the last digits of a float differ.
RELATIVE, ABSOLUTE = 1e-9, 1e-12
UNSEEN = ("script", "style")
MISSING = "(nothing)"


def table(name: str, ours: Path, theirs: Path) -> list[str]:
    """One line a difference of a stored table (a folder of Parquet); none where they are equal."""
    if ours.is_dir() != theirs.is_dir():
        return [f"table {name}: only {'in the bundle' if ours.is_dir() else 'made again'}"]
    if not ours.is_dir():
        return []
    left, right = _stored(ours), _stored(theirs)
    if left.schema.names != right.schema.names:
        return [f"table {name}: columns are {left.schema.names} in the bundle, {right.schema.names} made again"]
    if left.num_rows != right.num_rows:
        return [f"table {name}: {left.num_rows} rows in the bundle, {right.num_rows} made again"]
    key = [column for column in tables()[name].key if column in left.schema.names]
    left, right = (found.sort_by([(column, "ascending") for column in key]) for found in (left, right))
    return [line for column in left.schema.names for line in _column(name, column, key, left, right)]


def _stored(folder: Path) -> pa.Table:
    import pyarrow.dataset as ds

    return ds.dataset(sorted(str(path) for path in folder.glob("*.parquet")), format="parquet").to_table()


def _column(name: str, column: str, key: Sequence[str], left: pa.Table, right: pa.Table) -> Iterator[str]:
    if left[column].equals(right[column]):
        return
    pairs = zip(left[column].to_pylist(), right[column].to_pylist(), strict=True)
    unequal = [(row, a, b) for row, (a, b) in enumerate(pairs) if not same(a, b)]
    if unequal:
        row, a, b = unequal[0]
        where = ", ".join(f"{part} {left[part][row].as_py()}" for part in key)
        yield (
            f"table {name}: {len(unequal)} of {left.num_rows} values of {column} differ, first at {where}: {a!r} in the"
            f" bundle, {b!r} made again"
        )


def same(a: Any, b: Any) -> bool:
    """Equal, floats but for their last digits."""
    if isinstance(a, float) and isinstance(b, float):
        return isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (isnan(a) and isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def file(name: str, ours: Path, theirs: Path) -> tuple[list[str], list[str]]:
    """Differences, and what is only worth a word: a figure that says the same and is drawn with other fonts."""
    if not ours.is_file() or not theirs.is_file():
        return [f"{name}: only {'in the bundle' if ours.is_file() else 'made again'}"], []
    if ours.read_bytes() == theirs.read_bytes():
        return [], []
    parts = PARTS.get(ours.suffix)
    if parts is None:
        return [], [f"{name} is not of the same bytes; its data are compared as CSV and as a table"]
    for number, (a, b) in enumerate(zip_longest(parts(ours), parts(theirs), fillvalue=MISSING), start=1):
        if not same(a, b):
            return [f"{name}: differs, first in part {number}: {a!r} in the bundle, {b!r} made again"], []
    return [], [f"{name} says the same in other bytes (other fonts or versions)"]


def _cells(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", newline="") as text:
        yield from (_number(cell) for cell in chain.from_iterable(csv.reader(text)))


def _number(cell: str) -> str | float:
    try:
        return float(cell)
    except ValueError:
        return cell


def _words(path: Path) -> Iterator[Any]:
    reader = _Words()
    reader.feed(path.read_text(encoding="utf-8"))
    yield from map(_number, reader.words)


class _Words(HTMLParser):
    """What a page or a drawing says."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self._unseen += tag in UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in UNSEEN

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.words += data.split()


def _json(path: Path) -> Iterator[Any]:
    yield json.loads(path.read_text(encoding="utf-8"))


PARTS = {".csv": _cells, ".svg": _words, ".html": _words, ".json": _json}


def first(lines: Sequence[str], most: int) -> list[str]:
    """Not a screen full of the same."""
    more = len(lines) - most
    return [*islice(lines, most), *([f"… and {more} more"] if more > 0 else [])]
