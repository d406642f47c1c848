"""Time in the simulator: workers that start, restart and die, machines that come, are disturbed and crash."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import pytest

from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.work import Costs, MachineSize, SimulationError, Waits
from scheduler_plugins.simulator.world import Assignment, World
from tests.support.worlds import FREE, Totals, chain, dealt, world_of

STARTS = replace(FREE, start_cpu_s=2.0, start_wait_s=1.0)
M1, M2 = Slot("m1", 6700), Slot("m2", 6700)


def moved(world: World, task: int, slot: Slot) -> Assignment:
    """The assignment as it is, with one task elsewhere."""
    now = world.topologies["x-1"].assignment
    return Assignment(now.executors, {**now.placement, task: slot})


def test_a_worker_starts_as_fast_as_its_machine_lets_it() -> None:
    """A second's wait, then 2 CPU seconds on half a core take four."""
    world, totals = world_of(chain(100.0, [0.0]), cores=0.5, costs=STARTS), Totals()
    world.advance(1010, totals.take)
    first = next(sample.begin for sample in totals.samples if sample.counters.executed.sum() > 0)
    assert first == pytest.approx(1005.0)


def test_workers_are_in_the_order_of_their_slots_in_every_process() -> None:
    """Sums of floats hang on it; that of a set of slots differs from process to process."""
    slots = [Slot(f"m{machine}", port) for machine in (3, 1, 2) for port in (6703, 6700, 6702, 6701)]
    world = world_of(chain(100.0, [0.0] * 2, 12), costs=STARTS, machines=3, slots=slots)
    assert [slot for _, slot in world.workers] == sorted(slots)


@pytest.mark.parametrize("cpu_s", [1.83, 2.31, 2.5])
def test_a_start_ends_when_its_cpu_is_done_and_not_at_the_next_second(cpu_s: float) -> None:
    """A second's wait, then half a core; the two workers of the second machine share it for a while."""
    costs = replace(STARTS, start_cpu_s=cpu_s)
    world, totals = world_of(chain(100.0, [0.0]), cores=0.5, costs=costs, slots=[M1, M2, Slot("m2", 6701)]), Totals()
    world.advance(1030, totals.take)
    ready = {slot: worker.ready_s - 1001.0 for (_, slot), worker in world.workers.items()}
    assert ready[M1] == pytest.approx(2 * cpu_s, abs=0.1)
    assert ready[M2] == ready[Slot("m2", 6701)] == pytest.approx(4 * cpu_s, abs=0.1)


def test_the_first_workers_of_a_topology_on_a_machine_wait_for_its_code() -> None:
    costs = replace(STARTS, start_cpu_s=0.0, fetch_s=1.5)
    world, totals = world_of(chain(100.0, [0.0, 0.0], 2), costs=costs, machines=3, slots=[M1, M2]), Totals()
    assert {worker.begun_s for worker in world.workers.values()} == {1000.0 + 1.5 + 1.0}
    world.advance(1020, totals.take)
    world.assign("x-1", moved(world, 6, Slot("m1", 6701)))
    assert world.workers["x-1", Slot("m1", 6701)].begun_s == 1020.0 + 1.0, "the machine has it"
    world.advance(1030, totals.take)
    world.assign("x-1", moved(world, 6, Slot("m3", 6700)))
    assert world.workers["x-1", Slot("m3", 6700)].begun_s == 1030.0 + 1.5 + 1.0
    world.kill("x-1")
    world.submit("x-1", chain(100.0, [0.0, 0.0], 2))
    world.assign("x-1", dealt(chain(100.0, [0.0, 0.0], 2), [M1]))
    assert world.workers["x-1", M1].begun_s == 1030.0 + 1.5 + 1.0, "another one's code"


def test_a_supervisor_that_starts_uses_cpu_and_slows_workers_that_start_beside_it() -> None:
    """Two and a half CPU seconds each, on half a core: as fast as two workers."""
    costs = replace(STARTS, start_wait_s=0.0, supervisor_cpu_s=2.5, start_cpu_s=2.5)
    world, totals = world_of(chain(100.0, [0.0]), cores=0.5, costs=costs, machines=3, slots=[M1, M2]), Totals()
    world.start_supervisor("m3")
    world.start_supervisor("m2")
    world.advance(1030, totals.take)
    used = [sum(float(sample.machines.cpu_s[row]) for sample in totals.samples) for row in range(3)]
    assert used == pytest.approx([2.5, 5.0, 2.5], abs=0.01)
    assert world.workers["x-1", M1].ready_s == pytest.approx(1005.0, abs=0.1)
    assert world.workers["x-1", M2].ready_s == pytest.approx(1010.0, abs=0.1)


