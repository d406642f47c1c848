from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.policies import etp
from scheduler_plugins.policies.stela import ExecutorAssignment, StelaParameters

# SP figure 2, ST figure 2: sinks 4, 7, 8, 9, 10 execute 2000, 1000, 1000, 200, 300 tuples/s; 1, 3, 4, 6 are congested.
EDGES = {"1": "23", "2": "4", "3": "56", "4": "", "5": "78", "6": "90", "7": "", "8": "", "9": "", "0": ""}
PROCESSING = {"1": 5000, "2": 5000, "3": 2000, "4": 2000, "5": 2000, "6": 500, "7": 1000, "8": 1000, "9": 200, "0": 300}
CONGESTED = frozenset("1346")


def ten_operators() -> etp.EtpFlow:
    return etp.EtpFlow(
        processing={name: float(rate) for name, rate in PROCESSING.items()},
        inflow={(source, target): 1.0 for source, targets in EDGES.items() for target in targets},
        executors=dict.fromkeys(EDGES, 1),
    )


def numbers(flow: etp.EtpFlow, names: frozenset[str]) -> set[int]:
    return {flow.numbers[name] for name in names}


def names(flow: etp.EtpFlow, found: set[int]) -> set[str]:
    return {name for name, number in flow.numbers.items() if number in found}


def test_the_papers_example_of_ten_operators() -> None:
    flow = ten_operators()
    shares = etp.component_etps(flow, numbers(flow, CONGESTED))
    assert {name: round(100 * shares[name]) for name in CONGESTED} == {"3": 44, "4": 44, "6": 11, "1": 0}


def test_the_order_of_the_example_is_3_4_6_1() -> None:
    # Inputs as in the figure: each congested operator receives more than it executes, 3 relatively the most. The rate
    # is so low that a second executor leaves each of them congested; room for one each shows the order.
    inputs = {"3": 5000.0, "4": 4000.0, "6": 1000.0, "1": 6000.0}
    flow = ten_operators()
    flow = replace(flow, inflow={(s, t): inputs.get(t, 1.0) for s, t in flow.inflow} | {("feed", "1"): 6000.0})
    giving = ExecutorAssignment(flow, {n: int(n in CONGESTED) for n in EDGES}, [], StelaParameters(congestion_rate=0.3))
    assert names(flow, etp.congested_components(flow, StelaParameters(congestion_rate=1.0))) == CONGESTED
    order = []
    while (target := giving.choose()) is not None:
        order.append(target)
        giving.grow(target)
    assert [list(flow.numbers)[number] for number in order] == ["3", "4", "6", "1"]


def diamond_to_one_sink() -> etp.EtpFlow:
    return etp.EtpFlow(
        processing={"a": 10.0, "b": 10.0, "c": 10.0, "d": 20.0},
        inflow={("a", "b"): 10.0, ("a", "c"): 10.0, ("b", "d"): 10.0, ("c", "d"): 10.0},
        executors=dict.fromkeys("abcd", 1),
    )


def test_a_sink_on_two_free_paths_counts_once_by_definition_and_twice_by_the_printed_algorithm() -> None:
    assert etp.component_etps(diamond_to_one_sink(), {0})["a"] == 1.0
    assert etp.component_etps(diamond_to_one_sink(), {0}, "per_path")["a"] == 2.0


def test_an_idle_topology_has_no_etp_and_nothing_congested() -> None:
    flow = replace(diamond_to_one_sink(), processing=dict.fromkeys("abcd", 0.0), inflow={("a", "b"): 0.0})
    assert etp.component_etps(flow, set()) == dict.fromkeys("abcd", 0.0)
    assert etp.congested_components(flow, StelaParameters()) == set()


@given(st.data())
def test_etp_is_a_share_and_blocking_never_raises_it(data: st.DataObject) -> None:
    flow = random_flow(data)
    blocked = data.draw(st.sets(st.sampled_from(sorted(flow.numbers.values()))))
    shares, free = etp.component_etps(flow, blocked), etp.component_etps(flow, set())
    paths = etp.component_etps(flow, blocked, "per_path")
    for name, value in shares.items():
        assert 0.0 <= value <= 1.0 + 1e-9
        assert value <= free[name] + 1e-9
        assert paths[name] >= value - 1e-9


def random_flow(data: st.DataObject) -> etp.EtpFlow:
    names = [f"c{i}" for i in range(data.draw(st.integers(2, 8)))]
    pairs = [(s, t) for i, s in enumerate(names) for t in names[i + 1 :]]
    edges = data.draw(st.sets(st.sampled_from(pairs), min_size=1))
    rate = st.floats(0.1, 1000.0)
    return etp.EtpFlow(
        processing={n: data.draw(rate) for n in names},
        inflow={edge: data.draw(rate) for edge in sorted(edges)},
        executors=dict.fromkeys(names, 1),
    )


@pytest.mark.parametrize("shared_sink", ["once", "per_path"])
def test_a_cycle_ends(shared_sink: str) -> None:
    # s → a ⇄ b → t: everything reaches t, a through b alone.
    edges = [("s", "a"), ("a", "b"), ("b", "a"), ("b", "t")]
    flow = etp.EtpFlow(dict.fromkeys("sabt", 10.0), dict.fromkeys(edges, 10.0), dict.fromkeys("sabt", 1))
    assert etp.component_etps(flow, set(), shared_sink) == dict.fromkeys("sabt", 1.0)
    assert etp.component_etps(flow, numbers(flow, frozenset("b")), shared_sink) == {
        "s": 0.0,
        "a": 0.0,
        "b": 1.0,
        "t": 1.0,
    }
