"""Stela: on-demand elasticity by effective throughput percentage (SP II, ST 4 and 5).

At a scale-out every new machine gets as many executors as a machine had on average (SP II-B); each goes to the
congested component with the highest ETP, rates are projected, and the next is chosen (SP algorithm 2). Nothing that
runs is moved. The parameters' defaults follow the papers; the other values are what the authors' code did.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import cycle
from typing import Literal, get_args, get_type_hints

from scheduler_plugins.model import Decision, Executor, Memory, Observation, Slot, Topology, executor_ranges
from scheduler_plugins.policies import etp, even


@dataclass(frozen=True)
class Parameters:
    congestion_rate: float = 1.2  # SP II-C
    slots: Literal["per_machine", "with_new"] = "per_machine"  # executors / machines, or / (machines + new)
    score: Literal["etp", "etp_per_executor"] = "etp"
    shared_sink: Literal["once", "per_path"] = "once"  # SP's definition, or SP's algorithm 1
    congestion: Literal["rates", "bounded_queues"] = "rates"
    queue_mark: float = 1000.0  # tuples waiting per executor that mean congestion, for bounded_queues
    max_samples_age_s: float = 10.0  # no decision on older samples

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in fields(self):
            value, allowed = getattr(self, field.name), get_args(hints[field.name])
            if allowed and value not in allowed:
                raise ValueError(f"{field.name} is {value!r}; allowed are {', '.join(allowed)}")
            if not allowed and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
                raise ValueError(f"{field.name} is {value!r}; allowed is a number above 0")


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    if observation.event is None or observation.event.kind != "scale_out":
        return even.place_unplaced(observation, memory)
    stale = _why_no_data(observation, parameters)
    if stale:
        return Decision(memory=memory, reason=f"held: {stale}")
    return _scale_out(observation, memory, parameters)


def _why_no_data(observation: Observation, parameters: Parameters) -> str:
    if observation.samples_age_s is None:
        return "no samples yet"
    if observation.samples_age_s > parameters.max_samples_age_s:
        return f"samples are {observation.samples_age_s:.1f} s old, allowed are {parameters.max_samples_age_s:g} s"
    missing = [c.name for t in observation.topologies for c in t.components if _unmeasured(t, c.name)]
    return f"no rates of {', '.join(missing)}" if missing else ""


def _unmeasured(topology: Topology, name: str) -> bool:
    component = topology.component(name)
    return component.kind == "bolt" and component.executed_per_s is None


def _scale_out(observation: Observation, memory: Memory, parameters: Parameters) -> Decision:
    assert observation.event is not None
    joined = [m for m in observation.machines if m.name in observation.event.joined and m.alive]
    # A lost machine still counts in SP's "machines before", but executors cannot be averaged over it.
    before = sum(1 for m in observation.machines if m.alive) - len(joined)
    if not joined or before < 1:
        return Decision(memory=memory, reason="held: the machines that joined are not known to Nimbus yet")
    taken = {slot for topology in observation.topologies for slot in topology.placement.values()}
    new_slots = cycle(even.sort_slots(even.free_slots(joined, taken)))
    executors: dict[str, Mapping[str, int]] = {}
    placement: dict[str, Mapping[int, Slot]] = {}
    said = []
    for topology in observation.topologies:
        count = new_executors(topology, before, len(joined), parameters)
        grown = etp.assign(topology, count, parameters)
        executors[topology.topology_id] = grown
        placement[topology.topology_id] = place_grown(topology, grown, new_slots)
        said.append(_say(topology, count, grown))
    return Decision(executors=executors, placement=placement, memory=memory, settled=True, reason="; ".join(said))


def new_executors(topology: Topology, machines_before: int, machines_new: int, parameters: Parameters) -> int:
    """Executors for all new machines together: the average number a machine had, each (SP II-B, ST 5.2.1)."""
    total = sum(len(component.executors) for component in topology.components)
    divisor = machines_before + machines_new if parameters.slots == "with_new" else machines_before
    return total // divisor * machines_new


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
    return even.changed(topology, placement)


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
    steps = (f"{name} {len(topology.component(name).executors)}→{n}" for name, n in grown.items())
    return f"{topology.name}: {count} slots, {', '.join(steps)}"
