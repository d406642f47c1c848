"""The costs of tuples on the network, and the costs and savings of a new placement (MP IV-A, V; docs/metrics.md).

Numbers of runs, events and sides, from small tables. `payback_s` weighs the savings of a new placement
against the costs of its restarts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import pstdev

from analysis.metrics.steadiness import WINDOW_S
from analysis.metrics.untimed import percent
from analysis.record.event_timeline import WHOLE_RUN, absent_machines, crashed_machines, lines_of_event
from analysis.record.small_tables import Row, Unit, by_unit, unit_of
from barograph.plan.experiment import WHOLE_CLUSTER

EXPERIMENT_LAN = "exp0"
# MP V-A: a new placement after 60 s of 300 s; the first and the last 60 s are left out.
PUBLISHED_S = 180.0
Reader = Callable[[str], list[Row]]
Key = tuple[Unit, str]  # unit, event
Numbers = tuple[Key, Mapping[str, float | None], tuple[str, ...]]  # the last: names of horizons
Windows = Mapping[float, float]  # start -> number


def _key(row: Row) -> Key:
    return unit_of(row), row["event_id"]


def numbers(read: Reader) -> Iterator[Numbers]:
    for part in (passed_tuples, published_rates, decision_times, reschedules, paybacks):
        yield from part(read)


def passed_tuples(read: Reader) -> Iterator[Numbers]:
    """Yield per side tuples/s from task to task and the shares that leave a worker and a machine, of those with a known
    way; tuples/s that are processed, including Storm's ackers (MP fig. 11)."""
    for row in read("tuple_rates"):
        processed = row["executed_per_s"], row["ackers_executed_per_s"]
        found: dict[str, float | None] = {"processed_per_s": None if None in processed else sum(processed)}
        if row["traffic_per_s"] is not None:
            known = row["traffic_per_s"] - row["unplaced_per_s"]
            found["traffic_per_s"] = row["traffic_per_s"]
            found["between_machines_per_s"] = row["between_machines_per_s"]
            for name in ("workers", "machines"):
                found[f"between_{name}_percent"] = percent(row[f"between_{name}_per_s"], max(known, 0.0))
        yield _key(row), {f"{name}_{row['phase']}": value for name, value in found.items()}, ()


# --- windows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _EventWindows:
    """Windows of one event, complete ones in order: tuples that spouts emitted, and bytes between machines if every
    machine of the cluster was measured throughout."""

    emitted: Windows
    sent_bytes: Windows


def _windows(read: Reader) -> dict[Key, _EventWindows]:
    emitted: dict[Key, dict[float, float]] = defaultdict(dict)
    whole: dict[Key, set[float]] = defaultdict(set)
    for row in sorted(read("event_throughput"), key=lambda row: float(row["window_s"])):
        key = _key(row)
        if row["complete"] and not row["component"]:
            whole[key].add(row["window_s"])
            if row["scope"] == "spouts" and row["rate"] is not None:
                emitted[key][row["window_s"]] = WINDOW_S * row["rate"]
    sent: dict[Key, dict[float, float]] = defaultdict(dict)
    absent = absent_machines(read("scale_events"), read("machines"))
    crashed = crashed_machines(read("events"))
    for row in sorted(read("network_windows"), key=lambda row: float(row["window_s"])):
        key, phase = _key(row), "before" if row["window_s"] < 0.0 else "after"
        silent = set(row["silent"]) - absent.get((*key, phase), set()) - crashed[row["run_id"]]
        if row["window_s"] in whole[key] and not silent and row["tx_bytes"] is not None:
            sent[key][row["window_s"]] = row["tx_bytes"]
    return {key: _EventWindows(emitted[key], sent[key]) for key in {*emitted, *sent}}


def published_rates(read: Reader) -> Iterator[Numbers]:
    """Yield rates over 180 s from the event on, including the interruption, as the paper does (MP IV-A1, V-A)."""
    windows = _windows(read)
    for span in read("scale_events"):
        key = _key(span)
        if span["event_id"] != WHOLE_RUN and key in windows:
            for name, of, unit in (
                ("published_emitted_per_s", windows[key].emitted, 1.0),
                ("published_network_mb_per_s", windows[key].sent_bytes, 1e6),
            ):
                values = [value for start_s, value in of.items() if 0.0 <= start_s < PUBLISHED_S]
                is_whole = len(values) == PUBLISHED_S / WINDOW_S
                yield key, {name: sum(values) / PUBLISHED_S / unit if is_whole else None}, ()


# --- the decision -----------------------------------------------------------------------------------------------------


def decision_times(read: Reader) -> Iterator[Numbers]:
    """Yield the time of the policy for the applied decision, ms."""
    took = {(row["run_id"], row["decision_id"]): row["duration_ms"] for row in read("decisions")}
    events = by_unit(read("events"))
    for span in read("scale_events"):
        of_unit, until_s = events.get(unit_of(span), []), inf if span["until_s"] is None else span["until_s"]
        inside = [event for event in of_unit if span["zero_s"] <= event["t_s"] < until_s]
        answers = lines_of_event(of_unit, span["event_id"], inside)
        applied = {answer["decision_id"] for answer in answers if answer["kind"] == "applied" and answer["ok"]}
        times = [took.get((span["run_id"], name)) for name in sorted(filter(None, applied))]
        yield _key(span), {"decision_ms": next((time for time in times if time is not None), None)}, ()


