"""The time of tuples from one executor to the next, from latencies without queues.

Mean latency at the sinks is the sum over a tuple's way of services, waits and hops. Services and waits are subtracted
as the simulator has them, also those until an executor looks; the rest is shared among hops inside a worker and
hops between two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.calibration.sums import RunSums
from analysis.calibration.tuple_costs import is_dealt_evenly, remote_shares
from analysis.metrics.steadiness import WINDOW_S
from analysis.record.small_tables import Row
from scheduler_plugins.simulator.capacity import idle_wait_s
from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedTopology, Waits

MOST_BUSY = 0.7  # of an executor; above, its queue says more than its hops
LEAST_TUPLES = 100


@dataclass(frozen=True)
class HopRow:
    """The way of a mean tuple: time (ms), and hops. For a side of an event the time is the rest of its mean latency."""

    ms: float = 0.0
    local: float = 0.0
    remote: float = 0.0


@dataclass(frozen=True)
class _Place:
    """A component on one side of an event, in tuples a second; `ms`: of a tuple's service and waits there; `tasks`: of
    it in each slot."""

    rate: float
    ms: float
    tasks: Mapping[str, int]


def hop_rows(run: RunSums, costs: Costs) -> list[HopRow]:
    """Return a row for each steady side on which no executor is busy; none if the record does not say where tuples
    go."""
    rows = []
    for interval in (each for each in run.intervals if each["steady"]):
        ids = run.topology_ids
        topology = ids.get(interval["topology"] or "") or (next(iter(ids.values())) if len(ids) == 1 else "")
        work = run.works.get(topology)
        if work is None or interval["event_id"] not in run.zeros_s or not is_dealt_evenly(work):
            continue
        latencies = [
            row
            for row in run.latencies
            if (row["event_id"], row["topology"]) == (interval["event_id"], interval["topology"])
            and interval["start_s"] <= row["window_s"] <= interval["end_s"] - WINDOW_S
            and row["mean_ms"] is not None
        ]
        tuples = sum(row["n"] for row in latencies)
        places = _places(run, interval, topology, work, costs)
        if tuples >= LEAST_TUPLES and places and (way := _mean_way(work, places)):
            latency_ms = sum(row["n"] * row["mean_ms"] for row in latencies) / tuples
            rows.append(HopRow(latency_ms - way.ms, way.local, way.remote))
    return rows


def _places(
    run: RunSums, interval: Row, topology: str, work: SimulatedTopology, costs: Costs
) -> dict[str, _Place] | None:
    """Return the components by name; None if one is busy, or nothing is known of it."""
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
        executed, emitted, transferred, busy_ms = (
            sum(float(row[name] or 0) for row in samples)
            for name in ("executed", "emitted", "transferred", "execute_ms")
        )
        executors = len({row["first_task"] for row in placement})
        if component.kind == "spout":
            # Lines have no time of a spout's tuples: theirs is that of transferring them.
            ms = costs.local_emit_ms * transferred / emitted if emitted else 0.0
            rate = emitted / length_s
            ms += _looks_ms(work.spout_waits, rate / max(executors, 1), costs)
        else:
            load = busy_ms / 1000 / length_s / executors if executors else 1.0
            if not executed or load > MOST_BUSY:
                return None
            service_ms, rate = busy_ms / executed, executed / length_s
            wait_ms = load / (1 - load) * (1 + component.cost_cv2) / 2 * service_ms
            ms = service_ms + (wait_ms + _looks_ms(work.bolt_waits, rate / executors, costs))
        places[component.name] = _Place(rate, ms, Counter(row["slot"] for row in placement))
    return places


def _looks_ms(waits: Waits, rate: float, costs: Costs) -> float:
    """Return the time until an executor that receives so many tuples/s looks for one."""
    sleep_s = waits.sleep_s + costs.sleep_slack_ms / 1000 if waits.sleep_s else 0.0
    mean_s, _ = idle_wait_s(np.array(rate), np.array(waits.spin_s), np.array(sleep_s))
    return 1000 * float(mean_s)


def _mean_way(work: SimulatedTopology, places: Mapping[str, _Place]) -> HopRow | None:
    """Return the way of the tuples that the sinks execute, up to their execution."""
    levels = work.levels()
    ways: dict[str, HopRow] = {}
    for name in sorted(levels, key=lambda name: levels[name]):
        place = places[name]
        inputs = [(edge, places[edge.source].rate * edge.selectivity) for edge in work.edges if edge.target == name]
        total = sum(rate for _, rate in inputs)
        if inputs and total <= 0:
            return None
        parts = [(rate / total, ways[edge.source], _remote_share(edge, work, places)) for edge, rate in inputs]
        ways[name] = HopRow(
            sum(share * way.ms for share, way, _ in parts) + place.ms,
            sum(share * (way.local + 1 - portion) for share, way, portion in parts),
            sum(share * (way.remote + portion) for share, way, portion in parts),
        )
    sources = {edge.source for edge in work.edges}
    sinks = [name for name in ways if name not in sources]
    total = sum(places[name].rate for name in sinks)
    if total <= 0:
        return None
    weights = [(places[name].rate / total, ways[name]) for name in sinks]
    return HopRow(*(sum(share * getattr(way, key) for share, way in weights) for key in ("ms", "local", "remote")))


def _remote_share(edge: EdgeWork, work: SimulatedTopology, places: Mapping[str, _Place]) -> float:
    """Return the share of deliveries on an edge that go to other workers; its sources' tasks emit alike."""
    sources: Mapping[str, int] = places[edge.source].tasks
    targets = places[edge.target].tasks
    deliveries = sum(
        number * remote_shares(edge, work, {edge.target: targets.get(slot, 0)}) for slot, number in sources.items()
    ) / sum(sources.values())
    return deliveries / sum(targets.values()) if edge.grouping == "all" else deliveries
