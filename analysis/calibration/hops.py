"""How long tuples take from one executor to the next, from latencies where nothing waits.

Mean latency at the sinks is the sum over a tuple's way of services, waits and hops. Services and waits are taken away
as the simulator has them, also those until an executor looks; what is left is shared among hops inside a worker and
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
from scheduler_plugins.simulator.work import Costs, EdgeWork, TopologyWork, Waits

MOST_BUSY = 0.7  # of an executor; above, its queue says more than its hops
LEAST_TUPLES = 100


@dataclass(frozen=True)
class HopRow:
    """Of one side of one event: what is left of the mean latency (ms), and the hops of a mean tuple."""

    ms: float
    local: float
    remote: float


@dataclass(frozen=True)
class _Way:
    """Of a mean tuple up to where it is executed: services and waits (ms), and hops."""

    ms: float = 0.0
    local: float = 0.0
    remote: float = 0.0


@dataclass(frozen=True)
class _Place:
    """What a component did on one side of an event, in tuples a second; `tasks`: of it in each slot."""

    rate: float
    service_ms: float
    wait_ms: float
    busy: float
    tasks: Mapping[str, int]


def hop_rows(run: RunSums, costs: Costs) -> list[HopRow]:
    """A row a steady side on which no executor is busy; none where the record does not say where tuples go."""
    found = []
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
            found.append(HopRow(latency_ms - way.ms, way.local, way.remote))
    return found


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


def _places(run: RunSums, interval: Row, topology: str, work: TopologyWork, costs: Costs) -> dict[str, _Place] | None:
    zero_s = run.zeros_s[interval["event_id"]]
    begin_s, end_s = zero_s + interval["start_s"], zero_s + interval["end_s"]
    rows = [
        row
        for row in run.activity
        if row["topology"] == topology and begin_s <= row["window_s"] <= end_s - run.window_s
    ]
    length_s = run.window_s * len({row["window_s"] for row in rows})
    settled = [
        row for row in run.settled if all(row[key] == interval[key] for key in ("event_id", "phase", "topology"))
    ]
    if not rows or not settled:
        return None
    found = {}
    for component in work.components:
        mine = [row for row in rows if row["component"] == component.name]
        here = [row for row in settled if row["component"] == component.name]
        executed = sum(float(row["executed"] or 0) for row in mine)
        executors = len({row["first_task"] for row in here})
        if component.kind == "spout":
            emitted, transferred = (sum(float(row[name] or 0) for row in mine) for name in ("emitted", "transferred"))
            # Lines have no time of a spout's tuples: theirs is that of handing them over.
            service_ms = costs.local_emit_ms * transferred / emitted if emitted else 0.0
            rate = emitted / length_s
            looks_ms = _looks_ms(work.spout_waits, rate / max(executors, 1), costs)
            found[component.name] = _Place(rate, service_ms, looks_ms, 0.0, _tasks(here))
            continue
        if not executed or not here:
            return None
        busy_ms = sum(float(row["execute_ms"] or 0) for row in mine)
        busy = busy_ms / 1000 / length_s / executors
        service_ms = busy_ms / executed
        wait_ms = busy / (1 - busy) * (1 + component.cost_cv2) / 2 * service_ms if busy < 1 else 0.0
        wait_ms += _looks_ms(work.bolt_waits, executed / length_s / executors, costs)
        found[component.name] = _Place(executed / length_s, service_ms, wait_ms, busy, _tasks(here))
    return found


def _looks_ms(waits: Waits, rate: float, costs: Costs) -> float:
    """Until an executor to which so many tuples/s come looks for one."""
    sleep_s = waits.sleep_s + costs.sleep_slack_ms / 1000 if waits.sleep_s else 0.0
    mean_s, _ = idle_wait_s(np.array(rate), np.array(waits.spin_s), np.array(sleep_s))
    return 1000 * float(mean_s)


def _tasks(rows: Sequence[Row]) -> Mapping[str, int]:
    return Counter(row["slot"] for row in rows)


def _mean_way(work: TopologyWork, places: Mapping[str, _Place]) -> _Way | None:
    """Of the tuples that the sinks execute."""
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
            sum(share * (way.local + 1 - remote) for share, way, remote in parts),
            sum(share * (way.remote + remote) for share, way, remote in parts),
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


def _remote_share(edge: EdgeWork, work: TopologyWork, places: Mapping[str, _Place]) -> float:
    """Of the deliveries on an edge, those to other workers; its sources' tasks emit alike."""
    sources, targets = places[edge.source].tasks, places[edge.target].tasks
    tasks = sum(targets.values())
    remote = sum(
        number * remote_shares(edge, work, {edge.target: targets.get(slot, 0)}) for slot, number in sources.items()
    ) / sum(sources.values())
    return remote / tasks if edge.grouping == "all" else remote
