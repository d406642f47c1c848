"""What policies that place by traffic share: a topology's executors and the tuples between them as arrays, the slots
that it may use, labels, and the round in which they decide (MP III-C, IV-B).

What the paper leaves open is decided here:

- an executor is what moves: it has the traffic of all its tasks (MP has one task an executor)
- each topology is placed by itself, in slots of its own, and so balanced by itself. No tuple passes between two
- a machine is offered with the slots that no other topology has or is to get: first the topology's own, those with most
  of its tasks first, then the free ones by port. Machines are in the order of their supervisors' ids
- executors between which and any other no tuple passed (ackers: their streams are not counted; silent ones) have no
  place in the graph. They are dealt evenly over the slots that the others use, and stay where that is even already
- `labels`: a partition's parts have numbers only. `matched` gives each part the machine that has most of its tasks, so
  that as few tasks as possible move; `in_order` is the papers' way: the first part to the first machine, and so on
- traffic between machines is what counts, before and after: a worker more on the same machine changes nothing
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, Protocol

import numpy as np

from scheduler_plugins.model import Decision, Executor, Machine, Memory, Observation, Slot, Topology
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.communication import (
    CommunicationGraph,
    Flags,
    Integers,
    Numbers,
    Pairs,
    graph_of_pairs,
)
from scheduler_plugins.policies.partition import best_places, spread_evenly

Labels = Literal["matched", "in_order"]
PORTS = 2**16
NOWHERE = Slot("", 0)
NO_TRAFFIC = (
    "no tuple from task to task is on record; set barograph.traffic: true in the topology's configuration, and wait"
    " until some have passed"
)


@dataclass(frozen=True, eq=False)
class PlacedTopology:
    """A topology where it runs. Vertices are its executors, ascending by their tasks; machines have numbers, those with
    a slot for it first."""

    topology: Topology
    executors: tuple[Executor, ...]
    tasks: Integers  # of each executor, how many
    pairs: Pairs  # between executors, also from one to itself
    processed: Numbers  # tuples/s that each sends and receives
    machines: tuple[str, ...]  # by number
    slots: tuple[tuple[Slot, ...], ...]  # that it may use, by number of the machine
    here: Integers  # the machine of each executor
    codes: Integers  # machine and port of each executor

    def code(self, slot: Slot) -> int:
        return self.machines.index(slot.machine) * PORTS + slot.port

    def busy(self) -> Integers:
        """Vertices that sent or received something."""
        return np.flatnonzero(self.processed > 0)

    def crossing(self) -> float:
        """Tuples/s between machines."""
        return self.pairs.crossing(self.here)

    def graph(self, vertices: Integers, weights: Numbers) -> CommunicationGraph:
        """Of these vertices alone, numbered anew; `weights` are theirs. Nothing passes to any other."""
        numbers = np.full(len(self.executors), -1)
        numbers[vertices] = np.arange(len(vertices))
        pairs = Pairs(numbers[self.pairs.sources], numbers[self.pairs.targets], self.pairs.rates)
        return graph_of_pairs(pairs, weights)

    def problem(self) -> str:
        """Why there is nothing to place by; empty if there is."""
        if not len(self.pairs.rates):
            return NO_TRAFFIC
        if len(self.slots) < 2:
            return f"{len(self.slots) or 'no'} living machine has a slot for it; placing by traffic needs two"
        if self.topology.workers < 2:
            return "it runs in one worker"
        if not np.any(self.pairs.sources != self.pairs.targets):
            return "no tuple passes from one of its executors to another"
        return ""


def placed_topology(topology: Topology, machines: Sequence[Machine], taken: Collection[Slot]) -> PlacedTopology:
    """`taken`: slots that other topologies have, or are to get."""
    listed = chain.from_iterable(component.executors for component in topology.components)
    executors = tuple(sorted(listed, key=lambda executor: executor.first_task))
    firsts = np.array([executor.first_task for executor in executors], dtype=np.int64)
    lasts = np.array([executor.last_task for executor in executors], dtype=np.int64)
    pairs = _executor_pairs(topology, firsts, lasts)
    offered = _offered_slots(machines, taken)
    numbers = {name: number for number, name in enumerate(offered)}
    slots = [topology.placement.get(executor.first_task, NOWHERE) for executor in executors]
    here = np.array([numbers.setdefault(slot.machine, len(numbers)) for slot in slots], dtype=np.int64)
    codes = here * PORTS + np.array([slot.port for slot in slots], dtype=np.int64)
    return PlacedTopology(
        topology=topology,
        executors=executors,
        tasks=lasts - firsts + 1,
        pairs=pairs,
        processed=pairs.processed(len(executors)),
        machines=tuple(numbers),
        slots=_ordered_slots(offered, codes),
        here=here,
        codes=codes,
    )


def _executor_pairs(topology: Topology, firsts: Integers, lasts: Integers) -> Pairs:
    """Traffic of executors. Tasks that the topology does not have, and rates that are none, count as silent."""
    count = len(topology.traffic)
    tasks = np.fromiter(chain.from_iterable(topology.traffic), np.int64, 2 * count)
    rates = np.fromiter(topology.traffic.values(), np.float64, count)
    sizes = lasts - firsts + 1
    unknown = int(lasts.max(initial=-1)) + 1
    vertex_of = np.full(unknown + 1, -1)
    own = np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    vertex_of[own] = np.repeat(np.arange(len(firsts)), sizes)
    vertices = vertex_of[np.where((tasks >= 0) & (tasks < unknown), tasks, unknown)]
    sources, targets = vertices[0::2], vertices[1::2]
    counts = (sources >= 0) & (targets >= 0) & (rates > 0) & np.isfinite(rates)
    return Pairs(sources[counts], targets[counts], rates[counts])


def _offered_slots(machines: Sequence[Machine], taken: Collection[Slot]) -> Mapping[str, tuple[Slot, ...]]:
    """By machine, in the order of supervisors' ids, ports ascending; machines that have one."""
    alive = sorted((machine for machine in machines if machine.alive), key=lambda machine: machine.supervisor_id)
    slots = {m.name: tuple(s for port in sorted(m.ports) if (s := Slot(m.name, port)) not in taken) for m in alive}
    return {name: mine for name, mine in slots.items() if mine}


