"""What a topology can do at rest where its components wait or cost nothing, in closed form: its throughput, and what
more executors give, dealt out as well as can be or by Stela's rule. Pure.

Each executor serves at most one tuple at a time, for as long as its text costs (docs/decisions/0002, 0004). Every
component gets all tuples of the streams into it, the same number for each of its tasks; what an executor cannot serve
waits. It is assumed that each waiting thread gets a core when it wakes: then it is of no consequence which machine an
executor is on, or how many there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import combinations_with_replacement
from typing import Any, Literal

import yaml

from scheduler_plugins.model import Component as ObservedComponent
from scheduler_plugins.model import Edge, Executor, executor_ranges
from scheduler_plugins.model import Topology as ObservedTopology
from scheduler_plugins.policies import scaling
from scheduler_plugins.policies.stela import Parameters, assign_executors
from topologies import catalogue

SOURCE_CHARACTERS = 40.25  # mean length of a text that leaves a source (LogLines.java)
AGGREGATE_CHARACTERS = 8.0  # that AggregateBolt appends
EVEN_GROUPINGS = ("shuffle", "fields")  # the fields that we group by spread evenly (docs/decisions/0004)

Sizes = Mapping[str, int]  # component -> executors


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
    """Of rendered Flux YAML. None where there is no closed form: a component that burns CPU, or is not ours, a source
    that is not throttled, a grouping that is not even, a cycle."""
    document = yaml.safe_load(flux)
    shape = catalogue.topology_of_flux(document["name"], document)
    vertices = {vertex["id"]: vertex for vertex in (*document["spouts"], *document["bolts"])}
    components = [_component(each, vertices[each.name].get("constructorArgs", ())) for each in shape.components]
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


def _component(shape: catalogue.Component, arguments: Sequence[Any]) -> Component | None:
    """By its class; the arguments are those of its Java constructor."""
    package, _, name = shape.class_name.rpartition(".")
    if package != "barograph.topologies":
        return None
    own: dict[str, float]
    match name, list(arguments):
        case "SourceSpout", [rate_per_s, _, False, _]:
            return Component(shape.name, shape.kind, shape.tasks, shape.executors, offered_per_s=float(rate_per_s))
        case (("PassBolt" | "SinkBolt"), [cost_model, ms_per_character]):
            own = {}
        case "TransformBolt", [cost_model, ms_per_character, keeps]:
            own = {"keeps": float(keeps)}
        case "FilterBolt", [cost_model, ms_per_character, passes, _]:
            own = {"passes": float(passes)}
        case "AggregateBolt", [cost_model, ms_per_character]:
            own = {"appends": AGGREGATE_CHARACTERS}
        case _:
            return None
    cost = 0.0 if cost_model == "none" else float(ms_per_character)
    if cost_model == "busy" and cost > 0.0:
        return None
    return Component(shape.name, shape.kind, shape.tasks, shape.executors, ms_per_character=cost, **own)


def component_rates(topology: Topology, executors: Sizes) -> dict[str, Rates]:
    """At rest, by component, with as many executors each as given."""
    by_name = {component.name: component for component in topology.components}
    found: dict[str, Rates] = {}
    for name in topology.order:
        streams = [found[source] for source, target in topology.edges if target == name]
        found[name] = _rates(by_name[name], executors[name], streams)
    return found


def _rates(component: Component, executors: int, streams: Sequence[Rates]) -> Rates:
    if component.kind == "spout":
        offered = component.offered_per_s
        return Rates(offered, offered, offered, SOURCE_CHARACTERS)
    arriving = sum(stream.sent for stream in streams)
    characters = sum(stream.sent * stream.characters for stream in streams) / arriving if arriving else 0.0
    served = _served(component, executors, arriving, component.ms_per_character * characters)
    return Rates(arriving, served, served * component.passes, characters * component.keeps + component.appends)


def _served(component: Component, executors: int, arriving: float, ms_per_tuple: float) -> float:
    """Each executor gets what arrives for its tasks: of 8 tasks on 5 executors 2, 2, 2, 1 and 1 eighths."""
    if ms_per_tuple <= 0.0:
        return arriving
    of_task, most = arriving / component.tasks, 1000.0 / ms_per_tuple
    return sum(min(tasks * of_task, most) for tasks in executor_sizes(component.tasks, executors))


@cache
def executor_sizes(tasks: int, executors: int) -> tuple[int, ...]:
    """Tasks of each executor, as Storm deals them."""
    return tuple(last - first + 1 for first, last in executor_ranges(tuple(range(tasks)), executors))


def throughput(topology: Topology, executors: Sizes) -> float:
    """Tuples/s at all sinks together."""
    rates = component_rates(topology, executors)
    return sum(rates[sink].served for sink in topology.sinks)


def gain_percent(topology: Topology, executors: Sizes) -> float:
    """Of the throughput, over that with the executors of the start."""
    return 100.0 * (throughput(topology, executors) / throughput(topology, topology.initial) - 1.0)


def new_executors(topology: Topology, machines_before: int, machines_new: int, rule: scaling.SlotsRule) -> int:
    """How many Stela gives out when machines join (SP II-B)."""
    return scaling.executors_for_new_machines(as_observed(topology), machines_before, machines_new, rule)


@cache
def best_executors(topology: Topology, slots: int) -> Sizes:
    """The sizes with the highest throughput of all that up to `slots` more executors give; no more than tasks."""
    return max(_distributions(topology, slots), key=lambda sizes: throughput(topology, sizes))


def _distributions(topology: Topology, slots: int) -> Iterator[dict[str, int]]:
    """Only to what costs something: the others need no more. Fewer first, so that of equal ones the smaller is best."""
    costly = [component for component in topology.components if component.ms_per_character > 0.0]
    room = {component.name: component.tasks - component.executors for component in costly}
    for given in range(slots + 1):
        for names in combinations_with_replacement(list(room), given):
            if all(names.count(name) <= room[name] for name in names):
                yield {name: size + names.count(name) for name, size in topology.initial.items()}


def best_gain_percent(topology: Topology, slots: int) -> float:
    """The most that any distribution of up to `slots` more executors gives over the sizes of the start."""
    return gain_percent(topology, best_executors(topology, slots))


def stela_executors(topology: Topology, slots: int, parameters: Parameters) -> Sizes:
    """The sizes that Stela's rule gives, from these rates without noise."""
    return {**topology.initial, **assign_executors(as_observed(topology), slots, parameters)}


