"""When a phase ends and when a run is given up: pure decisions over times and states."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barograph.policy_service import (
    ScaleOutcome,
    counts_since,
    first_tuple_s,
    scale_outcome,
    throughput_now,
)
from barograph.run.monitor import (
    RESTART_PATIENCE,
    Patience,
    PhaseEnd,
    PhaseOutcome,
    find_trouble,
    planned_s,
    stale_samples,
    steady_test,
)
from scheduler_plugins.json_data import from_json
from scheduler_plugins.service.run_snapshot import RunSnapshot, TopologyStatus, TupleCounts

STATE: dict[str, Any] = {
    "run_id": "stela-r1",
    "t": 100.0,
    "policy": "stela",
    "machines": ["m1", "m2"],
    "samples_age_s": 0.8,
    "workers_reporting": 2,
    "tasks_placed": 2,
    "tasks_total": 2,
    "pending_event": None,
    "decisions": [],
    "policy_error": None,
    "held": None,
    "input_rate_factor": 1.0,
}


def state(**changes: Any) -> RunSnapshot:
    return from_json(RunSnapshot, STATE | changes)


def decision(**changes: Any) -> dict[str, Any]:
    plain = {"decision_id": "d1", "t": 1.0, "event_id": "e1", "reason": "r", "applied": True, "applied_t": 2.0}
    return plain | {"message": ""} | changes


def test_what_the_service_itself_says_can_be_read(tmp_path: Any) -> None:
    from scheduler_plugins.service.state import ServiceState as Service

    said = Service(tmp_path).snapshot()
    assert said.window_fault == "" and not said.all_placed(), "there is no topology yet"
    assert said.pending_event is None and said.decisions == () and said.topologies == ()


def test_the_state_of_a_run_of_several_topologies_is_that_of_all_that_run(tmp_path: Any) -> None:
    """The tasks of both have the same numbers; one that left counts no more."""
    from scheduler_plugins.service.state import ServiceState as Service
    from tests.support.rounds import PLACED, line, request

    now = [1000.0]
    service = Service(tmp_path, lambda: now[0])
    service.configure({"run_id": "r1", "policy": "even"})
    (star,) = request(1000.0, PLACED)["topologies"]
    other = star | {"id": "other-2", "name": "other"}
    both = request(1000.0) | {"topologies": [star, other | {"placement": {"1": "m1:6701"}}]}
    service.schedule(both)
    now[0] = 1003.0
    for machine in ("m1", "m2"):
        service.take_samples([line(1002.0, machine, {})])
    service.take_samples([line(1001.0, "m1", {}, 0, "other-2", 6701)])
    said = service.snapshot()
    assert (said.tasks_placed, said.tasks_total, said.workers_reporting) == (7, 12, 3)
    assert [(each.name, each.placed_among) for each in said.topologies] == [
        ("star", ("m1", "m2")), ("other", ("m1", "m2"))]  # fmt: skip
    assert said.samples_age_s == 2.0
    service.schedule(request(1004.0, PLACED))
    left = service.snapshot()
    assert (left.tasks_placed, left.tasks_total, left.samples_age_s) == (6, 6, 1.0)
    assert [each.running for each in left.topologies] == [True, False]
    assert left.lost_tasks == (), "what leaves loses nothing"


def test_throughput_now_is_that_of_each_topology_that_runs() -> None:
    counts = [TupleCounts((1, 2), (n, n), (0, 0)) for n in (10, 5, 100)]
    star, other, gone = (TopologyStatus(f"t{n}", each) for n, each in enumerate(counts))
    with_gap = TopologyStatus("gap", TupleCounts((1, 2, 3), (10, None, 20), (0, 0, 0)))
    rows = TopologyStatus("rows", in_long_rows(float))
    shown = (star, other, replace(gone, running=False), with_gap, rows)
    assert throughput_now(replace(state(), topologies=shown)) == {"t0": 10, "t1": 5, "gap": 15, "rows": 120}
    assert throughput_now(replace(state(), topologies=())) == {}


def always(steady: bool) -> Any:
    return lambda _seconds, counts: (steady, f"{len(counts)} seen")


WATCH = PhaseEnd(zero_s=0, begin_s=0, floor_s=45, ceiling_s=100)


def test_nothing_ends_before_the_floor_and_the_ceiling_ends_it() -> None:
    assert WATCH.outcome(TupleCounts(), 44.9, always(True)) is None
    assert WATCH.outcome(TupleCounts(), 45.0, always(True)) == PhaseOutcome(True, "0 seen")
    assert WATCH.outcome(TupleCounts(), 99.9, always(False)) is None
    assert WATCH.outcome(TupleCounts(), 100.0, always(False)) == PhaseOutcome(False, "not steady within 100 s: 0 seen")


def level(waiting: Callable[[int], float], step_s: int = 1) -> TupleCounts:
    ends = tuple(range(step_s, 61, step_s))
    queues = {"aggregate": tuple(waiting(t) for t in ends)}
    return TupleCounts(ends, (100.0,) * len(ends), queues=queues, step_s=step_s)


@pytest.mark.parametrize("waiting", [lambda _: 0.0, lambda t: 200.0 * t, lambda t: 900.0 - 4.0 * t])
def test_a_level_series_is_steady_where_queues_grow_or_hardly_shrink(waiting: Callable[[int], float]) -> None:
    assert WATCH.outcome(level(waiting), 60.0, always(True)) == PhaseOutcome(True, "60 seen")


@pytest.mark.parametrize("step_s", [1, 10])
def test_throughput_that_a_draining_queue_feeds_is_not_steady(step_s: int) -> None:
    series = level(lambda t: 900.0 - 10.0 * t, step_s)
    assert WATCH.outcome(series, 60.0, always(True)) is None
    ended = WATCH.outcome(series, 100.0, always(True))
    assert ended is not None and not ended.steady
    assert "the queue of aggregate shrinks by 10.0 tuples/s; allowed: 5.0" in ended.reason


def looked_at(watch: PhaseEnd, series: TupleCounts, now_s: float) -> Sequence[float]:
    """The ends of the rows that the test gets."""
    seen: list[Sequence[float]] = []

    def test(ends: Sequence[float], _rates: Sequence[float | None]) -> tuple[bool, str]:
        seen.append(ends)
        return True, ""

    watch.outcome(series, now_s, test)
    return seen[0]


def test_only_seconds_since_the_beginning_count() -> None:
    series = TupleCounts((10, 11, 12), (1.0, 2.0, 3.0), (0, 0, 0))
    assert looked_at(PhaseEnd(2.3, 10.5, 0, 100), series, 50) == (11, 12)


@pytest.mark.parametrize(
    ("zero_s", "step_s", "last"),
    [(0.4, 1, 50), (0.6, 1, 51), (5.0, 1, 55), (9.4, 1, 59), (60.0, 1, 50), (0.0, 5, 50), (4.0, 5, 55), (6.0, 5, 50)],
)
def test_only_whole_windows_from_the_zero_are_looked_at(zero_s: float, step_s: int, last: int) -> None:
    """They are those that the analysis will see, which counts a second in the window that holds its middle."""
    series = in_long_rows(lambda _: 100.0, 59 // step_s, step_s)
    assert looked_at(PhaseEnd(zero_s, 0, 0, 100), series, 60) == tuple(range(step_s, last + 1, step_s))


@given(st.floats(0, 500), st.floats(1, 200), st.floats(0, 200))
def test_planned_time_is_within_the_rule(actual: float, floor: float, more: float) -> None:
    assert floor <= planned_s(actual, floor, floor + more) <= floor + more


def test_the_first_tuple_is_the_first_at_a_sink() -> None:
    assert first_tuple_s(TupleCounts((1, 2, 3), (1, 1, 1), (None, 0, 7))) == 3
    assert first_tuple_s(TupleCounts()) is None


@pytest.mark.parametrize(
    ("changes", "absent_for_s", "symptom"),
    [
        ({}, 0.0, None),
        ({"samples_age_s": 34.0, "sample_s": 10}, 0.0, None),
        ({"samples_age_s": 34.1, "sample_s": 10}, 0.0, "silent"),
        ({"policy_error": "boom"}, 0.0, "policy_error"),
        ({"machines": ["m1"]}, 29.0, None),
        ({"machines": ["m1"]}, 30.0, "absent"),
        ({"samples_age_s": 25.0}, 0.0, None),
        ({"samples_age_s": 25.1}, 0.0, "silent"),
        ({"samples_age_s": None}, 0.0, None),
    ],
)
def test_trouble_is_named(changes: dict[str, Any], absent_for_s: float, symptom: str | None) -> None:
    found = find_trouble(state(**changes), ("m1", "m2"), absent_for_s, Patience())
    assert (found.symptom if found else None) == symptom


def test_restarting_workers_get_more_time_and_a_machine_that_is_not_expected_all() -> None:
    assert find_trouble(state(samples_age_s=60.0), ("m1", "m2"), 0.0, RESTART_PATIENCE) is None
    assert find_trouble(state(machines=["m1"]), ("m1",), 99.0, Patience()) is None


@pytest.mark.parametrize(
    ("age", "sample_s", "old"),
    [(None, 1, True), (10.1, 1, True), (10.0, 1, False), (0.5, 1, False), (19.0, 10, False), (19.1, 10, True)],
)
def test_a_scale_request_needs_fresh_samples_and_a_window_of_rates(age: float | None, sample_s: int, old: bool) -> None:
    fault = "m1:6700 has not reported yet"
    assert (stale_samples(state(samples_age_s=age, sample_s=sample_s)) is not None) == old
    assert old or stale_samples(state(samples_age_s=age, sample_s=sample_s, window_fault=fault)) == fault


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"pending_event": "e1"}, None),
        ({"decisions": [decision(applied=False, applied_t=None)]}, None),
        ({"decisions": [decision()]}, ScaleOutcome(("d1",), 2.0, reason="r")),
        ({"decisions": []}, ScaleOutcome((), None)),
        ({"decisions": [decision(event_id="e0", applied_t=None)]}, ScaleOutcome((), None)),
        (
            {"decisions": [decision(applied=False, message="no")]},
            ScaleOutcome(("d1",), 2.0, "decision d1: no", reason="r"),
        ),
        ({"decisions": [decision()], "pending_event": "e1"}, None),
    ],
)
def test_how_a_scale_event_ends(changes: dict[str, Any], outcome: ScaleOutcome | None) -> None:
    assert scale_outcome(state(**changes), "e1") == outcome


def test_steadiness_comes_from_the_analysis() -> None:
    level: list[float | None] = [100.0, 101.0, 99.0, 100.0] * 15
    assert steady_test(range(60), level)[0]
    assert not steady_test(range(60), [float(n) for n in range(60)])[0]
    assert not steady_test(range(20), level[:20])[0]


def test_a_second_that_nobody_reported_is_not_a_second_at_zero() -> None:
    level: list[float | None] = [100.0] * 60
    assert steady_test(range(61), [*level[:30], None, *level[30:]])[0]
    assert not steady_test(range(60), [*level[:40], *[0.0] * 20])[0]


def in_long_rows(rate: Callable[[int], float], number: int = 12, step_s: int = 10) -> TupleCounts:
    ends = range(step_s, step_s * number + 1, step_s)
    return TupleCounts(tuple(ends), tuple(rate(t) for t in ends), step_s=step_s)


def test_rows_of_ten_seconds_are_windows_of_the_test() -> None:
    watch = PhaseEnd(zero_s=3.0, begin_s=3.0, floor_s=45, ceiling_s=200)
    level = in_long_rows(lambda t: 100.0 + t % 20 / 10)
    assert watch.outcome(level, 120.0, steady_test) == PhaseOutcome(True, "level at 100.5/s over 110 s")
    assert watch.outcome(in_long_rows(lambda t: 10.0 * t), 120.0, steady_test) is None, "a ramp"


def test_only_whole_rows_since_the_beginning_count() -> None:
    series = in_long_rows(lambda _: 1.0, number=4)
    assert counts_since(series, 11.0)[0] == (20, 30, 40)
    assert counts_since(series, 11.1)[0] == (30, 40), "a second of the row to 20 ended before"
    assert counts_since(TupleCounts(), 0) == ((), ())
