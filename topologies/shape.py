"""The shape of a topology: components, edges and sizes, read out of Flux YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from topologies.errors import BrokenTemplate, TopologyError

Scalar = str | int | float | bool

PARAMETERS = "barograph.parameters"
WORKERS = "topology.workers"


@dataclass(frozen=True)
class Component:
    """`executors` are the ones it starts with; `tasks` are fixed at submission and bound them."""

    name: str
    kind: Literal["spout", "bolt"]
    tasks: int
    executors: int
    class_name: str


@dataclass(frozen=True)
class Edge:
    source: str
    stream: str
    target: str
    grouping: str  # shuffle, fields, all, global, local_or_shuffle …


@dataclass(frozen=True)
class Topology:
    name: str
    workers: int
    components: tuple[Component, ...]
    edges: tuple[Edge, ...]
    parameters: Mapping[str, Scalar]  # name → value, in a template the default

    @property
    def sinks(self) -> tuple[str, ...]:
        """Bolts that emit to nobody, in the template's order."""
        sources = {edge.source for edge in self.edges}
        return tuple(c.name for c in self.components if c.kind == "bolt" and c.name not in sources)


def topology(name: str, flux: Mapping[str, Any], refused: type[TopologyError] = BrokenTemplate) -> Topology:
    """The shape of `flux`. Raises BrokenTemplate where it cannot be read, `refused` where its sizes are impossible."""
    try:
        components = tuple(_component(vertex, kind) for kind, vertex in _vertices(flux))
        edges = tuple(_edge(stream) for stream in flux["streams"])
        workers = flux["config"][WORKERS]
        parameters = dict(flux["config"][PARAMETERS])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenTemplate(f"topologies/flux/{name}.yaml: cannot be read: {error!r}") from error
    _check_sizes(name, workers, components, refused)
    _check_edges(name, components, edges)
    return Topology(name, workers, components, edges, parameters)


def _vertices(flux: Mapping[str, Any]) -> list[tuple[Literal["spout", "bolt"], Mapping[str, Any]]]:
    return [("spout", vertex) for vertex in flux["spouts"]] + [("bolt", vertex) for vertex in flux["bolts"]]


def _component(vertex: Mapping[str, Any], kind: Literal["spout", "bolt"]) -> Component:
    executors = vertex["parallelism"]
    return Component(vertex["id"], kind, vertex.get("numTasks", executors), executors, vertex["className"])


def _edge(stream: Mapping[str, Any]) -> Edge:
    grouping = stream["grouping"]
    return Edge(stream["from"], grouping.get("streamId", "default"), stream["to"], grouping["type"].lower())


def _check_sizes(name: str, workers: Any, components: Sequence[Component], refused: type[TopologyError]) -> None:
    _check_size(f"topology {name}: workers", workers, refused)
    for component in components:
        where = f"topology {name}: component {component.name}"
        _check_size(f"{where}: executors", component.executors, refused)
        _check_size(f"{where}: tasks", component.tasks, refused)
        if component.executors > component.tasks:
            raise refused(
                f"{where}: executors: {component.executors} are more than its {component.tasks} tasks; "
                f"Storm allows at most one executor a task: lower executors or raise tasks"
            )


def _check_size(where: str, size: Any, refused: type[TopologyError]) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise refused(f"{where}: {size!r} is not a whole number of 1 or more")


def _check_edges(name: str, components: Sequence[Component], edges: Sequence[Edge]) -> None:
    known = [component.name for component in components]
    for end in (end for edge in edges for end in (edge.source, edge.target)):
        if end not in known:
            raise BrokenTemplate(
                f"topologies/flux/{name}.yaml: streams: {end!r} is not a component; there are {', '.join(known)}"
            )
