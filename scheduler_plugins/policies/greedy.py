"""Greedy: the traffic-based online scheduler of Aniello, Baldoni and Querzoni (DEBS 2013) as MP IV-B describes it.

Pairs of executors are taken in the order of the tuples that they exchange and put into the same worker where that is
possible; workers are then put on machines in the same way (pairwise.py). An executor's load is the CPU time of its
thread. The paper's three parameters, with its values:

- `alpha` (0): how many executors a worker may have, from an even share (0) to all that leave one for each other (1)
- `beta` (0.5): how many machines are used at least, from as few as have slots enough (0) to one for each worker (1).
  A machine gets an even share of the workers, if it has the slots
- `gamma` (1.1): how much load a worker may have, as a multiple of the mean

A new placement is carried out where it lowers the tuples between machines by `threshold_percent` (1: always fire if
there are traffic benefits), or where a machine that is overloaded, by more CPU in use than `overload_percent` of its
cores, would have less to do. MP says of neither which load is too much; 90 is ours. In a hold it acts every `rest_s`
seconds (MP: `reschedule.timeout`, 60).

With these values executors that are a little heavier than others soon find no worker that takes them. The published
program throws then, and everything stays (MP V-A: it often did not reschedule from 20 machines on); so does ours with
`no_room` `decline`. With `least_loaded` the least loaded worker takes such an executor.

MP's greedy deals executors that nobody registered evenly; ours those without traffic. `labels`: relocation.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import Literal

import numpy as np

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.communication import CommunicationGraph, Integers, Numbers, Pairs, graph_of_pairs
from scheduler_plugins.policies.executor_graph import ExecutorGraph, cpu_loads
from scheduler_plugins.policies.pairwise import Names, NoRoom, pairwise_bins
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number
from scheduler_plugins.policies.relocation import Labels, Relocation, relocation
from scheduler_plugins.policies.traffic_placement import Proposal, decide_by_traffic

BOUNDS = {
    "alpha": (0.0, 1.0),
    "beta": (0.0, 1.0),
    "gamma": (1.0, 100.0),
    "threshold_percent": (0.0, 100.0),
    "overload_percent": (1.0, 100.0),
    "rest_s": (1.0, LONGEST_ROUND_S),
}


EXECUTORS = Names("executor", "executors", "worker")


@dataclass(frozen=True)
class Parameters:
    alpha: float = 0.0
    beta: float = 0.5
    gamma: float = 1.1
    threshold_percent: float = 1.0
    overload_percent: float = 90.0
    no_room: Literal["decline", "least_loaded"] = "decline"
    labels: Labels = "matched"
    rest_s: float = 60.0
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples
    window_s: int = 60  # the longest that rates are means over; the policy service keeps it

    def __post_init__(self) -> None:
        check_parameters(self, BOUNDS)
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    return decide_by_traffic(observation, memory, parameters, partial(_propose, parameters=parameters))


def _propose(graph: ExecutorGraph, observation: Observation, parameters: Parameters) -> Proposal:
    loads, unknown = cpu_loads(graph)
    if unknown:
        return Proposal(f"refused: no CPU time is on record of executors of {', '.join(unknown)}")
    count = min(graph.topology.workers, sum(map(len, graph.slots)), len(graph.executors))
    cores = {machine.name: machine.cores for machine in observation.machines}
    capacity = np.array([cores.get(name) or inf for name in graph.machines[: len(graph.slots)]])
    busy = graph.busy()
    try:
        parts = greedy_parts(graph.subgraph(busy, loads[busy]), count, len(graph.executors), parameters)
        nodes = _machines_of_workers(graph, busy, parts, count, loads, capacity, parameters)
    except NoRoom as error:
        return Proposal(f"declined: greedy finds no place: {error}")
    workers = np.full(len(graph.executors), -1)
    workers[busy] = parts
    return _proposal(graph, relocation(graph, workers, nodes, parameters.labels), loads, observation, parameters)


def greedy_parts(
    graph: CommunicationGraph,
    count: int,
    executors: int,
    parameters: Parameters,
    names: Names = EXECUTORS,
) -> Integers:
    """The worker, 0 to count - 1, of each vertex; its weight is its load. `executors`: in all, also those that are no
    vertex. `names`: what a refusal calls them. Raises NoRoom, unless `no_room` is `least_loaded`."""
    fewest, most = ceil(executors / count), executors - count + 1
    most_items = np.full(count, fewest + ceil(parameters.alpha * (most - fewest)))
    most_load = np.full(count, parameters.gamma * graph.vertex_weights.sum() / count)
    strict = parameters.no_room == "decline"
    return pairwise_bins(graph, most_items, most_load, names, strict=strict, least_used=count)


def _machines_of_workers(
    graph: ExecutorGraph,
    busy: Integers,
    parts: Integers,
    count: int,
    loads: Numbers,
    capacity: Numbers,
    parameters: Parameters,
) -> Integers:
    """The number of each worker's machine; `capacity`: their cores."""
    slots = np.array(list(map(len, graph.slots)))
    worker_of = np.full(len(graph.executors), -1)
    worker_of[busy] = parts
    pairs = Pairs(worker_of[graph.pairs.sources], worker_of[graph.pairs.targets], graph.pairs.rates)
    worker_graph = graph_of_pairs(pairs, np.bincount(parts, loads[busy], count).astype(np.float64))
    used = machines_to_use(count, slots, parameters.beta)
    most_items = np.minimum(slots, _workers_a_machine(count, used, slots))
    strict = parameters.no_room == "decline"
    names = Names("worker", "workers", "machine")
    return pairwise_bins(worker_graph, most_items, capacity, names, strict=strict, least_used=used)


def machines_to_use(workers: int, slots: Integers, beta: float) -> int:
    """At least so many; `slots`: of each machine, as many as workers in all."""
    fewest = int(np.searchsorted(np.cumsum(np.sort(slots)[::-1]), workers)) + 1
    return fewest + ceil(beta * (min(len(slots), workers) - fewest))


def _workers_a_machine(workers: int, used: int, slots: Integers) -> int:
    """An even share of those machines; more where some have fewer slots than that."""
    share = ceil(workers / used)
    while np.minimum(slots, share).sum() < workers:
        share += 1
    return share


def _proposal(
    graph: ExecutorGraph, found: Relocation, loads: Numbers, observation: Observation, parameters: Parameters
) -> Proposal:
    relieved = _relieved_machines(graph, found, loads, observation, parameters)
    is_less = found.after <= found.before * (1 - parameters.threshold_percent / 100) and found.after < found.before
    if is_less or relieved:
        why = f"{', '.join(relieved)} relieved; " if relieved else ""
        return Proposal(f"greedy: {why}{found.words()}", found.placement)
    least = f"{parameters.threshold_percent:g} % fewer tuples"
    return Proposal(f"kept: not {least}, and no overloaded machine would have less to do: {found.words()}")


def _relieved_machines(
    graph: ExecutorGraph, found: Relocation, loads: Numbers, observation: Observation, parameters: Parameters
) -> list[str]:
    """Machines that are overloaded, and whose executors of this topology would use less."""
    share = parameters.overload_percent / 100
    overloaded = {
        machine.name
        for machine in observation.machines
        if machine.cores and machine.cpu_load is not None and machine.cpu_load > share * machine.cores
    }
    now, then = (np.bincount(where, loads, len(graph.machines)) for where in (graph.here, found.there))
    lighter = np.flatnonzero(then < now * (1 - 1e-9))
    return [name for number in lighter.tolist() if (name := graph.machines[number]) in overloaded]
