"""METIS: the communication graph of the running topology cut into as many parts as there are machines (MP III-C, IV-B).

Vertices are executors, an edge weighs the tuples of both directions. A vertex weighs what it sends and receives
(`vertex_weight: tuples`, MP III-C), or `one`, or the CPU time of its thread (`cpu`, which MP VI would have had). There
are as many parts as living machines with a slot for the topology, at most as many as it has workers and as there are
executors with traffic; each part is one worker on a machine of its own. Where that is fewer workers than the topology
asked for, the others end: MP has one worker a machine.

`objective: vol` is how the paper ran METIS (`-objtype=vol`): total communication volume, in which edge weights do not
count. `cut` minimises MP's own cost function, the tuples between parts. `imbalance` is METIS' aim (1.03), `seed` its
seed. `labels`: relocation.py.

For `vol` METIS' k-way is asked once, as the paper did, and its recursive bisection where k-way leaves parts empty or
far too heavy. For `cut` both are asked, with several seeds, and the best balanced answer is taken (partition.py).
Where none will do, or METIS ends without an answer, the topology stays where it is; the reason says each.

A partition is carried out whatever it saves, as MP did, unless `least_saving_percent` says how much of the tuples
between machines it has to save: less is declined, and the reason says what it would have been. In a hold the policy
acts every `rest_s` seconds; each time workers restart for it, so give it a least saving there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.communication import Numbers, load_imbalance
from scheduler_plugins.policies.executor_graph import ExecutorGraph, cpu_loads
from scheduler_plugins.policies.metis_process import MetisProcess, NoAnswer, PymetisMissing
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number
from scheduler_plugins.policies.partition import LARGEST_SEED, MetisOptions, Objective, metis_parts
from scheduler_plugins.policies.relocation import Labels, relocation
from scheduler_plugins.policies.traffic_placement import Proposal, decide_by_traffic

BOUNDS = {"imbalance": (1.001, 100.0), "least_saving_percent": (0.0, 100.0), "rest_s": (1.0, LONGEST_ROUND_S)}


@dataclass(frozen=True)
class Parameters:
    objective: Objective = "vol"  # as the paper ran it
    imbalance: float = 1.03  # of the heaviest part: METIS' aim, and its default
    vertex_weight: Literal["tuples", "one", "cpu"] = "tuples"
    labels: Labels = "matched"
    seed: int = 0
    least_saving_percent: float | None = None  # of the tuples between machines; None: nothing is declined (MP)
    rest_s: float = 60.0  # between two decisions in a hold (MP V-A)
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples
    window_s: int = 60  # the longest that rates are means over; the policy service keeps it

    def __post_init__(self) -> None:
        check_parameters(self, BOUNDS)
        check_whole_number("seed", self.seed, 0, LARGEST_SEED)
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    with MetisProcess() as metis:
        return decide_by_traffic(observation, memory, parameters, partial(_propose, parameters=parameters, metis=metis))


def _propose(graph: ExecutorGraph, _observation: Observation, parameters: Parameters, metis: MetisProcess) -> Proposal:
    weights = _vertex_weights(graph, parameters)
    if isinstance(weights, str):
        return Proposal(f"refused: {weights}")
    busy = graph.busy()
    count = min(len(graph.slots), graph.topology.workers, len(busy))
    what = f"{len(busy)} executors in {count} parts"
    options = MetisOptions(parameters.objective, parameters.imbalance, parameters.seed)
    try:
        partition = metis_parts(graph.subgraph(busy, weights[busy]), count, options, metis)
    except PymetisMissing as error:
        return Proposal(f"refused: {error}; install it on the master, or choose another policy")
    except NoAnswer as error:
        return Proposal(f"declined, no partition for {what}: {error}")
    if not partition.is_sound:
        return Proposal(f"declined, METIS {parameters.objective} finds no balance for {what}: {partition.words}")
    workers = np.full(len(graph.executors), -1)
    workers[busy] = partition.parts
    change = relocation(graph, workers, np.arange(count), parameters.labels)
    balance = load_imbalance(weights[busy], partition.parts, count)
    why = f", {partition.words}" if partition.words else ""
    words = f"{what} (METIS {parameters.objective}, imbalance {balance:.2f}{why}); {change.words()}"
    least = parameters.least_saving_percent
    if least is not None and change.saving_percent() < least:
        return Proposal(f"declined, less than {least:g} % are saved: {words}")
    return Proposal(words, change.placement)


def _vertex_weights(graph: ExecutorGraph, parameters: Parameters) -> Numbers | str:
    """Of each executor; or why there are none."""
    if parameters.vertex_weight == "tuples":
        return graph.processed
    if parameters.vertex_weight == "one":
        return np.ones(len(graph.executors))
    loads, unknown = cpu_loads(graph)
    return f"no CPU time is on record of executors of {', '.join(unknown)}" if unknown else loads
