"""What a worker that begins is told of its spouts' schedules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugins.service.emission_records import (
    COARSE,
    EVERYWHERE,
    MOST_FACTOR,
    MOST_KEPT,
    InputRates,
    coarser,
    is_factor,
    rates_since,
)
from scheduler_plugins.service.scale_requests import CallRefusal
from scheduler_plugins.service.state import ServiceState
from tests.support.rounds import PLACED, TOPOLOGY, request


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(tmp_path: Path, clock: Clock) -> ServiceState:
    state = ServiceState(tmp_path, clock)
    state.configure({"run_id": "r1", "policy": "even"})
    state.schedule(request(1000.0, PLACED))
    return state


def line(t: float, behind: dict[int, int | None], slot: str = "m1:6700", pid: int = 1, **more: Any) -> str:
    """A worker's line; 100 tuples a second are due at each task."""
    machine, _, port = slot.partition(":")
    spouts = {
        "task": list(behind), "due": [100] * len(behind), "emitted": [90] * len(behind),
        "behind": list(behind.values()), "behind_ms": [None if n is None else n * 10.0 for n in behind.values()],
        "missed": [0] * len(behind), "late": [0] * len(behind),
    }  # fmt: skip
    head = {"v": 1, "t": t, "dt_s": 1.0, "machine": machine, "port": int(port), "pid": pid, "topology": TOPOLOGY}
    return json.dumps(head | {"seq": int(t), "spouts": spouts} | more)


def schedules(state: ServiceState) -> Any:
    return state.take_samples([], TOPOLOGY)["schedules"]


def test_a_new_topology_has_nothing_on_record(state: ServiceState) -> None:
    empty = {"topology": TOPOLOGY, "schedules": {}, "input_rates": [(1000.0, 1.0)]}
    assert state.take_samples(["", " "], TOPOLOGY) == {"input_rate_factor": 1.0} | empty
    state.take_samples([line(1010.0, {5: 7})])
    anew = request(1020.0, PLACED)
    anew["topologies"][0]["id"] = "star-2-1020"
    state.schedule(anew)
    assert state.take_samples([], "star-2-1020") == {"input_rate_factor": 1.0} | empty | {"topology": "star-2-1020"}


def test_a_new_run_has_nothing_on_record(state: ServiceState, clock: Clock) -> None:
    state.take_samples([line(1010.0, {5: 7})])
    state.change_input_rate({"factor": 3})
    clock.now = 1100.0
    state.configure({"run_id": "r2", "policy": "even"})
    expected = {"topology": None, "schedules": {}, "input_rates": [(1100.0, 1.0)]}
    assert state.take_samples([], TOPOLOGY) == {"input_rate_factor": 1.0} | expected


def test_each_task_has_its_newest_line_of_whatever_worker(state: ServiceState) -> None:
    state.take_samples([line(1010.0, {5: 7}), line(1012.0, {6: 0}, "m2:6700")])
    state.take_samples([line(1011.0, {5: 8})])
    assert schedules(state) == {"5": {"t": 1011.0, "behind": 8}, "6": {"t": 1012.0, "behind": 0}}
    state.take_samples([line(1030.0, {5: 300}, "m2:6701", pid=9)])
    state.take_samples([line(1012.0, {5: 9})])  # the old worker's last line, which came late
    assert schedules(state)["5"] == {"t": 1030.0, "behind": 300}


def test_a_source_that_began_and_died_before_its_first_line_is_on_record(state: ServiceState, clock: Clock) -> None:
    clock.now = 1010.0
    state.note_sources(f"5,6 {TOPOLOGY}")
    clock.now = 1030.0
    state.take_samples([line(1029.0, {6: 4})])
    state.note_sources(f"5,6 {TOPOLOGY}")
    assert schedules(state) == {"5": {"t": 1010.0, "behind": 0}, "6": {"t": 1029.0, "behind": 4}}


@pytest.mark.parametrize("sources", ["5 another-1-1000", "5", f" {TOPOLOGY}", f"x,-1,² {TOPOLOGY}", "", " "])
def test_what_is_no_source_of_the_topology_is_not_noted(state: ServiceState, sources: str) -> None:
    state.note_sources(sources)
    assert schedules(state) == {}


