"""Throughput that a shrinking queue feeds: the same answer for seconds, seen live, and for windows, seen afterwards."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.metrics.steadiness import drain_reason, drain_windows


def seconds(waiting: list[float], rate: float = 100.0) -> str | None:
    return drain_reason({"filter": waiting}, [rate] * len(waiting))


def test_a_queue_may_shrink_by_a_twentieth_of_the_throughput() -> None:
    assert seconds([900 - 4.9 * t for t in range(30)]) is None
    assert seconds([900 - 5.1 * t for t in range(30)]) == "the queue of filter shrinks by 5.1 tuples/s; allowed: 5.0"


def test_seconds_that_nobody_measured_do_not_count() -> None:
    waiting = {"filter": [900 - 5.1 * t for t in range(30)]}
    assert drain_reason(waiting, [None] * 15 + [100.0] * 15) is not None
    assert drain_reason(waiting, [None] * 15 + [110.0] * 15) is None


@given(st.lists(st.integers(0, 10_000), min_size=3, max_size=8), st.integers(1, 1000))
def test_windows_get_the_answer_of_their_seconds(means: list[int], rate: int) -> None:
    level = rate + 0.37  # so that nothing lies on the bound itself
    live = seconds([float(mean) for mean in means for _ in range(10)], level)
    later = drain_reason({"filter": [float(mean) for mean in means]}, [level] * len(means), 10.0)
    assert (later is None) == (live is None)


def test_drained_windows_are_those_in_the_middle_of_a_span_that_drains() -> None:
    queues = {"filter": [0.0, 0.0, 900.0, 600.0, 300.0, 0.0, 0.0, 0.0]}
    assert sorted(drain_windows(queues, [100.0] * 8)) == [3, 4, 5]
    assert "shrinks by 30.0" in drain_windows(queues, [100.0] * 8)[4]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_too_few_windows_are_not_looked_at(number: int) -> None:
    assert drain_windows({"filter": [900.0, 0.0][:number]}, [100.0] * number) == {}
