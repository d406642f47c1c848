"""What a topology can do at rest where its components wait or cost nothing, in closed form: its throughput, and what
more executors give, dealt out as well as can be or by Stela's rule. Pure.

Each executor serves at most one tuple at a time, for as long as its text costs (docs/decisions/claims.md). Every
component gets all tuples of the streams into it, the same number for each of its tasks; what an executor cannot serve
waits. It is assumed that each waiting thread gets a core when it wakes: then it is of no consequence which machine an
executor is on, or how many there are.
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
from scheduler_plugins.policies.stela import Parameters, assign_executors
from topologies import catalogue
from topologies.errors import UnknownWork
from topologies.work import SOURCE_CHARACTERS, ComponentWork, components_of

EVEN_GROUPINGS = ("shuffle", "fields")  # the fields that we group by spread evenly (docs/decisions/claims.md)

Sizes = Mapping[str, int]  # component -> executors
Integers = NDArray[np.int64]
Array = NDArray[np.float64]  # one number for each of several distributions of executors
MOST_DISTRIBUTIONS = 500  # that none is surely better than, after a component; beyond it there is only a bound
DECIMALS = 9  # tuples/s that differ by less are the same


@dataclass(frozen=True)
class Component:
    """`executors`: that it starts with. `offered_per_s`: by a source. `passes`: share of the tuples that are sent on;
    `keeps`, `appends`: share of a text that stays, characters that are added."""

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
class Topology:
    """Components as declared; edges (source, target), one a stream; and an order with sources before targets."""

    components: tuple[Component, ...]
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
class Rates:
    """Tuples/s that arrive at a component, that it serves and that it sends on, and the mean length of these."""

    arriving: float
    served: float
    sent: float
    characters: float


@cache
def topology_of_flux(flux: str) -> Topology | None:
    """Read rendered Flux YAML. None where there is no closed form: a component that burns CPU, or is not ours, a source
    that is not throttled, a grouping that is not even, a cycle."""
    document = yaml.safe_load(flux)
    shape = catalogue.topology_of_flux(document["name"], document)
    try:
        components = [_component(each) for each in components_of(document, shape)]
    except UnknownWork:
        return None
    known = tuple(component for component in components if component is not None)
    uneven = [edge for edge in shape.edges if edge.grouping not in EVEN_GROUPINGS or edge.stream != "default"]
    if len(known) < len(components) or uneven:
        return None
    edges = tuple((edge.source, edge.target) for edge in shape.edges)
    sources: dict[str, list[str]] = {component.name: [] for component in known}
    for source, target in edges:
        sources[target].append(source)
    try:
        return Topology(known, edges, tuple(TopologicalSorter(sources).static_order()))
    except CycleError:
        return None


def _component(work: ComponentWork) -> Component | None:
    """None for one that is not throttled, or burns CPU."""
    if work.is_unthrottled or (work.cost_model == "busy" and work.ms_per_character > 0.0):
        return None
    sizes = (work.name, work.kind, work.tasks, work.executors, work.rate_per_s or 0.0)
    return Component(*sizes, work.ms_per_character, work.passes, work.keeps, work.appends)


def component_rates(topology: Topology, executors: Sizes) -> dict[str, Rates]:
    """At rest, by component, with as many executors each as given."""
    flows = _flows(topology, {name: np.array([size]) for name, size in executors.items()})
    return {
        name: Rates(float(flow.arriving[0]), float(flow.served[0]), float(flow.sent[0]), float(flow.characters[0]))
        for name, flow in flows.items()
    }


@dataclass(frozen=True)
class _Flow:
    """As Rates, of several distributions at once."""

    arriving: Array
    served: Array
    sent: Array
    characters: Array


def _flows(topology: Topology, executors: Mapping[str, Integers], *, shortest: bool = False) -> dict[str, _Flow]:
    """`shortest`: where streams join, as if all texts were like those of the shortest."""
    by_name = {component.name: component for component in topology.components}
    found: dict[str, _Flow] = {}
    for name in topology.order:
        streams = [found[source] for source in _sources(topology, name)]
        found[name] = _flow(by_name[name], executors[name], streams, shortest)
    return found


def _sources(topology: Topology, name: str) -> list[str]:
    return [source for source, target in topology.edges if target == name]


def _flow(component: Component, executors: Integers, streams: Sequence[_Flow], shortest: bool) -> _Flow:
    nothing = np.zeros(len(executors))
    if component.kind == "spout":
        offered = nothing + component.offered_per_s
        return _Flow(offered, offered, offered, nothing + SOURCE_CHARACTERS)
    arriving = sum((stream.sent for stream in streams), nothing)
    total = sum((stream.sent * stream.characters for stream in streams), nothing)
    characters = np.divide(total, arriving, out=nothing.copy(), where=arriving > 0.0)
    if shortest and streams:
        characters = np.min([stream.characters for stream in streams], axis=0)
    served = _served(component, executors, arriving, component.ms_per_character * characters)
    return _Flow(arriving, served, served * component.passes, characters * component.keeps + component.appends)


def _served(component: Component, executors: Integers, arriving: Array, ms_per_tuple: Array) -> Array:
    """Each executor gets what arrives for its tasks: of 8 tasks on 5 executors 2, 2, 2, 1 and 1 eighths."""
    of_task = arriving / component.tasks
    most = np.divide(1000.0, ms_per_tuple, out=np.full(len(arriving), np.inf), where=ms_per_tuple > 0.0)
    tasks, larger = np.divmod(component.tasks, executors)
    of_larger, of_others = np.minimum((tasks + 1) * of_task, most), np.minimum(tasks * of_task, most)
    return np.asarray(larger * of_larger + (executors - larger) * of_others, dtype=np.float64)


def throughput(topology: Topology, executors: Sizes) -> float:
    """Tuples/s at all sinks together."""
    rates = component_rates(topology, executors)
    return sum(rates[sink].served for sink in topology.sinks)


def new_executors(topology: Topology, machines_before: int, machines_new: int, rule: scaling.SlotsRule) -> int:
    """Return how many Stela gives out when machines join (SP II-B)."""
    return scaling.executors_for_new_machines(as_observed(topology), machines_before, machines_new, rule)


@dataclass(frozen=True)
class Best:
    """The highest throughput that up to so many more executors give. Without `executors` it is a bound that none is
    above: there were too many ways to deal them out."""

    per_s: float
    executors: Sizes | None


@cache
def best(topology: Topology, slots: int) -> Best:
    """Of all distributions of up to `slots` more executors, no component having more than tasks; of equally good ones
    one that adds fewest.

    Component by component, sources first; after each one, a distribution is dropped that takes no fewer executors than
    another and hands no more to any component that follows. That is exact: a component serves no less where more
    arrives or it has more executors (the loads of more executors are more even, and what each serves is concave).
    Texts of different lengths that join are an exception: there more tuples of the long ones may slow the rest down.
    Distributions that differ in what leads there are never compared.
    """
    by_name = {component.name: component for component in topology.components}
    added = np.zeros((1, len(topology.order)), dtype=np.int64)
    for place, name in enumerate(topology.order):
        added = _with_more(added, place, by_name[name], slots)
        kept = _undominated(_handed_on(topology, added, place + 1), MOST_DISTRIBUTIONS)
        if kept is None:
            return Best(_bound(topology, slots), None)
        added = added[kept]
    rates = _at_sinks(topology, _flows(topology, _sizes(topology, added)), topology.sinks)
    chosen = added[np.lexsort((added.sum(axis=1), -rates.round(DECIMALS)))[0]]
    executors = topology.initial | {
        name: topology.initial[name] + int(chosen[i]) for i, name in enumerate(topology.order)
    }
    return Best(throughput(topology, executors), executors)


def _with_more(added: Integers, place: int, component: Component, slots: int) -> Integers:
    """Each distribution with everything that the component may get; one that costs nothing needs no more."""
    room = np.minimum(slots - added.sum(axis=1), component.tasks - component.executors)
    room *= component.ms_per_character > 0.0
    every = np.repeat(added, room + 1, axis=0)
    every[:, place] = np.concatenate([np.arange(most + 1) for most in room])
    return every


def _sizes(topology: Topology, added: Integers) -> dict[str, Integers]:
    return {name: topology.initial[name] + added[:, place] for place, name in enumerate(topology.order)}


def _at_sinks(topology: Topology, flows: Mapping[str, _Flow], names: Collection[str]) -> Array:
    return sum((flows[name].served for name in names if name in topology.sinks), np.zeros(1))


def _handed_on(topology: Topology, added: Integers, known: int) -> Array:
    """A row a distribution: executors, and what the first `known` components hand on to sinks and to each that follows;
    less is better. Where lengths may differ it has each number twice, also negative: only equal ones compare.
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
def _led_by_lengths(topology: Topology) -> frozenset[str]:
    """Components from which one can be reached, or that are one, that costs something by texts whose mean length
    follows from how many there are of each: streams of different lengths have joined there, or before."""
    by_name = {component.name: component for component in topology.components}
    lengths: dict[str, float | None] = {}
    found: set[str] = set()
    for name in topology.order:
        own, arriving = by_name[name], {lengths[source] for source in _sources(topology, name)} or {SOURCE_CHARACTERS}
        length = arriving.pop() if len(arriving) == 1 else None
        if length is None and own.ms_per_character > 0.0:
            found.add(name)
        lengths[name] = None if length is None else round(length * own.keeps + own.appends, DECIMALS)
    for source in reversed(topology.order):
        if any((source, name) in topology.edges for name in found):
            found.add(source)
    return frozenset(found)


