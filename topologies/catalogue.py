"""The topologies that ship: what they look like, and the Flux YAML to submit them with.

Each is one template in `flux/`, plain Flux YAML in which a value may be `${parameter}`; the parameters' defaults stand
in its `config: barograph.parameters`. The Storm settings that all share are in `storm.yaml`, under each one's own.
To add one, add a file there. Errors: topologies/errors.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from topologies import rendering, shape
from topologies.errors import BadOverride, BrokenTemplate, JarMissing, TopologyError, UnknownTopology
from topologies.shape import PARAMETERS, Component, Edge, Scalar, Topology

__all__ = ["Component", "Edge", "Topology", "TopologyError", "jar", "names", "read", "read_flux", "render"]

_HERE = Path(__file__).parent
_FLUX = _HERE / "flux"
_SHARED = _HERE / "storm.yaml"


def names() -> tuple[str, ...]:
    """Names of all topologies, sorted."""
    return tuple(sorted(path.stem for path in _FLUX.glob("*.yaml")))


def read(name: str) -> Topology:
    """The topology as its template declares it. Raises UnknownTopology, BrokenTemplate."""
    return shape.topology(name, _template(name))


def render(
    name: str, parameters: Mapping[str, Scalar] | None = None, overrides: Mapping[str, Any] | None = None
) -> str:
    """Plain Flux YAML to submit; `read_flux` gives its shape.

    `overrides`: `workers` (int), `executors` and `tasks` (component → int), `config` (key → value).
    Raises UnknownTopology, UnknownParameter, BadParameter, BadOverride.
    """
    template = _template(name)
    values = rendering.values(name, template["config"][PARAMETERS], parameters or {})
    flux = rendering.substitute(template, values)
    flux["config"][PARAMETERS] = values
    rendering.override(name, flux, overrides or {})
    shape.topology(name, flux, refused=BadOverride)
    return yaml.safe_dump(flux, sort_keys=False, width=120)


def read_flux(text: str) -> Topology:
    """The topology that rendered Flux YAML describes. Raises BrokenTemplate."""
    flux = yaml.safe_load(text)
    return shape.topology(flux["name"], flux)


def jar() -> Path:
    """The built jar with the components. Raises JarMissing."""
    path = _HERE / "target" / "barograph-topologies.jar"
    if not path.is_file():
        raise JarMissing(f"{path} is missing; build it with: mvn -q -f {_HERE / 'pom.xml'} -DskipTests package")
    return path


def _template(name: str) -> dict[str, Any]:
    if name not in names():
        raise UnknownTopology(
            f"topology {name!r} does not exist; there are {', '.join(names())} (one file each in topologies/flux)"
        )
    template = _yaml(_FLUX / f"{name}.yaml")
    own = template.get("config")
    if not isinstance(own, dict) or not isinstance(own.get(PARAMETERS), dict):
        raise BrokenTemplate(
            f"topologies/flux/{name}.yaml: config: {PARAMETERS} is missing or not a mapping; state the defaults"
        )
    return {**template, "config": {**_yaml(_SHARED), **own}}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise BrokenTemplate(f"{path}: cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise BrokenTemplate(f"{path}: {content!r} is not a mapping")
    return content
