"""For a time the policy decides by itself, round after round; nobody asks it for anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from barograph.plan.events.disturbances import how_long, length_errors
from barograph.plan.events.kind import OUTCOME_S, EventTime, EventTimes, PlannedEvent, PlanSoFar, RunActions, Seconds
from scheduler_plugins.model import LONGEST_ROUND_S, SHORTEST_ROUND_S

RoundLength = Annotated[float, Field(strict=True, ge=SHORTEST_ROUND_S, le=LONGEST_ROUND_S)]


@dataclass(frozen=True)
class AutonomousPhase(PlannedEvent):
    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    decide_every_s: RoundLength  # a policy that rests is asked later
    for_s: Seconds | None = None  # from the zero; without it: until the run ends, with a pause in each scale event
    kind: Literal["hold"] = "hold"

    is_hold: ClassVar[bool] = True
    phases: ClassVar[Mapping[str, str]] = {
        "hold": "the policy decides by itself",
        "more_machines": "machines that the policy asked for join",
        "fewer_machines": "machines leave that the policy let go",
    }

    @property
    def longest_s(self) -> float:
        """Return the longest: the last decision is still carried out at the end."""
        return self.planned_s + (OUTCOME_S if self.for_s is not None else 0.0)

    @property
    def planned_s(self) -> float:
        return self.for_s or 0.0

    def words(self) -> str:
        return f"the policy decides by itself, every {self.decide_every_s:g} s {how_long(self.for_s)}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        field = f"events.{plan.place}"
        yield from length_errors(self.for_s, plan)
        longest_s = plan.limit_s if self.for_s is None else self.for_s
        if self.decide_every_s > longest_s:
            length = f"the hold ({longest_s:g})" if self.for_s is not None else f"{plan.limit_field} ({longest_s:g})"
            limit = f"at most {length}, or it decides only once"
            yield f"{field}.decide_every_s is {self.decide_every_s:g}; allowed: {limit}"
        if plan.is_held:
            yield f"{field} is a hold, and an earlier one lasts until the run ends; give that one a for_s"

    def perform(self, run: RunActions) -> EventTimes:
        with run.phase("hold", expected_s=self.for_s or 1, planned_s=self.planned_s):
            with run.zero() as zero_s:
                run.decide_every(self.decide_every_s)
            if self.for_s is None:
                return EventTimes(zero_s, zero_s)
            run.wait_until(zero_s + self.for_s)
            run.decide_every(None)
            times = run.wait_until_recovered(zero_s, run.now())
            run.note("hold_ended")
        return times
