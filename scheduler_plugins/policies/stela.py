"""Stela: on-demand elasticity by effective throughput percentage (SP II, ST 4 and 5).

Scale-out: new machines get as many executors as machines had on average, a fraction rounded up (SP II-B and the loop of
algorithm 2); each goes to the congested component with the highest ETP, on the new machines in turn; rates are
projected, and the next is chosen (etp.py). Nothing that runs is moved.

Scale-in (SP II-F, algorithm 3; ST 5.3): a machine's ETPSum adds the ETPs of its executors' components. The lowest
leaves; its executors go round robin to the others, the lowest ETPSum first. `one_by_one` computes all ETPSums anew
before the next one leaves (SP); `all_at_once` takes the lowest ones together (ST's wording, and the authors' code).
What the papers leave open is decided here:

- several topologies: each ETP is a share of its own topology's throughput, and a machine adds them all up
- of equal ETPSums the machine with fewer executors counts as lower, then the one listed first
- on a machine an executor gets a slot that is still free, so that no running worker restarts, until its topology uses
  `workers` slots; after that the slot where its topology has the fewest executors. A topology without a slot on a
  machine may open one there; a machine that has none to give is passed over
- Storm's own executors (ackers) move like all others and count as 0

The parameters' defaults follow the papers; the other values are what the authors' code did (VARIANTS: the paper, the
code, and one variant for each difference), but for `window_s`, 60 s here: the paper's rates are means over 20 readings
10 s apart (SP II-C: 200 s), the code's over up to 30 (300 s). A window has what was measured so far, and the reason
says so where that is less. No replay can tell another window's answer, so no VARIANTS differ in it. Also of neither is
`slots: per_machine_floor`, which is what our runs until 28 November 2026 had. Not a parameter is:

- it passes over components that run as many executors as they have tasks. So do we under any name: the paper's rule
  would give a slot to an executor that Storm cannot start. Where that is all that is congested, slots stay empty: SP
  grows a source only where nothing is
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal

from scheduler_plugins.model import (
    Decision,
    Executor,
    Memory,
    Observation,
    Slot,
    Topology,
    WorkerMachine,
    executor_ranges,
)
from scheduler_plugins.policies import etp, initial_placement, scaling
from scheduler_plugins.policies.parameters import check_parameters, check_whole_number

PAPER_PARAMETERS: Mapping[str, Any] = {
    "slots": "per_machine",
    "score": "etp",
    "shared_sink": "once",
    "scale_in": "one_by_one",
}

AUTHORS_PARAMETERS: Mapping[str, Any] = {
    "slots": "with_new",
    "score": "etp_per_executor",
    "shared_sink": "per_path",
    "scale_in": "all_at_once",
}

# name → parameters of the policy `stela`: the paper's rules, with one difference at a time, then all of the code's
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "paper": PAPER_PARAMETERS,
    "paper, slots: per_machine_floor": {**PAPER_PARAMETERS, "slots": "per_machine_floor"},
    **{f"paper, {name}: {value}": {**PAPER_PARAMETERS, name: value} for name, value in AUTHORS_PARAMETERS.items()},
    "authors": AUTHORS_PARAMETERS,
}


@dataclass(frozen=True)
class ExecutorShare:
    """A running executor, and its component's ETP."""

    topology_id: str
    executor: Executor
    etp: float


@dataclass
class ScaleInCluster:
    """The cluster during a scale-in: the staying machines, and the slot of every executor after the moves so far."""

    staying: list[WorkerMachine]
    workers: Mapping[str, int]  # by topology
    slots: dict[ExecutorShare, Slot]


