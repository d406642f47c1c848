"""Dataclasses as JSON data and back, by the types of their fields.

A field is a scalar, a dataclass, a slot (`m1:6700`), a tuple, or a mapping, whose keys become texts; `Any` stays as it
is. Conversions are built once for each class: a line of a decision log may have very many executors.

Errors: ValueError for data of another shape, with the path of the difference.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from scheduler_plugins.model import Slot
from scheduler_plugins.traffic import Pair, traffic_from_json, traffic_json

Value = TypeVar("Value")
Conversion = Callable[[Any], Any]
TEXT_FORMS: Mapping[Any, tuple[Conversion, Conversion]] = {
    Slot: (str, Slot.parse),
    Mapping[Pair, float]: (traffic_json, traffic_from_json),
}
LISTS, OBJECTS = (list, tuple), (dict,)
KEYS: Mapping[Any, Conversion] = {int: int, str: str}


def to_json(value: Any) -> Any:
    """Convert a dataclass to JSON data."""
    cls: Any = type(value)
    write = _writer(cls)
    return value if write is None else write(value)


def from_json(cls: type[Value], data: Any) -> Value:
    """Make a dataclass of JSON data; unknown keys are ignored. Raises ValueError."""
    hint: Any = cls
    value: Value = _reader(hint)(data)
    return value


@cache
def _writer(hint: Any) -> Conversion | None:
    """Return the conversion to JSON for values of that type; None: no conversion."""
    parts = get_args(hint)
    if hint in TEXT_FORMS:
        return TEXT_FORMS[hint][0]
    if is_dataclass(hint):
        hints = get_type_hints(hint)
        converted = [(each.name, write) for each in fields(hint) if (write := _writer(hints[each.name]))]
        return lambda value: {**vars(value), **{name: write(getattr(value, name)) for name, write in converted}}
    if get_origin(hint) in (Union, types.UnionType) and type(None) in parts:
        write_present = _writer(parts[0])
        return write_present and (lambda value: None if value is None else write_present(value))
    if get_origin(hint) is tuple:
        write_item = _writer(parts[0])
        return list if write_item is None else lambda value: [write_item(each) for each in value]
    if get_origin(hint) is Mapping:
        write_value = _writer(parts[1])
        if write_value is None:
            return dict
        return lambda value: {str(key): write_value(each) for key, each in value.items()}
    return None


def _scalars(hint: Any) -> frozenset[type]:
    """Return the types of values that are read as they are; none for converted ones."""
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_scalars(part) for part in get_args(hint)]
        return frozenset().union(*parts) if all(parts) else frozenset()
    if get_origin(hint) is Literal:
        return frozenset(map(type, get_args(hint)))
    return frozenset({int, float}) if hint is float else frozenset({hint} & {int, bool, str, type(None)})


@cache
def _reader(hint: Any) -> Conversion:
    """Return the conversion from JSON for values of that type."""
    parts, scalars = get_args(hint), _scalars(hint)
    if scalars:
        return lambda data: _checked(data, scalars)
    if hint in TEXT_FORMS:
        return TEXT_FORMS[hint][1]
    if is_dataclass(hint):
        return _dataclass_reader(hint)
    if get_origin(hint) in (Union, types.UnionType):
        read_item = _reader(parts[0])
        return lambda data: None if data is None else read_item(data)
    if get_origin(hint) is tuple:
        read_item, items = _reader(parts[0]), _scalars(parts[0])
        return lambda data: (
            tuple(data)
            if items.issuperset(map(type, _checked(data, LISTS)))
            else tuple(read_item(each) for each in data)
        )
    if get_origin(hint) is Mapping:
        key, read_item = KEYS[parts[0]], _reader(parts[1])
        return lambda data: {key(name): read_item(each) for name, each in _checked(data, OBJECTS).items()}
    return lambda data: data  # Any


def _dataclass_reader(cls: Any) -> Conversion:
    hints = get_type_hints(cls)
    readers = [(each.name, _scalars(hints[each.name]), _reader(hints[each.name])) for each in fields(cls)]
    required_names = [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]

    def read(data: Any) -> Any:
        values = {}
        for name in required_names:
            if name not in _checked(data, OBJECTS):
                raise ValueError(f"{cls.__name__} has no {name}")
        for name, scalars, read_field in readers:
            if name in data:
                value = values[name] = data[name]
                if type(value) not in scalars:
                    try:
                        values[name] = read_field(value)
                    except (ValueError, TypeError) as error:
                        raise ValueError(f"{cls.__name__}.{name}: {error}") from error
        return cls(**values)

    return read


def _checked(data: Any, allowed: Collection[type]) -> Any:
    if type(data) not in allowed:
        names = " or ".join(sorted(each.__name__ for each in allowed))
        raise ValueError(f"it is {data!r:.80}; allowed is {names}")
    return data
