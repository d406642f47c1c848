"""The time of tuples from one executor to the next, from latencies without queues.

Mean latency at the sinks is the sum over a tuple's way of services, waits and hops. Services and waits are subtracted
as the simulator has them, also those until an executor looks; the rest is shared among hops inside a worker and
hops between two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import is_dealt_evenly, remote_shares
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.waits import idle_wait_s
from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedTopology, Waits

MOST_BUSY = 0.7  # of an executor; above, its queue says more than its hops
LEAST_TUPLES = 100


@dataclass(frozen=True)
class HopRow:
    """A side of one event: the rest of the mean latency (ms), and the hops of a mean tuple."""

    ms: float
    local: float
    remote: float


@dataclass(frozen=True)
class _Way:
    """The way of a mean tuple up to its execution: services and waits (ms), and hops."""

    ms: float = 0.0
    local: float = 0.0
    remote: float = 0.0


@dataclass(frozen=True)
class _Place:
    """A component on one side of an event, in tuples a second; `tasks`: of it in each slot."""

    rate: float
    service_ms: float
    wait_ms: float
    busy: float
    tasks: Mapping[str, int]


def hop_rows(run: RunSums, costs: Costs) -> list[HopRow]:
    """Return a row for each steady side on which no executor is busy; none if the record does not say where tuples
    go."""
    rows = []
    for interval in (each for each in run.intervals if each["steady"]):
        topology = _topology_of(run, interval)
        work = run.works.get(topology) if topology is not None else None
        if topology is None or work is None or interval["event_id"] not in run.zeros_s or not is_dealt_evenly(work):
            continue
        latency_ms = _latency_ms(run, interval)
        places = _places(run, interval, topology, work, costs)
        if latency_ms is None or places is None or max(place.busy for place in places.values()) > MOST_BUSY:
            continue
        way = _mean_way(work, places)
        if way is not None:
            rows.append(HopRow(latency_ms - way.ms, way.local, way.remote))
    return rows


def _topology_of(run: RunSums, interval: Row) -> str | None:
    ids = run.topology_ids
    return ids.get(interval["topology"] or "") or (next(iter(ids.values())) if len(ids) == 1 else None)


def _latency_ms(run: RunSums, interval: Row) -> float | None:
    rows = [
        row
        for row in run.latencies
        if (row["event_id"], row["topology"]) == (interval["event_id"], interval["topology"])
        and interval["start_s"] <= row["window_s"] <= interval["end_s"] - WINDOW_S
        and row["mean_ms"] is not None
    ]
    tuples = sum(row["n"] for row in rows)
    return sum(row["n"] * row["mean_ms"] for row in rows) / tuples if tuples >= LEAST_TUPLES else None


def _places(
    run: RunSums, interval: Row, topology: str, work: SimulatedTopology, costs: Costs
) -> dict[str, _Place] | None:
    zero_s = run.zeros_s[interval["event_id"]]
    begin_s, end_s = zero_s + interval["start_s"], zero_s + interval["end_s"]
    rows = [
        row
        for row in run.activity
        if row["topology"] == topology and begin_s <= row["window_s"] <= end_s - run.window_s
    ]
    length_s = run.window_s * len({row["window_s"] for row in rows})
    placements = [
        row for row in run.settled if all(row[key] == interval[key] for key in ("event_id", "phase", "topology"))
    ]
    if not rows or not placements:
        return None
    places = {}
    for component in work.components:
        samples = [row for row in rows if row["component"] == component.name]
        placement = [row for row in placements if row["component"] == component.name]
        executions = sum(float(row["executed"] or 0) for row in samples)
        executors = len({row["first_task"] for row in placement})
        if component.kind == "spout":
            emitted, transfers = (sum(float(row[name] or 0) for row in samples) for name in ("emitted", "transferred"))
            # Lines have no time of a spout's tuples: theirs is that of transferring them.
            service_ms = costs.local_emit_ms * transfers / emitted if emitted else 0.0
            rate = emitted / length_s
            looks_ms = _looks_ms(work.spout_waits, rate / max(executors, 1), costs)
            places[component.name] = _Place(rate, service_ms, looks_ms, 0.0, _tasks(placement))
            continue
        if not executions or not placement:
            return None
        busy_ms = sum(float(row["execute_ms"] or 0) for row in samples)
        load = busy_ms / 1000 / length_s / executors
        service_ms = busy_ms / executions
        wait_ms = load / (1 - load) * (1 + component.cost_cv2) / 2 * service_ms if load < 1 else 0.0
        wait_ms += _looks_ms(work.bolt_waits, executions / length_s / executors, costs)
        places[component.name] = _Place(executions / length_s, service_ms, wait_ms, load, _tasks(placement))
    return places


def _looks_ms(waits: Waits, rate: float, costs: Costs) -> float:
    """Return the time until an executor that receives so many tuples/s looks for one."""
    sleep_s = waits.sleep_s + costs.sleep_slack_ms / 1000 if waits.sleep_s else 0.0
    mean_s, _ = idle_wait_s(np.array(rate), np.array(waits.spin_s), np.array(sleep_s))
    return 1000 * float(mean_s)


def _tasks(rows: Sequence[Row]) -> Mapping[str, int]:
    return Counter(row["slot"] for row in rows)


def _mean_way(work: SimulatedTopology, places: Mapping[str, _Place]) -> _Way | None:
    """Return the way of the tuples that the sinks execute."""
    levels = work.levels()
    ways: dict[str, _Way] = {}
    for name in sorted(levels, key=lambda name: levels[name]):
        place = places[name]
        come = [(edge, places[edge.source].rate * edge.selectivity) for edge in work.edges if edge.target == name]
        total = sum(rate for _, rate in come)
        if not come:
            ways[name] = _Way(place.service_ms + place.wait_ms)
            continue
        if total <= 0:
            return None
        parts = [(rate / total, ways[edge.source], _remote_share(edge, work, places)) for edge, rate in come]
        ways[name] = _Way(
            sum(share * way.ms for share, way, _ in parts) + place.service_ms + place.wait_ms,
            sum(share * (way.local + 1 - portion) for share, way, portion in parts),
            sum(share * (way.remote + portion) for share, way, portion in parts),
        )
    sources = {edge.source for edge in work.edges}
    sinks = [name for name in ways if name not in sources]
    total = sum(places[name].rate for name in sinks)
    if total <= 0:
        return None
    weights = {name: places[name].rate / total for name in sinks}
    return _Way(
        *(sum(w * getattr(ways[name], key) for name, w in weights.items()) for key in ("ms", "local", "remote"))
    )


def _remote_share(edge: EdgeWork, work: SimulatedTopology, places: Mapping[str, _Place]) -> float:
    """Return the share of deliveries on an edge that go to other workers; its sources' tasks emit alike."""
    sources, targets = places[edge.source].tasks, places[edge.target].tasks
    tasks = sum(targets.values())
    deliveries = sum(
        number * remote_shares(edge, work, {edge.target: targets.get(slot, 0)}) for slot, number in sources.items()
    ) / sum(sources.values())
    return deliveries / tasks if edge.grouping == "all" else deliveries