def test_a_spout_whose_schedule_has_not_begun_keeps_what_is_on_record(state: ServiceState) -> None:
    """It waits for its answer; should it end before that, the next process goes on where the first one ended."""
    older = json.loads(line(1012.0, {5: 0}))
    del older["spouts"]["behind"], older["spouts"]["missed"], older["spouts"]["late"]
    state.take_samples([line(1010.0, {5: 7}), line(1011.0, {5: None}, pid=2), json.dumps(older)])
    assert schedules(state) == {"5": {"t": 1010.0, "behind": 7}}
    assert state.damaged_lines == 0


def test_rates_reach_back_to_the_oldest_tuple_that_is_behind(state: ServiceState, clock: Clock) -> None:
    for n in range(1, 50):
        clock.now = 1000.0 + 10 * n
        state.take_samples([line(clock.now, {5: 0, 6: 1500})])  # the oldest of which is 15 s old
        state.change_input_rate({"factor": 1 + n % 2})
    assert state.take_samples([], TOPOLOGY)["input_rates"] == [(1470.0, 2.0), (1480.0, 1.0), (1490.0, 2.0)]
    clock.now = 1600.0
    state.change_input_rate({"factor": 5})
    assert [t for t, _ in state.take_samples([], TOPOLOGY)["input_rates"]] == [1470.0, 1480.0, 1490.0, 1600.0]


def test_rates_since_a_time_begin_with_the_one_in_force() -> None:
    rates = [(10.0, 1.0), (20.0, 2.0), (30.0, 3.0)]
    assert rates_since(rates, 5.0) == rates_since(rates, 10.0) == rates
    assert rates_since(rates, 20.0) == rates_since(rates, 29.0) == rates[1:]
    assert rates_since(rates, 99.0) == rates[2:]


def test_a_gap_is_due_in_the_seconds_in_which_it_was(state: ServiceState) -> None:
    gaps = {"task": [5, 6], "from_s": [1010.0, None], "until_s": [1024.0, 1024.2], "due": [1400, None]}
    state.take_samples([line(1010.0, {5: 0}), line(1025.0, {5: 1300}, pid=2, gaps=gaps)])
    series = state.topologies[TOPOLOGY].samples.series(1040.0)
    due = dict(zip(series.t, series.due, strict=True))
    assert [due[second] for second in range(1010, 1026)] == [100.0] * 16
    assert sum(series.due) == 1600


def test_what_a_spout_is_behind_waits_there(state: ServiceState) -> None:
    tasks = {"task": [5, 6], "component": ["spout", "spout"], "executed": [0, 0], "queue": [0, None]}
    tasks |= {"emitted": [90, 90], "execute_ms": [0.0, 0.0]}
    state.take_samples([line(1010.0, {5: 30, 6: None}, tasks=tasks)])
    assert state.topologies[TOPOLOGY].samples.series(1014.0).queues == {"spout": (30,)}


def test_an_absurd_gap_costs_no_more_than_the_series(state: ServiceState) -> None:
    gaps = {"task": [5], "from_s": [0.0], "until_s": [1e9], "due": [1]}
    state.take_samples([line(1025.0, {5: 0}, gaps=gaps)])
    assert len(state.topologies[TOPOLOGY].samples._series) <= 901


def course(since: float, *changes: list[float], **whose: str) -> dict[str, Any]:
    return {"since": since, "changes": [*changes], **whose}


def test_once_a_rate_follows_a_course_every_answer_has_what_is_ahead(state: ServiceState, clock: Clock) -> None:
    clock.now = 1010.0
    assert "input_rates" not in state.take_samples([line(1010.0, {5: 0})], TOPOLOGY)
    assert state.change_input_rate(course(1012.0, [1012.0, 2.0], [1013.0, 3.0])) == {"until": 1013.0, "t": 1010.0}
    answer = state.take_samples([line(1010.0, {5: 0})], TOPOLOGY)
    wanted = [(1000.0, 1.0, 0.0), (1012.0, 2.0, 12.0), (1013.0, 3.0, 14.0)]
    assert answer == {"input_rate_factor": 1.0, "input_rates": wanted}
    clock.now = 1012.5
    answer = state.take_samples([line(1012.0, {5: 0})], TOPOLOGY)
    assert answer == {"input_rate_factor": 2.0, "input_rates": wanted[1:]}, "older workers follow the factor of now"
    assert state.state()["input_rate_factor"] == 2.0
    clock.now = 1100.0
    assert state.take_samples([line(1100.0, {5: 0})], TOPOLOGY)["input_rates"] == wanted[2:], "the last one stays"


