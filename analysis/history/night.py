"""What one night left behind, as one JSON file has it. Read strictly: an unknown key, or a wrong type, is an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from analysis.errors import NightFormError

VERSION = 1
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
# The id is the name of the night's file and page.
Id = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,99}$")]
Date = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]


@dataclass(frozen=True)
class Values:
    """A metric's value of each repetition; `censored`: how many are only a horizon that was reached."""

    __pydantic_config__ = STRICT
    values: tuple[float, ...]
    censored: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        if self.censored > len(self.values):
            raise ValueError(f"{self.censored} censored of {len(self.values)} values")


Measured = Mapping[Name, Mapping[Name, Mapping[Name, Values]]]  # variant -> metric -> event -> values


@dataclass(frozen=True)
class ClaimRow:
    """Of the ledger that night; further keys of a ledger row may stand beside these."""

    __pydantic_config__ = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)
    id: Name
    verdict: Name
    part: str = ""
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    direction: str | None = None
    statement: str = ""
    stated_text: str = ""
    measured_text: str = ""
    interval_text: str = ""

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id


@dataclass(frozen=True)
class ExperimentNight:
    """One experiment of the suite; `reason` says why where its status is not `complete`.

    `machine`: fingerprint of what its own numbers need to be compared, instead of the night's: another experiment of
    the suite must not begin a new segment of this one.
    """

    __pydantic_config__ = STRICT
    experiment: Name
    status: Name
    series: str = ""
    reason: str = ""
    variants: Measured = field(default_factory=dict)
    claims: tuple[ClaimRow, ...] = ()
    machine: str = ""


@dataclass(frozen=True)
class Night:
    """One execution of a suite. `machine`: nights are compared only where it is equal. `commit_s`: when it was made."""

    __pydantic_config__ = STRICT
    v: Literal[1]
    night: Date
    id: Id
    suite: Name
    testbed: Name
    commit: str
    commit_s: float | None
    dirty: bool
    started_s: float
    ended_s: float
    machine: Name
    machine_facts: Mapping[str, Any]
    status: Literal["complete", "partial", "failed"]
    experiments: tuple[ExperimentNight, ...]
    sequence: Annotated[int, Field(ge=1)]

    def of(self, experiment: str) -> ExperimentNight | None:
        return next((found for found in self.experiments if found.experiment == experiment), None)


@cache
def _adapter() -> TypeAdapter[Night]:
    return TypeAdapter(Night)


def parse(text: str | bytes, source: str) -> Night:
    """A night from its JSON; NightFormError names the source, the field, what is there and what is wanted."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        _check_version(text, source)
        raise NightFormError(f"{source}: {_told(error)}") from error


def _check_version(text: str | bytes, source: str) -> None:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise NightFormError(f"{source}: is not whole JSON ({error})") from error
    found = value.get("v") if isinstance(value, dict) else None
    if found != VERSION:
        newer = isinstance(found, int) and found > VERSION
        why = "a newer Barograph wrote it" if newer else "it is no night of ours"
        raise NightFormError(f"{source}: `v` is {found!r}, but {VERSION} is what is read here: {why}")


def _told(error: ValidationError) -> str:
    """The first of the errors, and how many more there are."""
    first, more = error.errors()[0], error.error_count() - 1
    place = ".".join(str(part) for part in first["loc"])
    known = ", ".join(Night.__dataclass_fields__)
    hint = f"; a night has {known}" if first["type"] == "unexpected_keyword_argument" and "." not in place else ""
    return f"{place}: {first['msg']} (found {first['input']!r:.80}){hint}" + (f"; and {more} more" if more else "")


def as_json(night: Night) -> bytes:
    return _adapter().dump_json(night, indent=1) + b"\n"
