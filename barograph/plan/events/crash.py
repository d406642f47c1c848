"""A machine crashes and may come back; the policy is not asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from barograph.plan.events.kind import (
    RESTART_S,
    EventTime,
    EventTimes,
    PlannedEvent,
    PlanSoFar,
    RunActions,
    Seconds,
)
from barograph.plan.plays import LIMITS_S as PLAYS_S
from barograph.yaml_files import Word

ENDED_BY_A_CRASH = ("cpu_load", "slow_cpu", "memory_limit")


@dataclass(frozen=True)
class Crash(PlannedEvent):
    at: EventTime  # `steady`, or seconds after the first tuple or after the zero of the event before
    machine: Word  # such as m2; it is there by then
    restart_after_s: Seconds | None = None  # from the crash; without it: it stays down
    kind: Literal["crash"] = "crash"

    crashes_machines: ClassVar[bool] = True
    phases: ClassVar[Mapping[str, str]] = {
        "crash": "a machine crashes",
        "recover": "waiting until every task runs again",
    }

    @property
    def down_for_good(self) -> tuple[str, ...]:
        return (self.machine,) if self.restart_after_s is None else ()

    @property
    def planned_s(self) -> float:
        return self.restart_after_s or 0.0

    @property
    def longest_s(self) -> float:
        """Return the longest: it boots in the event, or when the run's files are collected."""
        return RESTART_S + PLAYS_S["revive"]

    def words(self) -> str:
        restart = "stays down" if self.restart_after_s is None else f"boots {self.restart_after_s:g} s later"
        return f"{self.machine} crashes and {restart}"

    def errors(self, plan: PlanSoFar) -> Iterator[str]:
        """Yield errors: a restart belongs to its crash, before the crash's horizon and before the next event."""
        field = f"events.{plan.place}"
        if self.restart_after_s is None and plan.working == 1:
            yield f"{field} is the crash of the last machine; give it restart_after_s, or more machines"
        disturbed = sorted(kind for kind, name in plan.lasting if name == self.machine and kind in ENDED_BY_A_CRASH)
        if disturbed and self.restart_after_s is not None:
            yield f"{field}.machine is {self.machine}, which has a {disturbed[0]} without an end; a boot would end it"
        if self.machine not in plan.names:
            yield f"{field}.machine is {self.machine!r}; at that time there are {', '.join(plan.names) or 'none'}"
        if self.restart_after_s is not None and self.restart_after_s >= plan.limit_s:
            yield (
                f"{field}.restart_after_s is {self.restart_after_s:g}; allowed: less than {plan.limit_field}"
                f" ({plan.limit_s:g})"
            )

    def perform(self, run: RunActions) -> EventTimes:
        """Wait until Storm runs every task again, on other machines or on this one, or the time is over."""
        run.require_present(self.machine)
        with run.phase("crash", expected_s=self.restart_after_s or 2, planned_s=self.planned_s):
            with run.zero("crashed", machine=self.machine) as zero_s:
                run.crash(self.machine)
            since_s = zero_s
            if self.restart_after_s is not None:
                run.wait_until(zero_s + self.restart_after_s)
                run.restart(self.machine)
                run.note("restarted", machine=self.machine)
                since_s = run.now()
        with run.phase("recover", expected_s=60):
            return run.wait_until_recovered(zero_s, since_s, *self.down_for_good)
