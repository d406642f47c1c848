from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.policies import etp
from scheduler_plugins.policies.stela import Parameters

# SP figure 2, ST figure 2: sinks 4, 7, 8, 9, 10 execute 2000, 1000, 1000, 200, 300 tuples/s; 1, 3, 4, 6 are congested.
EDGES = {"1": "23", "2": "4", "3": "56", "4": "", "5": "78", "6": "90", "7": "", "8": "", "9": "", "0": ""}
PROCESSING = {"1": 5000, "2": 5000, "3": 2000, "4": 2000, "5": 2000, "6": 500, "7": 1000, "8": 1000, "9": 200, "0": 300}
CONGESTED = frozenset("1346")


def ten_operators() -> etp.Flow:
    return etp.Flow(
        children={name: tuple(children) for name, children in EDGES.items()},
        processing={name: float(rate) for name, rate in PROCESSING.items()},
        inflow={(source, target): 1.0 for source, targets in EDGES.items() for target in targets},
        executors=dict.fromkeys(EDGES, 1),
    )


def test_the_papers_example_of_ten_operators() -> None:
    flow = ten_operators()
    assert flow.throughput() == 4500
    percent = {name: round(100 * etp.etp(flow, name, CONGESTED)) for name in CONGESTED}
    assert percent == {"3": 44, "4": 44, "6": 11, "1": 0}


def test_the_order_of_the_example_is_3_4_6_1() -> None:
    order, flow, room = [], ten_operators(), dict.fromkeys(EDGES, 0)
    # Inputs as in the figure: each congested operator receives more than it executes, 3 relatively the most.
    inputs = {"3": 5000.0, "4": 4000.0, "6": 1000.0, "1": 6000.0}
    flow = replace(flow, inflow={(s, t): inputs.get(t, 1.0) for (s, t) in flow.inflow} | {("feed", "1"): 6000.0})
    left = dict.fromkeys(CONGESTED, 1)
    while any(left.values()):
        target = etp.choose(flow, {**room, **left}, [], Parameters(congestion_rate=1.0))
        assert target is not None
        order.append(target)
        left[target] = 0
    assert order == ["3", "4", "6", "1"]


def diamond_to_one_sink() -> etp.Flow:
    return etp.Flow(
        children={"a": ("b", "c"), "b": ("d",), "c": ("d",), "d": ()},
        processing={"a": 10.0, "b": 10.0, "c": 10.0, "d": 20.0},
        inflow={("a", "b"): 10.0, ("a", "c"): 10.0, ("b", "d"): 10.0, ("c", "d"): 10.0},
        executors=dict.fromkeys("abcd", 1),
    )


def test_a_sink_on_two_free_paths_counts_once_by_definition_and_twice_by_the_printed_algorithm() -> None:
    flow = diamond_to_one_sink()
    assert etp.etp(flow, "a", frozenset("a")) == 1.0
    assert etp.etp(flow, "a", frozenset("a"), "per_path") == 2.0


def test_projection_scales_processing_and_emission_by_k_plus_one_over_k() -> None:
    flow = etp.project(diamond_to_one_sink(), "a")
    assert flow.processing["a"] == 20.0
    assert flow.inflow["a", "b"] == 20.0
    assert flow.inflow["b", "d"] == 10.0
    assert flow.executors["a"] == 2
    assert etp.congested(flow, Parameters()) == {"b", "c"}


def test_nothing_congested_grows_a_source() -> None:
    flow = diamond_to_one_sink()
    assert etp.choose(flow, {"a": 1, "b": 1, "c": 1, "d": 1}, ["a"], Parameters()) == "a"
    assert etp.choose(flow, {"a": 0, "b": 1, "c": 1, "d": 1}, ["a"], Parameters()) is None


def test_an_idle_topology_has_no_etp_and_nothing_congested() -> None:
    flow = replace(diamond_to_one_sink(), processing=dict.fromkeys("abcd", 0.0), inflow={("a", "b"): 0.0})
    assert etp.etp(flow, "a", frozenset()) == 0.0
    assert etp.congested(flow, Parameters()) == frozenset()


@given(st.data())
def test_etp_is_a_share_and_blocking_never_raises_it(data: st.DataObject) -> None:
    flow = random_flow(data)
    names = sorted(flow.children)
    blocked = frozenset(data.draw(st.sets(st.sampled_from(names))))
    name = data.draw(st.sampled_from(names))
    value = etp.etp(flow, name, blocked)
    assert 0.0 <= value <= 1.0 + 1e-9
    assert value <= etp.etp(flow, name, frozenset()) + 1e-9
    assert etp.etp(flow, name, blocked, "per_path") >= value - 1e-9


def random_flow(data: st.DataObject) -> etp.Flow:
    names = [f"c{i}" for i in range(data.draw(st.integers(2, 8)))]
    pairs = [(s, t) for i, s in enumerate(names) for t in names[i + 1 :]]
    edges = data.draw(st.sets(st.sampled_from(pairs), min_size=1))
    rate = st.floats(0.1, 1000.0)
    return etp.Flow(
        children={n: tuple(t for s, t in sorted(edges) if s == n) for n in names},
        processing={n: data.draw(rate) for n in names},
        inflow={edge: data.draw(rate) for edge in sorted(edges)},
        executors=dict.fromkeys(names, 1),
    )


@pytest.mark.parametrize("k", [1, 2, 5])
def test_etp_per_executor_divides_by_the_parallelism(k: int) -> None:
    flow = replace(ten_operators(), executors=dict.fromkeys(EDGES, k))
    rules = Parameters(score="etp_per_executor")
    assert etp._score(flow, "4", CONGESTED, rules) == pytest.approx(2000 / 4500 / k)
