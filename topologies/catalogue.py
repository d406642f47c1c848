"""The topologies that ship: what they look like, and the Flux YAML to submit them with.

Each is one template in `flux/`, plain Flux YAML in which a value may be `${parameter}`; the parameters' defaults stand in
its `config: barograph.parameters`.

    TopologyError               blame: configuration
    ├── UnknownTopology         no template of that name
    ├── UnknownParameter        a parameter that the template does not declare
    ├── BadParameter            a value of the wrong kind
    ├── BadOverride             an override that names nothing, or an impossible size
    └── BrokenTemplate          a template that cannot be read (blame: harness)
    JarMissing                  the components were not built (blame: harness)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml

Scalar = str | int | float | bool
Blame = Literal["configuration", "capacity", "infrastructure", "system_under_test", "harness"]

_FLUX = Path(__file__).parent / "flux"
_JAR = Path(__file__).parent / "target" / "barograph-topologies.jar"
_PARAMETERS = "barograph.parameters"
_WORKERS = "topology.workers"
_CHOICES: Mapping[str, tuple[str, ...]] = {"cost_model": ("none", "sleep", "busy")}
_OVERRIDES = ("workers", "executors", "tasks", "config")


class TopologyError(Exception):
    blame: ClassVar[Blame] = "configuration"


class UnknownTopology(TopologyError):
    pass


class UnknownParameter(TopologyError):
    pass


class BadParameter(TopologyError):
    pass


class BadOverride(TopologyError):
    pass


class BrokenTemplate(TopologyError):
    blame: ClassVar[Blame] = "harness"


class JarMissing(TopologyError):
    blame: ClassVar[Blame] = "harness"


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
    parameters: Mapping[str, Scalar]  # name → default

    @property
    def sinks(self) -> tuple[str, ...]:
        """Components that emit to nobody, in the template's order."""
        sources = {edge.source for edge in self.edges}
        return tuple(c.name for c in self.components if c.kind == "bolt" and c.name not in sources)


def names() -> tuple[str, ...]:
    """Names of all topologies, sorted."""
    return tuple(sorted(path.stem for path in _FLUX.glob("*.yaml")))


def read(name: str) -> Topology:
    """The topology as its template declares it. Raises UnknownTopology, BrokenTemplate."""
    return _topology(name, _template(name))


def render(
    name: str, parameters: Mapping[str, Scalar] | None = None, overrides: Mapping[str, Any] | None = None
) -> str:
    """Plain Flux YAML to submit.

    `overrides`: `workers` (int), `executors` and `tasks` (component → int), `config` (Storm or Barograph key → value).
    Raises UnknownTopology, UnknownParameter, BadParameter, BadOverride.
    """
    template = _template(name)
    values = _values(name, template["config"][_PARAMETERS], parameters or {})
    flux: dict[str, Any] = _substitute(template, values)
    flux["config"][_PARAMETERS] = dict(values)
    _override(name, flux, overrides or {})
    _topology(name, flux, refused=BadOverride)
    return yaml.safe_dump(flux, sort_keys=False, width=120)


def jar() -> Path:
    """The built jar with the components. Raises JarMissing."""
    if not _JAR.is_file():
        raise JarMissing(f"{_JAR} is missing: build it with `mvn -f {_JAR.parent.parent / 'pom.xml'} package`")
    return _JAR


@cache
def _text(name: str) -> str:
    if name not in names():
        raise UnknownTopology(
            f"topology {name!r} does not exist; there are {', '.join(names())} (topologies/flux/*.yaml)"
        )
    return (_FLUX / f"{name}.yaml").read_text(encoding="utf-8")


def _template(name: str) -> dict[str, Any]:
    try:
        template = yaml.safe_load(_text(name))
        if not isinstance(template["config"][_PARAMETERS], dict):
            raise TypeError(f"{_PARAMETERS} is not a mapping")
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise BrokenTemplate(f"topologies/flux/{name}.yaml: cannot be read: {error!r}") from error
    return dict(template)


def _topology(name: str, flux: Mapping[str, Any], refused: type[TopologyError] = BrokenTemplate) -> Topology:
    try:
        components = tuple(_component(vertex, kind) for kind in ("spout", "bolt") for vertex in flux[f"{kind}s"])
        edges = tuple(_edge(stream) for stream in flux["streams"])
        workers = flux["config"][_WORKERS]
    except (KeyError, TypeError) as error:
        raise BrokenTemplate(f"topologies/flux/{name}.yaml: cannot be read: {error!r}") from error
    _check_sizes(name, workers, components, refused)
    _check_edges(name, components, edges)
    return Topology(name, workers, components, edges, dict(flux["config"][_PARAMETERS]))


