"""Topologies that come and go in the run of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from barograph.plan.events.kind import EVENT_LINE, EventTimes, PlannedEvent, PlanSoFar, RunActions
from barograph.yaml_files import Word

SUBMIT_S, KILL_S = 150.0, 60.0  # the longest that Storm may take


@dataclass(frozen=True)
class Arrival(PlannedEvent):
    """A topology is submitted while others run; the policy gives it a place as it does at the start."""

    topology: Word  # its name in Storm
    kind: Literal["arrival"] = "arrival"

    phases: ClassVar[Mapping[str, str]] = {"arrival": "a topology arrives"}

    @property
    def arrives(self) -> str:
        return self.topology

    @property
    def longest_s(self) -> float:
        return SUBMIT_S

    def words(self) -> str:
        return f"{self.topology} arrives"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        field = f"events.{plan.place}.topology"
        if self.topology not in plan.topologies:
            yield f"{field} is {self.topology!r}; allowed: {', '.join(plan.topologies)}"
        elif self.topology in plan.running:
            yield f"{field} is {self.topology!r}, which is there already"

    def perform(self, run: RunActions) -> EventTimes:
        with run.phase("arrival", expected_s=20):
            with run.zero(EVENT_LINE, topology=self.topology) as zero_s:
                run.submit(self.topology)
            return run.wait_until_running(self.topology, zero_s)


@dataclass(frozen=True)
class Departure(PlannedEvent):
    """A topology is killed, and the others run on."""

    topology: Word  # its name in Storm
    kind: Literal["departure"] = "departure"

    phases: ClassVar[Mapping[str, str]] = {"departure": "a topology departs"}

    @property
    def departs(self) -> str:
        return self.topology

    @property
    def longest_s(self) -> float:
        return KILL_S

    def words(self) -> str:
        return f"{self.topology} departs"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        field = f"events.{plan.place}.topology"
        if self.topology not in plan.running:
            yield f"{field} is {self.topology!r}, which is not there then; there are {', '.join(plan.running)}"
        elif len(plan.running) == 1:
            yield f"{field} is {self.topology!r}, the only one that is there; allowed: one of several"

    def perform(self, run: RunActions) -> EventTimes:
        with run.phase("departure", expected_s=10):
            with run.zero(EVENT_LINE, topology=self.topology) as zero_s:
                run.kill(self.topology)
            return EventTimes(zero_s, run.now())