def reschedules(read: Reader) -> Iterator[Numbers]:
    """Yield 100 if a new placement was requested and anything moved, 0 if nothing did: the mean over runs is the
    frequency (MP V-A1 of the greedy scheduler)."""
    asked = {_key(span) for span in read("scale_events") if span["kind"] == "reschedule"}
    for row in read("moves"):
        if _key(row) in asked:
            yield _key(row), {"rescheduled_percent": 100.0 * (row["executors_moved"] > 0)}, ()


# --- payback ----------------------------------------------------------------------------------------------------------


def paybacks(read: Reader) -> Iterator[Numbers]:
    """Yield for events that moved executors when their savings had paid for their costs, in bytes between machines."""
    windows, lost = _windows(read), defaultdict[Key, float](float)
    for row in read("losses"):
        if row["phase"] == "after" and row["lost"] is not None:
            for unit in (unit_of(row), (row["run_id"], WHOLE_CLUSTER)):
                lost[unit, row["event_id"]] += row["lost"]
    moved = {_key(row) for row in read("moves") if row["executors_moved"] > 0}
    clusters = {unit for unit, _ in windows if unit[1] == WHOLE_CLUSTER}  # bytes belong to machines
    moved |= {((run, WHOLE_CLUSTER), event_id) for (run, _), event_id in moved if (run, WHOLE_CLUSTER) in clusters}
    before = {_key(row): row for row in read("intervals") if row["phase"] == "before"}
    for key in sorted(moved & windows.keys() & before.keys()):
        found = payback(windows[key].emitted, windows[key].sent_bytes, before[key], lost.get(key, 0.0))
        if found is not None:
            yield key, {"payback_s": found.seconds}, ("payback_s",) if found.is_horizon else ()


@dataclass(frozen=True)
class Payback:
    """A payback time; `is_horizon`: it had not been paid when the watch ended."""

    seconds: float
    is_horizon: bool


@dataclass(frozen=True)
class _Level:
    """The level of the windows before an event: tuples a window and bytes a tuple. `scatter`: twice the deviation of a
    window's tuples. `margin`: twice the standard error of the price, by windows in which anything was emitted. Neither
    grows with the number of windows, as the distance of extremes does."""

    tuples: float
    scatter: float
    price: float
    margin: float


def payback(emitted: Windows, sent_bytes: Windows, before: Row, lost: float) -> Payback | None:
    """Return when, from the event on, the balance reaches 0 or more and stays there until the end of the watch.

    The balance, in bytes: the need of the tuples emitted since the event at the earlier rate of
    bytes a tuple, less the bytes sent; less that rate times the lost tuples, and times those that
    the earlier level would have emitted by then and that were not emitted. If a tuple since the event needed no fewer
    bytes than before, within twice the standard error of that, nothing was saved, and it is never paid. None: nothing
    was saved and nothing owed; bytes or tuples were not measured; or nothing passed between machines before.
    """
    common = [start_s for start_s in emitted if start_s in sent_bytes]
    part = [start_s for start_s in common if before["start_s"] <= start_s and start_s + WINDOW_S <= before["end_s"]]
    after = [start_s for start_s in common if start_s >= 0.0]
    level = _level([(emitted[start_s], sent_bytes[start_s]) for start_s in part])
    if level is None or not after or after[0] > 0.0 or len(after) != 1 + round((after[-1] - after[0]) / WINDOW_S):
        return None
    windows = [(emitted[start_s], sent_bytes[start_s]) for start_s in after]
    tuples, size = (sum(column) for column in zip(*windows, strict=True))
    never = Payback(after[-1] + WINDOW_S, is_horizon=True)
    if size >= (level.price - level.margin) * tuples:
        is_dearer = size > (level.price + level.margin) * tuples
        is_owed = lost > 0.0 or any(short > level.scatter for short, _, _ in _sums(windows, level))
        return never if is_dearer or is_owed else None
    balances = [level.price * (emitted - short - lost) - sent for short, emitted, sent in _sums(windows, level)]
    paid = len(balances)
    while paid and balances[paid - 1] >= 0.0:
        paid -= 1
    return never if paid == len(balances) else Payback(after[paid] + WINDOW_S, is_horizon=False)


def _level(windows: Sequence[tuple[float, float]]) -> _Level | None:
    tuples, size = sum(each for each, _ in windows), sum(each for _, each in windows)
    if tuples <= 0.0 or size <= 0.0:
        return None
    prices = [sent / emitted for emitted, sent in windows if emitted > 0.0]
    scatter = 2 * pstdev(emitted for emitted, _ in windows)
    return _Level(tuples / len(windows), scatter, size / tuples, 2 * pstdev(prices) / sqrt(len(prices)))


def _sums(windows: Sequence[tuple[float, float]], level: _Level) -> Iterator[tuple[float, float, float]]:
    """Yield by window's end the missing tuples, and those emitted and bytes sent since the event."""
    emitted, sent = 0.0, 0.0
    for number, (tuples, size) in enumerate(windows, start=1):
        emitted, sent = emitted + tuples, sent + size
        yield max(0.0, number * level.tuples - emitted), emitted, sent
