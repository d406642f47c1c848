"""The topologies that ship: what they look like, and the Flux YAML to submit them with.

Each is one template in `flux/`, plain Flux YAML in which a value, or a part of a text, may be `${parameter}`; the
parameters' defaults stand in its `config: barograph.parameters`. An entry with `stages: {from, to, step}` stands for
one entry each, in which `${stage}` is the stage's number and `${before}` that of the one before. The Storm settings
that all share are in `storm.yaml`, under each one's own. A topology's shape (components, edges, sizes) is read out of
the Flux YAML. To add one, add a file there. Errors: topologies/errors.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from topologies import public_records, yaml_text
from topologies.errors import (
    BadOverride,
    BadParameter,
    BrokenTemplate,
    JarMissing,
    TopologyError,
    UnknownParameter,
    UnknownTopology,
)

Scalar = str | int | float | bool

PARAMETERS = "barograph.parameters"
WORKERS = "topology.workers"
STATE = "topology.state.provider"  # names the class that keeps the state of stateful components
ACKERS = "topology.acker.executors"
KEYED = ("fields", "mod", "ring")  # groupings by the hash of a field
MACHINE_GROUPING = "barograph.topologies.MachineGrouping"
_MOST_NUMBER, _MOST_TASKS, _MOST_WORKERS = 10**12, 1_000_000, 10_000


@dataclass(frozen=True)
class ComponentSpec:
    """`executors` are the ones it starts with; `tasks` are fixed at submission and bound them."""

    name: str
    kind: Literal["spout", "bolt"]
    tasks: int
    executors: int
    class_name: str


@dataclass(frozen=True)
class EdgeSpec:
    source: str
    stream: str
    target: str
    grouping: str  # shuffle, fields, all, global, local_or_shuffle …; mod or ring: by a field, over machines
    fields: tuple[str, ...] = ()  # that a grouping by fields, or over machines, goes by


@dataclass(frozen=True)
class TopologySpec:
    name: str
    workers: int
    components: tuple[ComponentSpec, ...]
    edges: tuple[EdgeSpec, ...]
    parameters: Mapping[str, Scalar]  # name → value, in a template the default

    @property
    def sinks(self) -> tuple[str, ...]:
        """Bolts that emit to nobody, in the template's order."""
        sources = {edge.source for edge in self.edges}
        return tuple(c.name for c in self.components if c.kind == "bolt" and c.name not in sources)


def topology_of_flux(name: str, flux: Mapping[str, Any], refused: type[TopologyError] = BrokenTemplate) -> TopologySpec:
    """The shape of `flux`. Raises BrokenTemplate where it cannot be read, `refused` where its sizes are impossible."""
    spec = _shape(name, flux)
    _check_sizes(name, spec.workers, spec.components, refused)
    return spec


def _shape(name: str, flux: Mapping[str, Any]) -> TopologySpec:
    file = f"topologies/flux/{name}.yaml"
    for key, advice in (("includes", "copy what is in those files here"), ("topologySource", "write spouts and bolts")):
        if flux.get(key):
            raise BrokenTemplate(f"{file}: {key} is {flux[key]!r}, which is not read here; {advice}")
    components = (*_components(file, flux, "spout"), *_components(file, flux, "bolt"))
    edges = tuple(_edges(file, flux, [component.name for component in components]))
    config = _field(file, flux, "config", Mapping)
    parameters = _field(f"{file}: config", config, PARAMETERS, Mapping, {})
    return TopologySpec(name, config.get(WORKERS, 1), components, edges, dict(parameters))


def _components(file: str, flux: Mapping[str, Any], kind: Literal["spout", "bolt"]) -> Iterator[ComponentSpec]:
    for number, each in enumerate(_field(file, flux, f"{kind}s", list, [] if kind == "bolt" else None)):
        place = f"{file}: {kind}s.{number}"
        component, class_name = (_field(place, each, key, str) for key in ("id", "className"))
        executors = each.get("parallelism", 1)
        yield ComponentSpec(component, kind, each.get("numTasks", executors), executors, class_name)


