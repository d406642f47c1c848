"""Labels against scipy's assignment, and dealing evenly."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment

from scheduler_plugins.policies.relocation import best_places, spread_evenly


@given(
    gains=st.tuples(st.integers(1, 6), st.integers(0, 3)).flatmap(
        lambda shape: arrays(np.float64, (shape[0], sum(shape)), elements=st.integers(-20, 20).map(float))
    )
)
def test_places_have_the_largest_sum_that_an_assignment_can_have(gains: np.ndarray) -> None:
    places = best_places(gains)
    assert len(set(places.tolist())) == len(places) == len(gains)
    rows, columns = linear_sum_assignment(gains, maximize=True)
    assert gains[np.arange(len(gains)), places].sum() == gains[rows, columns].sum()


@given(present=st.lists(st.integers(-1, 3), max_size=20).map(lambda each: np.array(each, np.int64)))
def test_what_is_dealt_evenly_stays_where_that_is_even(present: np.ndarray) -> None:
    places = spread_evenly(present, 4)
    counts = np.bincount(places, minlength=4)
    assert counts.sum() == len(present) and counts.max() - counts.min() <= 1
    there = np.bincount(present[present >= 0], minlength=4)
    fewest = -(-len(present) // 4), len(present) // 4
    larger = len(present) % 4
    kept = sum(sorted(np.minimum(there, fewest[1]))) + sum(sorted(there > fewest[1], reverse=True)[:larger])
    assert (places == present).sum() == kept
