"""Read YAML into values: one way to read it, and one text for errors, with file, field, value and what is allowed.

A model is a frozen dataclass whose fields carry pydantic's constraints (or a `Strict`); its fields are the file's keys.
Numbers have `strict=True`, otherwise pydantic would accept "3" for 3. Where a list may hold several kinds of things,
each has a `kind: Literal[…]` to distinguish it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from barograph.errors import ExperimentError
from topologies import yaml_text

Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
KIND = "kind"


def check_path(text: str) -> str:
    path = Path(text)
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise ValueError("a path below the home of a user of this box") from error
    if "\0" in text or any(len(part.encode()) > MOST_NAME_BYTES for part in path.parts):
        raise ValueError(f"a path without the character 0, and of names of at most {MOST_NAME_BYTES} bytes")
    return text


MOST_NAME_BYTES = 255
PathText = Annotated[Text, AfterValidator(check_path)]


CLOSED = ConfigDict(extra="forbid", allow_inf_nan=False)
"""`__pydantic_config__` of the outermost dataclass; those in its fields inherit it."""


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Model = TypeVar("Model")
MOST_VALUES = 20_000  # in a file; the largest that ships has some hundred
FREE_FORM = "config"  # its keys are Storm's, which contain dots
SHOWN_CHARACTERS = 200  # of a wrong value in a message


def read_yaml(path: Path) -> Any:
    """Return the file's content as JSON data. ExperimentError where it is not YAML, too large, or not such data."""
    try:
        data = yaml_text.load(path.read_text(encoding="utf-8"))
        if _count(data, {}) > MOST_VALUES:
            raise ExperimentError(f"{path.name} has more than {MOST_VALUES} values, with those that its aliases repeat")
        problem = no_json(data)
    except RecursionError as error:
        raise ExperimentError(f"{path.name}: lists and mappings stand in each other too deep; use fewer") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date, a number or a character that does not exist
        detail = " ".join(str(error).split())
        raise ExperimentError(f"{path.name} is not YAML: {detail}; mend the file at that place") from error
    if problem:
        raise ExperimentError(f"{path.name}: {problem}")
    return data


def no_json(data: Any, where: str = "it") -> str:
    """Return what in the data no record could keep (a date, bytes, not a number), with a remedy; or nothing."""
    if isinstance(data, dict):
        if keys := [key for key in data if not isinstance(key, str)]:
            return f"{where} has the key {_shown(keys[0])}; allowed: text; put it in quotes"
        return next(filter(None, (no_json(each, key) for key, each in data.items())), "")
    if isinstance(data, list):
        return next(filter(None, (no_json(each, where) for each in data)), "")
    if data is None or isinstance(data, bool | int | str) or (isinstance(data, float) and math.isfinite(data)):
        return ""
    return f"{where} is {_shown(data)}; allowed: text, finite numbers, true and false, lists and mappings of these"


def _count(data: Any, known: dict[int, int]) -> int:
    """Count the values, each as often as an alias repeats it; too many for one that contains itself."""
    if not isinstance(data, dict | list):
        return 1
    if id(data) not in known:
        known[id(data)] = MOST_VALUES + 1
        known[id(data)] = 1 + sum(_count(each, known) for each in (data.values() if isinstance(data, dict) else data))
    return known[id(data)]


def validated(model: type[Model], data: Any, *, source: str, **given: Any) -> Model:
    """Validate data; `given` are fields that are not from the file. ExperimentError lists every wrong field."""
    shape: Any = model
    keys = [key for key in _keys(shape) if key not in given]
    if not isinstance(data, Mapping):
        raise ExperimentError(f"{source}: holds {type(data).__name__}, not a mapping; keys are {', '.join(keys)}")
    wrong = [_unknown_key(key, key, keys) for key in given if key in data]
    try:
        value: Model = adapter(shape).validate_python({**data, **given})
    except ValidationError as error:
        wrong += [_wrong_field(model, detail, given) for detail in _causes(error.errors())]
        raise ExperimentError(f"{source}: {'; '.join(wrong)}") from error
    if wrong:
        raise ExperimentError(f"{source}: {'; '.join(wrong)}")
    return value


@cache
def adapter(model: Any) -> TypeAdapter[Any]:
    """Return pydantic's reader and writer of the model, made once: for an experiment that takes some 0.1 s."""
    return TypeAdapter(model)


def _causes(details: Sequence[Any]) -> list[Any]:
    """Drop pydantic's "too short" for a list with wrong items."""
    return [
        detail
        for detail in details
        if detail["type"] != "too_short"
        or not any(other["loc"][: len(detail["loc"])] == detail["loc"] for other in details if other is not detail)
    ]