def _edges(file: str, flux: Mapping[str, Any], names: Sequence[str]) -> Iterator[EdgeSpec]:
    for number, each in enumerate(_field(file, flux, "streams", list, [])):
        place = f"{file}: streams.{number}"
        ends = {key: _field(place, each, key, str) for key in ("from", "to")}
        for key, end in ends.items():
            if end not in names:
                raise BrokenTemplate(
                    f"{place}.{key} is {end!r}, not a component; there are {', '.join(names)}"
                    + ("; remove this stream, which Storm itself fills" if end.startswith("__") else "")
                )
        grouping = _field(place, each, "grouping", Mapping)
        stream = _field(f"{place}.grouping", grouping, "streamId", str, "default")
        type_ = _field(f"{place}.grouping", grouping, "type", str).lower()
        fields = tuple(grouping.get("args") or ())
        match grouping.get("customClass"):
            case {"className": name, "constructorArgs": [str(rule), str(field), _]} if name == MACHINE_GROUPING:
                type_, fields = rule, (field,)
        yield EdgeSpec(ends["from"], stream, ends["to"], type_, fields)


_WORDS = {str: "text", list: "a list", Mapping: "a mapping"}


def _field(place: str, entry: Any, key: str, kind: Any, default: Any = None) -> Any:
    """Return the value. Raises BrokenTemplate where it is missing without a default, or of another kind."""
    if not isinstance(entry, Mapping):
        raise BrokenTemplate(f"{place} is {entry!r}; write a mapping")
    value = default if entry.get(key) is None else entry[key]
    if not isinstance(value, kind):
        raise BrokenTemplate(f"{place}.{key} is {'missing' if value is None else repr(value)}; write {_WORDS[kind]}")
    return value


def _check_sizes(name: str, workers: Any, components: Sequence[ComponentSpec], refused: type[TopologyError]) -> None:
    _check_size(f"topology {name}: workers", workers, refused, _MOST_WORKERS)
    for component in components:
        where = f"topology {name}: component {component.name}"
        _check_size(f"{where}: executors", component.executors, refused)
        _check_size(f"{where}: tasks", component.tasks, refused)
        if component.executors > component.tasks:
            raise refused(
                f"{where}: executors: {component.executors} are more than its {component.tasks} tasks; "
                f"Storm allows at most one executor a task: lower executors or raise tasks"
            )


def _check_size(where: str, size: Any, refused: type[TopologyError], most: int = _MOST_TASKS) -> None:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= most:
        raise refused(f"{where}: {size!r} is not a whole number from 1 to {most:,}")


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "cost_model": ("none", "sleep", "busy"),
    "on_restart": ("catch_up", "skip"),
    "grouping": KEYED,
}
_ABOVE_ZERO = ("rate_per_s", "contracts_per_s")
_RANGES: Mapping[str, tuple[float, float]] = {
    "parallelism": (1, 10_000),
    "quote_sources": (1, 10_000),
    "contract_sources": (1, 10_000),
    "depth": (1, 1000),
    "size_bytes": (16, 1_000_000),
    "shift": (0, 1_000_000),
    "stages": (2, 1000),
    "fan_out": (0.001, 1000),
    "fan_out_stage": (2, 1000),
    "burst_ms": (0, 1000),
    "companies": (1, 20_000),
    "contractors": (1, 20),
    "quote_skew": (0, 10),
    "contract_skew": (0, 10),
    "window_days": (2, 366),
    "word_characters": (1, 120),
    "retention_s": (1, 86_400),
    "kept_bytes": (0, 10_000_000),
    "surge_days": (2, 1_000_000),
    "day_s": (0.01, 86_400),
    "topics": (1, 100_000),
    "topic_skew": (0, 10),
    "list_size": (1, 10_000),
    "list_s": (1, 86_400),
    "ring_points": (1, 10_000),
    "users": (1, 1_000_000_000),
    "user_ratio": (0.001, 0.5),
    "movies": (2, 9_999_999),
    "movie_ratio": (0.001, 0.5),
    "fan_share": (0, 1),
    "ratings_per_day": (1, 1_000_000_000),
    "join_days": (1, 10_000),
    "history_size": (1, 100_000),
}
_AT_MOST = {"fan_out_stage": "stages"}
_OVERRIDES = ("workers", "tasks", "executors", "config")