def test_a_worker_that_has_just_started_uses_more_whatever_comes_to_it() -> None:
    """A tenth of a core and 1/e of it after 20 s, beside a twentieth at rest: 2 CPU seconds more in all."""
    costs, used = replace(FREE, idle_cores=0.05, warm_up_cores=0.1, warm_up_s=20.0), []
    for rate in (100.0, 1.0):
        world, totals = world_of(chain(rate, [0.0], 2), machines=1, costs=costs), Totals()
        world.advance(1200, totals.take)
        of_seconds = [float(sample.machines.cpu_s[0]) for sample in totals.samples]
        used.append((sum(of_seconds[:20]), sum(of_seconds), of_seconds[-1]))
        world.kill_worker("x-1", M1)
        world.advance(1205, totals.take)
        assert float(totals.samples[-1].machines.cpu_s[0]) > 0.13, "each process anew"
    assert used[0] == used[1]
    assert used[0] == pytest.approx((1.0 + 2.0 * (1 - math.exp(-1)), 10.0 + 2.0, 0.05), rel=0.01)


@pytest.mark.parametrize("epoch_s", [0.0, 1_767_225_600.0])
def test_a_worker_that_follows_another_gets_no_core_before_it_begins(epoch_s: float) -> None:
    """A stop and a wait, then 2 CPU seconds on half a core: no step goes across its begin."""
    costs, work = replace(STARTS, stop_s=1.5), chain(100.0, [0.0])
    world, totals = World([MachineSize("m1", 0.5), MachineSize("m2", 0.5)], costs, epoch_s), Totals()
    world.submit("x-1", work)
    world.assign("x-1", dealt(work, [M1, M2]))
    world.advance(epoch_s + 20.05, totals.take)
    world.assign("x-1", moved(world, 4, Slot("m1", 6700)))
    world.advance(epoch_s + 40, totals.take)
    assert world.workers["x-1", M1].ready_s - epoch_s == pytest.approx(20.05 + 1.5 + 1.0 + 4.0, abs=0.5)


def test_only_workers_whose_executors_change_restart() -> None:
    world, totals = world_of(chain(100.0, [0.0, 0.0], 2), costs=STARTS, machines=3), Totals()
    world.advance(1020, totals.take)
    begun = {slot: worker.begun_s for (_, slot), worker in world.workers.items()}
    assert world.assign("x-1", moved(world, 6, Slot("m1", 6700))) == (Slot("m1", 6700), Slot("m3", 6700))
    world.advance(1040, totals.take)
    assert world.workers["x-1", M2].begun_s == begun[M2]
    assert world.workers["x-1", M1].begun_s == 1020.0 + STARTS.start_wait_s


def test_what_waits_in_a_worker_that_restarts_is_lost_and_elsewhere_it_stays() -> None:
    world, totals = world_of(chain(200.0, [20.0], 2), costs=STARTS), Totals()
    world.advance(1020, totals.take)
    waiting = totals.waiting["bolt_1"]
    assert waiting > 1000
    world.assign("x-1", moved(world, 4, Slot("m2", 6701)))
    world.advance(1021, totals.take)
    assert totals.lost["bolt_1"] >= waiting / 2, "of the two, the one that moves"
    assert totals.waiting["bolt_1"] == pytest.approx(waiting / 2, rel=0.1)


def test_a_worker_whose_tasks_are_cut_into_other_executors_restarts() -> None:
    work = chain(100.0, [0.0], 4)
    world, totals = world_of(work, machines=1, costs=STARTS), Totals()
    world.advance(1020, totals.take)
    assert world.assign("x-1", dealt(work, [M1], {"bolt_1": 2})) == (M1,)


def test_a_source_that_skips_misses_what_fell_due_without_a_process_and_nothing_while_it_is_paused() -> None:
    work = chain(100.0, [0.0], 2)
    source = replace(work.components[0], on_restart="skip")
    world, totals = world_of(replace(work, components=(source, *work.components[1:])), costs=STARTS), Totals()
    world.advance(1010, totals.take)
    world.pause("x-1", True)
    world.advance(1015, totals.take)
    world.pause("x-1", False)
    world.advance(1020, totals.take)
    assert totals.missed["spout"] == 0.0
    world.kill_worker("x-1", M1)
    world.advance(1040, totals.take)
    assert totals.missed["spout"] == pytest.approx(50 * 6.0, rel=0.2), "of one task of two"


