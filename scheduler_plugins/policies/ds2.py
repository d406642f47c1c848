"""DS2: as many executors as the offered load needs (Kalavri et al., "Three steps is all you need", OSDI 2018).

From the sources on, in the order of the stream: a component's required input is the output of those before it when they
keep up with the sources' schedule, and it gets the executors whose time this input takes. Rates of a waiting or
backpressured component tell as much as those of one that keeps up: only the time of a tuple (`execute_ms`) and the
number of tuples per input count. It acts by itself, in a hold, and answers a reschedule.

The paper's warm-up after an action is here the time that rates need: half a minute since the last worker began. Its
target rate ratio, by which it scales again where it achieves less than its aim, is missing; `utilisation` leaves room.
An unthrottled source's schedule is its emission, so it is never behind: plans with one are refused.

Decisions where the paper is silent, or Storm differs:

- an executor has whole tasks, and a shuffle goes by tasks: an executor must keep up with the most tasks that one has
- it is not to be busy for more than `utilisation` of its time (1 is the paper's), so that a backlog goes away
- more executors come at once, fewer when `activation` decisions in a row want no more (the paper's activation time)
- sources stay as they are, and so does what has executed nothing, or is on a cycle, and what is behind it or behind a
  source that has emitted nothing, unless nothing was due: how many tuples come of one is not known then
- an executor stays where its first task was; one that is new goes to the worker with the fewest of its topology, of
  several to the machine with the fewest executors of all topologies
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_plugins.model import (
    TOPOLOGIES,
    Component,
    Decision,
    Memory,
    Observation,
    Slot,
    Topology,
    executor_ranges,
    living_slots,
)
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number

Needs = Mapping[str, int]  # component → executors


@dataclass(frozen=True)
class Ds2Parameters:
    utilisation: float = 0.8
    activation: int = 6
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples

    def __post_init__(self) -> None:
        check_parameters(self)
        check_whole_number("activation", self.activation, 1, 100)
        if self.utilisation > 1:
            raise ValueError(f"utilisation is {self.utilisation!r}; allowed is a number above 0, at most 1")


def decide(observation: Observation, memory: Memory, parameters: Ds2Parameters = Ds2Parameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    observation = initial_placement.with_slots(observation)
    is_asked = scaling.is_asked(observation)
    if first is not None or not (is_asked or observation.may_act):
        return first or Decision(memory=memory)
    machine_slots = living_slots(observation.machines)
    history = {} if is_asked else memory.get(TOPOLOGIES, {})
    proposals = {
        each.topology_id: _proposal_for(
            each, history.get(each.topology_id, ()), machine_slots, parameters, at_once=is_asked
        )
        for each in observation.topologies
    }
    if is_asked and (why := next((each.problem for each in proposals.values() if each.problem), "")):
        return Decision(memory=memory, reason=f"held: {why}")
    executors = {topology_id: each.executors for topology_id, each in proposals.items() if each.executors}
    placement = placements(observation, executors)
    new_memory = {**memory, TOPOLOGIES: {topology_id: each.recent for topology_id, each in proposals.items()}}
    reason = "; ".join(each.words for each in proposals.values() if each.words) or "as is needed"
    return Decision(executors, placement, memory=new_memory, settled=is_asked, reason=reason)


class ParallelismProposal(NamedTuple):
    """A proposal for one topology."""

    executors: Needs  # of components that change
    recent: list[Needs]  # of the latest decisions since a change
    words: str  # empty where nothing changes
    problem: str = ""  # why its needs are unknown


def _proposal_for(
    topology: Topology, before: Iterable[Needs], offered: Collection[Slot], parameters: Ds2Parameters, *, at_once: bool
) -> ParallelismProposal:
    """Propose more executors at once, and fewer where the event requests it or enough decisions in a row needed no
    more.

    `before`: needs of recent decisions; `offered`: slots of living machines.
    """
    if topology.rebalancing:
        why = "a change is under way"
    elif lost_slots := sorted({str(slot) for slot in topology.placement.values() if slot not in offered}):
        why = f"what is in {lost_slots[0]} is to be placed elsewhere first"
    else:
        why = (
            scaling.samples_problem(topology.samples_age_s, parameters.max_samples_age_s) or topology.window_fault or ""
        )
    if why:
        return ParallelismProposal({}, list(before), f"{topology.name}: {why}", why)
    needs = [*before, needed_executors(topology, parameters.utilisation)][-parameters.activation :]
    numbers = {component.name: len(component.executors) for component in topology.components}
    maxima = {name: max(each.get(name, numbers[name]) for each in needs) for name in needs[-1]}
    may_shrink = at_once or len(needs) == parameters.activation
    changes = {name: n for name, n in maxima.items() if n > numbers[name] or (may_shrink and n < numbers[name])}
    words = ", ".join(f"{name} {numbers[name]}→{number}" for name, number in changes.items())
    return (
        ParallelismProposal(changes, [], f"{topology.name}: {words}") if changes else ParallelismProposal({}, needs, "")
    )


def needed_executors(topology: Topology, utilisation: float) -> dict[str, int]:
    """Return the need of each bolt whose required input and time per tuple are known."""
    needs: dict[str, int] = {}
    inputs: dict[str, float | None] = dict.fromkeys((component.name for component in topology.components), 0.0)
    for component in _components_from_sources(topology):
        if component.kind == "spout":
            target = (component.emitted_per_s or None) if component.due_per_s is None else component.due_per_s
            rate = component.emitted_per_s
        else:
            target, rate = inputs[component.name], component.executed_per_s
            if component.kind == "bolt" and component.execute_ms is not None and target is not None:
                needs[component.name] = _executors(component, target * component.execute_ms / 1000, utilisation)
        for edge in topology.edges:
            if edge.source == component.name and target != 0:
                input_per_s = inputs[edge.target]
                if input_per_s is not None and target is not None and rate:
                    inputs[edge.target] = input_per_s + target * (edge.tuples_per_s or 0.0) / rate
                else:
                    inputs[edge.target] = None
    return needs


def _executors(component: Component, busy: float, utilisation: float) -> int:
    """Return the fewest executors of which none is busy for longer; `busy`: seconds a second, of all tasks together."""
    tasks = len(component.tasks)
    for executors in range(1, tasks):
        if busy * -(-tasks // executors) / tasks <= utilisation:
            return executors
    return tasks


def _components_from_sources(topology: Topology) -> Iterator[Component]:
    """Yield components after all that feed them; none on a cycle, or behind one."""
    missing_inputs = Counter(edge.target for edge in topology.edges)
    queue = [component for component in topology.components if not missing_inputs[component.name]]
    while queue:
        component = queue.pop(0)
        yield component
        for edge in topology.edges:
            if edge.source == component.name:
                missing_inputs[edge.target] -= 1
                if not missing_inputs[edge.target]:
                    queue.append(topology.component(edge.target))


def placements(observation: Observation, executors: Mapping[str, Needs]) -> dict[str, Mapping[int, Slot]]:
    """Return task → slot where it changes, by topology id. A topology with fewer workers than its setting may open
    one."""
    slots = initial_placement.sort_slots(
        initial_placement.free_slots(observation.machines, initial_placement.taken_slots(observation.topologies))
    )
    load = Counter(
        slot.machine for each in observation.topologies for _, slot in initial_placement.executor_slots(each)
    )
    placement: dict[str, Mapping[int, Slot]] = {}
    for topology in observation.topologies:
        if changes := executors.get(topology.topology_id):
            mine = sorted(set(topology.placement.values()))
            new_slots = [slots.pop(0) for _ in range(min(len(slots), max(0, topology.workers - len(mine))))]
            slots_of_tasks = _placed(topology, changes, [*mine, *new_slots], load)
            placement[topology.topology_id] = initial_placement.changed_slots(topology, slots_of_tasks)
    return placement


def _placed(topology: Topology, changes: Needs, slots: Sequence[Slot], busy: Counter[str]) -> dict[int, Slot]:
    """Return task → slot of the components that change; `busy`: executors by machine, which change with them."""
    numbers = Counter(slot for _, slot in initial_placement.executor_slots(topology))
    slots_of_tasks: dict[int, Slot] = {}
    for component in (each for each in topology.components if each.name in changes):
        current = [topology.placement[executor.first_task] for executor in component.executors]
        numbers.subtract(current)
        busy.subtract(slot.machine for slot in current)
        ranges = executor_ranges(component.tasks, changes[component.name])
        heirs: dict[int, int] = {}  # first task of a current executor → that of the first range that begins in it
        for first, _ in ranges:
            heirs.setdefault(max(e.first_task for e in component.executors if e.first_task <= first), first)
        stays = set(heirs.values())
        for first, last in sorted(ranges, key=lambda each: each[0] not in stays):
            fewest = min(slots, key=lambda each: (numbers[each], busy[each.machine]))
            slot = topology.placement[first] if first in stays else fewest
            numbers[slot] += 1
            busy[slot.machine] += 1
            slots_of_tasks.update(dict.fromkeys(range(first, last + 1), slot))
    return slots_of_tasks
