"""Capacity of a topology at rest whose components wait or cost nothing, in closed form: its throughput, and the gain
from more executors, distributed in the best way or by Stela's rule. Pure.

Each executor serves at most one tuple at a time, for as long as its text costs (docs/decisions/claims.md). Every
component gets all tuples of the streams into it, the same number for each of its tasks; tuples beyond an executor's
capacity wait. It is assumed that each waiting thread gets a core when it wakes: then it does not matter which machine
an executor is on, or how many there are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import Literal

import numpy as np
import yaml
from numpy.typing import NDArray

from scheduler_plugins.model import Component as ObservedComponent
from scheduler_plugins.model import Edge, Executor, executor_ranges
from scheduler_plugins.model import Topology as ObservedTopology
from scheduler_plugins.policies import scaling
from scheduler_plugins.policies.etp import assign_executors
from scheduler_plugins.policies.stela import StelaParameters
from topologies import catalogue
from topologies.errors import UnknownWork
from topologies.work import SOURCE_CHARACTERS, components_of

EVEN_GROUPINGS = ("shuffle", "fields")  # the fields that we group by spread evenly (docs/decisions/claims.md)

Sizes = Mapping[str, int]  # component -> executors
Integers = NDArray[np.int64]
Array = NDArray[np.float64]  # one number for each of several distributions of executors
MOST_DISTRIBUTIONS = 500  # not surely worse than another, after a component; beyond it there is only a bound
DECIMALS = 9  # tuples/s that differ by less are the same


@dataclass(frozen=True)
class ComponentCapacity:
    """A component. `executors`: at the start. `offered_per_s`: by a source. `passes`: share of the tuples that are sent
    on; `keeps`, `appends`: share of a text that stays, characters that are added."""

    name: str
    kind: Literal["spout", "bolt"]
    tasks: int
    executors: int
    offered_per_s: float = 0.0
    ms_per_character: float = 0.0
    passes: float = 1.0
    keeps: float = 1.0
    appends: float = 0.0


@dataclass(frozen=True)
class TopologyCapacity:
    """Components as declared; edges (source, target), one a stream; and an order with sources before targets."""

    components: tuple[ComponentCapacity, ...]
    edges: tuple[tuple[str, str], ...]
    order: tuple[str, ...]

    @property
    def initial(self) -> dict[str, int]:
        return {component.name: component.executors for component in self.components}

    @property
    def sinks(self) -> tuple[str, ...]:
        sources = {source for source, _ in self.edges}
        return tuple(c.name for c in self.components if c.kind == "bolt" and c.name not in sources)


@dataclass(frozen=True)
class ComponentRates:
    """Tuples/s that arrive at a component, that it serves and that it sends on, and the mean length of these."""

    arriving: float
    served: float
    sent: float
    characters: float


@cache
def topology_of_flux(flux: str) -> TopologyCapacity | None:
    """Read rendered Flux YAML. None if there is no closed form: a component that burns CPU, or is not ours, a source
    that is not throttled, a grouping that is not even, a cycle."""
    document = yaml.safe_load(flux)
    shape = catalogue.topology_of_flux(document["name"], document)
    try:
        works = components_of(document, shape)
    except UnknownWork:
        return None
    if any(work.is_unthrottled or (work.cost_model == "busy" and work.ms_per_character > 0.0) for work in works):
        return None
    if any(edge.grouping not in EVEN_GROUPINGS or edge.stream != "default" for edge in shape.edges):
        return None
    parts = tuple(
        ComponentCapacity(
            work.name, work.kind, work.tasks, work.executors, work.rate_per_s or 0.0, work.ms_per_character,
            work.passes, work.keeps, work.appends,
        )
        for work in works
    )  # fmt: skip
    edges = tuple((edge.source, edge.target) for edge in shape.edges)
    sources: dict[str, list[str]] = {component.name: [] for component in parts}
    for source, target in edges:
        sources[target].append(source)
    try:
        return TopologyCapacity(parts, edges, tuple(TopologicalSorter(sources).static_order()))
    except CycleError:
        return None


def component_rates(topology: TopologyCapacity, executors: Sizes) -> dict[str, ComponentRates]:
    """Return rates at rest by component, for the given numbers of executors."""
    flows = _flows(topology, {name: np.array([size]) for name, size in executors.items()})
    return {
        name: ComponentRates(
            float(flow.arriving[0]), float(flow.served[0]), float(flow.sent[0]), float(flow.characters[0])
        )
        for name, flow in flows.items()
    }


@dataclass(frozen=True)
class _Flow:
    """Rates for several distributions at once."""

    arriving: Array
    served: Array
    sent: Array
    characters: Array


def _flows(
    topology: TopologyCapacity, executors: Mapping[str, Integers], *, shortest: bool = False
) -> dict[str, _Flow]:
    """Return the flows. `shortest`: treat joined streams as if all texts were as short as the shortest ones."""
    by_name = {component.name: component for component in topology.components}
    flows: dict[str, _Flow] = {}
    for name in topology.order:
        streams = [flows[source] for source in _sources(topology, name)]
        flows[name] = _flow(by_name[name], executors[name], streams, shortest)
    return flows


def _sources(topology: TopologyCapacity, name: str) -> list[str]:
    return [source for source, target in topology.edges if target == name]


def _flow(component: ComponentCapacity, executors: Integers, streams: Sequence[_Flow], shortest: bool) -> _Flow:
    zeros = np.zeros(len(executors))
    if component.kind == "spout":
        offered = zeros + component.offered_per_s
        return _Flow(offered, offered, offered, zeros + SOURCE_CHARACTERS * component.keeps + component.appends)
    arrivals = sum((stream.sent for stream in streams), zeros)
    total = sum((stream.sent * stream.characters for stream in streams), zeros)
    characters = np.divide(total, arrivals, out=zeros.copy(), where=arrivals > 0.0)
    if shortest and streams:
        characters = np.min([stream.characters for stream in streams], axis=0)
    # Each executor gets the tuples for its tasks: of 8 tasks on 5 executors 2, 2, 2, 1 and 1 eighths.
    ms_per_tuple, of_task = component.ms_per_character * characters, arrivals / component.tasks
    most = np.divide(1000.0, ms_per_tuple, out=np.full(len(arrivals), np.inf), where=ms_per_tuple > 0.0)
    tasks, larger = np.divmod(component.tasks, executors)
    of_larger, of_others = np.minimum((tasks + 1) * of_task, most), np.minimum(tasks * of_task, most)
    service = np.asarray(larger * of_larger + (executors - larger) * of_others, dtype=np.float64)
    return _Flow(arrivals, service, service * component.passes, characters * component.keeps + component.appends)


def throughput(topology: TopologyCapacity, executors: Sizes) -> float:
    """Return tuples/s at all sinks together."""
    rates = component_rates(topology, executors)
    return sum(rates[sink].served for sink in topology.sinks)


def new_executors(topology: TopologyCapacity, machines_before: int, machines_new: int, rule: scaling.SlotsRule) -> int:
    """Return how many executors Stela gives out when machines join (SP II-B)."""
    return scaling.executors_for_new_machines(as_observed(topology), machines_before, machines_new, rule)


@dataclass(frozen=True)
class Best:
    """The highest throughput with at most that many more executors. Without `executors` it is only an upper bound:
    there were too many ways to distribute them."""

    per_s: float
    executors: Sizes | None


@cache
def best(topology: TopologyCapacity, slots: int) -> Best:
    """Return the best of all distributions of up to `slots` more executors, with at most one executor a task; of
    equally good ones one that adds fewest.

    Component by component, sources first; after each one, a distribution is dropped that takes no fewer executors than
    another and hands no more to any component that follows. That is exact: a component serves no less if more
    tuples arrive or it has more executors (the loads of more executors are more even, and their service is concave).
    Joined texts of different lengths are an exception: there more tuples of the long ones may slow the others down.
    Distributions that differ in components leading there are never compared.
    """
    by_name = {component.name: component for component in topology.components}
    additions = np.zeros((1, len(topology.order)), dtype=np.int64)
    for place, name in enumerate(topology.order):
        # Each distribution with every possible number for the component; one that costs nothing needs no more.
        component = by_name[name]
        room = np.minimum(slots - additions.sum(axis=1), component.tasks - component.executors)
        room *= component.ms_per_character > 0.0
        additions = np.repeat(additions, room + 1, axis=0)
        additions[:, place] = np.concatenate([np.arange(count + 1) for count in room])
        indices = _undominated(_handed_on(topology, additions, place + 1), MOST_DISTRIBUTIONS)
        if indices is None:
            # As if each component got all slots, and joined texts were as short as the shortest.
            most = {each.name: np.array([min(each.tasks, each.executors + slots)]) for each in topology.components}
            return Best(float(_at_sinks(topology, _flows(topology, most, shortest=True), topology.sinks)[0]), None)
        additions = additions[indices]
    rates = _at_sinks(topology, _flows(topology, _sizes(topology, additions)), topology.sinks)
    choice = additions[np.lexsort((additions.sum(axis=1), -rates.round(DECIMALS)))[0]]
    executors = topology.initial | {
        name: topology.initial[name] + int(choice[i]) for i, name in enumerate(topology.order)
    }
    return Best(throughput(topology, executors), executors)


def _sizes(topology: TopologyCapacity, added: Integers) -> dict[str, Integers]:
    return {name: topology.initial[name] + added[:, place] for place, name in enumerate(topology.order)}


def _at_sinks(topology: TopologyCapacity, flows: Mapping[str, _Flow], names: Collection[str]) -> Array:
    return sum((flows[name].served for name in names if name in topology.sinks), np.zeros(1))


def _handed_on(topology: TopologyCapacity, added: Integers, known: int) -> Array:
    """Return a row a distribution: executors, and the flow from the first `known` components to sinks and to each later
    component; less is better. If lengths may differ it has each number twice, also negative: only equal ones compare.
    """
    flows, first = _flows(topology, _sizes(topology, added)), topology.order[:known]
    columns = [added.sum(axis=1), -_at_sinks(topology, flows, first)]
    sensitive = _led_by_lengths(topology)
    for name in topology.order[known:]:
        streams = [flows[source] for source in _sources(topology, name) if source in first]
        if streams:
            columns.append(-sum(stream.sent for stream in streams))
            if name in sensitive:
                characters = sum(stream.sent * stream.characters for stream in streams)
                columns += [-columns[-1], characters, -characters]
    return np.stack([np.broadcast_to(column, len(added)) for column in columns], axis=1).round(DECIMALS)


@cache
def _led_by_lengths(topology: TopologyCapacity) -> frozenset[str]:
    """Return components that lead to, or are, one whose cost depends on texts with a mean length that
    follows from the mix of streams: streams of different lengths have joined there, or before."""
    by_name = {component.name: component for component in topology.components}
    lengths: dict[str, float | None] = {}
    leads: set[str] = set()
    for name in topology.order:
        each = by_name[name]
        input_lengths = {lengths[source] for source in _sources(topology, name)} or {SOURCE_CHARACTERS}
        length = input_lengths.pop() if len(input_lengths) == 1 else None
        if length is None and each.ms_per_character > 0.0:
            leads.add(name)
        lengths[name] = None if length is None else round(length * each.keeps + each.appends, DECIMALS)
    for source in reversed(topology.order):
        if any((source, name) in topology.edges for name in leads):
            leads.add(source)
    return frozenset(leads)


def _undominated(rows: Array, most: int) -> list[int] | None:
    """Return the rows for which no other row is as small in all columns, one of equal ones; None if there are more than
    `most`."""
    rest, indices = np.lexsort(rows.T[::-1]), list[int]()
    while rest.size and len(indices) <= most:
        indices.append(int(rest[0]))
        rest = rest[(rows[rest] < rows[rest[0]]).any(axis=1)]
    return indices if len(indices) <= most else None


def stela_executors(topology: TopologyCapacity, slots: int, parameters: StelaParameters) -> Sizes:
    """Return the sizes that Stela's rule gives, from these rates without noise."""
    return {**topology.initial, **assign_executors(as_observed(topology), slots, parameters)}


def as_observed(topology: TopologyCapacity) -> ObservedTopology:
    """Return a policy's view before the event: tasks numbered as declared, and the rates of the closed form."""
    rates, components = component_rates(topology, topology.initial), []
    for component, last in zip(topology.components, accumulate(c.tasks for c in topology.components), strict=True):
        tasks, flow = tuple(range(last - component.tasks + 1, last + 1)), rates[component.name]
        executors = tuple(Executor(*ends) for ends in executor_ranges(tasks, component.executors))
        rate = {"emitted_per_s": flow.sent} if component.kind == "spout" else {"executed_per_s": flow.served}
        components.append(ObservedComponent(component.name, component.kind, tasks, executors, **rate))
    edges = tuple(
        Edge(source, "default", target, "shuffle", tuples_per_s=rates[source].sent) for source, target in topology.edges
    )
    return ObservedTopology("closed-form-1", "closed-form", 1, tuple(components), edges)
