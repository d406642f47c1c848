"""Tuples that have no latency, because they never came to a sink, in windows of an event: missed, or still waiting.

By start of window, s after the event. What was lost is counted on each side of an event only (`losses`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from analysis.metrics.steadiness import WINDOW_S
from analysis.record.event_timeline import event_id_of

Row = Mapping[str, Any]
Key = tuple[str, str]  # run, event
Tuples = Mapping[float, float | None]  # None: nobody knew all of them

# With half a percent untimed, 95 % of the others are at least 94.5 and at most 95.5 % of all.
MOST_UNTIMED_PERCENT = 0.5
LATENCY, UNTIMED = "latency_all_", "untimed_percent_"  # begins of the names of metrics
TOO_MANY = f"more than {MOST_UNTIMED_PERCENT:g} % of a run's tuples have no latency, or nobody knows"


def share_of(latency: str) -> str:
    """The metric that says how many tuples have no latency on the side that this one is of."""
    return f"{UNTIMED}{latency.rpartition('_')[2]}"


def carry_verdict(shares: Sequence[float], runs: int, *, any_on_record: bool) -> bool:
    """Whether latencies of the steady parts of so many runs may have a verdict: of each it is known that few tuples
    have none, by `shares`, in percent.

    Where no share of any run is on record (older analyses, sources that are not ours) they count as they did.
    """
    return not any_on_record or (len(shares) >= runs and max(shares, default=0.0) <= MOST_UNTIMED_PERCENT)


def never_emitted(
    due: Tuples, emitted: Tuples, behind: Mapping[float, float], missed: float | None, start: float, end: float
) -> float | None:
    """Missed or waiting at spouts; at one without a process nobody says what waits, but it was due and not emitted."""
    at_spouts = growth(behind, start, end)
    offered, sent = total(due, start, end), total(emitted, start, end)
    if at_spouts is None or missed is None or (due and offered is None):
        return None
    return max(at_spouts + missed, 0.0 if offered is None or sent is None else offered - sent)


def growth(waiting: Mapping[float, float], start: float, end: float) -> float | None:
    """By how many tuples more wait in the last of these windows than in the one before the first; 0 for fewer."""
    last = waiting.get(end - WINDOW_S)
    return None if last is None else max(0.0, last - waiting.get(start - WINDOW_S, 0.0))


def total(tuples: Tuples, start: float, end: float) -> float | None:
    """None where a part is not known."""
    parts = [n for window, n in tuples.items() if start <= window < end]
    known = [n for n in parts if n is not None]
    return sum(known) if parts and len(known) == len(parts) else None


def percent(part: float | None, whole: float | None) -> float | None:
    """None where one of them is not known, or there is nothing to have a part of."""
    return None if part is None or not whole else 100 * part / whole


def queues(activity: Iterable[Row]) -> tuple[dict[Key, dict[float, float]], dict[Key, dict[float, float]]]:
    """Tuples that wait in each window, at spouts (due, and not emitted) and at the other components."""
    behind: dict[Key, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    waiting: dict[Key, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in activity:
        if row["queue"] is not None:
            place = waiting if row["emitted"] is None else behind
            place[row["run_id"], event_id_of(row)][row["window_s"]] += row["queue"]
    return behind, waiting


def tuples_of_windows(throughput: Iterable[Row]) -> dict[tuple[str, str, str], dict[float, float | None]]:
    """By run, event and scope the tuples of each whole window."""
    tuples: dict[tuple[str, str, str], dict[float, float | None]] = defaultdict(dict)
    for row in throughput:
        if row["complete"] and not row["component"]:
            rate = row["rate"]
            of_scope = tuples[row["run_id"], event_id_of(row), row["scope"]]
            of_scope[row["window_s"]] = None if rate is None else WINDOW_S * rate
    return tuples
