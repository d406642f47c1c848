"""The events that an experiment plans, who takes part in it, and whether that order of events is possible. Pure.

Machines are `m1`, `m2`, …; those that join take the next names that no machine has had. The policy chooses which
machines leave, so of a scale-in only the number is known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

EventTime = Literal["steady"] | float
"""`steady`, or seconds: after the first tuple for the first event, after the zero of the one before for the others."""


@dataclass(frozen=True)
class ScaleOut:
    at: EventTime
    machines: int
    kind: Literal["scale_out"] = "scale_out"


@dataclass(frozen=True)
class ScaleIn:
    at: EventTime
    machines: int
    kind: Literal["scale_in"] = "scale_in"


@dataclass(frozen=True)
class RateChange:
    at: EventTime
    factor: float  # of the rate that the topology was submitted with
    kind: Literal["rate"] = "rate"


@dataclass(frozen=True)
class Crash:
    at: EventTime
    machine: str
    restart_after_s: float | None = None  # from the crash; None: it stays down
    kind: Literal["crash"] = "crash"


PlannedEvent = ScaleOut | ScaleIn | RateChange | Crash
KINDS: dict[str, type[PlannedEvent]] = {each.kind: each for each in (ScaleOut, ScaleIn, RateChange, Crash)}
SCALING = frozenset({"scale_out", "scale_in"})  # these a policy is asked to answer


def starting_workers(before: int) -> tuple[str, ...]:
    return _names(1, before)


def all_workers(before: int, events: Sequence[PlannedEvent]) -> tuple[str, ...]:
    """All workers that ever take part, in the order in which they come."""
    return _names(1, before + _joining(events))


def joining_workers(before: int, events: Sequence[PlannedEvent], place: int) -> tuple[str, ...]:
    """The machines that join at `events[place]`; none unless it is a scale-out."""
    event, first = events[place], before + _joining(events[:place]) + 1
    return _names(first, first + event.machines - 1) if isinstance(event, ScaleOut) else ()


def machines_at_end(before: int, events: Sequence[PlannedEvent]) -> int:
    """How many machines the cluster has in the end; one that crashed and stays down still counts."""
    return before + _joining(events) - sum(event.machines for event in events if isinstance(event, ScaleIn))


def working_machines_after(before: int, events: Sequence[PlannedEvent]) -> tuple[int, ...]:
    """After each event: how many machines are in the cluster and up."""
    return tuple(machines_at_end(before, events[:n]) - _crashed_for_good(events[:n]) for n in range(1, len(events) + 1))


def _joining(events: Sequence[PlannedEvent]) -> int:
    return sum(event.machines for event in events if isinstance(event, ScaleOut))


def _crashed_for_good(events: Sequence[PlannedEvent]) -> int:
    return sum(isinstance(event, Crash) and event.restart_after_s is None for event in events)


def _names(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"m{number}" for number in range(first, last + 1))


def order_errors(before: int, after: int, events: Sequence[PlannedEvent], horizon_s: float) -> list[str]:
    """Everything that is wrong, in the order of the file."""
    said = [_wrong_machine_count(before, after, events)] if after != machines_at_end(before, events) else []
    return [
        *said,
        *_too_few_machines(before, events),
        *_impossible_crashes(before, events),
        *_late_restarts(events, horizon_s),
    ]


def _wrong_machine_count(before: int, after: int, events: Sequence[PlannedEvent]) -> str:
    come = sum(event.machines for event in events if isinstance(event, ScaleOut))
    go = sum(event.machines for event in events if isinstance(event, ScaleIn))
    return (
        f"machines.after is {after}, but machines.before ({before}), plus the machines of scale_out"
        f" events ({come}), less those of scale_in events ({go}), make {machines_at_end(before, events)}"
    )


def _too_few_machines(before: int, events: Sequence[PlannedEvent]) -> Iterator[str]:
    working = (before, *working_machines_after(before, events))
    for place, event in enumerate(events):
        if working[place + 1] >= 1 or working[place] < 1:
            continue
        if isinstance(event, ScaleIn):
            yield (
                f"events.{place}.machines is {event.machines}, but only {working[place]} machines are there and one has"
                f" to stay; allowed: at most {working[place] - 1}"
            )
        else:
            yield f"events.{place} is the crash of the last machine; give it restart_after_s, or more machines"


def _impossible_crashes(before: int, events: Sequence[PlannedEvent]) -> Iterator[str]:
    down: set[str] = set()
    for place, event in enumerate(events):
        if not isinstance(event, Crash):
            continue
        there = [name for name in all_workers(before, events[:place]) if name not in down]
        if event.machine not in there:
            yield f"events.{place}.machine is {event.machine!r}; at that time there are {', '.join(there) or 'none'}"
        if event.restart_after_s is None:
            down.add(event.machine)


def _late_restarts(events: Sequence[PlannedEvent], horizon_s: float) -> Iterator[str]:
    """A restart belongs to its crash: it comes before the crash's horizon and before the next event."""
    for place, event in enumerate(events):
        if not isinstance(event, Crash) or event.restart_after_s is None:
            continue
        following = events[place + 1].at if place + 1 < len(events) else "steady"
        limit, name = horizon_s, "durations.horizon_s"
        if following != "steady" and following < limit:
            limit, name = following, f"events.{place + 1}.at"
        if event.restart_after_s >= limit:
            yield f"events.{place}.restart_after_s is {event.restart_after_s:g}; allowed: less than {name} ({limit:g})"
