"""The results as a plain list, for whoever may not see all of them, and where no index has been written yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dags.plugin.ownership import COMPARISONS, NIGHTS, dag_of, experiments
from dags.plugin.seen import REPORTS

SHOWN = 20  # the newest series of each experiment


@dataclass(frozen=True)
class Row:
    name: str
    text: str
    report: str | None  # below the results


@dataclass(frozen=True)
class Group:
    title: str
    rows: tuple[Row, ...]
    older: int = 0


def groups(root: Path, may_read: Callable[[str], bool]) -> tuple[Group, ...]:
    """One for each experiment, comparison and suite whose DAG may be read; newest first within."""
    folders = [folder for folder in experiments(root) if may_read(dag_of(f"{folder}/any") or "")]
    found = (_nights(root, folder) if folder.startswith(f"{NIGHTS}/") else _series(root, folder) for folder in folders)
    return tuple(group for group in found if group.rows)


def _series(root: Path, folder: str) -> Group:
    series = sorted((path.parent for path in (root / folder).glob("*/series.json")), reverse=True)
    kind = "Comparison" if folder.startswith(f"{COMPARISONS}/") else "Experiment"
    return Group(f"{kind} {folder}", tuple(_row(root, path) for path in series[:SHOWN]), max(0, len(series) - SHOWN))


def _row(root: Path, series: Path) -> Row:
    report = next((series / name for name in REPORTS if (series / name).is_file()), None)
    return Row(series.name, _when(series.name), None if report is None else report.relative_to(root).as_posix())


def _when(series_id: str) -> str:
    """`2026-11-21 08:45:01` of `20261121-084501-a1b2c3d4`; as it is where it has no date."""
    day, _, rest = series_id.partition("-")
    time = rest.partition("-")[0]
    if len(day) != 8 or len(time) != 6 or not (day + time).isdigit():
        return series_id
    return f"{day[:4]}-{day[4:6]}-{day[6:]} {time[:2]}:{time[2:4]}:{time[4:]} UTC"


def _nights(root: Path, folder: str) -> Group:
    suite = root / folder
    index = [Row("index", "All nights", f"{folder}/index.html")] if (suite / "index.html").is_file() else []
    pages = sorted((suite / "nights").glob("*.html"), reverse=True)
    rows = [Row(page.stem, _when(page.stem), page.relative_to(root).as_posix()) for page in pages[:SHOWN]]
    return Group(f"Nights of {suite.name}", (*index, *rows), max(0, len(pages) - SHOWN))
