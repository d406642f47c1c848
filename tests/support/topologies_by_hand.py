"""Small topologies with rates, for tests of policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from scheduler_plugins.model import Component, Edge, Executor, Slot, Topology, WorkerMachine, executor_ranges
from scheduler_plugins.policies import initial_placement


def machines(count: int, ports: int = 4, first: int = 1) -> tuple[WorkerMachine, ...]:
    return tuple(
        WorkerMachine(f"m{i}", f"id-{i:03}", tuple(6700 + p for p in range(ports))) for i in range(first, first + count)
    )


def topology(
    edges: Sequence[tuple[str, str]],
    *,
    tasks: int,
    executors: int,
    workers: int,
    inflow: Mapping[str, float] | None = None,
    processing: Mapping[str, float] | None = None,
    placement: Mapping[int, Slot] | None = None,
) -> Topology:
    """`inflow`: tuples/s emitted per edge by a source component; `processing`: tuples/s executed per component."""
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    targets = {target for _, target in edges}
    ids = {name: tuple(range(1 + i * tasks, 1 + (i + 1) * tasks)) for i, name in enumerate(names)}
    components = tuple(
        Component(
            name,
            "bolt" if name in targets else "spout",
            ids[name],
            tuple(Executor(a, b) for a, b in executor_ranges(ids[name], executors)),
            emitted_per_s=(inflow or {}).get(name),
            executed_per_s=(processing or {}).get(name),
        )
        for name in names
    )
    declared = tuple(Edge(s, "default", t, "shuffle", (inflow or {}).get(s)) for s, t in edges)
    return Topology("t-1", "t", workers, components, declared, placement=placement or {})


STAR = [("spout_1", "centre"), ("spout_2", "centre"), ("centre", "sink_1"), ("centre", "sink_2")]
LINEAR = [("spout", "bolt_1"), ("bolt_1", "bolt_2"), ("bolt_2", "sink")]
DIAMOND = [("spout", f"bolt_{i}") for i in range(1, 5)] + [(f"bolt_{i}", "sink") for i in range(1, 5)]


def dealt_evenly(topology: Topology, hosts: Sequence[WorkerMachine], taken: Collection[Slot] = ()) -> Topology:
    """The topology in the slots that Storm's own scheduler gives it."""
    slots = initial_placement.sort_slots(initial_placement.free_slots(hosts, taken))
    return replace(topology, placement=initial_placement.place_topology(topology, slots))
