"""What executors can execute in a step: by their threads, their share of their machine's cores, and full queues."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from scheduler_plugins.simulator.layout import TINY, Flags, Floats, Groups, Ints, Layout, sums

FASTEST_S = 1e-7  # no tuple takes an executor less
SUDDEN = 0.02  # a change of what falls due, as a share, after which the arrivals of the step before say too little
ROUNDS = 6  # in which a machine's CPU that executors do not use, because queues hold them back, goes to others
TIGHT = 0.7  # of its cores: where no machine is asked for more, none can be asked for too much


@dataclass(frozen=True)
class Conditions:
    """Of one step. `up`: the share of it in which each executor works; `due`: tuples that fall due at each spout's
    executor, infinity where it emits as fast as it can; `catches_up`: whether it emits later what it could not.
    `cores` of each machine, `bandwidth` in bytes a second (infinity: no limit). `reaches`: whether
    what a machine (row) sends arrives at another (column); None: everything does.
    `others`: cores that threads which are no executors want, `others_machine`: where they run.
    `speed`: of each executor by chance, 1 as it should be: 0.5 doubles the time and CPU of its thread.
    """

    begin: float
    step_s: float
    up: Floats
    due: Floats
    catches_up: Flags
    cores: Floats
    bandwidth: Floats
    reaches: Flags | None
    others: Floats
    others_machine: Ints
    speed: Floats


@dataclass(frozen=True)
class TupleCosts:
    """Of a tuple at each executor: what it sleeps, until it has a CPU again, CPU of its own thread and of its worker's
    other threads (s)."""

    sleep_s: Floats
    thread_s: Floats
    transfer_s: Floats

    @cached_property
    def alone_s(self) -> Floats:
        """That a tuple takes an executor whose thread has a core to itself."""
        return np.maximum(self.sleep_s + self.thread_s, FASTEST_S)

    @cached_property
    def cpu_s(self) -> Floats:
        return self.thread_s + self.transfer_s


@dataclass(frozen=True)
class Backlog:
    """What a step begins with, of each executor: tuples that wait, tuples that came in the step before (a second), and
    what its trees allow a spout to emit in the step, infinity where nothing does."""

    waiting: Floats
    arrivals: Floats
    allowed: Floats


@dataclass
class Capacity:
    """Of a layout, and what the step before says of how busy machines are.

    `level`: cores that the greediest threads of each machine got, infinity where there was enough. `service_s`:
    that a tuple took each executor, by the clock. `asked`: cores that the threads of each machine would use if
    nobody lacked any, `wake_s`: that a thread waits there for a CPU when it wakes up. `granted_s`: CPU that each
    executor is sure of in the step. `most`: tuples that its machine has CPU for, where it lacks some. `is_tight`: a
    machine may be asked for more than its cores.
    """

    layout: Layout
    level: Floats = field(init=False)
    service_s: Floats = field(init=False)
    asked: Floats = field(init=False)
    wake_s: Floats = field(init=False)
    granted_s: Floats = field(init=False)
    most: Floats = field(init=False)
    is_bounded: bool = field(init=False)
    is_tight: bool = True
    _before: tuple[float, Floats, Floats] | None = None  # of the step before: tuples due a second, who worked, cores

    def __post_init__(self) -> None:
        size = self.layout.size
        self.level, self.service_s = np.full(self.layout.machines, np.inf), np.zeros(size)
        self.granted_s, self.most = np.zeros(size), np.full(size, np.inf)
        self.asked, self.wake_s = np.zeros(self.layout.machines), np.zeros(self.layout.machines)
        self.is_bounded = bool(np.isfinite(self.layout.buffer).any())

    def awake(self, now: Conditions, costs: TupleCosts) -> TupleCosts:
        """Return the costs with the wait for a CPU after each sleep, on machines that were short of it in the step
        before.

        Where more is asked for than a machine has, its quota is used up in a share of each period, and who wakes up
        then waits for the rest of it; without a quota everybody waits for a turn of those that are too many. A thread
        misses no larger share of its time than the machine stands still.
        """
        excess = np.maximum(self.asked / np.maximum(now.cores, TINY) - 1.0, 0.0)
        period_s, slice_s = self.layout.costs.quota_period_ms / 1000.0, self.layout.costs.slice_ms / 1000.0
        still = excess / (1.0 + excess)
        wake_s = still**2 * period_s / 2 if period_s else slice_s * excess
        self.wake_s = np.where(wake_s + self.wake_s > FASTEST_S, (wake_s + self.wake_s) / 2, 0.0)  # else to and fro
        if not self.wake_s.any():
            return costs
        placed = self.layout.machine >= 0
        wait_s = np.minimum(self.wake_s[self.layout.machine], costs.alone_s * excess[self.layout.machine])
        return replace(costs, sleep_s=costs.sleep_s + np.where(placed & (costs.sleep_s > 0), wait_s, 0.0))

    def tuples(self, now: Conditions, costs: TupleCosts, backlog: Backlog) -> Floats:
        """That each executor can execute in the step, by its thread and its share of its machine's cores."""
        each_s = costs.alone_s
        due = np.minimum(np.where(np.isfinite(now.due), now.due, now.step_s / each_s), backlog.allowed)
        total = float(np.where(np.isfinite(now.due), due, 0.0).sum()) / now.step_s
        before, self._before = self._before, (total, now.up, now.cores)
        is_sudden = (  # what falls due, who works or what machines can do is not what it was in the step before
            before is None
            or abs(total - before[0]) > SUDDEN * before[0]
            or not (np.array_equal(before[2], now.cores) and np.array_equal(before[1], now.up))
        )
        # As many tuples will come as in the step before. Where a machine lacked CPU, what comes with as much of it;
        # after a sudden change, what comes if nobody lacks any: of unexpected tuples a machine would do too many.
        if not is_sudden and np.isinf(self.level).all():
            expected = backlog.arrivals * now.step_s
        else:
            most = now.up * now.step_s / (each_s if is_sudden else np.maximum(each_s, self.service_s))
            expected = foreseen(self.layout, backlog.waiting, due, most, most)[1]
        wanted = (backlog.waiting + np.where(self.layout.is_spout, due, expected)) / now.step_s
        rate = np.minimum(wanted, 1.0 / each_s) * now.up
        level = self.level
        capacity = self._shared(now, costs, rate, is_sudden)
        if self.is_bounded and self.is_tight:
            return self._balanced(now, costs, due, backlog, self.level if is_sudden else level)
        return capacity

    def _shared(self, now: Conditions, costs: TupleCosts, rate: Floats, is_sudden: bool) -> Floats:
        """The capacity of executors that ask for the CPU of so many tuples a second. Not `is_sudden`: it follows from
        the step before, too."""
        layout, cpu_s = self.layout, costs.cpu_s
        demand = np.concatenate([rate * cpu_s, now.others])
        machine = np.concatenate([layout.machine, now.others_machine])
        level = fair_level(demand, machine, now.cores)
        # What comes depends on the level, and the level on what comes: half of the way, or they would go to and fro.
        both = np.isfinite(level) & np.isfinite(self.level) & ~is_sudden
        self.level = np.where(both, (level + np.where(both, self.level, 0.0)) / 2, level)
        self.asked = sums(machine[machine >= 0], demand[machine >= 0], layout.machines)
        self.is_tight = bool((self.asked > TIGHT * now.cores).any())
        share = np.where(layout.machine >= 0, self.level[layout.machine], np.inf)
        self.granted_s, self.most = np.minimum(rate * cpu_s, share) * now.step_s, np.full(layout.size, np.inf)
        self.service_s = np.maximum(costs.alone_s, cpu_s / np.maximum(share, TINY))
        return np.asarray(now.up * now.step_s / self.service_s)

    def _balanced(self, now: Conditions, costs: TupleCosts, due: Floats, backlog: Backlog, level: Floats) -> Floats:
        """The capacity of executors that full queues hold back, on machines that may lack CPU: what those that are held
        back do not use goes to others. From `level` on, that of each machine is raised or lowered by how much of its
        cores is used until they are, or until it limits nobody. Of what is then asked for too much all executors have
        the same share."""
        layout, cpu_s, waiting = self.layout, costs.cpu_s, backlog.waiting
        placed = layout.machine >= 0
        machine, free = layout.machine[placed], room(layout, waiting, now.up)
        highest = max(float((cpu_s / costs.alone_s).max()), float(now.others.max(initial=0.0)))  # it limits nobody
        level = np.minimum(level, highest)
        for number in range(ROUNDS + 1):
            share = np.where(placed, level[layout.machine], np.inf)
            self.service_s = np.maximum(costs.alone_s, cpu_s / np.maximum(share, TINY))
            capacity = now.up * now.step_s / self.service_s
            possible = np.minimum(capacity, backlog.allowed)
            possible = np.minimum(possible, most_by_queues(layout, waiting, due, possible, free))
            done, _ = foreseen(layout, waiting, due, possible, possible)
            by_others = np.minimum(now.others, level[now.others_machine])
            others = sums(now.others_machine, by_others, layout.machines)
            own = sums(machine, (done * cpu_s)[placed], layout.machines) / now.step_s
            used = np.maximum(own + others, TINY)
            if number == ROUNDS:
                break
            level = np.minimum(level * np.clip(now.cores / used, 0.5, 2.0), highest)
        self.level = np.where(level < highest, level, np.inf)
        wanted = np.where(np.isfinite(share), self.service_s / costs.alone_s, 1.0) * done * cpu_s
        self.asked = sums(machine, wanted[placed], layout.machines) / now.step_s
        self.asked += sums(now.others_machine, now.others, layout.machines)
        fit = np.where(placed, (np.maximum(now.cores - others, 0.0) / np.maximum(own, TINY))[layout.machine], 1.0)
        done = done * np.minimum(fit, 1.0)
        self.granted_s, self.is_tight = done * cpu_s, True
        self.most = np.where(fit < 1.0, done, np.inf)
        return np.asarray(capacity)


