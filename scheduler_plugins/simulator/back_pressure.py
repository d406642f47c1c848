"""What comes to executors in a step, and what full queues let those before them execute."""

from __future__ import annotations

import numpy as np

from scheduler_plugins.simulator.cpu import fair_level
from scheduler_plugins.simulator.layout import TINY, Floats, Groups, Layout


def room(layout: Layout, waiting: Floats, up: Floats) -> Floats:
    """Tuples that each executor's queue has room for. One that is not there (`up` is 0) holds nobody back: what is sent
    to it is lost."""
    return np.where(up > 0.0, layout.buffer - waiting, np.inf)


def most_by_queues(layout: Layout, waiting: Floats, due: Floats, capacity: Floats, free: Floats) -> Floats:
    """Tuples that each executor may execute in a step by the queues after it; infinity where these hold nobody back.

    The queues take what they have `free` and what is executed there. Where a level of the stream would send more than a
    queue takes, that level is held back as if it alone fed the queue, then all levels by the same share. The other
    arguments are those of `foreseen`.
    """
    wanted, _ = foreseen(layout, waiting, due, capacity, capacity)
    alone = wanted.copy()  # if nobody of other levels sent to the queues after it
    for groups in reversed(layout.groups):
        if groups.number:
            alone[groups.source_executors] *= _tightest(groups, free, alone, _sent(groups, wanted), wanted)
    wanted, arriving = foreseen(layout, waiting, due, capacity, alone)
    done = np.minimum(wanted, alone)
    for groups in reversed(layout.groups):
        if groups.number:
            done[groups.source_executors] *= _tightest(groups, free, done, arriving[groups.span], done)
    return np.where(done < wanted, done, np.inf)


def foreseen(layout: Layout, waiting: Floats, due: Floats, capacity: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Of each executor: tuples that it would execute of what is `waiting` and comes, and what comes, if each before it
    executes no more than `most`. `due`: at spouts, infinity where one emits as fast as it can."""
    arriving, wanted = np.where(layout.is_spout, due, 0.0), np.zeros(layout.size)
    for groups, part in zip(layout.groups, layout.slices(), strict=True):
        wanted[part] = np.minimum(waiting[part] + arriving[part], capacity[part])
        if groups.number:
            arriving[groups.span] += _sent(groups, np.minimum(wanted, most))
    return wanted, arriving


def _sent(groups: Groups, executed: Floats) -> Floats:
    """Return what comes to the executors from the first target to the last; `executed` of all executors."""
    emitted = groups.total(groups.of_sources(executed, 0) * groups.source_selectivity)
    return groups.at_targets(groups.of_target_groups(emitted) * groups.target_weight)


def _tightest(groups: Groups, free: Floats, done: Floats, arriving: Floats, executed: Floats) -> Floats:
    """Return, of each executor that is a source, the share of what it has `executed` that the queues after it take: of
    a group what they have `free`, and what is `done` there, beside what is `arriving` (from the first target to the
    last). Who waits for room gets as much of it as any other; who sends less than that is not held back."""
    room = np.maximum(free[groups.span] + done[groups.span], 0.0)
    share = np.minimum(1.0, room / np.maximum(arriving, TINY))
    of_targets = np.where(groups.target_weight > 0, groups.of_targets(share), 1.0)
    of_group = np.minimum.reduceat(of_targets, groups.group_begins)
    if (of_group >= 1.0).all():
        return np.ones(len(groups.source_executors))
    sent = groups.of_sources(executed, 0) * groups.source_selectivity
    level = fair_level(sent, groups.source_group, of_group * groups.total(sent))
    of_rows = np.minimum(1.0, groups.of_source_groups(level) / np.maximum(sent, TINY))
    return np.asarray(np.minimum.reduceat(of_rows, groups.source_begins))
