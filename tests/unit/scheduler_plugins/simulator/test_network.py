"""What networks with a limit carry, and whom they hold back: closed forms."""

from __future__ import annotations

import pytest

from scheduler_plugins.model import Slot
from scheduler_plugins.simulator.work import EdgeWork, MachineSize, SimulatedComponent, SimulatedTopology
from scheduler_plugins.simulator.world import Assignment, World
from tests.support.worlds import FREE, Totals, advanced, chain, world_of


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
        SimulatedComponent("much", "spout", (1,), rate_per_s=5000.0),
        SimulatedComponent("little", "spout", (2,), rate_per_s=100.0),
        SimulatedComponent("bolt", "bolt", (3,)),
        SimulatedComponent("end", "bolt", (4, 5)),
    )
    edges = (
        EdgeWork("much", "default", "end", "shuffle", tuple_bytes=1000.0),
        EdgeWork("little", "default", "bolt", "shuffle", tuple_bytes=1000.0),
        EdgeWork("bolt", "default", "end", "shuffle", tuple_bytes=1000.0),
    )
    work = SimulatedTopology("two", 1, components, edges)
    world, totals = world_of(work, machines=3, bandwidth_mbit=8.0), Totals()
    m1, m2, m3 = (Slot(f"m{n}", 6700) for n in (1, 2, 3))
    world.assign("x-1", Assignment({"end": 2, "much": 1, "little": 1, "bolt": 1}, {1: m1, 2: m2, 3: m1, 4: m2, 5: m3}))
    world.advance(world.now + 60, totals.take)
    assert max(sent_mbit(totals)) <= 8.0 * (1 + 1e-9)
    assert totals.rate("bolt", 1030, 1060) == pytest.approx(100.0, rel=0.01)
    assert totals.rate("much", 1030, 1060) == pytest.approx(900.0, rel=0.01)


def test_a_machine_receives_no_more_than_its_bandwidth() -> None:
    """Two sources on m1 and m2, all for m3: each has half of what it may receive, and holds the rest back."""
    components = (
        SimulatedComponent("spout", "spout", (1, 2), rate_per_s=4000.0),
        SimulatedComponent("bolt", "bolt", (3,)),
    )
    work = SimulatedTopology(
        "to_one", 1, components, (EdgeWork("spout", "default", "bolt", "shuffle", tuple_bytes=1000.0),)
    )
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
