"""Communication graphs as arrays: directed traffic between vertices, the undirected graph that METIS partitions, and
the traffic across a partition (MP III-C).

METIS wants each edge in the rows of both its ends with one weight: weights of both directions are added up. Pairs
without a positive, finite rate, and traffic of a vertex to itself, are no edges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Directed traffic: `rates[i]` tuples/s (or messages) from vertex `sources[i]` to `targets[i]`; pairs may
    repeat."""

    sources: Integers
    targets: Integers
    rates: Numbers

    def crossing(self, parts: Integers) -> float:
        """Return the traffic between parts: MP's cost function, with directed weights."""
        return float(self.rates[parts[self.sources] != parts[self.targets]].sum())

    def total(self) -> float:
        """Return the traffic of all pairs, also of a vertex to itself; in the unit of the rates."""
        return float(self.rates.sum())

    def processed(self, vertices: int) -> Numbers:
        """Return the traffic that each vertex sends and receives: MP's weight of a vertex."""
        rates_out = np.bincount(self.sources, self.rates, vertices)
        rates_in = np.bincount(self.targets, self.rates, vertices)
        return (rates_out + rates_in).astype(np.float64)


@dataclass(frozen=True, eq=False)
class CommunicationGraph:
    """An undirected graph: the neighbours of vertex v are `neighbours[starts[v]:starts[v + 1]]`, ascending.

    `edge_weights`: of each neighbour, both directions together. `vertex_weights`: parts share them evenly.
    `vertex_sizes`: the cost of a vertex for each part that needs it; None: 1 each. METIS does not get them
    (partition.py).
    """

    starts: Rows  # vertices + 1
    neighbours: Rows  # 2 * edges
    edge_weights: Numbers  # 2 * edges
    vertex_weights: Numbers  # vertices
    vertex_sizes: Integers | None = None  # vertices

    def rows(self) -> Integers:
        """Return the vertex of each neighbour's row."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def crossing(self, parts: Integers) -> float:
        """Return the weight of the edges between parts, each as often as it has rows: twice."""
        return float(self.edge_weights[parts[self.neighbours] != parts[self.rows()]].sum())

    def volume(self, parts: Integers, count: int) -> int:
        """Return METIS' total communication volume: of each vertex, its size for each other part that has a
        neighbour."""
        rows = self.rows()
        neighbour_parts = parts[self.neighbours]
        is_outside = neighbour_parts != parts[rows]
        needing = np.unique(rows[is_outside] * count + neighbour_parts[is_outside]) // count
        if self.vertex_sizes is None:
            return len(needing)
        return int(self.vertex_sizes[needing].sum(dtype=object))  # Python's whole numbers: METIS' may have 64 bits


def load_imbalance(weights: Rows | Numbers, parts: Integers, count: int) -> float:
    """Return the heaviest part's weight over the mean of all `count` parts (MP III-C: loadImba); 1.0 without
    weights."""
    of_parts = np.bincount(parts, weights, count)
    return float(of_parts.max() / of_parts.mean()) if of_parts.sum() > 0 else 1.0


def graph_of_pairs(pairs: Pairs, vertex_weights: Numbers, vertex_sizes: Integers | None = None) -> CommunicationGraph:
    """Return the graph of vertices 0 to n - 1; `vertex_weights` and `vertex_sizes` have an entry for each of the n
    vertices. Edge weights have the unit of the pairs' rates, those of vertices any."""
    count = len(vertex_weights)
    low, high = np.minimum(pairs.sources, pairs.targets), np.maximum(pairs.sources, pairs.targets)
    is_edge = (low != high) & (pairs.rates > 0) & np.isfinite(pairs.rates)
    low, high, rates = (column[is_edge] for column in (low, high, pairs.rates))
    keys = low * count + high
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))[: len(keys)])
    weights = np.add.reduceat(rates[order], begins) if len(begins) else rates
    edges = order[begins]
    return _with_both_directions(low[edges], high[edges], weights, vertex_weights, vertex_sizes)


def _with_both_directions(
    low: Integers, high: Integers, weights: Numbers, vertex_weights: Numbers, vertex_sizes: Integers | None
) -> CommunicationGraph:
    """Return the graph of edges in the order of (low, high): a row has its lower neighbours first, then the higher
    ones."""
    count, edges = len(vertex_weights), np.arange(len(low))
    lower, higher = np.bincount(high, minlength=count), np.bincount(low, minlength=count)
    starts = np.concatenate(([0], np.cumsum(lower + higher)))
    neighbours, edge_weights = np.empty(2 * len(low), np.int32), np.empty(2 * len(low))
    to_higher = edges + (starts[:-1] + lower - (np.cumsum(higher) - higher))[low]
    neighbours[to_higher], edge_weights[to_higher] = high, weights
    by_high = np.argsort(high, kind="stable")
    to_lower = edges + (starts[:-1] - (np.cumsum(lower) - lower))[high[by_high]]
    neighbours[to_lower], edge_weights[to_lower] = low[by_high], weights[by_high]
    return CommunicationGraph(starts.astype(np.int32), neighbours, edge_weights, vertex_weights, vertex_sizes)