def decide_scale_in(observation: Observation, memory: Memory, rules: StelaParameters) -> Decision:
    """Decide a scale-in with known rates that can be served; only a topology without a slot can still refuse it."""
    assert observation.event is not None
    leave = observation.event.leave
    cluster = ScaleInCluster(
        staying=list(scaling.living_machines(observation)),
        workers={topology.topology_id: topology.workers for topology in observation.topologies},
        slots={
            ExecutorShare(topology.topology_id, executor, shares.get(component.name, 0.0)): topology.placement[
                executor.first_task
            ]
            for topology in observation.topologies
            for shares in [etp.measured_etps(topology, rules)]
            for component in topology.components
            for executor in component.executors
        },
    )
    sums = machine_etp_sums(cluster)
    release: list[str] = []
    for count in [leave] if rules.scale_in == "all_at_once" else [1] * leave:
        homeless = remove_lowest(cluster, count, release)
        if homeless is not None:
            why = f"without {', '.join(release)} no slot would be left for {homeless.topology_id}"
            return scaling.refuse_scale_in(memory, why)
    placement: dict[str, dict[int, Slot]] = {topology.topology_id: {} for topology in observation.topologies}
    for share, slot in cluster.slots.items():
        tasks = range(share.executor.first_task, share.executor.last_task + 1)
        placement[share.topology_id].update(dict.fromkeys(tasks, slot))
    words = ", ".join(f"{name} ({sums[name]:.2f})" for name in release)
    return Decision(
        placement={
            each.topology_id: initial_placement.changed_slots(each, placement[each.topology_id])
            for each in observation.topologies
        },
        release=tuple(release),
        memory=memory,
        settled=True,
        reason=f"lowest ETPSum leaves: {words}{scaling.window_remark(observation, rules.window_s)}",
    )


def machine_etp_sums(cluster: ScaleInCluster) -> dict[str, float]:
    """Return machine → sum of its executors' ETPs; exact, so that equal machines are equal in any order of addition."""
    shares: dict[str, list[float]] = {machine.name: [] for machine in cluster.staying}
    for resident, slot in cluster.slots.items():
        if slot.machine in shares:
            shares[slot.machine].append(resident.etp)
    return {name: fsum(values) for name, values in shares.items()}


def remove_lowest(cluster: ScaleInCluster, count: int, release: list[str]) -> ExecutorShare | None:
    """Add `count` machines to `release`, move their executors to the others; return one without a slot, or None."""
    sums = machine_etp_sums(cluster)
    load = Counter(slot.machine for slot in cluster.slots.values())
    order = sorted(cluster.staying, key=lambda machine: (sums[machine.name], load[machine.name]))
    leaving, targets = order[:count], order[count:]
    release.extend(machine.name for machine in leaving)
    cluster.staying = [machine for machine in cluster.staying if machine in targets]
    moving = [share for each in leaving for share, slot in cluster.slots.items() if slot.machine == each.name]
    for resident in moving:
        del cluster.slots[resident]  # their slots go with the machine, so they must not count as used
    turn = 0
    for resident in moving:
        offers = [(turn + step, targets[(turn + step) % len(targets)]) for step in range(len(targets))]
        slots_on_offer = ((place, _slot_on(cluster, machine, resident.topology_id)) for place, machine in offers)
        place, slot = next(((p, s) for p, s in slots_on_offer if s is not None), (turn, None))
        if slot is None:
            return resident
        cluster.slots[resident], turn = slot, place + 1
    return None


def _slot_on(cluster: ScaleInCluster, machine: WorkerMachine, topology_id: str) -> Slot | None:
    slots_in_use = set(cluster.slots.values())
    mine = Counter(slot for resident, slot in cluster.slots.items() if resident.topology_id == topology_id)
    free_ports = [s for s in (Slot(machine.name, port) for port in sorted(machine.ports)) if s not in slots_in_use]
    present = [slot for slot in sorted(mine) if slot.machine == machine.name]
    if free_ports and (len(mine) < cluster.workers[topology_id] or not present):
        return free_ports[0]
    return min(present, key=lambda slot: mine[slot], default=None)


@dataclass(frozen=True)
class StelaParameters:
    congestion_rate: float = 1.2  # SP II-C
    slots: scaling.SlotsRule = "per_machine"
    score: Literal["etp", "etp_per_executor"] = "etp"
    shared_sink: Literal["once", "per_path"] = "once"  # SP's definition, or SP's algorithm 1
    scale_in: Literal["one_by_one", "all_at_once"] = "one_by_one"  # ETPSum anew after each machine (SP II-F), or not
    congestion: Literal["rates", "bounded_queues"] = "rates"
    queue_mark: float = 1000.0  # tuples waiting per executor that mean congestion, for bounded_queues
    initial: initial_placement.InitialRule = "round_robin"
    max_samples_age_s: float = 10.0  # no decision on older samples
    window_s: int = 60  # the longest window of rates, kept by the policy service

    def __post_init__(self) -> None:
        check_parameters(self)
        check_whole_number("window_s", self.window_s, *scaling.WINDOW_BOUNDS_S)


