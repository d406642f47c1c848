"""Whether a plan of events can happen at all: numbers of machines, names, times. Pure; each complaint is one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dags.events import Crash, PlannedEvent, ScaleIn, ScaleOut, at_end, everyone, working_after


def wrong_order(before: int, after: int, events: Sequence[PlannedEvent], horizon_s: float) -> list[str]:
    """Everything that is wrong, in the order of the file."""
    said = [_machines_in_the_end(before, after, events)] if after != at_end(before, events) else []
    return [*said, *_too_few(before, events), *_crashes(before, events), *_times(events, horizon_s)]


def _machines_in_the_end(before: int, after: int, events: Sequence[PlannedEvent]) -> str:
    come = sum(event.machines for event in events if isinstance(event, ScaleOut))
    go = sum(event.machines for event in events if isinstance(event, ScaleIn))
    return (
        f"machines.after is {after}, but machines.before ({before}), plus the machines of scale_out"
        f" events ({come}), less those of scale_in events ({go}), make {at_end(before, events)}"
    )


def _too_few(before: int, events: Sequence[PlannedEvent]) -> Iterator[str]:
    working = (before, *working_after(before, events))
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


def _crashes(before: int, events: Sequence[PlannedEvent]) -> Iterator[str]:
    down: set[str] = set()
    for place, event in enumerate(events):
        if not isinstance(event, Crash):
            continue
        there = [name for name in everyone(before, events[:place]) if name not in down]
        if event.machine not in there:
            yield f"events.{place}.machine is {event.machine!r}; at that time there are {', '.join(there) or 'none'}"
        if event.restart_after_s is None:
            down.add(event.machine)


def _times(events: Sequence[PlannedEvent], horizon_s: float) -> Iterator[str]:
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
