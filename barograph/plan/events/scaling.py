"""Events that the policy answers: machines or topologies that come and go, a new placement, a time in which it acts by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from barograph.plan.events.kind import (
    DRAIN_S,
    EVENT_LINE,
    GIVE_BACK_S,
    LONGEST_SCALE_S,
    OUTCOME_S,
    PLAYS_S,
    REGISTER_S,
    EventTimes,
    MachineNumber,
    PlannedEvent,
    PlanSoFar,
    RunActions,
    Seconds,
    how_long,
    length_errors,
)
from barograph.plan.topologies import names_text
from barograph.yaml_files import Word
from scheduler_plugins.model import LONGEST_ROUND_S, SHORTEST_ROUND_S

RoundLength = Annotated[float, Field(strict=True, ge=SHORTEST_ROUND_S, le=LONGEST_ROUND_S)]
Names = Annotated[tuple[Word, ...], Field(min_length=1)]


@dataclass(frozen=True)
class ScaleOut(PlannedEvent):
    """Machines join; then the policy is asked to use them."""

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
        return f"scale out by {self.machines} machine{'s'[: self.machines - 1]}"

    def perform(self, run: RunActions) -> EventTimes:
        run.add_machines(run.joining)
        times, _ = run.scale(self.kind, joined=run.joining)
        return times


@dataclass(frozen=True)
class ScaleIn(PlannedEvent):
    """The policy says which machines leave; they go when no task is on them any more."""

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
        return f"scale in by {self.machines} machine{'s'[: self.machines - 1]}"

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


@dataclass(frozen=True)
class Reschedule(PlannedEvent):
    """The policy is asked for a new placement with the same machines."""

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


@dataclass(frozen=True)
class AutonomousPhase(PlannedEvent):
    """For a time the policy decides by itself, round after round; nobody asks it for anything."""

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


SUBMIT_S, KILL_S = 150.0, 60.0  # the longest that Storm may take


@dataclass(frozen=True)
class Arrival(PlannedEvent):
    """Topologies are submitted while others run; the policy gives them places as it does at the start."""

    topologies: Names  # their names in Storm, or of entries with `count`
    kind: Literal["arrival"] = "arrival"

    phases: ClassVar[Mapping[str, str]] = {"arrival": "topologies arrive"}

    @property
    def arrives(self) -> tuple[str, ...]:
        return self.topologies

    @property
    def longest_s(self) -> float:
        return SUBMIT_S * len(self.topologies)

    def words(self) -> str:
        return f"{names_text(self.topologies)} arrive{'s'[: 2 - len(self.topologies)]}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        field = f"events.{plan.place}.topologies"
        if unknown := [name for name in self.topologies if name not in plan.topologies]:
            yield f"{field} has {names_text(unknown)}; allowed: {names_text(plan.topologies)}"
        if present := [name for name in self.topologies if name in plan.running]:
            yield f"{field} has {names_text(present)}, running already"

    def perform(self, run: RunActions) -> EventTimes:
        with run.phase("arrival", expected_s=20 * len(self.topologies)):
            with run.zero(EVENT_LINE, topologies=list(self.topologies)) as zero_s:
                for name in self.topologies:
                    run.submit(name)
            times = [run.wait_until_running(name, zero_s) for name in self.topologies]
            return next(
                (each for each in times if each.begin_s is None), max(times, key=lambda each: each.begin_s or 0)
            )


@dataclass(frozen=True)
class Departure(PlannedEvent):
    """Topologies are killed, and the others run on."""

    topologies: Names  # their names in Storm, or of entries with `count`
    kind: Literal["departure"] = "departure"

    phases: ClassVar[Mapping[str, str]] = {"departure": "topologies depart"}

    @property
    def departs(self) -> tuple[str, ...]:
        return self.topologies

    @property
    def longest_s(self) -> float:
        return KILL_S * len(self.topologies)

    def words(self) -> str:
        return f"{names_text(self.topologies)} depart{'s'[: 2 - len(self.topologies)]}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        field = f"events.{plan.place}.topologies"
        if absent := [name for name in self.topologies if name not in plan.running]:
            yield f"{field} has {names_text(absent)}, not running then; running are {names_text(plan.running)}"
        elif twice := sorted({name for name in self.topologies if self.topologies.count(name) > 1}):
            yield f"{field} has {names_text(twice)} twice; give each once"
        elif len(plan.running) == len(self.topologies):
            yield f"{field} has {names_text(self.topologies)}, all that run; allowed: fewer"

    def perform(self, run: RunActions) -> EventTimes:
        with run.phase("departure", expected_s=10 * len(self.topologies)):
            with run.zero(EVENT_LINE, topologies=list(self.topologies)) as zero_s:
                for name in self.topologies:
                    run.kill(name)
            return EventTimes(zero_s, run.now())
