"""How long METIS and greedy take on topologies of eighty to a million tasks, beside the bare METIS call.

    python -m bench.speed.partition_bench --tasks 10000,100000 --parts 10,80

A topology of eight stages, a task an executor; each task sends to five of the next stage. The observation is as the
policy service makes it: a mapping with an entry a pair. `bare METIS` gets the graph that the policy makes, with its
weights, and nothing else is timed. `graph`: from the observation to that graph; `partition`: METIS with what it is
given, in the process that the policy begins; `whole decision` also matches labels and writes the placement. Ratios are
to the bare call with the same objective, greedy's to `cut`. CPU seconds, those of METIS' process among them, the least
of three, or of as many as there is time for; each line a process of its own, whose peak is beside what it held before
(the observation, or the graph). The memory of METIS' process is in neither.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from analysis.claims.exact import STAGES, observation_of, tuple_counts
from bench.tables import markdown_table
from scheduler_plugins.model import Observation

if TYPE_CHECKING:
    from scheduler_plugins.policies.partition import Objective
    from scheduler_plugins.policies.traffic_placement import ExecutorGraph

REPETITIONS, LONG_ENOUGH_S = 3, 20.0
GREEDY_AT_MOST = 100_000  # tasks, unless asked for more
Measured = tuple[float, float, float]  # CPU seconds, MB before, MB at the peak


def _observation(tasks: int, parts: int) -> Observation:
    width = tasks // STAGES
    return observation_of(tuple_counts(width, seed=1), width, parts)


def bare_metis(objective: Objective, tasks: int, parts: int) -> Measured:
    """The call alone, with arrays that are there."""
    import pymetis

    from scheduler_plugins.policies.partition import OBJECTIVES, whole_weights

    executors = _graph_of(_observation(tasks, parts))
    graph = executors.subgraph(executors.busy(), executors.processed)
    weights, edges = (
        whole_weights(graph.vertex_weights),
        None if objective == "vol" else whole_weights(graph.edge_weights),
    )
    adjacency = pymetis.CSRAdjacency(graph.starts, graph.neighbours)
    options = pymetis.Options(objtype=OBJECTIVES[objective], ufactor=30, seed=0)

    def call() -> None:
        pymetis.part_graph(parts, adjacency, vweights=weights, eweights=edges, recursive=False, options=options)

    return _measured(call)


def graph_alone(tasks: int, parts: int) -> Measured:
    observation = _observation(tasks, parts)

    def build() -> None:
        graph = _graph_of(observation)
        graph.subgraph(graph.busy(), graph.processed)

    return _measured(build)


def graph_and_partition(tasks: int, parts: int) -> Measured:
    from scheduler_plugins.policies.partition import MetisOptions, metis_parts

    observation = _observation(tasks, parts)

    def build_and_cut() -> None:
        graph = _graph_of(observation)
        metis_parts(graph.subgraph(graph.busy(), graph.processed), parts, MetisOptions("cut"))

    return _measured(build_and_cut)


def metis_decision(objective: Objective, tasks: int, parts: int) -> Measured:
    return _decision("metis", {"objective": objective}, tasks, parts)


def greedy_decision(tasks: int, parts: int) -> Measured:
    return _decision("greedy", {"no_room": "least_loaded"}, tasks, parts)


def _decision(policy: str, parameters: Mapping[str, str], tasks: int, parts: int) -> Measured:
    from scheduler_plugins.policies import bind

    observation, decide = _observation(tasks, parts), bind(policy, parameters)
    decided: list[str] = []
    found = _measured(lambda: decided.append(decide(observation, {}).reason))
    if "tuples between machines" not in decided[0]:
        raise SystemExit(f"{policy} decided nothing: {decided[0]}")
    return found


def _graph_of(observation: Observation) -> ExecutorGraph:
    from scheduler_plugins.policies.traffic_placement import executor_graph

    return executor_graph(observation.topologies[0], observation.machines, ())


def _measured(work: Callable[[], object]) -> Measured:
    before, begun = _peak_mb(), _cpu_s()
    seconds: list[float] = []
    while not seconds or (len(seconds) < REPETITIONS and _cpu_s() - begun < LONG_ENOUGH_S):
        start = _cpu_s()
        work()
        seconds.append(_cpu_s() - start)
    return min(seconds), before, _peak_mb()


def _cpu_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# By the bare call that they are compared with, which comes first.
LINES: Mapping[Objective, Mapping[str, Callable[[int, int], Measured]]] = {
    "cut": {
        "bare METIS, cut": partial(bare_metis, "cut"),
        "graph": graph_alone,
        "graph and partition, cut": graph_and_partition,
        "whole decision, cut": partial(metis_decision, "cut"),
        "whole decision, greedy": greedy_decision,
    },
    "vol": {
        "bare METIS, vol": partial(bare_metis, "vol"),
        "whole decision, vol": partial(metis_decision, "vol"),
    },
}


def in_a_process(work: Callable[[int, int], Measured], tasks: int, parts: int) -> Measured:
    """Alone, so that its peak is its own; the import of numpy and METIS is not in it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(_warm_up, work).result()
        return pool.submit(work, tasks, parts).result()


def _warm_up(work: Callable[[int, int], Measured]) -> None:
    work(800, 4)


def rows_of(tasks: int, parts: int, greedy_at_most: int) -> list[list[str]]:
    rows = []
    for lines in LINES.values():
        bare_s = 0.0
        for name, work in lines.items():
            if work is greedy_decision and tasks > greedy_at_most:
                continue
            seconds, before, peak = in_a_process(work, tasks, parts)
            bare_s = bare_s or seconds
            ratio = f"{seconds / bare_s:.2f}"
            rows.append([f"{tasks:,}", str(parts), name, f"{seconds:.3f}", ratio, f"{before:,.0f}", f"{peak:,.0f}"])
    return rows


def _numbers(text: str) -> Sequence[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tasks", type=_numbers, default=[80, 800, 10_000, 100_000, 1_000_000])
    options.add_argument("--parts", type=_numbers, default=[10, 80])
    options.add_argument("--greedy", type=int, default=GREEDY_AT_MOST, help="with at most so many tasks")
    given = options.parse_args()
    headings = ["tasks", "parts", "", "CPU, s", "× bare METIS", "MB before", "MB at the peak"]
    rows = [row for tasks in given.tasks for parts in given.parts for row in rows_of(tasks, parts, given.greedy)]
    print(markdown_table("Partitions of communication graphs", headings, rows))


if __name__ == "__main__":
    main()
