"""The input rate changes, at once or on a course; the policy is not asked."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from barograph import ROOT
from barograph.plan.events import courses
from barograph.plan.events.kind import (
    EVENT_LINE,
    HORIZON_FIELD,
    LONGEST_S,
    EventTimes,
    PlannedEvent,
    PlanSoFar,
    RunActions,
    Seconds,
    how_long,
)
from barograph.yaml_files import PathText, Text, Word
from scheduler_plugins.service.emission_records import LEAST_FACTOR, MOST_FACTOR

Factor = Annotated[float, Field(strict=True, ge=LEAST_FACTOR, le=MOST_FACTOR)]
Column = Text | Annotated[int, Field(strict=True, ge=1)]
Length = Annotated[float, Field(strict=True, gt=0, le=LONGEST_S)]
Period = Annotated[float, Field(strict=True, ge=2 * courses.STEP_S, le=LONGEST_S)]
BEGIN_S = 10.0  # until the zero of a course, at most: workers hear of it before


@dataclass(frozen=True, kw_only=True)
class RateEvent(PlannedEvent):
    """A change of the input rate, the base of the kinds below. Each defines its course of factors."""

    topology: Word | None = None  # its name in Storm; without it: every one
    source: Text | None = None  # a spout component; without it: every one

    phases: ClassVar[Mapping[str, str]] = {"rate": "the input rate changes"}
    line: ClassVar[str] = EVENT_LINE  # in events.jsonl, with all fields but these:
    not_in_line: ClassVar[tuple[str, ...]] = ("at", "kind")

    @property
    def is_course(self) -> bool:
        """Return whether it must be announced before it begins; else workers follow it on arrival."""
        return True

    @property
    def longest_s(self) -> float:
        return BEGIN_S if self.is_course else 0.0

    @property
    def rate(self) -> str:
        """Return a text such as `the input rate of spout_1 in star`."""
        where = f" in {self.topology}" if self.topology else ""
        return "the input rate" + (f" of {self.source}" if self.source else "") + where

    @abstractmethod
    def course(self, run: RunActions) -> courses.Course:
        """Return the course, from the event's zero on."""

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        """Yield errors of names."""
        field, names = f"events.{plan.place}", plan.topologies
        if self.topology is not None and names and self.topology not in names:
            yield f"{field}.topology is {self.topology!r}; the experiment has {', '.join(names)}"
        if self.source is not None and self.topology is None and len(names) > 1:
            yield f"{field}.source is {self.source!r} without topology; say which of {', '.join(names)} it is of"

    def perform(self, run: RunActions) -> EventTimes:
        names = [each.name for each in fields(self) if each.name not in self.not_in_line]
        facts: dict[str, Any] = {name: getattr(self, name) for name in names}
        course = self.course(run)
        with run.phase("rate", expected_s=4):
            begin_s = run.begin_course(course, self.topology, self.source)
            with run.zero(self.line, at_s=begin_s, **facts) as zero_s:
                return EventTimes(zero_s, zero_s)


def end_errors(for_s: float | None, plan: PlanSoFar) -> Iterator[str]:
    """Yield an error for a course that outlasts the run."""
    if for_s is not None and for_s > plan.rest_s:
        subject = f"events.{plan.place}.for_s is {for_s:g}; allowed: at most {plan.rest_s:g}"
        yield f"{subject}: it would not be over when the run is"


@dataclass(frozen=True)
class RateChange(RateEvent):
    """The input rate changes, at once or on a course; the policy is not asked."""

    factor: Factor  # of the rate that the topology was submitted with
    over_s: Seconds | None = None  # evenly from the rate in force to that one; without it: at once
    kind: Literal["rate"] = "rate"

    line: ClassVar[str] = "rate_changed"

    @property
    def is_course(self) -> bool:
        return self.over_s is not None or self.topology is not None or self.source is not None

    def words(self) -> str:
        duration = "" if self.over_s is None else f" over {self.over_s:g} s"
        return f"{self.rate} becomes {self.factor:g} times that of the submission{duration}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        yield from super().errors(plan)
        if self.over_s is not None and plan.limit_field == HORIZON_FIELD and self.over_s > plan.limit_s:
            subject = f"events.{plan.place}.over_s is {self.over_s:g}; allowed: at most {plan.limit_field}"
            yield f"{subject} ({plan.limit_s:g}): it would not be over when the run is"

    def course(self, run: RunActions) -> courses.Course:  # noqa: ARG002 - the same in every run
        return lambda before: courses.ramp(before, self.factor, self.over_s)

    def perform(self, run: RunActions) -> EventTimes:
        if self.is_course:
            return super().perform(run)
        with run.phase("rate"), run.zero(self.line, factor=self.factor) as zero_s:
            run.change_rate(self.factor)
        return EventTimes(zero_s, zero_s)


