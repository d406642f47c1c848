"""What all scale-outs share: the machines that joined, the executors due to them, their free slots per topology."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from scheduler_plugins.model import Machine, Observation, Slot, Topology
from scheduler_plugins.policies import dealing

SlotsRule = Literal["per_machine", "with_new"]  # executors / machines (SP II-B), or / (machines + new) as in the code


def joined_machines(observation: Observation) -> tuple[tuple[Machine, ...], int]:
    """The machines that joined and are alive, and how many other living machines there are.

    A lost machine still counts in SP's "machines before", but executors cannot be averaged over it.
    """
    names = observation.event.joined if observation.event else ()
    alive = [machine for machine in observation.machines if machine.alive]
    joined = tuple(machine for machine in alive if machine.name in names)
    return joined, len(alive) - len(joined)


def executors_due(topology: Topology, machines_before: int, machines_new: int, rule: SlotsRule) -> int:
    """Executors for all new machines together: the average number a machine had, each (SP II-B, ST 5.2.1)."""
    total = sum(len(component.executors) for component in topology.components)
    divisor = machines_before + machines_new if rule == "with_new" else machines_before
    return total // divisor * machines_new


def slots_by_topology(
    machines: Sequence[Machine], topologies: Sequence[Topology]
) -> dict[str, dict[str, tuple[Slot, ...]]]:
    """Topology id → machine → free slots that it may use there: dealt in turn, because a slot has one topology."""
    taken = dealing.taken_slots(topologies)
    free = {m.name: dealing.free_slots([m], taken)[m.supervisor_id] for m in machines}
    count = len(topologies)
    return {
        topology.topology_id: {name: tuple(slots[index::count]) for name, slots in free.items()}
        for index, topology in enumerate(topologies)
    }
