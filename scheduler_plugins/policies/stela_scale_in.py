"""Stela's scale-in (SP II-F, algorithm 3; ST 5.3): the machines whose executors matter least to the throughput leave.

A machine's ETPSum adds the ETPs of its executors' components. The lowest leaves; its executors go round robin to the
others, the lowest ETPSum first. `one_by_one` computes all ETPSums anew before the next one leaves (SP); `all_at_once`
takes the lowest ones together (ST's wording, and the authors' code). What the papers leave open is decided here:

- several topologies: each ETP is a share of its own topology's throughput, and a machine adds them all up
- of equal ETPSums the machine with fewer executors counts as lower, then the one listed first
- on a machine an executor gets a slot that is still free, so that no running worker restarts, until its topology uses
  `workers` slots; after that the slot where its topology has the fewest executors. A topology without a slot on a
  machine may open one there; a machine that has none to give is passed over
- Storm's own executors (ackers) move like all others and count as 0
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Protocol

from scheduler_plugins.model import Decision, Executor, Machine, Memory, Observation, Slot
from scheduler_plugins.policies import dealing, etp, scale_in


class Rules(etp.Rules, Protocol):
    """What of `stela.Parameters` a scale-in reads."""

    @property
    def scale_in(self) -> str: ...


@dataclass(frozen=True)
class Resident:
    """An executor where it runs, and its component's ETP."""

    topology_id: str
    executor: Executor
    etp: float


@dataclass
class Shrinking:
    """The cluster while machines leave it: who stays, and the slot of every executor after the moves so far."""

    staying: list[Machine]
    workers: Mapping[str, int]  # by topology
    slots: dict[Resident, Slot]


def decide(observation: Observation, memory: Memory, rules: Rules) -> Decision:
    """Rates are there and the event can be served; only a topology that finds no slot can still refuse it."""
    assert observation.event is not None
    leave = observation.event.leave
    cluster = _cluster(observation, rules)
    sums = etp_sums(cluster)
    release: list[str] = []
    for count in [leave] if rules.scale_in == "all_at_once" else [1] * leave:
        homeless = remove_lowest(cluster, count, release)
        if homeless is not None:
            why = f"without {', '.join(release)} no slot would be left for {homeless.topology_id}"
            return scale_in.refused(memory, why)
    said = ", ".join(f"{name} ({sums[name]:.2f})" for name in release)
    return Decision(
        placement=_changes(observation, cluster),
        release=tuple(release),
        memory=memory,
        settled=True,
        reason=f"lowest ETPSum leaves: {said}",
    )


def _cluster(observation: Observation, rules: Rules) -> Shrinking:
    slots = {
        Resident(topology.topology_id, executor, shares.get(component.name, 0.0)): topology.placement[
            executor.first_task
        ]
        for topology in observation.topologies
        for shares in [etp.etps_now(topology, rules)]
        for component in topology.components
        for executor in component.executors
    }
    return Shrinking(
        staying=list(scale_in.living(observation)),
        workers={topology.topology_id: topology.workers for topology in observation.topologies},
        slots=slots,
    )


def etp_sums(cluster: Shrinking) -> dict[str, float]:
    """Machine → sum of its executors' ETPs; exact, so that equal machines are equal in whatever order one adds."""
    shares: dict[str, list[float]] = {machine.name: [] for machine in cluster.staying}
    for resident, slot in cluster.slots.items():
        if slot.machine in shares:
            shares[slot.machine].append(resident.etp)
    return {name: fsum(values) for name, values in shares.items()}


def remove_lowest(cluster: Shrinking, count: int, release: list[str]) -> Resident | None:
    """Add `count` machines to `release`, hand their executors to the others; the one that finds no slot, or None."""
    sums = etp_sums(cluster)
    busy = Counter(slot.machine for slot in cluster.slots.values())
    order = sorted(cluster.staying, key=lambda machine: (sums[machine.name], busy[machine.name]))
    leaving, targets = order[:count], order[count:]
    release.extend(machine.name for machine in leaving)
    cluster.staying = [machine for machine in cluster.staying if machine in targets]
    return _hand_over(cluster, _residents(cluster, leaving), targets)


def _residents(cluster: Shrinking, machines: Iterable[Machine]) -> list[Resident]:
    """Machine by machine; topologies as observed, executors as declared."""
    names = [machine.name for machine in machines]
    return [resident for name in names for resident, slot in cluster.slots.items() if slot.machine == name]


def _hand_over(cluster: Shrinking, moving: Sequence[Resident], targets: Sequence[Machine]) -> Resident | None:
    for resident in moving:
        del cluster.slots[resident]  # their slots go with the machine, so they must not count as used
    turn = 0
    for resident in moving:
        offers = [(turn + step, targets[(turn + step) % len(targets)]) for step in range(len(targets))]
        found = ((place, _slot_on(cluster, machine, resident.topology_id)) for place, machine in offers)
        place, slot = next(((p, s) for p, s in found if s is not None), (turn, None))
        if slot is None:
            return resident
        cluster.slots[resident], turn = slot, place + 1
    return None


def _slot_on(cluster: Shrinking, machine: Machine, topology_id: str) -> Slot | None:
    used = set(cluster.slots.values())
    mine = Counter(slot for resident, slot in cluster.slots.items() if resident.topology_id == topology_id)
    free = [s for s in (Slot(machine.name, port) for port in sorted(machine.ports)) if s not in used]
    here = [slot for slot in sorted(mine) if slot.machine == machine.name]
    if free and (len(mine) < cluster.workers[topology_id] or not here):
        return free[0]
    return min(here, key=lambda slot: mine[slot], default=None)


def _changes(observation: Observation, cluster: Shrinking) -> dict[str, Mapping[int, Slot]]:
    placement: dict[str, dict[int, Slot]] = {topology.topology_id: {} for topology in observation.topologies}
    for resident, slot in cluster.slots.items():
        tasks = range(resident.executor.first_task, resident.executor.last_task + 1)
        placement[resident.topology_id].update(dict.fromkeys(tasks, slot))
    return {t.topology_id: dealing.changed(t, placement[t.topology_id]) for t in observation.topologies}