def test_a_source_that_skips_gives_up_what_its_process_was_behind() -> None:
    work = chain(200.0, [20.0], 2, buffer=10.0)
    source = replace(work.components[0], on_restart="skip")
    world, totals = world_of(replace(work, components=(source, *work.components[1:])), costs=STARTS), Totals()
    world.advance(1060, totals.take)
    behind = totals.waiting["spout"]
    assert behind > 4000
    world.kill_worker("x-1", M1)
    world.advance(1061, totals.take)
    assert totals.missed["spout"] >= behind / 2, "all that one of two tasks was behind"


def test_what_sources_give_up_is_counted_where_a_worker_dies_as_others_are_moved() -> None:
    """At the same time: the sample was cut already when the worker died."""
    work = chain(200.0, [20.0], 2, buffer=10.0)
    source = replace(work.components[0], on_restart="skip")
    world, totals = world_of(replace(work, components=(source, *work.components[1:])), costs=STARTS), Totals()
    world.advance(1060, totals.take)
    world.assign("x-1", moved(world, 4, Slot("m2", 6701)))
    world.kill_worker("x-1", M1)
    world.advance(1070, totals.take)
    kept = totals.executed["spout"] + totals.waiting["spout"] + totals.missed["spout"]
    assert totals.missed["spout"] > 4000 and kept == pytest.approx(totals.due["spout"])


def test_executing_takes_longer_on_a_core_that_is_shared() -> None:
    world, totals = world_of(chain(1000.0, [0.0], 2, cpu_ms=10.0), machines=1, cores=0.5), Totals()
    world.advance(1020, totals.take)
    last = totals.samples[-1]
    bolts = ~last.layout.is_spout
    assert last.counters.busy_s[bolts] == pytest.approx([1.0, 1.0]), (
        "each executes all the time, at a quarter of a core"
    )
    assert last.counters.cpu_s[bolts] == pytest.approx([0.25, 0.25])


def test_a_source_goes_on_with_its_schedule_in_another_worker() -> None:
    world, totals = world_of(chain(100.0, [0.0], 2), costs=STARTS), Totals()
    world.advance(1020, totals.take)
    world.assign("x-1", moved(world, 1, Slot("m2", 6701)))
    world.advance(1040, totals.take)
    begin_s = 1000 + 2.0
    assert totals.due["spout"] == pytest.approx(100 * (1040 - begin_s), rel=0.03)
    assert totals.executed["spout"] == pytest.approx(totals.due["spout"]), "all of it was emitted, some of it late"


def test_tuples_of_a_topology_that_arrives_do_not_touch_another() -> None:
    world, totals = world_of(chain(100.0, [0.0])), Totals()
    world.advance(1010, totals.take)
    other = replace(chain(40.0, [5.0]), name="other")
    world.submit("y-1", other)
    world.assign("y-1", dealt(other, [Slot("m1", 6701)]))
    world.advance(1030, totals.take)
    sample = totals.samples[-1]
    first = sample.layout.topology == 0
    assert sample.counters.executed[first & sample.layout.sinks].sum() == pytest.approx(100.0)
    assert sample.counters.executed[~first & sample.layout.sinks].sum() == pytest.approx(40.0)
    world.kill("y-1")
    world.advance(1031, totals.take)
    assert {placed.topology_id for placed in totals.samples[-1].layout.topologies} == {"x-1"}


def test_a_machine_that_crashes_loses_its_queues_and_works_again_once_it_boots() -> None:
    world, totals = world_of(chain(200.0, [20.0], 2), costs=STARTS), Totals()
    world.advance(1020, totals.take)
    world.crash("m2")
    world.advance(1030, totals.take)
    assert totals.rate("bolt_1", 1022, 1030) == pytest.approx(50.0)
    world.restart("m2")
    world.advance(1050, totals.take)
    assert totals.rate("bolt_1", 1040, 1050) == pytest.approx(100.0)


@pytest.mark.parametrize("step_s", [0.1, 1.0])
def test_a_worker_that_is_not_there_holds_nobody_back(step_s: float) -> None:
    """Its queue would be full after 20 tuples; what is sent to it is lost."""
    work = chain(400.0, [0.0], 2, buffer=20.0)
    world, totals = world_of(work), Totals()
    world.step_s = step_s
    world.assign("x-1", replace(dealt(work, [M1]), placement={1: M1, 2: M1, 3: M1, 4: M2}))
    world.advance(1010, totals.take)
    world.crash("m2")
    world.advance(1030, totals.take)
    assert totals.rate("spout", 1011, 1030) == pytest.approx(400.0)
    assert totals.rate("bolt_1", 1011, 1030) == pytest.approx(200.0)
    assert totals.missed["spout"] == pytest.approx(0.0, abs=1e-6)


