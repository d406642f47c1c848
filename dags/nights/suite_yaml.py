"""The edge: YAML text to a Suite, with errors that name the file, the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from dags.errors import ExperimentError
from dags.experiment_yaml import Word
from dags.nights import suite as values

CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?")
Words = Annotated[str, StringConstraints(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class _Choice(_Strict):
    experiment: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*/[a-z][a-z0-9_]*$")]
    policies: Annotated[list[Word], Field(min_length=1)] | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] | None = None


class _Accepted(_Strict):
    series: Words
    night: Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d{2}-\d{2}|\d{8}-\d{6})$")]
    why: Words


class _Renames(_Strict):
    experiments: dict[Words, Words] = {}
    variants: dict[Words, Words] = {}
    metrics: dict[Words, Words] = {}


class _Suite(_Strict):
    title: Words
    schedule: str | None
    testbed: Word
    options: dict[str, Any] = {}
    deadline_hours: Annotated[float, Field(gt=0, le=24)]
    experiments: Annotated[list[_Choice], Field(min_length=1)]
    renames: _Renames = _Renames()
    accepted: list[_Accepted] = []
    minimum_percent: Annotated[float, Field(gt=0, le=1000)] | None = None

    @field_validator("schedule")
    @classmethod
    def _cron(cls, text: str | None) -> str | None:
        if text is not None and (why := wrong_cron(text)):
            raise ValueError(why)
        return text


def wrong_cron(text: str) -> str:
    """What is wrong with five fields of cron, or nothing."""
    fields = text.split()
    if len(fields) != len(CRON):
        return f"five fields ({' '.join(name for name, _, _ in CRON)}), such as '0 2 * * *', or null"
    for said, (name, low, high) in zip(fields, CRON, strict=True):
        if not all(_fits(part, low, high) for part in said.split(",")):
            return f"a {name} of *, {low}-{high}, lists and steps of them; {said!r} is none"
    return ""


def _fits(part: str, low: int, high: int) -> bool:
    found = PART.fullmatch(part)
    if found is None:
        return False
    ends = [int(end) for end in found.groups()[:2] if end is not None]
    return all(low <= end <= high for end in ends) and ends == sorted(ends)


def parse(name: str, data: Any, *, source: str) -> values.Suite:
    """Raises ExperimentError listing every wrong field; experiments and variants must be known."""
    if not isinstance(data, Mapping):
        raise ExperimentError(f"{source}: holds {type(data).__name__}, not a mapping; keys are {_keys(_Suite)}")
    try:
        model = _Suite.model_validate(dict(data))
    except ValidationError as error:
        complaints = "; ".join(_complaint(detail) for detail in error.errors())
        raise ExperimentError(f"{source}: {complaints}") from error
    suite = _freeze(name, model)
    if wrong := _inconsistencies(suite):
        raise ExperimentError(f"{source}: {'; '.join(wrong)}")
    return suite


def _freeze(name: str, model: _Suite) -> values.Suite:
    choices = [
        values.Choice(each.experiment, tuple(each.policies or ()), each.repetitions) for each in model.experiments
    ]
    accepted = tuple(values.Accepted(**each.model_dump()) for each in model.accepted)
    renames = values.Renames(**model.renames.model_dump())
    rest = model.model_dump(exclude={"experiments", "accepted", "renames"})
    return values.Suite(name=name, experiments=tuple(choices), accepted=accepted, renames=renames, **rest)


def _inconsistencies(suite: values.Suite) -> list[str]:
    from inventory import TESTBEDS

    chosen = [choice.experiment for choice in suite.experiments]
    wrong = [
        f"experiments has {name} twice; give it once" for name in sorted({n for n in chosen if chosen.count(n) > 1})
    ]
    if suite.testbed not in TESTBEDS:
        return [*wrong, f"testbed is {suite.testbed!r}; known: {', '.join(TESTBEDS)}"]
    for place, choice in enumerate(suite.experiments):
        try:
            suite.resolved(choice)
        except ExperimentError as error:
            wrong.append(f"experiments.{place}: {error}")
    return wrong


def _complaint(detail: Any) -> str:
    location = [part for part in detail["loc"] if part != "constrained-str"]
    where = ".".join(str(part) for part in location)
    if detail["type"] == "extra_forbidden":
        known = _model_at(location[:-1]).model_fields
        close = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown key {where}; known here: {', '.join(known)}{hint}"
    if detail["type"] == "missing":
        return f"{where} is missing; keys here: {_keys(_model_at(location[:-1]))}"
    allowed = detail["msg"].removeprefix("Value error, ")
    return f"{where} is {detail['input']!r}; allowed: {allowed[0].lower()}{allowed[1:]}"


def _model_at(location: Sequence[Any]) -> type[BaseModel]:
    model: type[BaseModel] = _Suite
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            said = model.model_fields[part].annotation
            inner = (said, *typing.get_args(said))
            model = next((each for each in inner if isinstance(each, type) and issubclass(each, BaseModel)), model)
    return model


def _keys(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)
