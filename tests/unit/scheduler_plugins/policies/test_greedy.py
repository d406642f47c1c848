"""What greedy decides on topologies whose traffic and CPU time are known, and when it keeps everything."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from scheduler_plugins.model import Decision, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import PolicyError, bind
from scheduler_plugins.policies.greedy import machines_to_use
from tests.support.topologies_by_hand import machines
from tests.support.traffic_by_hand import (
    RATE,
    chains,
    crossing,
    dealt_out,
    decision_of,
    rescheduling,
    slots_after,
    task,
    ten_chains,
    with_cpu_loads,
)

decide = partial(decision_of, "greedy")


def pairs_of_two(hosts: tuple[WorkerMachine, ...]) -> Topology:
    """Eight pairs that exchange nothing with each other, dealt out so that each is cut, in four workers."""
    return dealt_out(chains(8, 2, workers=4), hosts)


def test_pairs_that_were_cut_are_together_afterwards() -> None:
    hosts = machines(4, ports=1)
    topology = pairs_of_two(hosts)
    decision = decide(rescheduling(topology, hosts=hosts))
    assert decision.settled and crossing(topology, decision.placement["t-1"]) == 0
    assert f"tuples between machines {8 * RATE:.0f} → 0/s (100.0 % → 0.0 % of all)" in decision.reason
    slots = slots_after(topology, decision).values()
    assert Counter(slot.machine for slot in slots) == {f"m{n}": 4 for n in range(1, 5)}


def test_a_worker_has_no_more_executors_than_alpha_allows() -> None:
    """One task exchanges with all others: with alpha 0 only an even share of them can be with it."""
    hosts = machines(4, ports=1)
    star = {(1, other): RATE for other in range(2, 17)}
    topology = replace(pairs_of_two(hosts), traffic=star)

    def beside(**parameters: object) -> int:
        placed = slots_after(topology, decide(rescheduling(topology, hosts=hosts), gamma=100, **parameters))
        return sum(slot == placed[1] for slot in placed.values())

    assert beside(alpha=0) == 4
    assert beside(alpha=1) == 16 - 3  # one is left for each other worker


def test_a_worker_has_no_more_load_than_gamma_allows() -> None:
    """Two heavy tasks that exchange most do not fit together, as long as gamma does not say so."""
    hosts = machines(4, ports=1)
    pair = (task(0, 0, 8), task(1, 1, 8))
    topology = pairs_of_two(hosts)
    topology = replace(topology, traffic={**topology.traffic, pair: 10 * RATE})
    topology = with_cpu_loads(topology, dict.fromkeys(pair, 0.35))

    def together(gamma: float) -> bool:
        decision = decide(rescheduling(topology, hosts=hosts), gamma=gamma, no_room="least_loaded")
        placed = slots_after(topology, decision)
        return placed[pair[0]] == placed[pair[1]]

    assert not together(1.1) and together(2.0)


def test_as_published_it_gives_up_where_an_executor_fits_nowhere() -> None:
    hosts = machines(4, ports=1)
    topology = with_cpu_loads(pairs_of_two(hosts), {1: 5.0})
    kept = decide(rescheduling(topology, hosts=hosts))
    assert kept.settled and not kept.changes()
    assert "declined: greedy finds no place: no worker takes one more executor with a load of 5.000; " in kept.reason
    assert "; allowed are 4 executors and a load of 1.788" in kept.reason
    placed = decide(rescheduling(topology, hosts=hosts), no_room="least_loaded")
    assert crossing(topology, placed.placement["t-1"]) < crossing(topology, {})


def test_nothing_moves_for_less_than_the_threshold() -> None:
    hosts = machines(4, ports=1)
    topology = pairs_of_two(hosts)
    better = replace(topology, placement=slots_after(topology, decide(rescheduling(topology, hosts=hosts))))
    kept = decide(rescheduling(better, hosts=hosts), labels="in_order")
    assert kept.settled and not kept.changes()
    assert "t: kept: not 1 % fewer tuples, and no overloaded machine would have less to do" in kept.reason
    # Seven of eight pairs are together already: an eighth of what crossed at first is what can be saved.
    apart = {**better.placement, 1: better.placement[task(1, 2, 8)], task(1, 2, 8): better.placement[1]}
    nearly = replace(better, placement=apart)
    assert decide(rescheduling(nearly, hosts=hosts), threshold_percent=100).placement
    half = replace(nearly, traffic={**nearly.traffic, (1, 3): 5 * RATE, (3, 9): 5 * RATE, (9, 11): 5 * RATE})
    assert decide(rescheduling(half, hosts=hosts)).changes()


def test_a_part_of_the_traffic_that_is_saved_is_compared_with_the_threshold() -> None:
    """Chains of eight tasks in workers that take six: something goes on crossing."""
    hosts = machines(4, ports=1)
    topology = dealt_out(chains(3, 8, workers=4), hosts)
    observation = rescheduling(topology, hosts=hosts)
    decision = decide(observation, no_room="least_loaded")
    saved = 100 * (1 - crossing(topology, decision.placement["t-1"]) / crossing(topology, {}))
    assert 10 < saved < 90
    assert decide(observation, no_room="least_loaded", threshold_percent=saved - 1).changes()
    assert not decide(observation, no_room="least_loaded", threshold_percent=saved + 1).changes()


def crowded(hosts: tuple[WorkerMachine, ...]) -> Topology:
    """All pairs are together on two of the four machines, 0.8 cores on each; dealing them over four saves nothing."""
    topology = pairs_of_two(hosts)
    where = {t: Slot("m1" if (t - 1 - (t > 8)) % 8 < 4 else "m2", 6700) for t in range(1, 17)}
    return replace(topology, placement=where)


def with_cores(hosts: tuple[WorkerMachine, ...], cores: float, cpu_load: float) -> tuple[WorkerMachine, ...]:
    """The first machine has `cores` and uses `cpu_load` of them; the others have two and use little of them."""
    sizes = {"m1": (cores, cpu_load)}
    return tuple(replace(h, cores=c, cpu_load=load) for h in hosts for c, load in [sizes.get(h.name, (2.0, 0.1))])


@pytest.mark.parametrize(
    ("cores", "cpu_load", "parameters", "is_relieved"),
    [
        (1.0, 1.0, {}, False),  # threads use 0.8 of it
        (0.79, 0.79, {}, True),
        (1.0, 0.1, {"overload_percent": 79}, True),
        (1.0, 0.95, {"overload": "machine", "overload_percent": 90}, True),
        (1.0, 0.95, {"overload": "machine", "overload_percent": 96}, False),
    ],
)
def test_a_machine_that_is_overloaded_is_relieved_even_for_more_traffic(
    cores: float, cpu_load: float, parameters: dict[str, object], is_relieved: bool
) -> None:
    """By the threads of executors, as published; or by everything that uses CPU there."""
    hosts = machines(4, ports=1)
    topology = crowded(hosts)
    assert crossing(topology, {}) == 0
    decision = decide(rescheduling(topology, hosts=with_cores(hosts, cores, cpu_load)), **parameters)
    assert decision.changes() == is_relieved and ("greedy: m1 relieved; " in decision.reason) == is_relieved


def beside(topology: Topology, placement: dict[int, Slot], **changes: object) -> Topology:
    return replace(topology, topology_id="t-2", name="other", placement=placement, **changes)  # type: ignore[arg-type]


def test_executors_of_all_topologies_make_a_machine_overloaded() -> None:
    hosts = machines(4, ports=2)
    topology = crowded(hosts)
    pair = with_cpu_loads(chains(1, 2, workers=1), {1: 0.15, 2: 0.15})
    both = (topology, beside(pair, dict.fromkeys((1, 2), Slot("m1", 6701))))
    decision = decide(rescheduling(*both, hosts=with_cores(hosts, 1.0, 0.1)))
    assert "t: greedy: m1 relieved; " in decision.reason
    lighter = (topology, replace(both[1], placement=dict.fromkeys((1, 2), Slot("m3", 6701))))
    assert not decide(rescheduling(*lighter, hosts=with_cores(hosts, 1.0, 0.1))).changes()


def two_by_two(slots: list[Slot]) -> tuple[Topology, Topology]:
    """Two topologies of two executors that use 0.45 cores each and exchange something, in these slots."""
    pair = with_cpu_loads(chains(1, 2, workers=2), {1: 0.45, 2: 0.45})
    one, two = (dict(enumerate(slots[at : at + 2], 1)) for at in (0, 2))
    return replace(pair, placement=one), beside(pair, two)


def asked(topologies: tuple[Topology, ...], decision: Decision) -> Counter[str]:
    """Hundredths of a core by machine, once it is carried out."""
    loads = Counter[str]()
    for topology in topologies:
        after = {**topology.placement, **decision.placement.get(topology.topology_id, {})}
        for executor in (each for component in topology.components for each in component.executors):
            loads[after[executor.first_task].machine] += round(100 * (executor.cpu_load or 0.0))
    return loads


@pytest.mark.parametrize("labels", ["in_order", "matched"])
def test_no_machine_is_asked_for_more_than_other_topologies_leave_of_it(labels: str) -> None:
    hosts = tuple(replace(host, cores=1.0) for host in machines(4))
    apart = two_by_two([Slot(f"m{n}", 6700) for n in range(1, 5)])
    decision = decide(rescheduling(*apart, hosts=hosts), beta=0, labels=labels)
    assert len(decision.placement) == 2 and sorted(asked(apart, decision).values()) == [90, 90]
    shared = two_by_two([Slot(f"m{n}", port) for port in (6700, 6701) for n in (1, 2)])
    kept = decide(rescheduling(*shared, hosts=hosts[:2]), beta=0, labels=labels, no_room="least_loaded")
    assert asked(shared, kept) == {"m1": 90, "m2": 90}


def test_a_part_is_matched_to_no_machine_that_is_too_small_for_it() -> None:
    """Both have most of their tasks on m1, where there is room for one executor."""
    hosts = tuple(replace(host, cores=cores) for host, cores in zip(machines(3, ports=2), (0.5, 1.0, 1.0), strict=True))
    topology = with_cpu_loads(chains(1, 3, workers=3), dict.fromkeys((1, 2, 3), 0.45))
    slots = [Slot("m1", 6700), Slot("m1", 6701), Slot("m2", 6700)]
    observation = rescheduling(replace(topology, placement=dict(enumerate(slots, 1))), hosts=hosts)
    decision = decide(observation, beta=0)
    assert decision.changes() and max(asked(observation.topologies, decision).values()) <= 90
    assert asked(observation.topologies, decision)["m1"] <= 50


def test_workers_that_exchange_most_go_to_one_machine_as_far_as_beta_lets_them() -> None:
    """Four workers on four machines with four slots: with beta 0 one machine is enough, with 1 each has its own."""
    hosts = machines(4, ports=4)
    ring = {(one, one % 16 + 1): RATE for one in range(1, 17)}
    topology = replace(pairs_of_two(hosts), traffic=ring)

    def used(beta: float) -> int:
        slots = slots_after(topology, decide(rescheduling(topology, hosts=hosts), beta=beta)).values()
        return len({slot.machine for slot in slots})

    assert (used(0.0), used(1.0)) == (1, 4)


@pytest.mark.parametrize(
    ("workers", "slots", "beta", "expected"),
    [(10, [1] * 10, 0.5, 10), (12, [4] * 4, 0.0, 3), (12, [4] * 4, 1.0, 4), (12, [4] * 4, 0.5, 4),
     (4, [4] * 10, 0.5, 3), (5, [1, 4, 1], 0.0, 2)],
)  # fmt: skip
def test_beta_lies_between_as_few_machines_as_have_the_slots_and_one_a_worker(
    workers: int, slots: list[int], beta: float, expected: int
) -> None:
    assert machines_to_use(workers, np.array(slots), beta) == expected


def test_machines_with_few_slots_do_not_keep_the_others_from_taking_more() -> None:
    hosts = (*machines(1, ports=4), *machines(3, ports=1, first=2))
    topology = dealt_out(chains(7, 2, workers=7), hosts)
    decision = decide(rescheduling(topology, hosts=hosts), gamma=100)
    assert "declined" not in decision.reason


def test_executors_without_traffic_are_dealt_evenly_and_need_no_cpu_time() -> None:
    topology, hosts = ten_chains(quiet=10)
    decision = decide(rescheduling(topology, hosts=hosts), no_room="least_loaded")
    ackers = topology.component("__acker").tasks
    assert max(Counter(slots_after(topology, decision)[t].machine for t in ackers).values()) == 1


def test_in_a_hold_it_acts_by_itself_and_rests() -> None:
    hosts = machines(4, ports=1)
    alone = replace(rescheduling(pairs_of_two(hosts), hosts=hosts, event=None), may_act=True)
    decision = decide(alone)
    assert decision.placement and not decision.settled and decision.rest_s == 60


@pytest.mark.parametrize("policy", ["greedy", "metis"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"window_fault": "m1:6701 began 5 s ago; rates need 30 s of work"}, "m1:6701 began 5 s ago; rates need"),
        ({"samples_age_s": 60.0}, "samples are 60.0 s old, allowed are 10 s"),
        ({"rebalancing": True}, "an earlier change is under way"),
    ],
)
def test_in_a_hold_nobody_waits_for_anothers_window(policy: str, changes: dict[str, object], why: str) -> None:
    """At a reschedule all wait for it, or one would count as placed that was not."""
    hosts = machines(4, ports=2)
    topology = pairs_of_two(hosts)
    second = beside(topology, {t: Slot(slot.machine, 6701) for t, slot in topology.placement.items()}, **changes)
    both = rescheduling(topology, second, hosts=hosts, event=None)
    decision = decision_of(policy, replace(both, may_act=True, samples_age_s=None), labels="in_order")
    assert [*decision.placement] == ["t-1"] and f"; other: kept: {why}" in decision.reason and decision.rest_s == 60
    alone = decision_of(policy, replace(both, may_act=True, topologies=(second,)))
    assert not alone.changes() and alone.rest_s == 0, "it asks again as soon as it may"
    if "window_fault" in changes:
        held = decision_of(policy, rescheduling(topology, second, hosts=hosts))
        assert not held.settled and held.reason == f"held: {changes['window_fault']}"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"alpha": 1.5}, "alpha is 1.5; allowed is a number from 0 to 1"),
        ({"beta": -0.1}, "beta is -0.1; allowed is a number from 0 to 1"),
        ({"gamma": 0.9}, "gamma is 0.9; allowed is a number from 1 to 100"),
        ({"threshold_percent": "1"}, "threshold_percent is '1'; allowed is a number from 0 to 100"),
        ({"no_room": "drop"}, "no_room is 'drop'; allowed are decline, least_loaded"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        bind("greedy", parameters)