def stela_gain_percent(topology: Topology, slots: int, parameters: Parameters) -> float:
    return gain_percent(topology, stela_executors(topology, slots, parameters))


def as_observed(topology: Topology) -> ObservedTopology:
    """As a policy sees it before the event: tasks numbered as declared, and the rates of the closed form."""
    rates = component_rates(topology, topology.initial)
    ends = _last_tasks(topology)
    components = tuple(_observed(c, ends[c.name] - c.tasks + 1, rates[c.name]) for c in topology.components)
    edges = tuple(
        Edge(source, "default", target, "shuffle", tuples_per_s=rates[source].sent) for source, target in topology.edges
    )
    return ObservedTopology("closed-form-1", "closed-form", 1, components, edges)


def _last_tasks(topology: Topology) -> dict[str, int]:
    ends, last = {}, 0
    for component in topology.components:
        last += component.tasks
        ends[component.name] = last
    return ends


def _observed(component: Component, first_task: int, rates: Rates) -> ObservedComponent:
    tasks = tuple(range(first_task, first_task + component.tasks))
    executors = tuple(Executor(first, last) for first, last in executor_ranges(tasks, component.executors))
    if component.kind == "spout":
        return ObservedComponent(component.name, "spout", tasks, executors, emitted_per_s=rates.sent)
    return ObservedComponent(component.name, "bolt", tasks, executors, executed_per_s=rates.served)
