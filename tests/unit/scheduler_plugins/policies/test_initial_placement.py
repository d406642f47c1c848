from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import fields, replace

import pytest

from scheduler_plugins.model import Component, Executor, Observation, Slot, Topology, executor_ranges
from scheduler_plugins.policies import POLICIES, bind
from scheduler_plugins.policies.initial_placement import initial_decision, with_slots
from tests.support.topologies_by_hand import STAR, machines, topology

PAGE_LOAD = list(zip(names := ["spout", "b1", "b2", "b3", "b4", "b5", "sink"], names[1:], strict=False))
# Policies that leave the first placement to what they share.
SHARING = sorted(name for name, entry in POLICIES.items() if "initial" in {f.name for f in fields(entry.parameters)})
APART = {"initial": "one_component_per_machine"}


def homes(shape: Topology, placement: dict[int, Slot]) -> dict[str, Counter[str]]:
    """Component → machine → executors there."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for component in shape.components:
        found[component.name].update(placement[e.first_task].machine for e in component.executors)
    return found


def place(shape: Topology, count: int, policy: str = "stela", **parameters: str) -> dict[int, Slot]:
    decision = bind(policy, parameters)(Observation(0.0, machines(count), (shape,)), {})
    return dict(decision.placement[shape.topology_id])


@pytest.mark.parametrize("policy", SHARING)
def test_page_load_has_fewer_than_two_components_a_machine(policy: str) -> None:
    shape = topology(PAGE_LOAD, tasks=15, executors=15, workers=32)
    placement = place(shape, 8, policy, **APART)
    found = homes(shape, placement)
    machine_of = [(machine, name) for name, mine in found.items() for machine in mine]
    assert len({machine for machine, _ in machine_of}) == len(machine_of) == 8
    # All have 15 executors, so the eighth machine goes to the one that is declared first.
    assert found["spout"] == {"m1": 8, "m2": 7}
    assert Counter(slot.machine for slot in set(placement.values())) == dict.fromkeys((f"m{i}" for i in range(1, 9)), 4)
    assert set(placement) == {task for c in shape.components for task in c.tasks}


@pytest.mark.parametrize("policy", SHARING)
def test_round_robin_is_the_default(policy: str) -> None:
    shape = topology(PAGE_LOAD, tasks=4, executors=4, workers=28)
    assert place(shape, 7, policy) == place(shape, 7, "even")
    assert max(map(len, homes(shape, place(shape, 7, policy)).values())) == 4


def test_spare_machines_go_where_a_machine_has_most_executors() -> None:
    shape = topology(STAR, tasks=8, executors=2, workers=12)
    grown = tuple(_with_executors(c, {"centre": 8, "sink_2": 5}.get(c.name, 2)) for c in shape.components)
    found = homes(shape := replace(shape, components=grown), place(shape, 9, **APART))
    assert {name: len(mine) for name, mine in found.items()} == {
        "spout_1": 1,
        "spout_2": 1,
        "centre": 4,  # 8 executors on 3 machines are still more a machine than 5 on 2
        "sink_1": 1,
        "sink_2": 2,
    }


def test_no_component_gets_more_machines_than_executors() -> None:
    shape = topology(STAR, tasks=1, executors=1, workers=20)
    assert len({slot.machine for slot in place(shape, 9, **APART).values()}) == 5


def test_workers_are_shared_and_no_more_are_used() -> None:
    shape = topology(STAR, tasks=4, executors=4, workers=12)
    per_machine = Counter(slot.machine for slot in set(place(shape, 5, **APART).values()))
    assert per_machine == {"m1": 3, "m2": 3, "m3": 2, "m4": 2, "m5": 2}


def test_fewer_machines_than_components_are_placed_round_robin_and_the_reason_says_so() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    decision = bind("stela", APART)(Observation(0.0, machines(4), (shape,)), {})
    assert decision.placement["t-1"] == place(shape, 4)
    assert "refused: one_component_per_machine: t has 5 components, 4 machines are empty" in decision.reason


def test_a_second_topology_finds_the_machines_taken() -> None:
    one = topology(STAR, tasks=2, executors=1, workers=10)
    pair = (one, replace(one, topology_id="t-2"))
    decision = bind("even", APART)(Observation(0.0, machines(10), pair), {})
    used = [{slot.machine for slot in decision.placement[t].values()} for t in ("t-1", "t-2")]
    assert len(used[0]) == len(used[1]) == 5 and not used[0] & used[1]


def test_what_finds_no_slot_is_no_decision() -> None:
    """Two jobs have the four slots that there are; a policy goes on with them."""
    one = topology(STAR, tasks=2, executors=1, workers=2)
    first, second = ({t: Slot(f"m{1 + t % 2}", port) for t in range(1, 11)} for port in (6700, 6701))
    jobs = (
        replace(one, placement=first),
        replace(one, topology_id="t-2", placement=second),
        replace(one, topology_id="t-3"),
    )
    full = Observation(0.0, machines(2, ports=2), jobs)
    assert initial_decision(full, {}, "round_robin") is None
    assert [each.topology_id for each in with_slots(full).topologies] == ["t-1", "t-2"]
    free = replace(full, machines=machines(2, ports=3), topologies=(*jobs, replace(one, topology_id="t-4", workers=1)))
    decision = initial_decision(free, {}, "round_robin")
    assert decision is not None and [*decision.placement] == ["t-3"]
    assert decision.reason == "placed 10 unplaced tasks round robin; 10 found no slot"


def test_what_loses_its_slot_later_goes_round_robin_to_what_is_there() -> None:
    shape = topology(STAR, tasks=4, executors=2, workers=12)
    full = place(shape, 5, **APART)
    kept = {task: slot for task, slot in full.items() if slot.machine != "m3"}
    alive = tuple(replace(m, alive=m.name != "m3") for m in machines(5))
    decision = bind("stela", APART)(Observation(0.0, alive, (replace(shape, placement=kept),)), {})
    assert set(decision.placement["t-1"]) == set(full) - set(kept)
    assert decision.reason == "placed 4 unplaced tasks round robin"


def test_storms_own_executors_join_workers_that_are_there() -> None:
    shape = topology(STAR, tasks=2, executors=2, workers=10)
    ackers = Component("__acker", "system", (91, 92), (Executor(91, 91), Executor(92, 92)))
    placement = place(replace(shape, components=(*shape.components, ackers)), 5, **APART)
    operators = {slot for task, slot in placement.items() if task < 91}
    assert {placement[91], placement[92]} <= operators


def test_an_executor_never_joins_a_worker_on_a_lost_machine() -> None:
    shape = topology(STAR, tasks=2, executors=2, workers=2)
    kept = {task: Slot("m2", 6700) for task in range(1, 9)}
    alive = tuple(replace(m, alive=m.name != "m2") for m in machines(2))
    decision = bind("even", {})(Observation(0.0, alive, (replace(shape, placement=kept),)), {})
    assert {slot.machine for slot in decision.placement["t-1"].values()} == {"m1"}


def _with_executors(component: Component, count: int) -> Component:
    return replace(component, executors=_ranges(component.tasks, count))


def _ranges(tasks: tuple[int, ...], count: int) -> tuple[Executor, ...]:
    return tuple(Executor(first, last) for first, last in executor_ranges(tasks, count))
