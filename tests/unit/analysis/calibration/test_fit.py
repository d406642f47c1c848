"""The small fits: what columns say, what they cannot tell apart, and how long starts took."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.calibration import linear, sums
from analysis.calibration.fit import StartRow, as_costs, fit_costs, start_cpu, start_estimates, start_times
from analysis.calibration.hops import hop_rows
from analysis.calibration.linear import Linear, jackknife, solve
from analysis.calibration.starts import Join, StartGroup, joins, merge, orders, start_groups
from analysis.calibration.sums import RunSums
from analysis.calibration.tuple_costs import deliveries_of_worker, is_dealt_evenly, remote_shares, tuple_estimates
from scheduler_plugins.simulator.work import Costs, EdgeWork, SimulatedComponent, SimulatedTopology, Waits, young_share

NAMES = ("a", "b", "c")


def of(x: np.ndarray, y: np.ndarray, names: tuple[str, ...] = NAMES) -> Linear:
    return Linear(names, (0.5,) * len(names), x, y)


def test_columns_that_differ_are_told_apart_and_none_is_below_nothing() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (50, 3))
    found = solve([of(x, x @ np.array([2.0, 3.0, 0.0]) - 0.01 * x[:, 2])])
    assert found.unknown == {}
    assert found.values["a"] == pytest.approx(2.0, rel=0.02) and found.values["b"] == pytest.approx(3.0, rel=0.02)
    assert found.values["c"] == 0.0


def test_of_two_columns_that_go_together_the_later_keeps_its_default() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (50, 3))
    x[:, 2] = 0.1 * x[:, 1]
    found = solve([of(x, x @ np.array([2.0, 3.0, 0.5]))])
    assert found.values == pytest.approx({"a": 2.0, "b": 3.0})
    assert found.unknown == {"c": "cannot be told from a, b here (0.0 % of it is its own)"}


def test_a_column_of_nothing_says_nothing() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (50, 3))
    x[:, 0] = 0.0
    assert solve([of(x, x[:, 1])]).unknown == {"a": "nothing of it happened in these runs"}


def test_few_rows_say_nothing() -> None:
    x = np.random.default_rng(1).uniform(0, 1, (linear.LEAST_ROWS - 1, 1))
    assert solve([of(x, x[:, 0], ("a",))]).unknown == {"a": f"only {linear.LEAST_ROWS - 1} rows say anything"}


def test_the_interval_of_a_mean_is_that_of_student() -> None:
    values = [1.0, 2.0, 4.0]
    low, high = jackknife(values, lambda some: float(np.mean(some)))
    half = 4.302653 * np.std(values, ddof=1) / np.sqrt(3)
    assert low == pytest.approx(max(0.0, np.mean(values) - half)) and high == pytest.approx(np.mean(values) + half)


def test_one_run_has_no_interval_and_what_is_held_at_nothing_has_none_either() -> None:
    assert jackknife([1], lambda _: 1.0) == (None, None)
    assert jackknife([1, 2, 3], lambda _: 0.0) == (None, None)


COSTS = Costs(start_cpu_s=1.0, start_wait_s=9.0, stop_s=9.0, fetch_s=9.0)


def start(
    number: int, elapsed_s: float, restarted: int = 0, *, is_first: bool = False, is_timed: bool = True
) -> StartRow:
    """On a quarter of a core."""
    return StartRow(number, restarted, elapsed_s, 0.0, 0.25, is_first, is_timed)


@pytest.mark.parametrize(
    ("rows", "times"),
    [
        # A wait of 2 s, then a CPU second on a quarter of a core each; restarts stop for 1.5 s before.
        ([start(1, 6.0), start(3, 14.0), start(1, 7.5, 1), start(2, 11.5, 2)], (2.0, 1.5)),
        ([start(1, 6.0), start(1, 7.5, 1), start(2, 11.25, is_first=True)], (2.0, 1.5, 1.25)),
        # First starts and restarts alone: the wait of the first is what is left of them beside the code.
        ([start(1, 15.0, is_first=True), start(1, 7.5, 1)], (2.0, 1.5)),
        ([start(1, 6.0), start(1, 5.0, 1)], (1.5, 0.0)),
        ([start(1, 6.0), start(1, 6.0)], (2.0,)),
        ([start(1, 15.0, 1), start(1, 15.0, 1)], (2.0,)),  # all of them stopped, which takes its default
        ([start(1, 6.0), start(2, 99.0, is_timed=False)], (2.0,)),  # of orders at different times
    ],
)
def test_a_start_takes_a_wait_a_stop_and_the_time_of_the_code(rows: list[StartRow], times: tuple[float, ...]) -> None:
    expected = dict(zip(("start_wait_s", "stop_s", "fetch_s"), times, strict=False))
    assert start_times([rows], COSTS) == pytest.approx(expected)


def test_a_supervisor_that_starts_beside_workers_is_not_taken_for_one() -> None:
    alone = StartRow(2, 0, 6.0, 3.0, 1.0)
    beside = StartRow(1, 0, 6.0, 9.0, 1.0, is_timed=False)
    assert start_cpu([[alone, beside]]) == 1.5
    assert start_cpu([[beside]]) == 9.0, "the only one"


def group(machine: str, order_s: float, elapsed_s: float, number: int = 1, *, is_first: bool = True) -> StartGroup:
    return StartGroup("a-r1", machine, order_s, number, 0, elapsed_s, is_first)


def test_two_topologies_that_start_on_a_machine_at_once_are_one_start_of_all_their_workers() -> None:
    """Else the CPU of both would be counted for each."""
    both = merge([group("m1", 100.0, 8.0, 2), group("m2", 100.0, 5.0), group("m1", 100.5, 9.0)])
    assert both == [StartGroup("a-r1", "m1", 100.0, 3, 0, 9.5, True, True), group("m2", 100.0, 5.0)]
    (apart,) = merge([group("m1", 100.0, 8.0), group("m1", 105.0, 9.0)])
    assert (apart.number, apart.elapsed_s, apart.is_at_once) == (2, 14.0, False)
    (mixed,) = merge([group("m1", 100.0, 8.0), group("m1", 100.0, 9.0, is_first=False)])
    assert not mixed.is_at_once
    later = [group("m1", 100.0, 8.0), group("m1", 108.0, 9.0)]
    assert merge(later) == later


def test_a_machine_that_joins_is_at_rest_once_its_supervisor_and_first_workers_are() -> None:
    phases = [{"run_id": "a-r1", "phase": "join", "start_s": start_s} for start_s in (90.0, 300.0)]
    events = [
        {"run_id": "a-r1", "kind": "machines_joined", "t_s": 95.0, "machines": ["m5", "m6"]},
        {"run_id": "a-r1", "kind": "steady", "t_s": 96.0, "machines": None},
    ]
    found = joins(phases, events, [group("m5", 98.0, 11.0, 2), group("m1", 98.0, 30.0), group("m5", 400.0, 9.0)])
    assert found == [Join("a-r1", "m5", 90.0, 109.0, 2), Join("a-r1", "m6", 90.0, 105.0, 0)]


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
    assert [(each.order_s, each.number, each.restarted, each.elapsed_s, each.is_first) for each in found] == [
        (101.0, 1, 0, 7.0, True),
        (200.0, 2, 1, 8.0, False),
    ]


def chain(grouping: str) -> SimulatedTopology:
    components = (SimulatedComponent("spout", "spout", (1, 2)), SimulatedComponent("bolt", "bolt", (3, 4, 5, 6)))
    edge = EdgeWork("spout", "default", "bolt", grouping, tuple_bytes=500.0)
    return SimulatedTopology("chain", 2, components, (edge,))


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
    assert deliveries_of_worker(work, rows) == pytest.approx((100 * remote, 50 * remote))


def test_a_grouping_whose_targets_are_not_known_says_nothing_of_what_is_sent() -> None:
    assert is_dealt_evenly(chain("shuffle")) and not is_dealt_evenly(chain("ring"))
    keyed = chain("fields")
    routes = tuple(tuple((task, 1.0) for task in (3,)) for _ in (1, 2))
    assert not is_dealt_evenly(replace(keyed, edges=(replace(keyed.edges[0], routes=routes),)))


NOTHING = RunSums("a-r1", {}, (), (), (), (), {}, (), (), {}, (), (), {}, (), {}, 10.0, {})


def test_a_run_that_says_nothing_leaves_every_default_with_a_reason() -> None:
    default = Costs()
    found = fit_costs([NOTHING, replace(NOTHING, run_id="b-r1")], default)
    assert [each.name for each in found] == list(default.__dataclass_fields__)
    assert all(each.value is None and each.why and each.default == getattr(default, each.name) for each in found)
    assert Costs(**as_costs(found)) == default


def calm_run(window_s: float) -> RunSums:
    """A spout and, in another worker, a bolt of 4 ms, each looking every 10 ms; 20/s in two windows before an event."""
    components = (SimulatedComponent("spout", "spout", (1,)), SimulatedComponent("bolt", "bolt", (2,), sleep_ms=4.0))
    waits = Waits(0.0, 0.010)
    edges = (EdgeWork("spout", "default", "bolt", "shuffle"),)
    work = SimulatedTopology("calm", 2, components, edges, bolt_waits=waits, spout_waits=waits)
    of = {"event_id": "e1", "topology": "calm", "phase": "before"}
    executed = 20.0 * window_s
    activity = tuple(
        {
            "topology": "calm-1",
            "component": name,
            "window_s": begin,
            "executed": n,
            "emitted": m,
            "transferred": m,
            "execute_ms": 4.0 * n,
        }
        for begin in (1000.0, 1000.0 + window_s)
        for name, n, m in (("spout", 0.0, executed), ("bolt", executed, 0.0))
    )
    settled = tuple(
        {**of, "component": name, "first_task": task, "slot": slot}
        for name, task, slot in (("spout", 1, "m1:6700"), ("bolt", 2, "m2:6700"))
    )
    latency = tuple({**of, "window_s": -10.0 * n, "n": 200, "mean_ms": 21.0} for n in range(1, 1 + int(window_s / 5)))
    interval = {**of, "steady": True, "start_s": -2 * window_s, "end_s": 0.0}
    zeros = {"e1": 1000.0 + 2 * window_s}
    return replace(
        NOTHING, works={"calm-1": work}, activity=activity, latencies=latency, intervals=(interval,), zeros_s=zeros,
        settled=settled, topology_ids={"calm": "calm-1"}, window_s=window_s,
    )  # fmt: skip


@pytest.mark.parametrize("window_s", [10.0, 30.0])
def test_a_hop_is_what_latency_has_beyond_service_and_waits_whatever_the_windows(window_s: float) -> None:
    """21 ms: 5 until the spout looks, 0.5 until it has handed over what it emits, 4 of service and a wait for others, 5
    until the bolt looks; the rest is the way.
    If the windows were taken for shorter than they are, the bolt would be busier."""
    (row,) = hop_rows(calm_run(window_s), Costs(sleep_slack_ms=0.0, local_emit_ms=0.5))
    busy = 20 * 0.004
    wait_ms = busy / (1 - busy) / 2 * 4.0
    assert (row.local, row.remote) == (0.0, 1.0)
    assert row.ms == pytest.approx(21.0 - 5 - 0.5 - 4 - 5 - wait_ms)


def test_a_latency_that_is_shorter_than_services_and_waits_is_not_made_longer() -> None:
    """Else hops of which half are measured too short and half too long would come out too long."""
    run = calm_run(10.0)
    shorter = replace(run, latencies=tuple({**row, "mean_ms": 10.0} for row in run.latencies))
    costs = Costs(sleep_slack_ms=0.0, local_emit_ms=0.5)
    assert hop_rows(shorter, costs)[0].ms == pytest.approx(hop_rows(run, costs)[0].ms - 11.0)
    assert hop_rows(shorter, costs)[0].ms < 0.0


BOLTS = [f"bolt_{n}" for n in range(4)]
SLEEPERS = SimulatedTopology(
    "x", 1, tuple(SimulatedComponent(name, "bolt", (n,), sleep_ms=5.0) for n, name in enumerate(BOLTS)), ()
)


def tuple_rows(pid: int, cpu_ms: float, over_ms: float = 0.0) -> list[dict[str, object]]:
    """Windows of a process: bolts that sleep 5 ms, and so much longer, and cost so much CPU a tuple."""
    found: list[dict[str, object]] = []
    for name, n in ((name, n) for name in BOLTS for n in range(1, 4)):
        tuples = 100.0 * n
        counts = {"executed": tuples, "transferred": 0.0, "execute_ms": tuples * (5.0 + over_ms + cpu_ms)}
        timed = {f"timed_{key}": value for key, value in counts.items()} | {"timed_s": 10.0, "timed_executor_s": 10.0}
        where = {"topology": "x-1", "component": name, "machine": "m1", "port": 6700, "pid": pid}
        found.append({**where, **counts, **timed, "window_s": 1000.0 + 10 * n, "cpu_ms": tuples * cpu_ms})
    return found


def test_a_thread_rests_while_its_executor_does_whatever_the_number_of_its_tasks() -> None:
    """One executor of two tasks, from idle to saturated, which waits at 0.01 cores: a hundred looks a second."""
    work = replace(SLEEPERS, bolt_waits=Waits(0.0, 0.0098))
    rows = []
    loads = [(busy, passes) for busy in (0.1, 0.4, 0.7, 1.0) for passes in (0.0, 0.3, 1.0)]
    for n, (busy, passes) in enumerate(loads):
        counts = {"executed": 2000.0 * busy, "transferred": 2000.0 * busy * passes, "execute_ms": 10_000.0 * busy}
        cpu_ms = 0.05 * counts["executed"] + 0.03 * counts["transferred"] + 10.0 * 10.0 * (1 - busy)
        of = {"run_id": "a-r1", "topology": "x-1", "component": "bolt_0", "machine": "m1", "port": 6700, "pid": 1}
        timed = {f"timed_{key}": value for key, value in counts.items()} | {"timed_s": 20.0, "tasks": 2}
        rows.append({**of, **counts, **timed, "window_s": 1000.0 + 10 * n, "cpu_ms": cpu_ms})
    process = {name: rows[0][name] for name in sums.PROCESS} | {"begun_s": 990.0}
    placed = {"run_id": "a-r1", "topology": "x-1", "slot": "m1:6700", "component": "bolt_0"}
    rounds = [placed | {"t_s": t_s, "executors": number} for t_s, number in ((1030.0, 2), (980.0, 1), (900.0, 2))]
    run = replace(NOTHING, works={"x-1": work}, activity=tuple(sums.with_executors(rows, rounds, [process])))
    found = {each.name: each.value for each in tuple_estimates([run], Costs(sleep_slack_ms=0.2))}
    assert found["poll_ms"] == pytest.approx(0.1)
    assert found["receive_ms"] == pytest.approx(0.05) and found["local_emit_ms"] == pytest.approx(0.03)


def test_a_sleep_takes_longer_than_it_was_told() -> None:
    run = replace(NOTHING, works={"x-1": SLEEPERS}, activity=tuple(tuple_rows(1, 0.2, 0.3)))
    found = {each.name: each.value for each in tuple_estimates([run], Costs())}
    assert found["receive_ms"] == pytest.approx(0.2) and found["sleep_slack_ms"] == pytest.approx(0.3)


def machine_run(begun_s: float, ends_s: float, covered: float = 1.0) -> RunSums:
    """A worker without work on a machine that uses 0.02 cores and, for it, 0.03 and at first 0.05 more. `covered`: of
    each window, by lines of the machine."""
    costs = Costs(machine_idle_cores=0.02, idle_cores=0.03, warm_up_cores=0.05, warm_up_s=30.0)
    of = {"topology": "x-1", "component": "bolt_0", "machine": "m1", "port": 6700, "pid": 1, "tasks": 1, "executors": 1}
    nothing = {"executed": 0, "emitted": 0, "transferred": 0, "execute_ms": 0.0, "timed_s": None}
    activity, machine_cpu = [], []
    for begin in np.arange(begun_s - 100.0, ends_s, 10.0).tolist():
        young_s = 10.0 * young_share(begin - begun_s, 10.0, 30.0) if begin >= begun_s else 0.0
        worker_s = 10.0 * (begin >= begun_s)
        cpu_s = 0.2 + costs.idle_cores * worker_s + costs.warm_up_cores * young_s
        machine_cpu.append({"machine": "m1", "window_s": begin, "machine_s": 10.0 * covered, "cpu_s": cpu_s * covered})
        if worker_s:
            activity.append({**of, **nothing, "window_s": begin, "worker_s": worker_s})
    begun = {("x-1", "m1", 6700, 1): begun_s}
    return replace(
        NOTHING, works={"x-1": SLEEPERS}, activity=tuple(activity), machine_cpu=tuple(machine_cpu), begun_s=begun,
        cores={"m1": 1.0},
    )  # fmt: skip


def test_looks_of_executors_are_none_of_the_rest_of_their_worker() -> None:
    run, work = machine_run(1000.0, 1300.0), replace(SLEEPERS, bolt_waits=Waits(0.0, 0.0098))
    looked = tuple(
        row | {"cpu_s": row["cpu_s"] + 10 * 3 * 100 * 0.05e-3 * (row["window_s"] >= 1000)} for row in run.machine_cpu
    )
    three = tuple(row | {"executors": 3} for row in run.activity)
    costs = Costs(poll_ms=0.05, sleep_slack_ms=0.2)
    changed = replace(run, works={"x-1": work}, machine_cpu=looked, activity=three)
    assert {e.name: e.value for e in tuple_estimates([changed], costs)}["idle_cores"] == pytest.approx(0.03)


@pytest.mark.parametrize("covered", [1.0, 0.85])
def test_what_a_worker_uses_more_when_it_has_just_started_is_told_from_rest(covered: float) -> None:
    found = {each.name: each.value for each in tuple_estimates([machine_run(1000.0, 1300.0, covered)], Costs())}
    assert found["machine_idle_cores"] == pytest.approx(0.02) and found["idle_cores"] == pytest.approx(0.03)
    assert found["warm_up_cores"] == pytest.approx(0.05)


def test_windows_in_which_chance_took_cpu_away_count_no_more_than_others() -> None:
    """A machine at rest uses 0.02 cores on average, and half as much more or less from window to window."""
    chance = np.random.default_rng(3).uniform(-1.0, 1.0, 400)
    rows = tuple(
        {"machine": "m1", "window_s": 10.0 * n, "machine_s": 10.0, "cpu_s": 0.2 * (1 + 0.9 * by)}
        for n, by in enumerate((chance - chance.mean()).tolist())
    )
    (found,) = [
        each
        for each in tuple_estimates([replace(NOTHING, machine_cpu=rows, cores={"m1": 1.0})], Costs())
        if each.name == "machine_idle_cores"
    ]
    assert found.value == pytest.approx(0.02)


@pytest.mark.parametrize("beside", [True, False])
def test_a_start_beside_a_topology_of_unknown_costs_says_nothing(beside: bool) -> None:
    """What acked workers that go on use meanwhile is none of the start's."""
    begun = group("m1", 1000.0, 8.0, 2)
    acked = {"topology": "acked-1", "component": "bolt_0", "port": 6701, "pid": 9, "machine": "m1"}
    run = replace(
        NOTHING, works={"x-1": SLEEPERS}, starts=(begun,), cores={"m1": 1.0}, cpu_of_spans={begun.span: 8.0},
        tuples_of_spans=((begun.span, acked),) if beside else (),
    )  # fmt: skip
    found = {each.name: each for each in start_estimates([run], Costs(machine_idle_cores=0.0))}
    assert found["start_cpu_s"].value == (None if beside else pytest.approx(4.0))
