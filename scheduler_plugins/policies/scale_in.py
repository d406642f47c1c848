"""What all scale-ins share: which machines may leave, and when none does."""

from __future__ import annotations

from scheduler_plugins.model import Decision, Machine, Memory, Observation


def living(observation: Observation) -> tuple[Machine, ...]:
    """Machines that can be chosen to leave: a dead one has left already, whatever is decided."""
    return tuple(machine for machine in observation.machines if machine.alive)


def why_refused(observation: Observation) -> str:
    """Why no choice of machines could serve the pending scale-in; empty if one can.

    Executors need one machine, and each topology a slot of its own, whichever machines leave: counted as if those
    with the most slots did.
    """
    leave = observation.event.leave if observation.event else 0
    alive = living(observation)
    if leave < 1:
        return f"{leave} machines are to leave; at least 1 must for a scale-in"
    if leave >= len(alive):
        return f"{leave} machines are to leave and {len(alive)} are alive; at least 1 must stay"
    slots = sum(sorted(len(machine.ports) for machine in alive)[: len(alive) - leave])
    if slots < len(observation.topologies):
        return f"{leave} machines are to leave; {slots} slots would stay for {len(observation.topologies)} topologies"
    return ""


def refused(memory: Memory, why: str) -> Decision:
    """No change, and the event is over: asking again would not help."""
    return Decision(memory=memory, reason=f"refused: {why}", settled=True)
