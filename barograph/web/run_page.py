"""The page of a DAG run: a redirection to its report, its progress, or why there is no report."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.record.files import NIGHTS
from barograph.errors import ExperimentError
from barograph.nights import night_state
from barograph.nights.night_state import Night
from barograph.series.progress import (
    SeriesStatus,
    fact_rows,
    failures_in,
    initial_status,
    lines_between,
    update_status,
)
from barograph.series.series import read_series, series_document
from barograph.web import NIGHT_DAGS, result_files

RELOAD_S = 5
RELOAD_SENTENCE = f"This page looks again every {RELOAD_S} s."
ACTIVE_STATES = ("queued", "running")
REPORTS = ("comparison.html", "report.html")  # a comparison's series has both
MARGIN_S = 5.0  # a run's start and a file's time have the same clock, but not the same resolution
NOTES = 12  # the last ones


@dataclass(frozen=True)
class DagRunFacts:
    """Facts of a DAG run in Airflow. Times are epoch seconds."""

    dag_id: str
    run_id: str
    state: str
    started_s: float | None
    ended_s: float | None
    measures: bool  # False: its DAG makes no report
    result: str | None  # the series' folder, or the night's id, once it is opened
    failed: tuple[str, ...] = ()  # its tasks that failed by themselves

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES

    def meta(self, *more: str) -> str:
        return " · ".join([*more, f"DAG run {self.run_id}", self.state])

    def failed_tasks(self) -> tuple[str, ...]:
        """Return a sentence that names them; none where none failed."""
        if not self.failed:
            return ()
        word, whose = ("Task", "its log says") if len(self.failed) == 1 else ("Tasks", "their logs say")
        return (f"{word} {', '.join(self.failed)} failed; {whose} why.",)


@dataclass(frozen=True)
class SeriesProgress:
    """Progress of a series in a DAG run."""

    name: str  # its folder's name below the results
    title: str
    report: str | None  # its name below the results
    current: bool  # the report is of this DAG run, or later
    status: SeriesStatus | None  # None: its spec is of another version, and only its files can be shown
    failures: tuple[Mapping[str, Any], ...]


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


def result_folder(root: Path, dag_run: DagRunFacts) -> str | None:
    """Return the folder below the results of the run's series or suite; None: there is none."""
    if dag_run.result is None:
        return None
    if dag_run.dag_id.startswith(NIGHT_DAGS):
        return f"{NIGHTS}/{dag_run.dag_id.removeprefix(NIGHT_DAGS)}"
    return result_files.name_of_folder(root, dag_run.result)


def page_of_dag_run(root: Path, dag_run: DagRunFacts) -> Redirection | Page:
    if dag_run.result is None:
        return _page_without_series(dag_run)
    if dag_run.dag_id.startswith(NIGHT_DAGS):
        suite = dag_run.dag_id.removeprefix(NIGHT_DAGS)
        page, night = f"{NIGHTS}/{suite}/nights/{dag_run.result}.html", night_state.read_night(suite)
        if night is not None and night.id != dag_run.result:
            night = None
        names = [f"{entry.series}/report.html" for entry in (night.experiments if night else ()) if entry.series]
        reports = {report for report in names if result_files.find_file(root, report)}
        return page_of_night(dag_run, suite, page if result_files.find_file(root, page) else None, night, reports)
    name = result_files.name_of_folder(root, dag_run.result)
    if name is None:
        where = f"What it made is {dag_run.result}. These pages show {root}: start Airflow with the BAROGRAPH_RESULTS"
        sentences = ("This run put its results in another place.", f"{where} of then.")
        return Page("No report here", dag_run.meta(), sentences)
    progress = series_progress(root, name, dag_run)
    if progress is None:
        why = f"The folder {name} of the results was removed, or damaged."
        return Page("No report any more", dag_run.meta(), (why,))
    return page_of_series(dag_run, progress, time.time())


def _page_without_series(dag_run: DagRunFacts) -> Page:
    sentences: tuple[str, ...] = (
        "This run ended before it opened a series.",
        *dag_run.failed_tasks(),
        "Often an answer in the trigger form cannot be run.",
    )
    reload_s = None
    if not dag_run.measures:
        sentences = (f"Runs of {dag_run.dag_id} measure nothing, so they have no report.",)
    elif dag_run.active and not dag_run.failed:
        waits = "is waiting for its turn" if dag_run.state == "queued" else "has not opened its series yet"
        sentences = (f"This run {waits}; it may be waiting for the testbed.", RELOAD_SENTENCE)
        reload_s = RELOAD_S
    return Page("No report", dag_run.meta(), sentences, reload_s=reload_s)


