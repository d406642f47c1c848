"""How fast the simulator's world is, and how that grows: `python -m bench.speed.simulator_bench`.

CPU seconds, a table of sizes; the world alone, without records, driver and policies, which are in
`bench.speed.long_runs`. Each size has a process of its own, so that its peak of memory is its own. The largest
takes a minute or two.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context

from bench.tables import markdown_table
from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.work import Costs, EdgeWork, MachineSize, SimulatedComponent, SimulatedTopology
from scheduler_plugins.simulator.world import Assignment, Sample, World

DEPTH = 8
GROUPING = "shuffle"


@dataclass(frozen=True)
class Size:
    """`topologies` of `tasks` each, an executor a task, in `DEPTH` components; samples are as long as steps. All is
    simulated `rounds` times. `aim`: of one of them. `cores` of a machine: as a rule more than all ask for."""

    name: str
    machines: int
    topologies: int
    tasks: int
    seconds: float
    step_s: float
    rounds: int = 1
    aim: str = ""
    cores: float = 1000.0


SIZES = (
    Size("80 machines, 640 tasks, 300 s", 80, 1, 640, 300.0, 1.0, 5, "2 s"),
    Size("the same, CPU for 65 % of the tuples", 80, 1, 640, 300.0, 1.0, 5, cores=0.03),
    Size("80 machines, 6,400 tasks, 300 s", 80, 1, 6_400, 300.0, 1.0, 3),
    Size("80 machines, 64,000 tasks, 300 s", 80, 1, 64_000, 300.0, 1.0),
    Size("80 machines, 1,000,000 tasks, 300 s", 80, 1, 1_000_000, 300.0, 1.0, 1, "120 s, 8 GB"),
    Size("10 jobs on 10 machines, 48 h in steps of 10 s, no decisions", 10, 10, 56, 172_800.0, 10.0),
)


def chain(name: str, tasks: int) -> SimulatedTopology:
    """A source of 10 tuples/s a task, and bolts that sleep 20 ms and burn 0.02 ms."""
    each = tasks // DEPTH
    numbers = [tuple(range(1 + n * each, 1 + (n + 1) * each)) for n in range(DEPTH)]
    bolts = [
        SimulatedComponent(f"bolt_{n}", "bolt", numbers[n], sleep_ms=20.0, cpu_ms=0.02, buffer=65_536.0)
        for n in range(1, DEPTH)
    ]
    components = (SimulatedComponent("source", "spout", numbers[0], rate_per_s=10.0 * each), *bolts)
    names = [component.name for component in components]
    edges = tuple(EdgeWork(a, "default", b, GROUPING) for a, b in pairwise(names))
    return SimulatedTopology(name, 1, components, edges)


def world_of(size: Size) -> World:
    machines = [MachineSize(f"m{n}", cores=size.cores, bandwidth_mbit=1e6) for n in range(1, size.machines + 1)]
    world = World(machines, Costs(), 0.0, step_s=size.step_s, sample_s=size.step_s)
    for number in range(1, size.topologies + 1):
        work = chain(f"t{number}", size.tasks)
        tasks = [task for component in work.components for task in component.tasks]
        placement = {task: Slot(machines[at % size.machines].name, 6700 + number) for at, task in enumerate(tasks)}
        world.submit(work.name, work)
        world.assign(work.name, Assignment({c.name: len(c.tasks) for c in work.components}, placement))
    return world


@dataclass(frozen=True)
class Spent:
    """`cpu_s`: of each round. `peak_mb`: of the process, with Python and its libraries."""

    executed: float
    cpu_s: tuple[float, ...]
    peak_mb: float


def measure(size: Size) -> Spent:
    seconds, executed = [], 0.0

    def take(sample: Sample) -> None:
        nonlocal executed
        executed += float(sample.counters.executed.sum())

    for _ in range(size.rounds):
        begun, executed = time.process_time(), 0.0
        world_of(size).advance(size.seconds, take)
        seconds.append(time.process_time() - begun)
    return Spent(executed, tuple(seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def measure_apart(size: Size) -> Spent:
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(measure, size).result()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--most-tasks", type=int, default=1_000_000)
    most = options.parse_args().most_tasks
    rows = []
    for size in SIZES:
        tasks = size.topologies * size.tasks
        if tasks > most:
            continue
        spent = measure_apart(size)
        each_ns = 1e9 * statistics.median(spent.cpu_s) / tasks / size.seconds
        cpu = f"{statistics.median(spent.cpu_s):.1f}" + (f" (of {size.rounds})" if size.rounds > 1 else "")
        rows.append([size.name, f"{spent.executed:,.0f}", cpu, size.aim, f"{each_ns:.0f}", f"{spent.peak_mb:,.0f}"])
    headings = ["", "tuples executed", "CPU, s", "aim", "ns a task and simulated second", "peak of the process, MB"]
    print(markdown_table("The simulator's world", headings, rows))
    print_errors_of_the_default_costs()


def print_errors_of_the_default_costs() -> None:
    """Not measured here, for that takes real runs: what calibrations on them have left (docs/simulator.md)."""
    from analysis.calibration.validation import known_validations  # here: sizes are measured in processes without them
    from analysis.report.calibration_page import errors_table
    from scheduler_plugins.simulator import model_sha256

    for shipped in known_validations([]):
        known = [each for each in shipped.rankings if each["tau"] is not None]
        taus = ", ".join(f"{each['experiment']} {each['tau']:.2g}" for each in known)
        same = "this model" if shipped.model == model_sha256() else "another version of the model"
        title = f"The model beside real runs, judged on {shipped.made} with {same}; Kendall's tau of variants: {taus}"
        table = errors_table(shipped)
        print(markdown_table(title, [column.label for column in table.columns], table.text_rows()))


if __name__ == "__main__":
    main()
