"""The events that an experiment plans, and who takes part in it. Pure: names and numbers only.

Machines are `m1`, `m2`, …; those that join take the next names that nobody has had. Which machines leave is the
policy's to say, so of a scale-in only the number is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

At = Literal["steady"] | float
"""`steady`, or seconds: after the first tuple for the first event, after the zero of the one before for the others."""


@dataclass(frozen=True)
class ScaleOut:
    at: At
    machines: int
    kind: Literal["scale_out"] = "scale_out"


@dataclass(frozen=True)
class ScaleIn:
    at: At
    machines: int
    kind: Literal["scale_in"] = "scale_in"


@dataclass(frozen=True)
class RateChange:
    at: At
    factor: float  # of the rate that the topology was submitted with
    kind: Literal["rate"] = "rate"


@dataclass(frozen=True)
class Crash:
    at: At
    machine: str
    restart_after_s: float | None = None  # from the crash; None: it stays down
    kind: Literal["crash"] = "crash"


PlannedEvent = ScaleOut | ScaleIn | RateChange | Crash
KINDS: dict[str, type[PlannedEvent]] = {each.kind: each for each in (ScaleOut, ScaleIn, RateChange, Crash)}
SCALING = frozenset({"scale_out", "scale_in"})  # these a policy is asked to answer


def at_start(before: int) -> tuple[str, ...]:
    return _names(1, before)


def everyone(before: int, events: Sequence[PlannedEvent]) -> tuple[str, ...]:
    """All workers that ever take part, in the order in which they come."""
    return _names(1, before + _joining(events))


def joiners(before: int, events: Sequence[PlannedEvent], place: int) -> tuple[str, ...]:
    """The machines that join at `events[place]`; none unless it is a scale-out."""
    event, first = events[place], before + _joining(events[:place]) + 1
    return _names(first, first + event.machines - 1) if isinstance(event, ScaleOut) else ()


def at_end(before: int, events: Sequence[PlannedEvent]) -> int:
    """How many machines the cluster has in the end; one that crashed and stays down still counts."""
    return before + _joining(events) - sum(event.machines for event in events if isinstance(event, ScaleIn))


def working_after(before: int, events: Sequence[PlannedEvent]) -> tuple[int, ...]:
    """After each event: how many machines are in the cluster and up."""
    return tuple(at_end(before, events[:n]) - _down_for_good(events[:n]) for n in range(1, len(events) + 1))


def _joining(events: Sequence[PlannedEvent]) -> int:
    return sum(event.machines for event in events if isinstance(event, ScaleOut))


def _down_for_good(events: Sequence[PlannedEvent]) -> int:
    return sum(isinstance(event, Crash) and event.restart_after_s is None for event in events)


def _names(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"m{number}" for number in range(first, last + 1))
