from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler_plugins.model import Decision, Observation, ScaleEvent, Slot, Topology
from scheduler_plugins.policies import bind
from scheduler_plugins.service.refusal import refusal
from tests.support.topologies_by_hand import LINEAR, dealt_evenly, machines, topology

# bolt_2 is congested (900/s come, 300/s are executed): ETP spout and bolt_1 0, bolt_2 and sink 1.
INFLOW = {"spout": 900.0, "bolt_1": 900.0, "bolt_2": 300.0}
PROCESSING = {"bolt_1": 900.0, "bolt_2": 300.0, "sink": 300.0}


def linear(homes: Mapping[str, list[str]], *, workers: int = 4, topology_id: str = "t-1") -> Topology:
    """Two executors of a task each per component, at the slots given for them."""
    shape = topology(LINEAR, tasks=2, executors=2, workers=workers, inflow=INFLOW, processing=PROCESSING)
    placement = {
        executor.first_task: Slot.parse(home)
        for component in shape.components
        for executor, home in zip(component.executors, homes[component.name], strict=True)
    }
    return replace(shape, topology_id=topology_id, placement=placement)


# ETPSum: m1 0 (4 executors), m2 1, m3 1 (one executor each), m4 2.
HOMES = {
    "spout": ["m1:6700", "m1:6701"],
    "bolt_1": ["m1:6700", "m1:6701"],
    "bolt_2": ["m3:6700", "m4:6700"],
    "sink": ["m2:6700", "m4:6700"],
}


def observe(*topologies: Topology, leave: int, count: int = 4, ports: int = 4) -> Observation:
    return Observation(0.0, machines(count, ports), topologies, 1.0, ScaleEvent("e1", "scale_in", leave=leave))


def after(observation: Observation, decision: Decision) -> dict[int, Slot]:
    assert refusal(observation, decision) is None and not decision.executors
    shape = observation.topologies[0]
    placement = {**shape.placement, **decision.placement[shape.topology_id]}
    assert not {slot.machine for slot in placement.values()} & set(decision.release)
    return placement


def test_the_machine_with_the_lowest_etpsum_leaves() -> None:
    decision = bind("stela", {})(observe(linear(HOMES), leave=1), {})
    assert decision.release == ("m1",) and decision.settled
    assert decision.reason == "lowest ETPSum leaves: m1 (0.00)"


def test_its_executors_go_round_robin_the_lowest_etpsum_first_to_slots_that_are_free() -> None:
    # spout 1, 2 and bolt_1 3, 4 leave m1. m2 and m3 have ETPSum 1 and an executor each; m2 is listed first.
    observation = observe(linear(HOMES, workers=6), leave=1)
    placement = after(observation, bind("stela", {})(observation, {}))
    assert {task: str(placement[task]) for task in (1, 2, 3, 4)} == {
        1: "m2:6701",
        2: "m3:6701",
        3: "m4:6701",
        4: "m2:6700",  # six workers run by now: no new one, the emptiest of those on m2
    }


def test_etpsum_is_computed_anew_after_each_machine_unless_all_leave_at_once() -> None:
    homes = {**HOMES, "bolt_2": ["m2:6701", "m4:6700"], "sink": ["m1:6702", "m3:6700"]}
    # ETPSum 1 everywhere, m1 has five executors: m2 leaves first. Its bolt_2 goes to m3, whose ETPSum is then 2.
    one_by_one = bind("stela", {})(observe(linear(homes), leave=2), {})
    at_once = bind("stela", {"scale_in": "all_at_once"})(observe(linear(homes), leave=2), {})
    assert one_by_one.release == ("m2", "m4")
    assert at_once.release == ("m2", "m3")


def test_all_at_once_never_sends_an_executor_to_a_machine_that_leaves_too() -> None:
    observation = observe(linear(HOMES), leave=3)
    for rule in ("one_by_one", "all_at_once"):
        decision = bind("stela", {"scale_in": rule})(observation, {})
        assert len(decision.release) == 3
        assert {slot.machine for slot in after(observation, decision).values()} == {"m4"}


def test_an_empty_machine_leaves_first_and_nothing_moves() -> None:
    observation = observe(linear(HOMES), leave=1, count=5)
    # m5 has nothing and so the lowest ETPSum together with m1; it has fewer executors.
    decision = bind("stela", {})(observation, {})
    assert decision.release == ("m5",) and not decision.placement["t-1"]


