"""The round in which policies that place by traffic decide (MP III-C, IV-B).

Each topology is placed by itself, in separate slots, and so balanced by itself: no tuple passes between two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol

import numpy as np

from scheduler_plugins.model import Decision, Executor, Memory, Observation, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.communication import CommunicationGraph, Integers, Numbers, Pairs, graph_of_pairs
from scheduler_plugins.policies.initial_placement import executor_slots


@dataclass(frozen=True)
class PlacementProposal:
    """A policy's proposal for one topology, in words; an empty placement changes nothing."""

    reason: str
    placement: Mapping[int, Slot] = field(default_factory=dict)


class TrafficParameters(Protocol):
    """The common parameters of these policies."""

    @property
    def initial(self) -> initial_placement.InitialRule: ...
    @property
    def max_samples_age_s(self) -> float: ...
    @property
    def window_s(self) -> int: ...
    @property
    def rest_s(self) -> float: ...


def decide_by_traffic(
    observation: Observation,
    memory: Memory,
    parameters: TrafficParameters,
    propose: Callable[[ExecutorGraph, Observation], PlacementProposal],
) -> Decision:
    """Decide at a `reschedule`, or by itself where allowed, followed by a rest. Nothing is decided without fresh rates.

    By itself it decides on the topologies that have them. A reschedule has one decision, so all wait for the last of
    them: an omitted topology would be measured as if it had been placed.
    """
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    observation = initial_placement.with_slots(observation)
    is_asked = scaling.is_asked(observation)
    if first is not None or not (is_asked or observation.may_act):
        return first or Decision(memory=memory)
    if is_asked and (problem_of_rates := scaling.rates_problem(observation, parameters.max_samples_age_s)):
        return Decision(memory=memory, reason=f"held: {problem_of_rates}")
    placement: dict[str, Mapping[int, Slot]] = {}
    texts, topologies, rest_s = [], list(observation.topologies), 0.0
    for number, topology in enumerate(observation.topologies):
        why = "an earlier change is under way" if topology.rebalancing else ""
        if why := why or scaling.topology_rates_problem(topology, parameters.max_samples_age_s):
            proposal = PlacementProposal(f"kept: {why}")
        else:
            slots_in_use = initial_placement.taken_slots(each for each in topologies if each is not topology)
            graph = executor_graph(topology, observation.machines, slots_in_use)
            so_far = replace(observation, topologies=tuple(topologies))  # with earlier decisions of this round
            problem = graph.problem()
            proposal = PlacementProposal(f"refused: {problem}") if problem else propose(graph, so_far)
            rest_s = 0.0 if is_asked else parameters.rest_s
        if proposal.placement:
            placement[topology.topology_id] = proposal.placement
            topologies[number] = replace(topology, planned=proposal.placement)
        texts.append(f"{topology.name}: {proposal.reason}")
    reason = "; ".join(texts) + scaling.window_remark(observation, parameters.window_s)
    return Decision(placement=placement, memory=memory, reason=reason, settled=is_asked, rest_s=rest_s)


PORTS = 2**16
NOWHERE = Slot("", 0)
NO_TRAFFIC = (
    "no tuple from task to task is on record; set barograph.traffic: true in the topology's configuration, and wait"
    " until some have passed"
)


@dataclass(frozen=True, eq=False)
class ExecutorGraph:
    """The graph of a running topology. Vertices are its executors, ascending by their tasks; machines have numbers,
    those with a slot for it first."""

    topology: Topology
    executors: tuple[Executor, ...]
    tasks: Integers  # of each executor, its number of tasks
    pairs: Pairs  # between executors, also from one to itself
    processed: Numbers  # tuples/s that each sends and receives
    machines: tuple[str, ...]  # by number
    slots: tuple[tuple[Slot, ...], ...]  # available to it, by number of the machine
    here: Integers  # the machine of each executor
    codes: Integers  # machine and port of each executor

    def code(self, slot: Slot) -> int:
        return self.machines.index(slot.machine) * PORTS + slot.port

    def busy(self) -> Integers:
        """Return the vertices that sent or received something."""
        return np.flatnonzero(self.processed > 0)

    def crossing(self) -> float:
        """Return tuples/s between machines."""
        return self.pairs.crossing(self.here)

    def subgraph(self, vertices: Integers, weights: Numbers) -> CommunicationGraph:
        """Return the graph of these vertices alone, numbered anew, with these `weights`. They have no traffic with
        others."""
        numbers = np.full(len(self.executors), -1)
        numbers[vertices] = np.arange(len(vertices))
        pairs = Pairs(numbers[self.pairs.sources], numbers[self.pairs.targets], self.pairs.rates)
        return graph_of_pairs(pairs, weights)

    def problem(self) -> str:
        """Return why placing by traffic is impossible; empty if it is possible."""
        if not len(self.pairs.rates):
            return NO_TRAFFIC
        if len(self.slots) < 2:
            return f"{len(self.slots) or 'no'} living machine has a slot for it; placing by traffic needs two"
        if self.topology.workers < 2:
            return "it runs in one worker"
        if not np.any(self.pairs.sources != self.pairs.targets):
            return "no tuple passes from one of its executors to another"
        return ""


