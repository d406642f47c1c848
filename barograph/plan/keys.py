"""The keys of an experiment's file, from its dataclasses: the comment behind a field is the meaning of the key."""

from __future__ import annotations

import inspect
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple

from annotated_types import BaseMetadata
from pydantic.types import StringConstraints

from barograph.plan.events import KINDS
from barograph.plan.experiment import (
    Code,
    Durations,
    Experiment,
    MachineCount,
    TestbedChoice,
    Variant,
)
from barograph.plan.topologies import ServiceLevelChoice, TopologyChanges, TopologyChoice

PARTS: Mapping[str, type] = {
    "experiment": Experiment, "topology": TopologyChoice,
    "topology.service_level": ServiceLevelChoice, "testbed": TestbedChoice, "machines": MachineCount,
    "variants": Variant, "variants.code": Code, "variants.topology": TopologyChanges,
    "durations": Durations, **{f"events.{kind}": cls for kind, cls in KINDS.items()},
}  # fmt: skip
SOURCE = cache(inspect.getsource)  # the function reads the whole file for each class
LIMITS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
LENGTHS = {"min_length": "at least", "max_length": "at most"}


class Key(NamedTuple):
    """A key in words; `default` is empty where the key may be omitted without a default."""

    key: str
    type: str
    default: str
    meaning: str


def key_tables() -> dict[str, tuple[str, list[Key]]]:
    """Return the purpose of each part of the file, and its keys."""
    tables = {}
    for title, cls in PARTS.items():
        hints = typing.get_type_hints(cls, include_extras=True)
        rows = [_key(cls, each, hints[each.name]) for each in fields(cls)]
        purpose = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
        tables[title] = (purpose, rows[1:] if cls is Experiment else rows)  # the experiment's name is the path
    return tables


def _key(cls: type, each: Field[Any], hint: Any) -> Key:
    aliases = [getattr(extra, "validation_alias", None) for extra in getattr(hint, "__metadata__", ())]
    name = next((str(alias.choices[0]) for alias in aliases if alias is not None), each.name)
    default = "required"
    if each.default is not MISSING or each.default_factory is not MISSING:
        value = each.default_factory() if each.default_factory is not MISSING else each.default
        default = "" if value in (None, "", (), {}) else str(value)
    return Key(name, _type(hint), default, "which kind of event" if each.name == "kind" else _comment(cls, each.name))


def _type(hint: Any) -> str:
    """Return the type in words of YAML: `number, above 0, at most 1`, `list of …`, `mapping`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        limits = [text for extra in arguments[1:] for text in _limits(extra)]
        return ", ".join([_type(arguments[0]), *limits])
    if origin is typing.Literal:
        return " or ".join(map(str, arguments))
    if origin is tuple:
        hint = arguments[0]
        entry = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
        is_mapping = is_dataclass(entry) or any(is_dataclass(one) for one in typing.get_args(entry))
        return f"list of {'mappings' if is_mapping else _type(hint)}"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if (origin is not None and type(None) in arguments) or origin in (typing.Union, type(int | str)):
        return " or ".join(_type(one) for one in arguments if one is not type(None))
    if is_dataclass(hint):
        return "mapping"
    return {float: "number", int: "whole number", str: "text", bool: "true or false"}.get(hint, "any")


def _limits(extra: Any) -> Iterator[str]:
    if isinstance(extra, StringConstraints):
        if extra.pattern:
            yield str(getattr(extra.pattern, "pattern", extra.pattern))
        return
    for each in [extra] if isinstance(extra, BaseMetadata) else getattr(extra, "metadata", ()):
        for name, word in {**LIMITS, **LENGTHS}.items():
            if getattr(each, name, None) is not None:
                yield f"{word} {getattr(each, name)}" + (" of them" if name in LENGTHS else "")


def _comment(cls: type, name: str) -> str:
    """Return the comment behind the field, in the class that declares it."""
    for declaring in cls.__mro__:
        if is_dataclass(declaring) and name in inspect.get_annotations(declaring):
            source = textwrap.dedent(SOURCE(declaring))
            comment = re.search(rf"^\s+{name}: .*?  # (.+)$", source, re.MULTILINE)
            return comment.group(1) if comment else ""
    return ""
