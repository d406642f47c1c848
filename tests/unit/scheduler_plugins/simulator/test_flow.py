"""What a step of the simulator keeps: tuples, limits, closed forms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.cpu import fair_level
from scheduler_plugins.simulator.work import ComponentWork, EdgeWork, Load, MachineSize, SimulationError, TopologyWork
from scheduler_plugins.simulator.world import Assignment, World
from tests.calibration.star_by_events import STARS, Star, by_events, by_fluid
from tests.calibration.tuple_by_tuple import Case, batch_interval, cases, fluid_latency_s, shuffled_chain
from tests.support.worlds import FREE, Totals, acked, chain, dealt, world_of

GROUPINGS = ("shuffle", "local_or_shuffle", "fields", "global", "none", "ring")


def advanced(work: TopologyWork, seconds: float, **site: object) -> Totals:
    world, totals = world_of(work, **site), Totals()  # type: ignore[arg-type]
    world.advance(world.now + seconds, totals.take)
    return totals


@given(
    rate=st.floats(1, 500),
    costs=st.lists(st.floats(0, 40), min_size=1, max_size=4),
    tasks=st.integers(1, 5),
    grouping=st.sampled_from(GROUPINGS),
    buffer=st.sampled_from([math.inf, 50.0, 5.0]),
    cores=st.floats(0.05, 4),
    bandwidth=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_no_tuple_is_made_or_lost_in_the_accounts(
    rate: float, costs: list[float], tasks: int, grouping: str, buffer: float, cores: float, bandwidth: float
) -> None:
    work = chain(rate, costs, tasks, cpu_ms=1.0, buffer=buffer, grouping=grouping)
    totals = advanced(work, 30, cores=cores, bandwidth_mbit=bandwidth)
    assert totals.due["spout"] == pytest.approx(30 * rate, rel=0.05)
    assert totals.due["spout"] == pytest.approx(totals.executed["spout"] + totals.waiting["spout"], rel=1e-6)
    names = [component.name for component in work.components]
    for source, target in pairwise(names):
        assert totals.arrived[target] == pytest.approx(totals.executed[source], rel=1e-6, abs=1e-6)
        left = totals.arrived[target] - totals.executed[target] - totals.waiting[target]
        assert left == pytest.approx(totals.lost[target], rel=1e-6, abs=1e-5)


@pytest.mark.parametrize(("tasks", "executors"), [(8, 4), (8, 5), (8, 8), (6, 4)])
def test_a_saturated_bolt_does_what_its_executors_can(tasks: int, executors: int) -> None:
    """Per task: of 8 tasks on 5 executors each task gets an eighth, and executors with two of them are the limit."""
    work = chain(1000.0, [20.0], tasks)
    world, totals = world_of(work), Totals()
    world.assign("x-1", dealt(work, [Slot("m1", 6700), Slot("m2", 6700)], {"bolt_1": executors}))
    world.advance(world.now + 60, totals.take)
    assert totals.rate("bolt_1", 1020, 1060) == pytest.approx(executors * 50, rel=1e-6)


def test_below_saturation_single_tasks_limit_what_a_shuffle_gives() -> None:
    """128/s to 8 tasks on 5 executors: 16/s a task; three executors have two tasks and do 30 of 32/s, two are idle half
    of the time. A component that shared one queue would do all 128."""
    work = chain(128.0, [1000 / 30], 8)
    world, totals = world_of(work), Totals()
    world.assign("x-1", dealt(work, [Slot("m1", 6700)], {"bolt_1": 5}))
    world.advance(world.now + 60, totals.take)
    assert totals.rate("bolt_1", 1020, 1060) == pytest.approx(3 * 30 + 2 * 16, rel=1e-6)


def test_page_load_by_its_closed_form() -> None:
    """Five sources of 20/s, two filters that pass 0.8, two aggregators of 40.25 ms: 49.7/s out, and latency grows by
    1 - 49.7 / 64 = 0.224 s a second."""
    aggregate = ComponentWork("aggregate", "bolt", (2, 3), sleep_ms=40.25)
    components = (
        ComponentWork("spout", "spout", (1,), rate_per_s=100.0),
        aggregate,
        ComponentWork("end", "bolt", (4,)),
    )
    edges = (
        EdgeWork("spout", "default", "aggregate", "shuffle", selectivity=0.64),
        EdgeWork("aggregate", "default", "end", "shuffle"),
    )
    totals = advanced(TopologyWork("page_load", 1, components, edges), 300)
    assert totals.rate("end", 1200, 1300) == pytest.approx(2 / 0.04025, rel=1e-6)
    latency = {sample.end: sample.counters.latency_s.sum() / sample.counters.executed[sample.layout.sinks].sum()
               for sample in totals.samples if sample.end > 1100}  # fmt: skip
    growth = (latency[1300.0] - latency[1150.0]) / 150
    assert growth == pytest.approx(1 - 2 / 0.04025 / 64, abs=0.002)


def test_a_full_queue_holds_back_who_feeds_it() -> None:
    totals = advanced(chain(200.0, [0.0, 20.0], 2, buffer=100.0), 60)
    last = totals.samples[-1]
    bolt_2 = last.layout.component == 2
    assert last.queues.waiting[bolt_2] == pytest.approx([100.0, 100.0], rel=0.01), "they are full"
    assert totals.rate("spout", 1040, 1060) == pytest.approx(100.0, rel=0.01)
    assert last.counters.blocked_s[last.layout.component == 1] == pytest.approx([0.5, 0.5], abs=0.3)
    assert totals.waiting["spout"] > 1000, "what is due and not emitted waits at the source"


@pytest.mark.parametrize("step_s", [0.1, 1.0])
@pytest.mark.parametrize("buffer", [20.0, 50.0, 200.0])
def test_a_full_queue_that_two_feed_unequally_keeps_its_executor_busy(buffer: float, step_s: float) -> None:
    spouts = [
        ComponentWork(name, "spout", (task,), rate_per_s=rate) for task, name, rate in ((1, "a", 10.0), (2, "b", 200.0))
    ]
    bolt = ComponentWork("c", "bolt", (3,), sleep_ms=10.0, buffer=buffer)
    edges = tuple(EdgeWork(spout.name, "default", "c", "shuffle") for spout in spouts)
    world, totals = (
        world_of(TopologyWork("two", 1, (*spouts, bolt), edges), machines=1, slots=[Slot("m1", 6700)]),
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
    spout = ComponentWork("spout", "spout", (1, 2), cpu_ms=10.0)
    bolt = ComponentWork("bolt", "bolt", (3,), sleep_ms=10.0, buffer=50.0)
    work = TopologyWork("unequal", 2, (spout, bolt), (EdgeWork("spout", "default", "bolt", "shuffle"),))
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


def burning(name: str, cpu_ms: Mapping[str, float], edges: Sequence[tuple[str, str]], tasks: int = 1) -> TopologyWork:
    """The first component is a spout that emits as fast as it can; queues have room for a hundred tuples."""
    components = tuple(
        ComponentWork(each, "bolt" if number else "spout", tuple(range(1 + number * tasks, 1 + (number + 1) * tasks)),
                      cpu_ms=cost, buffer=100.0)
        for number, (each, cost) in enumerate(cpu_ms.items())
    )  # fmt: skip
    return TopologyWork(name, 1, components, tuple(EdgeWork(a, "default", b, "shuffle") for a, b in edges))


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
    spout = ComponentWork("spout", "spout", (1,), sleep_ms=1.0, cpu_ms=2.0)
    bolt = ComponentWork("bolt", "bolt", (2, 3), sleep_ms=20.0, cpu_ms=2.0, buffer=50.0)
    work = TopologyWork("slow", 1, (spout, bolt), (EdgeWork("spout", "default", "bolt", "shuffle"),))
    world, totals = world_of(work, machines=1, cores=2.0, slots=[Slot("m1", 6700)]), Totals()
    world.loads["m1"] = Load(busy=busy)
    world.advance(1060, totals.take)
    assert totals.rate("bolt", 1030, 1060) == pytest.approx(2 / 0.022, rel=0.01)
    last = totals.samples[-1]
    assert float(last.machines.cpu_s.sum()) / (last.end - last.begin) <= 2.0 * (1 + 1e-6)


@pytest.mark.parametrize("cpu_ms", [0.0, 5.0])
def test_a_source_that_emits_as_fast_as_it_can_is_never_behind(cpu_ms: float) -> None:
    """A full queue, or a lack of CPU, holds it back; nothing was due that it did not emit, so nothing gets older."""
    totals = advanced(chain(None, [20.0], 2, cpu_ms=cpu_ms, buffer=50.0), 120, cores=0.2)
    assert totals.rate("bolt_1", 1060, 1120) == pytest.approx(2 * 1000 / (20.0 + cpu_ms), rel=0.01)
    assert totals.due["spout"] == totals.executed["spout"] and totals.waiting["spout"] == 0.0
    assert sum(float(sample.counters.late.sum()) for sample in totals.samples) == 0.0
    last = totals.samples[-1]
    sinks = last.layout.sinks
    latency = float(last.counters.latency_s[sinks].sum() / last.counters.executed[sinks].sum())
    assert latency == pytest.approx(50 * (20.0 + cpu_ms) / 1000, rel=0.1), "what a full queue takes"
    assert totals.latency_s(1060) == pytest.approx(latency, rel=0.05)


def test_a_bolt_that_happens_to_pass_nothing_is_no_sink() -> None:
    work = chain(100.0, [0.0, 0.0], 2)
    totals = advanced(replace(work, edges=(work.edges[0], replace(work.edges[1], selectivity=0.0))), 10)
    last = totals.samples[-1]
    assert set(last.layout.component[last.layout.sinks]) == {2}
    assert totals.executed["bolt_1"] > 0 and not any(sample.counters.latency_s.any() for sample in totals.samples)


def test_unbounded_queues_hold_nobody_back() -> None:
    totals = advanced(chain(200.0, [0.0, 20.0], 2), 60)
    assert totals.rate("spout", 1040, 1060) == pytest.approx(200.0)
    assert totals.waiting["bolt_2"] == pytest.approx(60 * 100, rel=0.02)


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


def test_a_network_carries_no_more_than_its_bandwidth() -> None:
    """Half of a shuffle between two machines crosses: 1 Mbit/s each way carries 125 kB/s a machine."""
    work = chain(2000.0, [0.0], 2, tuple_bytes=1000.0)
    totals = advanced(work, 60, bandwidth_mbit=1.0)
    sent = [float(sum(sample.machines.sent_bytes[0] for sample in totals.samples[-20:])) / 20]
    assert sent == pytest.approx([125_000.0], rel=0.02)
    assert totals.rate("bolt_1", 1040, 1060) == pytest.approx(2 * 125_000 / 500, rel=0.02)


def sent_mbit(totals: Totals) -> list[float]:
    """Of the first machine, in each sample."""
    return [float(each.machines.sent_bytes[0]) / (each.end - each.begin) / 125_000 for each in totals.samples]


@pytest.mark.parametrize("step_s", [1.0, 10.0])
@pytest.mark.parametrize("rate", [1000.0, 2000.0])
def test_a_network_holds_back_threads_that_are_hardly_busy(rate: float, step_s: float) -> None:
    """A paced source that sends all its tuples of 1,060 bytes to the other machine: 8 Mbit/s are 943 of them a second;
    the others wait at the source, and get older."""
    world, totals = world_of(chain(rate, [0.0], 1, tuple_bytes=1060.0), bandwidth_mbit=8.0), Totals()
    world.step_s = world.sample_s = step_s
    world.advance(world.now + 100, totals.take)
    assert max(sent_mbit(totals)) <= 8.0 * (1 + 1e-9) and sent_mbit(totals)[-1] == pytest.approx(8.0)
    carried = 1e6 / 1060.0
    assert totals.rate("bolt_1", 1020, 1100) == pytest.approx(carried)
    assert totals.waiting["spout"] == pytest.approx(100 * (rate - carried), rel=0.03)
    assert totals.latency_s(1090) == pytest.approx(100 * (1 - carried / rate), rel=0.1)


def test_a_network_is_shared_fairly_between_who_sends_much_and_who_sends_little() -> None:
    """On m1 a source that is far behind sends to m2 and m3, and a bolt of another way passes on 100/s."""
    components = (
        ComponentWork("much", "spout", (1,), rate_per_s=5000.0),
        ComponentWork("little", "spout", (2,), rate_per_s=100.0),
        ComponentWork("bolt", "bolt", (3,)),
        ComponentWork("end", "bolt", (4, 5)),
    )
    edges = (
        EdgeWork("much", "default", "end", "shuffle", tuple_bytes=1000.0),
        EdgeWork("little", "default", "bolt", "shuffle", tuple_bytes=1000.0),
        EdgeWork("bolt", "default", "end", "shuffle", tuple_bytes=1000.0),
    )
    work = TopologyWork("two", 1, components, edges)
    world, totals = world_of(work, machines=3, bandwidth_mbit=8.0), Totals()
    m1, m2, m3 = (Slot(f"m{n}", 6700) for n in (1, 2, 3))
    world.assign("x-1", Assignment({"end": 2, "much": 1, "little": 1, "bolt": 1}, {1: m1, 2: m2, 3: m1, 4: m2, 5: m3}))
    world.advance(world.now + 60, totals.take)
    assert max(sent_mbit(totals)) <= 8.0 * (1 + 1e-9)
    assert totals.rate("bolt", 1030, 1060) == pytest.approx(100.0, rel=0.01)
    assert totals.rate("much", 1030, 1060) == pytest.approx(900.0, rel=0.01)


def test_a_machine_receives_no_more_than_its_bandwidth() -> None:
    """Two sources on m1 and m2, all for m3: each has half of what it may receive, and holds the rest back."""
    components = (ComponentWork("spout", "spout", (1, 2), rate_per_s=4000.0), ComponentWork("bolt", "bolt", (3,)))
    work = TopologyWork("to_one", 1, components, (EdgeWork("spout", "default", "bolt", "shuffle", tuple_bytes=1000.0),))
    world, totals = world_of(work, machines=3, bandwidth_mbit=8.0), Totals()
    world.advance(world.now + 60, totals.take)
    received = [float(each.machines.received_bytes[2]) / (each.end - each.begin) for each in totals.samples]
    assert max(received) <= 1e6 * (1 + 1e-9) and received[-1] == pytest.approx(1e6)
    assert sent_mbit(totals)[-1] == pytest.approx(4.0)


def test_before_anything_runs_networks_with_a_limit_carry_nothing() -> None:
    world, totals = World([MachineSize("m1", 1.0, 8.0)], FREE, 1000.0), Totals()
    world.advance(1003.0, totals.take)
    assert [float(sample.machines.sent_bytes[0]) for sample in totals.samples] == [0.0, 0.0, 0.0]


def test_local_or_shuffle_crosses_no_network() -> None:
    totals = advanced(chain(200.0, [0.0], 2, grouping="local_or_shuffle"), 20)
    assert sum(float(sample.machines.sent_bytes.sum()) for sample in totals.samples) == 0.0
    assert totals.rate("bolt_1", 1010, 1020) == pytest.approx(200.0)


def test_all_gives_every_task_a_copy() -> None:
    totals = advanced(chain(50.0, [0.0], 4, grouping="all"), 20)
    assert totals.executed["bolt_1"] == pytest.approx(4 * totals.executed["spout"])


def test_a_ring_sends_each_task_to_the_next() -> None:
    work = chain(100.0, [0.0], 4, grouping="ring")
    world, totals = world_of(work, machines=2), Totals()
    world.advance(world.now + 10, totals.take)
    sent = sum(float(sample.machines.sent_bytes.sum()) for sample in totals.samples)
    assert sent == pytest.approx(totals.executed["spout"] * 100), "tasks alternate between the machines: all of it"


def test_routes_are_of_each_task_of_the_source() -> None:
    """Tasks are dealt to two machines in turn: what goes from task i to task i stays, and the rest does not."""
    straight = tuple(((task, 1.0),) for task in range(4))
    uneven = (((0, 0.75), (1, 0.25)), *straight[1:])
    for routes, remote in ((straight, 0.0), (straight[1:] + straight[:1], 1.0), (uneven, 0.25 / 4)):
        work = chain(100.0, [0.0], 4, grouping="fields")
        work = replace(work, edges=tuple(replace(edge, routes=routes) for edge in work.edges))
        world, totals = world_of(work, machines=2), Totals()
        world.advance(world.now + 10, totals.take)
        sent = sum(float(sample.machines.sent_bytes.sum()) for sample in totals.samples)
        assert sent == pytest.approx(remote * totals.executed["spout"] * 100)
        assert totals.rate("bolt_1", 1005, 1010) == pytest.approx(100.0)


def test_an_executor_of_several_tasks_sends_by_the_routes_of_all_of_them() -> None:
    work = chain(100.0, [20.0], 4, grouping="fields")
    routes = tuple(((0, 1.0),) for _ in range(4))
    work = replace(work, edges=tuple(replace(edge, routes=routes) for edge in work.edges))
    world, totals = world_of(work, machines=2), Totals()
    world.assign("x-1", dealt(work, [Slot("m1", 6700), Slot("m2", 6700)], {"spout": 2, "bolt_1": 2}))
    world.advance(world.now + 40, totals.take)
    assert totals.arrived["bolt_1"] == pytest.approx(totals.executed["spout"])
    assert totals.rate("bolt_1", 1020, 1040) == pytest.approx(50.0, rel=0.01), "one executor gets everything"


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ((((0, 1.0),),), "routes of 1 tasks; allowed are 2, one a task"),
        ((((0, 1.0),), ((2, 1.0),)), "a route to place 2; allowed are 0 to 1"),
    ],
)
def test_routes_to_nowhere_are_refused(routes: tuple[tuple[tuple[int, float], ...], ...], message: str) -> None:
    work = chain(100.0, [0.0], 2)
    with pytest.raises(SimulationError, match=message):
        replace(work, edges=(replace(work.edges[0], routes=routes),))


def test_keys_that_are_skewed_saturate_their_task_first() -> None:
    components = (
        ComponentWork("spout", "spout", (1,), rate_per_s=90.0),
        ComponentWork("bolt", "bolt", (2, 3), sleep_ms=20.0),
    )
    edge = EdgeWork("spout", "default", "bolt", "fields", weights=(0.7, 0.3))
    totals = advanced(TopologyWork("skewed", 1, components, (edge,)), 40)
    assert totals.rate("bolt", 1020, 1040) == pytest.approx(50.0 + 0.3 * 90.0)


def test_latency_is_service_and_hops_where_nothing_waits() -> None:
    totals = advanced(chain(1.0, [20.0, 30.0], 1), 60)
    last = totals.samples[-1]
    sinks = last.layout.sinks
    latency = last.counters.latency_s[sinks].sum() / last.counters.executed[sinks].sum()
    assert latency == pytest.approx(0.050, rel=0.03)


def test_sources_that_catch_up_are_late_and_sources_that_skip_miss() -> None:
    work = chain(100.0, [0.0], 2)
    world, totals = world_of(work, costs=FREE), Totals()
    world.advance(1010, totals.take)
    world.pause("x-1", True)
    world.advance(1020, totals.take)
    assert totals.waiting["spout"] == pytest.approx(1000.0)
    world.pause("x-1", False)
    world.advance(1025, totals.take)
    assert totals.waiting["spout"] == 0.0
    assert sum(float(sample.counters.late.sum()) for sample in totals.samples) > 900


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


def test_a_cycle_is_refused_in_words() -> None:
    """Those on it are named, not those that it feeds."""
    components = (
        ComponentWork("spout", "spout", (1,), rate_per_s=1.0),
        *(ComponentWork(name, "bolt", (task,)) for task, name in enumerate("abc", start=2)),
    )
    edges = (
        EdgeWork("spout", "default", "a", "shuffle"),
        EdgeWork("a", "x", "b", "shuffle"),
        EdgeWork("b", "x", "a", "shuffle"),
        EdgeWork("b", "default", "c", "shuffle"),
    )
    with pytest.raises(
        SimulationError, match='topology round contains cycles in components "a,b"; the simulator has no'
    ):
        TopologyWork("round", 1, components, edges)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_waiting_below_saturation_is_that_of_theory(case: Case) -> None:
    found = fluid_latency_s(case.rate, case.costs_s, case.cv2, case.servers)
    assert found == pytest.approx(case.theory_s, rel=0.005)


@pytest.mark.parametrize("case", [case for case in cases() if "90%" not in case.name], ids=lambda case: case.name)
def test_tuple_by_tuple_it_is_that_of_theory_too(case: Case) -> None:
    """The judge is judged: within twice the interval of its own run."""
    run = batch_interval(shuffled_chain(case.rate, case.costs_s, case.cv2, case.servers, 200_000, seed=2))
    assert abs(run.mean - case.theory_s) <= 2 * run.half_width
    assert run.half_width < 0.1 * case.theory_s


@pytest.mark.parametrize("star", STARS.values(), ids=STARS)
def test_the_star_gives_what_it_gives_tuple_by_tuple(star: Star) -> None:
    """But for a moment in which its workers connect, and for waits of single tuples that its source's rounds avoid."""
    short = replace(star, seconds=30.0)
    exact, fluid = by_events(short), by_fluid(short)
    assert fluid.tuples == pytest.approx(exact.tuples, rel=0.005)
    assert fluid.latency_s == pytest.approx(exact.latency_s, rel=0.01, abs=0.002)


@pytest.mark.parametrize("service_ms", [50.0, 3000.0])
def test_a_tuple_is_as_old_as_its_service_and_scatters_as_that_does(service_ms: float) -> None:
    """At a low rate nothing waits: the mean is the service, also above a step, and it scatters as that does."""
    totals = advanced(chain(10 / service_ms, [service_ms], 1, cost_cv2=1.0), 200)
    sinks = totals.samples[-1].layout.sinks
    executed, first, second = (
        sum(float(getattr(sample.counters, name)[sinks].sum()) for sample in totals.samples)
        for name in ("executed", "latency_s", "square_s2")
    )
    mean = first / executed
    assert mean == pytest.approx(service_ms / 1000, rel=0.02)
    assert math.sqrt(second / executed - mean**2) == pytest.approx(service_ms / 1000, rel=0.05)
