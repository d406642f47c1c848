"""The edge: what people write in YAML becomes a model, or an error with file, fields, values and what is allowed.

A model is a `Strict`; where a list may hold several kinds of things, each has a `kind: Literal[…]` to tell it by.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from barograph.errors import ExperimentError

Word = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
KIND = "kind"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=Strict)


def read_yaml(path: Path) -> Any:
    """The file's content as plain data. Raises ExperimentError where it is not YAML."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())
        raise ExperimentError(f"{path.name} is not YAML: {said}; mend the file at that place") from error


def validated(model: type[Model], data: Any, *, source: str) -> Model:
    """Raises ExperimentError listing every wrong field."""
    if not isinstance(data, Mapping):
        raise ExperimentError(f"{source}: holds {type(data).__name__}, not a mapping; keys are {_known_keys(model)}")
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        complaints = "; ".join(_complaint(model, detail) for detail in error.errors())
        raise ExperimentError(f"{source}: {complaints}") from error


def _complaint(model: type[BaseModel], detail: Any) -> str:
    *above, last = detail["loc"]
    where, here = _place_and_models(model, detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = [name for each in here for name in each.model_fields]
        close = difflib.get_close_matches(str(last), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown key {where}; known here: {', '.join(known)}{hint}"
    if detail["type"] == "missing":
        (owner,) = _place_and_models(model, above)[1]
        return f"{where} is missing; keys here: {_known_keys(owner)}"
    if detail["type"] == "union_tag_not_found":
        return f"{where}.{KIND} is missing; allowed: {_kinds(here)}"
    if detail["type"] == "union_tag_invalid":
        return f"{where}.{KIND} is {detail['ctx']['tag']!r}; allowed: {_kinds(here)}"
    allowed = detail["msg"].removeprefix("Value error, ")
    return f"{where} is {detail['input']!r}; allowed: {allowed[0].lower()}{allowed[1:]}"


def _place_and_models(model: type[BaseModel], location: Sequence[Any]) -> tuple[str, list[type[BaseModel]]]:
    """A place as the file has it, and the models that may stand there, or hold what stands there.

    Pydantic also names the branch of a union that it took; the file has no such key.
    """
    here, said = [model], []
    for part in location:
        fields = [each.model_fields[part] for each in here if part in each.model_fields]
        chosen = [each for each in here if part in _kind(each)]
        if fields:
            here = _inner(fields[0].annotation) or here
        elif chosen:
            here = chosen
        if fields or not (chosen or _is_type(part)):
            said.append(str(part))
    return ".".join(said), here


def _is_type(part: Any) -> bool:
    return isinstance(part, str) and (part.startswith(("literal[", "constrained-")) or part == "float")


def _kind(model: type[BaseModel]) -> tuple[Any, ...]:
    return typing.get_args(model.model_fields[KIND].annotation) if KIND in model.model_fields else ()


def _kinds(models: Sequence[type[BaseModel]]) -> str:
    return ", ".join(repr(kind) for each in models for kind in _kind(each))


def _inner(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [each for part in typing.get_args(annotation) for each in _inner(part)]


def _known_keys(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)
