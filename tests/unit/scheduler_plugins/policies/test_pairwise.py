"""Items into bins pair by pair: the same answers as where every combination's whole traffic is added up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.policies.communication import Pairs, graph_of_pairs
from scheduler_plugins.policies.pairwise import Names, NoRoom, pairwise_bins
from tests.support.greedy_reference import Traffic, greedy_bins

NAMES = Names("executor", "executors", "worker")


def bins_of(
    loads: list[float],
    traffic: Traffic,
    most_items: list[int],
    most_load: list[float],
    least_used: int,
    *,
    strict: bool = True,
) -> dict[int, int]:
    sources, targets = ([pair[end] for pair in traffic] for end in (0, 1))
    rates = np.array(list(traffic.values()), np.float64)
    pairs = Pairs(np.array(sources, np.int64), np.array(targets, np.int64), rates)
    graph = graph_of_pairs(pairs, np.array(loads, np.float64))
    most = np.array(most_items), np.array(most_load, np.float64)
    return dict(enumerate(pairwise_bins(graph, *most, NAMES, strict=strict, least_used=least_used).tolist()))


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[float], Traffic, list[int], list[float], int]:
    """Room for all items, if not for their loads; loads and rates are whole numbers, so that sums are exact."""
    items, bins = draw(st.integers(2, 9)), draw(st.integers(1, 4))
    loads = [float(draw(st.integers(0, 4))) for _ in range(items)]
    pairs = st.tuples(st.integers(0, items - 1), st.integers(0, items - 1)).filter(lambda pair: pair[0] < pair[1])
    traffic = draw(st.dictionaries(pairs, st.integers(1, 6).map(float), max_size=20))
    each = -(-items // bins) + draw(st.integers(0, 2))
    most_load = draw(st.sampled_from([sum(loads) / bins + 2.0, sum(loads) / bins + 0.5, 100.0]))
    return loads, traffic, [each] * bins, [most_load] * bins, draw(st.integers(1, bins))


@given(problem=problems())
def test_it_answers_as_the_paper_says_it(problem: tuple[list[float], Traffic, list[int], list[float], int]) -> None:
    expected = greedy_bins(*problem)
    if expected is not None:
        assert bins_of(*problem) == expected
        return
    with pytest.raises(NoRoom):
        bins_of(*problem)


@given(problem=problems())
def test_with_the_least_loaded_everything_finds_a_place(
    problem: tuple[list[float], Traffic, list[int], list[float], int],
) -> None:
    loads, _, most_items, *_ = problem
    found = bins_of(*problem, strict=False)
    assert set(found) == set(range(len(loads)))
    assert all(list(found.values()).count(bin_) <= most_items[bin_] for bin_ in found.values())


def test_an_item_that_is_too_heavy_for_every_bin_is_named() -> None:
    with pytest.raises(
        NoRoom,
        match=r"no worker takes one more executor with a load of 3\.000; allowed are 2 executors and a load of 2\.200",
    ):
        bins_of([3.0, 0.5, 0.5], {(0, 1): 1.0}, [2, 2], [2.2, 2.2], 1)
