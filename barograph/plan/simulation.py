"""The checks of an experiment for the simulator, and its topologies in the simulator's form.

Topologies and simulators do not know each other: this module turns the work of a component's class into costs and
shares. Tasks have the numbers that Storm would give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from barograph.plan.events.scaling import AutonomousPhase
from barograph.plan.experiment import SIMULATED, Experiment, Variant
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
    if not is_simulated(experiment):
        return list(dict.fromkeys(_only_simulated(experiment)))
    return [*_events(experiment), *_rounds(experiment), *_variants(experiment)]


def _only_simulated(experiment: Experiment) -> Iterator[str]:
    for choice in (each for variant in experiment.variants for each in experiment.topologies_of(variant)):
        config = choice.overrides.get("config")
        if isinstance(config, Mapping) and config.get(work.BUFFER) == work.UNBOUNDED:
            yield (
                f"topology {choice.name}: overrides.config: {work.BUFFER} is {work.UNBOUNDED}, and queues of Storm 2"
                " have a length; give one, such as 65536, or take the simulated testbed"
            )


def _events(experiment: Experiment) -> Iterator[str]:
    for place, event in enumerate(experiment.events):
        if any(disturbance.kind == "memory_limit" for _, disturbance in event.disturbances):
            yield (
                f"events.{place} is a {event.kind}, and the simulator knows nothing of memory; leave the event out, or"
                " take the local testbed"
            )


def _rounds(experiment: Experiment) -> Iterator[str]:
    """Yield errors of holds that ask the policy more often than once in a round of Nimbus."""
    value = experiment.testbed.options.get(SIMULATED, {}).get("round_s", SHORTEST_ROUND_S)
    round_s = value if isinstance(value, int | float) else SHORTEST_ROUND_S
    for place, event in enumerate(experiment.events):
        if isinstance(event, AutonomousPhase) and event.decide_every_s < round_s:
            yield (
                f"events.{place}.decide_every_s is {event.decide_every_s:g}; allowed: at least {round_s:g}, the"
                f" testbed's round_s, for a policy is asked in a round of Nimbus"
            )


def _variants(experiment: Experiment) -> Iterator[str]:
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
        yield from (f"{where}: {error}" for error in _topology_errors(experiment, variant))


def _topology_errors(experiment: Experiment, variant: Variant) -> Iterator[str]:
    for choice in experiment.topologies_of(variant):
        config = choice.overrides.get("config")
        yield from (f"topology {choice.name}: {error}" for error in _setting_errors(config))
        if any(work.setting_errors(config)):
            continue  # reported when it is rendered
        try:
            simulated_topology(catalogue.render(choice.file, choice.parameters, choice.overrides, choice.name), "x-1")
        except (SimulationError, UnknownWork) as error:
            yield str(error)
        except catalogue.TopologyError:
            continue  # reported when it is rendered


def _setting_errors(config: object) -> Iterator[str]:
    """Yield errors of settings without an effect in the model: variants that differ only in one would seem alike."""
    for key in config if isinstance(config, Mapping) else ():  # any other value is reported when it is rendered
        if key not in work.MODELLED and not str(key).startswith(OWN_SETTINGS):
            yield (
                f"overrides.config: {key} is not simulated; simulated are {', '.join(sorted(work.MODELLED))}; leave it"
                " out, or take the local testbed"
            )


def simulated_topology(flux: str, topology_id: str) -> tuple[Topology, SimulatedTopology]:
    """Return rendered Flux YAML for Nimbus and for the simulated machines. Raises UnknownWork, SimulationError."""
    _refuse_cycles(flux)
    topology = work.topology_work(flux)
    tasks = task_ids(topology)
    return _as_observed(topology, tasks, topology_id), _as_work(topology, tasks)


def _refuse_cycles(flux: str) -> None:
    shape = catalogue.read_flux(flux)
    sources: dict[str, list[str]] = {component.name: [] for component in shape.components}
    for edge in shape.edges:
        sources[edge.target].append(edge.source)
    if members := cycle_members(sources):
        raise cycle_refusal(shape.name, members)


def task_ids(known: work.TopologyWork) -> dict[str, tuple[int, ...]]:
    """Return task ids as Storm counts them: from 1 on, components in the order of their names, with the acker."""
    numbers = {component.name: component.tasks for component in known.components} | _ackers(known)
    ids, next_id = {}, 1
    for name in sorted(numbers):
        ids[name] = tuple(range(next_id, next_id + numbers[name]))
        next_id += numbers[name]
    return ids


def _ackers(known: work.TopologyWork) -> dict[str, int]:
    return {ACKER: known.ackers} if known.ackers else {}


def _as_observed(known: work.TopologyWork, tasks: Mapping[str, tuple[int, ...]], topology_id: str) -> Topology:
    components = tuple(
        Component(
            each.name,
            each.kind,
            tasks[each.name],
            tuple(Executor(first, last) for first, last in executor_ranges(tasks[each.name], each.executors)),
        )
        for each in known.components
    )
    ackers = tuple(
        Component(name, "system", tasks[name], tuple(Executor(task, task) for task in tasks[name]))
        for name in _ackers(known)
    )
    edges = tuple(Edge(each.source, each.stream, each.target, each.grouping) for each in known.edges)
    return Topology(topology_id, known.name, known.workers, (*components, *ackers), edges)


def _as_work(known: work.TopologyWork, tasks: Mapping[str, tuple[int, ...]]) -> SimulatedTopology:
    components = tuple(_component(known, each, tasks[each.name]) for each in known.components)
    ackers = tuple(SimulatedComponent(name, "system", tasks[name], buffer=known.buffer) for name in _ackers(known))
    edges = tuple(_edge(known, each) for each in known.edges)
    acks = tuple(_acks(each) for each in known.components if ackers)
    spout, bolt = (Waits(each.spin_s, each.sleep_s) for each in (known.spout_wait, known.bolt_wait))
    acking = Acking(known.pending, known.timeout_s, work.COMPLETE_BYTES) if ackers else None
    return SimulatedTopology(
        known.name, known.workers, (*components, *ackers), (*edges, *acks), bolt_waits=bolt, spout_waits=spout,
        acking=acking,
    )  # fmt: skip


def _component(known: work.TopologyWork, component: work.ComponentWork, tasks: tuple[int, ...]) -> SimulatedComponent:
    lengths = known.lengths[component.name]
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
        buffer=known.buffer,
    )


def _edge(known: work.TopologyWork, edge: catalogue.EdgeSpec) -> EdgeWork:
    """Return the edge. Fields spread evenly over tasks where their keys are unknown. Flux names groupings in a word."""
    passes = known.component(edge.source).passes
    tuple_bytes = known.sent_bytes(edge.source) + (work.ANCHOR_BYTES if known.ackers else 0)
    routes = known.routes.get((edge.source, edge.stream, edge.target), ())
    return EdgeWork(edge.source, edge.stream, edge.target, edge.grouping, passes, tuple_bytes, routes=routes)


def _acks(component: work.ComponentWork) -> EdgeWork:
    """Return the edge to the acker: a spout reports which trees it begins, a bolt which tuples it has processed, to the
    task that the tree's random number chooses."""
    stream, size = ("__ack_init", work.INIT_BYTES) if component.kind == "spout" else ("__ack_ack", work.ACK_BYTES)
    return EdgeWork(component.name, stream, ACKER, "fields", tuple_bytes=size)
