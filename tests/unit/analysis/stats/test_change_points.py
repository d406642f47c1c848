"""Where a step may lie: exact where it is clear, as wide as the doubt is where it is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from analysis.stats.change_points import Edges, Step, Stretch, edges

GOOD = [100.0, 101.0, 99.0, 100.5, 99.5, 101.5, 98.5, 100.0, 101.0, 99.0]
BAD = [value - 10 for value in GOOD]


def step(found: int, last: int) -> Step:
    return Step(Stretch(0, found, 100.0), Stretch(found, last, 90.0), 1e-9, 3.0)


def test_a_clear_step_is_where_it_is_however_far_it_was_found() -> None:
    for found in (8, 9, 10, 11, 12):
        assert edges(GOOD + BAD, step(found, 20)) == Edges(good=9, since=10, bad=10)


def test_a_night_in_the_middle_may_be_on_either_side() -> None:
    assert edges([*GOOD, 95.1, *BAD], step(11, 21)) == Edges(good=9, since=11, bad=11)
    assert edges([*GOOD, 94.9, *BAD], step(11, 21)) == Edges(good=9, since=10, bad=11)


def test_a_good_night_after_a_bad_one_leaves_both_open() -> None:
    """Rather bad, then rather good, then bad: either of the two may be the stray one."""
    at = edges([*GOOD, 93.0, 97.0, *BAD], step(12, 22))
    assert (at.good, at.bad) == (9, 12)


def test_without_any_scatter_a_border_is_where_the_values_say() -> None:
    assert edges([100.0] * 10 + [90.0] * 5, step(10, 15)) == Edges(9, 10, 10)


@given(st.lists(st.floats(0, 200), min_size=8, max_size=40), st.data())
def test_edges_lie_in_order_within_the_step(values: list[float], data: st.DataObject) -> None:
    found = data.draw(st.integers(3, len(values) - 1))
    at = edges(values, step(found, len(values)))
    assert 0 <= at.good < at.since <= at.bad < len(values)
