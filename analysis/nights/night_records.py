"""Nights on record: the files of one night, the history of a suite, and its calendar.

A night is one JSON file below `<folder>/nights`, written once and never changed. It is read strictly: an unknown key
or a wrong type is an error. An unreadable file is named and left out; the rest of the history counts.
The calendar has one cell a night on record, and one for each night that should have been.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from analysis.errors import NightExists, NightFormError

VERSION = 1
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
# The id is the name of the night's file and page.
Id = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z._-]{0,99}$")]
Date = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]


@dataclass(frozen=True)
class Values:
    """A metric's value of each repetition that got there; `horizons`: how long each of the others was watched.

    `unsteady`: in how many repetitions a side that they rest on was not steady; None: they rest on none, or were not
    tested. `error`: the possible measurement error of a value; None: unknown. `of_latency`: a utility
    that counts the tuples that have a latency.
    """

    __pydantic_config__ = STRICT
    values: tuple[float, ...]
    horizons: tuple[float, ...] = ()
    unsteady: Annotated[int, Field(ge=0)] | None = None
    error: Annotated[float, Field(ge=0)] | None = 0.0
    of_latency: bool = False

    @property
    def runs(self) -> int:
        return len(self.values) + len(self.horizons)

    def __post_init__(self) -> None:
        if (self.unsteady or 0) > self.runs:
            raise ValueError(f"{self.unsteady} not steady of {self.runs} values")


Measurements = Mapping[Name, Mapping[Name, Mapping[Name, Values]]]  # variant -> metric -> event -> values


@dataclass(frozen=True)
class ClaimRow:
    """A row of the ledger that night; further keys of a ledger row may stand beside these. `v`: version of the ledger:
    verdicts of two versions are by two rules. `runs`: of the variant with the fewest; 0: there was no run for it.
    `indication`: whether the verdict is only one."""

    __pydantic_config__ = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)
    id: Name
    verdict: Name
    v: int = 1
    part: str = ""
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    direction: str | None = None
    runs: int = 0
    indication: bool = False
    statement: str = ""
    stated_text: str = ""
    measured_text: str = ""
    interval_text: str = ""

    @property
    def name(self) -> str:
        return f"{self.id}/{self.part}" if self.part else self.id


@dataclass(frozen=True)
class ExperimentNight:
    """An experiment of the suite; `reason` says why if its status is not `complete`.

    `machine`: fingerprint for comparing its own numbers, instead of the night's: another experiment of
    the suite must not begin a new segment of this one. `failed`: by variant, how many runs the system under test
    failed.
    """

    __pydantic_config__ = STRICT
    experiment: Name
    status: Name
    series: str = ""
    reason: str = ""
    variants: Measurements = field(default_factory=dict)
    claims: tuple[ClaimRow, ...] = ()
    machine: str = ""
    failed: Mapping[Name, Annotated[int, Field(ge=0)]] = field(default_factory=dict)


@dataclass(frozen=True)
class NightRecord:
    """An execution of a suite. `machine`: nights are compared only if it is equal. `commit_s`: time of the commit."""

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
        return next((each for each in self.experiments if each.experiment == experiment), None)


@cache
def _adapter() -> TypeAdapter[NightRecord]:
    return TypeAdapter(NightRecord)


def parse_night(text: str | bytes, source: str) -> NightRecord:
    """Return a night from its JSON; NightFormError names the source, the field, its value and what is allowed."""
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        try:
            value = json.loads(text)
        except ValueError as fault:
            raise NightFormError(f"{source}: is not whole JSON ({fault})") from error
        version = value.get("v") if isinstance(value, dict) else None
        if version != VERSION:
            is_newer = isinstance(version, int) and version > VERSION
            reason = "a newer Barograph wrote it" if is_newer else "it is no night of ours"
            raise NightFormError(
                f"{source}: `v` is {version!r}, but {VERSION} is what is read here: {reason}"
            ) from error
        first, rest = error.errors()[0], error.error_count() - 1
        place = ".".join(str(part) for part in first["loc"])
        fields = ", ".join(NightRecord.__dataclass_fields__)
        hint = f"; a night has {fields}" if first["type"] == "unexpected_keyword_argument" and "." not in place else ""
        more = f"; and {rest} more" if rest else ""
        raise NightFormError(f"{source}: {place}: {first['msg']} (found {first['input']!r:.80}){hint}{more}") from error


@dataclass(frozen=True)
class DamagedFile:
    """A file among the nights that is no night."""

    file: str
    why: str


@dataclass(frozen=True)
class History:
    """Nights in the order in which they were appended."""

    suite: str
    nights: tuple[NightRecord, ...]
    damaged: tuple[DamagedFile, ...] = ()


def append_night(folder: Path | str, night: Mapping[str, Any]) -> Path:
    """Put a night on record and return its file. `night` is the record without `sequence`, which is counted here.

    Raises NightFormError (harness) if it violates its form, NightExists (capacity) if its id is taken.
    """
    history = read_history(folder)
    sequence_before = len(history.nights) + len(history.damaged)
    sequence = max([sequence_before, *(one.sequence for one in history.nights)]) + 1
    record = parse_night(json.dumps({**night, "sequence": sequence}), f"the night for {folder}")
    path = Path(folder) / "nights" / f"{record.id}.json"
    # Whole or not at all, and never over another night: a link fails if the name is taken.
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_adapter().dump_json(record, indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        path.hardlink_to(name)
    except FileExistsError as error:
        raise NightExists(
            f"{path} is there: night {path.stem} is on record already, and a night is never overwritten. "
            "Two nights at once, or a clock that was set back? Run it again for another id, or move the file away."
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def read_history(folder: Path | str) -> History:
    """Return every readable night, in order; the others are listed in `damaged`."""
    nights: list[NightRecord] = []
    faults = []
    for path in sorted(Path(folder).glob("nights/[!.]*.json")):
        try:
            night = parse_night(path.read_bytes(), path.name)
            if night.id != path.stem:
                raise NightFormError(f"{path.name}: holds the night {night.id}; a copy does not count twice")
            nights.append(night)
        except NightFormError as error:
            faults.append(DamagedFile(path.name, str(error).removeprefix(f"{path.name}: ")))
        except OSError as error:
            faults.append(DamagedFile(path.name, f"cannot be read: {error.strerror}"))
    nights.sort(key=lambda night: (night.sequence, night.started_s))
    return History(Path(folder).absolute().name, tuple(nights), tuple(faults))


def clock_jumps(history: History) -> list[str]:
    """Return nights that begin before the one appended before them ended, or end before they began."""
    jumps = [
        f"night {night.id} ends {night.started_s - night.ended_s:.0f} s before it begins: its clock was set back"
        for night in history.nights
        if night.ended_s < night.started_s
    ]
    for before, after in pairwise(history.nights):
        if after.started_s < before.ended_s:
            minutes = (before.ended_s - after.started_s) / 60
            jumps.append(
                f"night {after.id} begins {minutes:.0f} min before the end of {before.id}, which was appended before "
                "it: a clock jumped, or two nights ran at once. They are kept in the order of appending"
            )
    return jumps


MISSING_NIGHT = "missing"
LONGEST_GAP = 60  # missing nights that are drawn one by one


@dataclass(frozen=True)
class CalendarCell:
    """A cell; `night`: its index in the history, None without one. `other_machines`: not those of the night before."""

    day: str
    status: str
    words: str
    night: int | None = None
    other_machines: bool = False


def calendar_cells(nights: Sequence[NightRecord]) -> tuple[CalendarCell, ...]:
    """Return nights in their order; between two that are further apart than usual, the missing ones."""
    days = [date.fromisoformat(night.night) for night in nights]
    gaps = [(after - before).days for before, after in pairwise(days) if after > before]
    usual = max(1, round(median(gaps))) if gaps else 1
    cells = []
    for i, night in enumerate(nights):
        if i:
            number = round((days[i] - days[i - 1]).days / usual) - 1
            dates = [days[i - 1] + timedelta(days=usual * place) for place in range(1, number + 1)][-LONGEST_GAP:]
            cells += [CalendarCell(day.isoformat(), MISSING_NIGHT, "no night on record") for day in dates]
        failed = [f"{each.experiment}: {each.status}" for each in night.experiments if each.status != "complete"]
        words = "; ".join(failed) or f"all {len(night.experiments)} experiments"
        other = i > 0 and night.machine != nights[i - 1].machine
        cells.append(CalendarCell(night.night, night.status, words, i, other))
    return tuple(cells)
