"""Steady parts and convergence of each run around each of its events, from its throughput windows.

Short series, so in this process.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.convergence import DEFINITIONS, PostScale, Windows, post_scale
from analysis.draining import SPAN_S, drained, draining
from analysis.event_ids import WHOLE_RUN
from analysis.steady import WINDOW_S, Steady, is_steady

BEFORE_WINDOWS = 6
LIVE_SPAN_S = 40.0
LEAST_WINDOWS = round(SPAN_S / WINDOW_S)


@dataclass(frozen=True)
class Part:
    """The windows of one run on one side of an event, as far as the events beside it."""

    run_id: str
    event_id: str
    phase: str
    starts_s: tuple[float, ...]
    rates: tuple[float, ...]
    queues: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # component -> tuples waiting


Verdict = tuple[bool | None, str | None]


def parts(throughput: Iterable[Mapping[str, Any]], queues: Iterable[Mapping[str, Any]] = ()) -> list[Part]:
    """Complete windows of the total throughput, before and after, and what waited at each component meanwhile."""
    waiting: dict[tuple[str, str], dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in queues:
        waiting[row["run_id"], row["event_id"]][row["component"]][row["window_s"]] = row["queue"] or 0.0
    split: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in throughput:
        if row["scope"] == "total" and row["complete"] and row["rate"] is not None:
            side = "before" if row["window_s"] < 0 else "after"
            split[row["run_id"], row["event_id"], side].append((row["window_s"], row["rate"]))
    return [_part(key, sorted(split[key]), waiting[key[:2]]) for key in sorted(split)]


def _part(
    key: tuple[str, str, str], series: Sequence[tuple[float, float]], waiting: Mapping[str, Mapping[float, float]]
) -> Part:
    starts_s = tuple(start for start, _ in series)
    queues = {name: tuple(seen.get(start, 0.0) for start in starts_s) for name, seen in sorted(waiting.items())}
    return Part(*key, starts_s, tuple(rate for _, rate in series), queues)


def live_verdicts(
    events: Iterable[Mapping[str, Any]], spans: Iterable[Mapping[str, Any]]
) -> dict[tuple[str, str, str], Verdict]:
    """What the run step itself said of steadiness: (run, event, phase) -> (verdict, reason); the last word counts.

    Told by the time at which it was said: before an event is after the one before it.
    """
    said = sorted((e for e in events if e["kind"] == "steady"), key=lambda event: float(event["t_s"]))
    found: dict[tuple[str, str, str], Verdict] = {}
    for span in spans:
        for event in (event for event in said if event["run_id"] == span["run_id"]):
            t_s, word = event["t_s"], (event["steady"], event["reason"])
            if t_s <= span["zero_s"] and (span["from_s"] is None or t_s > span["from_s"]):
                found[span["run_id"], span["event_id"], "before"] = word
            elif t_s > span["zero_s"] and (span["until_s"] is None or t_s <= span["until_s"]):
                found[span["run_id"], span["event_id"], "after"] = word
    return found


def interval_rows(parts: Iterable[Part], live: Mapping[tuple[str, str, str], Verdict]) -> list[dict[str, Any]]:
    """The part of each phase that counts: the steady tail; where there is none, a fallback that is flagged.

    Fallback before: the last 60 s. Fallback after: the last half of what was seen after the event. From either, and
    from the steady tail, windows are left out in which a component drained (see draining.py) and all before them, as
    far as the last 30 s: those a steady series has without a drain, by the same rule.
    """
    return [_interval_row(part, live.get((part.run_id, part.event_id, part.phase), (None, None))) for part in parts]


def _interval_row(part: Part, live: Verdict) -> dict[str, Any]:
    verdict = _verdict(part, bool(live[0]))
    first, fed = _undrained(part, _first(part, verdict))
    level = post_scale(part.rates[first:])
    return {
        "run_id": part.run_id,
        "event_id": part.event_id,
        "phase": part.phase,
        "start_s": part.starts_s[first],
        "end_s": part.starts_s[-1] + WINDOW_S,
        "mean": level.mean,
        "deviation": level.deviation,
        "windows": len(part.rates) - first,
        "steady": verdict.steady,
        "reason": verdict.reason if fed is None else f"{verdict.reason}; windows left out: {fed}",
        "live_steady": live[0],
        "live_reason": live[1],
    }


def _verdict(part: Part, live_steady: bool) -> Steady:
    verdict = is_steady(part.rates, WINDOW_S)
    if not verdict.steady and live_steady:
        # A short run stops watching as soon as the run step found this shorter span level.
        verdict = is_steady(part.rates, WINDOW_S, span_s=LIVE_SPAN_S)
    borrowed = draining(part.queues, part.rates, WINDOW_S) if verdict.steady else None
    return verdict if borrowed is None else Steady(False, None, borrowed)


def _first(part: Part, verdict: Steady) -> int:
    """Index of the first window of the steady tail or of its stand-in."""
    if verdict.since_s is not None:
        return round(verdict.since_s / WINDOW_S)
    return max(0, len(part.rates) - BEFORE_WINDOWS) if part.phase == "before" else len(part.rates) // 2


def _undrained(part: Part, first: int) -> tuple[int, str | None]:
    """`first`, or a later window if one from there on was fed by a queue; and by which."""
    fed = {index: why for index, why in drained(part.queues, part.rates).items() if index >= first}
    if not fed:
        return first, None
    last = max(fed)
    return max(first, min(last + 1, len(part.rates) - LEAST_WINDOWS)), fed[last]


def convergence_rows(parts: Iterable[Part], intervals: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convergence time after every event in all definitions; a run that never got steady again is censored."""
    after = {(row["run_id"], row["event_id"]): row for row in intervals if row["phase"] == "after"}
    rows = []
    for part in parts:
        if part.phase == "after" and part.event_id != WHOLE_RUN:
            rows += _definitions(part, after[part.run_id, part.event_id])
    return rows


def _definitions(part: Part, interval: Mapping[str, Any]) -> list[dict[str, Any]]:
    windows = Windows(part.starts_s, part.rates, WINDOW_S)
    level = PostScale(interval["mean"], interval["deviation"])
    rows = []
    for name, definition in DEFINITIONS.items():
        found = definition(windows, level)
        # Without a steady part there is no post-scale throughput to converge to; its stand-in says nothing.
        time_s = found.time_s if interval["steady"] else None
        rows.append({
            "run_id": part.run_id, "event_id": part.event_id, "definition": name, "time_s": time_s,
            "censored": time_s is None, "horizon_s": found.horizon_s,
        })  # fmt: skip
    return rows
