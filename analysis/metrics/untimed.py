"""Tuples that have no latency, because they never came to a sink, in windows of an event: missed, dropped, or still
waiting.

By start of window, s after the event. Lost tuples are counted on each side of an event only (`losses`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.small_tables import Unit, unit_of

Row = Mapping[str, Any]
Key = tuple[Unit, str]  # unit, event
Tuples = Mapping[float, float | None]  # None: not all of them are known

# With half a percent untimed, 95 % of the others are at least 94.5 and at most 95.5 % of all.
MOST_UNTIMED_PERCENT = 0.5
LATENCY, UNTIMED = "latency_all_", "untimed_percent_"  # prefixes of the names of metrics
TOO_MANY = f"more than {MOST_UNTIMED_PERCENT:g} % of a run's tuples have no latency, or nobody knows"


def share_of(latency: str) -> str:
    """Return the metric for how many tuples have no latency on this metric's side."""
    return f"{UNTIMED}{latency.rpartition('_')[2]}"


def carry_verdict(shares: Sequence[float], runs: int, *, any_on_record: bool) -> bool:
    """Return whether latencies of the steady parts of so many runs may have a verdict: each is known to have few tuples
    without one, by `shares`, in percent.

    If no share of any run is on record (sources that are not ours) they count.
    """
    return not any_on_record or (len(shares) >= runs and max(shares, default=0.0) <= MOST_UNTIMED_PERCENT)


def never_emitted(
    due: Tuples, emitted: Tuples, behind: Mapping[float, float], missed: float | None, start: float, end: float
) -> float | None:
    """Return tuples missed or waiting at spouts, or due and not emitted where no queue is reported."""
    at_spouts = growth(behind, start, end)
    offered, sent = total(due, start, end), total(emitted, start, end)
    if at_spouts is None or missed is None or (due and offered is None):
        return None
    return max(at_spouts + missed, 0.0 if offered is None or sent is None else offered - sent)


def growth(waiting: Mapping[float, float], start: float, end: float) -> float | None:
    """Return how many more tuples wait in the last of these windows than in the one before the first; 0 if fewer."""
    last = waiting.get(end - WINDOW_S)
    return None if last is None else max(0.0, last - waiting.get(start - WINDOW_S, 0.0))


def total(tuples: Tuples, start: float, end: float) -> float | None:
    """Return the total; None if a part is unknown."""
    parts = [n for window, n in tuples.items() if start <= window < end]
    numbers = [n for n in parts if n is not None]
    return sum(numbers) if parts and len(numbers) == len(parts) else None


def percent(part: float | None, whole: float | None) -> float | None:
    """Return the percentage; None if a number is unknown, or the whole is 0."""
    return None if part is None or not whole else 100 * part / whole


def queues(activity: Iterable[Row]) -> tuple[dict[Key, dict[float, float]], dict[Key, dict[float, float]]]:
    """Tuples that wait in each window, at spouts (due, and not emitted) and at the other components."""
    behind: dict[Key, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    waiting: dict[Key, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in activity:
        if row["queue"] is not None:
            place = waiting if row["emitted"] is None else behind
            place[unit_of(row), row["event_id"]][row["window_s"]] += row["queue"]
    return behind, waiting


def tuples_of_windows(throughput: Iterable[Row]) -> dict[tuple[Unit, str, str], dict[float, float | None]]:
    """Return by unit, event and scope the tuples of each whole window."""
    tuples: dict[tuple[Unit, str, str], dict[float, float | None]] = defaultdict(dict)
    for row in throughput:
        if row["complete"] and not row["component"]:
            rate = row["rate"]
            of_scope = tuples[unit_of(row), row["event_id"], row["scope"]]
            of_scope[row["window_s"]] = None if rate is None else WINDOW_S * rate
    return tuples
