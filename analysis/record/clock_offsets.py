"""The effect of the machines' clocks on latencies, from run.json: the possible error as measured, and corrected.

A tuple is due by the clock of its source's machine and done by that of its sink's. `analysis.metrics.latency` subtracts
the difference of the two, on a straight line between two offsets of each machine, from the times of their measurement.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from analysis.record.small_tables import Row

Json = Mapping[str, Any]
CLOCKS = "run_id string, machine string, begin_s double, end_s double, begin_ms double, end_ms double"


def clock_lines(machines: Iterable[Row], runs: Iterable[Row], events: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return rows of `CLOCKS`: two offsets of each machine's clock, and when they were measured; one can replace the
    other.

    Before the run and after it; for a machine that booted for an event when it joined, and for one that left when it
    left: its clock is measured then, whether or not it is given back.
    """
    spans = {run["run_id"]: (run["started_s"], run["ended_s"]) for run in runs}
    joined_s, left_s = _changes_s(events)
    lines = []
    for row in machines:
        key = (row["run_id"], row["machine"])
        begin_s, end_s = spans.get(row["run_id"], (None, None))
        before, after = row["clock_offset_ms"], row["clock_end_offset_ms"]
        offsets = (after if before is None else before, before if after is None else after)
        lines.append((*key, joined_s.get(key, begin_s), left_s.get(key, end_s), *offsets))
    return lines


def _changes_s(events: Iterable[Row]) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Return by run and machine when one joined that had booted for it, and when one left."""
    boots: set[tuple[str, str]] = set()
    joined_s: dict[tuple[str, str], float] = {}
    left_s: dict[tuple[str, str], float] = {}
    for event in sorted(events, key=lambda event: float(event["t_s"])):
        keys = [(event["run_id"], name) for name in event["machines"] or ()]
        if event["kind"] == "machine_booted":
            boots.add((event["run_id"], event["machine"]))
        elif event["kind"] == "machines_joined":
            joined_s |= {key: event["t_s"] for key in keys if key in boots and key not in joined_s}
            for key in keys:  # one that left may come back
                left_s.pop(key, None)
        elif event["kind"] == "machines_left":
            left_s |= dict.fromkeys(keys, event["t_s"])
    return joined_s, left_s


def measured_error_ms(document: Json) -> float | None:
    """Return the greatest possible error of a latency as the workers wrote it; None if fewer than two clocks were
    compared."""
    return None if document.get("clock_error_ms") is None else float(document["clock_error_ms"])


def corrected_error_ms(document: Json) -> float | None:
    """Return the greatest possible error of a latency without the clocks' offsets; None if not all are on record.

    For a pair of machines: the errors of both measurements, and the drift of their clocks against each other, because
    it may be uneven. The line covers all ways between its ends, so a clock that drifts steadily and one
    that is set at once are both within.
    """
    before, after, errors = (
        document.get(name) or {} for name in ("clock_offset_ms", "clock_end_offset_ms", "clock_offset_error_ms")
    )
    workers = [name for name in document.get("machines") or {} if name in before]
    if any(offsets.get(name) is None for name in workers for offsets in (before, after, errors)):
        return None
    moves = {name: after[name] - before[name] for name in workers}
    pairs = (errors[a] + errors[b] + abs(moves[a] - moves[b]) for a, b in combinations(workers, 2))
    return max(pairs, default=None)


def latency_error_ms(document: Json, windows: Iterable[Row]) -> float | None:
    """Return the greatest possible error of a latency of a run in its `windows`; None if the clocks of some of their
    tuples are unknown, or their differences were not measured."""
    if any(row.get("corrected") != row["n"] for row in windows):
        return None
    if sum(name in (document.get("clock_offset_ms") or {}) for name in document.get("machines") or {}) == 1:
        return 0.0
    error_ms = corrected_error_ms(document)
    return measured_error_ms(document) if error_ms is None else error_ms