def _component(vertex: Mapping[str, Any], kind: Literal["spout", "bolt"]) -> Component:
    executors = vertex["parallelism"]
    return Component(vertex["id"], kind, vertex.get("numTasks", executors), executors, vertex["className"])


def _edge(stream: Mapping[str, Any]) -> Edge:
    grouping = stream["grouping"]
    return Edge(stream["from"], grouping.get("streamId", "default"), stream["to"], grouping["type"].lower())


def _check_sizes(name: str, workers: Any, components: Sequence[Component], refused: type[TopologyError]) -> None:
    sizes = [("workers", workers)]
    sizes += [
        (f"{word} of {c.name}", n) for c in components for word, n in (("executors", c.executors), ("tasks", c.tasks))
    ]
    for what, size in sizes:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise refused(f"topology {name}: {what}: {size!r} is not a whole number of 1 or more")
    for component in components:
        if component.executors > component.tasks:
            raise refused(
                f"topology {name}: component {component.name}: {component.executors} executors but {component.tasks} tasks; "
                f"at most as many executors as tasks are allowed: lower executors or raise tasks"
            )


def _check_edges(name: str, components: Sequence[Component], edges: Sequence[Edge]) -> None:
    known = {component.name for component in components}
    for edge in edges:
        for end in (edge.source, edge.target):
            if end not in known:
                raise BrokenTemplate(
                    f"topologies/flux/{name}.yaml: streams: {end!r} is not a component; there are {sorted(known)}"
                )


def _values(name: str, defaults: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    for key, value in given.items():
        if key not in defaults:
            raise UnknownParameter(
                f"topology {name}: parameter {key!r} is unknown; known are {', '.join(sorted(defaults))}"
            )
        _check_kind(name, key, value, defaults[key])
    return {**defaults, **given}


def _check_kind(name: str, key: str, value: Scalar, default: Scalar) -> None:
    """A value must be of its default's kind; a number may be whole or not; none is negative."""
    where = f"topology {name}: parameter {key}: {value!r}"
    if key in _CHOICES and value not in _CHOICES[key]:
        raise BadParameter(f"{where} is not one of {', '.join(_CHOICES[key])}")
    if isinstance(default, bool) or isinstance(value, bool):
        if not (isinstance(default, bool) and isinstance(value, bool)):
            raise BadParameter(f"{where} must be {'true or false' if isinstance(default, bool) else 'a number'}")
    elif isinstance(default, int | float):
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise BadParameter(f"{where} must be a number of 0 or more")
    elif not isinstance(value, str):
        raise BadParameter(f"{where} must be text")


def _substitute(node: Any, values: Mapping[str, Scalar]) -> Any:
    """Replaces every scalar that is `${name}`, keeping the value's type."""
    if isinstance(node, dict):
        return {key: _substitute(child, values) for key, child in node.items()}
    if isinstance(node, list):
        return [_substitute(child, values) for child in node]
    if isinstance(node, str) and node.startswith("${") and node.endswith("}"):
        return _value(node, values)
    return node


def _value(placeholder: str, values: Mapping[str, Scalar]) -> Scalar:
    key = placeholder[2:-1]
    if key not in values:
        raise BrokenTemplate(f"{placeholder} has no default under {_PARAMETERS}; known are {', '.join(sorted(values))}")
    return values[key]


def _override(name: str, flux: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    for key in overrides:
        if key not in _OVERRIDES:
            raise BadOverride(f"topology {name}: override {key!r} is unknown; known are {', '.join(_OVERRIDES)}")
    if "workers" in overrides:
        flux["config"][_WORKERS] = overrides["workers"]
    vertices = {vertex["id"]: vertex for vertex in [*flux["spouts"], *flux["bolts"]]}
    for word, field in (("tasks", "numTasks"), ("executors", "parallelism")):
        for component, size in _mapping(name, word, overrides).items():
            if component not in vertices:
                raise BadOverride(
                    f"topology {name}: {word}: component {component!r} does not exist; there are {', '.join(vertices)}"
                )
            vertices[component][field] = size
    flux["config"].update(_mapping(name, "config", overrides))


def _mapping(name: str, word: str, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    value = overrides.get(word) or {}
    if not isinstance(value, Mapping):
        raise BadOverride(
            f"topology {name}: {word}: {value!r} must map {'keys to values' if word == 'config' else 'components to numbers'}"
        )
    return value
