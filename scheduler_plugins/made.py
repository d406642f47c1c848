"""The decisions of a run and what became of each: the bridge says once a topology whether it was applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler_plugins.model import Decision, Memory


@dataclass
class Made:
    """One decision. `waiting`: topologies of which the bridge has yet to say whether it was applied."""

    decision_id: str
    t: float
    event_id: str | None
    decision: Decision
    memory_before: Memory
    waiting: set[str]
    failed: bool = False
    told_t: float | None = None
    message: str = ""

    def json(self) -> dict[str, Any]:
        """As it stands in the service's state."""
        return {
            "decision_id": self.decision_id,
            "t": self.t,
            "event_id": self.event_id,
            "reason": self.decision.reason,
            "applied": not self.waiting and not self.failed,
            "applied_t": None if self.waiting and not self.failed else self.told_t,
            "message": self.message,
            "release": list(self.decision.release),
        }


@dataclass
class Decisions:
    made: list[Made] = field(default_factory=list)

    def add(self, decision: Decision, t: float, event_id: str | None, memory_before: Memory) -> str:
        """Take a decision that changes something or settles an event; returns its id."""
        parts = [*decision.executors.items(), *decision.placement.items()]
        waiting = {topology for topology, change in parts if change} | set(decision.rebalance)
        # What moves nothing needs no rebalance: there is nothing left to apply, machines to release are empty already.
        told = None if waiting else t
        made = Made(f"d{len(self.made) + 1}", t, event_id, decision, memory_before, waiting, told_t=told)
        self.made.append(made)
        return made.decision_id

    def told(self, body: Mapping[str, Any]) -> Made | None:
        """Take what the bridge says of a topology; returns the decision if it is the first to say that it failed."""
        for made in self.made:
            if made.decision_id == body["decision_id"] and body["topology"] in made.waiting:
                return _told(made, body)
        return None  # of a run before, or said twice

    def is_last(self, made: Made) -> bool:
        return self.made[-1] is made

    def released(self) -> set[str]:
        """Machines that may leave, or may once what was decided is applied."""
        return {machine for made in self.made if not made.failed for machine in made.decision.release}


def _told(made: Made, body: Mapping[str, Any]) -> Made | None:
    made.waiting.discard(body["topology"])
    first = not body["ok"] and not made.failed
    made.failed = made.failed or not body["ok"]
    if first or not made.failed:
        made.told_t, made.message = float(body["t"]), str(body.get("message", ""))
    return made if first else None