def test_a_course_may_be_told_twice_and_a_newer_one_takes_its_place(state: ServiceState, clock: Clock) -> None:
    clock.now = 1010.0
    for _ in range(2):
        state.change_input_rate(course(1012.0, [1012.0, 2.0], [1013.0, 3.0], [1014.0, 4.0]))
    state.change_input_rate(course(1013.0, [1013.0, 0.5]))
    state.change_input_rate(course(1012.0, [1015.0, 5.0]))
    rates = state.take_samples([], TOPOLOGY)["input_rates"]
    assert [change[:2] for change in rates] == [(1000.0, 1.0), (1012.0, 2.0), (1013.0, 0.5)]
    state.change_input_rate({"factor": 7})
    rates = state.take_samples([], TOPOLOGY)["input_rates"]
    assert rates == [(1000.0, 1.0, 0.0), (1010.0, 7.0, 10.0)], "what is said of now ends what was ahead"


def test_a_long_course_is_kept_as_far_back_as_a_tuple_is_behind(state: ServiceState, clock: Clock) -> None:
    for second in range(2000):
        clock.now = 1010.0 + second
        state.take_samples([line(clock.now, {5: 0, 6: 1500})])  # the oldest of which is 15 s old
        state.change_input_rate(course(1011.0, [clock.now + 30, 1.0 + second % 2]))
    rates = state.take_samples([], TOPOLOGY)["input_rates"]
    assert len(rates) == 46 and rates[0] == (clock.now - 15, 1.0, 40 + 1.5 * 1954), "numbered from the begin on"


def due_s(changes: Sequence[Sequence[float]], t: float) -> float:
    """For how long the submitted rate would have taken to what is due until `t`."""
    since_s, factor, seconds = rates_since([(a, b, c) for a, b, c in changes], t)[0]
    return seconds + factor * (t - since_s)


