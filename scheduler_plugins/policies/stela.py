"""Stela: on-demand elasticity by effective throughput percentage (SP II, ST 4 and 5).

At a scale-out every new machine gets as many executors as a machine had on average (SP II-B); each goes to the
congested component with the highest ETP, rates are projected, and the next is chosen (SP algorithm 2). Nothing that
runs is moved. At a scale-in the machines with the lowest ETP leave (stela_scale_in.py). The parameters' defaults
follow the papers; the other values are what the authors' code did (variants_of_stela.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from scheduler_plugins.model import Decision, Executor, Memory, Observation, Slot, Topology, executor_ranges
from scheduler_plugins.policies import assignment, dealing, initial, rates, scale_in, scale_out, stela_scale_in
from scheduler_plugins.policies.parameters import check


@dataclass(frozen=True)
class Parameters:
    congestion_rate: float = 1.2  # SP II-C
    slots: scale_out.SlotsRule = "per_machine"
    score: Literal["etp", "etp_per_executor"] = "etp"
    shared_sink: Literal["once", "per_path"] = "once"  # SP's definition, or SP's algorithm 1
    scale_in: Literal["one_by_one", "all_at_once"] = "one_by_one"  # ETPSum anew after each machine (SP II-F), or not
    congestion: Literal["rates", "bounded_queues"] = "rates"
    queue_mark: float = 1000.0  # tuples waiting per executor that mean congestion, for bounded_queues
    initial: initial.Initial = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples

    def __post_init__(self) -> None:
        check(self)


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    first = initial.place_first(observation, memory, parameters.initial)
    if first is not None or observation.event is None:
        return first or Decision(memory=memory)
    shrinks = observation.event.kind == "scale_in"
    why = scale_in.why_refused(observation) if shrinks else ""
    if why:
        return scale_in.refused(memory, why)
    stale = rates.why_not_usable(observation, parameters.max_samples_age_s)
    if stale:
        return Decision(memory=memory, reason=f"held: {stale}")
    return (
        stela_scale_in.decide(observation, memory, parameters)
        if shrinks
        else _scale_out(observation, memory, parameters)
    )


def _scale_out(observation: Observation, memory: Memory, parameters: Parameters) -> Decision:
    joined, before = scale_out.joined_machines(observation)
    if not joined or before < 1:
        return Decision(memory=memory, reason="held: the machines that joined are not known to Nimbus yet")
    slots = scale_out.slots_by_topology(joined, observation.topologies)
    executors: dict[str, Mapping[str, int]] = {}
    placement: dict[str, Mapping[int, Slot]] = {}
    said = []
    for topology in observation.topologies:
        mine = dealing.sort_slots(slots[topology.topology_id])
        count = scale_out.executors_due(topology, before, len(joined), parameters.slots) if mine else 0
        grown = assignment.assign(topology, count, parameters)
        executors[topology.topology_id] = grown
        placement[topology.topology_id] = place_grown(topology, grown, cycle(mine))
        said.append(_say(topology, count, grown))
    return Decision(executors=executors, placement=placement, memory=memory, settled=True, reason="; ".join(said))


def place_grown(topology: Topology, grown: Mapping[str, int], new_slots: Iterator[Slot]) -> dict[int, Slot]:
    """Slots that change: the executors that are new go to `new_slots`, all others stay where their tasks were."""
    placement: dict[int, Slot] = {}
    for component in topology.components:
        if component.name in grown:
            ranges = executor_ranges(component.tasks, grown[component.name])
            for (first, last), slot in zip(
                ranges, _slots(component.executors, ranges, topology, new_slots), strict=True
            ):
                placement.update(dict.fromkeys(range(first, last + 1), slot))
    return dealing.changed(topology, placement)


def _slots(
    old: tuple[Executor, ...], ranges: tuple[tuple[int, int], ...], topology: Topology, new_slots: Iterator[Slot]
) -> list[Slot]:
    """Each old executor's slot goes to the first new range that begins in it; ranges left over are the new ones."""
    heirs: dict[int, Executor] = {}
    for index, (first, _) in enumerate(ranges):
        parent = next(e for e in old if e.first_task <= first <= e.last_task)
        if parent not in heirs.values():
            heirs[index] = parent
    # An old executor in which no range begins still keeps its slot busy: the nearest range without one takes it.
    for orphan in [e for e in old if e not in heirs.values()]:
        without = [index for index in range(len(ranges)) if index not in heirs]
        heirs[min(without, key=lambda index: abs(ranges[index][0] - orphan.first_task))] = orphan
    return [
        topology.placement[heirs[index].first_task] if index in heirs else next(new_slots)
        for index in range(len(ranges))
    ]


def _say(topology: Topology, count: int, grown: Mapping[str, int]) -> str:
    if not grown:
        return f"{topology.name}: nothing to parallelise in {count} slots"
    before = {component.name: len(component.executors) for component in topology.components}
    steps = (f"{name} {before[name]}→{n}" for name, n in grown.items())
    return f"{topology.name}: {count} slots, {', '.join(steps)}"
