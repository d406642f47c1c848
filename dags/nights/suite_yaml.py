"""The edge: YAML text to a Suite, with errors that name the file, the field, the value and what is allowed."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from dags.errors import ExperimentError
from dags.nights import suite as values
from dags.yaml_files import Strict, Word, validated

CRON = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/([1-9]\d*))?")
Words = Annotated[str, StringConstraints(min_length=1)]


class _Choice(Strict):
    experiment: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*/[a-z][a-z0-9_]*$")]
    policies: Annotated[list[Word], Field(min_length=1)] | None = None
    repetitions: Annotated[int, Field(ge=1, le=1000)] | None = None


class _Accepted(Strict):
    series: Words
    night: Annotated[str, StringConstraints(pattern=r"^(\d{4}-\d{2}-\d{2}|\d{8}-\d{6})$")]
    why: Words


class _Renames(Strict):
    experiments: dict[Words, Words] = Field(default_factory=dict)
    variants: dict[Words, Words] = Field(default_factory=dict)
    metrics: dict[Words, Words] = Field(default_factory=dict)


class _Suite(Strict):
    title: Words
    schedule: str | None
    testbed: Word
    options: dict[str, Any] = Field(default_factory=dict)
    deadline_hours: Annotated[float, Field(gt=0, le=24)]
    experiments: Annotated[list[_Choice], Field(min_length=1)]
    renames: _Renames = _Renames()
    accepted: list[_Accepted] = Field(default_factory=list)
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
    suite = _freeze(name, validated(_Suite, data, source=source))
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
