from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scheduler_plugins.model import Observation, ScaleEvent, Slot
from scheduler_plugins.policies import PolicyError, bind, even
from tests.support.topologies_by_hand import STAR, dealt_evenly, machines, topology


def test_a_rebalance_deals_everything_again_over_the_new_machine_too() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    placed = dealt_evenly(shape, machines(4))
    event = ScaleEvent("e1", "scale_out", ("m5",))
    decision = even.decide(
        Observation(0.0, machines(5), (placed,), event=event), {}, even.EvenParameters(rebalance=True)
    )
    after = {**placed.placement, **decision.placement["t-1"]}
    assert Counter(slot.machine for slot in set(after.values())) == dict.fromkeys(("m1", "m2", "m3", "m4", "m5"), 2)
    assert not decision.executors


def test_a_crash_places_only_what_lost_its_slot() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    full = dealt_evenly(shape, machines(4)).placement
    kept = {task: slot for task, slot in full.items() if slot.machine != "m4"}
    alive = tuple(replace(m, alive=m.name != "m4") for m in machines(4))
    decision = even.decide(Observation(0.0, alive, (replace(shape, placement=kept),)), {})
    assert set(decision.placement["t-1"]) == set(full) - set(kept)
    assert "m4" not in {slot.machine for slot in decision.placement["t-1"].values()}


def test_without_a_free_slot_the_unplaced_join_the_topologys_own_workers() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=2)
    full = dealt_evenly(shape, machines(1, ports=2)).placement
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


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"rebalance": True, "wait_s": 601}, "wait_s is 601; allowed is a whole number from 0 to 600"),
        ({"rebalance": True, "wait_s": 2.5}, "wait_s is 2.5; allowed"),
        ({"wait_s": 30}, "wait_s is 30 and rebalance is false; allowed is 0"),
    ],
)
def test_a_wait_that_cannot_be(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        bind("even", parameters)
