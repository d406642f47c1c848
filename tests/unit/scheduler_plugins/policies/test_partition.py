"""METIS by pymetis."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from scheduler_plugins.policies.communication import CommunicationGraph, Pairs, graph_of_pairs, load_imbalance
from scheduler_plugins.policies.partition import LARGEST_SUM, MetisOptions, PymetisMissing, metis_parts, whole_weights


def grid(side: int, heavy: float = 1.0) -> tuple[CommunicationGraph, Pairs]:
    """A square of `side` × `side` vertices; edges within a row weigh `heavy`, those between rows 1."""
    at = np.arange(side * side).reshape(side, side)
    across, down = (at[:, :-1].ravel(), at[:, 1:].ravel()), (at[:-1].ravel(), at[1:].ravel())
    rates = np.concatenate([np.full(len(across[0]), heavy), np.ones(len(down[0]))])
    pairs = Pairs(np.concatenate([across[0], down[0]]), np.concatenate([across[1], down[1]]), rates)
    return graph_of_pairs(pairs, np.ones(side * side)), pairs


@pytest.mark.parametrize("objective", ["vol", "cut"])
def test_metis_cuts_a_grid_into_even_parts(objective: str) -> None:
    graph, pairs = grid(16)
    parts = metis_parts(graph, 4, MetisOptions(objective))  # type: ignore[arg-type]
    assert set(parts.tolist()) == {0, 1, 2, 3}
    assert load_imbalance(graph.vertex_weights, parts, 4) <= 1.05
    assert pairs.crossing(parts) < 0.25 * pairs.crossing(np.arange(256) % 4)


def test_cut_looks_at_weights_and_vol_does_not() -> None:
    """Rows that must not be cut: 16 edges between halves of weight 1, or 16 of weight 1,000."""
    graph, pairs = grid(16, heavy=1000.0)
    even = CommunicationGraph(graph.starts, graph.neighbours, np.ones_like(graph.edge_weights), graph.vertex_weights)
    by_cut, by_vol = (metis_parts(graph, 2, MetisOptions(objective)) for objective in ("cut", "vol"))  # type: ignore[arg-type]
    assert pairs.crossing(by_cut) < 100
    assert by_vol.tolist() == metis_parts(even, 2, MetisOptions("vol")).tolist()


def test_the_same_seed_gives_the_same_parts() -> None:
    graph, _ = grid(20)
    first, again, other = (metis_parts(graph, 7, MetisOptions("cut", seed=seed)).tolist() for seed in (3, 3, 4))
    assert first == again != other


def test_a_graph_that_is_not_connected_and_has_vertices_alone_is_cut_too() -> None:
    pairs = Pairs(np.array([0, 2, 4]), np.array([1, 3, 5]), np.ones(3))
    parts = metis_parts(graph_of_pairs(pairs, np.ones(8)), 4, MetisOptions("cut"))
    assert max(Counter(parts.tolist()).values()) <= 3


def test_a_graph_without_edges_is_dealt_out() -> None:
    nothing = np.array([], np.int64)
    graph = graph_of_pairs(Pairs(nothing, nothing, np.array([])), np.ones(5))
    assert metis_parts(graph, 2, MetisOptions()).tolist() == [0, 1, 0, 1, 0]


def test_without_pymetis_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(PymetisMissing, match="has no pymetis"):
        metis_parts(grid(4)[0], 2, MetisOptions())


@pytest.mark.parametrize("weights", [[0.001, 0.5, 3.0], [1e12, 2e12, 1.0], [1e-9, 1e-9, 1e-9]])
def test_weights_become_whole_numbers_that_metis_can_add_up(weights: list[float]) -> None:
    whole = whole_weights(np.array(weights))
    assert whole.dtype == np.int32 and whole.min() >= 1
    assert whole.astype(np.int64).sum() <= LARGEST_SUM + len(weights)
    assert whole[1] / whole.sum() == pytest.approx(weights[1] / sum(weights), rel=1e-3)


def test_small_whole_weights_stay_as_they_are() -> None:
    assert whole_weights(np.array([1.0, 7.0, 30.0])).tolist() == [1, 7, 30]
    assert whole_weights(np.zeros(3)).tolist() == [1, 1, 1]
