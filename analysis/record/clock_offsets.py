"""What the machines' clocks make of latencies, from run.json: how far these may be wrong as measured, and corrected.

A tuple is due by the clock of its source's machine and done by that of its sink's. `analysis.metrics.latency` takes out
what the two differed by, on a straight line between two offsets of each machine, from when they were measured.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from analysis.record.small_tables import Row

Json = Mapping[str, Any]
CLOCKS = "run_id string, machine string, begin_s double, end_s double, begin_ms double, end_ms double"


def clock_lines(machines: Iterable[Row], runs: Iterable[Row], events: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Rows of `CLOCKS`: two offsets of each machine's clock, and when they were measured; one stands for the other.

    Before the run and after it, but of a machine that booted for an event when it joined, and of one that left when it
    did so: it is asked then, whether or not it is given back.
    """
    spans = {run["run_id"]: (run["started_s"], run["ended_s"]) for run in runs}
    joined_s, left_s = _changes_s(events)
    found = []
    for row in machines:
        key = (row["run_id"], row["machine"])
        begin_s, end_s = spans.get(row["run_id"], (None, None))
        before, after = row["clock_offset_ms"], row["clock_end_offset_ms"]
        offsets = (after if before is None else before, before if after is None else after)
        found.append((*key, joined_s.get(key, begin_s), left_s.get(key, end_s), *offsets))
    return found


def _changes_s(events: Iterable[Row]) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """By run and machine: when one joined that had booted for it, and when one left."""
    booted: set[tuple[str, str]] = set()
    joined_s: dict[tuple[str, str], float] = {}
    left_s: dict[tuple[str, str], float] = {}
    for event in sorted(events, key=lambda event: float(event["t_s"])):
        keys = [(event["run_id"], name) for name in event["machines"] or ()]
        if event["kind"] == "machine_booted":
            booted.add((event["run_id"], event["machine"]))
        elif event["kind"] == "machines_joined":
            joined_s |= {key: event["t_s"] for key in keys if key in booted and key not in joined_s}
            for key in keys:  # one that left may come back
                left_s.pop(key, None)
        elif event["kind"] == "machines_left":
            left_s |= dict.fromkeys(keys, event["t_s"])
    return joined_s, left_s


def measured_error_ms(document: Json) -> float | None:
    """Return the most by which a latency may be wrong as the workers wrote it; None where fewer than two clocks were
    compared."""
    return None if document.get("clock_error_ms") is None else float(document["clock_error_ms"])


def corrected_error_ms(document: Json) -> float | None:
    """The most by which a latency may be wrong without the clocks' offsets; None where they are not all on record.

    Of a pair of machines: the errors of both measurements, and as much as their clocks moved against each other, for
    nobody knows that they did so evenly. A line is all the way between its ends, so a clock that goes steadily and one
    that is set at once are both within.
    """
    before, after, errors = (
        document.get(name) or {} for name in ("clock_offset_ms", "clock_end_offset_ms", "clock_offset_error_ms")
    )
    workers = [name for name in document.get("machines") or {} if name in before]
    if any(known.get(name) is None for name in workers for known in (before, after, errors)):
        return None
    moves = {name: after[name] - before[name] for name in workers}
    pairs = (errors[a] + errors[b] + abs(moves[a] - moves[b]) for a, b in combinations(workers, 2))
    return max(pairs, default=None)


def latency_error_ms(document: Json, windows: Iterable[Row]) -> float | None:
    """Return the most by which a latency of a run may be wrong in its `windows`; None where the clocks of some of their
    tuples are not known, or nobody measured how far they are apart."""
    if any(row.get("corrected") != row["n"] for row in windows):
        return None
    if sum(name in (document.get("clock_offset_ms") or {}) for name in document.get("machines") or {}) == 1:
        return 0.0
    corrected = corrected_error_ms(document)
    return measured_error_ms(document) if corrected is None else corrected
