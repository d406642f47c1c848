"""What machines' networks carry in a step, in both directions: a share of it for each stream, and never more than it.

A stream is what an executor sends to one other machine. An executor deals its tuples to all that it feeds, so what its
slowest stream takes is what it executes; the rest waits in its queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from scheduler_plugins.simulator.capacity import fair_level
from scheduler_plugins.simulator.layout import TINY, Flags, Floats, Groups, Ints, Layout, sums


@dataclass(frozen=True)
class Streams:
    """Rows are streams of `executor` from `source` to `target` (machines), of `size` bytes a tuple that it executes."""

    executor: Ints
    source: Ints
    target: Ints
    size: Floats

    def within(self, reaches: Flags | None) -> Streams:
        """Those between machines that reach each other; what is sent between others crosses no network."""
        if reaches is None:
            return self
        kept = reaches[self.source, self.target]
        return Streams(self.executor[kept], self.source[kept], self.target[kept], self.size[kept])

    def slowest(self, share: Floats, executors: int) -> Floats:
        """Of each executor the smallest share of its streams; 1 without any."""
        found = np.ones(executors)
        np.minimum.at(found, self.executor, share)
        return found


def joined(levels: Sequence[Streams]) -> Streams:
    """The streams of all levels."""
    return Streams(*(np.concatenate([getattr(each, column.name) for each in levels]) for column in fields(Streams)))


def streams_of(groups: Groups, machine: Ints) -> Streams:
    """Of the executors of a level; `machine` of each executor."""
    places = np.bincount(groups.place_group, minlength=groups.number)
    number = places[groups.source_group]
    row = np.repeat(np.arange(len(groups.source)), number)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    place = (np.cumsum(places) - places)[groups.source_group[row]] + nth
    far = (machine[groups.source[row]] >= 0) & (place != groups.source_place[row])
    row, place = row[far], place[far]
    size = groups.source_selectivity[row] * groups.place_weight[place] * groups.group_bytes[groups.source_group[row]]
    executor = groups.source[row]
    return Streams(executor, machine[executor], groups.place_machine[place], size)


def received_bytes(groups: Groups, sent: Floats, total: Floats, machines: int) -> Floats:
    """Return, of each machine, what comes from others: `sent` tuples of each source row, `total` of each group."""
    here = groups.source_place >= 0
    own = sums(groups.source_place[here], sent[here], len(groups.place_group))
    far = groups.place_weight * (total[groups.place_group] - own)
    return sums(groups.place_machine, far * groups.group_bytes[groups.place_group], machines)


class Network:
    """Of a layout. `sent`, `received`: bytes a second of each machine that are not of streams (answers of ackers), in
    the step before."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.sent, self.received = np.zeros(layout.machines), np.zeros(layout.machines)

    @cached_property
    def levels(self) -> tuple[Streams, ...]:
        """Many in large clusters, so only looked at where a network is short."""
        return tuple(streams_of(groups, self.layout.machine) for groups in self.layout.groups)

    def begin_step(self, bandwidth: Floats, step_s: float, reaches: Flags | None) -> NetworkStep | None:
        """None where no machine has a limit. `bandwidth` in bytes a second, `reaches` as in Conditions."""
        if np.isinf(bandwidth).all():
            return None
        free = (np.maximum(bandwidth - other, 0.0) * step_s for other in (self.sent, self.received))
        return NetworkStep(self, reaches, *free)


class NetworkStep:
    """Bytes that each machine may send and receive yet in a step."""

    def __init__(self, network: Network, reaches: Flags | None, to_send: Floats, to_receive: Floats) -> None:
        self._network, self._layout, self._reaches = network, network.layout, reaches
        self._to_send, self._to_receive = to_send, to_receive

    def shared(self, capacity: Floats, wanted: Floats) -> Floats:
        """Return what executors can execute, if each stream of what they would (`wanted`) has a fair share of both
        networks: who sends little is not held up by who sends much."""
        of_levels = [self._bytes(number, part, wanted[part]) for number, part in enumerate(self._layout.slices())]
        if self._fits(*np.array(of_levels).reshape(-1, 2, self._layout.machines).sum(axis=0)):
            return capacity
        streams = joined(self._network.levels).within(self._reaches)
        for machine, free in ((streams.target, self._to_receive), (streams.source, self._to_send)):
            asked = wanted[streams.executor] * streams.size
            level = fair_level(asked, machine, free)[machine]
            slowest = streams.slowest(np.minimum(1.0, level / np.maximum(asked, TINY)), len(capacity))
            wanted = wanted * slowest
            capacity = np.where(slowest < 1.0, np.minimum(capacity, wanted), capacity)
        return np.asarray(capacity)

    def carry(self, number: int, part: slice, executed: Floats) -> Floats:
        """Return, of what a level's executors would execute, what is left of the networks takes; it is taken from
        them."""
        sent, received = self._bytes(number, part, executed)
        if self._reaches is None and self._fits(sent, received):
            self._take(sent, received)
            return executed
        streams = self._network.levels[number].within(self._reaches)
        whole = np.zeros(self._layout.size)
        whole[part] = executed
        asked = whole[streams.executor] * streams.size
        taken = np.ones(len(asked))
        for machine, free in ((streams.source, self._to_send), (streams.target, self._to_receive)):
            of_machines = sums(machine, asked * taken, len(free))
            taken *= np.minimum(1.0, free / np.maximum(of_machines, TINY))[machine]
        slowest = streams.slowest(taken, self._layout.size)
        carried = asked * slowest[streams.executor]
        machines = self._layout.machines
        self._take(sums(streams.source, carried, machines), sums(streams.target, carried, machines))
        return np.asarray(executed * slowest[part])

    def _bytes(self, number: int, part: slice, executed: Floats) -> tuple[Floats, Floats]:
        """That each machine would send and receive, if all reach each other."""
        layout, groups = self._layout, self._layout.groups[number]
        if not groups.number:
            return np.zeros(layout.machines), np.zeros(layout.machines)
        placed = layout.machine[part] >= 0
        bytes_of = (executed * layout.cross_bytes[part])[placed]
        rows = groups.of_sources(executed, part.start) * groups.source_selectivity
        received = received_bytes(groups, rows, groups.total(rows), layout.machines)
        return sums(layout.machine[part][placed], bytes_of, layout.machines), received

    def _fits(self, sent: Floats, received: Floats) -> bool:
        return bool((sent <= self._to_send).all() and (received <= self._to_receive).all())

    def _take(self, sent: Floats, received: Floats) -> None:
        self._to_send = np.maximum(self._to_send - sent, 0.0)
        self._to_receive = np.maximum(self._to_receive - received, 0.0)
