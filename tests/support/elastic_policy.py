"""A policy for tests: it asks for machines in one round, deals everything out again over all once it has them, and lets
them go in a later one. Rounds are those in which it may act, from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.policies import PolicyEntry, initial_placement


@dataclass(frozen=True)
class Parameters:
    acquire_at: int = 1
    number: int = 1
    release_at: int = 4


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, "round_robin")
    if first is not None or not observation.may_act:
        return first or Decision(memory=memory)
    turn, had = memory.get("turn", 0) + 1, tuple(memory.get("had", ()))
    joined = next((r.machines for r in observation.machine_requests if (r.kind, r.outcome) == ("acquire", "done")), ())
    known: Mapping[str, Any] = {**memory, "turn": turn, "had": list(joined or had)}
    if turn == parameters.acquire_at:
        return Decision(acquire=parameters.number, memory=known, reason=f"{parameters.number} more, in round {turn}")
    if joined and not had:
        dealt = initial_placement.place_all(observation.topologies, observation.machines)
        return Decision(placement=dealt, memory=known, reason=f"dealt out again, with {', '.join(joined)}")
    if had and turn >= parameters.release_at and not memory.get("released"):
        staying = [machine for machine in observation.machines if machine.name not in had]
        dealt = initial_placement.place_all(observation.topologies, staying)
        after = {**known, "released": True}
        return Decision(placement=dealt, release=had, memory=after, reason=f"{', '.join(had)} may leave")
    return Decision(memory=known)


ENTRY = PolicyEntry(decide, Parameters, frozenset())
