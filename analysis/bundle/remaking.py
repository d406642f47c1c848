"""`python -m analysis.bundle.remaking BUNDLE TARGET`: tables, figures and report from a bundle's raw lines, compared.

Started by a bundle's `remake.py` with the code of that bundle. Exit codes: 0 equal, 10 something differs; any other is
a failure of its own, as Python's 1 is.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Collection
from pathlib import Path

from analysis import comparison
from analysis.bundle import comparing
from analysis.bundle.content import RAW, SERIES
from analysis.bundle.linking import link_runs, made_of
from analysis.record import SeriesPaths, read_json
from analysis.schemas import TABLES

MADE = ("claims.json", "report.html", "report.json", "analysed.json", "comparison_result.json", "comparison.html")
BESIDE = "beside"  # series that a comparison looks at too
SHOWN = 20
DIFFERS = 10


def remake(bundle: Path, target: Path) -> int:
    ours = SeriesPaths(bundle / SERIES)
    theirs = SeriesPaths(target / str(read_json(ours.series_json)["series_id"]))
    _lay_out(ours, theirs)
    for folder in (bundle / BESIDE).glob("*"):
        shutil.copytree(folder, target / folder.name)
    if _has_raw(ours):
        _analyse(theirs)
    else:
        print("this bundle has no raw lines: figures and report are made again from its tables")
        shutil.copytree(ours.tables, theirs.tables)
        _report(theirs)
    if comparison.is_comparison(theirs.root):
        comparison.write(theirs.root)
    differences, words = compare(ours, theirs, _without_logs(bundle))
    for line in words:
        print(f"note: {line}")
    for line in comparing.first(differences, SHOWN):
        print(f"differs: {line}")
    if not differences:
        print(f"equal: {_counted(ours)} made again are those of the bundle")
    return DIFFERS if differences else 0


def _lay_out(ours: SeriesPaths, theirs: SeriesPaths) -> None:
    """A series of the bundle's runs, without anything that is made of them."""
    theirs.runs.mkdir(parents=True)
    link_runs(ours, theirs, [run.run_id for run in ours.all_runs()])
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


def _without_logs(bundle: Path) -> Collection[str]:
    """Runs whose page was made of logs that stayed behind; `*`: all of them."""
    left_out = read_json(bundle / "environment.json").get("left_out") or {}
    return {name.split("/")[1] for name in left_out if name.startswith("runs/") and name.split("/")[2:3] == ["logs"]}


def compare(ours: SeriesPaths, theirs: SeriesPaths, without_logs: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Every difference, and what is only worth a word."""
    differences = [line for name in TABLES for line in comparing.table(name, ours.table(name), theirs.table(name))]
    words = []
    if without_logs:
        runs = ", ".join(sorted(without_logs))
        words.append(f"pages of runs ({runs}) tell of logs that stayed behind, and are not compared")
    for name in sorted(_made(ours, without_logs) | _made(theirs, without_logs)):
        unequal, told = comparing.file(name, ours.root / name, theirs.root / name)
        differences += unequal
        words += told
    return differences, words


def _made(side: SeriesPaths, without_logs: Collection[str]) -> set[str]:
    """All that is made of tables and records, below the series."""
    found = [side.root / name for name in MADE if name != "analysed.json" and (side.root / name).is_file()]
    found += [path for path in side.figures.rglob("*") if path.is_file()]
    for run in side.all_runs():
        if not {"*", run.run_id} & set(without_logs):
            found += made_of(run.root)
    return {path.relative_to(side.root).as_posix() for path in found}


def _counted(ours: SeriesPaths) -> str:
    figures = sum(1 for _ in ours.figures.rglob("*.svg"))
    tables = sum(ours.table(name).is_dir() for name in TABLES)
    return f"{tables} tables, {figures} figures, the ledger and all pages"


def main() -> int:
    parser = argparse.ArgumentParser(description="Started by a bundle's remake.py.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args()
    return remake(given.bundle.resolve(), given.target.resolve())


if __name__ == "__main__":
    raise SystemExit(main())
