"""What became of a series of this night: its runs, its failures and whose they were, its deadline."""

from __future__ import annotations

from collections.abc import Sequence

from dags.errors import EXIT_CODES, INTERRUPTED_EXIT, REGRESSION_EXIT, SEVERITY, worst_exit
from dags.nights.tonight import Entry
from dags.progress import failures_since, told_since, worst_of
from dags.run_record import read_run
from dags.series import Series
from dags.steps.interruption import is_stopped

COMPLETE, FAILED, DEADLINE, INTERRUPTED = "complete", "failed", "deadline", "interrupted"
# A failure of Storm or of a policy is a result: `failed`. The other blames keep their names.
OF_BLAME = {blame: FAILED if blame == "system_under_test" else blame for blame in SEVERITY}
STATUSES = (COMPLETE, FAILED, DEADLINE, INTERRUPTED, *(status for status in OF_BLAME.values() if status != FAILED))
EXITS = {COMPLETE: 0, DEADLINE: 0, INTERRUPTED: INTERRUPTED_EXIT} | {
    status: EXIT_CODES[blame] for blame, status in OF_BLAME.items()
}


def outcome_of(series: Series) -> tuple[str, str]:
    """Status and reason of a series whose execution is over."""
    failures = failures_since(series.folder, series.opened_s)
    late = told_since(series.folder, "deadline", series.opened_s)
    if late and not any(failure["kind"] == "run_failed" for failure in failures):
        return DEADLINE, f"{_done(series)}; {late[-1]['reason']}"  # what a step misses then is the deadline's doing
    if failures:
        blame, message = worst_of(failures)
        return OF_BLAME[blame], message
    if not series.left():
        return COMPLETE, ""
    if invalid := _invalid(series):
        return FAILED, f"{', '.join(invalid)} invalid: the bridge fell back, see their events"
    if is_stopped(series):
        return INTERRUPTED, f"{_done(series)}; it was asked to stop"
    return INTERRUPTED, f"{_done(series)}; it ended without saying why, see its harness.log"


def status_of_night(entries: Sequence[Entry], measured: Sequence[str]) -> str:
    """complete: every run of every experiment; failed: not a number from any; else partial.

    `measured`: experiments with numbers of at least one complete run.
    """
    if all(entry.status == COMPLETE for entry in entries):
        return "complete"
    return "partial" if measured else "failed"


def exit_code(statuses: Sequence[str], new_regressions: int) -> int:
    """130 where somebody ended the night, 6 for a newly confirmed regression, else that of the worst failure."""
    worst = worst_exit([EXITS[status] for status in statuses])
    if worst == INTERRUPTED_EXIT or not new_regressions:
        return worst
    return REGRESSION_EXIT


def blame_of_night(statuses: Sequence[str]) -> str:
    """The worst blame among these; `capacity` where nobody failed."""
    blames = [blame for blame in SEVERITY if OF_BLAME[blame] in statuses]
    return blames[0] if blames else "capacity"


def _done(series: Series) -> str:
    return f"{len(series.complete())} of {len(series.plan())} runs are complete"


def _invalid(series: Series) -> list[str]:
    runs = {run.run_id: read_run(series.run_folder(run.run_id)) for run in series.plan()}
    return [run_id for run_id, document in runs.items() if document and document["status"] == "invalid"]
