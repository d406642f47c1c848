"""How Stela's decision time grows with the topology: CPU seconds for n components and n / 10 executors to assign.

    python -m bench.speed.stela_decision_time

Graphs are layers as wide as they are many, three streams into each component. `few` congested is the harder case: most
of the graph is free, so that one component more or less congested is felt far upstream.
"""

from __future__ import annotations

import time
from math import isqrt
from random import Random
from typing import Literal

from scheduler_plugins.model import Component, Edge, Executor, Topology, executor_ranges
from scheduler_plugins.policies.etp import assign_executors
from scheduler_plugins.policies.stela import StelaParameters

SIZES = (100, 300, 1000)
CONGESTED = {"few": 0.02, "many": 0.3}  # share of components that execute well below what comes in
TASKS = 8


def layered_topology(count: int, congested: float, random: Random) -> Topology:
    width = isqrt(count)
    parents = {n: random.sample(range((n // width - 1) * width, n // width * width), 3) for n in range(width, count)}
    fans = [0] * count
    for sources in parents.values():
        for parent in sources:
            fans[parent] += 1
    rates: list[float] = []
    edges: list[Edge] = []
    for number in range(count):
        inputs = {parent: rates[parent] / fans[parent] for parent in parents.get(number, ())}
        edges.extend(Edge(f"c{p}", "default", f"c{number}", "shuffle", rate) for p, rate in inputs.items())
        slack = random.uniform(1.25, 3.0) if random.random() < congested else random.uniform(0.9, 1.1)
        rates.append(sum(inputs.values()) / slack if inputs else 100.0)
    components = tuple(_component(number, rate, number in parents) for number, rate in enumerate(rates))
    return Topology("layers", "layers", count, components, tuple(edges))


def _component(number: int, rate: float, is_fed: bool) -> Component:
    tasks = tuple(range(1 + number * TASKS, 1 + (number + 1) * TASKS))
    executors = tuple(Executor(*ends) for ends in executor_ranges(tasks, 2))
    kind: Literal["bolt", "spout"] = "bolt" if is_fed else "spout"
    return Component(f"c{number}", kind, tasks, executors, emitted_per_s=rate, executed_per_s=rate)


def decision_seconds(topology: Topology, slots: int) -> float:
    began = time.process_time()
    assign_executors(topology, slots, StelaParameters())
    return time.process_time() - began


def main() -> None:
    print("Stela's decision, CPU seconds (components / executors given out)")
    for name, share in CONGESTED.items():
        row = (
            f"{n:,} / {n // 10:,}: {decision_seconds(layered_topology(n, share, Random(1)), n // 10):.2f}"
            for n in SIZES
        )
        print(f"  {name} congested:  " + "   ".join(row))


if __name__ == "__main__":
    main()
