"""Small worlds of the simulator, for tests and judges: a chain or any topology, placed round robin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from scheduler_plugins.model import Slot, executor_ranges
from scheduler_plugins.simulator.layout import Floats, Layout, sums
from scheduler_plugins.simulator.work import Acking, Costs, EdgeWork, MachineSize, SimulatedComponent, SimulatedTopology
from scheduler_plugins.simulator.world import Assignment, Sample, World

FREE = Costs(**dict.fromkeys(Costs.__dataclass_fields__, 0.0))  # Storm itself costs nothing
INIT_BYTES, ACK_BYTES, BACK_BYTES = 30.0, 20.0, 10.0  # of what a spout and a bolt send an acker, and of its answer


def chain(
    rate: float | None,
    sleeps_ms: Sequence[float],
    tasks: int = 2,
    *,
    cpu_ms: float = 0.0,
    cost_cv2: float = 0.0,
    buffer: float = math.inf,
    limit: float = math.inf,
    grouping: str = "shuffle",
    tuple_bytes: float = 100.0,
) -> SimulatedTopology:
    """A spout, then a bolt for each cost; `tasks` each."""
    numbers = [tuple(range(1 + n * tasks, 1 + (n + 1) * tasks)) for n in range(len(sleeps_ms) + 1)]
    bolts = [
        SimulatedComponent(
            f"bolt_{n}", "bolt", numbers[n], sleep_ms=cost, cpu_ms=cpu_ms, cost_cv2=cost_cv2, buffer=buffer, limit=limit
        )
        for n, cost in enumerate(sleeps_ms, start=1)
    ]
    components = (SimulatedComponent("spout", "spout", numbers[0], rate_per_s=rate), *bolts)
    names = [component.name for component in components]
    edges = [EdgeWork(a, "default", b, grouping, tuple_bytes=tuple_bytes) for a, b in pairwise(names)]
    return SimulatedTopology("chain", 1, components, tuple(edges))


def acked(
    work: SimulatedTopology, ackers: int = 2, pending: int | None = None, timeout_s: float = 30.0
) -> SimulatedTopology:
    """The topology with ackers, whose tasks come last."""
    first = 1 + max(task for component in work.components for task in component.tasks)
    acker = SimulatedComponent("__acker", "system", tuple(range(first, first + ackers)))
    acks = tuple(
        EdgeWork(each.name, "__ack_init", "__acker", "fields", tuple_bytes=INIT_BYTES)
        if each.kind == "spout"
        else EdgeWork(each.name, "__ack_ack", "__acker", "fields", tuple_bytes=ACK_BYTES)
        for each in work.components
    )
    acking = Acking(pending, timeout_s, BACK_BYTES)
    return replace(work, components=(*work.components, acker), edges=(*work.edges, *acks), acking=acking)


def dealt(work: SimulatedTopology, slots: Sequence[Slot], executors: Mapping[str, int] | None = None) -> Assignment:
    """Executors one after the other to the slots."""
    sizes = {component.name: len(component.tasks) for component in work.components} | dict(executors or {})
    ranges = [part for component in work.components for part in executor_ranges(component.tasks, sizes[component.name])]
    placement = {
        task: slots[number % len(slots)]
        for number, (first, last) in enumerate(ranges)
        for task in range(first, last + 1)
    }
    return Assignment(sizes, placement)


@dataclass
class Totals:
    """Sums over samples, by component; what the queues held last."""

    executed: dict[str, float] = field(default_factory=dict)
    arrived: dict[str, float] = field(default_factory=dict)
    dropped: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    missed: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def take(self, sample: Sample) -> None:
        self.samples.append(sample)
        for name in ("executed", "dropped", "lost", "due", "missed"):
            add(getattr(self, name), sample.layout, getattr(sample.counters, name))
        for groups, arrived in zip(sample.layout.groups, sample.counters.arrived, strict=True):
            add(self.arrived, sample.layout, sums(groups.target, arrived, sample.layout.size))
        self.waiting = {}
        add(self.waiting, sample.layout, sample.queues.waiting)

    def rate(self, component: str, from_s: float, until_s: float, counter: str = "executed") -> float:
        """Tuples/s that it executed or dropped, of samples that end in between."""
        kept = [sample for sample in self.samples if from_s < sample.end <= until_s + 1e-6]
        total: dict[str, float] = {}
        for sample in kept:
            add(total, sample.layout, getattr(sample.counters, counter))
        return total.get(component, 0.0) / sum(sample.end - sample.begin for sample in kept)

    def latency_s(self, from_s: float) -> float:
        """Mean at the sinks, of samples that end later."""
        latency_s = executed = 0.0
        for sample in self.samples:
            if sample.end > from_s:
                sinks = sample.layout.sinks
                latency_s += float(sample.counters.latency_s[sinks].sum())
                executed += float(sample.counters.executed[sinks].sum())
        return latency_s / executed


def add(total: dict[str, float], layout: Layout, values: Floats) -> None:
    for row, (_, component) in enumerate(layout.components):
        part = slice(int(layout.begins[row]), int(layout.begins[row + 1]))
        total[component.work.name] = total.get(component.work.name, 0.0) + float(values[part].sum())


def world_of(
    work: SimulatedTopology,
    *,
    machines: int = 2,
    cores: float = 8.0,
    costs: Costs = FREE,
    bandwidth_mbit: float = 0.0,
    slots: Sequence[Slot] = (),
    seed: int = 0,
    begin_s: float = 1000.0,
) -> World:
    """One topology, `x-1`, on machines m1, m2, … that have a worker each."""
    sizes = [MachineSize(f"m{n}", cores, bandwidth_mbit) for n in range(1, machines + 1)]
    world = World(sizes, costs, begin_s, seed)
    world.submit("x-1", work)
    world.assign("x-1", dealt(work, slots or [Slot(size.name, 6700) for size in sizes]))
    return world


def advanced(work: SimulatedTopology, seconds: float, **site: object) -> Totals:
    world, totals = world_of(work, **site), Totals()  # type: ignore[arg-type]
    world.advance(world.now + seconds, totals.take)
    return totals