def test_a_machine_that_is_cut_off_talks_to_itself_only() -> None:
    world, totals = world_of(chain(200.0, [0.0], 2)), Totals()
    world.advance(1010, totals.take)
    world.load("m2").is_cut = True
    world.advance(1020, totals.take)
    assert totals.rate("bolt_1", 1010, 1020) == pytest.approx(100.0), "half of a shuffle stays on its machine"
    while_cut = [sample.machines for sample in totals.samples if sample.begin >= 1010]
    assert all(not each.received_bytes.any() and not each.sent_bytes.any() for each in while_cut), "of two machines"
    world.load("m2").is_cut = False
    world.advance(1030, totals.take)
    assert totals.rate("bolt_1", 1020, 1030) == pytest.approx(200.0)


def test_machines_that_do_not_reach_each_other_reach_the_others() -> None:
    """Of three machines two are parted: of nine pairs two are lost."""
    world, totals = world_of(chain(300.0, [0.0], 3), machines=3), Totals()
    world.load("m1").unreached = frozenset({"m2"})
    world.advance(1010, totals.take)
    assert totals.rate("bolt_1", 1002, 1010) == pytest.approx(300.0 * 7 / 9)
    last = totals.samples[-1].machines
    each = 300 / 3 / 3 * 100.0  # bytes from one machine to another
    assert last.sent_bytes == pytest.approx([each, each, 2 * each])
    assert last.received_bytes == pytest.approx([each, each, 2 * each])


def test_another_load_takes_its_share_of_a_core() -> None:
    """Two executors and one other thread on a core: a third each."""
    world, totals = world_of(chain(1000.0, [0.0], 2, cpu_ms=10.0), machines=1, cores=1.0), Totals()
    world.load("m1").busy = 1.0
    world.advance(1030, totals.take)
    assert totals.rate("bolt_1", 1010, 1030) == pytest.approx(2 / 3 * 100, rel=0.02)
    world.load("m1").speed = 0.5
    world.advance(1050, totals.take)
    assert totals.rate("bolt_1", 1030, 1050) == pytest.approx(1 / 3 * 100, rel=0.02)


@pytest.mark.parametrize(
    ("busy", "rate", "expected"),
    [
        (0.0, 20.0, 0.4),  # 40 tuples of a chain of one bolt and two tasks: 0.2 cores each, and nobody waits
        (0.0, 1000.0, 2.0),  # both executors want the core all the time
        (4.0, 1000.0, 6.0),
        (4.0, 0.0, 4.0),
    ],
)
def test_runnable_threads_are_those_that_run_or_wait(busy: float, rate: float, expected: float) -> None:
    world, totals = world_of(chain(2 * rate, [0.0], 2, cpu_ms=10.0), machines=1, cores=1.0), Totals()
    world.load("m1").busy = busy
    world.advance(1030, totals.take)
    runnable = sum(float(sample.machines.runnable_s[0]) for sample in totals.samples[-10:])
    assert runnable / 10 == pytest.approx(expected, rel=0.02)


def test_a_thread_that_hardly_looks_is_not_runnable_all_the_time() -> None:
    """A saturated executor has next to nothing left to look in; that is no thread that wants a whole core."""
    work = replace(chain(1000.0, [10.0], 2, cost_cv2=0.5), bolt_waits=Waits(0.0, 0.010))
    world, totals = world_of(work, machines=1, cores=1.0, costs=replace(FREE, poll_ms=0.05)), Totals()
    world.advance(1060, totals.take)
    assert max(float(sample.machines.runnable_s[0]) for sample in totals.samples[-30:]) < 0.1


def test_threads_that_sleep_are_not_runnable() -> None:
    """A tuple of 20 ms sleep and 5 of CPU, one after the other: a fifth of the time."""
    world, totals = world_of(chain(1000.0, [20.0], 1, cpu_ms=5.0), machines=1, cores=1.0), Totals()
    world.advance(1030, totals.take)
    assert sum(float(sample.machines.runnable_s[0]) for sample in totals.samples[-10:]) / 10 == pytest.approx(0.2, 0.02)


