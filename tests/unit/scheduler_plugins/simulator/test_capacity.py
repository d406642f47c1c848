"""What machines' cores and full queues let executors do: closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.capacity import fair_level
from scheduler_plugins.simulator.work import EdgeWork, Load, MachineSize, SimulatedComponent, SimulatedTopology
from scheduler_plugins.simulator.world import Assignment, World
from tests.support.worlds import FREE, Totals, acked, advanced, chain, dealt, world_of


@pytest.mark.parametrize("step_s", [0.1, 1.0])
@pytest.mark.parametrize("buffer", [20.0, 50.0, 200.0])
def test_a_full_queue_that_two_feed_unequally_keeps_its_executor_busy(buffer: float, step_s: float) -> None:
    spouts = [
        SimulatedComponent(name, "spout", (task,), rate_per_s=rate)
        for task, name, rate in ((1, "a", 10.0), (2, "b", 200.0))
    ]
    bolt = SimulatedComponent("c", "bolt", (3,), sleep_ms=10.0, buffer=buffer)
    edges = tuple(EdgeWork(spout.name, "default", "c", "shuffle") for spout in spouts)
    world, totals = (
        world_of(SimulatedTopology("two", 1, (*spouts, bolt), edges), machines=1, slots=[Slot("m1", 6700)]),
        Totals(),
    )
    world.step_s = world.sample_s = step_s
    world.advance(1060, totals.take)
    assert totals.rate("c", 1030, 1060) == pytest.approx(100.0, rel=0.02)
    assert totals.rate("a", 1030, 1060) + totals.rate("b", 1030, 1060) == pytest.approx(100.0, rel=0.05)
    assert totals.waiting["c"] <= buffer * 1.01


@pytest.mark.parametrize("step_s", [0.1, 1.0])
def test_who_waits_for_a_full_queue_gets_as_much_of_its_room_as_any_other(step_s: float) -> None:
    """A spout of two executors, of which one has CPU for 30 tuples/s and one for 100; the bolt does 100."""
    spout = SimulatedComponent("spout", "spout", (1, 2), cpu_ms=10.0)
    bolt = SimulatedComponent("bolt", "bolt", (3,), sleep_ms=10.0, buffer=50.0)
    work = SimulatedTopology("unequal", 2, (spout, bolt), (EdgeWork("spout", "default", "bolt", "shuffle"),))
    world, totals = World([MachineSize("m1", 0.3), MachineSize("m2", 2.0)], FREE, 1000.0, 0), Totals()
    world.step_s = world.sample_s = step_s
    world.submit("x-1", work)
    world.assign(
        "x-1", Assignment({"spout": 2, "bolt": 1}, {1: Slot("m1", 6700), 2: Slot("m2", 6700), 3: Slot("m2", 6700)})
    )
    world.advance(1060, totals.take)
    emitted = sum(each.counters.executed[:2] for each in totals.samples if each.begin >= 1030)
    assert emitted / 30 == pytest.approx([30.0, 70.0], rel=0.02)


@pytest.mark.parametrize("step_s", [0.2, 1.0])
def test_chance_costs_no_more_than_the_slowest_machine_lacks(step_s: float) -> None:
    """Chains from machine to machine, and ackers that all of them feed: every machine is used in full by the mean of
    five executors, so 5 % by chance (a step of 1 s) make the slowest of twelve some 3 % slower."""
    even, uneven = (_emitted_by_chains(noise, step_s) for noise in (0.0, 0.05 * step_s**0.5))
    assert 0.95 * even < uneven < even


def _emitted_by_chains(noise: float, step_s: float) -> float:
    """Tuples/s of twelve chains over as many machines, whose spouts emit as fast as they can."""
    slots = [Slot(f"m{number}", 6700) for number in range(1, 13)]
    work = acked(chain(None, [0.0] * 3, 12, buffer=256.0, grouping="ring"), ackers=12)
    work = replace(work, components=tuple(replace(each, buffer=256.0) for each in work.components))
    costs = replace(FREE, receive_ms=0.02, local_emit_ms=0.01, remote_emit_ms=0.04, noise=noise)
    world, totals = world_of(work, machines=12, cores=4.0, costs=costs, slots=slots, seed=1), Totals()
    world.step_s = world.sample_s = step_s
    world.advance(1060, totals.take)
    return totals.rate("spout", 1030, 1060)


def burning(
    name: str, cpu_ms: Mapping[str, float], edges: Sequence[tuple[str, str]], tasks: int = 1
) -> SimulatedTopology:
    """The first component is a spout that emits as fast as it can; queues have room for a hundred tuples."""
    components = tuple(
        SimulatedComponent(each, "bolt" if number else "spout", tuple(range(1 + number * tasks,
             1 + (number + 1) * tasks)),
                      cpu_ms=cost, buffer=100.0)
        for number, (each, cost) in enumerate(cpu_ms.items())
    )  # fmt: skip
    return SimulatedTopology(name, 1, components, tuple(EdgeWork(a, "default", b, "shuffle") for a, b in edges))


def test_what_a_source_that_is_held_back_does_not_send_needs_no_cpu() -> None:
    """A spout (0.1 ms) feeds a slow bolt (2 ms) and a fast one (0.2 ms): 2.3 ms of the core's second a tuple."""
    fork = burning("fork", {"spout": 0.1, "slow": 2.0, "fast": 0.2}, [("spout", "slow"), ("spout", "fast")], 2)
    totals = advanced(fork, 60, machines=1, cores=1.0, slots=[Slot("m1", 6700)])
    assert totals.rate("fast", 1030, 1060) == pytest.approx(1000 / 2.3, rel=0.01)


