"""The policy says which machines leave; they go when no task is on them any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from barograph.plan.events.kind import (
    DRAIN_S,
    GIVE_BACK_S,
    LONGEST_SCALE_S,
    EventTime,
    EventTimes,
    MachineNumber,
    PlannedEvent,
    PlanSoFar,
    RunActions,
    machines_in_words,
)
from barograph.plan.plays import LIMITS_S as PLAYS_S


@dataclass(frozen=True)
class ScaleIn(PlannedEvent):
    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    machines: MachineNumber  # how many
    kind: Literal["scale_in"] = "scale_in"

    asks_policy: ClassVar[bool] = True
    phases: ClassVar[Mapping[str, str]] = {"scale": "scale request: decided and applied", "leave": "machines leave"}

    @property
    def leaves(self) -> int:
        return self.machines

    @property
    def longest_s(self) -> float:
        return LONGEST_SCALE_S + 2 * DRAIN_S + PLAYS_S["leave"] + PLAYS_S["collect"] + GIVE_BACK_S

    def words(self) -> str:
        return f"scale in by {machines_in_words(self.machines)}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        if plan.working >= 1 > plan.working - self.machines:
            yield (
                f"events.{plan.place}.machines is {self.machines}, but only {plan.working} machines are there and one"
                f" has to stay; allowed: at most {plan.working - 1}"
            )

    def perform(self, run: RunActions) -> EventTimes:
        times, released = run.scale(self.kind, leave=self.machines)
        with run.phase("leave", expected_s=15):
            run.remove_machines(released)
        return times
