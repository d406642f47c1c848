"""The policy is asked for a new placement with the same machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from barograph.plan.events.kind import LONGEST_SCALE_S, EventTime, EventTimes, PlannedEvent, RunActions


@dataclass(frozen=True)
class Reschedule(PlannedEvent):
    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    kind: Literal["reschedule"] = "reschedule"

    asks_policy: ClassVar[bool] = True
    phases: ClassVar[Mapping[str, str]] = {"scale": "scale request: decided and applied"}

    @property
    def longest_s(self) -> float:
        return LONGEST_SCALE_S

    def words(self) -> str:
        return "the policy places anew"

    def perform(self, run: RunActions) -> EventTimes:
        times, _ = run.scale(self.kind)
        return times
