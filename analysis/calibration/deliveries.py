"""The part of components' output that leaves the worker, from the places of tasks, as an even grouping deals evenly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.record.small_tables import Row
from scheduler_plugins.simulator.work import EdgeWork, SimulatedTopology

EVEN = ("shuffle", "fields", "none", "local_or_shuffle", "all")


@dataclass(frozen=True)
class Deliveries:
    """Tuples to tasks of other workers: how many, and their kilobytes without Storm's frame."""

    remote: float = 0.0
    kilobytes: float = 0.0

    def __add__(self, other: Deliveries) -> Deliveries:
        return Deliveries(self.remote + other.remote, self.kilobytes + other.kilobytes)


def is_dealt_evenly(work: SimulatedTopology) -> bool:
    """Return whether it is known how many tuples leave a worker: every component has one stream with a known
    distribution, and none has routes of its own."""
    streams: dict[str, set[str]] = {}
    for edge in work.edges:
        streams.setdefault(edge.source, set()).add(edge.stream)
    is_even = all(edge.grouping in EVEN and not edge.routes for edge in work.edges)
    return is_even and all(len(names) == 1 for names in streams.values())


def remote_shares(edge: EdgeWork, work: SimulatedTopology, here: Mapping[str, int]) -> float:
    """Return deliveries to other workers per tuple emitted on the edge in a worker that has `here` tasks of
    components."""
    tasks = next(len(component.tasks) for component in work.components if component.name == edge.target)
    local_tasks = min(here.get(edge.target, 0), tasks)
    if edge.grouping == "all":
        return float(tasks - local_tasks)
    if edge.grouping == "local_or_shuffle" and local_tasks:
        return 0.0
    return 1.0 - local_tasks / tasks


def of_worker(work: SimulatedTopology, rows: Iterable[Row]) -> Deliveries:
    """Return the deliveries of one process of a worker in one window; `rows` are those of its components."""
    rows_by_component = {row["component"]: row for row in rows}
    task_counts = {name: row["tasks"] for name, row in rows_by_component.items()}
    total = Deliveries()
    for edge in work.edges:
        if edge.source in rows_by_component:
            tuples = (rows_by_component[edge.source]["emitted"] or 0) * remote_shares(edge, work, task_counts)
            total += Deliveries(tuples, tuples * edge.tuple_bytes / 1000.0)
    return total
