"""A policy for tests: in a hold it exchanges slots of two topologies, acquires a machine, moves a worker there, and as
it moves that back it releases the machine. Then it rests. One step each time that it may act.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_plugins.model import LONGEST_ROUND_S, Decision, Memory, Observation, Slot, Topology
from scheduler_plugins.policies import PolicyEntry, initial_placement

MOVE = 2  # the first step that waits until nothing is under way


@dataclass(frozen=True)
class Parameters:
    """By names in Storm. `stay_s`: how long the worker is at least on the machine that joined."""

    giver: str = "star"  # gives its first slot for the last one of `taker`
    taker: str = "other"
    guest: str = "star"  # its last worker moves to the machine that joins, and back
    stay_s: float = 8.0


def decide(observation: Observation, memory: Memory, parameters: Parameters = Parameters()) -> Decision:
    first = initial_placement.initial_decision(observation, memory, "round_robin")
    step = memory.get("step", 0)
    is_busy = step >= MOVE and any(topology.rebalancing for topology in observation.topologies)
    if first is not None or not observation.may_act or is_busy:
        return first or Decision(memory=memory)
    after = {**memory, "step": step + 1}
    if step == 0:
        return _exchange(_named(observation, parameters.giver), _named(observation, parameters.taker), after)
    if step == 1:
        return Decision(acquire=1, memory=after, reason="one machine more")
    if step == MOVE:
        return _move(observation, _named(observation, parameters.guest), parameters.stay_s, memory)
    if step == MOVE + 1:
        return _move_back(_named(observation, parameters.guest), after)
    return Decision(memory=memory, rest_s=LONGEST_ROUND_S)


def _named(observation: Observation, name: str) -> Topology:
    return next(topology for topology in observation.topologies if topology.name == name)


def _exchange(giver: Topology, taker: Topology, memory: Memory) -> Decision:
    given, taken = min(giver.placement.values()), max(taker.placement.values())
    placement = {giver.topology_id: _to(giver, given, taken), taker.topology_id: _to(taker, taken, given)}
    return Decision(placement=placement, memory=memory, reason=f"{giver.name} and {taker.name}: {given} for {taken}")


def _move(observation: Observation, guest: Topology, stay_s: float, memory: Memory) -> Decision:
    """Once the machine is there."""
    asked = (each for each in observation.machine_requests if each.kind == "acquire" and each.outcome == "done")
    joined = next((name for each in asked for name in each.machines), None)
    machine = next((each for each in observation.machines if each.name == joined and each.alive), None)
    if machine is None:
        return Decision(memory=memory)
    home, there = max(guest.placement.values()), Slot(machine.name, min(machine.ports))
    after = {**memory, "step": MOVE + 1, "home": str(home), "there": str(there)}
    placement = {guest.topology_id: _to(guest, home, there)}
    return Decision(placement=placement, memory=after, reason=f"{guest.name} to {there}", rest_s=stay_s)


def _move_back(guest: Topology, memory: Memory) -> Decision:
    home, there = Slot.parse(memory["home"]), Slot.parse(memory["there"])
    placement = {guest.topology_id: _to(guest, there, home)}
    reason = f"{guest.name} back to {home}, {there.machine} may leave"
    return Decision(placement=placement, release=(there.machine,), memory=memory, reason=reason)


def _to(topology: Topology, here: Slot, there: Slot) -> dict[int, Slot]:
    """The tasks of one slot, in another one."""
    return {task: there for task, slot in topology.placement.items() if slot == here}


ENTRY = PolicyEntry(decide, Parameters, frozenset())
