"""The outcome of a night's series: its status, its failures with their blame, its numbers, and the claims it tested."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from analysis.claims.rows import NO_VERDICT
from analysis.errors import RecordError
from analysis.ingest.run_tables import failed_attempts
from analysis.metrics.uncertainty import UTILITY, clock_errors, has_latency_level, measurement_errors
from analysis.nights.night_series import OF_TOPOLOGY
from analysis.record import small_tables
from analysis.record.files import SeriesPaths, read_json_or_none
from analysis.record.small_tables import Row, rows, topologies
from barograph.errors import EXIT_CODES, INTERRUPTED_EXIT, REGRESSION_EXIT, SEVERITY, worst_exit
from barograph.nights.night_state import NightEntry
from barograph.series.interruption import is_stopped
from barograph.series.progress import failures_since, lines_since, worst_of
from barograph.series.series import Series

CLAIM_KEYS = (
    "id", "verdict", "indication", "runs", "measured", "low", "high", "direction",
    "statement", "stated_text", "measured_text", "interval_text",
)  # fmt: skip


NEEDED = ("runs", "measurements")

log = logging.getLogger(__name__)


def numbers_of(series_dir: Path) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Return variant -> metric -> event -> `{"values": in the order of the blocks, "horizons": watch times of runs that
    never got there, "unsteady": number of runs that rest on an unsteady side, "error": bound on a value's error,
    "of_latency": a utility that counts tuples with a latency}`, the last three only where they apply. Unreadable tables
    give no numbers, so that the night can be put on record."""
    paths = SeriesPaths(series_dir)
    try:
        small_tables.check(paths, NEEDED)
        names = topologies(paths)
        clocks = clock_errors(paths)
        errors: dict[tuple[str, str, str, str], float | None] = {}
        for name in names or [None]:
            read_rows = partial(rows, paths, topology=name)
            tables = read_rows("losses"), read_rows("measurements")
            of_one = measurement_errors(*tables, clocks, read_rows("topologies"))
            errors |= {(*key, name or ""): error for key, error in of_one.items()}
        levels = {name or "" for name in names or [None] if has_latency_level(rows(paths, "topologies", topology=name))}
        return collect_numbers(rows(paths, "runs"), rows(paths, "measurements"), several=bool(names), errors=errors,
                               latency_levels=levels)  # fmt: skip
    except RecordError as error:
        log.warning("%s", error)
        return {}


def failures_of(series_dir: Path) -> dict[str, int]:
    """Return variant -> number of its runs that the system under test failed, each once, even if repeated."""
    paths = SeriesPaths(series_dir)
    try:
        attempts = [*rows(paths, "runs"), *failed_attempts(paths)]
    except RecordError:  # `numbers_of` has logged it
        return {}
    failures = {(run["variant"], run["run_id"]) for run in attempts if run.get("failure_blame") == "system_under_test"}
    return dict(sorted(Counter(variant for variant, _ in failures).items()))


def collect_numbers(
    runs: Iterable[Row], measurements: Iterable[Row], *, several: bool = False,
    errors: Mapping[tuple[str, str, str, str], float | None] = MappingProxyType({}),
    latency_levels: Collection[str] = (),
) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:  # fmt: skip
    """Collect numbers, without incomplete runs and non-finite values. Pure. `several`: runs have several topologies;
    each of them, and the cluster, has a separate entry: `variant:topology`. `errors`: by run, metric, event and
    topology; `latency_levels`: topologies whose utility is that of a latency; for one topology both have empty names.
    """
    complete = {run["run_id"]: run for run in runs if run["status"] == "complete"}
    numbers: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    mine = [
        row
        for row in measurements
        if row["run_id"] in complete and isinstance(row["value"], int | float) and isfinite(row["value"])
    ]
    for row in sorted(mine, key=lambda row: int(complete[row["run_id"]]["order"])):
        variant = complete[row["run_id"]]["variant"]
        name = f"{variant}{OF_TOPOLOGY}{row['topology']}" if several else variant
        metrics = numbers.setdefault(name, {})
        cell = metrics.setdefault(row["metric"], {}).setdefault(row["event_id"], {"values": [], "horizons": []})
        cell["horizons" if row["censored"] else "values"].append(float(row["value"]))
        of = str(row["topology"]) if several else ""
        error = errors.get((row["run_id"], row["metric"], row["event_id"], of), 0.0)
        if error is None or cell.get("error", 0.0) is None:
            cell["error"] = None
        elif error:
            cell["error"] = max(error, cell.get("error", 0.0))
        if row["metric"].startswith(UTILITY) and of in latency_levels:
            cell["of_latency"] = True
        if row.get("steady") is not None:
            cell["unsteady"] = cell.get("unsteady", 0) + (not row["steady"])
    return numbers


