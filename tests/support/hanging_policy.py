"""A policy whose answer to a scale event is one call that keeps the interpreter; on no list but that of a test."""

from __future__ import annotations

import re

from scheduler_plugins.model import Decision, Memory, Observation
from scheduler_plugins.policies import POLICIES, PolicyEntry, initial_placement
from scheduler_plugins.service import server
from tests.support.endless_policy import NoParameters

HANG_S = 2.0  # tests need not wait for the service's own limit


def decide(observation: Observation, memory: Memory, parameters: NoParameters) -> Decision:
    if observation.event is not None:
        re.match(r"(a+)+b", "a" * 40)  # takes days, in C
    return initial_placement.initial_decision(observation, memory, "round_robin") or Decision(memory=memory)


ENTRY = PolicyEntry(decide, NoParameters, frozenset({"scale_out"}))


def register() -> None:
    """In a process of its own."""
    POLICIES["hanging"] = ENTRY
    server.HANG_S = HANG_S  # type: ignore[attr-defined]  # replaced where it is read
