"""The checks of an experiment for the simulator, and its topologies in the simulator's form.

Topologies and simulators do not know each other: this module turns the work of a component's class into costs and
shares. Tasks have the numbers that Storm would give them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Literal

from barograph.plan.events.scaling import AutonomousPhase
from barograph.plan.experiment import SIMULATED, Experiment
from barograph.plan.topologies import TopologyChoice, one_of_each_kind
from scheduler_plugins.driver.cluster import PLACING_HERE
from scheduler_plugins.model import ACKER, SHORTEST_ROUND_S, Component, Edge, Executor, Topology, executor_ranges
from scheduler_plugins.simulator.work import (
    Acking,
    EdgeWork,
    SimulatedComponent,
    SimulatedTopology,
    SimulationError,
    Waits,
    cycle_members,
    cycle_refusal,
)
from topologies import catalogue, work
from topologies.errors import UnknownWork

OWN_SETTINGS = "barograph."  # kind and interval of records


def is_simulated(experiment: Experiment) -> bool:
    return experiment.testbed.name == SIMULATED


def complaints(experiment: Experiment) -> Sequence[str]:
    """Return what the simulator lacks, for a simulated experiment, and what only it has, for another."""
    if is_simulated(experiment):
        return [*_event_errors(experiment), *_variant_errors(experiment)]
    choices = [each for variant in experiment.variants for each in experiment.topologies_of(variant)]
    configs = [(each.name, each.overrides.get("config")) for each in choices]
    unbounded = [name for name, config in configs if _setting(config, work.BUFFER) == work.UNBOUNDED]
    return [
        f"topology {name}: overrides.config: {work.BUFFER} is {work.UNBOUNDED}, and queues of Storm 2 have a length;"
        " give one, such as 65536, or take the simulated testbed"
        for name in dict.fromkeys(unbounded)
    ]


def _setting(config: object, key: str) -> object:
    return config.get(key) if isinstance(config, Mapping) else None


def _event_errors(experiment: Experiment) -> Iterator[str]:
    """Yield errors of limits of memory, and of holds that ask the policy more often than once in a round of Nimbus."""
    value = experiment.testbed.options.get(SIMULATED, {}).get("round_s", SHORTEST_ROUND_S)
    round_s = value if isinstance(value, int | float) else SHORTEST_ROUND_S
    for place, event in enumerate(experiment.events):
        if any(disturbance.kind == "memory_limit" for _, disturbance in event.disturbances):
            yield (
                f"events.{place} is a {event.kind}, and the simulator knows nothing of memory; leave the event out, or"
                " take the local testbed"
            )
        if isinstance(event, AutonomousPhase) and event.decide_every_s < round_s:
            yield (
                f"events.{place}.decide_every_s is {event.decide_every_s:g}; allowed: at least {round_s:g}, the"
                f" testbed's round_s, for a policy is asked in a round of Nimbus"
            )


def _variant_errors(experiment: Experiment) -> Iterator[str]:
    for variant in experiment.variants:
        where = f"variants.{variant.name}"
        if variant.code is not None and variant.code.scheduler:
            yield (
                f"{where}.code: {variant.code.scheduler} needs a real Nimbus, and the simulated testbed has"
                f" none; leave the variant out, or choose another testbed"
            )
            continue
        scheduler = variant.parameters.get("scheduler", "default")
        if variant.policy == "storm" and scheduler not in PLACING_HERE:
            names = ", ".join(sorted(PLACING_HERE))
            yield f"{where}: Storm's {scheduler} scheduler places in a real Nimbus only; simulated are {names}"
        for choice in one_of_each_kind(experiment.topologies_of(variant)):
            yield from (f"{where}: {error}" for error in _topology_errors(choice))


def _topology_errors(choice: TopologyChoice) -> Iterator[str]:
    """Yield errors of settings without an effect in the model, for variants that differ only in one would seem alike;
    and of the topology. What is wrong everywhere is reported when it is rendered."""
    config = choice.overrides.get("config")
    for key in config if isinstance(config, Mapping) else ():
        if key not in work.MODELLED and not str(key).startswith(OWN_SETTINGS):
            yield (
                f"topology {choice.name}: overrides.config: {key} is not simulated; simulated are"
                f" {', '.join(sorted(work.MODELLED))}; leave it out, or take the local testbed"
            )
    if any(work.setting_errors(config)):
        return
    try:
        simulated_topology(catalogue.render(choice.file, choice.parameters, choice.overrides, choice.name), "x-1")
    except (SimulationError, UnknownWork) as error:
        yield str(error)
    except catalogue.TopologyError:
        return


def simulated_topology(flux: str, topology_id: str) -> tuple[Topology, SimulatedTopology]:
    """Return rendered Flux YAML for Nimbus and for the simulated machines. Raises UnknownWork, SimulationError."""
    shape = catalogue.read_flux(flux)
    sources: dict[str, list[str]] = {component.name: [] for component in shape.components}
    for edge in shape.edges:
        sources[edge.target].append(edge.source)
    if members := cycle_members(sources):
        raise cycle_refusal(shape.name, members)
    topology = work.topology_work(flux)
    if topology.ackers and topology.limit < math.inf:
        raise SimulationError(
            f"topology {shape.name}: {work.QUEUE_LIMIT} is not simulated with ackers; set {work.ACKERS} to 0, or"
            " take the local testbed"
        )
    tasks = task_ids(topology)
    sizes: list[tuple[str, Literal["spout", "bolt", "system"], int]]
    sizes = [(each.name, each.kind, each.executors) for each in topology.components]
    if topology.ackers:
        sizes.append((ACKER, "system", topology.ackers))
    observed = tuple(
        Component(name, kind, tasks[name], tuple(starmap(Executor, executor_ranges(tasks[name], executors))))
        for name, kind, executors in sizes
    )
    edges = tuple(Edge(each.source, each.stream, each.target, each.grouping) for each in topology.edges)
    return Topology(topology_id, topology.name, topology.workers, observed, edges), _as_work(topology, tasks)


def task_ids(topology: work.TopologyWork) -> dict[str, tuple[int, ...]]:
    """Return task ids as Storm counts them: from 1 on, components in the order of their names, with the acker."""
    numbers = {component.name: component.tasks for component in topology.components}
    numbers |= {ACKER: topology.ackers} if topology.ackers else {}
    ids, next_id = {}, 1
    for name in sorted(numbers):
        ids[name] = tuple(range(next_id, next_id + numbers[name]))
        next_id += numbers[name]
    return ids


def _as_work(topology: work.TopologyWork, tasks: Mapping[str, tuple[int, ...]]) -> SimulatedTopology:
    components = [_component(topology, each, tasks[each.name]) for each in topology.components]
    anchor_bytes = work.ANCHOR_BYTES if topology.ackers else 0
    # Fields spread evenly over tasks where their keys are unknown, and are taken to do so over machines.
    edges = [
        EdgeWork(
            each.source,
            each.stream,
            each.target,
            "fields" if each.grouping in catalogue.KEYED else each.grouping,
            topology.component(each.source).passes,
            topology.sent_bytes(each.source) + anchor_bytes,
            routes=topology.routes.get((each.source, each.stream, each.target), ()),
        )
        for each in topology.edges
    ]
    if topology.ackers:
        components.append(SimulatedComponent(ACKER, "system", tasks[ACKER], buffer=topology.buffer))
        # A spout reports which trees it begins, a bolt which tuples it has processed, to the task that the tree's
        # random number chooses.
        for each in topology.components:
            ack = ("__ack_init", work.INIT_BYTES) if each.kind == "spout" else ("__ack_ack", work.ACK_BYTES)
            edges.append(EdgeWork(each.name, ack[0], ACKER, "fields", tuple_bytes=ack[1]))
    spout, bolt = (Waits(each.spin_s, each.sleep_s) for each in (topology.spout_wait, topology.bolt_wait))
    acking = Acking(topology.pending, topology.timeout_s, work.COMPLETE_BYTES) if topology.ackers else None
    return SimulatedTopology(
        topology.name, topology.workers, tuple(components), tuple(edges), bolt_waits=bolt, spout_waits=spout,
        acking=acking,
    )  # fmt: skip


def _component(
    topology: work.TopologyWork, component: work.ComponentWork, tasks: tuple[int, ...]
) -> SimulatedComponent:
    lengths = topology.lengths[component.name]
    cost_ms = component.ms_per_character * work.mean(lengths)
    return SimulatedComponent(
        name=component.name,
        kind=component.kind,
        tasks=tasks,
        sleep_ms=cost_ms if component.cost_model == "sleep" else 0.0,
        cpu_ms=cost_ms if component.cost_model == "busy" else 0.0,
        cost_cv2=work.squared_variation(lengths) if cost_ms else 0.0,
        rate_per_s=component.rate_per_s,
        on_restart="skip" if component.on_restart == "skip" else "catch_up",
        buffer=topology.buffer if topology.limit == math.inf else math.inf,  # a queue drops before it is full
        limit=topology.limit if component.kind == "bolt" else math.inf,
    )
