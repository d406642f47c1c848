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
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if limits := bounds.get(field.name):
            may_be_none = NoneType in get_args(hint)
            is_allowed = (value is None and may_be_none) or (number and limits[0] <= value <= limits[1])
            words = f"is {'null, or ' if may_be_none else ''}a number from {limits[0]:g} to {limits[1]:g}"
        elif get_origin(hint) is Literal:
            is_allowed, words = value in get_args(hint), f"are {', '.join(get_args(hint))}"
        elif hint is bool:
            is_allowed, words = isinstance(value, bool), "are true and false"
        elif hint is float:
            is_allowed, words = number and value > 0, "is a number above 0"
        elif get_origin(hint) is Mapping:
            is_allowed = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
            words = "are Storm's settings by name"
        else:
            continue
        if not is_allowed:
            raise ValueError(f"{field.name} is {value!r}; allowed {words}")


def check_whole_number(name: str, value: object, least: int, most: int) -> None:
    """Raise ValueError naming the field, its value, what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}; allowed is a whole number from {least} to {most}")