def test_two_topologies_keep_to_slots_of_their_own() -> None:
    other = linear({name: [home.replace(":67", ":68") for home in mine] for name, mine in HOMES.items()})
    pair = (linear(HOMES), replace(other, topology_id="t-2"))
    wide = tuple(replace(m, ports=(6700, 6701, 6702, 6800, 6801, 6802)) for m in machines(4))
    observation = replace(observe(*pair, leave=2), machines=wide)
    decision = bind("stela", {})(observation, {})
    after(observation, decision)
    assert len(decision.release) == 2
    for shape in pair:
        placement = {**shape.placement, **decision.placement[shape.topology_id]}
        assert not {slot.machine for slot in placement.values()} & set(decision.release)


def one_worker(topology_id: str, home: str) -> Topology:
    return replace(linear({name: [home, home] for name in HOMES}, workers=1), topology_id=topology_id)


@pytest.mark.parametrize(
    ("leave", "count", "ports", "said"),
    [
        (4, 4, 4, "refused: 4 machines are to leave and 4 are alive; at least 1 must stay"),
        (9, 4, 4, "refused: 9 machines are to leave and 4 are alive; at least 1 must stay"),
        (0, 4, 4, "refused: 0 machines are to leave; at least 1 must for a scale-in"),
        (3, 4, 1, "refused: 3 machines are to leave; 1 slots would stay for 2 topologies"),
    ],
)
@pytest.mark.parametrize("policy", ["stela", "round_robin"])
def test_what_cannot_be_served_is_refused_and_over(policy: str, leave: int, count: int, ports: int, said: str) -> None:
    observation = observe(
        one_worker("t-1", "m1:6700"), one_worker("t-2", "m2:6700"), leave=leave, count=count, ports=ports
    )
    decision = bind(policy, {})(observation, {})
    assert decision.reason == said
    assert decision.settled and not decision.changes()


def test_a_dead_machine_is_neither_released_nor_given_anything() -> None:
    alive = tuple(replace(machine, alive=machine.name != "m5") for machine in machines(5))
    observation = replace(observe(linear(HOMES), leave=1), machines=alive)
    decision = bind("stela", {})(observation, {})
    assert decision.release == ("m1",)
    assert "m5" not in {slot.machine for slot in after(observation, decision).values()}


def test_round_robin_deals_everything_again_over_what_is_left() -> None:
    observation = observe(linear(HOMES), leave=2)
    decision = bind("round_robin", {"machines": ["m4", "m2", "m1"]})(observation, {})
    assert decision.release == ("m4", "m2")
    staying = [machine for machine in observation.machines if machine.name in ("m1", "m3")]
    expected = dealt_evenly(observation.topologies[0], staying).placement
    assert after(observation, decision) == expected
    assert Counter(slot.machine for slot in expected.values()) == {"m1": 4, "m3": 4}


def test_round_robin_refuses_where_fewer_are_named_than_are_to_leave() -> None:
    decision = bind("round_robin", {"machines": ["m4", "m9"]})(observe(linear(HOMES), leave=2), {})
    assert decision.settled and not decision.changes()
    assert decision.reason == "refused: 2 machines are to leave; of the machines named in `machines` 1 are alive (m4)"


def test_a_draw_is_the_seeds_and_every_group_is_drawn() -> None:
    observation = observe(linear(HOMES), leave=2)
    groups = [bind("round_robin", {"seed": seed})(observation, {}).release for seed in range(60)]
    assert groups == [bind("round_robin", {"seed": seed})(observation, {}).release for seed in range(60)]
    assert len(set(groups)) == 6  # of 4 machines, 2
    for seed, group in enumerate(groups[:6]):
        decision = bind("round_robin", {"seed": seed})(observation, {})
        assert decision.release == group and after(observation, decision)


@pytest.mark.parametrize("machines", ["m1", [], ["m1", "m1"], [1], "all"])
def test_machines_to_leave_are_a_list_of_names_or_drawn(machines: object) -> None:
    with pytest.raises(Exception, match="allowed are random and a list of different machine names"):
        bind("round_robin", {"machines": machines})
