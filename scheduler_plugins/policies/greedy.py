"""Greedy: the traffic-based online scheduler of Aniello, Baldoni and Querzoni (DEBS 2013) as MP IV-B describes it.

Pairs of executors are taken in the order of the tuples that they exchange and put into the same worker where that is
possible; workers are then put on machines in the same way (pairwise.py). An executor's load is the CPU time of its
thread. The paper's three parameters, with its values:

- `alpha` (0): how many executors a worker may have, from an even share (0) to all that leave one for each other (1)
- `beta` (0.5): how many machines are used at least, from as few as have slots enough (0) to one for each worker (1).
  A machine gets an even share of the workers, if it has the slots
- `gamma` (1.1): how much load a worker may have, as a multiple of the mean

A new placement is carried out where it lowers the tuples between machines by `threshold_percent` (1: always fire if
there are traffic benefits), or where a machine that is overloaded would have less to do. Overloaded is one on which the
threads of all topologies' executors use more CPU than `overload_percent` of its cores (`overload` `executors`; 100 is
the `capacity` of MP's own configuration). Threads cannot use more than there is, so this hardly ever fires. With
`overload` `machine` it is everything that uses CPU there. In a hold it acts every `rest_s` seconds (MP:
`reschedule.timeout`, 60).

A machine takes workers up to its cores, less what the executors of other topologies use of them, where these are or
will be after what was decided before in the same round.

With these values executors that are a little heavier than others soon find no worker that takes them. The published
program throws then, and everything stays (MP V-A: it often did not reschedule from 20 machines on); so does ours with
`no_room` `decline`. With `least_loaded` the least loaded worker takes such an executor.

MP's greedy deals executors that nobody registered evenly; ours those without traffic. `labels`: relocation.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import Literal

import numpy as np

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.communication import CommunicationGraph, Integers, Numbers, Pairs, graph_of_pairs
from scheduler_plugins.policies.pairwise import ROUNDING, Names, NoRoom, pairwise_bins
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number
from scheduler_plugins.policies.relocation import Labels, Relocation, relocation
from scheduler_plugins.policies.traffic_placement import (
    ExecutorGraph,
    PlacementProposal,
    cpu_loads,
    decide_by_traffic,
    machine_loads,
)

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
class GreedyParameters:
    alpha: float = 0.0
    beta: float = 0.5
    gamma: float = 1.1
    threshold_percent: float = 1.0
    overload: Literal["executors", "machine"] = "executors"  # whose CPU time counts
    overload_percent: float = 100.0
    no_room: Literal["decline", "least_loaded"] = "decline"
    labels: Labels = "matched"
    rest_s: float = 60.0
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples
    window_s: int = 60  # the longest window of rates, kept by the policy service

    def __post_init__(self) -> None:
        check_parameters(self, BOUNDS)
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)


def decide(observation: Observation, memory: Memory, parameters: GreedyParameters = GreedyParameters()) -> Decision:
    return decide_by_traffic(observation, memory, parameters, partial(_propose, parameters=parameters))


def _propose(graph: ExecutorGraph, observation: Observation, parameters: GreedyParameters) -> PlacementProposal:
    loads, components = cpu_loads(graph)
    if components:
        return PlacementProposal(f"refused: no CPU time is on record of executors of {', '.join(components)}")
    count = min(graph.topology.workers, sum(map(len, graph.slots)), len(graph.executors))
    vertices, workers = graph.busy(), np.full(len(graph.executors), -1)
    cores = {machine.name: machine.cores or inf for machine in observation.machines}
    other_loads = machine_loads(each for each in observation.topologies if each is not graph.topology)
    names = graph.machines[: len(graph.slots)]
    capacity, in_use = (
        np.array([cores[name] for name in names]),
        np.array([other_loads.get(name, 0.0) for name in names]),
    )
    try:
        workers[vertices] = greedy_parts(
            graph.subgraph(vertices, loads[vertices]), count, len(graph.executors), parameters
        )
        worker_loads = np.bincount(workers[vertices], loads[vertices], count).astype(np.float64)
        nodes = _machines_of_workers(graph, workers, worker_loads, capacity, in_use, parameters)
    except NoRoom as error:
        return PlacementProposal(f"declined: greedy finds no place: {error}")
    change = relocation(graph, workers, nodes, parameters.labels, worker_loads, capacity - in_use)
    relieved = _relieved_machines(graph, change, loads, observation, parameters)
    limit = change.before * (1 - parameters.threshold_percent / 100)
    if relieved or (change.after <= limit and change.after < change.before):
        why = f"{', '.join(relieved)} relieved; " if relieved else ""
        return PlacementProposal(f"greedy: {why}{change.words()}", change.placement)
    fewer = f"{parameters.threshold_percent:g} % fewer tuples"
    return PlacementProposal(f"kept: not {fewer}, and no overloaded machine would have less to do: {change.words()}")


def greedy_parts(
    graph: CommunicationGraph, count: int, executors: int, parameters: GreedyParameters, names: Names = EXECUTORS
) -> Integers:
    """Return the worker, 0 to count - 1, of each vertex; its weight is its load. `executors`: the number in all, also
    those that are no vertex. `names`: words for a refusal. Raises NoRoom, unless `no_room` is `least_loaded`."""
    fewest, maximum = ceil(executors / count), executors - count + 1
    most_items = np.full(count, fewest + ceil(parameters.alpha * (maximum - fewest)))
    most_load = np.full(count, parameters.gamma * graph.vertex_weights.sum() / count)
    strict = parameters.no_room == "decline"
    return pairwise_bins(graph, most_items, most_load, names, strict=strict, least_used=count)


def _machines_of_workers(
    graph: ExecutorGraph,
    workers: Integers,
    loads: Numbers,
    capacity: Numbers,
    in_use: Numbers,
    parameters: GreedyParameters,
) -> Integers:
    """Return the number of each worker's machine. `loads`: of workers; `capacity`: cores of machines, of which others
    have `in_use`."""
    slots, count = np.array(list(map(len, graph.slots))), len(loads)
    pairs = Pairs(workers[graph.pairs.sources], workers[graph.pairs.targets], graph.pairs.rates)
    least_used = machines_to_use(count, slots, parameters.beta)
    share = ceil(count / least_used)
    while np.minimum(slots, share).sum() < count:  # some have fewer slots than an even share
        share += 1
    limits, names = (np.minimum(slots, share), capacity), Names("worker", "workers", "machine")
    strict = parameters.no_room == "decline"
    return pairwise_bins(
        graph_of_pairs(pairs, loads), *limits, names, strict=strict, least_used=least_used, in_use=in_use
    )


def machines_to_use(workers: int, slots: Integers, beta: float) -> int:
    """Return the least number of machines; `slots`: of each machine, as many as workers in all."""
    fewest = int(np.searchsorted(np.cumsum(np.sort(slots)[::-1]), workers)) + 1
    return fewest + ceil(beta * (min(len(slots), workers) - fewest))


def _relieved_machines(
    graph: ExecutorGraph, change: Relocation, loads: Numbers, observation: Observation, parameters: GreedyParameters
) -> list[str]:
    """Return overloaded machines whose executors of this topology would use less."""
    in_use: Mapping[str, float | None] = machine_loads(observation.topologies)
    if parameters.overload == "machine":
        in_use = {machine.name: machine.cpu_load for machine in observation.machines}
    limits = {
        m.name: (m.cores or inf) * parameters.overload_percent / 100 * (1 + ROUNDING) for m in observation.machines
    }
    current, new = (np.bincount(where, loads, len(graph.machines)) for where in (graph.here, change.there))
    lighter = np.flatnonzero(new < current * (1 - ROUNDING))
    return [
        name
        for number in lighter.tolist()
        if (in_use.get(name := graph.machines[number]) or 0.0) > limits.get(name, inf)
    ]
