"""Puts parameters and overrides into a Flux template."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from topologies.errors import BadOverride, BadParameter, BrokenTemplate, UnknownParameter
from topologies.shape import PARAMETERS, WORKERS, Scalar

_CHOICES: Mapping[str, tuple[str, ...]] = {"cost_model": ("none", "sleep", "busy")}
_ABOVE_ZERO = ("rate_per_s",)
_OVERRIDES = ("workers", "tasks", "executors", "config")


def values(name: str, defaults: Mapping[str, Scalar], given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The defaults, overlaid with what was given. Raises UnknownParameter, BadParameter."""
    for key, value in given.items():
        if key not in defaults:
            raise UnknownParameter(
                f"topology {name}: parameter {key!r} is unknown; known are {', '.join(sorted(defaults))}"
            )
        allowed = _refusal(key, value, defaults[key])
        if allowed:
            raise BadParameter(f"topology {name}: parameter {key}: {value!r} is not {allowed}")
    return {**defaults, **given}


def _refusal(key: str, value: Any, default: Scalar) -> str | None:
    """What the value should have been; None if it is. Its kind is its default's, and a whole number is a number too."""
    if key in _CHOICES:
        return None if value in _CHOICES[key] else f"one of {', '.join(_CHOICES[key])}"
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return None if isinstance(value, str) else "text"
    if isinstance(default, int):
        return None if isinstance(value, int) and not isinstance(value, bool) else "a whole number"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "a finite number"
    if key in _ABOVE_ZERO:
        return None if value > 0 else "above 0"
    return None if value >= 0 else "0 or more"


def substitute(node: Any, parameters: Mapping[str, Scalar]) -> Any:
    """Replaces every scalar that is `${name}` by the parameter, keeping the value's type."""
    if isinstance(node, dict):
        return {key: substitute(child, parameters) for key, child in node.items()}
    if isinstance(node, list):
        return [substitute(child, parameters) for child in node]
    if isinstance(node, str) and node.startswith("${") and node.endswith("}"):
        return _parameter(node, parameters)
    return node


def _parameter(placeholder: str, parameters: Mapping[str, Scalar]) -> Scalar:
    key = placeholder[2:-1]
    if key not in parameters:
        raise BrokenTemplate(
            f"topologies/flux: {placeholder} has no default under {PARAMETERS}; "
            f"known are {', '.join(sorted(parameters))}"
        )
    return parameters[key]


def override(name: str, flux: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Changes sizes and configuration in place. Raises BadOverride."""
    for key in overrides:
        if key not in _OVERRIDES:
            raise BadOverride(f"topology {name}: override {key!r} is unknown; known are {', '.join(_OVERRIDES)}")
    flux["config"].update(_mapping(name, "config", overrides))
    if "workers" in overrides:
        flux["config"][WORKERS] = overrides["workers"]
    for word, field in (("tasks", "numTasks"), ("executors", "parallelism")):
        _resize(name, word, field, flux, _mapping(name, word, overrides))


def _resize(name: str, word: str, field: str, flux: dict[str, Any], sizes: Mapping[str, Any]) -> None:
    vertices = {vertex["id"]: vertex for vertex in [*flux["spouts"], *flux["bolts"]]}
    for component, size in sizes.items():
        if component not in vertices:
            raise BadOverride(
                f"topology {name}: {word}: component {component!r} does not exist; there are {', '.join(vertices)}"
            )
        vertices[component][field] = size


def _mapping(name: str, word: str, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    value = overrides.get(word, {})
    if not isinstance(value, Mapping):
        wanted = "keys to values" if word == "config" else "components to whole numbers"
        raise BadOverride(f"topology {name}: {word}: {value!r} does not map {wanted}")
    return value