def _wrong_field(model: type, detail: Any, given: Collection[str]) -> str:
    def keys(models: Iterable[type]) -> list[str]:
        return [key for each in models for key in _keys(each) if each is not model or key not in given]

    *above, last = detail["loc"]
    where, models = _place_and_models(model, detail["loc"])
    if detail["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return _unknown_key(where, str(last), keys(models))
    if detail["type"] == "missing":
        return f"{where} is missing; keys here: {', '.join(keys(_place_and_models(model, above)[1]))}"
    if detail["type"] == "union_tag_not_found":
        return f"{where}.{KIND} is missing; allowed: {_kinds(models)}"
    if detail["type"] == "union_tag_invalid":
        return f"{where}.{KIND} is {detail['ctx']['tag']!r}; allowed: {_kinds(models)}"
    if detail["type"] in ("model_type", "dataclass_type"):
        return f"{where} is {_shown(detail['input'])}; allowed: a mapping; keys are {', '.join(keys(models))}"
    allowed = detail["msg"].removeprefix("Value error, ")
    allowed = f"{allowed[0].lower()}{allowed[1:]}".replace("tuple", "list")
    return f"{where} is {_shown(detail['input'])}; allowed: {allowed}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _unknown_key(where: str, key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown key {where}; known here: {', '.join(known)}{hint}"


def _place_and_models(model: type, location: Iterable[Any]) -> tuple[str, list[type]]:
    """Return a place as the file has it, and the models that may be there, or contain it. Pydantic also names the
    branch of a union that it took; the file has no such key."""
    models, place = [model], []
    for part in location:
        types = [keys[part] for each in models if part in (keys := _keys(each))]
        branch = [each for each in models if part in _kind(each)]
        if types:
            models = _models_in(types[0]) or models
        elif branch:
            models = branch
        if types or not (
            branch or (isinstance(part, str) and (part.startswith(("literal[", "constrained-")) or part == "float"))
        ):
            place.append(str(part))
    return ".".join(place), models


def _kind(model: type) -> tuple[Any, ...]:
    return typing.get_args(_keys(model).get(KIND))


def _kinds(models: Sequence[type]) -> str:
    return ", ".join(repr(kind) for each in models for kind in _kind(each))


def _models_in(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        return [annotation]
    return [each for part in typing.get_args(annotation) for each in _models_in(part)]


@cache
def _keys(model: Any) -> dict[str, Any]:
    """Return the keys of the file with the types of their values; `kind` comes first."""
    if issubclass(model, BaseModel):
        types = {name: each.annotation for name, each in model.model_fields.items()}
    else:
        hints = typing.get_type_hints(model, include_extras=True)
        types = {_key(each.name, hints[each.name]): hints[each.name] for each in dataclasses.fields(model)}
    return dict(sorted(types.items(), key=lambda pair: pair[0] != KIND))


def _key(name: str, annotation: Any) -> str:
    """Return the key that users write for a field: the first of its aliases, if it has any."""
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, FieldInfo) and isinstance(each.validation_alias, AliasChoices):
            return str(each.validation_alias.choices[0])
    return name


def put_at(data: Any, path: str, value: Any, wrong: str) -> None:
    """Put a value at a path: keys, places or names in lists, with dots between them. Raises ExperimentError, which
    begins with `wrong`, where the data have no such place."""
    node, rest, where = data, path.split("."), ""
    while rest:
        key, length = _next_key(node, rest, wrong, where or "the file")
        if length == len(rest):
            node[key] = value
            return
        if isinstance(node, dict) and node.get(key) is None:
            node[key] = {}
        where = f"{where}." * bool(where) + ".".join(rest[:length])
        node, rest = node[key], rest[length:]


def _next_key(node: Any, rest: Sequence[str], wrong: str, where: str) -> tuple[Any, int]:
    """Return the next key or place of the path, and the number of its parts."""
    if isinstance(node, list):
        names = [each.get("name") if isinstance(each, Mapping) else None for each in node]
        if rest[0] in names:
            return names.index(rest[0]), 1
        if rest[0].isdecimal() and int(rest[0]) < len(node):
            return int(rest[0]), 1
        texts = [name for name in names if name]
        names_text = f"the names {', '.join(texts)}, or " if texts else ""
        raise ExperimentError(
            f"{wrong} {where} has no {rest[0]!r}; allowed: {names_text}places from 0 to {len(node) - 1}"
        )
    if not isinstance(node, dict):
        raise ExperimentError(f"{wrong} {where} is {node!r}, which has no fields; allowed: {where}")
    for length in range(len(rest), 0, -1):
        if (key := ".".join(rest[:length])) in node:
            return key, length
    return (".".join(rest), len(rest)) if where.rpartition(".")[2] == FREE_FORM else (rest[0], 1)
