"""What every policy owes on a cluster of up to forty topologies: no machine is asked for more CPU than it has, and
nobody is frozen by the state that another topology is in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

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
)
from scheduler_plugins.policies import POLICIES, bind
from scheduler_plugins.policies.initial_placement import executor_slots
from scheduler_plugins.service.refusal import refusal
from tests.conftest import examples
from tests.unit.scheduler_plugins.policies.test_every_policy import parameters_of

FEW = examples(12)
DEALS_ANEW = {"even", "round_robin"}  # everything, so also what had no slot
KINDS = [(name, kind) for name, entry in sorted(POLICIES.items()) for kind in ("hold", *sorted(entry.events))]


def running(number: int, slots: list[Slot], random: Random) -> Topology:
    """A chain in these slots whose traffic, CPU time and rates are on record: of one executor a task, or some of
    several. What exchanges nothing uses no CPU."""
    rates, stages, first = (0.0, 50.0, 100.0, 400.0), [], 1
    for width in random.choices((1, 2, 3), k=random.choice((2, 3))):
        stages.append(tuple(range(first, first + width)))
        first += width
    traffic = {
        (one, other): random.choice(rates) for one_stage, next_stage in pairwise(stages)
        for one in one_stage for other in next_stage
    }  # fmt: skip
    busy = {task for pair, tuples in traffic.items() if tuples for task in pair}
    loads = {task: random.choice((0.05, 0.1, 0.3)) if task in busy else 0.0 for task in range(1, first)}
    components = tuple(
        Component(
            f"c{stage}", "bolt" if stage else "spout", tasks, executors_of(tasks, loads, random), random.choice(rates),
            random.choice(rates), random.choice((0.5, 5.0, 40.0)), due_per_s=None if stage else random.choice(rates),
        )
        for stage, tasks in enumerate(stages)
    )  # fmt: skip
    edges = tuple(
        Edge(one.name, "default", other.name, "shuffle", one.emitted_per_s) for one, other in pairwise(components)
    )
    placement: dict[int, Slot] = {}
    for turn, executor in enumerate(each for component in components for each in component.executors):
        placement |= dict.fromkeys(range(executor.first_task, executor.last_task + 1), slots[turn % len(slots)])
    return Topology(
        f"t-{number}", f"job {number}", len(slots), components, edges, placement, samples_age_s=1.0, window_s=60.0,
        traffic=traffic,
    )  # fmt: skip


def executors_of(tasks: tuple[int, ...], loads: dict[int, float], random: Random) -> tuple[Executor, ...]:
    ranges = executor_ranges(tasks, random.choice((1, len(tasks))))
    return tuple(Executor(a, b, cpu_load=sum(loads[task] for task in range(a, b + 1))) for a, b in ranges)


@st.composite
def clusters(draw: st.DrawFn, spare: int = 0) -> Observation:
    """As many slots as topologies are in, and `spare` on each machine; cores for what runs, on some machines more."""
    names, count = [f"m{number}" for number in range(1, draw(st.integers(2, 6)) + 1)], draw(st.integers(1, 40))
    random = Random(draw(st.integers(0, 2**32)))  # 40 topologies that are drawn one number after the other take minutes
    ports: Counter[str] = Counter()
    topologies = []
    for number in range(count):
        slots = []
        for name in random.choices(names, k=random.choice((1, 2, 3))):
            slots.append(Slot(name, 6700 + ports[name]))
            ports[name] += 1
        topologies.append(running(number, slots, random))
    offered = {slot for topology in topologies for slot in topology.placement.values()}
    offered |= {Slot(name, 6700 + ports[name] + more) for name in names for more in range(spare)}
    used = cores_in_use(tuple(topologies), Decision())
    machines = tuple(
        WorkerMachine(
            name, f"id-{name}", tuple(sorted(slot.port for slot in offered if slot.machine == name)),
            cores=max(used[name], 0.1) + random.choice((0.0, 0.2, 2.0)), cpu_load=used[name],
        )
        for name in names
    )  # fmt: skip
    return Observation(0.0, machines, tuple(topologies), 1.0)


def cores_in_use(topologies: tuple[Topology, ...], decision: Decision) -> dict[str, float]:
    """By machine, once the decision is carried out."""
    cores: dict[str, float] = defaultdict(float)
    for topology in topologies:
        after = replace(topology, planned=decision.placement.get(topology.topology_id, {}))
        for executor, slot in executor_slots(after):
            cores[slot.machine] += executor.cpu_load or 0.0
    return cores


def asked(observation: Observation, kind: str) -> Observation:
    if kind == "hold":
        return replace(observation, may_act=True)
    joined = (observation.machines[-1].name,) if kind == "scale_out" else ()
    return replace(observation, event=ScaleEvent("e1", kind, joined, int(kind == "scale_in")))  # type: ignore[arg-type]


def bound(name: str, data: st.DataObject) -> Any:
    further = {"foreign": {"scheduler": "org.example.Theirs"}}.get(name, {})
    return bind(name, {**data.draw(parameters_of(name)), **further})


def on(topologies: tuple[Topology, ...], decision: Decision) -> dict[str, Any]:
    """What is decided on these, and on the event."""
    ids = [topology.topology_id for topology in topologies]
    changes = {
        each: (
            dict(decision.executors.get(each, {})),
            dict(decision.placement.get(each, {})),
            each in decision.rebalance,
        )
        for each in ids
    }
    return {"changes": changes, "release": decision.release, "settled": decision.settled, "rest_s": decision.rest_s}


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind in KINDS if kind != "scale_out"])
@FEW
@given(data=st.data())
def test_a_job_that_finds_no_slot_changes_nothing_for_the_others(name: str, kind: str, data: st.DataObject) -> None:
    """At a scale-out it finds one, and the event waits for that."""
    cluster, policy = asked(data.draw(clusters()), kind), bound(name, data)
    waiting = replace(cluster.topologies[0], topology_id="waiting", name="waiting", placement={}, samples_age_s=None)
    place = data.draw(st.integers(0, len(cluster.topologies)))
    with_it = (*cluster.topologies[:place], waiting, *cluster.topologies[place:])
    without = policy(cluster, {})
    decision = policy(replace(cluster, topologies=with_it, samples_age_s=None), {})
    assert refusal(replace(cluster, topologies=with_it), decision) is None and "waiting" not in decision.rebalance
    if name not in DEALS_ANEW:
        assert on(cluster.topologies, decision) == on(cluster.topologies, without)
        return
    assert (decision.settled, decision.release) == (without.settled, without.release)
    assert bool(decision.placement) == bool(without.placement)


SICKNESS: dict[str, dict[str, Any]] = {
    "fresh": {"window_fault": "m1:6700 began 5 s ago; rates need 30 s of work"},
    "silent": {"samples_age_s": 60.0},
    "unheard": {"samples_age_s": None},
    "rebalancing": {"rebalancing": True},
}


@pytest.mark.parametrize("sickness", SICKNESS)
@pytest.mark.parametrize("name", sorted(POLICIES))
@FEW
@given(data=st.data())
def test_in_a_hold_a_topologys_state_changes_nothing_for_the_others(
    name: str, sickness: str, data: st.DataObject
) -> None:
    """It keeps its slots, and is given no CPU time here, so that the others find the same machines without it."""
    cluster, policy = asked(data.draw(clusters(spare=1)), "hold"), bound(name, data)
    at = data.draw(st.integers(0, len(cluster.topologies) - 1))
    sick, others = cluster.topologies[at], cluster.topologies[:at] + cluster.topologies[at + 1 :]
    idle = tuple(replace(c, executors=tuple(replace(e, cpu_load=0.0) for e in c.executors)) for c in sick.components)
    sick = replace(sick, components=idle, **SICKNESS[sickness])
    if sickness == "rebalancing":
        free = next(Slot(m.name, m.ports[-1]) for m in cluster.machines)
        sick = replace(sick, planned={**sick.placement, 1: free})
    its = {*sick.placement.values(), *sick.planned.values()}
    left = tuple(
        replace(m, ports=tuple(port for port in m.ports if Slot(m.name, port) not in its)) for m in cluster.machines
    )
    whole = replace(cluster, topologies=(*others[:at], sick, *others[at:]), samples_age_s=sick.samples_age_s)
    decision, without = policy(whole, {}), policy(replace(cluster, machines=left, topologies=others), {})
    assert refusal(whole, decision) is None and not on((sick,), decision)["changes"][sick.topology_id][1]
    seen, expected = on(others, decision), on(others, without)
    if name == "ds2":  # to which machine a new executor goes depends on all that run there
        seen["changes"], expected["changes"] = decision.executors, without.executors
    if others:
        assert seen == expected


@pytest.mark.parametrize("kind", ["hold", "reschedule"])
@examples(60)
@given(data=st.data())
def test_greedy_asks_no_machine_for_more_cores_than_it_has(kind: str, data: st.DataObject) -> None:
    cluster = asked(data.draw(clusters(spare=data.draw(st.integers(0, 3)))), kind)
    parameters = data.draw(parameters_of("greedy")) | {
        "no_room": "decline",
        "gamma": data.draw(st.sampled_from([1.1, 4])),
    }
    decision = bind("greedy", parameters | {"beta": data.draw(st.sampled_from([0.0, 0.5, 1.0]))})(cluster, {})
    after = cores_in_use(cluster.topologies, decision)
    cores = {machine.name: machine.cores or 0.0 for machine in cluster.machines}
    assert all(used <= cores[name] + 1e-6 for name, used in after.items())


@FEW
@given(machines=st.integers(2, 6), jobs=st.integers(1, 40), data=st.data())
def test_what_ds2_adds_is_spread_over_all_machines(machines: int, jobs: int, data: st.DataObject) -> None:
    """Each job has an executor on each machine, and wants up to as many more of its first bolt."""
    hosts = tuple(WorkerMachine(f"m{n}", f"id-{n}", tuple(range(6700, 6740))) for n in range(machines))
    topologies, counts = [], Counter[str]()
    for number in range(jobs):
        more = data.draw(st.integers(0, machines))
        slots = data.draw(st.permutations([Slot(host.name, 6700 + number) for host in hosts]))
        grows = Component("grows", "bolt", tuple(range(1, more + 2)), (Executor(1, more + 1),), executed_per_s=100.0)
        others = tuple(
            Component(f"c{task}", "spout", (task,), (Executor(task, task),), 100.0, due_per_s=100.0 * (more + 1))
            for task in range(more + 2, more + machines + 1)
        )
        edges = (Edge(others[0].name, "default", "grows", "shuffle", 100.0),)
        tasks = [
            *dict.fromkeys(grows.tasks, slots[0]).items(),
            *zip(range(more + 2, more + machines + 1), slots[1:], strict=True),
        ]
        timed = (replace(grows, execute_ms=7.9), *others)
        topologies.append(
            Topology(f"t-{number}", f"job {number}", machines, timed, edges, dict(tasks), samples_age_s=1.0)
        )
    decision = bind("ds2", {})(Observation(0.0, hosts, tuple(topologies), 1.0, may_act=True), {})
    for topology in topologies:
        after = {**topology.placement, **decision.placement.get(topology.topology_id, {})}
        grown = decision.executors.get(topology.topology_id, {}).get("grows", 1)
        assert grown == len(topology.component("grows").tasks)
        counts.update(slot.machine for slot in after.values())
    assert max(counts.values()) - min(counts.values()) <= 1
