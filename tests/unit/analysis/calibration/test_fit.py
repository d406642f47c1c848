"""The small fits: what columns say, what they cannot tell apart, and how long starts took."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.calibration import fit
from analysis.calibration.collection import RunSums
from analysis.calibration.deliveries import is_dealt_evenly, of_worker, remote_shares
from analysis.calibration.fit import Linear, StartRow, fit_costs, jackknife, solve, start_times
from analysis.calibration.starts import orders, start_groups
from scheduler_plugins.simulator.work import ComponentWork, Costs, EdgeWork, TopologyWork

NAMES = ("a", "b", "c")


def linear(x: np.ndarray, y: np.ndarray, names: tuple[str, ...] = NAMES) -> Linear:
    return Linear(names, (0.5,) * len(names), x, y)


def test_columns_that_differ_are_told_apart_and_none_is_below_nothing() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (50, 3))
    found = solve(linear(x, x @ np.array([2.0, 3.0, 0.0]) - 0.01 * x[:, 2]))
    assert found.unknown == {}
    assert found.values["a"] == pytest.approx(2.0, rel=0.02) and found.values["b"] == pytest.approx(3.0, rel=0.02)
    assert found.values["c"] == 0.0


def test_of_two_columns_that_go_together_the_later_keeps_its_default() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (50, 3))
    x[:, 2] = 0.1 * x[:, 1]
    found = solve(linear(x, x @ np.array([2.0, 3.0, 0.5])))
    assert found.values == pytest.approx({"a": 2.0, "b": 3.0})
    assert found.unknown == {"c": "cannot be told from a, b here (0.0 % of it is its own)"}


def test_a_column_of_nothing_says_nothing() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (50, 3))
    x[:, 0] = 0.0
    assert solve(linear(x, x[:, 1])).unknown == {"a": "nothing of it happened in these runs"}


def test_few_rows_say_nothing() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (fit.LEAST_ROWS - 1, 1))
    assert solve(linear(x, x[:, 0], ("a",))).unknown == {"a": f"only {fit.LEAST_ROWS - 1} rows say anything"}


def test_the_interval_of_a_mean_is_that_of_student() -> None:
    values = [1.0, 2.0, 4.0]
    low, high = jackknife(3, lambda places: float(np.mean([values[place] for place in places])))
    half = 4.302653 * np.std(values, ddof=1) / np.sqrt(3)
    assert low == pytest.approx(max(0.0, np.mean(values) - half)) and high == pytest.approx(np.mean(values) + half)


def test_one_run_has_no_interval() -> None:
    assert jackknife(1, lambda _: 1.0) == (None, None)


def start(number: int, elapsed_s: float, restarted: int = 0, cores: float = 0.25) -> StartRow:
    return StartRow(number, restarted, elapsed_s, 0.0, lambda cpu_s: number * cpu_s / cores)


def test_what_starts_take_beside_their_cpu_is_a_wait_and_what_restarts_take_more_a_stop() -> None:
    """A wait of 2 s, then a CPU second on a quarter of a core each; restarts stop for 1.5 s before."""
    rows = [start(1, 6.0), start(3, 14.0), start(1, 7.5, 1), start(2, 11.5, 2)]
    assert start_times(rows, 1.0) == pytest.approx((2.0, 1.5))


def test_restarts_that_are_no_slower_have_no_stop() -> None:
    assert start_times([start(1, 6.0), start(1, 5.0, 1)], 1.0) == pytest.approx((1.5, 0.0))


def test_without_restarts_nothing_says_what_a_stop_takes_and_without_others_nothing_tells_both_apart() -> None:
    assert start_times([start(1, 6.0), start(1, 6.0)], 1.0) == (pytest.approx(2.0), None)
    assert start_times([start(1, 6.0, 1), start(1, 6.0, 1)], 1.0) == (None, None)


def test_a_start_belongs_to_the_last_order_before_it_that_storm_was_given() -> None:
    nobody = {"run_id": "a-r1", "topology": None, "topologies": None, "ok": None, "decision_id": None}
    events = [
        {**nobody, "kind": "topology_submitted", "t_s": 100.0},
        {**nobody, "kind": "decision", "t_s": 199.0, "decision_id": "d1"},
        {**nobody, "kind": "applied", "t_s": 200.0, "decision_id": "d1", "ok": True},
        {**nobody, "kind": "applied", "t_s": 203.0, "decision_id": "d2", "ok": False},
        {**nobody, "kind": "decision", "t_s": 204.0, "decision_id": "d3"},
        {**nobody, "kind": "applied", "t_s": 204.0, "decision_id": "d3", "ok": True},
    ]
    slot = {"run_id": "a-r1", "topology": "star-1", "machine": "m1", "port": 6700}
    processes = [
        {**slot, "pid": 1, "begun_s": 108.0, "last_s": 201.0},
        {**slot, "pid": 2, "begun_s": 207.0, "last_s": 300.0},
        {**slot, "port": 6701, "pid": 3, "begun_s": 208.0, "last_s": 300.0},
        {**slot, "port": 6702, "pid": 4, "begun_s": 900.0, "last_s": 950.0},
    ]
    placed = [{"run_id": "a-r1", "topology": "star-1", "placed_s": 101.0}]
    found = start_groups(orders(events, placed, {("a-r1", "star"): "star-1"}), processes)
    assert [(group.order_s, group.number, group.restarted, group.elapsed_s) for group in found] == [
        (101.0, 1, 0, 7.0),
        (200.0, 2, 1, 8.0),
    ]


def chain(grouping: str) -> TopologyWork:
    components = (ComponentWork("spout", "spout", (1, 2)), ComponentWork("bolt", "bolt", (3, 4, 5, 6)))
    edge = EdgeWork("spout", "default", "bolt", grouping, tuple_bytes=500.0)
    return TopologyWork("chain", 2, components, (edge,))


@pytest.mark.parametrize(
    ("grouping", "own", "remote"),
    [
        ("shuffle", 1, 0.75),
        ("fields", 0, 1.0),
        ("all", 1, 3.0),
        ("local_or_shuffle", 1, 0.0),
        ("local_or_shuffle", 0, 1.0),
    ],
)
def test_what_leaves_a_worker_is_known_from_where_tasks_are(grouping: str, own: int, remote: float) -> None:
    work = chain(grouping)
    assert remote_shares(work.edges[0], work, {"bolt": own}) == remote
    rows = [{"component": "spout", "tasks": 1, "emitted": 100}, {"component": "bolt", "tasks": own, "emitted": 0}]
    sent = of_worker(work, rows)
    assert sent.remote == pytest.approx(100 * remote) and sent.kilobytes == pytest.approx(50 * remote)


def test_a_grouping_whose_targets_are_not_known_says_nothing_of_what_is_sent() -> None:
    assert is_dealt_evenly(chain("shuffle")) and not is_dealt_evenly(chain("ring"))


NOTHING = RunSums("a-r1", {}, (), (), (), {}, (), (), {}, (), (), {}, (), {})


def test_a_run_that_says_nothing_leaves_every_default_with_a_reason() -> None:
    default = Costs()
    found = fit_costs([NOTHING, replace(NOTHING, run_id="b-r1")], default)
    assert [each.name for each in found] == list(default.__dataclass_fields__)
    assert all(each.value is None and each.why and each.default == getattr(default, each.name) for each in found)
    assert fit.costs_of(found) == default