RESTS = replace(FREE, poll_ms=0.05)


def cores_used(totals: Totals) -> float:
    """Of all machines, mean of the last ten seconds."""
    return sum(float(sample.machines.cpu_s.sum()) for sample in totals.samples[-10:]) / 10


@pytest.mark.parametrize(("executors", "sleep_s"), [(4, 0.010), (40, 0.010), (40, 0.001)])
def test_executors_at_rest_cost_cpu_and_more_the_shorter_they_sleep(executors: int, sleep_s: float) -> None:
    """A look of 0.05 ms of CPU after each sleep, of all of a bolt's executors; the spout's do not sleep."""
    work = replace(chain(0.0, [0.0], executors), bolt_waits=Waits(0.0, sleep_s))
    world, totals = world_of(work, costs=RESTS), Totals()
    world.advance(1020, totals.take)
    assert cores_used(totals) == pytest.approx(executors * 0.05e-3 / sleep_s, rel=1e-6)
    threads = sum(float(sample.counters.cpu_s.sum()) for sample in totals.samples[-10:]) / 10
    assert threads == pytest.approx(cores_used(totals)), "it is CPU of the executors' threads"


def test_a_busy_executor_does_not_look() -> None:
    """100 tuples of 5 ms: half of the time there is nothing to do."""
    work = replace(chain(100.0, [5.0], 1), bolt_waits=Waits(0.0, 0.010))
    world, totals = world_of(work, costs=RESTS), Totals()
    world.advance(1020, totals.take)
    assert cores_used(totals) == pytest.approx(0.5 * 0.05e-3 / 0.010, rel=0.01)


def short_of_cpu(busy: float, sleep_ms: float = 8.0, **costs: float) -> tuple[float, float]:
    """Rate and latency (s) of a component that sleeps, 250 tuples/s at two executors, beside busy threads of others on
    a core."""
    work = chain(2 * 125.0, [sleep_ms], 2, cpu_ms=0.1)
    world, totals = world_of(work, machines=1, cores=1.0, costs=replace(FREE, **costs)), Totals()
    world.load("m1").busy = busy
    world.advance(1060, totals.take)
    return totals.rate("bolt_1", 1030, 1060), totals.latency_s(1030)


@pytest.mark.parametrize("costs", [{"quota_period_ms": 100.0}, {"slice_ms": 3.0}, {}])
def test_where_cpu_is_plenty_nobody_waits_for_it(costs: dict[str, float]) -> None:
    assert short_of_cpu(0.5, sleep_ms=4.0, **costs) == short_of_cpu(0.5, sleep_ms=4.0)


def test_who_sleeps_wakes_up_late_where_the_quota_is_used_up() -> None:
    """One busy thread more than there are cores: in half of each period all threads stand still, so nobody does more
    than half of what it did. With four, a quarter."""
    with_all, _ = short_of_cpu(2.0)
    assert with_all == pytest.approx(2 / 0.0081, rel=0.01), "the fair share of the core is enough"
    rates = [short_of_cpu(busy, quota_period_ms=100.0)[0] for busy in (2.0, 4.0)]
    assert rates == [pytest.approx(with_all / 2, rel=0.05), pytest.approx(with_all / 4, rel=0.05)]


def test_a_long_sleep_waits_for_the_rest_of_one_period() -> None:
    """400 ms, two busy threads on a core: half of the time all stand still, half of that again is waited for."""
    rate, _ = short_of_cpu(2.0, sleep_ms=400.0, quota_period_ms=100.0)
    assert rate == pytest.approx(2 / (0.4001 + 0.25 * 0.050), rel=0.01)


def test_without_a_quota_it_waits_for_the_turns_of_those_that_are_too_many() -> None:
    rate, _ = short_of_cpu(3.0, slice_ms=3.0)
    assert rate == pytest.approx(2 / (0.0081 + 2 * 0.003), rel=0.03)


def test_a_tuple_that_wakes_an_executor_up_waits_for_a_cpu_and_costs_nothing_more() -> None:
    """Components that burn CPU, far from busy, beside four busy threads: latency grows, throughput does not change."""
    rates, latencies = [], []
    for costs in ({}, {"quota_period_ms": 100.0}):
        world = world_of(chain(20.0, [0.0], 2, cpu_ms=1.0), machines=1, cores=1.0, costs=replace(FREE, **costs))
        totals = Totals()
        world.load("m1").busy = 4.0
        world.advance(1060, totals.take)
        rates.append(totals.rate("bolt_1", 1030, 1060))
        latencies.append(totals.latency_s(1030))
    still = 1 - 1 / 4.04
    assert rates[0] == rates[1] == pytest.approx(20.0)
    assert latencies[1] - latencies[0] == pytest.approx(2 * still**2 * 0.050, rel=0.05), "at the spout and at the bolt"


