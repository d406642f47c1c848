"""Topologies whose traffic from task to task is known, for tests of policies that place by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from scheduler_plugins.model import (
    Component,
    Decision,
    Edge,
    Executor,
    Observation,
    ScaleEvent,
    Slot,
    Topology,
    WorkerMachine,
)
from scheduler_plugins.policies import bind, initial_placement
from scheduler_plugins.service.refusal import refusal
from tests.support.topologies_by_hand import machines

RESCHEDULE = ScaleEvent("e1", "reschedule")
RATE = 100.0  # tuples/s from task to task
MEMORY = {"kept": 1}


def task(stage: int, chain: int, width: int) -> int:
    return 1 + stage * width + chain


def chains(
    width: int, depth: int, *, workers: int, shift: int = 1, quiet: int = 0, cpu_load: float | None = 0.1
) -> Topology:
    """`width` chains of `depth` tasks that exchange nothing with each other, a task an executor, not placed.

    Task i of a stage sends to task i + `shift` of the next one, so that dealing out in turn cuts every edge. `quiet`:
    so many tasks of a system component besides, without traffic.
    """
    names = [f"stage_{number}" for number in range(depth)]
    components = [
        _component(name, range(task(stage, 0, width), task(stage + 1, 0, width)), cpu_load)
        for stage, name in enumerate(names)
    ]
    if quiet:
        first = task(depth, 0, width)
        ackers = _component("__acker", range(first, first + quiet), None)
        components.append(replace(ackers, kind="system", executed_per_s=None))
    pairs = {
        (task(stage, chain, width), task(stage + 1, (chain + shift) % width, width)): RATE
        for stage in range(depth - 1)
        for chain in range(width)
    }
    edges = tuple(Edge(s, "default", t, "fields", width * RATE) for s, t in pairwise(names))
    return Topology("t-1", "t", workers, tuple(components), edges, samples_age_s=1.0, traffic=pairs)


def _component(name: str, tasks: Sequence[int], cpu_load: float | None) -> Component:
    executors = tuple(Executor(each, each, cpu_load=cpu_load) for each in tasks)
    kind = "spout" if name == "stage_0" else "bolt"
    return Component(name, kind, tuple(tasks), executors, emitted_per_s=RATE, executed_per_s=RATE)  # type: ignore[arg-type]


def dealt_out(topology: Topology, hosts: Sequence[WorkerMachine]) -> Topology:
    """Placed as Storm's even scheduler does it."""
    slots = initial_placement.sort_slots(initial_placement.free_slots(hosts, ()))
    return replace(topology, placement=initial_placement.place_topology(topology, slots))


def ten_chains(quiet: int = 0) -> tuple[Topology, tuple[WorkerMachine, ...]]:
    """As MP's Parallel topology: ten chains of eight tasks, dealt out over ten machines with one slot each."""
    hosts = machines(10, ports=1)
    return dealt_out(chains(10, 8, workers=10, quiet=quiet), hosts), hosts


def with_cpu_loads(topology: Topology, loads: Mapping[int, float]) -> Topology:
    """`loads`: of executors, by their first task; the others keep theirs."""
    components = tuple(
        replace(c, executors=tuple(replace(e, cpu_load=loads.get(e.first_task, e.cpu_load)) for e in c.executors))
        for c in topology.components
    )
    return replace(topology, components=components)


def rescheduling(
    *topologies: Topology, hosts: Sequence[WorkerMachine], event: ScaleEvent | None = RESCHEDULE
) -> Observation:
    return Observation(0.0, tuple(hosts), topologies, 1.0, event)


def decision_of(policy: str, observation: Observation, **parameters: object) -> Decision:
    """One that a driver can carry out, with the memory as it was."""
    decision = bind(policy, parameters)(observation, MEMORY)
    assert refusal(observation, decision) is None and decision.memory == MEMORY
    return decision


def slots_after(topology: Topology, decision: Decision) -> dict[int, Slot]:
    return {**topology.placement, **decision.placement.get(topology.topology_id, {})}


def crossing(topology: Topology, placement: Mapping[int, Slot]) -> float:
    """Tuples/s between machines once these tasks are moved."""
    after = {**topology.placement, **placement}
    pairs = topology.traffic.items()
    return sum(rate for (source, target), rate in pairs if after[source].machine != after[target].machine)
