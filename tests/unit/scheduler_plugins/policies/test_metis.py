"""What METIS decides on topologies whose traffic is known, and what it refuses."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from scheduler_plugins.model import Component, Executor, ScaleEvent, Slot, Topology, WorkerMachine
from scheduler_plugins.policies import PolicyError, bind
from tests.support.fake_metis import put_fake_metis
from tests.support.graphs_by_hand import stages
from tests.support.topologies_by_hand import machines
from tests.support.traffic_by_hand import (
    RATE,
    chains,
    crossing,
    dealt_out,
    decision_of,
    rescheduling,
    slots_after,
    ten_chains,
    with_cpu_loads,
)

decide = partial(decision_of, "metis")


@pytest.mark.parametrize("objective", ["vol", "cut"])
def test_chains_that_were_cut_at_every_edge_are_mostly_whole_afterwards(objective: str) -> None:
    topology, hosts = ten_chains()
    decision = decide(rescheduling(topology, hosts=hosts), objective=objective)
    assert decision.settled
    before, then = crossing(topology, {}), crossing(topology, decision.placement["t-1"])
    assert before == sum(topology.traffic.values()) and then < 0.2 * before
    share = f"{100 * then / before:.1f} %"
    assert f"(METIS {objective}, imbalance 1.0" in decision.reason and f"(100.0 % → {share} of all)" in decision.reason


def test_there_are_as_many_parts_as_machines_with_one_worker_each() -> None:
    hosts = machines(4, ports=4)
    topology = dealt_out(chains(8, 3, workers=12), hosts)
    slots = set(slots_after(topology, decide(rescheduling(topology, hosts=hosts), objective="cut")).values())
    assert Counter(slot.machine for slot in slots) == {"m1": 1, "m2": 1, "m3": 1, "m4": 1}


@pytest.mark.parametrize(("workers", "width", "parts"), [(2, 8, 2), (9, 2, 4)], ids=["workers", "executors"])
def test_there_are_at_most_as_many_parts_as_workers_and_as_executors(workers: int, width: int, parts: int) -> None:
    """Two stages of two tasks are four executors: more machines than that stay without one."""
    hosts = machines(9, ports=1)
    topology = dealt_out(chains(width, 2, workers=workers), hosts)
    decision = decide(rescheduling(topology, hosts=hosts), objective="cut")
    assert f"in {parts} parts" in decision.reason
    assert len(set(slots_after(topology, decision).values())) <= parts


def test_matched_labels_move_fewer_tasks_and_a_second_time_none() -> None:
    topology, hosts = ten_chains()
    moved = {
        labels: len(decide(rescheduling(topology, hosts=hosts), labels=labels).placement["t-1"])
        for labels in ("matched", "in_order")
    }
    assert moved["matched"] < moved["in_order"]
    first = decide(rescheduling(topology, hosts=hosts))
    again = replace(topology, placement=slots_after(topology, first))
    second = decide(rescheduling(again, hosts=hosts))
    assert second.settled and not second.changes() and "0 of 80 tasks move" in second.reason


def test_executors_without_traffic_are_dealt_evenly() -> None:
    topology, hosts = ten_chains(quiet=10)
    placed = slots_after(topology, decide(rescheduling(topology, hosts=hosts), objective="cut"))
    ackers = topology.component("__acker").tasks
    assert Counter(placed[task].machine for task in ackers) == dict.fromkeys((host.name for host in hosts), 1)


def test_a_heavy_executor_has_less_beside_it_by_what_it_weighs() -> None:
    """Two chains, one of which burns nine times the CPU of the other: by tuples and by one it is no different."""
    hosts = machines(2, ports=1)
    heavy = with_cpu_loads(dealt_out(chains(8, 2, workers=2, shift=0, cpu_load=1.0), hosts), {1: 8.0, 9: 8.0})

    def beside(vertex_weight: str) -> int:
        decision = decide(rescheduling(heavy, hosts=hosts), objective="cut", vertex_weight=vertex_weight)
        placed = slots_after(heavy, decision)
        return sum(slot == placed[1] for slot in placed.values())

    assert beside("tuples") == beside("one") == 8
    assert beside("cpu") <= 4


def test_a_saving_that_is_too_small_is_declined_with_what_it_would_have_been() -> None:
    topology, hosts = ten_chains()
    first = decide(rescheduling(topology, hosts=hosts), least_saving_percent=50)
    assert first.placement and "a saving of" in first.reason
    again = replace(topology, placement=slots_after(topology, first))
    second = decide(rescheduling(again, hosts=hosts), least_saving_percent=50, labels="in_order")
    assert second.settled and not second.changes()
    assert "t: declined, less than 50 % are saved: " in second.reason and "a saving of 0.0 %" in second.reason
    assert decide(rescheduling(again, hosts=hosts), labels="in_order").changes()


def all_to_all(width: int, depth: int) -> tuple[Topology, tuple[WorkerMachine, ...]]:
    """Every task sends to every task of the next stage; a machine with one slot for each task of a stage."""
    hosts = machines(width, ports=1)
    pairs = stages(width, depth)
    traffic = dict.fromkeys(zip((pairs.sources + 1).tolist(), (pairs.targets + 1).tolist(), strict=True), RATE)
    return replace(dealt_out(chains(width, depth, workers=width), hosts), traffic=traffic), hosts


def test_not_all_executors_are_put_on_one_machine_to_save_all_traffic() -> None:
    """As METIS' k-way does with two stages of twenty."""
    topology, hosts = all_to_all(20, 2)
    decision = decide(rescheduling(topology, hosts=hosts), objective="cut", vertex_weight="one")
    assert len(set(slots_after(topology, decision).values())) == 20
    words = "(METIS cut, imbalance 2.00, the best of 16 calls, by recursive bisection with seed 0); "
    assert words in decision.reason


