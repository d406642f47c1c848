"""`index.html` of a folder of results: every experiment with its series, comparisons, nights, reports of families.

It reads one small summary a series (report.json, written with the report) and no table or record, and only those of
the newest series, so that it stays cheap when there are thousands. Links are relative: the folder can be moved, or
served, as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from analysis.claims.ledger_rows import NOT_RUN, UNDECIDED, VERDICTS
from analysis.record.files import (
    COMPARISONS,
    COUNTERFACTUALS,
    NIGHTS,
    SeriesPaths,
    read_json_or_none,
    write_json_atomic,
)
from analysis.record.simulated import first_date_s, is_simulated, is_simulated_series
from analysis.record.small_tables import Row, rows
from analysis.report import page
from barograph.plan.blocks import STAMP_CHARACTERS, stamp_time
from barograph.plan.experiment import SIMULATED

SUMMARY_FILE = "report.json"


def summary_of(paths: SeriesPaths, ledger: Sequence[Row], headline: str) -> dict[str, Any]:
    """What the report says in short; `ledger` has the claims about its experiment, `headline` is its first sentence."""
    runs = rows(paths, "runs")
    return {
        "v": 1,
        "experiment": next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name),
        "title": spec_title(paths),
        "headline": headline,
        "series_id": paths.root.name,
        "begun_s": first_date_s(runs),
        "simulated": any(is_simulated(run) for run in runs),
        "runs": len(runs),
        "complete": sum(run["status"] == "complete" for run in runs),
        "not_complete": dict(
            sorted(Counter(_failure_text(run) for run in runs if run["status"] != "complete").items())
        ),
        "variants": sorted({run["variant"] for run in runs if run["variant"]}),
        "commits": sorted({run["git_commit"] for run in runs if run["git_commit"]}),
        "verdicts": dict(sorted(Counter(verdict_of(row) for row in ledger).items())),
    }


def write_summary(paths: SeriesPaths, document: Mapping[str, Any]) -> None:
    write_json_atomic(paths.root / SUMMARY_FILE, document)


def headline_of(paths: SeriesPaths) -> str:
    """The first sentence of the series' report; empty where there is none."""
    return str((read_json_or_none(paths.root / SUMMARY_FILE) or {}).get("headline") or "")


def sentence_of(paths: SeriesPaths) -> str:
    """The sentence of a comparison, else the headline of the report."""
    comparison = read_json_or_none(paths.root / "comparison_result.json") or {}
    return str(comparison.get("sentence") or headline_of(paths))


def verdict_of(row: Row) -> str:
    """A claims.json of before 2026-11-23 says `not run` also of what was measured without a conclusion."""
    return UNDECIDED if row["verdict"] == NOT_RUN and row["runs"] else str(row["verdict"])


def _failure_text(run: Row) -> str:
    """Whose failure it was, else only what became of the run."""
    return str(run["failure_blame"] or run["status"]).replace("_", " ")


def spec_title(paths: SeriesPaths) -> str | None:
    title = ((read_json_or_none(paths.series_json) or {}).get("spec") or {}).get("title")
    return None if title is None else str(title)


TEMPLATE = "index.html.j2"
FILE = "index.html"
MOST_SUMMARIES = 20  # series of an experiment of which the summary is read; of older ones the name says when they were
MOST_LINKS = 200  # older ones that are listed at all
MOST_COUNTERFACTUALS = 5  # of a series, the newest


@dataclass(frozen=True)
class SeriesEntry:
    """One series as the index lists it; `runs` and what follows is None where it was never analysed."""

    series_id: str
    begun: str
    link: str | None  # of its report
    runs: str | None
    not_complete: str
    verdicts: tuple[tuple[str, int], ...]
    simulated: bool = False
    sentence: str = ""  # of a comparison its own, else the headline of the report
    comparison: str | None = None  # the comparison's own page
    # A run, when it was simulated with other policies, and the link of that page; how many older ones there are.
    counterfactuals: tuple[tuple[str, str, str], ...] = ()
    unlisted: int = 0


@dataclass(frozen=True)
class ExperimentEntry:
    name: str
    title: str
    series: tuple[SeriesEntry, ...]
    older: tuple[tuple[str, str | None], ...]  # id and link of its report
    unlisted: int


@dataclass(frozen=True)
class FamilyEntry:
    """`report`: the link of its page; `simulated_report`: of that of its simulated series."""

    name: str
    report: str | None
    simulated_report: str | None
    experiments: tuple[ExperimentEntry, ...]


@dataclass(frozen=True)
class SuiteEntry:
    """Nights of a suite: how many there are and what became of the newest."""

    name: str
    nights: int
    newest: str
    link: str | None


@dataclass(frozen=True)
class IndexContent:
    families: tuple[FamilyEntry, ...]
    comparisons: tuple[ExperimentEntry, ...]
    suites: tuple[SuiteEntry, ...]
    written: str


