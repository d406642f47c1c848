"""`index.html` of a folder of results: every experiment with its series, comparisons, nights and family reports.

It reads one small summary a series (report.json, written with the report) and no table or record, and only those of
the newest series, so that it stays cheap when there are thousands. Links are relative: the folder can be moved, or
served, as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from analysis.claims.rows import VERDICTS
from analysis.record.files import COMPARISONS, COUNTERFACTUALS, NIGHTS, SeriesPaths, read_json_or_none
from analysis.record.simulated import first_date_s, is_simulated, is_simulated_series
from analysis.record.small_tables import Row, rows
from analysis.report import page
from analysis.report.page import Block, Folded, PageContent, Section, Sentence
from analysis.report.table import BREAK, ResultTable, badge, code, columns, joined, link, small
from barograph.plan.blocks import STAMP_CHARACTERS, stamp_time
from barograph.plan.experiment import SIMULATED

SUMMARY_FILE = "report.json"
FILE = "index.html"
MOST_SUMMARIES = 20  # series of an experiment whose summary is read; for older ones the name gives the date
MOST_LINKS = 200  # older ones that are listed at all
MOST_COUNTERFACTUALS = 5  # newest counterfactuals of a series that are listed
SERIES_COLUMNS = columns(
    "begun (UTC) = begun /k; series /k; runs complete = runs /n; result and claims = result /v; report /k"
)


def summary_of(paths: SeriesPaths, ledger: Sequence[Row], headline: str) -> dict[str, Any]:
    """Return a report in short. `ledger` has the claims about its experiment; `headline` is its first sentence."""
    runs = rows(paths, "runs")
    # The blamed side if there is one, else the status of the run.
    failures = Counter(
        str(run["failure_blame"] or run["status"]).replace("_", " ") for run in runs if run["status"] != "complete"
    )
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
        "not_complete": dict(sorted(failures.items())),
        "variants": sorted({run["variant"] for run in runs if run["variant"]}),
        "commits": sorted({run["git_commit"] for run in runs if run["git_commit"]}),
        "verdicts": dict(sorted(Counter(str(row["verdict"]) for row in ledger).items())),
    }


def headline_of(paths: SeriesPaths) -> str:
    """Return the first sentence of the series' report; empty without a report."""
    return str((read_json_or_none(paths.root / SUMMARY_FILE) or {}).get("headline") or "")


def sentence_of(paths: SeriesPaths) -> str:
    """Return the sentence of a comparison, else the headline of the report."""
    comparison = read_json_or_none(paths.root / "comparison_result.json") or {}
    return str(comparison.get("sentence") or headline_of(paths))


def spec_title(paths: SeriesPaths) -> str | None:
    title = ((read_json_or_none(paths.series_json) or {}).get("spec") or {}).get("title")
    return None if title is None else str(title)


def family_report(root: Path, family: str, *, simulated: bool = False) -> Path:
    """Return the path of a family's page, or of its page of simulated series."""
    return root / family / (f"report_{SIMULATED}.html" if simulated else "report.html")


def write(root: Path, now_s: float) -> Path:
    families: dict[str, list[Section]] = {}
    for family in _folders(root):
        for folder in _folders(family):
            if any(_has_series(series) for series in folder.iterdir()):
                families.setdefault(family.name, []).append(_experiment_section(root, folder))
    comparisons = families.pop(COMPARISONS, [])
    suites = [folder for folder in _folders(root / NIGHTS) if (folder / "nights").is_dir()]
    sections: list[Block] = [*([Section("Nights", [_suite_table(root, suites)])] if suites else [])]
    sections += [Section("Comparisons", comparisons)] if comparisons else []
    for name, experiments in families.items():
        pages = (
            (f"All experiments of {name} on one page", _link(root, family_report(root, name))),
            (f"Simulated series of {name} on one page", _link(root, family_report(root, name, simulated=True))),
        )
        sections.append(Section(name, [*(Sentence(link(text, to)) for text, to in pages if to), *experiments]))
    if not families:
        hint = ["There are no series yet: ", code("barograph run stela/star"), " makes one."]
        sections.append(Sentence(joined(hint)))
    number = sum(map(len, families.values()))
    content = PageContent(
        title="results",
        heading="Results",
        meta=f"{number} experiment{'' if number == 1 else 's'} · as of"
        f" {datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M} UTC",
        blocks=sections,
    )
    return page.save(root / FILE, content)


