"""Shared parts of policies at scale events: whether a reschedule is requested and rates are fresh enough, the machines
that joined or may leave, the executors due to new machines and their slots per topology.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from scheduler_plugins.model import Decision, Memory, Observation, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import initial_placement


def is_asked(observation: Observation) -> bool:
    """Return whether a reschedule is pending."""
    return observation.event is not None and observation.event.kind == "reschedule"


def samples_problem(age_s: float | None, most_s: float) -> str:
    """Return why samples of this age cannot be used for a decision; empty if they can."""
    if age_s is None:
        return "no samples yet"
    return f"samples are {age_s:.1f} s old, allowed are {most_s:g} s" if age_s > most_s else ""


def rates_problem(observation: Observation, max_samples_age_s: float) -> str:
    """Return why no decision for all topologies together can be based on the rates; empty if one can.

    A scale event waits for the last of them, since one decision answers it: slots of joined machines are dealt among
    all topologies, and machines leave by the sum over all. Windows are whole in half a minute.
    """
    problems = map(_window_problem, observation.topologies)
    return samples_problem(observation.samples_age_s, max_samples_age_s) or next(filter(None, problems), "")


def topology_rates_problem(topology: Topology, max_samples_age_s: float) -> str:
    """Return why no decision on this topology can be based on its rates; empty if one can."""
    return samples_problem(topology.samples_age_s, max_samples_age_s) or _window_problem(topology)


def _window_problem(topology: Topology) -> str:
    """Return why the window is unusable. A bolt without a rate has not been seen at all. An edge without one may be
    silent: it counts as 0."""
    bolts = [c.name for c in topology.components if c.kind == "bolt" and c.executed_per_s is None]
    return topology.window_fault or (f"no rates of {', '.join(bolts)}" if bolts else "")


def window_remark(observation: Observation, window_s: float) -> str:
    """Return a remark for a reason where the rates cover less time than `window_s`; else an empty string."""
    windows_s = [t.window_s for t in observation.topologies if t.window_s is not None and not t.window_fault]
    if not windows_s or min(windows_s) >= window_s - 0.5:
        return ""
    return f"; rates over {min(windows_s):.0f} s, as no more was measured of the {window_s:g} s asked for"


WINDOW_BOUNDS_S = (10, 600)  # of rates: one reading of SP's, and twice the authors' code


def living_machines(observation: Observation) -> tuple[WorkerMachine, ...]:
    """Return machines that can be chosen to leave: a dead one has left already, whatever the decision."""
    return tuple(machine for machine in observation.machines if machine.alive)


def scale_in_problem(observation: Observation) -> str:
    """Return why no choice of machines could serve the pending scale-in; empty if one can.

    Executors need one machine, and each topology a separate slot, whichever machines leave: counted as if those with
    the most slots did.
    """
    leave = observation.event.leave if observation.event else 0
    machines = living_machines(observation)
    if leave < 1:
        return f"{leave} machines are to leave; at least 1 must for a scale-in"
    if leave >= len(machines):
        return f"{leave} machines are to leave and {len(machines)} are alive; at least 1 must stay"
    slots = sum(sorted(len(machine.ports) for machine in machines)[: len(machines) - leave])
    number = sum(bool(topology.placement) for topology in observation.topologies)
    if slots < number:
        return f"{leave} machines are to leave; {slots} slots would stay for {number} topologies"
    return ""


def refuse_scale_in(memory: Memory, why: str) -> Decision:
    """Return a decision without changes that ends the event: asking again would not help."""
    return Decision(memory=memory, reason=f"refused: {why}", settled=True)


# Executors / machines for each new machine, rounded up for all together (SP II-B) or down for each; or executors /
# (machines + new), rounded down for each, as in the authors' code.
SlotsRule = Literal["per_machine", "per_machine_floor", "with_new"]


def joined_machines(observation: Observation) -> tuple[tuple[WorkerMachine, ...], int]:
    """Return the machines that joined and are alive, and the number of other living machines.

    A lost machine still counts in SP's "machines before", but executors cannot be averaged over it.
    """
    names = observation.event.joined if observation.event else ()
    living = [machine for machine in observation.machines if machine.alive]
    machines = tuple(machine for machine in living if machine.name in names)
    return machines, len(living) - len(machines)


def executors_for_new_machines(topology: Topology, machines_before: int, machines_new: int, rule: SlotsRule) -> int:
    """Return the number of executors for all new machines: each as many as a machine had (SP II-B, ST 5.2.1).

    Algorithm 2 runs `while slot < Ninstances`: a fraction is one executor more. Storm's own are no operator's (II-A).
    """
    total = sum(len(component.executors) for component in topology.components if component.kind != "system")
    if rule == "per_machine":
        return -(-total * machines_new // machines_before)
    return total // (machines_before + (machines_new if rule == "with_new" else 0)) * machines_new


def slots_by_topology(
    machines: Sequence[WorkerMachine], topologies: Sequence[Topology], wanted: Mapping[str, int]
) -> dict[str, list[Slot]]:
    """Return topology id → a slot on `machines` for each executor `wanted` there, or none where all are taken.

    Topologies take turns, executor by executor, for a slot has one topology. Each goes round the machines (SP II-E) and
    takes a free slot before one of its own.
    """
    slots_in_use = initial_placement.taken_slots(topologies)
    free_by_machine = {m.name: initial_placement.free_slots([m], slots_in_use)[m.supervisor_id] for m in machines}
    slots_by_name: dict[str, list[Slot]] = {topology.topology_id: [] for topology in topologies}
    load = Counter[str]()
    for turn in range(max(wanted.values(), default=0)):
        for name, slots in slots_by_name.items():
            share = Counter(slot.machine for slot in slots)
            candidates = [machine for machine in free_by_machine if free_by_machine[machine] or share[machine]]
            if turn < wanted[name] and candidates:
                machine = min(candidates, key=lambda each: (share[each], load[each]))
                workers = dict.fromkeys(slot for slot in slots if slot.machine == machine)
                slots.append(
                    free_by_machine[machine].pop(0) if free_by_machine[machine] else min(workers, key=slots.count)
                )
                load[machine] += 1
    return slots_by_name
