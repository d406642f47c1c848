"""Graphs of pairs as arrays, and what a partition lets through, against sums over dicts."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugins.policies.communication import CommunicationGraph, Pairs, graph_of_pairs, load_imbalance

VERTICES = 7
Directed = list[tuple[int, int, float]]
VERTEX = st.integers(0, VERTICES - 1)
PAIRS = st.lists(st.tuples(VERTEX, VERTEX, st.sampled_from([0.0, 1.0, 2.0, 5.0])), max_size=25)
PARTS = st.lists(st.integers(0, 3), min_size=VERTICES, max_size=VERTICES).map(np.array)


def arrays(pairs: Directed) -> Pairs:
    sources, targets, rates = ([pair[column] for pair in pairs] for column in range(3))
    return Pairs(np.array(sources, np.int64), np.array(targets, np.int64), np.array(rates, np.float64))


def graph(pairs: Directed) -> CommunicationGraph:
    return graph_of_pairs(arrays(pairs), np.ones(VERTICES))


def by_hand(pairs: Directed) -> dict[tuple[int, int], float]:
    """Both directions, each with the sum of both."""
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for source, target, rate in pairs:
        if rate > 0 and source != target:
            sums[source, target] += rate
            sums[target, source] += rate
    return sums


def entries(made: CommunicationGraph) -> list[tuple[int, int, float]]:
    return list(zip(made.rows().tolist(), made.neighbours.tolist(), made.edge_weights.tolist(), strict=True))


@given(pairs=PAIRS)
def test_each_edge_stands_in_both_rows_with_the_sum_of_both_directions(pairs: Directed) -> None:
    expected = by_hand(pairs)
    assert entries(graph(pairs)) == [(*pair, expected[pair]) for pair in sorted(expected)]


@given(pairs=PAIRS, parts=PARTS)
def test_what_crosses_and_the_volume_are_those_of_the_definitions(pairs: Directed, parts: np.ndarray) -> None:
    crossing = sum(rate for source, target, rate in pairs if parts[source] != parts[target])
    assert arrays(pairs).crossing(parts) == crossing
    others: dict[int, set[int]] = defaultdict(set)
    for one, other in by_hand(pairs):
        if parts[one] != parts[other]:
            others[one].add(int(parts[other]))
    assert graph(pairs).volume(parts, 4) == sum(map(len, others.values()))


def test_a_volume_counts_the_sizes_of_vertices() -> None:
    """Vertex 0 (size 5) has neighbours in two other parts, vertices 1 and 2 (sizes 2 and 3) in one."""
    pairs = arrays([(0, 1, 1.0), (0, 2, 1.0)])
    sized = graph_of_pairs(pairs, np.ones(3), np.array([5, 2, 3]))
    assert sized.volume(np.array([0, 1, 2]), 3) == 2 * 5 + 2 + 3


def test_a_volume_of_large_sizes_is_exact() -> None:
    """What 64 bits do not hold."""
    large = 2**63 - 1
    sized = graph_of_pairs(arrays([(0, 1, 1.0), (0, 2, 1.0)]), np.ones(3), np.array([large, large, 1]))
    assert sized.volume(np.array([0, 1, 2]), 3) == 3 * large + 1


def test_rates_that_are_none_make_no_edge() -> None:
    assert entries(graph([(0, 1, float("nan")), (1, 2, float("inf")), (2, 3, -1.0), (4, 4, 9.0)])) == []


def test_processed_counts_both_ends() -> None:
    assert arrays([(0, 1, 2.0), (1, 2, 3.0), (2, 2, 1.0)]).processed(4).tolist() == [2.0, 5.0, 5.0, 0.0]


def test_imbalance_is_the_heaviest_part_over_the_mean_of_all() -> None:
    weights, parts = np.array([3.0, 1.0, 2.0]), np.array([0, 1, 1])
    assert load_imbalance(weights, parts, 2) == 1.0
    assert load_imbalance(weights, parts, 3) == pytest.approx(1.5)
    assert load_imbalance(np.zeros(3), parts, 2) == 1.0