@pytest.mark.parametrize("hours", [1, 6])
def test_a_task_that_never_posts_again_keeps_a_short_history_that_numbers_what_is_due_as_before(
    state: ServiceState, clock: Clock, hours: int
) -> None:
    """A course that changes each second, sent every ten: a task ended 12.3 s after its begin, another half an hour;
    twenty others post each at a time of its own."""
    first, second, every = 1022.3, 2800.75, [(1000.0, 1.0, 0.0)]
    state.take_samples([line(first, {5: 7})])
    for number in range(0, 3600 * hours, 10):
        clock.now = 1010.0 + number
        state.take_samples([line(clock.now - task / 50, {task: 0}) for task in range(10, 30)])
        state.take_samples([line(clock.now, {7: 0}), line(min(clock.now, second), {6: 3})])
        changes = [[clock.now + 30 + i, (0.0, 0.1, 3.7, 999.0)[(number + i) // 7 % 4] + i / 1e6] for i in range(10)]
        state.change_input_rate(course(1011.0, *changes))
        for t, factor in changes:
            every.append((t, factor, every[-1][2] + every[-1][1] * (t - every[-1][0])))
    answer = state.take_samples([], TOPOLOGY)
    rates = answer["input_rates"]
    until = {task: record["t"] for task, record in answer["schedules"].items()}
    assert (until["5"], until["6"], until["7"]) == (first, second, clock.now)
    assert len(rates) <= MOST_KEPT + 10, "one call more"
    for t in (*until.values(), clock.now - 60.5):
        assert due_s(rates, clock.now) - due_s(rates, t) == pytest.approx(due_s(every, clock.now) - due_s(every, t))
    assert rates[-100:] == every[-100:], "the newest ones as they are"
    assert all(factor == 0 or is_factor(factor) for _, factor, _ in rates), "as workers take them"
    assert [t for t, *_ in rates] == sorted({t for t, *_ in rates})
    steps = [(b[0] - a[0]) / (clock.now - b[0]) for a, b in pairwise(rates) if b[0] < clock.now - 100]
    assert max(steps) <= COARSE, "a tuple that is an hour late is due about when it was"


@pytest.mark.parametrize(("factor", "step_s"), [(0.0, 1.0), (MOST_FACTOR, 1 / 3), (1e-6, 1 / 7)])
def test_a_mean_is_a_rate_that_workers_take(factor: float, step_s: float) -> None:
    same = [(n * step_s, factor, 0.1 + factor * (n * step_s)) for n in range(300)]
    means = coarser(same, 10_000.0, ())
    assert len(means) < 10 and means[0] == same[0] and means[-1] == same[-1]
    assert all(mean == 0 or is_factor(mean) for _, mean, _ in means)
    assert coarser(same[:1], 10_000.0, ()) == same[:1]


def test_topologies_that_are_gone_keep_nothing(state: ServiceState, clock: Clock) -> None:
    state.take_samples([line(1005.0, {5: 1500})])
    anew = request(1006.0, PLACED)
    anew["topologies"][0]["id"] = "star-2-1006"
    state.schedule(anew)
    for second in range(100):
        clock.now = 1010.0 + second
        state.change_input_rate(course(1011.0, [clock.now + 30, 1.0 + second % 2]))
    assert len(state.take_samples([], "star-2-1006")["input_rates"]) < 35


NOW = 1000.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (course(NOW), "changes has 0; allowed are 1 to 300 pairs"),
        (course(NOW, *([NOW + n / 10, 1.0] for n in range(301))), "changes has 301; allowed are 1 to 300"),
        ({"since": NOW, "changes": 3}, "changes is 3; allowed"),
        (course(NOW, [NOW + 61, 1.0]), r"changes.0 is \[1061.0, 1.0\] at 1000.000; allowed are times .* to 60 s ahead"),
        (course(NOW - 9, [NOW - 9, 1.0]), "allowed are times .* from 5 s ago"),
        (course(NOW, [float("nan"), 1.0]), "allowed are times"),
        (course(NOW, [NOW]), "each with a factor"),
        (course(NOW, [NOW, -1.0]), "the factor of changes.0 is -1.0; allowed is 0, or 1e-06 to 1000"),
        (course(NOW, [NOW, 1e-7]), "the factor of changes.0 is 1e-07"),
        (course(NOW, [NOW, True]), "the factor of changes.0 is True"),
        (course(NOW, [NOW, False]), "the factor of changes.0 is False"),
        (course(NOW, [NOW + 2, 1.0], [NOW + 2, 2.0]), "changes.1 is at 1002.0, not after the one before"),
        (course(NOW + 1, [NOW, 1.0]), "since is 1001.0; allowed is when the course began"),
        ({"changes": [[NOW, 1.0]]}, "since is None"),
        (course(NOW, [NOW, 1.0]) | {"topology": 3}, "topology is 3; allowed is a name"),
        (course(NOW, [NOW, 1.0], source=""), "source is ''; allowed is a name"),
        (course(NOW, [NOW, 1.0]) | {"factor": 2.0}, "factor is 2.0 beside changes; give one of them"),
    ],
)  # fmt: skip
def test_changes_that_cannot_be_are_refused(body: dict[str, Any], said: str, state: ServiceState) -> None:
    with pytest.raises(CallRefusal, match=f"input_rate: .*{said}") as refused:
        state.change_input_rate(body)
    assert refused.value.status == 400
    assert state.take_samples([], TOPOLOGY)["input_rates"] == [(1000.0, 1.0)]


def test_of_each_source_the_newest_course_that_covers_it_counts() -> None:
    rates = InputRates(1000.0)
    rates.follow((None, "s"), 1001.0, [(1001.0, 2.0)])
    rates.follow(("a", None), 1002.0, [(1002.0, 3.0)])
    found = {key: rates.factor(key, 1009.0) for key in [("a", "s"), ("b", "s"), ("a", "t"), ("b", "t")]}
    assert found == {("a", "s"): 3.0, ("b", "s"): 2.0, ("a", "t"): 3.0, ("b", "t"): 1.0}
    rates.follow(("a", "s"), 1003.0, [(1003.0, 5.0)])
    rates.follow(("a", None), 1002.0, [(1004.0, 4.0)])
    assert [rates.factor(("a", each), 1009.0) for each in "st"] == [5.0, 4.0], "an older one goes on for the others"
    assert rates.by_source("a").keys() == rates.by_source("b").keys() == {"s"}
    rates.follow(EVERYWHERE, 1006.0, [(1006.0, 6.0)])
    assert {rates.factor((a, b), 1009.0) for a in ("a", "b", None) for b in ("s", "t", None)} == {6.0}