@pytest.mark.parametrize("objective", ["vol", "cut"])
def test_where_metis_ends_its_process_nothing_moves(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_fake_metis(tmp_path, "os.abort()")
    monkeypatch.syspath_prepend(tmp_path)
    topology, hosts = ten_chains()
    decision = decide(rescheduling(topology, hosts=hosts), objective=objective)
    assert decision.settled and not decision.changes()
    words = "t: declined, no partition for 80 executors in 10 parts: METIS' process was ended by signal 6 (Aborted)"
    assert words in decision.reason


def test_without_pymetis_it_refuses_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    words = "t: refused: the Python that decides has no pymetis; install it on the master, or choose another policy"
    assert words in refused(*ten_chains())


def test_where_no_way_of_metis_finds_a_balance_nothing_moves() -> None:
    """One task exchanges with all others; it and one of them burn more CPU than the others do together."""
    hosts = machines(4, ports=1)
    topology = with_cpu_loads(dealt_out(chains(4, 2, workers=4, cpu_load=1.0), hosts), {1: 10.0, 2: 10.0})
    star = dict.fromkeys(((1, other) for other in range(2, 9)), RATE)
    unbalanced = rescheduling(replace(topology, traffic=star), hosts=hosts)
    decision = decide(unbalanced, objective="vol", vertex_weight="cpu")
    assert decision.settled and not decision.changes()
    words = "t: declined, METIS vol finds no balance for 8 executors in 4 parts: k-way leaves 1 of 4 parts empty"
    assert words in decision.reason and "; recursive bisection leaves 1 of 4 parts empty" in decision.reason


def test_in_a_hold_it_acts_by_itself_and_rests() -> None:
    topology, hosts = ten_chains()
    alone = replace(rescheduling(topology, hosts=hosts, event=None), may_act=True)
    decision = decide(alone, rest_s=30)
    assert decision.placement and not decision.settled and decision.rest_s == 30
    assert not decide(replace(alone, may_act=False)).changes()


def test_another_events_round_is_not_its_own() -> None:
    topology, hosts = ten_chains()
    decision = decide(rescheduling(topology, hosts=hosts, event=ScaleEvent("e1", "scale_out", ("m10",))))
    assert not decision.changes() and not decision.settled


def test_two_topologies_get_slots_of_their_own_and_one_that_changes_is_left_alone() -> None:
    hosts = machines(4, ports=2)
    first = dealt_out(chains(4, 3, workers=4), hosts)
    taken = {task: Slot(slot.machine, 6701) for task, slot in first.placement.items()}
    second = replace(first, topology_id="t-2", name="u", placement=taken)
    both = decide(rescheduling(first, second, hosts=hosts), objective="cut")
    assert {slot.port for slot in both.placement["t-1"].values()} == {6700}
    assert {slot.port for slot in both.placement["t-2"].values()} == {6701}
    one = decide(rescheduling(first, replace(second, rebalancing=True, planned=taken), hosts=hosts), objective="cut")
    assert set(one.placement) == {"t-1"} and "u: kept: an earlier change is under way" in one.reason


def test_a_machine_whose_slots_others_have_and_a_dead_one_get_nothing() -> None:
    hosts = (*machines(3, ports=1), *machines(1, ports=1, first=4))
    topology = dealt_out(chains(8, 3, workers=4), hosts[:3])
    other = replace(
        dealt_out(chains(2, 2, workers=1), hosts[2:3]), topology_id="t-2", placement={1: Slot("m3", 6700)}, traffic={},
        components=(Component("only", "spout", (1,), (Executor(1, 1),), 0.0, 0.0),), edges=(),
    )  # fmt: skip
    topology = replace(
        topology, placement={t: Slot("m1", 6700) if s.machine == "m3" else s for t, s in topology.placement.items()}
    )
    dead = tuple(replace(host, alive=host.name != "m4") for host in hosts)
    decision = decide(rescheduling(topology, other, hosts=dead), objective="cut")
    assert {slot.machine for slot in slots_after(topology, decision).values()} == {"m1", "m2"}
    assert "t-2" not in decision.placement


def refused(topology: Topology, hosts: Sequence[WorkerMachine], **parameters: object) -> str:
    decision = decide(rescheduling(topology, hosts=hosts), **parameters)
    assert decision.settled and not decision.changes()
    return decision.reason


def test_rates_that_are_none_are_no_traffic() -> None:
    topology, hosts = ten_chains()
    nothing = {(2, 12): float("nan"), (3, 13): float("inf"), (4, 14): -5.0}
    assert "no tuple from task to task" in refused(replace(topology, traffic=nothing), hosts)


def test_where_every_machine_is_dead_there_is_nothing_to_choose_among() -> None:
    topology, hosts = ten_chains()
    dead = [replace(host, alive=False) for host in hosts]
    assert "no living machine has a slot for it" in refused(topology, dead)


def test_cpu_time_that_nobody_measured_is_named() -> None:
    topology, hosts = ten_chains()
    silent = replace(topology.components[2], executors=tuple(Executor(t, t) for t in topology.components[2].tasks))
    unknown = replace(topology, components=(*topology.components[:2], silent, *topology.components[3:]))
    assert "no CPU time is on record of executors of stage_2" in refused(unknown, hosts, vertex_weight="cpu")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"objective": "volume"}, "objective is 'volume'; allowed are vol, cut"),
        ({"imbalance": 1.0}, "imbalance is 1.0; allowed is a number from 1.001 to 100"),
        ({"imbalance": True}, "imbalance is True; allowed is a number"),
        ({"seed": -1}, "seed is -1; allowed is a whole number from 0 to"),
        ({"least_saving_percent": -1}, "least_saving_percent is -1; allowed is null, or a number from 0 to 100"),
        ({"rest_s": 7200}, "rest_s is 7200; allowed is a number from 1 to 3600"),
        ({"window_s": 5}, "window_s is 5; allowed is a whole number from 10 to 600"),
        ({"labels": "any"}, "labels is 'any'; allowed are matched, in_order"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        bind("metis", parameters)