@pytest.mark.parametrize("paced", [500.0, 800.0, 900.0])
def test_what_others_leave_of_a_core_is_used_by_who_is_held_back(paced: float) -> None:
    """A topology with a rate burns 1 ms a tuple; the other one, 10.3 ms, has what is left of the core. Its
    bolts but the last wait for room for more than half of the time."""
    line = burning("line", {"spout": 0.1, "a": 0.1, "b": 0.1, "c": 10.0}, [("spout", "a"), ("a", "b"), ("b", "c")])
    beside = chain(paced, [0.0], 20, cpu_ms=1.0, buffer=100.0)
    world, totals = World([MachineSize("m1", 1.0)], FREE, 1000.0, 0), Totals()
    for topology_id, work, port in (("beside-1", beside, 6700), ("line-2", line, 6701)):
        world.submit(topology_id, work)
        world.assign(topology_id, dealt(work, [Slot("m1", port)]))
    world.advance(1060, totals.take)
    assert totals.rate("c", 1030, 1060) == pytest.approx((1000 - paced) / 10.3, rel=0.02)
    late = [sample for sample in totals.samples if sample.begin >= 1030]
    names = [component.work.name for _, component in late[0].layout.components]
    blocked = np.sum([sample.counters.blocked_s for sample in late], axis=0) / 30
    of_component = {name: float(blocked[late[0].layout.component == row].max()) for row, name in enumerate(names)}
    assert of_component["a"] > 0.5 and of_component["b"] > 0.5 and of_component["c"] == 0.0


@pytest.mark.parametrize("busy", [2, 3, 5])
def test_threads_of_others_get_no_more_than_the_machine_has(busy: int) -> None:
    spout = SimulatedComponent("spout", "spout", (1,), sleep_ms=1.0, cpu_ms=2.0)
    bolt = SimulatedComponent("bolt", "bolt", (2, 3), sleep_ms=20.0, cpu_ms=2.0, buffer=50.0)
    work = SimulatedTopology("slow", 1, (spout, bolt), (EdgeWork("spout", "default", "bolt", "shuffle"),))
    world, totals = world_of(work, machines=1, cores=2.0, slots=[Slot("m1", 6700)]), Totals()
    world.loads["m1"] = Load(busy=busy)
    world.advance(1060, totals.take)
    assert totals.rate("bolt", 1030, 1060) == pytest.approx(2 / 0.022, rel=0.01)
    last = totals.samples[-1]
    assert float(last.machines.cpu_s.sum()) / (last.end - last.begin) <= 2.0 * (1 + 1e-6)


def test_busy_executors_share_the_cores_of_their_machine() -> None:
    """Two machines of half a core, two executors on each that need 10 ms of CPU a tuple: 50/s a machine."""
    totals = advanced(chain(1000.0, [0.0], 4, cpu_ms=10.0), 40, cores=0.5)
    used = [sum(float(sample.machines.cpu_s[row]) for sample in totals.samples[-10:]) for row in (0, 1)]
    assert used == pytest.approx([5.0, 5.0], rel=0.01), "half a core for ten seconds"
    assert totals.rate("bolt_1", 1020, 1040) == pytest.approx(2 * 0.5 / 0.010, rel=0.01)


def used_and_had(totals: Totals, cores: float) -> list[tuple[float, float]]:
    """CPU seconds of the busiest machine in each sample, and what it has."""
    return [(float(sample.machines.cpu_s.max()), cores * (sample.end - sample.begin)) for sample in totals.samples]


@pytest.mark.parametrize(("depth", "cv2"), [(1, 0.0), (3, 0.0), (3, 1.0)])
def test_a_machine_never_uses_more_than_its_cores(depth: int, cv2: float) -> None:
    """Not in the first second of its tuples either, nor when more fall due, a machine is faster again, or more come by
    chance than were expected."""
    work = chain(40.0, [0.0] * depth, 4, cpu_ms=10.0, cost_cv2=cv2)
    world, totals = world_of(work, cores=0.5), Totals()
    world.due = lambda _id, _name, begin, end: (end - begin) * (1.0 if begin < 1010 else 25.0)
    world.advance(1020, totals.take)
    world.load("m1").speed = 0.1
    world.advance(1030, totals.take)
    world.load("m1").speed = 1.0
    world.advance(1040, totals.take)
    assert all(used <= had * (1 + 1e-6) for used, had in used_and_had(totals, 0.5)), used_and_had(totals, 0.5)
    assert sum(used for used, _ in used_and_had(totals, 0.5)[-5:]) == pytest.approx(2.5, rel=0.01), (
        "and then all of them"
    )


def test_sleeping_executors_need_no_share_of_a_core() -> None:
    assert advanced(chain(100.0, [20.0], 2), 40, cores=0.01).rate("bolt_1", 1020, 1040) == pytest.approx(100.0)


@given(
    demands=st.lists(st.floats(0, 2), min_size=1, max_size=30),
    cores=st.lists(st.floats(0.1, 4), min_size=1, max_size=3),
)
def test_cores_are_shared_fairly(demands: list[float], cores: list[float]) -> None:
    machine = np.arange(len(demands)) % len(cores)
    demand = np.array(demands)
    level = fair_level(demand, machine, np.array(cores))
    got = np.minimum(demand, level[machine])
    for row, limit in enumerate(cores):
        mine = machine == row
        if demand[mine].sum() <= limit:
            assert math.isinf(level[row])
        else:
            assert got[mine].sum() == pytest.approx(limit)
