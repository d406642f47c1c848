"""The input rate changes; the policy is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from barograph.plan.events.kind import EventTime, EventTimes, PlannedEvent, RunActions
from scheduler_plugins.emission_records import LEAST_FACTOR, MOST_FACTOR

Factor = Annotated[float, Field(strict=True, ge=LEAST_FACTOR, le=MOST_FACTOR)]


@dataclass(frozen=True)
class RateChange(PlannedEvent):
    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    factor: Factor  # of the rate that the topology was submitted with
    kind: Literal["rate"] = "rate"

    calls: ClassVar[frozenset[str]] = frozenset({"POST /input_rate"})
    phases: ClassVar[Mapping[str, str]] = {"rate": "the input rate changes"}

    @property
    def longest_s(self) -> float:
        return 0.0

    def words(self) -> str:
        return f"the input rate becomes {self.factor:g} times that of the submission"

    def perform(self, run: RunActions) -> EventTimes:
        with run.phase("rate"), run.zero("rate_changed", factor=self.factor) as zero_s:
            run.change_rate(self.factor)
        return EventTimes(zero_s, zero_s)
