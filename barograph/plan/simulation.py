"""What of an experiment the simulator has, and its topologies as the simulator wants them.

Topologies know nothing of simulators and the other way round: here what a component's class does to a tuple becomes
costs and shares. Tasks have the numbers that Storm would give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from analysis.record import simulated
from barograph.plan.events.hold import Hold
from barograph.plan.experiment import Experiment, Variant
from scheduler_plugins.driver.cluster import PLACING_HERE
from scheduler_plugins.model import SHORTEST_ROUND_S, Component, Edge, Executor, Topology, executor_ranges
from scheduler_plugins.simulator.work import ComponentWork, EdgeWork, SimulationError, TopologyWork
from topologies import catalogue, work
from topologies.errors import UnknownWork

INSTEAD = "leave it out, or take machines"


def is_simulated(experiment: Experiment) -> bool:
    return simulated.is_simulated({"spec": {"testbed": {"name": experiment.testbed.name}}})


def complaints(experiment: Experiment) -> Sequence[str]:
    """What the simulator does not have, of an experiment that is to be simulated."""
    return [*_events(experiment), *_rounds(experiment), *_variants(experiment)] if is_simulated(experiment) else []


def _events(experiment: Experiment) -> Iterator[str]:
    for place, event in enumerate(experiment.events):
        if any(disturbance.kind == "memory_limit" for _, disturbance in event.disturbances):
            yield (
                f"events.{place} is a {event.kind}, and the simulator knows nothing of memory; leave the event out, or"
                " take the local testbed"
            )


def _rounds(experiment: Experiment) -> Iterator[str]:
    """A policy is asked in a round of Nimbus, and no more often."""
    given = experiment.testbed.options.get(simulated.SIMULATED, {}).get("round_s", SHORTEST_ROUND_S)
    round_s = given if isinstance(given, int | float) else SHORTEST_ROUND_S
    for place, event in enumerate(experiment.events):
        if isinstance(event, Hold) and event.decide_every_s < round_s:
            yield (
                f"events.{place}.decide_every_s is {event.decide_every_s:g}; allowed: at least {round_s:g}, the"
                f" testbed's round_s, for a policy is asked in a round of Nimbus"
            )


def _variants(experiment: Experiment) -> Iterator[str]:
    for variant in experiment.variants:
        where = f"variants.{variant.name}"
        if variant.code is not None and variant.code.scheduler:
            yield f"{where}.code: {variant.code.scheduler} is a scheduler of Storm's, and here is no Storm; {INSTEAD}"
            continue
        scheduler = variant.parameters.get("scheduler", "default")
        if variant.policy == "storm" and scheduler not in PLACING_HERE:
            here = ", ".join(sorted(PLACING_HERE))
            yield f"{where}: Storm's {scheduler} scheduler places in a real Nimbus only; simulated are {here}"
        yield from (f"{where}: {error}" for error in _topology_errors(experiment, variant))


def _topology_errors(experiment: Experiment, variant: Variant) -> Iterator[str]:
    for chosen in experiment.topologies_of(variant):
        try:
            simulated_topology(catalogue.render(chosen.file, chosen.parameters, chosen.overrides, chosen.name), "x-1")
        except (SimulationError, UnknownWork) as error:
            yield str(error)
        except catalogue.TopologyError:
            continue  # said by those who render it


def simulated_topology(flux: str, topology_id: str) -> tuple[Topology, TopologyWork]:
    """Rendered Flux YAML as Nimbus and the simulated machines have it. Raises UnknownWork, SimulationError."""
    known = work.topology_work(flux)
    if known.ackers:
        raise SimulationError(
            f"topology {known.name}: {work.ACKERS} is {known.ackers}; the simulator has no ackers: set it to 0, or take"
            " the local testbed"
        )
    tasks = task_ids(known)
    return _as_observed(known, tasks, topology_id), _as_work(known, tasks)


def task_ids(known: work.TopologyWork) -> dict[str, tuple[int, ...]]:
    """Storm counts tasks from 1 on, components in the order of their names."""
    found, first = {}, 1
    for component in sorted(known.components, key=lambda each: each.name):
        found[component.name] = tuple(range(first, first + component.tasks))
        first += component.tasks
    return found


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
    edges = tuple(Edge(each.source, each.stream, each.target, each.grouping) for each in known.edges)
    return Topology(topology_id, known.name, known.workers, components, edges)


def _as_work(known: work.TopologyWork, tasks: Mapping[str, tuple[int, ...]]) -> TopologyWork:
    components = tuple(_component(known, each, tasks[each.name]) for each in known.components)
    return TopologyWork(known.name, known.workers, components, tuple(_edge(known, each) for each in known.edges))


def _component(known: work.TopologyWork, component: work.ComponentWork, tasks: tuple[int, ...]) -> ComponentWork:
    lengths = known.lengths[component.name]
    cost_ms = component.ms_per_character * work.mean(lengths)
    return ComponentWork(
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


def _edge(known: work.TopologyWork, edge: catalogue.Edge) -> EdgeWork:
    """The fields that we group by spread evenly over tasks (docs/decisions/0004). Flux names groupings in a word."""
    source = known.component(edge.source)
    sent = source.sent_on(known.lengths[source.name]) if source.kind == "bolt" else known.lengths[source.name]
    return EdgeWork(edge.source, edge.stream, edge.target, edge.grouping, source.passes, work.tuple_bytes(sent))