def decide(observation: Observation, memory: Memory, parameters: StelaParameters = StelaParameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, parameters.initial)
    observation = initial_placement.with_slots(observation)
    if first is not None or observation.event is None:
        return first or Decision(memory=memory)
    shrinks = observation.event.kind == "scale_in"
    why = scaling.scale_in_problem(observation) if shrinks else ""
    if why:
        return scaling.refuse_scale_in(memory, why)
    problem = scaling.rates_problem(observation, parameters.max_samples_age_s)
    if problem:
        return Decision(memory=memory, reason=f"held: {problem}")
    return decide_scale_in(observation, memory, parameters) if shrinks else _scale_out(observation, memory, parameters)


def _scale_out(observation: Observation, memory: Memory, parameters: StelaParameters) -> Decision:
    machines, base_machines = scaling.joined_machines(observation)
    if not machines or base_machines < 1:
        return Decision(memory=memory, reason="held: the machines that joined are not known to Nimbus yet")
    counts = {t.topology_id: scaling.executors_for_new_machines(t, base_machines, len(machines), parameters.slots)
              for t in observation.topologies}  # fmt: skip
    targets = {t.topology_id: etp.choose_targets(t, counts[t.topology_id], parameters) for t in observation.topologies}
    slots = scaling.slots_by_topology(machines, observation.topologies, {name: len(targets[name]) for name in targets})
    executors: dict[str, Mapping[str, int]] = {}
    placement: dict[str, Mapping[int, Slot]] = {}
    texts = []
    for topology in observation.topologies:
        name = topology.topology_id
        new_slots: dict[str, list[Slot]] = {}
        for target, slot in zip(targets[name], slots[name], strict=False):  # none where no slot is free
            new_slots.setdefault(target, []).append(slot)
        executors[name] = {
            c.name: len(c.executors) + len(new_slots[c.name]) for c in topology.components if c.name in new_slots
        }
        placement[name] = place_new_executors(topology, new_slots)
        is_refused = bool(targets[name]) and not new_slots
        texts.append(_scale_out_reason(topology, counts[name], executors[name], refused=is_refused))
    reason = "; ".join(texts) + scaling.window_remark(observation, parameters.window_s)
    return Decision(executors=executors, placement=placement, memory=memory, settled=True, reason=reason)


def place_new_executors(topology: Topology, new_slots: Mapping[str, Sequence[Slot]]) -> dict[int, Slot]:
    """Return slots that change: a component's new executors go to its `new_slots`, all others stay with their tasks."""
    placement: dict[int, Slot] = {}
    for component in topology.components:
        if component.name in new_slots:
            added_slots = new_slots[component.name]
            ranges = executor_ranges(component.tasks, len(component.executors) + len(added_slots))
            for (first, last), slot in zip(
                ranges, _executor_slots(component.executors, ranges, topology, iter(added_slots)), strict=True
            ):
                placement.update(dict.fromkeys(range(first, last + 1), slot))
    return initial_placement.changed_slots(topology, placement)


def _executor_slots(
    old: tuple[Executor, ...], ranges: tuple[tuple[int, int], ...], topology: Topology, new_slots: Iterator[Slot]
) -> list[Slot]:
    """Return slots: each old executor's goes to the first new range that begins in it; remaining ranges are new."""
    heirs: dict[int, Executor] = {}
    for index, (first, _) in enumerate(ranges):
        parent = next(e for e in old if e.first_task <= first <= e.last_task)
        if parent not in heirs.values():
            heirs[index] = parent
    # An old executor in which no range begins still keeps its slot busy: the nearest range without one takes it.
    for orphan in [e for e in old if e not in heirs.values()]:
        without = [index for index in range(len(ranges)) if index not in heirs]
        heirs[min(without, key=lambda index: abs(ranges[index][0] - orphan.first_task))] = orphan
    return [
        topology.placement[heirs[index].first_task] if index in heirs else next(new_slots)
        for index in range(len(ranges))
    ]


def _scale_out_reason(topology: Topology, count: int, grown: Mapping[str, int], *, refused: bool) -> str:
    if not grown:
        problem = "no slot of the new machines was left" if refused else f"nothing to parallelise in {count} slots"
        return f"{topology.name}: {problem}"
    counts = {component.name: len(component.executors) for component in topology.components}
    steps = (f"{name} {counts[name]}→{n}" for name, n in grown.items())
    return f"{topology.name}: {count} slots, {', '.join(steps)}"