MOST_ROUNDS = 50


def fair_level(demand: Floats, machine: Ints, cores: Floats) -> Floats:
    """Return, of each machine: how many cores its greediest threads get; infinity where there is enough for all.

    Max-min fairness: who wants less than the level gets what it wants, the others share the rest evenly, so that all
    cores are used. `demand` (cores) and `machine` are of threads, `cores` of machines; a thread on no machine has -1.
    """
    level = np.full(len(cores), np.inf)
    there = machine >= 0
    demand, machine = demand[there], machine[there]
    wanted = np.bincount(machine, demand, minlength=len(cores))
    short = wanted > cores
    if not short.any():
        return level
    rows = short[machine]
    demand, machine = demand[rows], machine[rows]
    threads = np.bincount(machine, minlength=len(cores))
    level[short] = np.maximum(cores[short], 0.0) / threads[short]
    for _ in range(MOST_ROUNDS):
        modest = demand <= level[machine]
        used = np.bincount(machine[modest], demand[modest], minlength=len(cores))
        greedy = np.bincount(machine[~modest], minlength=len(cores))
        higher = np.where(greedy > 0, (np.maximum(cores, 0.0) - used) / np.maximum(greedy, 1), np.inf)
        settled = ~short | (higher <= level * (1 + 1e-12)) | (greedy == 0)
        level = np.where(short & (greedy > 0), np.maximum(level, higher), level)
        if settled.all():
            break
    return level


