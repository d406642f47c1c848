"""METIS: the communication graph of the running topology cut into as many parts as there are machines (MP III-C, IV-B).

Vertices are executors, an edge weighs the tuples of both directions. A vertex weighs its traffic in both directions
(`vertex_weight: tuples`, MP III-C), or `one`, or the CPU time of its thread (`cpu`, which MP VI would have had). There
are as many parts as living machines with a slot for the topology, at most as many as its workers and as executors with
traffic; each part is one worker on a separate machine. If these are fewer workers than the topology's setting, the
others end: MP has one worker a machine.

`objective: vol` is how the paper ran METIS (`-objtype=vol`): total communication volume, in which edge weights do not
count. `cut` minimises MP's own cost function, the tuples between parts. `imbalance` is METIS' aim (1.03), `seed` its
seed. `labels`: relocation.py.

For `vol` METIS' k-way runs once, as in the paper, and its recursive bisection where k-way leaves parts empty or far too
heavy. For `cut` both run, with several seeds, and the best balanced answer is used (partition.py). If no answer is
usable, or METIS ends without one, the topology stays where it is; the reason names each cause.

A partition is carried out whatever it saves, as in MP, unless `least_saving_percent` sets the share of tuples between
machines that it must save: less is declined, and the reason names the saving. In a hold the policy acts every `rest_s`
seconds; each time workers restart for it, so give it a least saving there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation
from scheduler_plugins.policies import initial_placement, scaling
from scheduler_plugins.policies.communication import load_imbalance
from scheduler_plugins.policies.metis_process import MetisProcess, NoAnswer, PymetisMissing
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number
from scheduler_plugins.policies.partition import LARGEST_SEED, MetisOptions, Objective, metis_parts
from scheduler_plugins.policies.relocation import Labels, relocation
from scheduler_plugins.policies.traffic_placement import ExecutorGraph, PlacementProposal, cpu_loads, decide_by_traffic

BOUNDS = {"imbalance": (1.001, 100.0), "least_saving_percent": (0.0, 100.0), "rest_s": (1.0, LONGEST_ROUND_S)}


@dataclass(frozen=True)
class MetisParameters:
    objective: Objective = "vol"  # as the paper ran it
    imbalance: float = 1.03  # of the heaviest part: METIS' aim, and its default
    vertex_weight: Literal["tuples", "one", "cpu"] = "tuples"
    labels: Labels = "matched"
    seed: int = 0
    least_saving_percent: float | None = None  # of the tuples between machines; None: nothing is declined (MP)
    rest_s: float = 60.0  # between two decisions in a hold (MP V-A)
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples
    window_s: int = 60  # the longest window of rates, kept by the policy service

    def __post_init__(self) -> None:
        check_parameters(self, BOUNDS)
        check_whole_number("seed", self.seed, 0, LARGEST_SEED)
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)


def decide(observation: Observation, memory: Memory, parameters: MetisParameters = MetisParameters()) -> Decision:
    with MetisProcess() as metis:
        return decide_by_traffic(observation, memory, parameters, partial(_propose, parameters=parameters, metis=metis))


def _propose(
    graph: ExecutorGraph, _observation: Observation, parameters: MetisParameters, metis: MetisProcess
) -> PlacementProposal:
    weights = graph.processed if parameters.vertex_weight == "tuples" else np.ones(len(graph.executors))
    if parameters.vertex_weight == "cpu":
        weights, components = cpu_loads(graph)
        if components:
            names = ", ".join(components)
            return PlacementProposal(f"refused: no CPU time is on record of executors of {names}")
    vertices = graph.busy()
    count = min(len(graph.slots), graph.topology.workers, len(vertices))
    what = f"{len(vertices)} executors in {count} parts"
    options = MetisOptions(parameters.objective, parameters.imbalance, parameters.seed)
    try:
        partition = metis_parts(graph.subgraph(vertices, weights[vertices]), count, options, metis)
    except PymetisMissing as error:
        return PlacementProposal(f"refused: {error}; install it on the master, or choose another policy")
    except NoAnswer as error:
        return PlacementProposal(f"declined, no partition for {what}: {error}")
    if not partition.is_sound:
        return PlacementProposal(
            f"declined, METIS {parameters.objective} finds no balance for {what}: {partition.words}"
        )
    workers = np.full(len(graph.executors), -1)
    workers[vertices] = partition.parts
    change = relocation(graph, workers, np.arange(count), parameters.labels)
    balance = load_imbalance(weights[vertices], partition.parts, count)
    why = f", {partition.words}" if partition.words else ""
    words = f"{what} (METIS {parameters.objective}, imbalance {balance:.2f}{why}); {change.words()}"
    least_percent = parameters.least_saving_percent
    if least_percent is not None and change.saving_percent() < least_percent:
        return PlacementProposal(f"declined, less than {least_percent:g} % are saved: {words}")
    return PlacementProposal(words, change.placement)
