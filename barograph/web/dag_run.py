"""A DAG run for its page: its facts in Airflow, and the progress of its series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from barograph.errors import ExperimentError
from barograph.series.progress import failures_in, lines_between
from barograph.series.series import read_series, series_document
from barograph.series.status import SeriesStatus, initial_status, update_status

ACTIVE_STATES = ("queued", "running")
REPORTS = ("comparison.html", "report.html")  # a comparison's series has both
MARGIN_S = 5.0  # a run's start and a file's time have the same clock, but not the same resolution


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


@dataclass(frozen=True)
class SeriesProgress:
    """Progress of a series in a DAG run."""

    name: str  # its folder's name below the results
    experiment: str
    title: str
    report: str | None  # its name below the results
    current: bool  # the report is of this DAG run, or later
    status: SeriesStatus | None  # None: its spec is of another version, and only its files can be shown
    failures: tuple[Mapping[str, Any], ...]


def series_progress(root: Path, name: str, dag_run: DagRunFacts) -> SeriesProgress | None:
    """Return the progress; None where the folder holds no series (any more)."""
    folder = root / name
    try:
        document = series_document(folder)
    except ExperimentError:
        return None
    lines = lines_between(folder, *_span(dag_run))
    report = next((folder / file for file in REPORTS if (folder / file).is_file()), None)
    experiment = str(document.get("experiment", name))
    return SeriesProgress(
        name,
        experiment,
        str(document.get("spec", {}).get("title", experiment)),
        None if report is None else report.relative_to(root).as_posix(),
        report is not None and report.stat().st_mtime >= (dag_run.started_s or 0.0) - MARGIN_S,
        _status(folder, lines),
        tuple(failures_in(lines)),
    )


def _span(dag_run: DagRunFacts) -> tuple[float, float]:
    until_s = float("inf") if dag_run.ended_s is None else dag_run.ended_s + MARGIN_S
    return (dag_run.started_s or 0.0) - MARGIN_S, until_s


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
