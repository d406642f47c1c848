"""The decisions of a run, and the bridge's reports on each: it arrived, was applied, or failed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_plugins.model import Decision, Failure, Memory, ScaleEvent
from scheduler_plugins.service.run_snapshot import ServiceDecision

EXPIRY_S = 75.0  # the bridge gives up a plan after 60 s, and reports it repeatedly


@dataclass
class DecisionStatus:
    """The status of a decision. `waiting`: topologies without a report of the bridge yet; `applied`: those where it was
    applied.

    `arrived`: the bridge has reported that it has the answer. `expired`: its outcome was never reported.
    """

    decision_id: str
    t: float
    event: ScaleEvent | None
    decision: Decision
    memory_before: Memory
    waiting: set[str]
    slots: tuple[str, ...] | None = ()  # whose workers restart for it; None: any may
    given_s: float = 0.0  # since when the present Nimbus has it
    waits: int = 2  # Storm's maximum since then: a Nimbus that restarts at once begins its wait again, unnoticed
    arrived: bool = False
    applied: set[str] = field(default_factory=set)
    failed: bool = False  # for one topology at least
    expired: bool = False
    outcome_t: float | None = None
    message: str = ""
    own: bool = False  # the policy acted by itself
    heard: tuple[Failure, ...] = ()  # the failures that it knew when it decided

    @property
    def event_id(self) -> str | None:
        return self.event.event_id if self.event else None

    @property
    def expiry_s(self) -> float:
        """Return the limit: Nimbus carries it out after its wait at the earliest."""
        return EXPIRY_S + self.waits * self.decision.wait_s

    def was_over(self, t: float) -> bool:
        """Return whether every report on it came before that time."""
        return not self.waiting and self.outcome_t is not None and self.outcome_t < t

    def snapshot(self) -> ServiceDecision:
        return ServiceDecision(
            decision_id=self.decision_id,
            t=self.t,
            event_id=self.event_id,
            reason=self.decision.reason,
            applied=not self.waiting and not self.failed,
            applied_to=tuple(sorted(self.applied)),
            applied_t=None if self.waiting and not self.failed else self.outcome_t,
            message=self.message,
            release=tuple(self.decision.release),
            expired=self.expired,
            arrived=self.arrived or self.outcome_t is not None,
            slots=self.slots,
            own=self.own,
        )


@dataclass
class DecisionTracker:
    statuses: list[DecisionStatus] = field(default_factory=list)
    _number: int = 0

    def add(
        self, decision: Decision, t: float, event: ScaleEvent | None, memory_before: Memory,
        slots: tuple[str, ...] | None = (), own: bool = False, heard: tuple[Failure, ...] = (),
    ) -> str:  # fmt: skip
        """Add a decision that changes something or settles an event; returns its id."""
        parts = [*decision.executors.items(), *decision.placement.items()]
        topologies = {topology for topology, change in parts if change} | set(decision.rebalance)
        # A decision that moves nothing needs no rebalance: it is applied already, and machines to release are empty.
        outcome_t = None if topologies else t
        self._number += 1
        facts = (f"d{self._number}", t, event, decision, memory_before, topologies, slots)
        status = DecisionStatus(*facts, given_s=t, outcome_t=outcome_t, own=own, heard=heard)
        self.statuses.append(status)
        return status.decision_id

    def withdraw_unless_arrived(self, last_decision: str | None) -> DecisionStatus | None:
        """Record the bridge's last decision; return the newest one if its answer got lost: it counts as never made."""
        newest = self.statuses[-1] if self.statuses else None
        if newest is None or newest.arrived or not newest.waiting or newest.failed:
            return None
        newest.arrived = newest.decision_id == last_decision
        return None if newest.arrived else self.statuses.pop()

    def expire(self, now: float, asked: str) -> Sequence[DecisionStatus]:
        """Fail and return decisions without a report for too long. `asked`: when Nimbus last asked."""
        statuses = [s for s in self.statuses if s.waiting and now - s.given_s >= s.expiry_s]
        for status in statuses:
            if not status.failed:  # else that failure is reported
                why = f"Nimbus has not said within {status.expiry_s:g} s whether it was applied; it last asked {asked}"
                status.failed, status.expired, status.outcome_t, status.message = True, True, now, why
        return statuses

    def give_again(self, now: float) -> None:
        """Give pending decisions a new wait: another Nimbus has taken over the plans."""
        for status in self.statuses:
            status.given_s, status.waits = now, 1

    def record_outcome(self, body: Mapping[str, Any]) -> DecisionStatus | None:
        """Record the bridge's report on a topology; return the decision if it was not applied there."""
        for status in self.statuses:
            if status.decision_id == body["decision_id"] and body["topology"] in status.waiting:
                status.waiting.discard(body["topology"])
                if body["ok"]:
                    status.applied.add(body["topology"])
                if not status.failed:  # report the first failure
                    status.outcome_t, status.message = float(body["t"]), str(body.get("message", ""))
                status.failed = status.failed or not body["ok"]
                return None if body["ok"] else status
        return None  # of an earlier run, or a repeated report

    def find(self, decision_id: str | None) -> DecisionStatus | None:
        return next((status for status in self.statuses if status.decision_id == decision_id), None)

    def is_last(self, status: DecisionStatus) -> bool:
        return self.statuses[-1] is status

    def released(self) -> set[str]:
        """Return machines that may leave, now or once pending decisions are applied."""
        return {machine for status in self.statuses if not status.failed for machine in status.decision.release}
