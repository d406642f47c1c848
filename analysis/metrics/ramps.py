"""Numbers of a load that grows for minutes (DT 6.4, 7.2): such a run has no steady part to take levels from. Pure.

They are of the course's event, from its zero to the next course or the end of the run, in sliding minutes. Throughput
is counted where the topology names it, which may be several tuples for each one offered: the ratio of both before the
course tells how many.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from statistics import fmean

from analysis.metrics import untimed
from analysis.metrics.throughput import WINDOW_S
from analysis.record.event_timeline import crashed_machines, memberships
from analysis.record.small_tables import Row, Unit, by_unit, unit_of
from barograph.plan.experiment import WHOLE_CLUSTER

SCOPES = ("total", "due", "spouts", "dropped")
COURSES = ("rate", "sine", "trace")  # kinds of events
MINUTE = 6  # windows
GROWTH_S = 120.0  # from the zero until the highest offered rate is nearly reached: with less it is a step
FOLLOWS = 0.95  # of the offered rate: throughput follows it
Rates = Mapping[str, Mapping[float, float]]  # by scope and window
Spans = Mapping[str, Sequence[tuple[float, float]]]  # by machine: when it was in the cluster, in epoch seconds


def ramps(
    windows: Iterable[Row], events: Iterable[Row], intervals: Iterable[Row], zeros: Iterable[Row]
) -> Iterator[tuple[Row, float, float, Rates]]:
    """Yield the courses on which the offered rate grows: their events, from when until when they last, in epoch
    seconds, and the rates of windows from the zero on, and before it those of the part that counts."""
    axes, of_units = {unit_of(row): row for row in zeros}, by_unit(windows)
    before = {(unit_of(row), row["event_id"]): row for row in intervals if row["phase"] == "before"}
    for unit, of_unit in by_unit(sorted(events, key=lambda row: float(row["zero_s"]))).items():
        courses = [event for event in of_unit if event["kind"] in COURSES]
        for event, following in pairwise([*courses, None]):
            assert event is not None, "only the last one is none"
            axis = axes[unit]
            end_s = axis["last_s"] if following is None else following["zero_s"]
            part = before.get((unit, event["event_id"]), {"start_s": 0.0, "end_s": 0.0})
            rates: dict[str, dict[float, float]] = defaultdict(dict)
            for row in of_units.get(unit, ()):
                at_s = axis["zero_s"] + row["window_s"] - event["zero_s"]
                is_inside = part["start_s"] <= at_s < part["end_s"] or 0.0 <= at_s <= end_s - event["zero_s"] - WINDOW_S
                is_counted = row["scope"] in SCOPES and not row["component"] and row["complete"]
                if is_counted and row["rate"] is not None and is_inside:
                    rates[row["scope"]][at_s] = row["rate"]
            offered = {at_s: rate for at_s, rate in rates["due"].items() if at_s >= 0.0}
            highest = max(offered.values(), default=0.0)
            reached_s = min((at_s for at_s, rate in offered.items() if rate >= FOLLOWS * highest), default=0.0)
            if reached_s >= GROWTH_S:
                yield event, event["zero_s"], end_s, rates


def kept_up(rates: Rates, waiting: Mapping[float, float]) -> bool:
    """Return whether, before the course, spouts emitted what was due, nothing was dropped, and queues neither grew nor
    drained, all within 5 % of the offered rate, as far as they are measured. `waiting`: tuples in queues by window."""
    due = {at_s: rate for at_s, rate in rates["due"].items() if at_s < 0.0}
    if not due:
        return False
    offered, queued = fmean(due.values()), sorted(at_s for at_s in waiting if min(due) <= at_s <= max(due))
    emitted = [due[at_s] - rate for at_s, rate in rates.get("spouts", {}).items() if at_s in due]
    dropped = [rate for at_s, rate in rates.get("dropped", {}).items() if at_s in due]
    differences = [fmean(each) for each in (emitted, dropped) if each]
    if len(queued) > 1:
        differences.append((waiting[queued[-1]] - waiting[queued[0]]) / (queued[-1] - queued[0]))
    return all(abs(each) <= (1 - FOLLOWS) * offered for each in differences)


def levels(rates: Rates, lasts_s: float, *, is_known: bool) -> tuple[dict[str, float | None], bool]:
    """Return `saturation_rate`, `peak` and `end_level`, and whether throughput followed the highest offered rate: the
    first is then a lower bound. `is_known`: throughput before kept up, and tells how many tuples come of each one
    offered."""
    throughput, due = rates.get("total", {}), rates["due"]
    after = sorted(at_s for at_s in throughput if at_s >= 0.0)
    minutes = [part for part in zip(*(after[place:] for place in range(MINUTE)), strict=False)
               if part[-1] - part[0] < MINUTE * WINDOW_S]  # fmt: skip
    last = after[-2 * MINUTE :]  # of the very last window a part may be missing
    is_whole = (
        len(last) == 2 * MINUTE and last[-1] - last[0] < 2 * MINUTE * WINDOW_S and lasts_s - last[-1] < 3 * WINDOW_S
    )
    numbers: dict[str, float | None] = {
        "peak": max((_mean(throughput, part) for part in minutes), default=None),
        "end_level": _mean(throughput, last) if is_whole else None,
    }
    earlier = [at_s for at_s in throughput if at_s < 0.0 and due.get(at_s) and is_known]
    ratio = _mean(throughput, earlier) / _mean(due, earlier) if earlier else 0.0
    pairs = [(_mean(due, part), _mean(throughput, part)) for part in minutes if all(at_s in due for at_s in part)]
    follows = [(offered, min(offered, served / ratio)) for offered, served in pairs
               if ratio and served / ratio >= FOLLOWS * offered]  # fmt: skip
    numbers["saturation_rate"] = max((least for _, least in follows), default=None)
    return numbers, bool(follows) and max(follows)[0] >= max(pairs)[0]


def _mean(rates: Mapping[float, float], part: Iterable[float]) -> float:
    return fmean(rates[at_s] for at_s in part)


def machine_numbers(
    spans: Spans, begin_s: float, end_s: float, used: Iterable[tuple[str, float, float]], crashed: Collection[str]
) -> dict[str, float | None]:
    """Return `machine_seconds` and `utilisation_percent`, which needs all machines but crashed ones. `used`: machine,
    middle of a window, its share of the quota."""
    shares = [
        (name, share) for name, at_s, share in used
        if begin_s <= at_s < end_s and any(since_s <= at_s < until_s for since_s, until_s in spans.get(name, ()))
    ]  # fmt: skip
    seconds = {name: sum(max(0.0, min(until_s, end_s) - max(since_s, begin_s)) for since_s, until_s in each)
               for name, each in spans.items()}  # fmt: skip
    silent = {name for name, each in seconds.items() if each >= 2 * WINDOW_S}.difference(dict(shares), crashed)
    return {
        "machine_seconds": sum(seconds.values()) if spans else None,
        "utilisation_percent": 100.0 * fmean(share for _, share in shares) if shares and not silent else None,
    }


def numbers(read: Callable[[str], list[Row]]) -> Iterator[tuple[Row, dict[str, float | None], tuple[str, ...]]]:
    """Yield for each course its event, its numbers, and those that are lower bounds."""
    zeros, events = read("zeros"), read("scale_events")
    axes = {unit_of(row): row["zero_s"] for row in zeros}
    changes, crashed = memberships(read("events")), crashed_machines(read("events"))
    steady = {
        (unit_of(row), row["event_id"]) for row in read("intervals") if row["phase"] == "before" and row["steady"]
    }
    queues = untimed.queues(read("activity"))
    spans: dict[str, dict[str, Sequence[tuple[float, float]]]] = defaultdict(dict)
    for row in read("machines"):
        always = () if row["joins_at_scale"] else ((-inf, inf),)
        spans[row["run_id"]][row["machine"]] = changes.get((row["run_id"], row["machine"]), always)
    used: dict[Unit, list[tuple[str, float, float]]] = defaultdict(list)
    for row in read("cpu_windows"):
        if row["utilisation_mean"] is not None:
            middle_s = axes[unit_of(row)] + row["window_s"] + WINDOW_S / 2
            used[unit_of(row)].append((row["machine"], middle_s, row["utilisation_mean"]))
    clusters = {run for run, topology in axes if topology == WHOLE_CLUSTER}
    for event, begin_s, end_s, rates in ramps(read("throughput"), events, read("intervals"), zeros):
        unit = unit_of(event)
        key, waiting = (unit, event["event_id"]), dict[float, float]()
        for queue in queues:
            for at_s, tuples in queue.get(key, {}).items():
                waiting[at_s] = waiting.get(at_s, 0.0) + tuples
        of_load, follows = levels(rates, end_s - begin_s, is_known=key in steady and kept_up(rates, waiting))
        if unit[1] == WHOLE_CLUSTER or unit[0] not in clusters:
            of_load |= machine_numbers(spans.get(unit[0], {}), begin_s, end_s, used[unit], crashed[unit[0]])
        yield event, of_load, ("saturation_rate",) if follows else ()
