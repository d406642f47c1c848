"""A simulated Storm cluster in time: machines, workers that start and end, topologies, and tuples between them.

The world knows nothing of schedulers: whoever drives it says where executors are (`assign`) and what machines suffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from scheduler_plugins.model import Slot, executor_ranges
from scheduler_plugins.simulator.capacity import Conditions
from scheduler_plugins.simulator.carry_over import carry_over, give_up
from scheduler_plugins.simulator.flow import Counters, Flow, MachineCounters, Queues
from scheduler_plugins.simulator.layout import (
    UNPLACED,
    Flags,
    Floats,
    Ints,
    Layout,
    PlacedComponent,
    PlacedTopology,
    layout_of,
)
from scheduler_plugins.simulator.work import Costs, Load, MachineSize, SimulatedTopology, SimulationError, young_share

SHORT_STEP_S = 1.0  # while workers start or end
SHORTEST_STEP_S = 0.1  # so exactly it is known when a start ends
READY = 1e-6  # epoch seconds are no finer than a quarter of it

WorkerKey = tuple[str, Slot]  # topology's id, and where
DueTuples = Callable[[str, str, float, float], float]
"""Tuples that fall due of a source between two times, as a multiple of its rate: topology's id, component, from, until,
answers seconds at the submitted rate."""


def steadily(_topology_id: str, _component: str, from_s: float, until_s: float) -> float:
    """A `DueTuples` of sources that keep the rate of the submission: the seconds between the two times."""
    return until_s - from_s


@dataclass
class Worker:
    """A process in a slot, from `begun_s` on. It works once nothing is left of `cpu_s`, which it needs to start."""

    begun_s: float
    cpu_s: float
    ready_s: float = math.inf
    active_s: float = math.inf  # since then it is connected to all others: its sources emit

    @property
    def is_active(self) -> bool:
        return math.isfinite(self.active_s)

    def is_ready(self, now: float) -> bool:
        return now >= self.ready_s - READY


@dataclass(frozen=True)
class Assignment:
    """Executors of each component, and the slot of each task; a task that is not there has none."""

    executors: Mapping[str, int]
    placement: Mapping[int, Slot]


@dataclass
class Deployment:
    """A topology that was submitted. A schedule begins when Storm first asks a source for a tuple (`has_begun`)."""

    topology_id: str
    work: SimulatedTopology
    assignment: Assignment
    is_paused: bool = False  # Storm has deactivated its sources
    has_begun: bool = False


@dataclass(frozen=True)
class Sample:
    """What everything has counted from `begin` to `end` (s): executors as in `layout`, machines as in the world."""

    begin: float
    end: float
    layout: Layout
    counters: Counters
    queues: Queues
    machines: MachineCounters
    worker_keys: tuple[WorkerKey, ...]  # rows of `layout.worker`
    workers: tuple[Worker, ...]  # of these rows, as they were at the end
    has_begun: frozenset[str]  # topologies whose sources' schedules have begun
    ready: Flags  # of each executor: its worker counts
    dead: frozenset[WorkerKey] = frozenset()  # whose processes died at the end, so write no last line


@dataclass
class World:
    """`step_s`: the longest step, `sample_s`: how often everything is counted. Random numbers only from the seed."""

    machines: list[MachineSize]
    costs: Costs
    now: float
    seed: int = 0
    step_s: float = 1.0
    sample_s: float = 1.0
    due: DueTuples = steadily
    loads: dict[str, Load] = field(default_factory=dict)
    workers: dict[WorkerKey, Worker] = field(default_factory=dict)
    topologies: dict[str, Deployment] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.machines:
            raise SimulationError("machines is empty; allowed are one or more")
        self._random = np.random.default_rng(self.seed)
        self._row = {machine.name: row for row, machine in enumerate(self.machines)}
        self._flow: Flow | None = None
        self._keys: tuple[WorkerKey, ...] = ()
        self._is_stale = True
        self._sampled_s = self.now
        self._code_s: dict[tuple[str, str], float] = {}  # since when a machine has a topology's code
        self._supervisors: dict[str, float] = {}  # CPU seconds that the start of a machine's takes yet
        self._cut: list[Sample] = []  # that nobody has taken yet

    # What a scheduler and a harness do to it

    def add_machine(self, machine: MachineSize) -> None:
        """One more, or one that was there before."""
        if machine.name not in self._row:
            self._row[machine.name] = len(self.machines)
            self.machines.append(machine)
        self.loads.pop(machine.name, None)
        self._code_s = {key: since_s for key, since_s in self._code_s.items() if key[1] != machine.name}
        self._is_stale = True

    def start_supervisor(self, machine: str) -> None:
        """Its own start takes CPU, beside whatever it starts meanwhile."""
        self._supervisors[machine] = self.costs.supervisor_cpu_s

    def load(self, machine: str) -> Load:
        return self.loads.setdefault(machine, Load())

    def submit(self, topology_id: str, work: SimulatedTopology) -> None:
        """Nothing of it runs before `assign`."""
        executors = {component.name: len(component.tasks) for component in work.components}
        self.topologies[topology_id] = Deployment(topology_id, work, Assignment(executors, {}))
        self._is_stale = True

    def assign(self, topology_id: str, assignment: Assignment) -> tuple[Slot, ...]:
        """Storm's new assignment. Workers whose executors change end, and begin anew where they are to be; returns the
        slots in which one starts. The others notice nothing."""
        self._cut_sample()
        deployment = self.topologies[topology_id]
        before, after = (executors_by_slot(deployment.work, each) for each in (deployment.assignment, assignment))
        changed = {slot for slot, executors in after.items() if before.get(slot) != executors}
        for slot in sorted(changed):  # sums of floats hang on the order of workers, and a set's on the process
            stop_s = self.costs.stop_s if slot in before else 0.0
            self.workers[topology_id, slot] = self._started(topology_id, slot, stop_s)
        for slot in before.keys() - after.keys():
            self.workers.pop((topology_id, slot), None)
        deployment.assignment = assignment
        self._is_stale = True
        return tuple(sorted(changed))

    def _started(self, topology_id: str, slot: Slot, wait_s: float = 0.0) -> Worker:
        """Its supervisor fetches the code, if it has none, and looks before it begins (measured: waits do not go on
        beside its CPU)."""
        there_s = self._code_s.setdefault((topology_id, slot.machine), self.now + self.costs.fetch_s)
        return Worker(max(self.now + wait_s, there_s) + self.costs.start_wait_s, self.costs.start_cpu_s)

    def pause(self, topology_id: str, is_paused: bool) -> None:
        """Deactivate a topology's sources, or activate them again."""
        self.topologies[topology_id].is_paused = is_paused

    def kill(self, topology_id: str) -> None:
        self._cut_sample()
        del self.topologies[topology_id]
        self.workers = {key: worker for key, worker in self.workers.items() if key[0] != topology_id}
        self._code_s = {key: since_s for key, since_s in self._code_s.items() if key[0] != topology_id}
        self._is_stale = True

    def kill_worker(self, topology_id: str, slot: Slot, wait_s: float = 3.0) -> None:
        """Its process dies; the supervisor, which looks every so often, starts it again."""
        self._die({(topology_id, slot)})
        self.workers[topology_id, slot] = self._started(topology_id, slot, wait_s)

    def crash(self, machine: str) -> None:
        self._die({key for key in self.workers if key[1].machine == machine})
        self.load(machine).is_alive = False
        self._supervisors.pop(machine, None)

    def restart(self, machine: str) -> None:
        """A crashed machine boots; its supervisor starts the workers that are still assigned to it."""
        self.loads.pop(machine, None)
        self.start_supervisor(machine)
        for key in self.workers:
            if key[1].machine == machine:
                self.workers[key] = self._started(*key)

    # Time

    def advance(self, until_s: float, take: Callable[[Sample], None]) -> None:
        """Let time pass; `take` gets a sample at each multiple of `sample_s`, and one that ends where workers do."""
        while self.now < until_s - READY:
            self._rebuild()
            for sample in self._cut:
                take(sample)
            self._cut.clear()
            end_s = (math.floor(self._sampled_s / self.sample_s + READY) + 1) * self.sample_s
            until = min(until_s, end_s)
            left_s = until - self.now
            step_s = min(self._step_s(), left_s)
            self._step(step_s)
            self.now = until if step_s == left_s else self.now + step_s
            self._end_step(step_s)
            if self.now >= end_s - READY:
                take(self._sample())

    def _cut_sample(self) -> None:
        """What those have counted that are about to end or to die; it may be of no time at all. Once where several end
        at a time."""
        if self._flow is not None and not self._cut:
            self._cut.append(self._sample())

    def _die(self, keys: set[WorkerKey]) -> None:
        """What waits in these workers is lost, and what they have counted since their last line."""
        self._cut_sample()
        if self._cut:
            last = self._cut[-1]
            begun_s = {key: worker.begun_s for key, worker in zip(last.worker_keys, last.workers, strict=True)}
            dead = {key for key in keys if begun_s.get(key) == self.workers[key].begun_s}
            self._cut[-1] = replace(last, dead=last.dead | dead)
        self._lose_queues(keys)

    def _step_s(self) -> float:
        """Short while anything starts, and never across the begin of a start, which would have the cores of its whole
        step, or its end, as far as that can be foreseen."""
        starting = [(key, worker) for key, worker in self.workers.items() if not worker.is_active]
        if not starting and not self._supervisors:
            return max(READY, self.step_s)
        ends = [worker.begun_s - self.now for _, worker in starting]
        ends += [max(SHORTEST_STEP_S, self._start_s(key, worker)) for key, worker in starting if self._begins(worker)]
        return max(READY, min(self.step_s, SHORT_STEP_S, *(left_s for left_s in ends if left_s > READY)))

    def _begins(self, worker: Worker) -> bool:
        """Return whether its start takes CPU now."""
        return worker.begun_s <= self.now + READY and not math.isfinite(worker.ready_s)

    def _start_s(self, key: WorkerKey, worker: Worker) -> float:
        """Return how long its start takes yet, with the share of a core that the greediest of its machine have had."""
        assert self._flow is not None
        row = self._row[key[1].machine]
        level = float(self._flow.capacity.level[row]) if row < len(self._flow.capacity.level) else 1.0
        return worker.cpu_s / max(min(1.0, level), READY)

    def _rebuild(self) -> None:
        """What runs has changed: count what was, then go on with what is."""
        if not self._is_stale and self._flow is not None:
            return
        keys = tuple(sorted(self.workers))
        row = {key: number for number, key in enumerate(keys)}
        placed = [_placed(deployment, row) for deployment in self.topologies.values()]
        machine = np.array([self._row[slot.machine] for _, slot in keys], dtype=np.int64)
        layout = layout_of(placed, machine, len(self.machines), self.costs)
        ready = np.array([math.isfinite(self.workers[key].ready_s) for key in keys] + [False])[layout.worker]
        flow = Flow.begin(layout, self.now)
        if self._flow is not None:
            self._cut_sample()
            carry_over(self._flow, flow, ready)
            for name in ("lost", "missed"):  # of those that ended after the sample was cut, at the same time
                getattr(self._cut[-1].counters, name)[:] += getattr(self._flow.counters, name)
        self._flow, self._keys, self._is_stale = flow, keys, False

    def _step(self, step_s: float) -> None:
        assert self._flow is not None
        layout = self._flow.layout
        others, others_machine = self._others(step_s)
        loads = [self.loads.get(machine.name, Load()) for machine in self.machines]
        cores = [m.cores * load.speed if load.is_alive else 0.0 for m, load in zip(self.machines, loads, strict=True)]
        # Only a source whose process is gone may skip: one that Storm has deactivated falls behind.
        paused = [self.topologies[layout.topologies[number].topology_id].is_paused for number, _ in layout.components]
        components = zip(layout.components, paused, strict=True)
        catches_up = [c.work.on_restart == "catch_up" or is_paused for (_, c), is_paused in components]
        limits = [m.bandwidth_mbit * 125_000.0 if m.bandwidth_mbit else math.inf for m in self.machines]
        self._flow.step(
            Conditions(
                begin=self.now,
                step_s=step_s,
                up=self._up(layout),
                due=self._due(layout, step_s),
                catches_up=np.repeat(np.array(catches_up, dtype=bool), np.diff(layout.begins)),
                cores=np.array(cores),
                bandwidth=np.array(limits),
                reaches=self._reaches(loads),
                others=others,
                others_machine=others_machine,
                speed=self._speed(layout, step_s),
            )
        )

    def _speed(self, layout: Layout, step_s: float) -> Floats:
        """Of each executor in this step, by chance: lognormal, so that its mean is 1 whatever the variation."""
        if not (self.costs.noise or layout.is_uneven):
            return np.ones(layout.size)
        assert self._flow is not None
        # Tuples cost differently, and the fewer a step has the less they make up for each other: measured on Storm,
        # that is all there is. Of an executor with less than a step's work before it, the wait by Kingman's formula
        # has it. `noise` is that of a second, and one second's is independent of the next one's.
        service_s = layout.sleep_s + layout.thread_s
        is_busy = self._flow.queues.waiting * service_s > step_s
        variation = np.sqrt((self.costs.noise**2 + np.where(is_busy, layout.cv2 * service_s, 0.0)) / step_s)
        if not variation.any():
            return np.ones(layout.size)
        spread = np.sqrt(np.log1p(variation**2))
        return np.asarray(np.exp(spread * self._random.standard_normal(layout.size) - spread**2 / 2))

    def _reaches(self, loads: list[Load]) -> Flags | None:
        if not any(load.is_cut or load.unreached for load in loads):
            return None
        there = np.array([not load.is_cut for load in loads])
        reaches = there[:, None] & there[None, :]
        for row, load in enumerate(loads):
            others = [self._row[name] for name in load.unreached if name in self._row]
            reaches[row, others] = reaches[others, row] = False
        np.fill_diagonal(reaches, True)
        return np.asarray(reaches)

    def _up(self, layout: Layout) -> Floats:
        """Return which executors work: their worker is ready and its machine alive; sources once all is connected."""
        ready = np.array([self._works(key) for key in self._keys] + [False])
        active = np.array([self.workers[key].is_active for key in self._keys] + [False])
        paused = np.array([self.topologies[placed.topology_id].is_paused for placed in layout.topologies] + [False])
        up = ready[layout.worker] & (~layout.is_spout | (active[layout.worker] & ~paused[layout.topology]))
        return np.asarray(up, dtype=np.float64)

    def _works(self, key: WorkerKey) -> bool:
        load = self.loads.get(key[1].machine)
        return self.workers[key].is_ready(self.now) and (load is None or load.is_alive)

    def _due(self, layout: Layout, step_s: float) -> Floats:
        due = np.zeros(layout.size)
        for row, (topology, component) in enumerate(layout.components):
            work = component.work
            if work.kind != "spout":
                continue
            part = slice(int(layout.begins[row]), int(layout.begins[row + 1]))
            if work.rate_per_s is None:
                due[part] = np.inf
                continue
            deployment = self.topologies[layout.topologies[topology].topology_id]
            if deployment.has_begun:
                seconds = self.due(deployment.topology_id, work.name, self.now, self.now + step_s)
                due[part] = work.rate_per_s * seconds * layout.tasks[part] / len(work.tasks)
        return due

    def _others(self, step_s: float) -> tuple[Floats, Ints]:
        """Cores wanted by what is no executor: workers that start or rest, supervisors, loads."""
        rows = []
        for key, worker in self.workers.items():
            if self._begins(worker):
                rows.append((self._row[key[1].machine], min(1.0, worker.cpu_s / step_s)))
            elif worker.is_ready(self.now):
                young = self.costs.warm_up_cores * young_share(self.now - worker.ready_s, step_s, self.costs.warm_up_s)
                rows.append((self._row[key[1].machine], self.costs.idle_cores + young))
        rows += [(self._row[name], min(1.0, cpu_s / step_s)) for name, cpu_s in self._supervisors.items()]
        for row, machine in enumerate(self.machines):
            load = self.loads.get(machine.name, Load())
            if load.is_alive:
                rows.append((row, self.costs.machine_idle_cores))
            whole = int(load.busy)
            rows += [(row, 1.0)] * whole + ([(row, load.busy - whole)] if load.busy > whole else [])
        machine_row = np.array([row for row, _ in rows], dtype=np.int64)
        return np.array([cores for _, cores in rows]), machine_row

    def _end_step(self, step_s: float) -> None:
        """Workers and supervisors that start come further, by the CPU that they got."""
        for key, worker in self.workers.items():
            load = self.loads.get(key[1].machine)
            has_begun = worker.begun_s <= self.now - step_s + READY
            if math.isfinite(worker.ready_s) or not has_begun or (load and not load.is_alive):
                continue
            worker.cpu_s -= self._got_s(key[1].machine, worker.cpu_s, step_s)
            if worker.cpu_s <= READY:
                worker.ready_s = self.now
        left = {name: cpu_s - self._got_s(name, cpu_s, step_s) for name, cpu_s in self._supervisors.items()}
        self._supervisors = {name: cpu_s for name, cpu_s in left.items() if cpu_s > READY}
        self._connect()

    def _got_s(self, machine: str, cpu_s: float, step_s: float) -> float:
        """CPU seconds that a thread which wanted `cpu_s` had in the step."""
        assert self._flow is not None
        return min(1.0, cpu_s / step_s, float(self._flow.capacity.level[self._row[machine]])) * step_s

    def _connect(self) -> None:
        waiting = [key for key, worker in self.workers.items() if not worker.is_active and worker.is_ready(self.now)]
        for topology_id in {topology_id for topology_id, _ in waiting}:
            mine = [worker for key, worker in self.workers.items() if key[0] == topology_id]
            if all(worker.is_ready(self.now) for worker in mine):
                self.topologies[topology_id].has_begun = True
                for worker in mine:
                    worker.active_s = min(worker.active_s, self.now)

    def _lose_queues(self, keys: set[WorkerKey]) -> None:
        if self._flow is None:
            return
        layout = self._flow.layout
        ended = np.array([key in keys for key in self._keys] + [False])[layout.worker]
        gone = ended & ~layout.is_spout
        if self._flow.trees is not None:
            self._flow.trees.end(ended)
        self._flow.counters.lost[gone] += self._flow.queues.waiting[gone]
        self._flow.queues.waiting[gone] = 0.0
        for row, (_, component) in enumerate(layout.components):
            if component.work.kind == "spout" and component.work.on_restart == "skip":
                give_up(self._flow, ended, slice(int(layout.begins[row]), int(layout.begins[row + 1])))

    def _sample(self) -> Sample:
        assert self._flow is not None
        flow, begin = self._flow, self._sampled_s
        ready = np.array([self._works(key) for key in self._keys] + [False])[flow.layout.worker]
        queues = Queues(flow.queues.waiting.copy(), flow.queues.oldest.copy(), flow.queues.newest.copy())
        workers = tuple(replace(self.workers[key]) for key in self._keys)
        begun = frozenset(each.topology_id for each in self.topologies.values() if each.has_begun)
        sample = Sample(
            begin, self.now, flow.layout, flow.counters, queues, flow.machines, self._keys, workers, begun, ready
        )
        flow.counters, flow.machines = Counters.zero(flow.layout), MachineCounters.zero(len(self.machines))
        self._sampled_s = self.now
        return sample


def executors_by_slot(work: SimulatedTopology, assignment: Assignment) -> dict[Slot, set[tuple[int, int]]]:
    """First and last task of each executor in a slot: a worker restarts where these change. An executor goes to the
    slot of its first task."""
    found: dict[Slot, set[tuple[int, int]]] = {}
    for component in work.components:
        for executor in executor_ranges(component.tasks, assignment.executors[component.name]):
            if executor[0] in assignment.placement:
                found.setdefault(assignment.placement[executor[0]], set()).add(executor)
    return found


def _placed(deployment: Deployment, row: Mapping[WorkerKey, int]) -> PlacedTopology:
    assignment = deployment.assignment
    components = {}
    for work in deployment.work.components:
        ranges = np.array(executor_ranges(work.tasks, assignment.executors[work.name]), dtype=np.int64)
        slots = [assignment.placement.get(int(first)) for first in ranges[:, 0]]
        worker = [UNPLACED if slot is None else row.get((deployment.topology_id, slot), UNPLACED) for slot in slots]
        components[work.name] = PlacedComponent(work, ranges[:, 0], ranges[:, 1], np.array(worker, dtype=np.int64))
    return PlacedTopology(deployment.topology_id, deployment.work, components)