def test_a_long_step_gives_what_short_ones_do() -> None:
    found = []
    for step_s in (1.0, 10.0):
        world, totals = world_of(chain(200.0, [20.0], 2)), Totals()
        world.step_s = world.sample_s = step_s
        world.advance(1200, totals.take)
        found.append((totals.executed["bolt_1"], totals.waiting["bolt_1"]))
    assert found[1] == pytest.approx(found[0], rel=0.02)


def test_chance_does_not_outlast_the_work_that_it_is_about() -> None:
    """A backlog of tuples of different costs is worked off; from then on everything is as without it."""
    work = chain(100.0, [10.0], 2)
    scattered = replace(work, components=(work.components[0], replace(work.components[1], cost_cv2=1.0)))
    busy = []
    for each in (work, scattered):
        world, totals = world_of(each), Totals()
        world.advance(1010, totals.take)
        world.pause("x-1", True)
        world.advance(1040, totals.take)
        world.pause("x-1", False)
        world.advance(1120, totals.take)
        last = totals.samples[-1]
        assert totals.waiting["bolt_1"] == 0.0
        busy.append(last.counters.busy_s[~last.layout.is_spout])
    assert busy[1] == pytest.approx(busy[0])


def test_noise_comes_from_the_seed() -> None:
    def executed(seed: int) -> float:
        world, totals = world_of(chain(200.0, [20.0], 2), costs=replace(FREE, noise=0.1), seed=seed), Totals()
        world.advance(1030, totals.take)
        return totals.executed["bolt_1"]

    assert executed(1) == executed(1) != executed(2)


@pytest.mark.parametrize("step_s", [1.0, 10.0])
def test_noise_is_as_large_in_steps_of_any_length(step_s: float) -> None:
    """A tenth of a second's 50 tuples, in seconds that know nothing of each other."""
    world, totals = world_of(chain(200.0, [20.0], 1), machines=1, costs=replace(FREE, noise=0.1), seed=3), Totals()
    world.step_s, world.sample_s = step_s, 10.0
    world.advance(6000, totals.take)
    windows = [float(s.counters.executed[s.layout.sinks].sum()) for s in totals.samples if s.begin >= 1010]
    assert statistics.fmean(windows) == pytest.approx(500.0, rel=0.01)
    assert statistics.stdev(windows) == pytest.approx(0.1 * 50 * math.sqrt(10), rel=0.1)


def test_no_machines_are_refused_in_words() -> None:
    with pytest.raises(SimulationError, match="machines is empty; allowed are one or more"):
        World([], Costs(), 0.0)


def test_costs_are_checked_by_name_and_value() -> None:
    with pytest.raises(SimulationError, match=r"costs: 'hop' is unknown; known are .*hop_ms"):
        Costs.of({"hop": 1.0})
    with pytest.raises(SimulationError, match=r"costs: hop_ms is -1; allowed is a number, 0 or above"):
        Costs.of({"hop_ms": -1})


def test_a_machine_that_joins_takes_work() -> None:
    world, totals = world_of(chain(200.0, [20.0], 2)), Totals()
    world.advance(1010, totals.take)
    world.add_machine(MachineSize("m9", 8.0))
    world.assign("x-1", moved(world, 4, Slot("m9", 6700)))
    world.advance(1020, totals.take)
    assert totals.rate("bolt_1", 1012, 1020) == pytest.approx(100.0)
    assert len(totals.samples[-1].machines.cpu_s) == 3


def test_tuples_that_cost_differently_make_a_saturated_executor_uneven_and_no_slower() -> None:
    """As a renewal process: the variance of a second's number is the number times that of a cost."""
    work = chain(400.0, [10.0], 1)
    varied = replace(work, components=tuple(replace(each, cost_cv2=0.5) for each in work.components))
    world, totals = world_of(varied, machines=1), Totals()
    world.advance(1600, totals.take)
    sinks = [float(s.counters.executed[s.layout.sinks].sum()) for s in totals.samples if s.begin >= 1010]
    assert statistics.fmean(sinks) == pytest.approx(100.0, rel=0.01)
    assert statistics.stdev(sinks) == pytest.approx((0.5 * 100.0) ** 0.5, rel=0.1)