def parameter_values(name: str, defaults: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The defaults, overlaid with what was given. Raises UnknownParameter, BadParameter."""
    for key, value in given.items():
        if key not in defaults:
            raise UnknownParameter(
                f"topology {name}: parameter {key!r} is unknown; known are {', '.join(sorted(defaults))}"
            )
        allowed = _value_rule(key, value, defaults[key])
        if allowed:
            raise BadParameter(f"topology {name}: parameter {key}: {value!r} is not {allowed}")
    values = {**defaults, **given}
    for key, most in _AT_MOST.items():
        if key in values and values[key] > values[most]:  # type: ignore[operator]  # both are numbers by now
            raise BadParameter(
                f"topology {name}: parameter {key}: {values[key]} is above {most}, which is {values[most]}; lower the"
                " one or raise the other"
            )
    return values


def _value_rule(key: str, value: Any, default: Scalar) -> str | None:
    """What the value should have been; None if it is. Its kind is its default's, and a whole number is a number too."""
    if key in _CHOICES:
        return None if value in _CHOICES[key] else f"one of {', '.join(_CHOICES[key])}"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return None if isinstance(value, str) else "text"
    if isinstance(default, int):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return None if is_whole and _is_in_range(key, value) else f"a whole number{_range_words(key)}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_NUMBER:
        return f"a number of at most {_MOST_NUMBER:g}"
    if key in _ABOVE_ZERO:
        return None if value > 0 else "above 0"
    if key in _RANGES:
        return None if _is_in_range(key, value) else f"a number{_range_words(key)}"
    return None if value >= 0 else "0 or more"


def _is_in_range(key: str, value: float) -> bool:
    least, most = _RANGES.get(key, (-_MOST_NUMBER, _MOST_NUMBER))
    return least <= value <= most


def _range_words(key: str) -> str:
    return " from {:,} to {:,}".format(*_RANGES[key]) if key in _RANGES else ""


_STAGES = "stages"
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def substitute_parameters(node: Any, parameters: Mapping[str, Scalar]) -> Any:
    """Replaces every `${name}` by the parameter: a scalar that is nothing else keeps the parameter's type, and in a
    list an entry with `stages` becomes one entry for each of them."""
    if isinstance(node, dict):
        return {key: substitute_parameters(child, parameters) for key, child in node.items()}
    if isinstance(node, list):
        return [entry for child in node for entry in _entries(child, parameters)]
    if not isinstance(node, str):
        return node
    if whole := _PLACEHOLDER.fullmatch(node):
        return _placeholder_value(whole[1], parameters)
    return _PLACEHOLDER.sub(lambda found: str(_placeholder_value(found[1], parameters)), node)


def _entries(node: Any, parameters: Mapping[str, Scalar]) -> list[Any]:
    if not isinstance(node, dict) or _STAGES not in node:
        return [substitute_parameters(node, parameters)]
    entry = {key: child for key, child in node.items() if key != _STAGES}
    span = substitute_parameters(node[_STAGES], parameters)
    try:
        stages = range(span["from"], span["to"] + 1, span.get("step", 1))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BrokenTemplate(
            f"topologies/flux: {_STAGES} is {span!r}; allowed are whole numbers `from`, `to` and `step`: {error!r}"
        ) from error
    return [substitute_parameters(entry, {**parameters, "stage": stage, "before": stage - 1}) for stage in stages]


def _placeholder_value(key: str, parameters: Mapping[str, Scalar]) -> Scalar:
    if key not in parameters:
        raise BrokenTemplate(
            f"topologies/flux: ${{{key}}} has no default under {PARAMETERS}; known are {', '.join(sorted(parameters))}"
        )
    return parameters[key]


def apply_overrides(name: str, flux: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Changes sizes and configuration in place. Raises BadOverride."""
    for key in overrides:
        if key not in _OVERRIDES:
            raise BadOverride(f"topology {name}: override {key!r} is unknown; known are {', '.join(_OVERRIDES)}")
    flux["config"].update(_override_mapping(name, "config", overrides))
    if "workers" in overrides:
        flux["config"][WORKERS] = overrides["workers"]
    for word, field in (("tasks", "numTasks"), ("executors", "parallelism")):
        vertices = {vertex["id"]: vertex for vertex in [*flux["spouts"], *(flux.get("bolts") or ())]}
        for component, size in _override_mapping(name, word, overrides).items():
            if component not in vertices:
                raise BadOverride(
                    f"topology {name}: {word}: component {component!r} does not exist; there are {', '.join(vertices)}"
                )
            vertices[component][field] = size


def _override_mapping(name: str, word: str, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    value = overrides.get(word, {})
    if not isinstance(value, Mapping):
        wanted = "keys to values" if word == "config" else "components to whole numbers"
        raise BadOverride(f"topology {name}: {word}: {value!r} does not map {wanted}")
    return value


__all__ = [
    "ComponentSpec",
    "EdgeSpec",
    "TopologyError",
    "TopologySpec",
    "has_state",
    "jar",
    "names",
    "read",
    "read_flux",
    "render",
]

_HERE = Path(__file__).parent
_FLUX = _HERE / "flux"
_SHARED = _HERE / "storm.yaml"


def names() -> tuple[str, ...]:
    """Names of all topologies, sorted."""
    return tuple(sorted(path.stem for path in _FLUX.glob("*.yaml")))


def read(name: str) -> TopologySpec:
    """The topology with the parameters of its template. Raises UnknownTopology, BrokenTemplate."""
    template = _template(name)
    return topology_of_flux(name, _substituted(name, template, template["config"][PARAMETERS]))


def settings(name: str) -> frozenset[str]:
    """The keys of the template's `config`, with the shared ones. Raises UnknownTopology, BrokenTemplate."""
    return frozenset(_template(name)["config"])


def render(
    name: str,
    parameters: Mapping[str, Scalar] | None = None,
    overrides: Mapping[str, Any] | None = None,
    storm_name: str | None = None,
) -> str:
    """Plain Flux YAML to submit; `read_flux` gives its shape.

    `overrides`: `workers` (int), `executors` and `tasks` (component → int), `config` (key → value).
    `storm_name`: the topology's in Storm, where it is not the template's.
    Raises UnknownTopology, UnknownParameter, BadParameter, BadOverride.
    """
    template = _template(name)
    values = parameter_values(name, template["config"][PARAMETERS], parameters or {})
    flux = _substituted(name, template, values)
    _shape(name, flux)  # overrides change what it has
    apply_overrides(name, flux, overrides or {})
    topology_of_flux(name, flux, refused=BadOverride)
    if has_state(flux) and flux["config"].get(ACKERS) == 0:
        raise BadOverride(
            f"topology {name}: config: {ACKERS} is 0; allowed are 1 or more, for without acks Storm never restores the"
            " state of a component that was restarted, and holds its tuples back for ever: leave it out"
        )
    public_records.check_sources(name, flux)
    flux["name"] = storm_name or flux.get("name", name)
    return yaml_text.dump(flux)


def _substituted(name: str, template: dict[str, Any], values: Mapping[str, Scalar]) -> dict[str, Any]:
    """What its components get of a file is its content; on record is where it was."""
    flux: dict[str, Any] = substitute_parameters(template, public_records.with_content(name, values))
    flux["config"][PARAMETERS] = dict(values)
    return flux


def read_flux(text: str) -> TopologySpec:
    """The topology that rendered Flux YAML describes. Raises BrokenTemplate."""
    flux = yaml.safe_load(text)
    return topology_of_flux(flux["name"], flux)


def jar() -> Path:
    """The built jar with the components. Raises JarMissing."""
    path = _HERE / "target" / "barograph-topologies.jar"
    if not path.is_file():
        raise JarMissing(f"{path} is missing; build it with: mvn -q -f {_HERE / 'pom.xml'} -DskipTests package")
    return path


def has_state(flux: Mapping[str, Any]) -> bool:
    """Whether components of this Flux document keep state outside their workers, in Redis."""
    return STATE in flux["config"]


def _template(name: str) -> dict[str, Any]:
    if name not in names():
        raise UnknownTopology(
            f"topology {name!r} does not exist; there are {', '.join(names())} (one file each in topologies/flux)"
        )
    template = _yaml(_FLUX / f"{name}.yaml")
    own = _field(f"topologies/flux/{name}.yaml", template, "config", Mapping, {})
    parameters = _field(f"topologies/flux/{name}.yaml: config", own, PARAMETERS, Mapping, {})
    return {**template, "config": {**_yaml(_SHARED), **own, PARAMETERS: parameters}}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml_text.load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise BrokenTemplate(f"{path}: cannot be read: {' '.join(str(error).split())}; mend it there") from error
    if not isinstance(content, dict):
        raise BrokenTemplate(f"{path}: {content!r} is not a mapping")
    return content
