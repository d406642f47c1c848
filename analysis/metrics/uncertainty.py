"""Possible measurement errors of a run: of lost tuples by what one line moves, of latencies and utility by clocks.

A tuple is due by the clock of its source's machine and done by that of its sink's. `analysis.metrics.latency` subtracts
the difference of the two, on a straight line between two offsets of each machine, from the times of their measurement.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from analysis.metrics import untimed
from analysis.record.files import SeriesPaths, read_json_or_none
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row, rows

UTILITY = "utility_"  # prefix of the names of its two sides
Key = tuple[str, str, str]  # run, metric, event
Errors = Mapping[Key, float | None]  # in the metric's unit; None: unknown
ClockErrors = Mapping[str, float | None]  # by run, ms
Json = Mapping[str, Any]
CLOCKS = "run_id string, machine string, begin_s double, end_s double, begin_ms double, end_ms double"


def clock_lines(machines: Iterable[Row], runs: Iterable[Row], events: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Return rows of `CLOCKS`: two offsets of each machine's clock, and when they were measured; one can replace the
    other.

    Before the run and after it; for a machine that booted for an event when it joined, and for one that left when it
    left: its clock is measured then, whether or not it is given back.
    """
    spans = {run["run_id"]: (run["started_s"], run["ended_s"]) for run in runs}
    boots: set[tuple[str, str]] = set()
    joined_s: dict[tuple[str, str], float] = {}  # by run and machine; of those that had booted for it
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
    lines = []
    for row in machines:
        key = (row["run_id"], row["machine"])
        begin_s, end_s = spans.get(row["run_id"], (None, None))
        before, after = row["clock_offset_ms"], row["clock_end_offset_ms"]
        offsets = (after if before is None else before, before if after is None else after)
        lines.append((*key, joined_s.get(key, begin_s), left_s.get(key, end_s), *offsets))
    return lines


def measured_error_ms(document: Json) -> float | None:
    """Return the greatest error of a latency as written; None if fewer than two clocks were compared."""
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
    if any(row["corrected"] != row["n"] for row in windows):
        return None
    if sum(name in (document.get("clock_offset_ms") or {}) for name in document.get("machines") or {}) == 1:
        return 0.0
    error_ms = corrected_error_ms(document)
    return measured_error_ms(document) if error_ms is None else error_ms


def has_latency_level(topologies: Iterable[Row]) -> bool:
    """Return whether utility is that of a latency: then tuples without one count as latency's do."""
    return any(row["latency_ms"] is not None for row in topologies)


def clock_errors(paths: SeriesPaths) -> ClockErrors | None:
    """Return the possible error of each run's latencies; None for simulated runs, which have one clock."""
    if any(map(is_simulated, rows(paths, "runs"))):
        return None
    windows = defaultdict(list)
    for row in rows(paths, "latency", without=("buckets", "counts")):
        windows[row["run_id"]].append(row)
    documents = {run_id: read_json_or_none(paths.run(run_id).run_json) or {} for run_id in windows}
    return {run_id: latency_error_ms(documents[run_id], of_run) for run_id, of_run in windows.items()}


def utility_per_ms(topologies: Iterable[Row]) -> dict[str, float]:
    """Return by run by how much a millisecond of latency changes utility, at most; none without a level of latency.

    The attained share of a level L is L / mean, of which no millisecond above L takes more than 1 / L.
    """
    return {
        row["run_id"]: row["max_utility"] / row["latency_ms"] / (1 if row["juice"] is None else 2)
        for row in topologies if row["latency_ms"] is not None
    }  # fmt: skip


def utility_error(utility: float, per_ms: float, error_ms: float | None) -> float | None:
    """Return the possible error by clocks. A utility of 0 has none: it is of silence, not of latencies."""
    if not utility:
        return 0.0
    return None if error_ms is None else per_ms * error_ms


def measurement_errors(
    losses: Iterable[Row], measurements: Sequence[Row], clocks: ClockErrors | None, topologies: Iterable[Row]
) -> Errors:
    """Return the errors of lost tuples, whether or not any is called lost, of latencies of steady parts, and of
    utility if it is that of a latency."""
    errors: dict[Key, float | None] = {}
    worth = utility_per_ms(topologies)
    for row in measurements:
        run_id, key = row["run_id"], (row["run_id"], row["metric"], row["event_id"])
        if clocks is None or run_id not in clocks:
            continue
        if row["metric"].startswith(untimed.LATENCY):
            errors[key] = clocks[run_id]
        elif row["metric"].startswith(UTILITY) and run_id in worth:
            errors[key] = utility_error(row["value"], worth[run_id], clocks[run_id])
    tuples: dict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in losses:
        if row["phase"] in ("before", "after"):
            of_side = tuples[row["run_id"], row["phase"], row["event_id"]]
            of_side[0] += row["uncertainty"] or 0.0
            of_side[1] += row["sent"]
    for (run_id, phase, event), (uncertainty, sent) in tuples.items():
        errors[run_id, f"lost_{phase}", event] = uncertainty
        if phase == "after" and sent:
            errors[run_id, "lost_after_percent", event] = 100.0 * uncertainty / sent
    return errors
