"""What components that burn CPU do on paper, before and after an experiment's first event:
`python -m bench.simulator.shared_cores cost_models/processing_busy …`.

A fluid model without noise. Each executor has its tasks' share of what arrives, and needs for each tuple what its text
costs and a little more (`--overhead-ms`: receiving, counting, sending). The CPU of a machine that is left for tuples
(`--left`, a share of its cores: a worker at rest costs some) is shared evenly among the executors that want it; none
has more than a core. What an executor cannot serve waits. The experiment's own policies place and decide, on the rates
of this model. Where nobody lacks CPU it is the closed form (`analysis.claims.capacity`).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.claims import capacity
from barograph.plan.events.scaling import ScaleIn, ScaleOut
from barograph.plan.experiment import Experiment, Variant, load
from bench.tables import markdown_table
from inventory.machines import machine_type
from scheduler_plugins.model import (
    Component,
    Edge,
    Executor,
    Observation,
    ScaleEvent,
    Slot,
    Topology,
    WorkerMachine,
    executor_ranges,
)
from scheduler_plugins.policies import bind
from topologies import catalogue
from topologies.work import SOURCE_CHARACTERS

ROUNDS = 400  # of finding the shares: they settle far earlier
OVERHEAD_MS = 0.15  # a tuple and executor
LEFT = 0.88  # of a machine's cores with one worker, which takes 0.025 to 0.04 at rest


@dataclass(frozen=True)
class Running:
    """An executor where it runs; `tasks` of its component's."""

    component: str
    tasks: int
    machine: str


@dataclass(frozen=True)
class Rates:
    """Tuples/s by component, and by executor in the order given; `wanted`: cores that are asked for, by machine."""

    arriving: Mapping[str, float]
    served: Mapping[str, float]
    sent: Mapping[str, float]
    wanted: Mapping[str, float]


def rates(
    shape: capacity.TopologyCapacity, running: Sequence[Running], cores: Mapping[str, float], overhead_ms: float
) -> Rates:
    """At rest. Shares and flows depend on each other, so they are found in turns."""
    levels = dict.fromkeys(cores, 1.0)  # what each executor of a machine may have, if it wants it
    for _ in range(ROUNDS):
        found, wanted = _flows(shape, running, levels, overhead_ms)
        target = {name: _level([w for r, w in zip(running, wanted, strict=True) if r.machine == name], cores[name])
                  for name in cores}  # fmt: skip
        levels = {name: (levels[name] + target[name]) / 2 for name in cores}
    asked: dict[str, float] = defaultdict(float)
    for each, want in zip(running, wanted, strict=True):
        asked[each.machine] += want
    return replace(found, wanted=dict(asked))


def _level(wanted: Sequence[float], cores: float) -> float:
    """The even share: those that want less leave the rest to the others; nobody has more than a core."""
    left, number = cores, len(wanted)
    for want in sorted(wanted):
        if want * number > left:
            return min(1.0, left / number)
        left, number = left - want, number - 1
    return 1.0


def _flows(
    shape: capacity.TopologyCapacity, running: Sequence[Running], levels: Mapping[str, float], overhead_ms: float
) -> tuple[Rates, list[float]]:
    by_name = {component.name: component for component in shape.components}
    arriving: dict[str, float] = {}
    served: dict[str, float] = {}
    sent: dict[str, float] = {}
    characters: dict[str, float] = {}
    wanted = [0.0] * len(running)
    for name in shape.order:
        own = by_name[name]
        streams = [source for source, target in shape.edges if target == name]
        arriving[name] = own.offered_per_s if own.kind == "spout" else sum(sent[source] for source in streams)
        mean = SOURCE_CHARACTERS
        if streams and arriving[name]:
            mean = sum(sent[source] * characters[source] for source in streams) / arriving[name]
        seconds = (own.ms_per_character * mean + overhead_ms) / 1000
        served[name] = 0.0
        for place, each in enumerate(running):
            if each.component == name:
                mine = arriving[name] * each.tasks / own.tasks
                wanted[place] = mine * seconds
                served[name] += min(mine, levels[each.machine] / seconds) if seconds else mine
        sent[name] = served[name] * own.passes
        characters[name] = mean if own.kind == "spout" else mean * own.keeps + own.appends
    return Rates(arriving, served, sent, {}), wanted


@dataclass(frozen=True)
class Outcome:
    variant: str
    before: float  # tuples/s at all sinks
    after: float
    wanted_after: Mapping[str, float]

    @property
    def change_percent(self) -> float:
        return 100 * (self.after / self.before - 1)


def outcomes(experiment: Experiment, left: float, overhead_ms: float) -> list[Outcome]:
    return [_outcome(experiment, variant, left, overhead_ms) for variant in experiment.variants]


@dataclass(frozen=True)
class Layout:
    """Executors by component, the slot of each task, and what executors do there."""

    sizes: Mapping[str, int]
    placement: Mapping[int, Slot]
    found: Rates