def _ordered_slots(offered: Mapping[str, tuple[Slot, ...]], codes: Integers) -> tuple[tuple[Slot, ...], ...]:
    """Slots in which most executors are come first."""
    known, counts = np.unique(codes, return_counts=True)
    executors = dict(zip(known.tolist(), counts.tolist(), strict=True))
    return tuple(
        tuple(sorted(slots, key=lambda slot: -executors.get(number * PORTS + slot.port, 0)))
        for number, slots in enumerate(offered.values())
    )


def cpu_loads(placed: PlacedTopology) -> tuple[Numbers, tuple[str, ...]]:
    """Cores in use by each executor, and the components of those that are busy and have no time on record."""
    loads = [executor.cpu_load for executor in placed.executors]
    unknown = {
        executor.first_task
        for executor, load, processed in zip(placed.executors, loads, placed.processed.tolist(), strict=True)
        if load is None and processed > 0
    }
    names = (c.name for c in placed.topology.components if unknown and not unknown.isdisjoint(c.tasks))
    return np.array([load or 0.0 for load in loads]), tuple(names)


@dataclass(frozen=True, eq=False)
class Relocation:
    """What changes if it is carried out. `before`, `after`: tuples/s between machines; `total`: between executors."""

    placement: Mapping[int, Slot]  # of tasks that move
    before: float
    after: float
    total: float
    tasks: int  # in all
    there: Integers  # the machine of each executor once it is carried out

    def saving_percent(self) -> float:
        """Of what passes between machines now; below 0 if that grows, from nothing by 100."""
        grown = -100.0 if self.after > 0 else 0.0
        return 100 * (self.before - self.after) / self.before if self.before > 0 else grown

    def words(self) -> str:
        now, then = (f"{100 * rate / self.total:.1f} %" for rate in (self.before, self.after))
        rates = f"tuples between machines {self.before:.0f} → {self.after:.0f}/s ({now} → {then} of all)"
        moved = f"{len(self.placement)} of {self.tasks} tasks move"
        return f"{rates}, a saving of {self.saving_percent():.1f} %; {moved}"


def relocation(placed: PlacedTopology, workers: Integers, nodes: Integers, labels: Labels) -> Relocation:
    """Executors put into workers, and these on machines.

    `workers`: the number of each executor's worker; -1 for one that is to be dealt evenly. `nodes`: the number of each
    worker's machine, with at least as many slots as workers; with `labels` `matched` machines may be exchanged.
    """
    slots = _worker_slots(placed, workers, nodes, labels)
    codes = np.array([placed.code(slot) for slot in slots])
    dealt = np.flatnonzero(workers < 0)
    chosen = workers.copy()
    chosen[dealt] = spread_evenly(_index_in(codes, placed.codes[dealt]), len(slots))
    after = codes[chosen]
    placement: dict[int, Slot] = {}
    for vertex in np.flatnonzero(after != placed.codes).tolist():
        executor, slot = placed.executors[vertex], slots[chosen[vertex]]
        for task in range(executor.first_task, executor.last_task + 1):
            placement[task] = slot
    there = after // PORTS
    rates = (placed.crossing(), placed.pairs.crossing(there), placed.pairs.total())
    return Relocation(placement, *rates, int(placed.tasks.sum()), there)


def _index_in(values: Integers, wanted: Integers) -> Integers:
    """Where each of `wanted` is in `values`, which are all different; -1 where it is not."""
    order = np.argsort(values)
    at = np.minimum(np.searchsorted(values[order], wanted), len(values) - 1)
    return np.where(values[order][at] == wanted, order[at], -1)


