"""What goes on when executors or workers change: queues, schedules and trees of those whose processes stay."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scheduler_plugins.simulator.flow import Flow
from scheduler_plugins.simulator.layout import Flags, Ints, Layout, sums


def carry_over(old: Flow, new: Flow, ready: Flags) -> None:
    """Queues of executors whose workers go on (`ready`) stay; what waited elsewhere is lost, and counted at the first
    executor of its component. Sources go on with their schedules wherever their tasks are now; one that skips gives up
    what its last process was behind."""
    place, same = _places(old.layout, new.layout)
    stays = same & ready & ~new.layout.is_spout
    rows, old_rows = np.flatnonzero(stays), place[stays]
    for name in ("waiting", "oldest", "newest"):
        getattr(new.queues, name)[rows] = getattr(old.queues, name)[old_rows]
    new.arrivals[rows], new.busy[rows] = old.arrivals[old_rows], old.busy[old_rows]
    gone = ~old.layout.is_spout
    gone[old_rows] = False
    lost = sums(old.layout.component, np.where(gone, old.queues.waiting, 0.0), len(old.layout.components))
    old.queues.waiting[gone] = 0.0
    for row, there in _same_components(old.layout, new.layout):
        new.counters.lost[int(new.layout.begins[row])] += lost[there]
        if new.layout.components[row][1].work.kind == "spout":
            _carry_source(old, new, row, there)
            part = slice(int(new.layout.begins[row]), int(new.layout.begins[row + 1]))
            if new.layout.components[row][1].work.on_restart == "skip":
                give_up(new, ~(same & ready), part)
    if old.trees is not None:
        rows = np.flatnonzero(same & ready)
        gone = np.ones(old.layout.size, dtype=bool)
        gone[place[rows]] = False
        old.trees.end(gone)
        if new.trees is not None:
            old.trees.carry_over(new.trees, rows, place[rows])
    shared = min(new.layout.machines, old.layout.machines)
    for name in ("sent", "received"):
        getattr(new.network, name)[:shared] = getattr(old.network, name)[:shared]


def _places(old: Layout, new: Layout) -> tuple[Ints, Flags]:
    """Of each executor the row in the old layout of the one with the same tasks, and whether there was one."""
    before = {placed.topology_id: number for number, placed in enumerate(old.topologies)}
    number = np.array([before.get(placed.topology_id, -1) for placed in new.topologies], dtype=np.int64)[new.topology]
    wanted = np.where(number >= 0, (number << 44) + (new.first << 22) + new.last, -1)
    if not old.size:
        return np.zeros(new.size, dtype=np.int64), np.zeros(new.size, dtype=bool)
    order = np.argsort(old.keys)
    known = old.keys[order]
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return order[place], known[place] == wanted


def _same_components(old: Layout, new: Layout) -> Iterator[tuple[int, int]]:
    """Rows of components in the new layout and in the old one."""
    before = {
        (old.topologies[number].topology_id, component.work.name): row
        for row, (number, component) in enumerate(old.components)
    }
    for row, (number, component) in enumerate(new.components):
        there = before.get((new.topologies[number].topology_id, component.work.name))
        if there is not None:
            yield row, there


def _carry_source(old: Flow, new: Flow, row: int, there: int) -> None:
    """By task: what each is behind, and since when."""
    begin, end = (int(old.layout.begins[there + n]) for n in (0, 1))
    tasks = old.layout.tasks[begin:end]
    part = slice(int(new.layout.begins[row]), int(new.layout.begins[row + 1]))
    starts = np.concatenate([[0], np.cumsum(new.layout.tasks[part])[:-1]])
    new.queues.waiting[part] = np.add.reduceat(np.repeat(old.queues.waiting[begin:end] / tasks, tasks), starts)
    new.queues.oldest[part] = np.minimum.reduceat(np.repeat(old.queues.oldest[begin:end], tasks), starts)
    new.queues.newest[part] = np.maximum.reduceat(np.repeat(old.queues.newest[begin:end], tasks), starts)


def give_up(flow: Flow, whose: Flags, part: slice) -> None:
    """What these sources are behind is never emitted."""
    waiting = np.where(whose[part], flow.queues.waiting[part], 0.0)
    flow.counters.missed[part] += waiting
    flow.queues.waiting[part] -= waiting