def layouts(experiment: Experiment, variant: Variant, left: float, overhead_ms: float) -> tuple[Layout, Layout]:
    """Before the first event, and as the policy has it afterwards."""
    shape = waiting_shape(experiment, variant)
    type = machine_type(experiment.testbed.machine_type)
    names = [f"m{n}" for n in range(1, max(experiment.machines.before, experiment.machines.after) + 1)]
    cores = dict.fromkeys(names, left * type.cores * experiment.testbed.scale)
    policy = bind(variant.policy, variant.configured())
    workers = int(experiment.topologies_of(variant)[0].overrides["workers"])
    sizes = {each.name: each.executors for each in shape.components}
    fresh = _observed(shape, sizes, {}, workers)
    machines = _machines(names[: experiment.machines.before], type.slots)
    placement = policy(Observation(0.0, machines, (fresh,)), {}).placement[fresh.topology_id]
    before = Layout(sizes, placement, rates(shape, _running(fresh, placement), cores, overhead_ms))
    seen = _with_rates(replace(fresh, placement=placement), before.found)
    event = _event(experiment)
    machines = _machines(names, type.slots) if event.joined else machines
    decision = policy(Observation(100.0, machines, (seen,), samples_age_s=0.5, event=event), {})
    sizes = {**sizes, **decision.executors.get(fresh.topology_id, {})}
    moved = {**placement, **decision.placement.get(fresh.topology_id, {})}
    running = _running(_observed(shape, sizes, {}, workers), moved)
    return before, Layout(sizes, moved, rates(shape, running, cores, overhead_ms))


def _outcome(experiment: Experiment, variant: Variant, left: float, overhead_ms: float) -> Outcome:
    sinks = waiting_shape(experiment, variant).sinks
    before, after = layouts(experiment, variant, left, overhead_ms)
    first, then = (sum(each.found.served[sink] for sink in sinks) for each in (before, after))
    return Outcome(variant.name, first, then, after.found.wanted)


def waiting_shape(experiment: Experiment, variant: Variant) -> capacity.TopologyCapacity:
    """The topology as if its components waited: the same costs, of which the closed form knows."""
    chosen = experiment.topologies_of(variant)[0]
    parameters = {**chosen.parameters, "cost_model": "sleep"}
    shape = capacity.topology_of_flux(catalogue.render(chosen.name, parameters, chosen.overrides))
    assert shape is not None, f"{chosen.name} has no closed form"
    return shape


def _event(experiment: Experiment) -> ScaleEvent:
    event = experiment.events[0]
    if isinstance(event, ScaleOut):
        return ScaleEvent("e1", "scale_out", experiment.joining(0))
    assert isinstance(event, ScaleIn), "only scale events are known here"
    return ScaleEvent("e1", "scale_in", leave=event.machines)


def _machines(names: Iterable[str], slots: int) -> tuple[WorkerMachine, ...]:
    return tuple(WorkerMachine(name, name, tuple(range(6700, 6700 + slots))) for name in names)


def _observed(
    shape: capacity.TopologyCapacity, sizes: Mapping[str, int], placement: Mapping[int, Slot], workers: int
) -> Topology:
    """Storm numbers tasks by the names of their components."""
    kinds = {each.name: each for each in shape.components}
    components, first = [], 1
    for name in sorted(kinds):
        tasks = tuple(range(first, first + kinds[name].tasks))
        first += len(tasks)
        executors = tuple(Executor(a, b) for a, b in executor_ranges(tasks, sizes[name]))
        components.append(Component(name, kinds[name].kind, tasks, executors))
    edges = tuple(Edge(source, "default", target, "shuffle") for source, target in shape.edges)
    return Topology("paper-1", "paper", workers, tuple(components), edges, placement)


def _running(topology: Topology, placement: Mapping[int, Slot]) -> list[Running]:
    return [
        Running(component.name, each.last_task - each.first_task + 1, placement[each.first_task].machine)
        for component in topology.components
        for each in component.executors
    ]


def _with_rates(topology: Topology, found: Rates) -> Topology:
    components = tuple(
        replace(each, emitted_per_s=found.sent[each.name],
                executed_per_s=None if each.kind == "spout" else found.served[each.name])
        for each in topology.components
    )  # fmt: skip
    edges = tuple(replace(edge, tuples_per_s=found.sent[edge.source]) for edge in topology.edges)
    return replace(topology, components=components, edges=edges, window_s=60.0)


def table(experiment: Experiment, left: float = LEFT, overhead_ms: float = OVERHEAD_MS) -> str:
    lines = [
        [
            each.variant,
            f"{each.before:.1f}",
            f"{each.after:.1f}",
            f"{each.change_percent:+.0f}",
            _cores(each.wanted_after),
        ]
        for each in outcomes(experiment, left, overhead_ms)
    ]
    headings = ["variant", "before, tuples/s", "after, tuples/s", "change, %", "cores asked for afterwards"]
    title = f"{experiment.name}, {left:g} of the cores left for tuples, {overhead_ms:g} ms more a tuple and executor"
    return markdown_table(title, headings, lines)


def _cores(wanted: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {cores:.2f}" for name, cores in sorted(wanted.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("experiment", nargs="+", metavar="FAMILY/NAME")
    parser.add_argument("--left", type=float, default=LEFT, help="of a machine's cores, for tuples")
    parser.add_argument("--overhead-ms", type=float, default=OVERHEAD_MS, help="of each tuple at each executor")
    options = parser.parse_args()
    print("\n".join(table(load(name), options.left, options.overhead_ms) for name in options.experiment))


if __name__ == "__main__":
    main()