def _worker_slots(placed: PlacedTopology, workers: Integers, nodes: Integers, labels: Labels) -> list[Slot]:
    """Of each worker."""
    used, node_of = np.unique(nodes, return_inverse=True)
    sizes = np.bincount(node_of)
    placeable = workers >= 0
    tasks = _tasks_by_node_and_slot(placed, placeable, node_of[workers[placeable]], len(used))
    machines = used if labels == "in_order" else best_places(_kept_tasks(placed, tasks, sizes))
    slots: list[Slot] = [NOWHERE] * len(nodes)
    for node, machine in enumerate(machines.tolist()):
        mine = np.flatnonzero(node_of == node)
        offered = placed.slots[machine][: len(mine)]
        for worker, slot in zip(mine.tolist(), _slots_in_machine(placed, workers, mine, offered, labels), strict=True):
            slots[worker] = slot
    return slots


def _tasks_by_node_and_slot(placed: PlacedTopology, placeable: Flags, nodes: Integers, count: int) -> Numbers:
    """[node, machine, place of the slot among the machine's]: tasks of the node that are there now."""
    most = max(map(len, placed.slots))
    codes = np.array([placed.code(slot) for slots in placed.slots for slot in slots])
    places = np.array([number * most + at for number, slots in enumerate(placed.slots) for at in range(len(slots))])
    there = _index_in(codes, placed.codes[placeable])
    known = there >= 0
    keys = nodes[known] * (len(placed.slots) * most) + places[there[known]]
    counts = np.bincount(keys, placed.tasks[placeable][known], count * len(placed.slots) * most)
    return counts.astype(np.float64).reshape(count, len(placed.slots), most)


def _kept_tasks(placed: PlacedTopology, tasks: Numbers, sizes: Integers) -> Numbers:
    """[node, machine]: tasks that could stay; less than any sum where the machine has too few slots."""
    upto = np.cumsum(tasks, axis=2)
    slots = np.array(list(map(len, placed.slots)))
    kept = np.stack([upto[node, :, min(size, upto.shape[2]) - 1] for node, size in enumerate(sizes.tolist())])
    return np.where(slots[None, :] >= sizes[:, None], kept, -1.0 - tasks.sum())


def _slots_in_machine(
    placed: PlacedTopology, workers: Integers, mine: Integers, offered: Sequence[Slot], labels: Labels
) -> list[Slot]:
    """Of these workers, on one machine that offers as many slots."""
    if labels == "in_order" or len(mine) == 1:
        return sorted(offered)
    gains = np.array(
        [[placed.tasks[(workers == worker) & (placed.codes == placed.code(slot))].sum() for slot in offered]
         for worker in mine.tolist()], dtype=np.float64,
    )  # fmt: skip
    return [offered[place] for place in best_places(gains).tolist()]


@dataclass(frozen=True)
class Proposal:
    """What a policy makes of one topology, in words; an empty placement changes nothing."""

    reason: str
    placement: Mapping[int, Slot] = field(default_factory=dict)


class TrafficParameters(Protocol):
    """What the parameters of each of these policies have."""

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
    propose: Callable[[PlacedTopology, Observation], Proposal],
) -> Decision:
    """At a `reschedule`, or by itself where it may; after that it rests. Nothing is decided without fresh rates."""
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    is_asked = scaling.is_asked(observation)
    if first is not None or not (is_asked or observation.may_act):
        return first or Decision(memory=memory)
    if stale := scaling.rates_problem(observation, parameters.max_samples_age_s):
        return Decision(memory=memory, reason=f"held: {stale}")
    placement: dict[str, Mapping[int, Slot]] = {}
    said = []
    for topology in observation.topologies:
        proposal = _proposal_for(topology, observation, placement, propose)
        placement[topology.topology_id] = proposal.placement
        said.append(f"{topology.name}: {proposal.reason}")
    return Decision(
        placement={topology_id: mine for topology_id, mine in placement.items() if mine},
        memory=memory,
        reason="; ".join(said) + scaling.window_remark(observation, parameters.window_s),
        settled=is_asked,
        rest_s=0.0 if is_asked else parameters.rest_s,
    )


def _proposal_for(
    topology: Topology,
    observation: Observation,
    given: Mapping[str, Mapping[int, Slot]],
    propose: Callable[[PlacedTopology, Observation], Proposal],
) -> Proposal:
    if topology.rebalancing:
        return Proposal("kept: an earlier change is under way")
    others = initial_placement.taken_slots(each for each in observation.topologies if each is not topology)
    taken = others.union(*(mine.values() for mine in given.values()))
    placed = placed_topology(topology, observation.machines, taken)
    problem = placed.problem()
    return Proposal(f"refused: {problem}") if problem else propose(placed, observation)
