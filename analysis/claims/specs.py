"""What tells, of an experiment as data, which claims can come out in it. Pure.

`Spec`: as series.json has it under `spec`. One of another version, or by hand, may lack what is read here or have other
values: it does not parse.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from analysis.claims.statements import Claim

Spec = Mapping[str, Any]
MachineNumber = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class _Topology:
    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    name: str
    policy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    topology: Mapping[str, Any] | None = None
    code: Any = None


@dataclass(frozen=True)
class _Event:
    kind: str
    at: float | str = "steady"
    machines: MachineNumber | tuple[str, ...] | None = None  # how many, or of a disturbance which


@dataclass(frozen=True)
class _Machines:
    before: MachineNumber


@dataclass(frozen=True)
class _Durations:
    after_floor_s: float = inf
    horizon_s: float = inf


@dataclass(frozen=True)
class ExperimentSpec:
    """What is read of an experiment."""

    name: str = ""
    topology: Mapping[str, Any] = field(default_factory=dict)
    topologies: tuple[Any, ...] = ()  # where a run has several
    machines: _Machines | None = None
    variants: tuple[Variant, ...] = ()
    events: tuple[_Event, ...] = ()
    durations: _Durations = field(default_factory=_Durations)
    repetitions: int = 0
    claims: tuple[str, ...] = ()


_SPEC, _TOPOLOGY = TypeAdapter(ExperimentSpec), TypeAdapter(_Topology)


def read(spec: Spec) -> ExperimentSpec | None:
    """None for what does not parse: the one guard, so that faults of our own are not hidden."""
    try:
        found = _SPEC.validate_python(spec)
        for topology in (found.topology, *(variant.topology or {} for variant in found.variants)):
            _TOPOLOGY.validate_python(topology)
    except ValidationError:
        return None
    return found


def topology_of(spec: Spec, variant: Mapping[str, Any]) -> dict[str, Any]:
    """The topology of a variant, as the experiment's `topology`: what the variant says of it lies over that."""
    return changed_topology(spec.get("topology") or {}, variant.get("topology") or {})


def changed_topology(chosen: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """What a variant says of a topology, its `own`, over what the experiment says."""
    overrides = dict(chosen.get("overrides") or {})
    for key, value in (own.get("overrides") or {}).items():
        both = isinstance(value, Mapping) and isinstance(overrides.get(key), Mapping)
        overrides[key] = {**overrides[key], **value} if both else value
    parameters = {**(chosen.get("parameters") or {}), **(own.get("parameters") or {})}
    name = chosen.get("flux") or chosen.get("name", "")
    return {"name": name, "parameters": parameters, "overrides": overrides}


def watch_s(claim: Claim, spec: ExperimentSpec) -> tuple[float, float]:
    """Floor and ceiling of what is watched after the claim's event, in s; infinite where the record does not say."""
    place = place_of(claim)
    following = spec.events[place + 1].at if place + 1 < len(spec.events) else "steady"
    if isinstance(following, float):
        return following, following
    return spec.durations.after_floor_s, spec.durations.horizon_s


def place_of(claim: Claim) -> int:
    """Of `e1`: 0."""
    return int(claim.event[1:]) - 1