def _folders(folder: Path) -> list[Path]:
    """Return the folders sorted by name, without hidden ones."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _has_series(folder: Path) -> bool:
    return (folder / "series.json").is_file()


def _experiment_section(root: Path, folder: Path) -> Section:
    """Return a section with the newest series first (their ids begin with their time); older ones are links only."""
    every = sorted((path for path in folder.iterdir() if _has_series(path)), key=lambda path: path.name, reverse=True)
    summaries = [read_json_or_none(path / SUMMARY_FILE) for path in every[:MOST_SUMMARIES]]
    title = next((document["title"] for document in summaries if document and document.get("title")), None)
    name = f"{folder.parent.name}/{folder.name}"
    entries = [_series_row(root, path, document) for path, document in zip(every, summaries, strict=False)]
    blocks: list[Block] = [ResultTable(SERIES_COLUMNS, entries, css="blocks")]
    if rest := every[MOST_SUMMARIES:]:
        links = joined((link(path.name, _link(root, path / "report.html")) for path in rest[:MOST_LINKS]), ", ")
        hidden = len(rest) - MOST_LINKS
        remark = joined([f", and {hidden} more in ", code(f"{name}/")]) if hidden > 0 else ""
        blocks.append(Folded(f"{len(rest)} older series", [Sentence(joined([links, remark]), "small")], long=True))
    return Section(name, blocks, name.replace("/", "-"), str(title or spec_title(SeriesPaths(every[0])) or ""))


def _series_row(root: Path, folder: Path, document: Mapping[str, Any] | None) -> Row:
    """Return the row of a series in the index; `document` is its summary, None if it was never analysed."""
    comparison_result, summary = read_json_or_none(folder / "comparison_result.json"), document or {}
    is_of_model = bool(summary.get("simulated")) or is_simulated_series(folder)
    runs = [f"{summary['complete']} of {summary['runs']}"] if "runs" in summary else []
    if incomplete := ", ".join(f"{number} {status}" for status, number in (summary.get("not_complete") or {}).items()):
        runs += [small(incomplete, "reason")]
    comparison = _link(root, folder / "comparison.html", comparison_result)
    report = _link(root, folder / "report.html", document)
    counts = summary.get("verdicts") or {}
    badges = [] if comparison else [
        badge(f"{counts[verdict]} {verdict}", verdict.replace(" ", "-")) for verdict in VERDICTS if counts.get(verdict)
    ]  # fmt: skip
    sentence = str((comparison_result or {}).get("sentence") or summary.get("headline") or "")
    pages = (("comparison", comparison), ("report", report))
    links = joined((link(text, target) for text, target in pages if target), ", ")
    return {
        "begun": _start_text(summary.get("begun_s"), folder.name),
        "series": joined([folder.name, *([small("simulated", "reason")] if is_of_model else [])], BREAK),
        "runs": joined(runs, BREAK),
        "result": joined(filter(None, (sentence, joined(badges, ", "))), BREAK),
        "report": joined([links or small("not analysed"), *_counterfactual_links(root, folder)], BREAK),
    }


def _counterfactual_links(root: Path, folder: Path) -> list[Markup]:
    """Return links to the newest pages of runs that were simulated with other policies, and the number of older
    ones."""
    pages = sorted(folder.glob(f"{COUNTERFACTUALS}/*/report.html"), key=lambda path: path.parent.name, reverse=True)
    links = []
    for path in pages[:MOST_COUNTERFACTUALS]:
        name, target = path.parent.name, quote(path.relative_to(root).as_posix())
        run = f"{name[STAMP_CHARACTERS + 1 :]} with other policies"
        links.append(small(joined([link(run, target), f" ({_start_text(None, name)})"])))
    older_count = len(pages) - MOST_COUNTERFACTUALS
    return [*links, *([small(f"and {older_count} older")] if older_count > 0 else [])]


def _start_text(begun_s: float | None, series_id: str) -> str:
    """Return when the first run began, or if that is unknown the time in the series' id."""
    if begun_s is not None:
        return f"{datetime.fromtimestamp(begun_s, UTC):%Y-%m-%d %H:%M}"
    opening = stamp_time(series_id)
    return f"{opening:%Y-%m-%d %H:%M}" if opening else "–"


def _suite_table(root: Path, folders: Sequence[Path]) -> ResultTable:
    """Return the number of nights of each suite and the result of the newest."""

    def row(folder: Path) -> dict[str, Any]:
        nights = sorted(folder.glob("nights/*.json"), key=lambda path: path.name)
        newest = read_json_or_none(nights[-1]) if nights else None
        target = _link(root, folder / "index.html")
        return {
            "suite": folder.name,
            "nights": len(nights),
            "newest": f"{newest.get('night')}: {newest.get('status')}" if newest else "none yet",
            "page": target and link(f"nights of {folder.name}", target),
        }

    headings = columns("suite /k; nights /n; the newest = newest /v; page")
    return ResultTable(headings, [row(folder) for folder in folders])


def _link(root: Path, target: Path, document: Mapping[str, Any] | None = None) -> str | None:
    """Return None if there is no such page. A `document` shows that the page exists, though it may lie in a bucket."""
    return quote(target.relative_to(root).as_posix()) if document is not None or target.is_file() else None
