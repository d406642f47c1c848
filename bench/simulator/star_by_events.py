"""The star written tuple by tuple in SimPy, beside the simulator: the same answers, and how much longer it takes.

    python -m bench.simulator.star_by_events

Two spouts, a centre that sleeps, two sinks; a tuple to each sink of every tuple of the centre. Executors serve in order
from a queue of their own. Shuffles go round their tasks, as Storm's do. Both are timed in this process, in turns. What
events cost grows with the rate; what the simulator costs does not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from bench.tables import markdown_table
from scheduler_plugins.model import Slot, executor_ranges
from scheduler_plugins.simulator.work import EdgeWork, MachineSize, SimulatedComponent, SimulatedTopology
from scheduler_plugins.simulator.world import Assignment, Sample, World
from tests.support.worlds import FREE

TASKS = 4
SINK_S = 1e-5


@dataclass(frozen=True)
class Star:
    """`rate_per_s` of each spout, `centre_s` a tuple, `executors` of the centre, `seconds` of simulated time."""

    rate_per_s: float
    centre_s: float
    executors: int
    seconds: float


@dataclass(frozen=True)
class Answer:
    """At both sinks together: tuples, and their mean latency (s)."""

    tuples: float
    latency_s: float


def by_events(star: Star) -> Answer:
    environment = simpy.Environment()
    centre = [simpy.Store(environment) for _ in range(star.executors)]
    owner = [
        number
        for number, (first, last) in enumerate(executor_ranges(tuple(range(TASKS)), star.executors))
        for _ in range(first, last + 1)
    ]
    sinks = [[simpy.Store(environment) for _ in range(TASKS)] for _ in range(2)]
    latencies: list[float] = []

    def spout(task: int) -> Generator[Any, Any, None]:
        gap_s = TASKS / star.rate_per_s
        number = task
        yield environment.timeout(gap_s * task / TASKS)
        while True:
            centre[owner[number % TASKS]].put(environment.now)
            number += 1
            yield environment.timeout(gap_s)

    def executor(queue: simpy.Store, number: int) -> Generator[Any, Any, None]:
        served = number
        while True:
            begin = yield queue.get()
            yield environment.timeout(star.centre_s)
            for sink in sinks:
                sink[served % TASKS].put(begin)
            served += 1

    def sink(queue: simpy.Store) -> Generator[Any, Any, None]:
        while True:
            begin = yield queue.get()
            yield environment.timeout(SINK_S)
            latencies.append(environment.now - begin)

    for task in range(TASKS):
        environment.process(spout(task))
        environment.process(spout(task))
    for number, queue in enumerate(centre):
        environment.process(executor(queue, number))
    for each in sinks:
        for queue in each:
            environment.process(sink(queue))
    environment.run(until=star.seconds)
    return Answer(len(latencies), statistics.fmean(latencies))


def by_fluid(star: Star) -> Answer:
    numbers = [tuple(range(1 + n * TASKS, 1 + (n + 1) * TASKS)) for n in range(5)]
    components = (
        SimulatedComponent("spout_1", "spout", numbers[0], rate_per_s=star.rate_per_s),
        SimulatedComponent("spout_2", "spout", numbers[1], rate_per_s=star.rate_per_s),
        SimulatedComponent("centre", "bolt", numbers[2], sleep_ms=1000 * star.centre_s),
        SimulatedComponent("sink_1", "bolt", numbers[3], sleep_ms=1000 * SINK_S),
        SimulatedComponent("sink_2", "bolt", numbers[4], sleep_ms=1000 * SINK_S),
    )
    ways = (("spout_1", "centre"), ("spout_2", "centre"), ("centre", "sink_1"), ("centre", "sink_2"))
    edges = tuple(EdgeWork(source, "default", target, "shuffle") for source, target in ways)
    world = World([MachineSize("m1", cores=100.0)], FREE, 0.0)
    world.submit("star-1", SimulatedTopology("star", 1, components, edges))
    executors = {component.name: TASKS for component in components} | {"centre": star.executors}
    placement = {task: Slot("m1", 6700) for each in numbers for task in each}
    world.assign("star-1", Assignment(executors, placement))
    tuples = latency_s = 0.0

    def take(sample: Sample) -> None:
        nonlocal tuples, latency_s
        tuples += float(sample.counters.executed[sample.layout.sinks].sum())
        latency_s += float(sample.counters.latency_s.sum())

    world.advance(star.seconds, take)
    return Answer(tuples, latency_s / tuples)


STARS = {
    "2,000/s, 69 % of its capacity": Star(1000.0, 0.00138, 4, 300.0),
    "2,000/s, 144 % of its capacity": Star(1000.0, 0.00288, 4, 300.0),
    "2,000/s, tasks two to an executor, 130 %": Star(1000.0, 0.0013, 2, 300.0),
    "4,000/s, 69 % of its capacity": Star(2000.0, 0.00069, 4, 150.0),
}
ROUNDS = 3


def _timed(answer: Any, star: Star) -> tuple[float, Answer]:
    begun = time.process_time()
    found = answer(star)
    return time.process_time() - begun, found


def main() -> None:
    rows = []
    for name, star in STARS.items():
        pairs = [(_timed(by_events, star), _timed(by_fluid, star)) for _ in range(ROUNDS)]
        ratios = [events_s / fluid_s for (events_s, _), (fluid_s, _) in pairs]
        (_, exact), (_, fluid) = pairs[0]
        rows.append([
            name, f"{exact.tuples:,.0f}", f"{100 * (fluid.tuples / exact.tuples - 1):+.2f}",
            f"{1000 * exact.latency_s:.3g}", f"{1000 * fluid.latency_s:.3g}",
            f"{statistics.median(ratios):.0f} [{min(ratios):.0f}, {max(ratios):.0f}]",
        ])  # fmt: skip
    headings = ["star", "tuples", "simulator, ± %", "latency, ms", "simulator", "CPU time, ratio"]
    print(markdown_table(f"SimPy tuple by tuple beside the simulator, {ROUNDS} rounds in turns", headings, rows))


if __name__ == "__main__":
    main()