def claims_of(series_dir: Path, experiment: str) -> list[dict[str, Any]]:
    """Return the ledger's rows of claims about this experiment, met or not, each with the ledger's version. Simulated
    series have no verdicts, and so no rows."""
    ledger = read_json_or_none(series_dir / "claims.json") or {}
    return [
        {"v": ledger.get("v", 1)} | {key: row[key] for key in CLAIM_KEYS if key in row}
        for row in ledger.get("claims", [])
        if row.get("experiment") == experiment and row.get("verdict") != NO_VERDICT
    ]


COMPLETE, FAILED, DEADLINE, INTERRUPTED = "complete", "failed", "deadline", "interrupted"
# A failure of Storm or of a policy is a result: `failed`. Other blames keep their names.
STATUS_OF_BLAME = {blame: FAILED if blame == "system_under_test" else blame for blame in SEVERITY}
EXIT_OF_STATUS = {COMPLETE: 0, DEADLINE: 0, INTERRUPTED: INTERRUPTED_EXIT} | {
    status: EXIT_CODES[blame] for blame, status in STATUS_OF_BLAME.items()
}


def outcome_of(series: Series) -> tuple[str, str]:
    """Return status and reason of a series whose execution is over."""
    failures = failures_since(series.folder, series.opened_s)
    notices = lines_since(series.folder, "deadline", series.opened_s)
    if notices and not any(failure["kind"] == "run_failed" for failure in failures):
        return (
            DEADLINE,
            f"{_runs_complete(series)}; {notices[-1]['reason']}",
        )  # after that the deadline is the cause of a failed step
    if failures:
        blame, message = worst_of(failures)
        return STATUS_OF_BLAME[blame], message
    if not series.missing_runs():
        return COMPLETE, ""
    if is_stopped(series):
        return INTERRUPTED, f"{_runs_complete(series)}; it was asked to stop"
    return INTERRUPTED, f"{_runs_complete(series)}; it ended without saying why, see its harness.log"


def status_of_night(entries: Sequence[NightEntry], measured: Sequence[str]) -> str:
    """Return complete: every run of every experiment; failed: no number at all; else partial.

    `measured`: experiments with numbers of at least one complete run.
    """
    if all(entry.status == COMPLETE for entry in entries):
        return "complete"
    return "partial" if measured else "failed"


def exit_code(statuses: Sequence[str], new_regressions: int) -> int:
    """Return 130 where somebody ended the night, 6 for a newly confirmed regression, else the exit code of the worst
    failure."""
    code = worst_exit([EXIT_OF_STATUS[status] for status in statuses])
    if code == INTERRUPTED_EXIT or not new_regressions:
        return code
    return REGRESSION_EXIT


def blame_of_night(statuses: Sequence[str]) -> str:
    """Return the worst blame among these; `capacity` where nothing failed."""
    blames = [blame for blame in SEVERITY if STATUS_OF_BLAME[blame] in statuses]
    return blames[0] if blames else "capacity"


def _runs_complete(series: Series) -> str:
    return f"{len(series.complete())} of {len(series.plan())} runs are complete"
