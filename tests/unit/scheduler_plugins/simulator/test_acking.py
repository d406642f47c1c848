"""Ackers: what they execute, send and hold back, beside counts by hand and closed networks of theory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.simulator.tuple_by_tuple import Closed, closed_per_s, closed_theory_per_s
from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.lines import WorkerLines
from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedComponent, SimulatedTopology, Waits
from scheduler_plugins.simulator.world import World
from tests.support.worlds import ACK_BYTES, BACK_BYTES, FREE, INIT_BYTES, Totals, acked, add, chain, dealt, world_of

M1, M2, M3 = Slot("m1", 6700), Slot("m2", 6700), Slot("m3", 6700)


def fork(rate: float | None, *sleeps_ms: float, passes: float = 1.0) -> SimulatedTopology:
    """A spout that sends each tuple to every bolt, of one executor each."""
    bolts = tuple(SimulatedComponent(f"bolt_{n}", "bolt", (2 + n,), sleep_ms=ms) for n, ms in enumerate(sleeps_ms))
    edges = tuple(EdgeWork("spout", "default", bolt.name, "shuffle", selectivity=passes) for bolt in bolts)
    return SimulatedTopology("fork", 1, (SimulatedComponent("spout", "spout", (1,), rate_per_s=rate), *bolts), edges)


def run(work: SimulatedTopology, until_s: float, **site: object) -> tuple[World, Totals]:
    world, totals = world_of(work, **site), Totals()  # type: ignore[arg-type]
    world.advance(until_s, totals.take)
    return world, totals


def acks(totals: Totals, from_s: float) -> float:
    """Trees a second that spouts have heard of."""
    kept = [sample for sample in totals.samples if sample.begin >= from_s - 1e-6]
    return sum(float(each.counters.acked.sum()) for each in kept) / sum(each.end - each.begin for each in kept)


def pending(world: World) -> float:
    assert world._flow is not None and world._flow.trees is not None
    return float(world._flow.trees.pending.sum())


@pytest.mark.parametrize("bolts", [1, 2, 4])
def test_an_acker_executes_one_a_tree_and_one_a_processed_tuple_and_spouts_hear_of_each_tree(bolts: int) -> None:
    """Beside n tuples that bolts process, n + 1 at ackers and one at the spout: 2 + 2 / n as many in all."""
    _, totals = run(acked(chain(100.0, [0.0] * bolts)), 1030)
    assert totals.rate("__acker", 1010, 1030) == pytest.approx(100.0 * (1 + bolts))
    assert acks(totals, 1010) == pytest.approx(100.0)
    processed = sum(totals.rate(f"bolt_{n + 1}", 1010, 1030) for n in range(bolts))
    of_acking = totals.rate("__acker", 1010, 1030) + acks(totals, 1010)
    assert (processed + of_acking) / processed == pytest.approx(2 + 2 / bolts)


def test_what_a_filter_does_not_pass_ends_there() -> None:
    work = chain(100.0, [0.0, 0.0])
    edges = (work.edges[0], replace(work.edges[1], selectivity=0.25))
    _, totals = run(acked(replace(work, edges=edges)), 1030)
    assert totals.rate("__acker", 1010, 1030) == pytest.approx(100.0 * (1 + 1 + 0.25))
    assert acks(totals, 1010) == pytest.approx(100.0), "every tree is complete, wherever it ended"


def test_messages_of_ackers_cross_the_network_as_their_groupings_have_it() -> None:
    """Every component on both machines alike: half of all messages crosses, and what crosses is sent and received."""
    _, totals = run(acked(chain(100.0, [0.0, 0.0], 2, tuple_bytes=200.0)), 1030)
    kept = [sample for sample in totals.samples if sample.begin >= 1010]
    sent, received = (
        sum(float(getattr(sample.machines, name).sum()) for sample in kept) / 20
        for name in ("sent_bytes", "received_bytes")
    )
    assert sent == pytest.approx(100 * (2 * 200 + INIT_BYTES + 2 * ACK_BYTES + BACK_BYTES) / 2)
    assert received == pytest.approx(sent)


def test_ackers_beside_their_spout_send_nothing_over_the_network_to_it() -> None:
    work = acked(chain(100.0, [0.0], 1, tuple_bytes=200.0), ackers=1)
    world, totals = world_of(work), Totals()
    world.assign("x-1", replace(dealt(work, [M1]), placement={1: M1, 2: M2, 3: M1}))
    world.advance(1030, totals.take)
    sent = [sum(float(s.machines.sent_bytes[row]) for s in totals.samples if s.begin >= 1010) / 20 for row in (0, 1)]
    assert sent == pytest.approx([100 * 200.0, 100 * ACK_BYTES]), "tuples there, acks back"


def test_acking_costs_cpu_as_tuples_do() -> None:
    """One worker: a bolt receives and a spout emits without ackers; with them the acker receives two and emits one, the
    spout and the bolt emit one more each, and the spout receives."""
    costs, used = replace(FREE, receive_ms=0.2, local_emit_ms=0.1), []
    for work in (chain(100.0, [0.0], 1), acked(chain(100.0, [0.0], 1), ackers=1)):
        _, totals = run(work, 1030, machines=1, costs=costs)
        used.append(sum(float(sample.machines.cpu_s.sum()) for sample in totals.samples if sample.begin >= 1010) / 20)
    assert used[0] == pytest.approx(100 * (0.1 + 0.2) / 1000)
    assert used[1] == pytest.approx(100 * (0.1 + 0.2 + 2 * 0.2 + 0.1 + 2 * 0.1 + 0.2) / 1000)


def test_a_tree_is_complete_with_its_slowest_tuple() -> None:
    """Of two branches the one does 50/s, and 100/s come."""
    world, totals = run(acked(fork(100.0, 1.0, 20.0)), 1060, machines=1)
    assert acks(totals, 1030) == pytest.approx(50.0, rel=0.01)
    assert pending(world) == pytest.approx(totals.waiting["bolt_1"], rel=0.01), "what waits at the slow one"


@pytest.mark.parametrize(
    "work", [chain(200.0, [2.0, 20.0], 2), fork(100.0, 3.0, 20.0), fork(100.0, 1.0, 2.0, passes=0.5)]
)
def test_no_tree_is_made_or_lost_in_the_accounts(work: SimulatedTopology) -> None:
    world, totals = run(acked(work), 1060)
    complete = sum(float(sample.counters.acked.sum()) for sample in totals.samples)
    assert totals.executed["spout"] == pytest.approx(complete + pending(world))


def test_a_spout_that_may_have_so_many_trees_in_flight_has_no_more() -> None:
    """As fast as it can, before a bolt that does 50/s: they wait there, and a tuple is as old as they take."""
    world, totals = run(acked(chain(None, [20.0], 1), ackers=1, pending=100), 1120, machines=1)
    assert totals.rate("spout", 1060, 1120) == pytest.approx(50.0, rel=0.01)
    assert pending(world) == pytest.approx(100.0, rel=0.02)
    last = totals.samples[-1]
    sinks = last.layout.sinks
    assert last.counters.latency_s[sinks].sum() / last.counters.executed[sinks].sum() == pytest.approx(2.0, rel=0.03)
    assert last.counters.blocked_s.sum() == 0.0, "that is no back-pressure"


def test_the_limit_is_of_each_task_of_a_spout() -> None:
    work = acked(chain(None, [20.0], 4), ackers=1, pending=25)
    world, totals = world_of(work, machines=1), Totals()
    world.assign("x-1", dealt(work, [M1], {"spout": 1, "bolt_1": 1}))
    world.advance(1120, totals.take)
    assert pending(world) == pytest.approx(100.0, rel=0.02)


ROUTES = tuple(((task, 1.0),) for task in range(3))


def in_lines(grouping: str, pending: int = 100, buffer: float = math.inf) -> tuple[World, Totals]:
    """A line of a spout and a bolt on each of three machines, which do 100, 10 and 50/s; an acker on the third."""
    work = chain(None, [0.0], 3, cpu_ms=10.0, buffer=buffer, grouping="fields" if grouping == "routes" else grouping)
    if grouping == "routes":
        work = replace(work, edges=(replace(work.edges[0], routes=ROUTES),))
    work = acked(work, ackers=1, pending=pending, timeout_s=20.0)
    world, slots = world_of(work, machines=3, cores=1.0), [M1, M2, M3]
    world.load("m2").speed, world.load("m3").speed = 0.1, 0.5
    world.assign("x-1", replace(dealt(work, slots), placement={**dealt(work, slots).placement, 7: M3}))
    return world, Totals()


def of_spouts(totals: Totals, name: str, from_s: float) -> list[float]:
    """A second, of each executor."""
    kept = [sample for sample in totals.samples if sample.begin >= from_s - 1e-6]
    total = sum(getattr(each.counters, name)[each.layout.is_spout] for each in kept)
    return list(total / sum(each.end - each.begin for each in kept))


@pytest.mark.parametrize("grouping", ["routes", "local_or_shuffle", "ring"])
def test_a_slow_line_fills_the_limit_of_its_own_spout_only(grouping: str) -> None:
    """A spout's acks are of its own line, whatever the others do. (A ring's first task feeds the second bolt.)"""
    world, totals = in_lines(grouping)
    world.advance(1120, totals.take)
    rates = [10.0, 50.0, 100.0] if grouping == "ring" else [100.0, 10.0, 50.0]
    assert of_spouts(totals, "executed", 1060) == pytest.approx(rates, rel=0.02)
    assert of_spouts(totals, "acked", 1060) == pytest.approx(rates, rel=0.02)
    last = totals.samples[-1]
    assert last.queues.waiting[last.layout.component == 1] == pytest.approx([100.0] * 3, rel=0.05)


def test_one_tree_in_each_line_meets_no_other_and_is_as_fast_as_its_line() -> None:
    world, totals = in_lines("routes", pending=1)
    world.advance(1120, totals.take)
    assert of_spouts(totals, "acked", 1060) == pytest.approx([100.0, 10.0, 50.0], rel=0.02)


def test_a_worker_that_dies_costs_its_own_line_the_trees() -> None:
    world, totals = in_lines("routes")
    now = world.topologies["x-1"].assignment
    world.assign("x-1", replace(now, placement={**now.placement, 6: Slot("m3", 6701)}))
    world.advance(1040, totals.take)
    world.kill_worker("x-1", Slot("m3", 6701))
    trees = world._flow.trees if world._flow else None
    assert trees is not None
    assert trees.lost.sum(axis=0)[:3] == pytest.approx([0.0, 0.0, 100.0], abs=5.0)
    world.advance(1050, totals.take)
    assert of_spouts(totals, "executed", 1045) == pytest.approx([100.0, 10.0, 0.0], rel=0.05, abs=1.0)
    world.advance(1120, totals.take)
    assert of_spouts(totals, "executed", 1090) == pytest.approx([100.0, 10.0, 50.0], rel=0.05)


def test_trees_stay_with_their_line_where_other_executors_are_cut_anew() -> None:
    """The first two spouts become one executor, and the third, which was the third of three lines, the second."""
    world, totals = in_lines("routes")
    world.advance(1060, totals.take)
    assert pending(world) == pytest.approx(300.0, rel=0.05)
    now = world.topologies["x-1"].assignment
    world.assign("x-1", replace(now, executors={**now.executors, "spout": 2}, placement={**now.placement, 2: M1}))
    world.advance(1061, totals.take)
    last = totals.samples[-1]
    trees = world._flow.trees if world._flow else None
    assert trees is not None
    third = last.layout.is_spout & (last.layout.first == 3)
    line = int(trees.number[third][0])
    assert line == 1 and last.counters.acked[third] == pytest.approx([50.0], rel=0.05)
    at_bolt = float(trees.waiting[line, last.layout.component == 1].sum())
    assert at_bolt == pytest.approx(float(trees.live[third][0]), rel=0.05) and at_bolt > 90


def test_a_spout_that_is_cut_off_hears_of_no_tree_and_stalls_at_its_limit() -> None:
    """Bolt and acker are on m1, one of two spouts on m2, which gives its trees up every 20 to 40 s."""
    work = acked(chain(None, [1.0], 2), ackers=1, pending=100, timeout_s=20.0)
    world, totals = world_of(work), Totals()
    world.assign("x-1", replace(dealt(work, [M1]), placement={1: M1, 2: M2, 3: M1, 4: M1, 5: M1}))
    world.advance(1010, totals.take)
    assert of_spouts(totals, "acked", 1005)[1] > 500
    world.load("m2").is_cut = True
    world.advance(1070, totals.take)
    while_cut = [sample for sample in totals.samples if sample.begin >= 1010]
    assert not any(sample.machines.sent_bytes.any() or sample.machines.received_bytes.any() for sample in while_cut)
    assert of_spouts(totals, "acked", 1010)[1] == 0.0
    assert sum(float(sample.counters.executed[1]) for sample in while_cut) < 100 * (1 + 60 / 20)
    trees = world._flow.trees if world._flow else None
    assert trees is not None and trees.pending[1] < 101
    world.load("m2").is_cut = False
    world.advance(1120, totals.take)
    assert of_spouts(totals, "acked", 1115)[1] > 500


@pytest.mark.parametrize("step_s", [1.0, 10.0])
@pytest.mark.parametrize(("rate", "limit"), [(190.0, 50), (None, 500)])
def test_a_spout_has_no_more_trees_in_flight_where_the_machine_after_it_crashes(
    rate: float | None, limit: int, step_s: float
) -> None:
    work = acked(chain(rate, [5.0], 1), ackers=1, pending=limit)
    world, totals = world_of(work), Totals()
    world.assign("x-1", replace(dealt(work, [M1]), placement={1: M1, 2: M2, 3: M2}))
    world.step_s = world.sample_s = step_s
    world.advance(1030, totals.take)
    before = totals.lost.get("bolt_1", 0.0)
    world.crash("m2")
    world.advance(1050, totals.take)
    assert pending(world) == pytest.approx(limit, rel=0.02), "all that it may have, and none of them comes back"
    assert totals.lost["bolt_1"] - before <= limit * (1 + 1e-6)


@pytest.mark.parametrize("step_s", [1.0, 10.0])
def test_where_one_of_two_machines_crashes_a_spout_goes_on_until_its_limit_is_lost(step_s: float) -> None:
    """Half of 100/s comes back, the other half fills 500 in 10 s."""
    work = acked(chain(100.0, [1.0], 2), ackers=1, pending=250)
    world, totals = world_of(work, machines=2), Totals()
    placement = {1: M1, 2: M1, 3: M1, 4: M2, 5: M1}
    world.assign("x-1", replace(dealt(work, [M1]), placement=placement))
    world.step_s = world.sample_s = step_s
    world.advance(1020, totals.take)
    world.crash("m2")
    world.advance(1050, totals.take)
    emitted = totals.executed["spout"]
    assert pending(world) == pytest.approx(500.0, rel=0.02)
    assert emitted - acks_in_all(totals) == pytest.approx(500.0, rel=0.02)
    assert totals.lost["bolt_1"] <= 500.0 * (1 + 1e-6)


def acks_in_all(totals: Totals) -> float:
    return sum(float(sample.counters.acked.sum()) for sample in totals.samples)


def test_a_line_that_is_cut_off_leaves_the_others_as_they_are() -> None:
    """Its bolt is beside its spout, and their acker elsewhere."""
    world, totals = in_lines("routes")
    world.advance(1060, totals.take)
    world.load("m2").is_cut = True
    world.advance(1120, totals.take)
    assert of_spouts(totals, "acked", 1060) == pytest.approx([100.0, 0.0, 50.0], rel=0.02)
    assert of_spouts(totals, "executed", 1060)[1] < 3 * 110 / 60, "its limit, after each timeout"
    trees = world._flow.trees if world._flow else None
    assert trees is not None and trees.pending[1] < 110 and not trees.lost[:, [0, 2]].any()


def test_one_tree_at_a_time_takes_what_its_way_takes() -> None:
    """2 ms there, 20 of service, 2 to the acker and 2 back."""
    costs = replace(FREE, hop_ms=2.0, remote_hop_ms=2.0)
    _, totals = run(acked(chain(None, [20.0], 1), ackers=1, pending=1), 1060, machines=1, costs=costs)
    assert totals.rate("spout", 1020, 1060) == pytest.approx(1000 / 26, rel=0.02)


def test_a_spout_that_sleeps_while_it_may_not_emit_hears_of_its_trees_later() -> None:
    waits = Waits(0.0, 0.010)
    work = replace(acked(chain(None, [20.0], 1), ackers=1, pending=1), spout_waits=waits)
    _, totals = run(work, 1060, machines=1)
    assert totals.rate("spout", 1020, 1060) == pytest.approx(1000 / 40, rel=0.02), "at every fourth look"


@pytest.mark.parametrize("case", [Closed(4, 0.010, 0.010, trees) for trees in (1, 4, 16, 64)], ids=str)
def test_trees_in_flight_are_as_fast_as_in_a_closed_network(case: Closed) -> None:
    """Exact by mean value analysis."""
    assert closed_per_s(case) == pytest.approx(closed_theory_per_s(case), rel=0.06)


def test_a_source_with_a_rate_that_its_limit_does_not_reach_is_not_held_up() -> None:
    _, totals = run(acked(chain(100.0, [5.0], 2), pending=50), 1030)
    assert totals.rate("spout", 1003, 1030) == pytest.approx(100.0) and totals.waiting["spout"] == 0.0


def test_a_source_with_a_rate_falls_behind_where_its_limit_holds_it_up() -> None:
    world, totals = run(acked(chain(100.0, [20.0], 1), ackers=1, pending=10), 1060, machines=1)
    assert pending(world) <= 10.5
    assert totals.waiting["bolt_1"] < 11 and totals.waiting["spout"] > 2500, "it waits at the source"


def test_trees_that_are_lost_are_in_flight_until_the_spout_gives_them_up() -> None:
    """Half of 200 trees wait in a worker that dies; after one to two timeouts the spout emits others for them."""
    work = acked(chain(None, [20.0], 2), ackers=1, pending=100)
    world, totals = world_of(work), Totals()
    world.assign("x-1", replace(dealt(work, [M1]), placement={1: M1, 2: M1, 3: M1, 4: M2, 5: M1}))
    world.advance(1055, totals.take)
    waiting = totals.waiting["bolt_1"]
    assert waiting == pytest.approx(200.0, rel=0.05)
    world.kill_worker("x-1", M2)
    trees = world._flow.trees if world._flow else None
    assert trees is not None
    assert trees.lost.sum() == pytest.approx(waiting / 2, rel=0.1)
    world.advance(1075, totals.take)
    assert trees.lost.sum() > waiting / 3 and totals.waiting["bolt_1"] < 0.7 * waiting
    world.advance(1140, totals.take)
    assert trees.lost.sum() == 0.0 and totals.waiting["bolt_1"] == pytest.approx(200.0, rel=0.05)


def test_a_spout_that_starts_anew_knows_nothing_of_its_trees() -> None:
    work = acked(chain(None, [20.0], 1), ackers=1, pending=100)
    world, totals = world_of(work), Totals()
    world.assign("x-1", replace(dealt(work, [M1]), placement={1: M2, 2: M1, 3: M1}))
    world.advance(1030, totals.take)
    world.kill_worker("x-1", M2)
    assert pending(world) == 0.0
    world.advance(1040, totals.take)
    assert pending(world) == pytest.approx(100.0, rel=0.05), "of its own again"


def test_an_acker_that_moves_forgets_its_share_of_the_trees() -> None:
    work = acked(chain(None, [20.0], 1), ackers=2, pending=100)
    world, totals = world_of(work, machines=3), Totals()
    placement = {1: M1, 2: M1, 3: M1, 4: M2}
    world.assign("x-1", replace(dealt(work, [M1]), placement=placement))
    world.advance(1050, totals.take)
    world.assign("x-1", replace(dealt(work, [M1]), placement={**placement, 4: Slot("m3", 6700)}))
    world.advance(1055, totals.take)
    trees = world._flow.trees if world._flow else None
    assert trees is not None and trees.lost.sum() == pytest.approx(50.0, rel=0.1)
    assert pending(world) == pytest.approx(100.0, rel=0.05)


def test_topologies_without_ackers_are_not_touched_by_others_that_have_some() -> None:
    plain = chain(100.0, [5.0])
    world, totals = world_of(acked(chain(None, [20.0], 1), pending=10)), Totals()
    world.submit("y-1", plain)
    world.assign("y-1", dealt(plain, [Slot("m1", 6701)]))
    world.advance(1030, totals.take)
    last = totals.samples[-1]
    executed: dict[str, float] = {}
    add(executed, last.layout, np.where(last.layout.topology == 1, last.counters.executed, 0.0))
    assert executed["bolt_1"] == pytest.approx(100.0)
    assert last.counters.acked[last.layout.topology == 1].sum() == 0.0


def test_lines_have_what_ackers_execute_and_the_time_until_an_ack() -> None:
    """As real workers write them: an acker has a row in `tasks` and is in no other group, also where it is alone."""
    work = acked(chain(100.0, [5.0], 2))
    world, writer = world_of(work, machines=3, costs=Costs()), WorkerLines(1.0, {"x-1"})
    world.assign(
        "x-1", replace(dealt(work, [M1, M2]), placement={**dealt(work, [M1, M2]).placement, 6: Slot("m3", 6700)})
    )
    found: list[dict[str, Any]] = []
    world.advance(1030, lambda sample: found.extend(writer.take(sample)))
    for line in found[-3:]:
        tasks = line["tasks"]
        rows = zip(tasks["component"], tasks["execute_ms"], tasks["process_ms"], tasks["emitted"], strict=True)
        for name, execute_ms, process_ms, emitted in rows:
            assert process_ms == (execute_ms if name == "bolt_1" else None)
            assert emitted == 0 or name != "__acker"
        assert set(line.get("streams", {"stream": []})["stream"]) <= {"default"}
        assert set(line.get("sources", {"stream": []})["stream"]) <= {"default"}
        assert max(line.get("traffic", {"to": [0]})["to"]) <= 4
    assert {line["machine"]: set(line["tasks"]["component"]) for line in found[-3:]} == {
        "m1": {"spout", "bolt_1", "__acker"}, "m2": {"spout", "bolt_1"}, "m3": {"__acker"},
    }  # fmt: skip
    for line in [line for line in found[-3:] if line["machine"] != "m3"]:
        assert "sinks" in line and math.isclose(sum(line["tasks"]["transferred"]), 50, abs_tol=2)
    late = [line["tasks"] for line in found if line["t"] > 1010]
    executed = sum(
        n for tasks in late for name, n in zip(tasks["component"], tasks["executed"], strict=True) if name == "__acker"
    )
    assert executed / 20 == pytest.approx(200.0, rel=0.02), "one a tree and one a tuple of the bolt"


@pytest.mark.parametrize("step_s", [0.1, 1.0])
@pytest.mark.parametrize(("cores", "trees_per_s"), [(0.5, 0.5 / 0.3e-3), (8.0, 1.0 / 0.11e-3)])
def test_what_all_send_to_a_full_acker_is_cut_alike_and_no_core_idles_meanwhile(
    step_s: float, cores: float, trees_per_s: float
) -> None:
    """Four bolts, and a spout that emits as fast as it can. A tree takes 0.3 ms in all, of which the acker's thread
    has five messages and one answer: 0.11 ms. So half a core is the limit, of a machine with more the acker's."""
    world, totals = full_acker(cores, 50_000), Totals()
    world.step_s = world.sample_s = step_s
    world.advance(1040, totals.take)
    components = ("spout", "bolt_1", "bolt_2", "bolt_3", "bolt_4")
    rates = [totals.rate(name, 1020, 1040) for name in components]
    assert rates == pytest.approx([trees_per_s] * 5, rel=0.03)
    assert acks(totals, 1020) == pytest.approx(rates[0], rel=0.01)
    late = [sample for sample in totals.samples if sample.begin >= 1020]
    by_sample = [float(each.counters.executed.sum()) / (each.end - each.begin) for each in late]
    assert max(by_sample) < 1.05 * min(by_sample), "a steady flow"
    assert max(float(each.queues.waiting.max()) for each in late) <= 1000.0 * 1.01


def full_acker(cores: float, pending: int) -> World:
    """A machine with a chain whose spout emits as fast as it may; Storm's part of a tuple is all that costs."""
    work = acked(chain(None, [0.0] * 4, 1, buffer=1000.0), ackers=1, pending=pending)
    work = replace(work, components=tuple(replace(each, buffer=1000.0) for each in work.components))
    costs = replace(FREE, receive_ms=0.02, local_emit_ms=0.01)
    return world_of(work, machines=1, cores=cores, costs=costs, slots=[M1])


@pytest.mark.parametrize("step_s", [0.1, 1.0])
@pytest.mark.parametrize("pending", [20, 200, 1000])
def test_no_machine_uses_more_than_its_cores_whatever_comes_back_to_a_spout(step_s: float, pending: int) -> None:
    world, totals = full_acker(0.5, pending), Totals()
    world.step_s = world.sample_s = step_s
    world.advance(1040, totals.take)
    used = [float(each.machines.cpu_s.sum()) / (each.end - each.begin) for each in totals.samples if each.begin >= 1010]
    assert max(used) <= 0.5 * (1 + 1e-6)
    assert sum(used) / len(used) > 0.85 * 0.5
