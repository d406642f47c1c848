"""The page of a DAG run: a redirection to its report, its progress, or why there is no report.

Pure, except for the two functions at the end, which search the results for the run's series or night.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.record.files import NIGHTS
from barograph.nights import night_state
from barograph.nights.night_state import Night, NightEntry
from barograph.series.status import SeriesStatus, fact_rows
from barograph.web import NIGHT_DAGS, result_files
from barograph.web.dag_run import DagRunFacts, SeriesProgress, series_progress

RELOAD_S = 5
RELOAD_SENTENCE = f"This page looks again every {RELOAD_S} s."


@dataclass(frozen=True)
class Redirection:
    """A redirection to a file below the results."""

    name: str


@dataclass(frozen=True)
class FileLink:
    name: str  # of a file below the results
    text: str


@dataclass(frozen=True)
class Page:
    title: str
    meta: str
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...] = ()
    throughput: tuple[float | None, ...] = ()
    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str | FileLink, ...], ...] = ()
    notes: tuple[str, ...] = ()
    links: tuple[FileLink, ...] = ()
    reload_s: int | None = None


def page_without_series(dag_run: DagRunFacts) -> Page:
    """Return the page of a DAG run that has not opened anything."""
    return Page(
        "No report", _meta(dag_run), _why_no_series(dag_run), reload_s=RELOAD_S if _may_open_series(dag_run) else None
    )


def _may_open_series(dag_run: DagRunFacts) -> bool:
    return dag_run.measures and dag_run.active and not dag_run.failed


def _why_no_series(dag_run: DagRunFacts) -> tuple[str, ...]:
    if not dag_run.measures:
        return (f"Runs of {dag_run.dag_id} measure nothing, so they have no report.",)
    if _may_open_series(dag_run):
        waits = "is waiting for its turn" if dag_run.state == "queued" else "has not opened its series yet"
        return (f"This run {waits}; it may be waiting for the testbed.", RELOAD_SENTENCE)
    return (
        "This run ended before it opened a series.",
        *_failed_tasks(dag_run),
        "Often an answer in the trigger form cannot be run.",
    )


def page_of_other_results(dag_run: DagRunFacts, root: str) -> Page:
    """Return the page for a series that these results do not have."""
    where = (
        f"What it made is {dag_run.result}. These pages show {root}: start Airflow with the BAROGRAPH_RESULTS of then."
    )
    return Page("No report here", _meta(dag_run), ("This run put its results in another place.", where))


def page_of_missing_series(dag_run: DagRunFacts, name: str) -> Page:
    return Page("No report any more", _meta(dag_run), (f"The folder {name} of the results was removed, or damaged.",))


def page_of_series(dag_run: DagRunFacts, progress: SeriesProgress, now_s: float) -> Redirection | Page:
    finished = progress.status is None or progress.status.report is not None
    if progress.report and progress.current and (finished or not dag_run.active):
        return Redirection(progress.report)
    if dag_run.active:
        return _progress_page(dag_run, progress, now_s)
    return _failure_page(dag_run, progress)


def _progress_page(dag_run: DagRunFacts, progress: SeriesProgress, now_s: float) -> Page:
    status = progress.status
    return Page(
        progress.title,
        _meta(dag_run, progress.name),
        ("This run is under way.", RELOAD_SENTENCE),
        () if status is None else fact_rows(status, now_s),
        () if status is None else status.throughput,
        *_run_table(status),
        _last_notes(status),
        _report_links(progress, "The report of the runs until now"),
        RELOAD_S,
    )


def _failure_page(dag_run: DagRunFacts, progress: SeriesProgress) -> Page:
    count = 0 if progress.status is None else sum(status == "complete" for _, status in progress.status.done)
    completeness = f"Complete and kept: {count} run{'s' if count > 1 else ''}." if count else "No run is complete."
    return Page(
        progress.title,
        _meta(dag_run, progress.name),
        (
            "This run ended without a report.",
            *_failed_tasks(dag_run),
            f"{completeness} The same request again goes on with this series.",
        ),
        (),
        (),
        *_run_table(progress.status),
        tuple(_failure_line(line) for line in progress.failures) or _last_notes(progress.status),
        _report_links(progress, "The report of an earlier run of this series"),
    )


def _failed_tasks(dag_run: DagRunFacts) -> tuple[str, ...]:
    if not dag_run.failed:
        return ()
    word, whose = ("Task", "its log says") if len(dag_run.failed) == 1 else ("Tasks", "their logs say")
    return (f"{word} {', '.join(dag_run.failed)} failed; {whose} why.",)


def _failure_line(line: Mapping[str, Any]) -> str:
    where = f"{line['run_id']}: " if line.get("run_id") else ""
    return f"{where}{line['blame']}: {line['message']}"


def _run_table(status: SeriesStatus | None) -> tuple[tuple[str, ...], tuple[tuple[str | FileLink, ...], ...]]:
    return (("run", "status"), status.done) if status is not None and status.done else ((), ())


def _last_notes(status: SeriesStatus | None) -> tuple[str, ...]:
    return () if status is None else status.notes[-12:]


def _report_links(progress: SeriesProgress, text: str) -> tuple[FileLink, ...]:
    return (FileLink(progress.report, text),) if progress.report else ()


def page_of_night(
    dag_run: DagRunFacts, suite: str, report: str | None, night: Night | None, reports: Collection[str]
) -> Redirection | Page:
    """Return the page. `report`: its page below the results; `night`: None before it is on record; `reports`: of
    series.
    """
    if report is not None:
        return Redirection(report)
    title, meta = f"Night {dag_run.result} of {suite}", _meta(dag_run)
    reload_s = RELOAD_S if dag_run.active else None
    if night is not None:
        rows = tuple(_entry_row(entry, reports) for entry in night.experiments)
        return Page(
            title,
            meta,
            _night_sentences(dag_run),
            headings=("experiment", "status", "why"),
            rows=rows,
            reload_s=reload_s,
        )
    if dag_run.active:
        return Page(title, meta, ("The night's page is being written.", RELOAD_SENTENCE), reload_s=reload_s)
    return Page(title, meta, ("This night has no page in these results.",))


def _entry_row(entry: NightEntry, reports: Collection[str]) -> tuple[str | FileLink, ...]:
    report = f"{entry.series}/report.html"
    name: str | FileLink = FileLink(report, entry.experiment) if report in reports else entry.experiment
    return name, entry.status, entry.reason or "–"


def _night_sentences(dag_run: DagRunFacts) -> tuple[str, ...]:
    if dag_run.active:
        return ("The night is under way.", RELOAD_SENTENCE)
    return ("This run ended before its night was put on record; the suite's next night does that.",)


def _meta(dag_run: DagRunFacts, *more: str) -> str:
    return " · ".join([*more, f"DAG run {dag_run.run_id}", dag_run.state])


def sparkline_points(values: Sequence[float | None], width: float, height: float) -> list[str]:
    """Return points of polylines through the values, scaled from 0 to the largest; a new line after each gap."""
    top = max((value for value in values if value is not None), default=0.0) or 1.0
    step = width / max(1, len(values) - 1)
    lines: list[list[str]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            lines[-1].append(f"{place * step:.1f},{height - value / top * height:.1f}")
    return [" ".join(line) for line in lines if line]


def result_folder(root: Path, dag_run: DagRunFacts) -> str | None:
    """Return the folder below the results of the run's series or suite; None: there is none."""
    if dag_run.result is None:
        return None
    if dag_run.dag_id.startswith(NIGHT_DAGS):
        return f"{NIGHTS}/{_suite(dag_run)}"
    return result_files.name_of_folder(root, dag_run.result)


