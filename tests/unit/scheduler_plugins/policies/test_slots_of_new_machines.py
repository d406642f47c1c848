"""Several topologies and the slots of machines that join: scaling.slots_by_topology, and what policies make of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.model import Observation, ScaleEvent, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import bind, scaling
from scheduler_plugins.policies.topology_aware import STRATEGIES
from scheduler_plugins.service.refusal import refusal
from tests.support.topologies_by_hand import LINEAR, topology

NO_SLOT = "no slot of the new machines was left"
PORTS = st.lists(st.integers(6700, 6705), max_size=4, unique=True).map(sorted).map(tuple)


def job(number: int, *, tasks: int) -> Topology:
    """A line of four components of one executor each, of which bolt_2 is congested; on a machine of its own."""
    inflow, processing = (
        {"spout": 100.0, "bolt_1": 100.0, "bolt_2": 20.0},
        {"bolt_1": 100.0, "bolt_2": 20.0, "sink": 20.0},
    )
    shape = topology(LINEAR, tasks=tasks, executors=1, workers=4, inflow=inflow, processing=processing)
    placement = {task: Slot("m1", 6700 + number) for c in shape.components for task in c.tasks}
    return replace(shape, topology_id=f"t-{number}", name=f"t{number}", placement=placement)


def asked(jobs: list[Topology], new: tuple[WorkerMachine, ...]) -> Observation:
    """Two machines with all of the jobs, and `new` ones that joined."""
    old = tuple(WorkerMachine(f"m{n}", f"id-{n}", tuple(range(6700, 6800))) for n in (1, 2))
    return Observation(
        0.0, (*old, *new), tuple(jobs), 1.0, ScaleEvent("e1", "scale_out", tuple(each.name for each in new))
    )


def test_a_slot_that_nine_topologies_cannot_use_is_the_tenths() -> None:
    """Nine run an executor for each task, so that nothing of them can grow; four slots are free."""
    jobs = [job(number, tasks=1) for number in range(9)] + [job(9, tasks=4)]
    observation = asked(jobs, (WorkerMachine("m3", "id-3", (6700, 6701, 6702, 6703)),))
    decision = bind("stela", {})(observation, {})
    assert refusal(observation, decision) is None
    # 4 executors on 2 machines: two slots. bolt_2, sent 100 and doing 20, then sink, which is sent 40 of its 20.
    assert {name: dict(of) for name, of in decision.executors.items() if of} == {"t-9": {"bolt_2": 2, "sink": 2}}
    assert set(decision.placement["t-9"].values()) == {Slot("m3", 6700), Slot("m3", 6701)}


def test_a_topology_that_gets_no_slot_is_told_so_and_one_that_cannot_grow_why_not() -> None:
    """Six jobs of 4 executors on 2 machines are due 4 each for two new ones, which have 4 slots: t4, t5 get none. One
    more runs an executor for each task."""
    new = tuple(WorkerMachine(f"m{n}", f"id-{n}", (6700, 6701)) for n in (3, 4))
    jobs = [*(job(number, tasks=4) for number in range(6)), job(6, tasks=1)]
    *served, t4, t5, full = bind("stela", {})(asked(jobs, new), {}).reason.split("; ")
    assert len(served) == 4 and all("bolt_2 1→" in each for each in served)
    assert (t4, t5) == (f"t4: {NO_SLOT}", f"t5: {NO_SLOT}")
    assert full == "t6: nothing to parallelise in 4 slots"


@given(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=10), ports=st.lists(PORTS, min_size=1, max_size=3))
@pytest.mark.parametrize("policy", ["stela", *STRATEGIES])
def test_no_topology_is_refused_a_free_slot_that_no_other_uses(
    policy: str, sizes: list[int], ports: list[tuple[int, ...]]
) -> None:
    """Whoever would place something if the others were not there, and now does not, sees every free slot taken."""
    jobs = [job(number, tasks=tasks) for number, tasks in enumerate(sizes)]
    new = tuple(WorkerMachine(f"m{n}", f"id-{n}", of) for n, of in enumerate(ports, start=3))
    decide = bind(policy, {})
    together = decide(asked(jobs, new), {})
    assert refusal(asked(jobs, new), together) is None
    used = {slot for of in together.placement.values() for slot in of.values()}
    for each in jobs:
        alone = decide(asked([each], new), {}).placement[each.topology_id]
        if alone and not together.placement[each.topology_id]:
            assert used == {Slot(machine.name, port) for machine in new for port in machine.ports}


@given(
    wanted=st.lists(st.integers(0, 7), min_size=1, max_size=6),
    ports=st.lists(PORTS, min_size=1, max_size=4),
    taken=st.sets(st.integers(6700, 6705)),
)
def test_slots_are_dealt_once_and_free_ones_first(
    wanted: list[int], ports: list[tuple[int, ...]], taken: set[int]
) -> None:
    machines = tuple(WorkerMachine(f"m{n}", f"id-{n}", of) for n, of in enumerate(ports, start=3))
    other = replace(job(99, tasks=1), placement=dict(enumerate((Slot("m3", port) for port in taken), start=1)))
    jobs = [*(job(number, tasks=1) for number in range(len(wanted))), other]
    need = {f"t-{number}": count for number, count in enumerate(wanted)} | {"t-99": 0}
    free = {Slot(m.name, port) for m in machines for port in m.ports} - set(other.placement.values())
    dealt = scaling.slots_by_topology(machines, jobs, need)
    used = {slot for slots in dealt.values() for slot in slots}
    assert used <= free and len(used) == sum(len(set(slots)) for slots in dealt.values()), "a slot has one topology"
    for name, slots in dealt.items():
        assert len(slots) == need[name] or (not slots and used == free)
        for slot, count in Counter(slots).items():
            assert count == 1 or {each for each in free if each.machine == slot.machine} <= used


@given(count=st.integers(0, 30), ports=st.lists(PORTS.filter(bool), min_size=1, max_size=4))
def test_one_topology_goes_round_the_machines_whatever_slots_they_have(
    count: int, ports: list[tuple[int, ...]]
) -> None:
    machines = tuple(WorkerMachine(f"m{n}", f"id-{n}", of) for n, of in enumerate(ports, start=3))
    slots = scaling.slots_by_topology(machines, [job(1, tasks=1)], {"t-1": count})["t-1"]
    assert [slot.machine for slot in slots] == [machines[turn % len(machines)].name for turn in range(count)]
    for machine in machines:
        times = Counter(slot.port for slot in slots if slot.machine == machine.name)
        assert not times or max(times.values()) - min(times[port] for port in machine.ports) <= 1
