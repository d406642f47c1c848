"""What a step of the simulator keeps: tuples, limits, closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.simulator.page_load_by_theory import by_simulator, by_theory, page_load, page_load_of_authors
from bench.simulator.star_by_events import STARS, Star, by_events, by_fluid
from bench.simulator.tuple_by_tuple import Case, batch_interval, chains, shared_queues
from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.work import EdgeWork, SimulatedComponent, SimulatedTopology, SimulationError
from tests.conftest import examples
from tests.support.worlds import FREE, Totals, advanced, chain, dealt, world_of

GROUPINGS = ("shuffle", "local_or_shuffle", "fields", "global", "none", "ring")


@given(
    rate=st.floats(1, 500),
    costs=st.lists(st.floats(0, 40), min_size=1, max_size=4),
    tasks=st.integers(1, 5),
    grouping=st.sampled_from(GROUPINGS),
    buffer=st.sampled_from([math.inf, 50.0, 5.0]),
    cores=st.floats(0.05, 4),
    bandwidth=st.sampled_from([0.0, 1.0]),
    limit=st.sampled_from([math.inf, 20.0]),
)
@examples(60)
def test_no_tuple_is_made_or_lost_in_the_accounts(
    rate: float, costs: list[float], tasks: int, grouping: str, buffer: float, cores: float, bandwidth: float,
    limit: float,
) -> None:  # fmt: skip
    work = chain(rate, costs, tasks, cpu_ms=1.0, buffer=buffer, limit=limit, grouping=grouping)
    totals = advanced(work, 30, cores=cores, bandwidth_mbit=bandwidth)
    assert totals.due["spout"] == pytest.approx(30 * rate, rel=0.05)
    assert totals.due["spout"] == pytest.approx(totals.executed["spout"] + totals.waiting["spout"], rel=1e-6)
    names = [component.name for component in work.components]
    for source, target in pairwise(names):
        assert totals.arrived[target] == pytest.approx(totals.executed[source], rel=1e-6, abs=1e-6)
        left = totals.arrived[target] - totals.executed[target] - totals.dropped[target] - totals.waiting[target]
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
    """The catalogue's, as an experiment has it. Its texts have many lengths, so what one seed gives scatters: 49.7 by
    0.3 and 0.224 by 0.006."""
    found = by_simulator(page_load_of_authors(), FREE, seed=1)
    assert found.out_per_s == pytest.approx(2 / 0.04025, rel=0.02)
    assert found.growth == pytest.approx(0.224, abs=0.02)


def test_page_load_at_a_millisecond_a_character() -> None:
    """Transform leaves texts of 32.2 characters, so aggregators pass nearly all of the 64/s that come."""
    found, expected = by_simulator(page_load(), FREE, seed=1), by_theory(32.2)
    assert found.out_per_s == pytest.approx(expected.out_per_s, rel=0.02) and expected.out_per_s > 62
    assert found.growth == pytest.approx(expected.growth, abs=0.02)


def test_a_full_queue_holds_back_who_feeds_it() -> None:
    totals = advanced(chain(200.0, [0.0, 20.0], 2, buffer=100.0), 60)
    last = totals.samples[-1]
    bolt_2 = last.layout.component == 2
    assert last.queues.waiting[bolt_2] == pytest.approx([100.0, 100.0], rel=0.01), "they are full"
    assert totals.rate("spout", 1040, 1060) == pytest.approx(100.0, rel=0.01)
    assert last.counters.blocked_s[last.layout.component == 1] == pytest.approx([0.5, 0.5], abs=0.3)
    assert totals.waiting["spout"] > 1000, "what is due and not emitted waits at the source"


@pytest.mark.parametrize(("sleep_ms", "cpu_ms", "cores"), [(4.0, 0.0, 8.0), (0.0, 4.0, 8.0), (0.0, 4.0, 0.5)])
@pytest.mark.parametrize("load", [0.9, 2.0, 3.0])
def test_beyond_its_limit_a_queue_drops_the_oldest_and_each_costs_its_receipt(
    load: float, sleep_ms: float, cpu_ms: float, cores: float
) -> None:
    """Closed form, of a service of 4 ms, 1 ms for the receipt of each tuple, and as much CPU as there is: what is left
    of it after all receipts is for services, so that the more come, the fewer are executed. A tuple in the queue moves
    on as fast as others come."""
    share, limit = min(cores, 1.0), 100.0
    rate = load * share / 0.005
    work = chain(rate, [sleep_ms, 0.0], 1, limit=limit)
    spout, bolt, sink = work.components
    work = replace(work, components=(spout, replace(bolt, cpu_ms=cpu_ms), sink))
    totals = advanced(work, 200, cores=cores, costs=replace(FREE, receive_ms=1.0))
    executed = min(rate, (share - rate * 0.001) / 0.004)
    assert totals.rate("bolt_1", 1100, 1200) == pytest.approx(executed, rel=0.01)
    assert totals.rate("bolt_1", 1100, 1200, "dropped") == pytest.approx(rate - executed, rel=0.01)
    assert totals.rate("spout", 1100, 1200) == pytest.approx(rate), "it holds nobody back"
    if load > 1:
        assert totals.waiting["bolt_1"] == pytest.approx(limit)
        assert totals.latency_s(1100) == pytest.approx(limit / rate + 0.005, rel=0.15)


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
        SimulatedComponent("spout", "spout", (1,), rate_per_s=90.0),
        SimulatedComponent("bolt", "bolt", (2, 3), sleep_ms=20.0),
    )
    edge = EdgeWork("spout", "default", "bolt", "fields", weights=(0.7, 0.3))
    totals = advanced(SimulatedTopology("skewed", 1, components, (edge,)), 40)
    assert totals.rate("bolt", 1020, 1040) == pytest.approx(50.0 + 0.3 * 90.0)


def test_sources_that_catch_up_are_late_and_sources_that_skip_miss() -> None:
    work = chain(100.0, [0.0], 2)
    world, totals = world_of(work), Totals()
    world.advance(1010, totals.take)
    world.pause("x-1", True)
    world.advance(1020, totals.take)
    assert totals.waiting["spout"] == pytest.approx(1000.0)
    world.pause("x-1", False)
    world.advance(1025, totals.take)
    assert totals.waiting["spout"] == 0.0
    assert sum(float(sample.counters.late.sum()) for sample in totals.samples) > 900


def test_a_cycle_is_refused_in_words() -> None:
    """Those on it are named, not those that it feeds."""
    components = (
        SimulatedComponent("spout", "spout", (1,), rate_per_s=1.0),
        *(SimulatedComponent(name, "bolt", (task,)) for task, name in enumerate("abc", start=2)),
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
        SimulatedTopology("round", 1, components, edges)


@pytest.mark.parametrize("case", chains(), ids=lambda case: case.name)
def test_waiting_below_saturation_is_that_of_theory(case: Case) -> None:
    assert case.simulator_s() == pytest.approx(case.theory_s, rel=0.005)


@pytest.mark.parametrize("case", shared_queues(), ids=lambda case: case.name)
def test_of_one_queue_for_many_it_has_one_for_each(case: Case) -> None:
    """As Storm's executors have, so it is no M/M/k: at 80 % of four it has 2.9 times its time."""
    (cost_s,) = case.costs_s
    of_each_s = cost_s / (1 - case.rate * cost_s / case.servers)
    assert case.simulator_s() == pytest.approx(of_each_s, rel=0.005)
    assert of_each_s > 1.7 * case.theory_s


@pytest.mark.parametrize("case", [*chains(), *shared_queues()], ids=lambda case: case.name)
def test_tuple_by_tuple_it_is_that_of_theory_too(case: Case) -> None:
    """The judge is judged: within twice the interval of its own run."""
    run = batch_interval(case.times(200_000, seed=2))
    assert abs(run.mean - case.theory_s) <= 2 * run.half_width
    assert run.half_width < 0.15 * case.theory_s


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