def family_report(root: Path, family: str, *, simulated: bool = False) -> Path:
    """Where the page of a family is, and that of its simulated series."""
    return root / family / (f"report_{SIMULATED}.html" if simulated else "report.html")


def write(root: Path, now_s: float) -> Path:
    return page.write(root / FILE, page.render(TEMPLATE, c=collect(root, now_s)))


def collect(root: Path, now_s: float) -> IndexContent:
    experiments: dict[str, list[ExperimentEntry]] = {}
    for family, folder in _experiments(root):
        experiments.setdefault(family, []).append(experiment_entry(root, folder))
    return IndexContent(
        tuple(
            FamilyEntry(
                family, _link(root, family_report(root, family)),
                _link(root, family_report(root, family, simulated=True)), tuple(entries),
            )
            for family, entries in experiments.items() if family != COMPARISONS
        ),
        tuple(experiments.get(COMPARISONS, ())),
        tuple(suite_entry(root, folder) for folder in _folders(root / NIGHTS) if (folder / "nights").is_dir()),
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


def experiment_entry(root: Path, folder: Path) -> ExperimentEntry:
    """Newest series first: an id begins with its time."""
    every = sorted((path for path in folder.iterdir() if _has_series(path)), key=lambda path: path.name, reverse=True)
    summaries = [read_json_or_none(path / SUMMARY_FILE) for path in every[:MOST_SUMMARIES]]
    title = next((document["title"] for document in summaries if document and document.get("title")), None)
    return ExperimentEntry(
        f"{folder.parent.name}/{folder.name}",
        str(title or spec_title(SeriesPaths(every[0])) or ""),
        tuple(series_entry(root, path, document) for path, document in zip(every, summaries, strict=False)),
        tuple(
            (path.name, _link(root, path / "report.html"))
            for path in every[MOST_SUMMARIES : MOST_SUMMARIES + MOST_LINKS]
        ),
        max(0, len(every) - MOST_SUMMARIES - MOST_LINKS),
    )


def counterfactual_links(root: Path, folder: Path) -> list[tuple[str, str, str]]:
    """Of each counterfactual of the series, newest first: the run's folder, the time, and the link of the page."""
    pages = sorted(folder.glob(f"{COUNTERFACTUALS}/*/report.html"), key=lambda path: path.parent.name, reverse=True)
    return [
        (name[STAMP_CHARACTERS + 1 :], start_text(None, name), quote(path.relative_to(root).as_posix()))
        for path, name in ((path, path.parent.name) for path in pages)
    ]


def series_entry(root: Path, folder: Path, document: Mapping[str, Any] | None) -> SeriesEntry:
    compared = read_json_or_none(folder / "comparison_result.json")
    summary = document or {}
    simulated = bool(summary.get("simulated")) or is_simulated_series(folder)
    # Summaries of before they said so have the beginning of simulated time.
    begun_s = None if simulated and "simulated" not in summary else summary.get("begun_s")
    verdicts = summary.get("verdicts") or {}
    counterfactuals = counterfactual_links(root, folder)
    return SeriesEntry(
        folder.name, start_text(begun_s, folder.name), _link(root, folder / "report.html", document),
        f"{summary['complete']} of {summary['runs']}" if "runs" in summary else None,
        ", ".join(f"{number} {why}" for why, number in (summary.get("not_complete") or {}).items()),
        tuple((verdict, verdicts[verdict]) for verdict in VERDICTS if verdicts.get(verdict)),
        simulated, str((compared or {}).get("sentence") or summary.get("headline") or ""),
        _link(root, folder / "comparison.html", compared),
        tuple(counterfactuals[:MOST_COUNTERFACTUALS]), max(0, len(counterfactuals) - MOST_COUNTERFACTUALS),
    )  # fmt: skip


def start_text(begun_s: float | None, series_id: str) -> str:
    """When the first run began; a series of which that is not known says when it was opened, in its id."""
    if begun_s is not None:
        return f"{datetime.fromtimestamp(begun_s, UTC):%Y-%m-%d %H:%M}"
    opened = stamp_time(series_id)
    return f"{opened:%Y-%m-%d %H:%M}" if opened else "–"


def suite_entry(root: Path, folder: Path) -> SuiteEntry:
    nights = sorted(folder.glob("nights/*.json"), key=lambda path: path.name)
    newest = read_json_or_none(nights[-1]) if nights else None
    text = f"{newest.get('night')}: {newest.get('status')}" if newest else "none yet"
    return SuiteEntry(folder.name, len(nights), text, _link(root, folder / "index.html"))


def _link(root: Path, target: Path, document: Mapping[str, Any] | None = None) -> str | None:
    """None where there is no such page. With a `document` beside it the page exists, though it may lie in a bucket."""
    return quote(target.relative_to(root).as_posix()) if document is not None or target.is_file() else None
