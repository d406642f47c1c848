"""The six topology-aware strategies of SP before ETP: existing executors migrate, none is added.

SP III-C, ST table 2. Each new machine gets as many executors as a machine had on average (as Stela's slots, SP II-B),
all taken from the components that the strategy ranks first; one machine is filled after the other. What the papers
leave open is decided here:

- operators are spouts and bolts alike; two components are linked once, however many streams run between them
- equal ranks go in declared order; the executors of a component leave in the order of their tasks
- the closeness of a component is its distance to the nearest sink or source (ST: "minimum number of hops"); the
  authors' code took the longest path. On a cycle a longest path stops growing at the number of components
- the load of a component's links is the sum over all of them, in and out (`link_load: sum`); the authors' code took
  their mean (`mean`), so that a component of many light links comes before one of a single heavier one. Most link load
  sorts the other way round; it too keeps adjacent components together, since the opposite would only add traffic
- "maximise the number of adjacent bolts on the same server": the next executor is one whose component is adjacent to
  the most executors chosen for this machine so far; the link load decides among equals, and picks the first
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scheduler_plugins.model import Decision, Executor, Memory, Observation, Slot, Topology
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number

Links = Mapping[str, frozenset[str]]
Ranks = Mapping[str, float]  # component → rank, the lowest migrates first


@dataclass(frozen=True)
class TopologyAwareParameters:
    slots: scaling.SlotsRule = "per_machine"
    distance: Literal["min_hops", "longest_path"] = "min_hops"  # thesis, or the authors' code
    initial: initial_placement.InitialRule = "round_robin"
    link_load: Literal["sum", "mean"] = "sum"  # of a component's links, or the authors' code
    max_samples_age_s: float = 10.0  # of the rates; only the link load strategies use any
    window_s: int = 60  # the longest window of rates, kept by the policy service

    def __post_init__(self) -> None:
        check_parameters(self)
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)


@dataclass(frozen=True)
class Strategy:
    ranks: Callable[[Topology, TopologyAwareParameters], Ranks]
    by_load: bool = False  # reads rates, and keeps adjacent components together


def decide(
    observation: Observation,
    memory: Memory,
    parameters: TopologyAwareParameters = TopologyAwareParameters(),
    *,
    strategy: Strategy,
) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    observation = initial_placement.with_slots(observation)
    if first is not None or observation.event is None or observation.event.kind != "scale_out":
        return first or Decision(memory=memory)
    problem = scaling.rates_problem(observation, parameters.max_samples_age_s) if strategy.by_load else ""
    machines, machine_count = scaling.joined_machines(observation)
    if problem or not machines or machine_count < 1:
        why = problem or "the machines that joined are not known to Nimbus yet"
        return Decision(memory=memory, reason=f"held: {why}")
    names = {machine.name for machine in machines}
    movable_executors, counts = {}, {}
    for topology in observation.topologies:
        elsewhere = {task for task, slot in topology.placement.items() if slot.machine not in names}
        movable = {c.name: [executor for executor in c.executors if executor.first_task in elsewhere]
                   for c in topology.components if c.kind != "system"}  # fmt: skip
        count = scaling.executors_for_new_machines(topology, machine_count, len(machines), parameters.slots)
        movable_executors[topology.topology_id] = movable
        counts[topology.topology_id] = min(count, sum(map(len, movable.values())))
    slots = scaling.slots_by_topology(machines, observation.topologies, counts)
    placement: dict[str, Mapping[int, Slot]] = {}
    texts = []
    for topology in observation.topologies:
        name = topology.topology_id
        placement[name] = migrate(topology, strategy, parameters, movable_executors[name], slots[name])
        texts.append(_migration_reason(topology, placement[name]))
    remark = scaling.window_remark(observation, parameters.window_s) if strategy.by_load else ""
    return Decision(placement=placement, memory=memory, settled=True, reason="; ".join(texts) + remark)


def migrate(
    topology: Topology,
    strategy: Strategy,
    parameters: TopologyAwareParameters,
    waiting: Mapping[str, list[Executor]],
    slots: Sequence[Slot],
) -> dict[int, Slot]:
    """Return task → new slot for an executor of `waiting` for each of `slots`, one machine after the other."""
    ranks = strategy.ranks(topology, parameters)
    links = _links(topology) if strategy.by_load else {}
    placement: dict[int, Slot] = {}
    for machine in dict.fromkeys(slot.machine for slot in slots):
        machine_slots = [slot for slot in slots if slot.machine == machine]
        for executor, slot in zip(
            pick_executors(waiting, ranks, links, len(machine_slots)), machine_slots, strict=True
        ):
            placement.update(dict.fromkeys(range(executor.first_task, executor.last_task + 1), slot))
    return placement


def pick_executors(waiting: Mapping[str, list[Executor]], ranks: Ranks, links: Links, count: int) -> list[Executor]:
    """Take up to `count` executors from `waiting` for one machine: most links to those taken first, then by rank."""
    adjacent: Counter[str] = Counter()
    executors: list[Executor] = []
    while len(executors) < count and any(waiting.values()):
        name = min((n for n in waiting if waiting[n]), key=lambda n: (-adjacent[n], ranks[n]))
        executors.append(waiting[name].pop(0))
        adjacent.update(links.get(name, ()))
    return executors


def _children(topology: Topology) -> dict[str, set[str]]:
    children: dict[str, set[str]] = {component.name: set() for component in topology.components}
    for edge in topology.edges:
        children[edge.source].add(edge.target)
    return children


def _parents(topology: Topology) -> dict[str, set[str]]:
    parents: dict[str, set[str]] = {component.name: set() for component in topology.components}
    for edge in topology.edges:
        parents[edge.target].add(edge.source)
    return parents


def _links(topology: Topology) -> Links:
    parents, children = _parents(topology), _children(topology)
    return {name: frozenset(parents[name] | children[name]) - {name} for name in children}


def sink_closeness(topology: Topology, parameters: TopologyAwareParameters) -> Ranks:
    children = _children(topology)
    return _hops(_parents(topology), [name for name, mine in children.items() if not mine], parameters)


def source_closeness(topology: Topology, parameters: TopologyAwareParameters) -> Ranks:
    parents = _parents(topology)
    return _hops(_children(topology), [name for name, mine in parents.items() if not mine], parameters)


def _hops(next_to: Mapping[str, set[str]], starts: Iterable[str], parameters: TopologyAwareParameters) -> Ranks:
    """Return component → length of a walk from `starts`: the shortest, or the longest. Unreached ones come last."""
    lengths: dict[str, float] = {}
    frontier = set(starts)
    for hops in range(len(next_to)):
        if parameters.distance == "min_hops":
            frontier -= lengths.keys()
        lengths.update(dict.fromkeys(frontier, float(hops)))
        frontier = {neighbour for name in frontier for neighbour in next_to[name]}
    return {name: lengths.get(name, float("inf")) for name in next_to}


def descendants(topology: Topology, parameters: TopologyAwareParameters) -> Ranks:  # noqa: ARG001 - one shape for all strategies
    children, ranks = _children(topology), {}
    for name in children:
        reachable, todo = set[str](), [name]
        while todo:
            additions = children[todo.pop()] - reachable
            reachable |= additions
            todo.extend(additions)
        ranks[name] = -float(len(reachable - {name}))
    return ranks


def centrality(topology: Topology, parameters: TopologyAwareParameters) -> Ranks:  # noqa: ARG001 - one shape for all strategies
    parents, children = _parents(topology), _children(topology)
    return {name: -float(len(parents[name]) + len(children[name])) for name in children}


def least_link_load(topology: Topology, parameters: TopologyAwareParameters) -> Ranks:
    load = dict.fromkeys((component.name for component in topology.components), 0.0)
    for edge in topology.edges:
        for name in {edge.source, edge.target}:
            load[name] += edge.tuples_per_s or 0.0
    if parameters.link_load == "mean":
        links = Counter(name for pair in {(e.source, e.target) for e in topology.edges} for name in set(pair))
        return {name: total / (links[name] or 1) for name, total in load.items()}
    return load


def most_link_load(topology: Topology, parameters: TopologyAwareParameters) -> Ranks:
    return {name: -load for name, load in least_link_load(topology, parameters).items()}


STRATEGIES: Mapping[str, Strategy] = {
    "sink_closeness": Strategy(sink_closeness),
    "source_closeness": Strategy(source_closeness),
    "descendants": Strategy(descendants),
    "centrality": Strategy(centrality),
    "least_link_load": Strategy(least_link_load, by_load=True),
    "most_link_load": Strategy(most_link_load, by_load=True),
}


def _migration_reason(topology: Topology, moved: Mapping[int, Slot]) -> str:
    counts = {c.name: sum(1 for e in c.executors if e.first_task in moved) for c in topology.components}
    parts = [f"{name} {count}" for name, count in counts.items() if count]
    where = ", ".join(sorted({slot.machine for slot in moved.values()}))
    return f"{topology.name}: moved to {where}: {', '.join(parts)}" if parts else f"{topology.name}: nothing to move"