def _undominated(rows: Array, most: int) -> list[int] | None:
    """Return which rows no other is as small as in all columns, one of equal ones; None for more than `most`."""
    left, found = np.lexsort(rows.T[::-1]), list[int]()
    while left.size and len(found) <= most:
        found.append(int(left[0]))
        left = left[(rows[left] < rows[left[0]]).any(axis=1)]
    return found if len(found) <= most else None


def _bound(topology: Topology, slots: int) -> float:
    """As if each component got all of the slots, and texts that join were as short as the shortest."""
    executors = {each.name: np.array([min(each.tasks, each.executors + slots)]) for each in topology.components}
    return float(_at_sinks(topology, _flows(topology, executors, shortest=True), topology.sinks)[0])


def stela_executors(topology: Topology, slots: int, parameters: Parameters) -> Sizes:
    """The sizes that Stela's rule gives, from these rates without noise."""
    return {**topology.initial, **assign_executors(as_observed(topology), slots, parameters)}


def as_observed(topology: Topology) -> ObservedTopology:
    """As a policy sees it before the event: tasks numbered as declared, and the rates of the closed form."""
    rates, components = component_rates(topology, topology.initial), []
    for component, last in zip(topology.components, accumulate(c.tasks for c in topology.components), strict=True):
        tasks, of = tuple(range(last - component.tasks + 1, last + 1)), rates[component.name]
        executors = tuple(Executor(*ends) for ends in executor_ranges(tasks, component.executors))
        rate = {"emitted_per_s": of.sent} if component.kind == "spout" else {"executed_per_s": of.served}
        components.append(ObservedComponent(component.name, component.kind, tasks, executors, **rate))
    edges = tuple(
        Edge(source, "default", target, "shuffle", tuples_per_s=rates[source].sent) for source, target in topology.edges
    )
    return ObservedTopology("closed-form-1", "closed-form", 1, tuple(components), edges)
