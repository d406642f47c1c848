"""What every policy owes on any cluster: whatever it answers, a driver can carry it out and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    unplaced_tasks,
)
from scheduler_plugins.policies import POLICIES, bind, initial_placement
from scheduler_plugins.service.refusal import refusal
from tests.conftest import examples

# `storm` and `foreign` name a scheduler that places; themselves they place nothing.
OURS = sorted(set(POLICIES) - {"storm", "foreign"})
# Parameters that are no choice and no flag, and take other values than their default in these tests.
FURTHER: dict[str, dict[str, st.SearchStrategy[object]]] = {
    "ds2": {"activation": st.integers(1, 2)},
    "round_robin": {
        "machines": st.just("random") | st.permutations([f"m{i}" for i in range(1, 8)]),
        "seed": st.integers(0, 9),
    },
}
FORTY = examples(40)


def parameters_of(policy: str) -> st.SearchStrategy[dict[str, object]]:
    """Any choice (`Literal`) and flag of the policy's own parameters, and FURTHER; the others have their default."""
    hints = get_type_hints(POLICIES[policy].parameters)
    choices = {name: st.sampled_from(get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Literal}
    flags = {name: st.booleans() for name, hint in hints.items() if hint is bool}
    return st.fixed_dictionaries({**choices, **flags, **FURTHER.get(policy, {})})


@st.composite
def machine_sets(draw: st.DrawFn) -> tuple[WorkerMachine, ...]:
    count = draw(st.integers(1, 7))
    ports = st.integers(0, 4).map(lambda n: tuple(range(6700, 6700 + n)))
    alive = st.sampled_from([True, True, True, False])
    return tuple(WorkerMachine(f"m{i}", f"id-{i}", draw(ports), draw(alive)) for i in range(1, count + 1))


@st.composite
def topologies(draw: st.DrawFn, topology_id: str) -> Topology:
    names = [f"c{i}" for i in range(draw(st.integers(2, 6)))]
    pairs = [(s, t) for s in names for t in names if s != t and (s < t or draw(st.integers(0, 9)) == 0)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, min_size=1))
    fed = {target for _, target in edges}
    rate = st.sampled_from([0.0, 50.0, 100.0, 400.0])
    times = st.sampled_from([None, 0.5, 5.0, 40.0])
    components: list[Component] = []
    first = 1
    for name in [*names, *(["__acker"] if draw(st.booleans()) else [])]:
        tasks = tuple(range(first, first + draw(st.integers(1, 5))))
        first += len(tasks)
        executors = executor_ranges(tasks, draw(st.integers(1, len(tasks))))
        kind = "system" if name.startswith("__") else "bolt" if name in fed else "spout"
        loads = st.sampled_from([0.0, 0.1, 0.1, 0.4])
        mine = tuple(Executor(a, b, cpu_load=draw(loads)) for a, b in executors)
        due = draw(st.none() | rate) if kind == "spout" else None
        components.append(
            Component(name, kind, tasks, mine, draw(rate), draw(rate), draw(times), queue=draw(rate), due_per_s=due)  # type: ignore[arg-type]
        )
    declared = tuple(Edge(s, "default", t, "shuffle", draw(st.none() | rate)) for s, t in edges)
    tasks = st.integers(1, first - 1)
    traffic = draw(st.dictionaries(st.tuples(tasks, tasks), rate, max_size=12))
    return Topology(
        topology_id,
        topology_id,
        draw(st.integers(1, 8)),
        tuple(components),
        declared,
        samples_age_s=draw(st.sampled_from([1.0, 1.0, None])),
        traffic=traffic,
    )


@st.composite
def observations(draw: st.DrawFn, kind: str) -> Observation:
    """Topologies as Storm would have placed them, a part of their executors without a slot, and maybe an event. `hold`:
    the policy may act by itself. Every other time nothing is amiss, or a policy would hardly ever get to decide."""
    machines, is_calm = draw(machine_sets()), draw(st.booleans())
    if is_calm:
        machines = tuple(replace(machine, alive=True) for machine in machines)
    joined = tuple(draw(st.sets(st.sampled_from([m.name for m in machines])))) if kind == "scale_out" else ()
    before = [replace(m, alive=True) for m in machines if m.name not in joined]
    placed: list[Topology] = []
    for number in range(draw(st.integers(1, 3))):
        shape = draw(topologies(f"t-{number}"))
        slots = initial_placement.sort_slots(
            initial_placement.free_slots(before, initial_placement.taken_slots(placed))
        )
        placement = initial_placement.place_topology(shape, slots)
        lost = draw(st.sets(st.sampled_from(sorted({s.machine for s in placement.values()} | {"none"})), max_size=1))
        fresh = draw(st.integers(0, 5)) == 0
        kept = {} if fresh else {t: s for t, s in placement.items() if s.machine not in lost}
        damaged = replace(shape, placement=kept)
        placed.append(replace(shape, placement=placement, samples_age_s=1.0) if is_calm else damaged)
    for number, shape in enumerate(placed if kind in ("none", "hold") else ()):
        placed[number] = maybe_under_way(draw, shape, placed, machines)
    leave = draw(st.integers(0, 7)) if kind == "scale_in" else 0
    event = None if kind in ("none", "hold") else ScaleEvent("e1", kind, joined, leave)  # type: ignore[arg-type]
    may_act = kind == "hold" and not any(unplaced_tasks(each) for each in placed if not each.rebalancing)
    age_s = draw(st.sampled_from([1.0, 1.0, None]))
    return Observation(0.0, machines, tuple(placed), age_s, event, may_act)


