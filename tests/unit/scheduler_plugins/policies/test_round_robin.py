from __future__ import annotations

from collections import Counter
from dataclasses import replace

from scheduler_plugins.model import Observation, ScaleEvent, Slot
from scheduler_plugins.policies import even, initial_placement
from tests.support.topologies_by_hand import STAR, machines, topology


def test_a_fresh_topology_is_dealt_over_interleaved_slots() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    decision = even.decide(Observation(0.0, machines(4), (shape,)), {})
    per_machine = Counter(slot.machine for slot in set(decision.placement["t-1"].values()))
    assert per_machine == {"m1": 3, "m2": 3, "m3": 2, "m4": 2}


def test_storm_left_alone_moves_nothing_at_a_scale_out() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    placed = replace(
        shape,
        placement=initial_placement.place_topology(
            shape, initial_placement.sort_slots(initial_placement.free_slots(machines(4), ()))
        ),
    )
    event = ScaleEvent("e1", "scale_out", ("m5",))
    decision = even.decide(Observation(0.0, machines(5), (placed,), event=event), {})
    assert not decision.changes() and decision.settled


def test_a_rebalance_deals_everything_again_over_the_new_machine_too() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    placed = replace(
        shape,
        placement=initial_placement.place_topology(
            shape, initial_placement.sort_slots(initial_placement.free_slots(machines(4), ()))
        ),
    )
    event = ScaleEvent("e1", "scale_out", ("m5",))
    decision = even.decide(
        Observation(0.0, machines(5), (placed,), event=event), {}, even.EvenParameters(rebalance=True)
    )
    after = {**placed.placement, **decision.placement["t-1"]}
    assert Counter(slot.machine for slot in set(after.values())) == dict.fromkeys(("m1", "m2", "m3", "m4", "m5"), 2)
    assert not decision.executors


def test_a_crash_places_only_what_lost_its_slot() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    full = initial_placement.place_topology(
        shape, initial_placement.sort_slots(initial_placement.free_slots(machines(4), ()))
    )
    kept = {task: slot for task, slot in full.items() if slot.machine != "m4"}
    alive = tuple(replace(m, alive=m.name != "m4") for m in machines(4))
    decision = even.decide(Observation(0.0, alive, (replace(shape, placement=kept),)), {})
    assert set(decision.placement["t-1"]) == set(full) - set(kept)
    assert "m4" not in {slot.machine for slot in decision.placement["t-1"].values()}


def test_two_topologies_never_share_a_slot() -> None:
    first = topology(STAR, tasks=4, executors=2, workers=8)
    second = replace(topology(STAR, tasks=4, executors=2, workers=8), topology_id="t-2")
    placement = even.decide(Observation(0.0, machines(4), (first, second)), {}).placement
    assert not set(placement["t-1"].values()) & set(placement["t-2"].values())


def test_without_a_free_slot_the_unplaced_join_the_topologys_own_workers() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=2)
    full = initial_placement.place_topology(
        shape, initial_placement.sort_slots(initial_placement.free_slots(machines(1, ports=2), ()))
    )
    lost = shape.component("centre").tasks
    kept = {task: slot for task, slot in full.items() if task not in lost}
    decision = even.decide(Observation(0.0, machines(1, ports=2), (replace(shape, placement=kept),)), {})
    assert set(decision.placement["t-1"]) == set(lost)
    assert set(decision.placement["t-1"].values()) <= {Slot("m1", 6700), Slot("m1", 6701)}


def test_fewer_slots_than_topologies_leave_everything_where_it_is() -> None:
    """The machine of the first is lost: on the only slot that is left, the second runs."""
    lost, last = machines(2, ports=1)
    shape = topology(STAR, tasks=1, executors=1, workers=1)
    first, second = (
        replace(shape, topology_id=name, placement=dict.fromkeys(range(1, 6), Slot(machine.name, 6700)))
        for name, machine in (("t-1", lost), ("t-2", last))
    )
    both = Observation(0.0, (replace(lost, alive=False), last), (first, second))
    decision = even.place_everything_again(both, {})
    assert not decision.changes()
