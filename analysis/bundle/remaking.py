"""`python -m analysis.bundle.remaking BUNDLE TARGET`: tables, figures and report from a bundle's raw lines, compared.

Started by a bundle's `remake.py` with the code of that bundle. Exit codes: 0 equal, 1 something differs.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

from analysis.bundle import comparing
from analysis.bundle.content import RAW, SERIES
from analysis.record import SeriesPaths, read_json
from analysis.schemas import TABLES

MADE = ("claims.json", "report.html", "analysed.json")
SHOWN = 20


def remake(bundle: Path, target: Path) -> int:
    ours = SeriesPaths(bundle / SERIES)
    theirs = SeriesPaths(target / str(read_json(ours.series_json)["series_id"]))
    _lay_out(ours, theirs)
    if _has_raw(ours):
        _analyse(theirs)
    else:
        print("this bundle has no raw lines: figures and report are made again from its tables")
        shutil.copytree(ours.tables, theirs.tables)
        _report(theirs)
    differences, words = compare(ours, theirs)
    for line in words:
        print(f"note: {line}")
    for line in comparing.first(differences, SHOWN):
        print(f"differs: {line}")
    if not differences:
        print(f"equal: {_counted(ours)} made again are those of the bundle")
    return 1 if differences else 0


def _lay_out(ours: SeriesPaths, theirs: SeriesPaths) -> None:
    """A series of the bundle's runs, without anything that is made of them."""
    theirs.root.mkdir(parents=True)
    theirs.runs.symlink_to(ours.runs.resolve())
    for path in sorted(ours.root.glob("*.json")):
        if path.name not in MADE:
            shutil.copyfile(path, theirs.root / path.name)


def _has_raw(ours: SeriesPaths) -> bool:
    return any(any(run.root.glob(f"{part}/*")) for run in ours.all_runs() for part in RAW)


def _analyse(theirs: SeriesPaths) -> None:
    from analysis import analyse

    analyse(theirs.root)


def _report(theirs: SeriesPaths) -> None:
    from analysis import report

    report.build(theirs.root)


def compare(ours: SeriesPaths, theirs: SeriesPaths) -> tuple[list[str], list[str]]:
    """Every difference, and what is only worth a word."""
    differences = [line for name in TABLES for line in comparing.table(name, ours.table(name), theirs.table(name))]
    words: list[str] = []
    for name in _files(ours, theirs):
        unequal, told = comparing.file(name, ours.root / name, theirs.root / name)
        differences += unequal
        words += told
    return differences, words


def _files(ours: SeriesPaths, theirs: SeriesPaths) -> Iterator[str]:
    """The ledger, the report, and all that is in `figures/` on either side."""
    yield from ("claims.json", "report.html")
    yield from sorted({path.relative_to(side.root).as_posix()
                       for side in (ours, theirs) for path in side.figures.rglob("*") if path.is_file()})  # fmt: skip


def _counted(ours: SeriesPaths) -> str:
    figures = sum(1 for _ in ours.figures.rglob("*.svg"))
    return f"{sum(ours.table(name).is_dir() for name in TABLES)} tables, {figures} figures, the ledger and the report"


def main() -> int:
    parser = argparse.ArgumentParser(description="Started by a bundle's remake.py.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    return remake(given.bundle.resolve(), given.target.resolve())


if __name__ == "__main__":
    raise SystemExit(main())
