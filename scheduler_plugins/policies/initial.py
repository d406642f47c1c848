"""Slots for executors that have none: at submission, and after a crash. Every policy begins with this.

`one_component_per_machine` is SP IV-E's "each machine can be occupied by tasks from fewer than 2 operators". What SP
leaves open is decided here: spare machines go one by one to the component with the most executors per machine it has
(the first declared among equals) while that is more than one; with fewer machines than components the rule cannot be
kept, so the topology is placed round robin and the reason says so. It governs the placement of a topology nothing of
which has a slot; executors that lose theirs later go round robin to what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from scheduler_plugins.model import Component, Decision, Machine, Memory, Observation, Slot, Topology, unplaced_tasks
from scheduler_plugins.policies import dealing

Initial = Literal["round_robin", "one_component_per_machine"]


def place_first(observation: Observation, memory: Memory, initial: Initial) -> Decision | None:
    """A slot for every executor without one, moving nothing else; None if all have one.

    A pending event waits for it: what is decided on must be what runs.
    """
    missing = sum(len(unplaced_tasks(topology)) for topology in observation.topologies)
    if not missing:
        return None
    taken = dealing.taken_slots(observation.topologies)
    placed: dict[str, Mapping[int, Slot]] = {}
    said = []
    for topology in (t for t in observation.topologies if unplaced_tasks(t)):
        placement, how = _place(topology, observation.machines, taken, initial)
        taken |= set(placement.values())
        placed[topology.topology_id] = placement
        said.append(how)
    count = sum(map(len, placed.values()))
    waiting = "held: " if observation.event else ""
    reason = f"{waiting}placed {count} unplaced tasks {'; '.join(dict.fromkeys(said))}"
    if count < missing:
        reason += f"; {missing - count} found no slot"
    return Decision(placement=placed, memory=memory, reason=reason)


def _place(
    topology: Topology, machines: Sequence[Machine], taken: set[Slot], initial: Initial
) -> tuple[dict[int, Slot], str]:
    round_robin = dealing.deal_unplaced(topology, machines, taken)
    if initial == "round_robin" or topology.placement:
        return round_robin, "round robin"
    occupied = {slot.machine for slot in taken}
    empty = [m for m in machines if m.alive and m.ports and m.name not in occupied]
    needed = len(_operators(topology))
    if len(empty) < needed:
        found = f"{topology.name} has {needed} components, {len(empty)} machines are empty"
        return round_robin, f"round robin (refused: one_component_per_machine: {found})"
    return one_component_per_machine(topology, empty), "one component a machine"


def one_component_per_machine(topology: Topology, machines: Sequence[Machine]) -> dict[int, Slot]:
    """Task → slot over `machines`, empty ones and at least as many as components; `workers` slots shared evenly."""
    owned = _share(_operators(topology), sorted(machines, key=lambda m: m.supervisor_id))
    quotas = _quotas(topology.workers, sum(map(len, owned.values())))
    placement: dict[int, Slot] = {}
    for component in _operators(topology):
        groups = [[Slot(m.name, port) for port in sorted(m.ports)[: next(quotas)]] for m in owned[component.name]]
        placement |= dealing.round_robin(_ranges(component), dealing.in_turn(groups))
    # Storm's own (ackers) belong to no operator: they join the workers that are there.
    own = sorted(set(placement.values()))
    system = [r for c in topology.components if c.kind == "system" for r in _ranges(c)]
    return placement | dealing.round_robin(system, own)


def _share(components: Sequence[Component], machines: Sequence[Machine]) -> dict[str, list[Machine]]:
    counts = dict.fromkeys((c.name for c in components), 1)
    executors = {c.name: len(c.executors) for c in components}
    for _ in range(len(machines) - len(components)):
        name = max(counts, key=lambda n: executors[n] / counts[n])
        if executors[name] > counts[name]:
            counts[name] += 1
    left = iter(machines)
    return {name: [next(left) for _ in range(count)] for name, count in counts.items()}


def _quotas(workers: int, machines: int) -> Iterator[int]:
    """Slots for each machine in turn: `workers` shared evenly, the first ones get the remainder, each at least one."""
    each, more = divmod(workers, machines)
    return (max(each + (index < more), 1) for index in range(machines))


def _ranges(component: Component) -> list[tuple[int, int]]:
    return [(e.first_task, e.last_task) for e in component.executors]


def _operators(topology: Topology) -> list[Component]:
    return [component for component in topology.components if component.kind != "system"]
