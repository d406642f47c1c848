"""A hold of the fake cluster: its policy acts in each round, and asks for machines, where a test says so. Requests,
limits and answers are those of the policy service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_plugins.machine_requests import MachineRequests, why_refused
from scheduler_plugins.model import Decision, Machine, MachineLimits, Observation

Asks = Sequence[tuple[float, Any]]  # seconds since the hold began, and a number to acquire or the names to release


@dataclass
class FakeHold:
    """Of one run: the hold that goes on, and what was decided in those before."""

    requests: MachineRequests = field(default_factory=MachineRequests)
    _rounds: tuple[float, float] | None = None  # since when the policy acts by itself, and how often (s)
    _limits: tuple[int, int] | None = None  # the fewest and the most machines
    _decided: list[float] = field(default_factory=list)  # when, in holds that are over
    _asked: int = 0

    def change(self, now: float, body: Mapping[str, Any], *, acts: bool) -> None:
        """As `/rounds` of the service; `acts`: whether the policy has moved something in each round until now."""
        limits, every_s = body.get("machines"), body["decide_every_s"]
        self._decided = self.decided(now, acts=acts)
        self._rounds = None if every_s is None else (now, every_s)
        self._limits = (limits["min"], limits["max"]) if limits else None

    def decided(self, now: float, *, acts: bool) -> list[float]:
        """When the policy decided by itself."""
        if self._rounds is None or not acts:
            return self._decided
        since_s, every_s = self._rounds
        return [*self._decided, *(since_s + number * every_s for number in range(int((now - since_s) // every_s) + 1))]

    def ask(self, asks: Asks, now: float, machines: Sequence[str]) -> None:
        """All that the policy has asked for by now; `machines` are alive."""
        while self._rounds is not None and self._asked < len(asks):
            after_s, wanted = asks[self._asked]
            t = self._rounds[0] + after_s
            if t > now:
                return
            self._asked += 1
            more = wanted if isinstance(wanted, int) else 0
            self._request(
                Decision(acquire=more, release=() if more else wanted, reason=f"asks for {wanted}"), t, machines
            )

    def _request(self, decision: Decision, t: float, machines: Sequence[str]) -> None:
        there = tuple(Machine(name, name, (6700,)) for name in machines)
        limits = MachineLimits(*self._limits, len(there)) if self._limits else None
        open_ = self.requests.under_way()
        observed = Observation(t, there, (), machine_limits=limits)
        if why := why_refused(observed, decision, open_.request if open_ else None):
            self.requests.refuse(decision, why, t)
        else:
            self.requests.add(decision, f"own-{t:.0f}", t)