def page_of_series(dag_run: DagRunFacts, progress: SeriesProgress, now_s: float) -> Redirection | Page:
    status = progress.status
    if progress.report and progress.current and (status is None or status.report is not None or not dag_run.active):
        return Redirection(progress.report)
    page = Page(progress.title, dag_run.meta(progress.name), ("This run is under way.", RELOAD_SENTENCE))
    done = status.done if status else ()
    if done:
        page = replace(page, headings=("run", "status"), rows=done)
    if status:
        page = replace(page, notes=status.notes[-NOTES:])
    of = "The report of the runs until now" if dag_run.active else "The report of an earlier run of this series"
    if progress.report:
        page = replace(page, links=(FileLink(progress.report, of),))
    if dag_run.active:
        page = replace(page, reload_s=RELOAD_S)
        return replace(page, facts=fact_rows(status, now_s), throughput=status.throughput) if status else page
    count = sum(outcome == "complete" for _, outcome in done)
    completeness = f"Complete and kept: {count} run{'s' if count > 1 else ''}." if count else "No run is complete."
    again = f"{completeness} The same request again goes on with this series."
    failures = (
        ": ".join(str(line[key]) for key in ("run_id", "blame", "message") if line.get(key))
        for line in progress.failures
    )
    sentences = ("This run ended without a report.", *dag_run.failed_tasks(), again)
    return replace(page, sentences=sentences, notes=tuple(failures) or page.notes)


def page_of_night(
    dag_run: DagRunFacts, suite: str, report: str | None, night: Night | None, reports: Collection[str]
) -> Redirection | Page:
    """Return the page. `report`: its page below the results; `night`: None before it is on record; `reports`: of
    series."""
    if report is not None:
        return Redirection(report)
    page = Page(f"Night {dag_run.result} of {suite}", dag_run.meta(), ("This night has no page in these results.",))
    if dag_run.active:
        doing = "The night's page is being written." if night is None else "The night is under way."
        page = replace(page, sentences=(doing, RELOAD_SENTENCE), reload_s=RELOAD_S)
    if night is None:
        return page
    rows = []
    for entry in night.experiments:
        file = f"{entry.series}/report.html"
        name = FileLink(file, entry.experiment) if file in reports else entry.experiment
        rows.append((name, entry.status, entry.reason or "–"))
    if not dag_run.active:
        why = "This run ended before its night was put on record; the suite's next night does that."
        page = replace(page, sentences=(why,))
    return replace(page, headings=("experiment", "status", "why"), rows=tuple(rows))


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


def series_progress(root: Path, name: str, dag_run: DagRunFacts) -> SeriesProgress | None:
    """Return the progress; None where the folder holds no series (any more)."""
    folder = root / name
    try:
        document = series_document(folder)
    except ExperimentError:
        return None
    begin_s = (dag_run.started_s or 0.0) - MARGIN_S
    lines = lines_between(folder, begin_s, float("inf") if dag_run.ended_s is None else dag_run.ended_s + MARGIN_S)
    report = next((folder / file for file in REPORTS if (folder / file).is_file()), None)
    return SeriesProgress(
        name,
        str(document.get("spec", {}).get("title") or document.get("experiment", name)),
        None if report is None else report.relative_to(root).as_posix(),
        report is not None and report.stat().st_mtime >= begin_s,
        _status(folder, lines),
        tuple(failures_in(lines)),
    )


def _status(folder: Path, lines: list[dict[str, Any]]) -> SeriesStatus | None:
    """Return the status with the number of runs: those done, and those not tried yet."""
    try:
        series = read_series(folder)
    except ExperimentError:
        return None
    status = initial_status(0, series.experiment)
    for line in lines:
        status = update_status(status, line)
    run_ids = {run_id for run_id, _ in status.done}
    untried = {run.run_id for run in series.plan()} - series.complete() - run_ids
    return replace(status, runs=len(run_ids) + len(untried))
