"""DS2: executors for what is offered, at once where more are needed, and later where fewer are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduler_plugins.model import (
    Component,
    Decision,
    Edge,
    Executor,
    Observation,
    ScaleEvent,
    Slot,
    Topology,
    WorkerMachine,
    executor_ranges,
)
from scheduler_plugins.policies import PolicyError, bind
from scheduler_plugins.policies.ds2 import needed_executors

MACHINES = tuple(WorkerMachine(f"m{n}", f"id-{n}", (6700, 6701)) for n in range(1, 4))
SLOTS = tuple(Slot(f"m{n}", 6700) for n in range(1, 4))


def component(name: str, kind: Any, tasks: range, executors: int, **rates: float | None) -> Component:
    cut = tuple(Executor(first, last) for first, last in executor_ranges(tuple(tasks), executors))
    return Component(name, kind, tuple(tasks), cut, **rates)


def chain(due: float = 100.0, executors: int = 2, **changes: Any) -> Topology:
    """Source → filter, which passes 80 % and takes 8 ms → sink, 4 ms. It keeps up with 60/s only, and is held back."""
    parts = (
        component("source", "spout", range(1, 3), 1, emitted_per_s=60.0, due_per_s=due),
        component("filter", "bolt", range(3, 11), executors, emitted_per_s=48.0, executed_per_s=60.0, execute_ms=8.0),
        component("sink", "bolt", range(11, 15), 1, executed_per_s=48.0, execute_ms=4.0),
    )
    edges = (
        Edge("source", "default", "filter", "shuffle", tuples_per_s=60.0),
        Edge("filter", "default", "sink", "shuffle", tuples_per_s=48.0),
    )
    placement = {
        task: SLOTS[number % 3]
        for number, (first, last) in enumerate((e.first_task, e.last_task) for c in parts for e in c.executors)
        for task in range(first, last + 1)
    }
    topology = Topology("t-1", "chain", 3, parts, edges, placement, samples_age_s=1.0, window_s=60.0)
    return replace(topology, **changes)


def decision_for(topology: Topology, memory: Mapping[str, Any] | None = None, **parameters: Any) -> Decision:
    return bind("ds2", parameters)(Observation(0.0, MACHINES, (topology,), may_act=True), memory or {})


def test_it_needs_what_the_offered_rate_takes_of_an_executors_time() -> None:
    """100/s x 8 ms = 0.8 of a second, 80/s x 4 ms = 0.32: by what is due, not by what came."""
    assert needed_executors(chain(100.0), 0.8) == {"filter": 1, "sink": 1}
    assert needed_executors(chain(200.0), 0.8) == {"filter": 2, "sink": 1}
    assert needed_executors(chain(100.0), 0.5) == {"filter": 2, "sink": 1}


def test_an_executor_has_whole_tasks() -> None:
    """1.75 s a second over 8 tasks: three executors would be enough, but one of them has three tasks, 0.66 s."""
    assert needed_executors(chain(218.75), 0.66) == {"filter": 3, "sink": 2}
    assert needed_executors(chain(218.75), 0.6) == {"filter": 4, "sink": 2}
    assert needed_executors(chain(1e6), 0.8) == {"filter": 8, "sink": 4}, "no more than there are tasks"


def test_a_source_without_a_schedule_offers_what_it_emits_and_nothing_is_made_up() -> None:
    topology = chain()
    source, filter_, sink = topology.components
    greedy = replace(topology, components=(replace(source, due_per_s=None), filter_, sink))
    assert needed_executors(greedy, 0.5) == {"filter": 1, "sink": 1}
    untimed = replace(topology, components=(source, replace(filter_, execute_ms=None, executed_per_s=None), sink))
    assert needed_executors(untimed, 0.8) == {}, "what comes out of what executed nothing is not known"
    cycle = replace(topology, edges=(*topology.edges, Edge("sink", "back", "filter", "shuffle", tuples_per_s=1.0)))
    assert needed_executors(cycle, 0.8) == {}


def test_behind_a_source_that_is_held_back_for_the_whole_window_nothing_is_known() -> None:
    """1000/s are due and none was emitted: how many tuples come of one is not known, and nothing shrinks."""
    source, filter_, sink = chain(1000.0, executors=4).components
    held = replace(chain(1000.0, executors=4), components=(replace(source, emitted_per_s=0.0), filter_, sink))
    assert needed_executors(held, 0.8) == {}
    answered = bind("ds2", {})(Observation(0.0, MACHINES, (held,), event=ScaleEvent("e1", "reschedule")), {})
    assert answered.settled and not answered.changes()
    idle = replace(held, components=(replace(source, emitted_per_s=0.0, due_per_s=0.0), filter_, sink))
    assert needed_executors(idle, 0.8) == {"filter": 1, "sink": 1}, "of nothing due nothing comes"


def test_behind_a_source_of_which_neither_rate_is_known_nothing_shrinks() -> None:
    """It emitted nothing and nobody says what was due, while bolts worked on what had waited: 800/s of 8 ms."""
    source, filter_, sink = chain(executors=4).components
    silent = replace(source, emitted_per_s=0.0, due_per_s=None)
    busy = replace(filter_, executed_per_s=800.0, emitted_per_s=800.0)
    assert needed_executors(replace(chain(executors=4), components=(silent, busy, sink)), 0.8) == {}


def test_behind_two_sources_of_which_one_is_held_back_nothing_is_known() -> None:
    source, filter_, sink = chain(100.0).components
    second = replace(component("second", "spout", range(15, 17), 1, emitted_per_s=0.0, due_per_s=10.0))
    edge = Edge("second", "default", "filter", "shuffle", tuples_per_s=0.0)
    both = replace(chain(), components=(source, second, filter_, sink), edges=(*chain().edges, edge))
    assert needed_executors(both, 0.8) == {}


def test_more_come_at_once_and_stay_where_their_first_tasks_were() -> None:
    topology = chain(400.0)
    decision = decision_for(topology)
    assert decision.executors == {"t-1": {"filter": 4, "sink": 2}}
    assert decision.reason == "chain: filter 2→4, sink 1→2"
    after = {**topology.placement, **decision.placement["t-1"]}
    ranges = executor_ranges(tuple(range(3, 11)), 4)
    assert [after[first] for first, _ in ranges][::2] == [topology.placement[3], topology.placement[7]]
    assert all(len({after[task] for task in range(first, last + 1)}) == 1 for first, last in ranges)
    everywhere = [after[e.first_task] for c in topology.components[:1] for e in c.executors]
    everywhere += [after[first] for first, _ in (*ranges, *executor_ranges(tuple(range(11, 15)), 2))]
    assert sorted(everywhere.count(slot) for slot in SLOTS) == [2, 2, 3]


def test_what_is_new_of_many_topologies_is_dealt_over_all_machines() -> None:
    """Ten jobs have an executor on each of four machines and want two more; one has a second executor on m1."""
    hosts = tuple(WorkerMachine(f"m{n}", f"id-{n}", tuple(range(6700, 6711))) for n in range(1, 5))
    jobs = []
    for number in range(10):
        job = chain(400.0, workers=4, topology_id=f"t-{number}", name=f"job {number}")
        source, filter_, sink = job.components
        slots = dict(zip(range(1, 15), (1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4), strict=True))
        placement = {task: Slot(f"m{machine}", 6700 + number) for task, machine in slots.items()}
        jobs.append(replace(job, components=(source, filter_, replace(sink, execute_ms=1.0)), placement=placement))
    pinned = component("pinned", "bolt", range(15, 16), 1)
    placement = {**jobs[9].placement, 15: Slot("m1", 6709)}
    jobs[9] = replace(jobs[9], components=(*jobs[9].components, pinned), placement=placement)
    decision = bind("ds2", {})(Observation(0.0, hosts, tuple(jobs), may_act=True), {})
    assert [*decision.executors.values()] == [{"filter": 4}] * 10
    counts = Counter[str]()
    for job in jobs:
        after = {**job.placement, **decision.placement[job.topology_id]}
        own = [after[first] for first, _ in executor_ranges(job.component("filter").tasks, 4)]
        own += [after[e.first_task] for c in job.components if c.name != "filter" for e in c.executors]
        assert max(Counter(own).values()) == 2
        counts.update(slot.machine for slot in own)
    assert sorted(counts.values()) == [15, 15, 15, 16]


def test_fewer_come_once_so_many_decisions_want_no_more() -> None:
    topology, memory = chain(60.0, executors=4), dict[str, Any]()
    for turn in range(1, 4):
        decision = decision_for(topology, memory, activation=3)
        memory = dict(decision.memory)
        assert decision.executors == ({"t-1": {"filter": 1}} if turn == 3 else {}), turn
    assert memory["topologies"]["t-1"] == [], "what was wanted before a change is forgotten"
    busier = decision_for(chain(250.0, executors=4), {}, activation=3)
    second = decision_for(topology, busier.memory, activation=3)
    third = decision_for(topology, second.memory, activation=3)
    assert third.executors == {"t-1": {"filter": 3}}, "the most that any of the three wanted"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rebalancing": True}, "a change is under way"),
        ({"samples_age_s": None}, "no samples yet"),
        ({"samples_age_s": 10.1}, "samples are 10.1 s old, allowed are 10 s"),
        ({"window_fault": "m1:6700 began 3 s ago"}, "m1:6700 began 3 s ago"),
    ],
)
def test_one_topology_without_rates_keeps_no_other_waiting(changes: dict[str, Any], said: str) -> None:
    other = replace(chain(400.0), topology_id="t-2", name="other", placement=_elsewhere(chain()))
    both = Observation(0.0, MACHINES, (chain(400.0, **changes), other), may_act=True)
    decision = bind("ds2", {})(both, {"topologies": {"t-1": [{"filter": 7}]}})
    assert [*decision.executors] == ["t-2"] and decision.reason.startswith(f"chain: {said}; other: filter 2→4")
    assert decision.memory["topologies"]["t-1"] == [{"filter": 7}]


@pytest.mark.parametrize("event", [None, ScaleEvent("e1", "reschedule")])
def test_a_job_without_a_slot_keeps_no_other_waiting(event: ScaleEvent | None) -> None:
    waiting = chain(
        400.0, topology_id="t-2", name="waiting", placement={}, samples_age_s=None, window_fault="nothing is placed"
    )
    full = tuple(replace(machine, ports=(6700,)) for machine in MACHINES)
    decision = bind("ds2", {})(Observation(0.0, full, (chain(400.0), waiting), None, event, event is None), {})
    assert decision.executors == {"t-1": {"filter": 4, "sink": 2}} and decision.settled == (event is not None)


def _elsewhere(topology: Topology) -> dict[int, Slot]:
    return {task: Slot(slot.machine, 6701) for task, slot in topology.placement.items()}


def test_what_is_on_a_dead_machine_is_placed_first() -> None:
    dead = tuple(replace(machine, alive=machine.name != "m2") for machine in MACHINES)
    decision = bind("ds2", {})(Observation(0.0, dead, (chain(400.0),), may_act=True), {})
    assert not decision.changes() and decision.reason == "chain: what is in m2:6700 is to be placed elsewhere first"


def test_nothing_changes_unless_it_may_or_is_asked_for() -> None:
    observation = Observation(0.0, MACHINES, (chain(400.0),))
    assert bind("ds2", {})(observation, {"a": 1}) == Decision(memory={"a": 1})
    event = replace(observation, event=ScaleEvent("e1", "reschedule"))
    answered = bind("ds2", {})(event, {})
    assert answered.settled and answered.executors == {"t-1": {"filter": 4, "sink": 2}}
    fewer = bind("ds2", {})(replace(event, topologies=(chain(60.0, executors=4),)), {})
    assert fewer.settled and fewer.executors == {"t-1": {"filter": 1}}, "who is asked answers at once"
    silent = replace(event, topologies=(chain(400.0, samples_age_s=None),))
    held = bind("ds2", {})(silent, {})
    assert not held.settled and held.reason == "held: no samples yet"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"utilisation": 1.1}, "utilisation is 1.1; allowed is a number above 0, at most 1"),
        ({"utilisation": 0}, "utilisation is 0; allowed is a number above 0"),
        ({"activation": 0}, "activation is 0; allowed is a whole number from 1 to 100"),
    ],
)
def test_what_is_wrong_is_named(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        bind("ds2", parameters)
