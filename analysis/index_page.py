"""`index.html` of a folder of results: every experiment with its series, comparisons, nights, reports of families.

It reads small JSON files only, and those of the newest series only, so that it stays cheap when there are thousands.
Links are relative: the folder can be moved, or served, as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from analysis import page, summary
from analysis.errors import RecordError
from analysis.record import read_json

TEMPLATE = "index.html.j2"
FILE = "index.html"
COMPARISONS, NIGHTLY = "compare", "nightly"
SHOWN = 20  # series of an experiment of which the summary is read; of older ones the name says when they were
NAMED = 200  # older ones that are listed at all


@dataclass(frozen=True)
class Series:
    """One series as the index lists it; `runs` and what follows is None where it was never analysed."""

    series_id: str
    begun: str
    link: str | None  # of its report
    runs: str | None
    not_complete: str
    verdicts: tuple[tuple[str, int], ...]
    said: str = ""  # of a comparison: its sentence
    comparison: str | None = None  # the comparison's own page


@dataclass(frozen=True)
class Experiment:
    name: str
    title: str
    series: tuple[Series, ...]
    older: tuple[tuple[str, str | None], ...]  # id and link of its report
    unlisted: int


@dataclass(frozen=True)
class Suite:
    """Nights of a suite: how many there are and what became of the newest."""

    name: str
    nights: int
    newest: str
    link: str | None


@dataclass(frozen=True)
class Content:
    families: tuple[tuple[str, str | None, tuple[Experiment, ...]], ...]  # name, link of its report, experiments
    comparisons: tuple[Experiment, ...]
    suites: tuple[Suite, ...]
    written: str


def write(root: Path, now_s: float) -> Path:
    return page.write(root / FILE, page.rendered(TEMPLATE, c=collect(root, now_s)))


def collect(root: Path, now_s: float) -> Content:
    found: dict[str, list[Experiment]] = {}
    for family, folder in _experiments(root):
        found.setdefault(family, []).append(experiment(root, folder))
    return Content(
        tuple(
            (family, _link(root, root / family / "report.html"), tuple(mine))
            for family, mine in found.items() if family != COMPARISONS
        ),
        tuple(found.get(COMPARISONS, ())),
        tuple(suite(root, folder) for folder in _folders(root / NIGHTLY) if (folder / "nights").is_dir()),
        f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def _experiments(root: Path) -> Iterator[tuple[str, Path]]:
    """(family, folder) of everything that has a series."""
    for family in _folders(root):
        for folder in _folders(family):
            if any(_has_series(series) for series in folder.iterdir()):
                yield family.name, folder


def _folders(folder: Path) -> list[Path]:
    """By name; without what is hidden."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _has_series(folder: Path) -> bool:
    return (folder / "series.json").is_file()


def experiment(root: Path, folder: Path) -> Experiment:
    """Newest series first: an id begins with its time."""
    every = sorted((path for path in folder.iterdir() if _has_series(path)), key=lambda path: path.name, reverse=True)
    shown = [_document(path / summary.FILE) for path in every[:SHOWN]]
    title = next((document["title"] for document in shown if document and document.get("title")), None)
    return Experiment(
        f"{folder.parent.name}/{folder.name}", str(title or _title(every[0])),
        tuple(series(root, path, document) for path, document in zip(every, shown, strict=False)),
        tuple((path.name, _link(root, path / "report.html")) for path in every[SHOWN:SHOWN + NAMED]),
        max(0, len(every) - SHOWN - NAMED),
    )  # fmt: skip


def series(root: Path, folder: Path, document: Mapping[str, Any] | None) -> Series:
    compared = _document(folder / "comparison_result.json")
    known = document or {}
    verdicts = known.get("verdicts") or {}
    return Series(
        folder.name, begun(known.get("begun_s"), folder.name), _link(root, folder / "report.html", document),
        f"{known['complete']} of {known['runs']}" if "runs" in known else None,
        ", ".join(f"{number} {why}" for why, number in (known.get("not_complete") or {}).items()),
        tuple((verdict, verdicts[verdict]) for verdict in summary.VERDICTS if verdicts.get(verdict)),
        str((compared or {}).get("sentence") or ""), _link(root, folder / "comparison.html", compared),
    )  # fmt: skip


def begun(begun_s: float | None, series_id: str) -> str:
    """When the first run began; a series that has none yet says when it was opened, in its id."""
    if begun_s is not None:
        return f"{datetime.fromtimestamp(begun_s, UTC):%Y-%m-%d %H:%M}"
    try:
        return f"{datetime.strptime(series_id[:15], '%Y%m%d-%H%M%S').replace(tzinfo=UTC):%Y-%m-%d %H:%M}"
    except ValueError:
        return "–"


def suite(root: Path, folder: Path) -> Suite:
    nights = sorted(folder.glob("nights/*.json"), key=lambda path: path.name)
    newest = _document(nights[-1]) if nights else None
    told = f"{newest.get('night')}: {newest.get('status')}" if newest else "none yet"
    return Suite(folder.name, len(nights), told, _link(root, folder / "index.html"))


def _title(series_dir: Path) -> str:
    return str(((_document(series_dir / "series.json") or {}).get("spec") or {}).get("title") or "")


def _document(path: Path) -> dict[str, Any] | None:
    """None for what is not there, or cannot be read: the index shows what it can."""
    try:
        return read_json(path) if path.is_file() else None
    except RecordError:
        return None


def _link(root: Path, target: Path, said: Mapping[str, Any] | None = None) -> str | None:
    """`said`: what was written beside it; of a series in a bucket that is here, and the page where the index goes."""
    return quote(target.relative_to(root).as_posix()) if said is not None or target.is_file() else None
