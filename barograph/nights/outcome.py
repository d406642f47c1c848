"""The outcome of a night's series: its status, its failures and whose they were, its numbers, and the claims it
tested."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any

from analysis.claims.ledger_rows import NO_VERDICT
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


NEEDED = {
    "runs": ("run_id", "variant", "status", "order"),
    "measurements": ("run_id", "event_id", "metric", "value", "censored"),
}

log = logging.getLogger(__name__)


def numbers_of(series_dir: Path) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Variant -> metric -> event -> `{"values": in the order of the blocks, "horizons": how long runs were watched that
    never got there, "unsteady": of how many runs a side that they rest on was not steady, "error": by how much a value
    may be wrong, "of_latency": a utility that counts tuples with a latency}`, the last three where there is something
    to say. None of tables that cannot be read: else the night could not be put on record."""
    paths = SeriesPaths(series_dir)
    try:
        small_tables.check(paths, NEEDED)
        names = topologies(paths)
        clocks = clock_errors(paths)
        errors: dict[tuple[str, str, str, str], float | None] = {}
        for name in names or [None]:
            read = partial(rows, paths, topology=name)
            of_one = measurement_errors(read("losses"), read("measurements"), clocks)
            errors |= {(*key, name or ""): error for key, error in of_one.items()}
        levels = {name or "" for name in names or [None] if has_latency_level(rows(paths, "topologies", topology=name))}
        return collect_numbers(rows(paths, "runs"), rows(paths, "measurements"), several=bool(names), errors=errors,
                               latency_levels=levels)  # fmt: skip
    except RecordError as error:
        log.warning("%s", error)
        return {}


def failures_of(series_dir: Path) -> dict[str, int]:
    """Variant -> how many of its runs the system under test failed, each once, also where it was repeated."""
    paths = SeriesPaths(series_dir)
    try:
        ended = [*rows(paths, "runs"), *failed_attempts(paths)]
    except RecordError:  # `numbers_of` has logged it
        return {}
    failed = {(run["variant"], run["run_id"]) for run in ended if run.get("failure_blame") == "system_under_test"}
    return dict(sorted(Counter(variant for variant, _ in failed).items()))


def collect_numbers(
    runs: Iterable[Row], measurements: Iterable[Row], *, several: bool = False,
    errors: Mapping[tuple[str, str, str, str], float | None] = MappingProxyType({}),
    latency_levels: Collection[str] = (),
) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:  # fmt: skip
    """Pure. Incomplete runs and values that are not finite numbers are left out. `several`: runs have several
    topologies; each of them, and the cluster, has an entry of its own: `variant:topology`. `errors`: by run, metric,
    event and topology; `latency_levels`: topologies whose utility is that of a latency; both empty names of one."""
    complete = {run["run_id"]: run for run in runs if run["status"] == "complete"}
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    mine = [
        row
        for row in measurements
        if row["run_id"] in complete and isinstance(row["value"], int | float) and isfinite(row["value"])
    ]
    for row in sorted(mine, key=lambda row: int(complete[row["run_id"]]["order"])):
        variant = complete[row["run_id"]]["variant"]
        name = f"{variant}{OF_TOPOLOGY}{row['topology']}" if several else variant
        metrics = found.setdefault(name, {})
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
    return found


def claims_of(series_dir: Path, experiment: str) -> list[dict[str, Any]]:
    """The ledger's rows of claims that are about this experiment, met or not, each with the ledger's version. Of
    simulated series, which have no verdicts, none."""
    ledger = read_json_or_none(series_dir / "claims.json") or {}
    return [
        {"v": ledger.get("v", 1)} | {key: row[key] for key in CLAIM_KEYS if key in row}
        for row in ledger.get("claims", [])
        if row.get("experiment") == experiment and row.get("verdict") != NO_VERDICT
    ]


COMPLETE, FAILED, DEADLINE, INTERRUPTED = "complete", "failed", "deadline", "interrupted"
# A failure of Storm or of a policy is a result: `failed`. The other blames keep their names.
STATUS_OF_BLAME = {blame: FAILED if blame == "system_under_test" else blame for blame in SEVERITY}
STATUSES = (
    COMPLETE,
    FAILED,
    DEADLINE,
    INTERRUPTED,
    *(status for status in STATUS_OF_BLAME.values() if status != FAILED),
)
EXIT_OF_STATUS = {COMPLETE: 0, DEADLINE: 0, INTERRUPTED: INTERRUPTED_EXIT} | {
    status: EXIT_CODES[blame] for blame, status in STATUS_OF_BLAME.items()
}


def outcome_of(series: Series) -> tuple[str, str]:
    """Status and reason of a series whose execution is over."""
    failures = failures_since(series.folder, series.opened_s)
    late = lines_since(series.folder, "deadline", series.opened_s)
    if late and not any(failure["kind"] == "run_failed" for failure in failures):
        return (
            DEADLINE,
            f"{_runs_complete(series)}; {late[-1]['reason']}",
        )  # what a step misses then is the deadline's doing
    if failures:
        blame, message = worst_of(failures)
        return STATUS_OF_BLAME[blame], message
    if not series.missing_runs():
        return COMPLETE, ""
    if is_stopped(series):
        return INTERRUPTED, f"{_runs_complete(series)}; it was asked to stop"
    return INTERRUPTED, f"{_runs_complete(series)}; it ended without saying why, see its harness.log"


def status_of_night(entries: Sequence[NightEntry], measured: Sequence[str]) -> str:
    """complete: every run of every experiment; failed: not a number from any; else partial.

    `measured`: experiments with numbers of at least one complete run.
    """
    if all(entry.status == COMPLETE for entry in entries):
        return "complete"
    return "partial" if measured else "failed"


def exit_code(statuses: Sequence[str], new_regressions: int) -> int:
    """130 where somebody ended the night, 6 for a newly confirmed regression, else that of the worst failure."""
    worst = worst_exit([EXIT_OF_STATUS[status] for status in statuses])
    if worst == INTERRUPTED_EXIT or not new_regressions:
        return worst
    return REGRESSION_EXIT


def blame_of_night(statuses: Sequence[str]) -> str:
    """The worst blame among these; `capacity` where nobody failed."""
    blames = [blame for blame in SEVERITY if STATUS_OF_BLAME[blame] in statuses]
    return blames[0] if blames else "capacity"


def _runs_complete(series: Series) -> str:
    return f"{len(series.complete())} of {len(series.plan())} runs are complete"