def executor_graph(topology: Topology, machines: Sequence[WorkerMachine], taken: Collection[Slot]) -> ExecutorGraph:
    """Build the graph of a topology. `taken`: slots that other topologies have, or will get."""
    unsorted = chain.from_iterable(component.executors for component in topology.components)
    executors = tuple(sorted(unsorted, key=lambda executor: executor.first_task))
    firsts = np.array([executor.first_task for executor in executors], dtype=np.int64)
    lasts = np.array([executor.last_task for executor in executors], dtype=np.int64)
    pairs = _executor_pairs(topology, firsts, lasts)
    living = sorted((machine for machine in machines if machine.alive), key=lambda machine: machine.supervisor_id)
    slots_by_machine = {
        m.name: [s for port in sorted(m.ports) if (s := Slot(m.name, port)) not in taken] for m in living
    }
    slots_by_machine = {name: slots_of_one for name, slots_of_one in slots_by_machine.items() if slots_of_one}
    numbers = {name: number for number, name in enumerate(slots_by_machine)}
    slots = [topology.placement.get(executor.first_task, NOWHERE) for executor in executors]
    machine_numbers = np.array([numbers.setdefault(slot.machine, len(numbers)) for slot in slots], dtype=np.int64)
    codes = machine_numbers * PORTS + np.array([slot.port for slot in slots], dtype=np.int64)
    present = Counter(slots)
    return ExecutorGraph(
        topology=topology,
        executors=executors,
        tasks=lasts - firsts + 1,
        pairs=pairs,
        processed=pairs.processed(len(executors)),
        machines=tuple(numbers),
        slots=tuple(
            tuple(sorted(slots_of_one, key=lambda slot: -present[slot])) for slots_of_one in slots_by_machine.values()
        ),
        here=machine_numbers,
        codes=codes,
    )


def _executor_pairs(topology: Topology, firsts: Integers, lasts: Integers) -> Pairs:
    """Return traffic of executors. Unknown tasks and invalid rates count as silent."""
    count = len(topology.traffic)
    tasks = np.fromiter(chain.from_iterable(topology.traffic), np.int64, 2 * count)
    rates = np.fromiter(topology.traffic.values(), np.float64, count)
    sizes = lasts - firsts + 1
    sentinel = int(lasts.max(initial=-1)) + 1
    vertex_of = np.full(sentinel + 1, -1)
    known_tasks = np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    vertex_of[known_tasks] = np.repeat(np.arange(len(firsts)), sizes)
    vertices = vertex_of[np.where((tasks >= 0) & (tasks < sentinel), tasks, sentinel)]
    sources, targets = vertices[0::2], vertices[1::2]
    counts = (sources >= 0) & (targets >= 0) & (rates > 0) & np.isfinite(rates)
    return Pairs(sources[counts], targets[counts], rates[counts])


def cpu_loads(graph: ExecutorGraph) -> tuple[Numbers, tuple[str, ...]]:
    """Return cores in use by each executor, and the components of busy ones without a time on record."""
    loads = [executor.cpu_load for executor in graph.executors]
    first_tasks = {
        executor.first_task
        for executor, load, processed in zip(graph.executors, loads, graph.processed.tolist(), strict=True)
        if load is None and processed > 0
    }
    names = (c.name for c in graph.topology.components if first_tasks and not first_tasks.isdisjoint(c.tasks))
    return np.array([load or 0.0 for load in loads]), tuple(names)


def machine_loads(topologies: Iterable[Topology]) -> dict[str, float]:
    """Return cores in use on each machine by these topologies' executors, once pending changes are carried out."""
    loads: dict[str, float] = {}
    for executor, slot in chain.from_iterable(map(executor_slots, topologies)):
        loads[slot.machine] = loads.get(slot.machine, 0.0) + (executor.cpu_load or 0.0)
    return loads