@dataclass(frozen=True, kw_only=True)
class Sine(RateEvent):
    """The input rate goes up and down evenly."""

    mean: Factor  # times the rate that the topology was submitted with
    amplitude: Annotated[float, Field(strict=True, gt=0, le=MOST_FACTOR)]  # of it, at most the mean
    period_s: Period  # from one highest rate to the next
    for_s: Seconds | None = None  # then the rate is the mean; without it: until the run ends, or another course begins
    phase: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.0  # part of a period that is over at the zero
    kind: Literal["sine"] = "sine"

    def words(self) -> str:
        height = f"{self.mean:g} ± {self.amplitude:g} every {self.period_s:g} s"
        return f"a sine of {self.rate}, {height}, {how_long(self.for_s)}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        yield from super().errors(plan)
        yield from end_errors(self.for_s, plan)
        field = f"events.{plan.place}"
        if self.amplitude > self.mean:
            yield f"{field}.amplitude is {self.amplitude:g}; allowed: at most mean ({self.mean:g}), no rate is below 0"
        if self.mean + self.amplitude > MOST_FACTOR:
            highest = f"{field}.mean and amplitude make {self.mean + self.amplitude:g}"
            yield f"{highest}; allowed: at most {MOST_FACTOR:g} times the submitted rate"

    def course(self, run: RunActions) -> courses.Course:  # noqa: ARG002 - the same in every run
        return lambda _before: courses.sine(self.mean, self.amplitude, self.period_s, self.for_s, self.phase)


@dataclass(frozen=True, kw_only=True)
class Trace(RateEvent):
    """The input rate follows a file: each row's number holds until the next row."""

    file: PathText  # CSV of times and numbers; absolute, or from the experiment's file on
    compression: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 1.0  # seconds of it that pass in one second
    scale: Annotated[float, Field(strict=True, gt=0)] = 1.0  # times its numbers: 1 is the submitted rate
    columns: Annotated[tuple[Column, ...], Field(max_length=2)] | None = None  # times and numbers; names or 1, 2, …
    unit_s: Length | None = None  # of its times, such as 60; without it: 1; dates as 2026-11-28T21:00 need none
    period_s: Length | None = None  # between rows of a file without times
    for_s: Seconds | None = None  # without it: until its end; its last rate stays
    longest_gap_s: Annotated[float, Field(strict=True, gt=0)] = 3600.0  # between two of its rows
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""  # of the file; without it: as it is now
    kind: Literal["trace"] = "trace"

    not_in_line: ClassVar[tuple[str, ...]] = ("at", "kind", "longest_gap_s", "columns", "unit_s", "period_s")

    @property
    def form(self) -> courses.TraceForm:
        return courses.TraceForm(self.columns, self.unit_s, self.period_s)

    def words(self) -> str:
        faster = "" if self.compression == 1 else f" {self.compression:g} times as fast,"
        follows = f"{self.rate} follows {Path(self.file).name},{faster}"
        return f"{follows} {how_long(self.for_s, 'to its end')}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        yield from super().errors(plan)
        yield from end_errors(self.for_s, plan)

    def read(self, place: int, folder: Path, rest_s: float = math.inf) -> tuple[Trace, list[str]]:
        """Return the event with its digest, and its path from the repository if it lies there, and the errors of the
        file. `rest_s`: from the event's zero until the run ends, at most."""
        path = (folder / Path(self.file).expanduser()).resolve()
        path_text = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
        field = f"events.{place}"
        try:
            facts = courses.facts_of(path, self.scale, self.longest_gap_s, self.form)
        except courses.UnfitTrace as error:
            return self, [f"{field}.file is {self.file!r}: {error}"]
        length_s, errors = facts.length_s / self.compression, []
        if self.for_s is not None and self.for_s > length_s:
            errors = [f"{field}.for_s is {self.for_s:g}; allowed: at most {length_s:g}, the length of {self.file}"]
        if self.for_s is None and length_s > rest_s:
            errors = [
                f"{field}.file is {self.file!r}, which lasts {length_s:g} s with compression {self.compression:g};"
                f" allowed: at most {rest_s:g}: it would not be over when the run is; give for_s, or compress it more"
            ]
        if self.sha256 and self.sha256 != facts.sha256:
            errors.append(f"{field}.sha256 is {self.sha256}, but {self.file} is {facts.sha256}; it has changed")
        return replace(self, file=path_text, sha256=facts.sha256), errors

    def course(self, run: RunActions) -> courses.Course:
        path = run.trace_file(self.sha256)
        return lambda _before: courses.trace(courses.rows_of(path, self.scale, self.form), self.compression, self.for_s)