HIGHEST_UTILISATION = 0.98  # for Kingman's formula: above, the queue of the fluid itself says what waits


def queue_wait_s(busy: Floats, cv2: Floats, service_s: Floats) -> Floats:
    """Kingman's formula, of arrivals at random ("The single server queue in heavy traffic", 1961)."""
    load = np.minimum(busy, HIGHEST_UTILISATION)
    return np.asarray(load / (1.0 - load) * (1.0 + cv2) / 2 * service_s)


def idle_wait_s(rate: Floats, spin_s: Floats, sleep_s: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of how long a tuple waits until its executor looks, beside the wait for others.

    An executor without tuples looks again and again for `spin_s`, then sleeps `sleep_s` at a time until it finds some:
    a server with vacations (Fuhrmann and Cooper, "Stochastic decompositions in the M/G/1 queue with generalized
    vacations", 1985). Its wait is that of a queue without, and the rest of the sleep in which the tuple came: half of
    it on average, where it did not come before the first one. `rate`: tuples/s that come to it.
    """
    spun, slept = rate * spin_s, rate * sleep_s
    sleeps = np.where(
        slept > 1e-9, slept / np.maximum(-np.expm1(-slept), 1e-12), 1.0
    )  # rate x time until one finds some
    asleep = np.exp(-spun) * sleeps
    share = np.where(sleep_s > 0, asleep / (-np.expm1(-spun) + asleep), 0.0)
    mean = share * sleep_s / 2
    return np.asarray(mean), np.asarray(share * sleep_s**2 / 3 - mean**2)


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