def page_of_dag_run(root: Path, dag_run: DagRunFacts) -> Redirection | Page:
    if dag_run.result is None:
        return page_without_series(dag_run)
    if dag_run.dag_id.startswith(NIGHT_DAGS):
        return _page_of_night_run(root, dag_run, dag_run.result)
    name = result_files.name_of_folder(root, dag_run.result)
    if name is None:
        return page_of_other_results(dag_run, str(root))
    progress = series_progress(root, name, dag_run)
    return page_of_missing_series(dag_run, name) if progress is None else page_of_series(dag_run, progress, time.time())


def _suite(dag_run: DagRunFacts) -> str:
    return dag_run.dag_id.removeprefix(NIGHT_DAGS)


def _page_of_night_run(root: Path, dag_run: DagRunFacts, night: str) -> Redirection | Page:
    suite = _suite(dag_run)
    page = f"{NIGHTS}/{suite}/nights/{night}.html"
    current = night_state.read_night(suite)
    if current is not None and current.id != night:
        current = None
    entries = current.experiments if current else ()
    names = (f"{entry.series}/report.html" for entry in entries if entry.series)
    reports = {report for report in names if result_files.find_file(root, report)}
    return page_of_night(dag_run, suite, page if result_files.find_file(root, page) else None, current, reports)
