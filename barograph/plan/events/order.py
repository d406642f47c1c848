"""The participants of a plan of events, and the check of the events' order. Pure.

Machines are `m1`, `m2`, …; those that join take the next names that no machine has had. The policy chooses which
machines leave, so for a scale-in only the number is known here.
"""

from __future__ import annotations

from collections.abc import Sequence

from barograph.plan.events.kind import HORIZON_FIELD, PlannedEvent, PlanSoFar


def starting_workers(before: int) -> tuple[str, ...]:
    return _names(1, before)


def all_workers(before: int, events: Sequence[PlannedEvent]) -> tuple[str, ...]:
    """Return all workers that ever take part, in the order in which they come."""
    return _names(1, before + _joining(events))


def joining_workers(before: int, events: Sequence[PlannedEvent], place: int) -> tuple[str, ...]:
    """Return the machines that join at `events[place]`."""
    first_number = before + _joining(events[:place]) + 1
    return _names(first_number, first_number + events[place].joins - 1)


def machines_at_end(before: int, events: Sequence[PlannedEvent]) -> int:
    """Return the number of machines in the cluster at the end; one that crashed and stays down still counts."""
    return before + _joining(events) - sum(event.leaves for event in events)


def working_machines_after(before: int, events: Sequence[PlannedEvent]) -> tuple[int, ...]:
    """Return after each event the number of machines in the cluster and up."""
    return tuple(_working(before, events[:number]) for number in range(1, len(events) + 1))


def topologies_at_start(names: Sequence[str], events: Sequence[PlannedEvent]) -> tuple[str, ...]:
    """Return those of these topologies, by their names in Storm, that no event submits."""
    arrivals = {name for event in events for name in event.arrives}
    return tuple(name for name in names if name not in arrivals)


def topologies_after(names: Sequence[str], events: Sequence[PlannedEvent]) -> tuple[tuple[str, ...], ...]:
    """Return the topologies after each event."""
    snapshot, snapshots = topologies_at_start(names, events), []
    for event in events:
        snapshot = tuple(name for name in (*snapshot, *event.arrives) if name not in event.departs)
        snapshots.append(snapshot)
    return tuple(snapshots)


def order_errors(
    before: int, after: int, events: Sequence[PlannedEvent], horizon_s: float, topologies: Sequence[str] = ()
) -> list[str]:
    """Return all errors, in the order of the file. `topologies`: the experiment's, by their names in Storm."""
    errors, end = [], machines_at_end(before, events)
    if after != end:
        errors.append(
            f"machines.after is {after}, but machines.before ({before}), plus the machines that join at events"
            f" ({_joining(events)}), less those that leave ({before + _joining(events) - end}), make {end}"
        )
    if topologies and not topologies_at_start(topologies, events):
        errors.append("events lets every topology arrive; allowed: at least one is there at the start")
    arrivals = [name for event in events for name in event.arrives]
    if twice := sorted({name for name in arrivals if arrivals.count(name) > 1}):
        errors.append(f"events lets {', '.join(twice)} arrive twice; allowed: once; give the second one another name")
    return errors + [
        error
        for place, event in enumerate(events)
        for error in event.errors(_so_far(before, events, place, horizon_s, topologies))
    ]


def limit_errors(before: int, limits: tuple[int, int], events: Sequence[PlannedEvent]) -> list[str]:
    """Return errors in the limits on a policy's number of machines in a hold. From the first hold on the policy decides
    that number, so no event may change it too."""
    floor, ceiling = limits
    if floor > ceiling:
        return [
            f"machines.min is {floor}; allowed: at most {ceiling}, machines.max (machines.before where there is none)"
        ]
    holds = [place for place, event in enumerate(events) if event.is_hold]
    if not holds:
        return [f"machines.min to machines.max are {floor} to {ceiling}, but events has no hold in which a policy could"
                " ask for machines; leave them out, or add a hold"]  # fmt: skip
    errors = []
    if not floor <= before <= ceiling:
        errors.append(f"machines.before is {before}; allowed: machines.min ({floor}) to machines.max ({ceiling})")
    number = machines_at_end(before, events[: holds[0]])
    if number != before and not floor <= number <= ceiling:
        limit_text = f"machines.min ({floor}) to machines.max ({ceiling})"
        errors.append(f"events.{holds[0]} is a hold with {number} machines; allowed: {limit_text}")
    return errors + [
        f"events.{place} is a {event.kind}, but from the hold of events.{holds[0]} on the policy says how many machines"
        " there are (machines.min, machines.max); put it before the hold"
        for place, event in enumerate(events)
        if place > holds[0] and (event.joins or event.leaves)
    ]


def names_after(names: Sequence[str], number: int) -> tuple[str, ...]:
    """Return the next names that no machine has had; `names`: all that any has, `m1`, `m2`, …"""
    highest = max((int(name[1:]) for name in names), default=0)
    return _names(highest + 1, highest + number)


def rest_s(events: Sequence[PlannedEvent], place: int, horizon_s: float) -> float:
    """Return the most seconds from the zero of `events[place]` until the run ends."""
    following = [float(event.at) for event in events[place + 1 :] if event.at != "steady"]
    watched_s = sum(following) + horizon_s * (len(events) - place - len(following))
    return watched_s + sum(event.longest_s for event in events[place + 1 :])


def _so_far(
    before: int, events: Sequence[PlannedEvent], place: int, horizon_s: float, topologies: Sequence[str]
) -> PlanSoFar:
    events_before = events[:place]
    machines_down = {name for event in events_before for name in event.down_for_good}
    names = tuple(name for name in all_workers(before, events_before) if name not in machines_down)
    following = events[place + 1].at if place + 1 < len(events) else "steady"
    limit_s, field = horizon_s, HORIZON_FIELD
    if following != "steady" and following < limit_s:
        limit_s, field = following, f"events.{place + 1}.at"
    effects = frozenset(
        (disturbance.kind, name)
        for event in events_before
        for machines, disturbance in event.disturbances
        for name in machines
        if not event.planned_s
    )
    running = (topologies_at_start(topologies, events), *topologies_after(topologies, events))[place]
    is_held = any(event.is_hold and not event.planned_s for event in events_before)
    return PlanSoFar(
        place, _working(before, events_before), names, limit_s, field, effects, tuple(topologies), running, is_held,
        rest_s(events, place, horizon_s),
    )  # fmt: skip


def _working(before: int, events: Sequence[PlannedEvent]) -> int:
    return machines_at_end(before, events) - sum(len(event.down_for_good) for event in events)


def _joining(events: Sequence[PlannedEvent]) -> int:
    return sum(event.joins for event in events)


def _names(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"m{number}" for number in range(first, last + 1))
