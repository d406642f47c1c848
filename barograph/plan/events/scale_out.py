"""Machines join; then the policy is asked to use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from barograph.plan.events.kind import (
    LONGEST_SCALE_S,
    REGISTER_S,
    EventTime,
    EventTimes,
    MachineNumber,
    PlannedEvent,
    RunActions,
    machines_in_words,
)
from barograph.plan.plays import LIMITS_S as PLAYS_S


@dataclass(frozen=True)
class ScaleOut(PlannedEvent):
    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    machines: MachineNumber  # how many
    kind: Literal["scale_out"] = "scale_out"

    asks_policy: ClassVar[bool] = True
    phases: ClassVar[Mapping[str, str]] = {
        "boot": "machines that join are started",
        "join": "machines join",
        "scale": "scale request: decided and applied",
    }

    @property
    def joins(self) -> int:
        return self.machines

    @property
    def longest_s(self) -> float:
        return PLAYS_S["join"] + REGISTER_S + LONGEST_SCALE_S

    def words(self) -> str:
        return f"scale out by {machines_in_words(self.machines)}"

    def perform(self, run: RunActions) -> EventTimes:
        run.add_machines(run.joining)
        times, _ = run.scale(self.kind, joined=run.joining)
        return times