def maybe_under_way(
    draw: st.DrawFn, topology: Topology, placed: list[Topology], machines: tuple[WorkerMachine, ...]
) -> Topology:
    """Now and then one of its tasks is to move to a slot that nobody has."""
    free = initial_placement.sort_slots(initial_placement.free_slots(machines, initial_placement.taken_slots(placed)))
    if not free or not topology.placement or draw(st.integers(0, 2)):
        return topology
    task = draw(st.sampled_from(sorted(topology.placement)))
    return replace(topology, rebalancing=True, planned={**topology.placement, task: free[0]})


def check(observation: Observation, decision: Decision) -> None:
    assert refusal(observation, decision) is None
    assert decision.reason or not decision.changes()
    alive = {Slot(m.name, port) for m in observation.machines if m.alive for port in m.ports}
    for topology in observation.topologies:
        moved = decision.placement.get(topology.topology_id, {})
        assert set(moved.values()) <= alive
        after = {**topology.placement, **moved}
        check_executors(topology, decision, after)
        assert not {slot.machine for slot in after.values()} & set(decision.release)
        placed = topology.rebalancing or set(unplaced_tasks(topology)) <= set(moved)
        assert placed or not could_place(topology, observation)
    check_release(observation, decision)


def check_executors(topology: Topology, decision: Decision, after: dict[int, Slot]) -> None:
    """No executor loses its slot; the tasks of one that will run are all on its slot."""
    grown = decision.executors.get(topology.topology_id, {})
    for component in topology.components:
        count = grown.get(component.name, len(component.executors))
        assert 1 <= count <= len(component.tasks)
        for first, last in executor_ranges(component.tasks, count):
            assert len({after.get(task) for task in range(first, last + 1)}) == 1
    assert set(topology.placement) <= set(after)


def could_place(topology: Topology, observation: Observation) -> bool:
    """A slot that this topology has already, or more that are free than other topologies could be given."""
    alive = [m for m in observation.machines if m.alive]
    offered = {Slot(m.name, port) for m in alive for port in m.ports}
    # One component a machine takes a slot for each, however few workers were wanted.
    others = [t for t in observation.topologies if unplaced_tasks(t) and t is not topology]
    wanted = sum(max(t.workers, len(t.components)) for t in others)
    free = offered - initial_placement.taken_slots(observation.topologies)
    return bool(set(topology.placement.values()) & offered) or len(free) > wanted


def check_release(observation: Observation, decision: Decision) -> None:
    if decision.release:
        assert observation.event is not None and observation.event.kind == "scale_in"
        assert len(set(decision.release)) == len(decision.release) == observation.event.leave
        alive = {m.name for m in observation.machines if m.alive}
        assert set(decision.release) < alive


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n in OURS for k in ("none", "hold", *sorted(POLICIES[n].events))]
)
@FORTY
@given(data=st.data())
def test_a_driver_can_carry_out_what_a_policy_answers(name: str, kind: str, data: st.DataObject) -> None:
    observation = data.draw(observations(kind))
    decision = bind(name, data.draw(parameters_of(name)))(observation, {})
    check(observation, decision)
    if kind == "none":
        assert not decision.settled and not decision.executors
        for topology in observation.topologies:
            assert not set(decision.placement.get(topology.topology_id, {})) & set(topology.placement)


@pytest.mark.parametrize("name", OURS)
@FORTY
@given(data=st.data())
def test_two_asked_alike_answer_alike(name: str, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(POLICIES[name].events) or ["reschedule"]))
    observation = data.draw(observations(kind))
    parameters = data.draw(parameters_of(name))
    assert bind(name, parameters)(observation, {}) == bind(name, parameters)(observation, {})


@FORTY
@given(observation=observations("scale_in"), rule=st.sampled_from(["one_by_one", "all_at_once"]))
def test_stelas_scale_in_moves_only_what_was_on_a_machine_that_leaves(observation: Observation, rule: str) -> None:
    decision = bind("stela", {"scale_in": rule})(observation, {})
    for topology in observation.topologies if decision.settled else ():
        moved = decision.placement.get(topology.topology_id, {})
        assert {topology.placement[task].machine for task in moved} <= set(decision.release)
