"""One step of all tuples: what is due or arrives, what executors can do, what queues hold back, what is lost.

Tuples are a fluid: a number that may be a part of one. A queue serves in order, so of its tuples only the origin (the
intended emission time) of the oldest and of the newest is kept, and those between are taken as evenly spread; that is
exact as long as what feeds it is even. Waiting that the fluid has not, for an executor that is not saturated, is that
of `waits`. Both halves are judged tuple by tuple in bench/simulator.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from scheduler_plugins.simulator.acking import Trees
from scheduler_plugins.simulator.capacity import (
    Backlog,
    Capacity,
    Conditions,
    TupleCosts,
    idle_wait_s,
    most_by_queues,
    queue_wait_s,
    room,
)
from scheduler_plugins.simulator.layout import TINY, Flags, Floats, Groups, Layout, sums
from scheduler_plugins.simulator.network import Network, NetworkStep, received_bytes

LATE_S = 1.0  # after it was due, as workers count it
MOST_DROPS = 100.0  # whose cost a tuple that is executed can bear: some are, however many come


@dataclass
class Queues:
    """Of each executor: tuples that wait (a spout's are due and not emitted), origins (s) of the oldest and newest."""

    waiting: Floats
    oldest: Floats
    newest: Floats

    @classmethod
    def empty(cls, size: int, now: float) -> Queues:
        """Of `size` executors, with nothing in them at `now` (s)."""
        return cls(np.zeros(size), np.full(size, now), np.full(size, now))


@dataclass
class Counters:
    """Of each executor since they were last taken; `*_s` are seconds."""

    due: Floats
    executed: Floats
    dropped: Floats
    lost: Floats
    missed: Floats
    late: Floats
    acked: Floats  # trees that a spout has heard of
    busy_s: Floats
    cpu_s: Floats
    blocked_s: Floats
    latency_s: Floats  # sum over tuples, at sinks
    square_s2: Floats  # sum of squares, at sinks
    arrived: list[Floats]  # of each level's groups: at each target row

    @classmethod
    def zero(cls, layout: Layout) -> Counters:
        columns = {each.name: np.zeros(layout.size) for each in fields(cls) if each.name != "arrived"}
        return cls(arrived=[np.zeros(len(level.target)) for level in layout.groups], **columns)


@dataclass
class MachineCounters:
    """Of each machine since they were last taken. `runnable_s`: what all threads together ran or waited for a CPU."""

    cpu_s: Floats
    runnable_s: Floats
    sent_bytes: Floats
    received_bytes: Floats

    @classmethod
    def zero(cls, machines: int) -> MachineCounters:
        return cls(*(np.zeros(machines) for _ in fields(cls)))


@dataclass
class Flow:
    """Tuples under way in a layout. `trees`: where there are ackers."""

    layout: Layout
    queues: Queues
    counters: Counters
    machines: MachineCounters
    arrivals: Floats  # of the step before, a second
    network: Network
    capacity: Capacity
    trees: Trees | None
    busy: Floats  # share of the step before in which each executor served tuples
    drops: Floats  # of the step before, a tuple that was executed

    @classmethod
    def begin(cls, layout: Layout, now: float) -> Flow:
        """Nothing is under way at `now` (s) and nothing counted; no machine or network was short of anything."""
        queues, counters = Queues.empty(layout.size, now), Counters.zero(layout)
        machines, arrivals = MachineCounters.zero(layout.machines), np.zeros(layout.size)
        network, capacity, busy, drops = Network(layout), Capacity(layout), np.zeros(layout.size), np.zeros(layout.size)
        return cls(layout, queues, counters, machines, arrivals, network, capacity, Trees.of(layout), busy, drops)

    def step(self, now: Conditions) -> None:
        # Threads that look for tuples want CPU as those that are no executors do: they stand behind them.
        looking = self.layout.looking
        looks = (now.up * (1.0 - self.busy) * self.layout.look_cores)[looking]
        others, machine = np.append(now.others, looks), np.append(now.others_machine, self.layout.machine[looking])
        now = replace(now, others=others, others_machine=machine)
        thread_s, transfer_s = self.layout.thread_s + self.layout.receive_s * self.drops, self.layout.transfer_s
        allowed = np.full(self.layout.size, np.inf)  # tuples that a spout may emit by its trees
        if self.trees is not None:
            thread_s, transfer_s = thread_s + self.trees.thread_s, transfer_s + self.trees.transfer_s
            allowed = self.trees.allowed_per_s * now.step_s
        costs = TupleCosts(self.layout.sleep_s / now.speed, thread_s / now.speed, transfer_s)
        costs = self.capacity.awake(now, costs)
        capacity = self.capacity.tuples(now, costs, Backlog(self.queues.waiting, self.arrivals, allowed))
        network = self.network.begin_step(now.bandwidth, now.step_s, now.reaches)
        if network is not None:
            capacity = network.shared(capacity, self._wanted(now, capacity, allowed))
        if self.trees is not None and self.trees.has_limit:
            free = np.where(self.layout.is_spout, 0.0, -self.queues.waiting)
            through = np.minimum(capacity, self._held(capacity, now.due, free))
            capacity = self.trees.bounded(capacity, through, now.up, now.reaches, now.step_s)
            self.capacity.is_tight = True  # spouts may emit more than in the step before
        held = None
        if self.capacity.is_bounded:
            held = self._held(np.minimum(capacity, self.capacity.most), now.due, self._room(now))
        step = _Step(self, now, costs, capacity, held, network)
        for number, part in enumerate(self.layout.slices()):
            arrivals = step.fall_due(part) if number == 0 else step.arrive(part)
            step.execute(arrivals, number)
        step.finish()

    def _wanted(self, now: Conditions, capacity: Floats, allowed: Floats) -> Floats:
        """Tuples that each executor would execute in the step, as far as that can be foreseen."""
        spout = self.layout.is_spout
        wanted = np.minimum(self.queues.waiting + np.where(spout, now.due, self.arrivals * now.step_s), capacity)
        wanted = np.minimum(wanted, np.where(spout, allowed, np.inf))
        if self.capacity.is_bounded:
            wanted = np.minimum(wanted, self._held(capacity, now.due, self._room(now)))
        return wanted

    def _room(self, now: Conditions) -> Floats:
        return room(self.layout, self.queues.waiting, now.up)

    def _held(self, capacity: Floats, due: Floats, free: Floats) -> Floats:
        return most_by_queues(self.layout, self.queues.waiting, due, capacity, free)


@dataclass(frozen=True)
class _Arrivals:
    """What comes to the executors of a level in a step, the oldest first: tuples, their mean origin (s), `width` from
    the oldest to the newest origin (s), the variance of ages among those that come at once (s²), and the short delays
    of their way that the fluid does not have (s). `trees`: whose slowest tuples they are, by kind."""

    part: slice
    tuples: Floats
    origin: Floats
    width: Floats
    spread: Floats
    delay: Floats
    trees: Floats | None


class _Step:
    """What one step has found so far."""

    def __init__(
        self,
        flow: Flow,
        now: Conditions,
        costs: TupleCosts,
        capacity: Floats,
        held: Floats | None,
        network: NetworkStep | None,
    ) -> None:
        layout = flow.layout
        self._flow, self._now, self._capacity, self._held, self._network = flow, now, capacity, held, network
        self._thread_s, self._transfer_s = costs.thread_s, costs.transfer_s
        self._arrived = np.zeros(layout.size)
        self._origin = np.zeros(layout.size)  # sum over what arrived, as are the next three
        self._width = np.zeros(layout.size)
        self._spread = np.zeros(layout.size)
        self._delay = np.zeros(layout.size)
        self._executed, self._dropped = np.zeros(layout.size), np.zeros(layout.size)
        self._sent, self._received = np.zeros(layout.machines), np.zeros(layout.machines)
        self._middle = now.begin + now.step_s / 2
        self._left_s: Floats | None = None  # CPU that each machine has for tuples, beside its other threads
        if flow.capacity.is_tight:
            others = np.minimum(now.others, flow.capacity.level[now.others_machine])
            self._left_s = (now.cores - sums(now.others_machine, others, layout.machines)) * now.step_s
            granted_s = flow.capacity.granted_s
            self._promised_s = self._of_machines(slice(None), granted_s)  # to those that have not executed yet
        self._tree_flow = None if flow.trees is None else flow.trees.begin_step()

    def _within_cores(self, part: slice, executed: Floats) -> Floats:
        """Return, of what executors would do, what their machines have CPU for: others may have sent more than was
        expected. First what each is sure of; beyond it what those that come later are not sure of."""
        if self._left_s is None:
            return executed
        machine = self._flow.layout.machine[part]
        cpu_s = executed * (self._thread_s[part] + self._transfer_s[part])
        granted_s = self._flow.capacity.granted_s[part]
        sure = np.minimum(cpu_s, granted_s)
        more = cpu_s - sure
        self._promised_s -= self._of_machines(part, granted_s)
        asked, left = self._of_machines(part, sure), np.maximum(self._left_s, 0.0)
        first = np.minimum(1.0, left / np.maximum(asked, TINY))
        free = np.maximum(left - asked * first - self._promised_s, 0.0)
        then = np.minimum(1.0, free / np.maximum(self._of_machines(part, more), TINY))
        done = sure * first[machine] + more * then[machine]
        return np.asarray(executed * np.where((machine >= 0) & (cpu_s > 0), done / np.maximum(cpu_s, TINY), 1.0))

    def _of_machines(self, part: slice, values: Floats) -> Floats:
        """Sums of the values of these executors, by machine."""
        layout, machine = self._flow.layout, self._flow.layout.machine[part]
        return sums(machine[machine >= 0], values[machine >= 0], layout.machines)

    def fall_due(self, part: slice) -> _Arrivals:
        """At sources: what is due. One that emits as fast as it can has what it can do; see `_as_emitted`."""
        now, counters = self._now, self._flow.counters
        is_paced = np.isfinite(now.due[part])
        due = np.where(is_paced, now.due[part], self._capacity[part])
        missed = np.where(now.catches_up[part] | ~is_paced, 0.0, due * (1.0 - now.up[part]))
        counters.due[part] += np.where(is_paced, due, 0.0)
        counters.missed[part] += missed
        nothing = np.zeros(len(due))
        middle, width = nothing + self._middle, nothing + now.step_s
        return _Arrivals(part, due - missed, middle, width, nothing, nothing, None)

    def arrive(self, part: slice) -> _Arrivals:
        """At bolts: what those before them have sent; what comes while there is no worker is lost."""
        arrived, up = self._arrived[part], self._now.up[part]
        self._flow.counters.lost[part] += arrived * (1.0 - up)
        safe = np.maximum(arrived, TINY)
        origin = np.where(arrived > TINY, self._origin[part] / safe, self._middle)
        width, spread, delay = (each[part] / safe for each in (self._width, self._spread, self._delay))
        trees = None if self._tree_flow is None else self._tree_flow.arrive(part, up)
        return _Arrivals(part, arrived * up, origin, width, spread, delay, trees)

    def execute(self, arrivals: _Arrivals, number: int) -> None:
        part, groups = arrivals.part, self._flow.layout.groups[number]
        there = self._flow.queues.waiting[part] + arrivals.tuples
        executed = np.minimum(there, self._capacity[part])
        if groups.number and self._held is not None:
            factor = np.minimum(1.0, self._held[part] / np.maximum(executed, TINY))
            self._flow.counters.blocked_s[part] += self._now.step_s * self._now.up[part] * (1.0 - factor)
            executed = executed * factor
        executed = self._within_cores(part, executed)
        if self._network is not None:
            executed = self._network.carry(number, part, executed)
        if self._left_s is not None:
            self._left_s -= self._of_machines(part, executed * (self._thread_s[part] + self._transfer_s[part]))
        if number == 0:
            arrivals, there = self._as_emitted(arrivals, there, executed)
        self._executed[part] = executed
        trees = None if self._tree_flow is None else self._tree_flow.execute(part, arrivals.trees, there, executed)
        dropped = self._dropped[part] = np.maximum(there - executed - self._flow.layout.limit[part], 0.0)
        origin, width = self._serve(arrivals, there, executed + dropped)
        own, scatter = self._own_delay(part, executed)
        spread, delay = arrivals.spread + scatter, arrivals.delay + own
        sent = _Arrivals(part, executed, origin, width, spread, delay, trees)
        self._count_ages(sent, number)
        if groups.number:
            self._flow.counters.arrived[number] += self._pass_on(sent, groups)

    def _as_emitted(self, arrivals: _Arrivals, there: Floats, executed: Floats) -> tuple[_Arrivals, Floats]:
        """At sources: where one emits as fast as it can, what is due is what it emits. Nothing waits there."""
        part = arrivals.part
        is_free = np.isinf(self._now.due[part])
        if not is_free.any():
            return arrivals, there
        self._flow.counters.due[part] += np.where(is_free, executed, 0.0)
        emitted = replace(arrivals, tuples=np.where(is_free, executed, arrivals.tuples))
        return emitted, np.where(is_free, executed, there)

    def _serve(self, arrivals: _Arrivals, there: Floats, taken: Floats) -> tuple[Floats, Floats]:
        """Mean origin of what is taken, and from its oldest to its newest (s); what waits moves on."""
        queues, part = self._flow.queues, arrivals.part
        before, left = queues.waiting[part].copy(), there - taken
        left[left < TINY] = 0.0
        first, last = arrivals.origin - arrivals.width / 2, arrivals.origin + arrivals.width / 2
        if not before.any() and not left.any():
            queues.oldest[part] = queues.newest[part] = last
            return arrivals.origin, arrivals.width
        old = np.minimum(taken, before)
        new = taken - old
        oldest, newest = queues.oldest[part], queues.newest[part]
        reached = oldest + (newest - oldest) * np.where(before > TINY, old / np.maximum(before, TINY), 1.0)
        end = first + arrivals.width * np.minimum(1.0, new / np.maximum(arrivals.tuples, TINY))
        both = old * (oldest + reached) / 2 + new * (first + end) / 2
        origin = np.where(taken > TINY, both / np.maximum(taken, TINY), arrivals.origin)
        width = np.where(new > TINY, end, reached) - np.where(old > TINY, oldest, first)
        queues.waiting[part] = left
        queues.oldest[part] = np.where(before - old > TINY, reached, end)
        queues.newest[part] = np.where(arrivals.tuples - new > TINY, last, newest)
        queues.newest[part] = np.maximum(queues.newest[part], queues.oldest[part])
        return origin, np.maximum(width, 0.0)

    def _own_delay(self, part: slice, executed: Floats) -> tuple[Floats, Floats]:
        """Of a tuple that finds no queue in the fluid: its mean time at the executor (s), and the variance of it (s²).

        What arrives is taken as random, since a shuffle mixes what several tasks send. Sources emit by their schedule:
        a tuple waits there only until its executor looks whether one is due.
        """
        flow, layout = self._flow, self._flow.layout
        service, cv2 = flow.capacity.service_s[part], layout.cv2[part]
        is_idle = flow.queues.waiting[part] <= 0.0  # at times; else its queue is the fluid's
        own, waits, scatter = service, np.zeros(len(service)), np.zeros(len(service))
        if part.start:
            busy = executed / np.maximum(self._capacity[part], TINY)
            waits = queue_wait_s(busy, cv2, service)
            scatter = (waits * is_idle) ** 2 + cv2 * service**2
            if self._tree_flow is not None:
                self._tree_flow.note_queue(part, waits, busy)
        if layout.has_waits:
            looks = is_idle if part.start else is_idle & np.isfinite(self._now.due[part])
            rate = executed / self._now.step_s
            mean, variance = idle_wait_s(rate, layout.spin_s[part], layout.idle_sleep_s[part])
            own, scatter = own + mean * looks, scatter + variance * looks
        if flow.capacity.wake_s.any():  # a thread that begins to work waits for a CPU
            machine = layout.machine[part]
            own = own + np.where(is_idle & (machine >= 0), flow.capacity.wake_s[machine], 0.0)
        if self._tree_flow is not None:
            self._tree_flow.note_own(part, own)
        return own + waits * is_idle, scatter

    def _pass_on(self, by: _Arrivals, groups: Groups) -> Floats:
        now = self._now
        begin = by.part.start
        sent = groups.of_sources(by.tuples, begin) * groups.source_selectivity
        total = groups.total(sent)
        safe = np.maximum(total, TINY)
        origin = groups.of_sources(by.origin, begin)
        mean = groups.total(sent * origin) / safe
        about = groups.of_sources(by.spread, begin) + (origin - groups.of_source_groups(mean)) ** 2
        arriving = groups.of_target_groups(total) * groups.target_weight
        if now.reaches is None:
            self._received += received_bytes(groups, sent, total, self._flow.layout.machines)
        else:
            arriving = self._that_reaches(groups, arriving, sent, now.reaches)
        if self._tree_flow is not None and by.trees is not None:
            row = groups.source - begin
            self._tree_flow.pass_on(by.trees[:, row], groups, now.reaches)
        self._arrived[groups.span] += groups.at_targets(arriving)
        self._origin[groups.span] += groups.at_targets(arriving * groups.of_target_groups(mean))
        width = groups.of_sources(by.width, begin)
        delay = groups.of_sources(by.delay, begin) + self._flow.layout.hop_s(groups)
        for arrived, each in ((self._width, width), (self._spread, about), (self._delay, delay)):
            of_groups = groups.total(sent * each) / safe
            arrived[groups.span] += groups.at_targets(arriving * groups.of_target_groups(of_groups))
        return np.asarray(arriving)

    def _that_reaches(self, groups: Groups, arriving: Floats, sent: Floats, reaches: Flags) -> Floats:
        """Take out what is sent between machines that do not reach each other: it is lost, and crosses no network."""
        layout = self._flow.layout
        machines = layout.machines
        source, target = layout.machine[groups.source], layout.machine[groups.target]
        placed = source >= 0
        by_machine = sums(
            groups.source_group[placed] * machines + source[placed], sent[placed], groups.number * machines
        ).reshape(groups.number, machines)
        places = groups.place_group * machines + groups.place_machine
        to_machine = sums(places, groups.place_weight, groups.number * machines).reshape(groups.number, machines)
        others, each = reaches & ~np.eye(machines, dtype=bool), groups.group_bytes[:, None]
        self._received += (each * to_machine * (by_machine @ others)).sum(axis=0)
        self._sent += (each * by_machine * (to_machine @ others.T)).sum(axis=0)
        reached = by_machine @ reaches.astype(np.float64)
        kept = np.where(target >= 0, reached[groups.target_group, target], 0.0) * groups.target_weight
        self._flow.counters.lost += sums(groups.target, np.maximum(arriving - kept, 0.0), layout.size)
        return np.asarray(kept)

    def _count_ages(self, sent: _Arrivals, number: int) -> None:
        """Who leaves later in the step is younger by as much, but where a backlog grows or melts."""
        counters, layout, part = self._flow.counters, self._flow.layout, sent.part
        age = self._middle - sent.origin
        if part.start == 0:
            counters.late[part] += np.where(age > LATE_S, sent.tuples, 0.0)
        if not layout.has_sinks[number]:
            return
        latency = np.maximum(age, 0.0) + sent.delay
        spread = sent.spread + (self._now.step_s - sent.width) ** 2 / 12
        at_sinks = sent.tuples * layout.sinks[part]
        counters.latency_s[part] += at_sinks * latency
        counters.square_s2[part] += at_sinks * (latency**2 + spread)

    def finish(self) -> None:
        flow, now, layout = self._flow, self._now, self._flow.layout
        executed = self._executed
        counters = flow.counters
        thread_s = executed * self._thread_s
        counters.executed += executed
        counters.dropped += self._dropped
        flow.drops = np.minimum(self._dropped / np.maximum(executed, TINY), MOST_DROPS)
        counters.busy_s += executed * flow.capacity.service_s
        counters.cpu_s += thread_s
        flow.arrivals = self._arrived / now.step_s
        placed = layout.machine >= 0
        machine = layout.machine[placed]
        total_s = (thread_s + executed * self._transfer_s)[placed]
        flow.busy = np.minimum(executed * flow.capacity.service_s / now.step_s, 1.0)
        used = np.minimum(now.others, flow.capacity.level[now.others_machine])
        counters.cpu_s[layout.looking] += used[len(used) - len(layout.looking) :] * now.step_s
        flow.machines.cpu_s += sums(machine, total_s, layout.machines)
        flow.machines.cpu_s += sums(now.others_machine, used * now.step_s, layout.machines)
        # While a tuple is served its executor runs or waits for a CPU, but for its sleep. Another thread rests as long
        # between two of its turns as it would with a core to itself; what wants a whole one never rests.
        slept_s = layout.sleep_s / now.speed
        awake_s = np.maximum(executed * (flow.capacity.service_s - slept_s), 0.0)[placed]
        rest = np.where(now.others > TINY, used * (1.0 - now.others) / np.maximum(now.others, TINY), 1.0)
        flow.machines.runnable_s += sums(machine, np.maximum(awake_s, total_s), layout.machines)
        flow.machines.runnable_s += sums(now.others_machine, (1.0 - rest) * now.step_s, layout.machines)
        if now.reaches is None:
            self._sent += sums(machine, (executed * layout.cross_bytes)[placed], layout.machines)
        if self._tree_flow is not None:
            self._return_acks()
        flow.machines.sent_bytes += self._sent
        flow.machines.received_bytes += self._received

    def _return_acks(self) -> None:
        """What ackers send to spouts."""
        assert self._tree_flow is not None
        flow, now = self._flow, self._now
        queue_s = flow.queues.waiting / np.maximum(self._capacity / now.step_s, TINY)
        back = self._tree_flow.finish(self._executed, queue_s, now.reaches, now.begin, now.step_s)
        flow.counters.acked += back.acked
        self._sent += back.sent_bytes
        self._received += back.received_bytes
        flow.network.sent, flow.network.received = back.sent_bytes / now.step_s, back.received_bytes / now.step_s
