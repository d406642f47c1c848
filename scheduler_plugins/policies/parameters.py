"""The checks of every policy's frozen dataclass of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType, NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

Bounds = tuple[float, float]  # both allowed


def check_parameters(parameters: Any, bounds: Mapping[str, Bounds] = MappingProxyType({})) -> None:
    """Check choices (`Literal`), flags, numbers within their `bounds` or above 0, and settings by name (`Mapping`).

    Raises ValueError naming the field, its value, what is allowed.
    """
    hints = get_type_hints(type(parameters))
    for field in fields(parameters):
        value, hint = getattr(parameters, field.name), hints[field.name]
        limits = bounds.get(field.name)
        problem = _within(value, hint, limits) if limits else _what_is_allowed(value, hint)
        if problem:
            raise ValueError(f"{field.name} is {value!r}; {problem}")


def check_whole_number(name: str, value: object, least: int, most: int) -> None:
    """Raise ValueError naming the field, its value, what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; allowed is a whole number from {least} to {most}")


def _within(value: Any, hint: Any, bounds: Bounds) -> str:
    """Return the same as `_what_is_allowed`; None is allowed where the hint has it."""
    may_be_none = NoneType in get_args(hint)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (value is None and may_be_none) or (number and bounds[0] <= value <= bounds[1]):
        return ""
    return f"allowed is {'null, or ' if may_be_none else ''}a number from {bounds[0]:g} to {bounds[1]:g}"


def _what_is_allowed(value: Any, hint: Any) -> str:
    """Return the allowed values in place of `value`; empty where it is allowed or of an unknown kind."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return "" if value in choices else f"allowed are {', '.join(choices)}"
    if hint is bool:
        return "" if isinstance(value, bool) else "allowed are true and false"
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if number and value > 0 else "allowed is a number above 0"
    if get_origin(hint) is Mapping:
        is_named = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        return "" if is_named else "allowed are Storm's settings by name"
    return ""
