"""Trees of tuples in flight, where a topology has ackers: when they are complete, and what spouts may have in flight.

What is sent to Storm's acker are edges as all others: a tuple a tree from its spout, and one from each bolt a tuple
that it has processed, dealt by the tree's id. What the acker sends back follows from the trees that are complete: here.

A tree is counted where its slowest tuple is: that one's ack is the last. So a bolt hands the trees of what it executes
on to the edge below which most time is left, and what it does not send on ends there: to the acker with it.

Executors of a spout that send to the same targets have one kind of trees. Where each has targets of its own (routes, a
ring, those of its worker), so have its trees a kind of their own: a slow line fills the limit of its own spout only.
Source: Storm 2.8 (Acker, SpoutExecutor, RotatingMap).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scheduler_plugins.simulator.capacity import HIGHEST_UTILISATION
from scheduler_plugins.simulator.layout import TINY, Flags, Floats, Groups, Ints, Layout, sums, sums_of_each

LONGEST_S = 1e6  # that is left to a tuple which nobody serves
# A spout looks at what it has received in every fourth of its rounds (topology.spout.recvq.skips), and sleeps in each
# while it may not emit: on average half of that passes.
ROUNDS_OF_A_LOOK = 4


@dataclass(frozen=True)
class Returned:
    """What ackers have sent to spouts in a step: `acked` of each executor of a spout; bytes of each machine."""

    acked: Floats
    sent_bytes: Floats
    received_bytes: Floats


@dataclass
class Trees:
    """Of a layout. Rows of `waiting` are the kinds of trees of a topology; columns executors, in whose queue the
    slowest tuples of so many trees wait.

    `number`: of an executor of a spout with ackers, the kind of its trees; -1 of all others. `limit`: trees that it may
    have in flight; `patience_s`: how often it looks what to give up. `live`: trees that it has in flight, but for
    `lost`, which nobody completes any more: those of the last two times that it looked. `remaining_s`: from when a
    tuple comes to an executor until its tree is complete; `quick_s`: of a spout's trees, until it hears of one that met
    no other tuple; `queue_s`: the mean wait for others on the way, if its busiest executor worked half of the time.
    `thread_s`, `transfer_s`: CPU for what an acker sends back, a tuple. `allowed_per_s`: what a spout might emit, the
    step before; `back`: the share of it that it could hear of.
    """

    layout: Layout
    number: Ints
    limit: Floats
    patience_s: Floats
    waiting: Floats
    live: Floats
    lost: Floats
    acked_per_s: Floats
    remaining_s: Floats
    quick_s: Floats
    queue_s: Floats
    thread_s: Floats
    transfer_s: Floats
    allowed_per_s: Floats
    back: Floats

    @classmethod
    def of(cls, layout: Layout) -> Trees | None:
        """None where no topology has ackers."""
        size, known = layout.size, [0] * len(layout.topologies)
        number = np.full(size, -1, dtype=np.int64)
        limit, patience, allowed = (np.full(size, np.inf) for _ in range(3))
        for row, (topology, component) in enumerate(layout.components):
            acking = layout.topologies[topology].work.acking
            if acking is None or component.work.kind != "spout":
                continue
            part = slice(int(layout.begins[row]), int(layout.begins[row + 1]))
            kind = _kinds(layout, part)
            number[part], patience[part] = known[topology] + kind, acking.timeout_s
            if acking.pending is not None:
                limit[part] = acking.pending * layout.tasks[part]
            known[topology] += 1 + int(kind.max())
        kinds = max(known, default=0)
        if not kinds:
            return None
        waiting, lost = np.zeros((kinds, size)), np.zeros((2, size))
        names = ("live", "acked_per_s", "remaining_s", "quick_s", "queue_s", "thread_s", "transfer_s")
        columns = {name: np.zeros(size) for name in names}
        back = np.ones(size)
        return cls(layout, number, limit, patience, waiting, lost=lost, allowed_per_s=allowed, back=back, **columns)

    @property
    def kinds(self) -> int:
        return len(self.waiting)

    @cached_property
    def has_limit(self) -> bool:
        return bool(np.isfinite(self.limit).any())

    @cached_property
    def comes_by(self) -> Flags:
        """Return whether trees of a kind come to an executor."""
        layout = self.layout
        found = np.asarray(np.arange(self.kinds)[:, None] == self.number)
        for groups in layout.groups:
            if groups.number:
                sent = sums_of_each(groups.source_group, found[:, groups.source].astype(np.float64), groups.number)
                arriving = sent[:, groups.target_group] * groups.target_weight
                found |= sums_of_each(groups.target, arriving, layout.size) > 0
        return found

    @cached_property
    def others(self) -> Floats:
        """Return, of each executor, the share of the trees that come by which are not the one in question: what a tuple
        can meet is what else may be in flight (Schweitzer's approximation for closed networks, 1979)."""
        mine, cell = self._cells()
        limits = sums(cell, self.limit[mine], self.cells).reshape(self.kinds, -1)
        most = np.where(self.comes_by, limits[:, self.layout.topology], 0.0).sum(axis=0)
        return np.asarray(1.0 - 1.0 / np.maximum(most, 1.0))

    @property
    def pending(self) -> Floats:
        """Return, of each executor of a spout: trees that it has not heard of."""
        return np.asarray(self.live + self.lost.sum(axis=0))

    def begin_step(self) -> TreeStep:
        return TreeStep(self)

    def bounded(self, capacity: Floats, through: Floats, up: Floats, reaches: Flags | None, step_s: float) -> Floats:
        """Return what executors can do in a step, of which spouts emit only what they may.

        Trees on their way are rate x time (Little), and the time is `quick_s` and a wait that grows with the rate as
        load / (1 - load) does. Where that would take more load than there ever is, trees wait in queues of the fluid:
        then a spout emits what comes back, which is what came in the step before, and what is free of its limit.
        `through`: what each spout could emit in the step without a queue that grows, if it hears of it; `up` and
        `reaches` as in Conditions. Of what does not come back it emits no more than its limit.
        """
        is_limited = np.isfinite(self.limit)
        trees = np.maximum(np.where(is_limited, self.limit, 0.0) - self.lost.sum(axis=0), 0.0)
        back, before = self._back(up, reaches), self.back
        most = np.maximum(self.acked_per_s * step_s * np.minimum(back / np.maximum(before, TINY), 1.0), through * back)
        most = np.maximum(most, TINY)
        way, queue = most * self.quick_s / step_s, most * self.queue_s / step_s
        load = 2.0 * trees / np.maximum(way + trees + np.sqrt((way - trees) ** 2 + 4.0 * trees * queue), TINY)
        allowed = np.maximum(trees - self.live + most, 0.0) / (1.0 + self.quick_s / step_s)
        allowed = np.where(load < HIGHEST_UTILISATION, np.minimum(load * most, allowed), allowed)
        allowed = np.minimum(allowed, trees / np.maximum(1.0 - back, TINY))
        self.back = back
        self.allowed_per_s = np.where(is_limited, allowed / step_s, np.inf)
        return np.asarray(np.minimum(capacity, self.allowed_per_s * step_s))

    def _back(self, up: Floats, reaches: Flags | None) -> Floats:
        """Return, of each executor, the share of the trees that come to it which a spout will hear of: on their way are
        machines and workers that are there, for all or a part of the step, and reach each other."""
        layout = self.layout
        up = (up > 0.0).astype(np.float64)
        if reaches is None and up[~layout.is_spout].all():
            return np.ones(layout.size)
        share = np.where(layout.is_system, up, 0.0)
        for groups in reversed(layout.groups):
            if groups.number:
                below = _below(groups, share) if reaches is None else self._below_reached(groups, share, reaches)
                sent = sums(groups.source, self.split(groups) * below, layout.size)
                share += np.where(layout.is_spout, 1.0, up) * sent
        if reaches is None:
            return np.minimum(share, 1.0)
        return np.minimum(share, self._share_at(np.where(layout.is_system, layout.tasks, 0.0), reaches.T))

    def _below_reached(self, groups: Groups, share: Floats, reaches: Flags) -> Floats:
        """As `_below`, where the other targets of a source have none."""
        machine, machines = self.layout.machine, self.layout.machines
        placed = machine[groups.target] >= 0
        cell = groups.target_group * machines + machine[groups.target]
        values = (groups.target_weight * share[groups.target])[placed]
        at = sums(cell[placed], values, groups.number * machines).reshape(groups.number, machines)
        weight = sums(groups.target_group, groups.target_weight, groups.number)
        reached = (at @ reaches.T.astype(np.float64)) / np.maximum(weight, TINY)[:, None]
        source = machine[groups.source]
        return np.where(source >= 0, reached[groups.source_group, source], 0.0)

    # What becomes of trees

    def returned(self, executed: Floats, ended: Floats, reaches: Flags | None, step_s: float) -> Returned:
        """`ended`: trees that each acker found complete, by kind and executor. Of those whose acker does not reach it a
        spout hears nothing, as if they were lost."""
        layout, costs = self.layout, self.layout.costs
        acked = complete = self._take(ended)
        done, others = ended.sum(axis=0), ~np.eye(layout.machines, dtype=bool)
        if reaches is not None:
            acked, others = complete * self._share_at(done, reaches.T), others & reaches
            self.lost[0] += complete - acked
        self.acked_per_s = acked / step_s
        size = np.array([0.0 if t.work.acking is None else t.work.acking.ack_bytes for t in layout.topologies] + [0.0])
        ack_bytes = size[layout.topology] + costs.frame_bytes
        rate = done / np.maximum(executed, TINY)
        self.thread_s = rate * costs.local_emit_ms / 1000.0
        of_remote_ms = costs.remote_emit_ms + costs.remote_kb_ms * ack_bytes / 1000.0
        self.transfer_s = rate * self._away(done, complete) * of_remote_ms / 1000.0
        sent = done * self._share_at(complete, others) * ack_bytes
        received = complete * self._share_at(done, others.T) * ack_bytes
        placed = layout.machine >= 0
        of_machines = (sums(layout.machine[placed], each[placed], layout.machines) for each in (sent, received))
        return Returned(acked, *of_machines)

    def _share_at(self, theirs: Floats, machines: Flags) -> Floats:
        """Return, of each executor: the share of its topology's `theirs` at `machines` (a row for each that it may be
        on)."""
        layout, number = self.layout, len(self.layout.topologies)
        placed = layout.machine >= 0
        cell = layout.topology[placed] * layout.machines + layout.machine[placed]
        there = sums(cell, theirs[placed], number * layout.machines).reshape(number, -1)
        share = there @ machines.T / np.maximum(there.sum(axis=1), TINY)[:, None]
        return np.where(placed, share[layout.topology, layout.machine], 0.0)

    def _away(self, mine: Floats, theirs: Floats) -> Floats:
        """Return, of each executor with any of `mine`: the share of its topology's `theirs` that are in another
        worker."""
        topology, place = self.layout.topology, self.layout.worker
        cell = topology * (int(place.max(initial=0)) + 2) + place + 1
        there = sums(cell, theirs, int(cell.max(initial=0)) + 1)[cell]
        total = sums(topology, theirs, len(self.layout.topologies))[topology]
        return np.asarray(np.where(mine > 0, 1.0 - there / np.maximum(total, TINY), 0.0))

    def _take(self, of_trees: Floats, where: Ints | None = None) -> Floats:
        """Take so many (by kind, and by executor or by `where`) of spouts' live trees, shared among the executors that
        have trees of the kind by what each has in flight. Returns what each has given."""
        layout, topologies = self.layout, len(self.layout.topologies)
        topology = layout.topology if where is None else layout.topology[where]
        wanted = sums_of_each(topology, of_trees, topologies).ravel()
        mine, cell = self._cells()
        share = np.minimum(1.0, wanted / np.maximum(sums(cell, self.live[mine], self.cells), TINY))
        given = np.zeros(layout.size)
        given[mine] = self.live[mine] * share[cell]
        self.live -= given
        return given

    @property
    def cells(self) -> int:
        """Kinds of all topologies."""
        return self.kinds * len(self.layout.topologies)

    def _cells(self) -> tuple[Ints, Ints]:
        """Executors of spouts, and a number for the kind of each one's trees."""
        mine = np.flatnonzero(self.number >= 0)
        return mine, self.number[mine] * len(self.layout.topologies) + self.layout.topology[mine]

    def lose(self, of_trees: Floats, where: Ints) -> None:
        """Of these executors (`where`) so many trees, by kind: their spouts wait for them until they give them up."""
        if of_trees.any():
            self.lost[0] += self._take(of_trees, where)

    def give_up(self, begin_s: float, end_s: float) -> None:
        """What was lost before a spout looked the last time is out when it looks again."""
        due = np.floor(end_s / self.patience_s) > np.floor(begin_s / self.patience_s)
        self.lost[1, due], self.lost[0, due] = self.lost[0, due], 0.0

    def end(self, gone: Flags) -> None:
        """Of executors whose process ends: a spout forgets its trees, an acker its share of all; what waits is lost."""
        layout, topologies = self.layout, len(self.layout.topologies)
        self._forget(gone & (self.number >= 0))
        bolts = np.flatnonzero(gone & ~layout.is_spout)
        self.lose(self.waiting[:, bolts], bolts)
        self.waiting[:, bolts] = 0.0
        ackers, ended = (
            sums(layout.topology, each.astype(np.float64), topologies)
            for each in (layout.is_system, layout.is_system & gone)
        )
        share = (ended / np.maximum(ackers, 1.0))[layout.topology]
        self.lost[0] += self.live * share
        self.live *= 1.0 - share
        self.waiting *= 1.0 - share

    def _forget(self, gone: Flags) -> None:
        """Trees whose spout is gone are complete for nobody."""
        mine, cell = self._cells()
        ended, there = (sums(cell, (self.live * each)[mine], self.cells) for each in (gone, 1.0))
        share = (ended / np.maximum(there, TINY)).reshape(self.kinds, -1)
        self.waiting *= 1.0 - share[:, self.layout.topology]
        self.live[gone] = self.lost[:, gone] = 0.0

    def carry_over(self, new: Trees, rows: Ints, old_rows: Ints) -> None:
        """Executors whose processes go on keep what they have: `rows` of the new layout were `old_rows`. A kind of
        trees is known by a spout's executor that goes on; those of the others have been forgotten."""
        stays = new.number[rows] >= 0
        before = np.full((new.kinds, len(new.layout.topologies)), -1, dtype=np.int64)
        before[new.number[rows[stays]], new.layout.topology[rows[stays]]] = self.number[old_rows[stays]]
        kinds = before[:, new.layout.topology[rows]]
        new.waiting[:, rows] = np.where(kinds >= 0, self.waiting[kinds, old_rows], 0.0)
        new.lost[:, rows] = self.lost[:, old_rows]
        for name in ("live", "acked_per_s", "remaining_s", "quick_s", "queue_s"):
            getattr(new, name)[rows] = getattr(self, name)[old_rows]

    # The way of a tree

    def split(self, groups: Groups) -> Floats:
        """Return, of each source row, the share of its executor's trees that go with what it sends: with what it sends
        on (`selectivity`) to the edge below which most time is left; the rest ends, and goes to the acker."""
        is_own = groups.group_is_own[groups.source_group]
        executor, number = np.searchsorted(groups.source_executors, groups.source), len(groups.source_executors)
        left = np.where(is_own, _below(groups, self.remaining_s) + self.layout.hop_s(groups), -1.0)
        most = np.maximum.reduceat(left, groups.source_begins)[executor]
        chosen = is_own & (left >= most - TINY)
        on = np.where(chosen, np.minimum(groups.source_selectivity, 1.0), 0.0)
        on /= np.maximum(sums(executor, chosen.astype(float), number), 1.0)[executor]
        rest = 1.0 - np.minimum(sums(executor, on, number), 1.0)
        return np.asarray(np.where(is_own, on, rest[executor]))

    def look_ahead(self, fluid_s: Floats, own_s: Floats, waits_s: Floats, busy: Floats) -> None:
        """From the ackers to the spouts: how long trees will take. Of a tuple at each executor: `own_s` if it meets no
        other, `waits_s` for others where the fluid has no queue, `fluid_s` in that queue; `busy`: its share of time."""
        layout = self.layout
        met_s = waits_s * self.others
        self.remaining_s, self.quick_s, self.queue_s = np.minimum(fluid_s, LONGEST_S) + own_s, own_s.copy(), met_s
        for groups in reversed(layout.groups):
            if groups.number:
                split, hop_s = self.split(groups), layout.hop_s(groups)
                for times, hops in ((self.remaining_s, hop_s), (self.quick_s, hop_s), (self.queue_s, 0.0)):
                    below = sums(groups.source, split * (_below(groups, times) + hops), layout.size)
                    np.add(times, below, out=times)
        back_s = layout.costs.remote_hop_ms / 1000.0 + ROUNDS_OF_A_LOOK * layout.idle_sleep_s / 2
        self.quick_s[layout.is_spout] += back_s[layout.is_spout]
        mine = self.number >= 0
        load = self._busiest(np.minimum(busy, HIGHEST_UTILISATION))[self.number[mine], layout.topology[mine]]
        self.queue_s[mine] *= (1.0 - load) / np.maximum(load, TINY)

    def _busiest(self, busy: Floats) -> Floats:
        """The busiest executor on the way of each kind of trees, by topology."""
        layout, found = self.layout, np.zeros((self.kinds, len(self.layout.topologies)))
        of_components = np.maximum.reduceat(np.where(self.comes_by, busy, 0.0), layout.begins[:-1], axis=1)
        for row, (topology, _) in enumerate(layout.components):
            np.maximum(found[:, topology], of_components[:, row], out=found[:, topology])
        return found


class TreeStep:
    """The trees of one step, beside its tuples. Arrays are by kind and executor."""

    def __init__(self, trees: Trees) -> None:
        self._trees, size = trees, trees.layout.size
        self._arrived, self._executed = np.zeros((trees.kinds, size)), np.zeros((trees.kinds, size))
        self._own_s, self._waits_s, self._busy = np.zeros(size), np.zeros(size), np.zeros(size)

    def arrive(self, part: slice, up: Floats) -> Floats:
        """Of the executors of a level; what comes while there is no worker is lost."""
        arrived = self._arrived[:, part]
        self._trees.lose(arrived * (1.0 - up), np.arange(part.start, part.stop))
        return np.asarray(arrived * up)

    def execute(self, part: slice, arrived: Floats | None, there: Floats, executed: Floats) -> Floats:
        """Trees that go with what is `executed` of the tuples that are `there`; without arrivals, those that spouts
        begin."""
        trees = self._trees
        if arrived is None:
            number = trees.number[part]
            begun = np.where(number >= 0, executed, 0.0)
            trees.live[part] += begun
            gone = np.asarray((np.arange(trees.kinds)[:, None] == number) * begun)
        else:
            whole = trees.waiting[:, part] + arrived
            gone = np.asarray(whole * np.where(there > TINY, executed / np.maximum(there, TINY), 1.0))
            trees.waiting[:, part] = whole - gone
        self._executed[:, part] = gone
        return gone

    def note_own(self, part: slice, own_s: Floats) -> None:
        """Of a tuple at each executor of a level that meets no other."""
        self._own_s[part] = own_s

    def note_queue(self, part: slice, waits_s: Floats, busy: Floats) -> None:
        """Of a tuple that waits for others where the fluid has no queue, and the share of time that executors work."""
        self._waits_s[part], self._busy[part] = waits_s, busy

    def pass_on(self, of_rows: Floats, groups: Groups, reaches: Flags | None) -> None:
        """`of_rows`: trees of each source row's executor; `reaches`: as in Conditions."""
        trees, to = self._trees, groups.target_group
        of_rows = of_rows * trees.split(groups)
        weight = groups.target_weight / np.maximum(sums(to, groups.target_weight, groups.number), TINY)[to]
        arriving = sent = sums_of_each(groups.source_group, of_rows, groups.number)[:, to] * weight
        if reaches is not None:
            arriving = self._that_reaches(of_rows, groups, reaches) * weight
            trees.lose(np.maximum(sent - arriving, 0.0), groups.target)
        self._arrived += sums_of_each(groups.target, arriving, trees.layout.size)

    def _that_reaches(self, of_rows: Floats, groups: Groups, reaches: Flags) -> Floats:
        """At each target row, what of its group's trees comes from machines that reach its own."""
        layout = self._trees.layout
        source, target = layout.machine[groups.source], layout.machine[groups.target]
        placed, machines = source >= 0, layout.machines
        cell = groups.source_group[placed] * machines + source[placed]
        by_machine = sums_of_each(cell, of_rows[:, placed], groups.number * machines)
        reached = by_machine.reshape(-1, groups.number, machines) @ reaches.astype(np.float64)
        return np.where(target >= 0, reached[:, groups.target_group, target], 0.0)

    def finish(
        self, executed: Floats, fluid_s: Floats, reaches: Flags | None, begin_s: float, step_s: float
    ) -> Returned:
        """Return what ackers send back; then spouts give up, and look how long trees will take. `fluid_s`: of a tuple
        at each executor, in the queue of the fluid."""
        trees = self._trees
        back = trees.returned(executed, np.where(trees.layout.is_system, self._executed, 0.0), reaches, step_s)
        trees.give_up(begin_s, begin_s + step_s)
        trees.look_ahead(fluid_s, self._own_s, self._waits_s, self._busy)
        return back


def _kinds(layout: Layout, spout: slice) -> Ints:
    """Return, of each executor of a spout, the number of the groups that it sends to: executors that send alike have
    one."""
    groups = layout.groups[0]
    mine = (groups.source >= spout.start) & (groups.source < spout.stop)
    sends_to = groups.source_group[mine].reshape(spout.stop - spout.start, -1)  # rows are by executor
    return np.asarray(np.unique(sends_to, axis=0, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def _below(groups: Groups, times_s: Floats) -> Floats:
    """Return, of each source row, the mean over its group's targets."""
    weight = sums(groups.target_group, groups.target_weight, groups.number)
    total = sums(groups.target_group, groups.target_weight * times_s[groups.target], groups.number)
    return np.asarray((total / np.maximum(weight, TINY))[groups.source_group])
