"""A policy that places as others do and never answers a scale event; it is on no list but that of a test."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.policies import POLICIES, PolicyEntry, initial_placement


@dataclass(frozen=True)
class NoParameters:
    pass


def decide(observation: Observation, memory: Memory, parameters: NoParameters) -> Decision:
    while observation.event is not None:
        pass
    return initial_placement.initial_decision(observation, memory, "round_robin") or Decision(memory=memory)


ENTRY = PolicyEntry(decide, NoParameters, frozenset({"scale_out"}))


def register() -> None:
    """In a process of its own."""
    POLICIES["endless"] = ENTRY
