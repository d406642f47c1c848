"""A graph cut into parts by METIS, and which place each part gets.

METIS 5 by pymetis, k-way as MP IV-B ran it (`gpmetis`). Its objective `vol` looks at the number of neighbours in other
parts and ignores edge weights; `cut` adds up edge weights. pymetis cannot hand over sizes of vertices (METIS' `vsize`).
Weights of METIS are whole numbers of 32 bits: ours are scaled to a sum of 2²⁸, unless they are small whole numbers, and
are 1 at least.

A master may be without pymetis: it is imported where it is used. Errors: PymetisMissing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scheduler_plugins.policies.communication import CommunicationGraph, Integers, Numbers, Rows

Objective = Literal["vol", "cut"]
OBJECTIVES: Mapping[Objective, int] = {"vol": 1, "cut": 0}  # METIS' numbers of them
LARGEST_SUM = 2**28  # of weights: METIS takes three times the sum in 32 bits
UFACTOR = 1000  # METIS' imbalance is in thousandths above 1


class PymetisMissing(Exception):
    """The Python that decides has no pymetis."""

    blame = "configuration"


@dataclass(frozen=True)
class MetisOptions:
    objective: Objective = "vol"
    imbalance: float = 1.03  # the heaviest part's weight over the mean, at most
    seed: int = 0


def metis_parts(graph: CommunicationGraph, count: int, options: MetisOptions) -> Integers:
    """The part, 0 to count - 1, of each vertex. A part may stay empty. Raises PymetisMissing."""
    if count == 1 or not len(graph.neighbours):  # nothing to cut, and METIS is not made for either
        return np.arange(len(graph.vertex_weights)) % count
    try:
        import pymetis
    except ImportError as error:
        raise PymetisMissing(f"the Python that decides has no pymetis ({error})") from error
    _, parts = pymetis.part_graph(
        count,
        pymetis.CSRAdjacency(graph.starts, graph.neighbours),
        vweights=whole_weights(graph.vertex_weights),
        eweights=whole_weights(graph.edge_weights) if options.objective == "cut" else None,
        recursive=False,
        options=pymetis.Options(
            objtype=OBJECTIVES[options.objective],
            ufactor=round(UFACTOR * (options.imbalance - 1)),
            seed=options.seed,
        ),
    )
    return np.asarray(parts, dtype=np.int64)


def whole_weights(weights: Numbers) -> Rows:
    """As METIS takes them; whole numbers that it can add up stay as they are."""
    total = float(weights.sum())
    if 0 < total <= LARGEST_SUM and bool(np.all((weights >= 1) & (weights == np.rint(weights)))):
        return weights.astype(np.int32)
    scaled = weights * (LARGEST_SUM / total) if total > 0 else weights
    return np.maximum(np.rint(scaled), 1).astype(np.int32)


def best_places(gains: Numbers) -> Integers:
    """The column of each row, no column twice, with the largest sum of `gains`; at least as many columns as rows.

    Of equal sums the one that it finds first. The Hungarian method with potentials and shortest augmenting paths (Kuhn;
    Munkres): rows × rows × columns steps. scipy has it too, and no master has scipy.
    """
    rows, columns = gains.shape
    costs = gains.max(initial=0.0) - gains
    row_prices, column_prices = np.zeros(rows), np.zeros(columns)
    owners = np.full(columns, -1)  # the row of a column
    for row in range(rows):
        path = _cheapest_path(row, costs, row_prices, column_prices, owners)
        for column, before in path:
            owners[column] = row if before < 0 else owners[before]
    places = np.empty(rows, np.int64)
    taken = np.flatnonzero(owners >= 0)
    places[owners[taken]] = taken
    return places


def _cheapest_path(
    row: int, costs: Numbers, row_prices: Numbers, column_prices: Numbers, owners: Integers
) -> list[tuple[int, int]]:
    """From a free column back to `row`: (column, the column before it, -1 at the end). Changes prices."""
    columns = len(owners)
    reach, before = np.full(columns, np.inf), np.full(columns, -1)
    seen = np.zeros(columns, bool)
    visited_rows, at, here = [row], -1, row
    while True:
        costs_here = costs[here] - row_prices[here] - column_prices
        nearer = ~seen & (costs_here < reach)
        reach[nearer], before[nearer] = costs_here[nearer], at
        at = int(np.argmin(np.where(seen, np.inf, reach)))
        step = reach[at]
        row_prices[visited_rows] += step
        column_prices[seen] -= step
        reach[~seen] -= step
        seen[at] = True
        if owners[at] < 0:
            break
        here = int(owners[at])
        visited_rows.append(here)
    path = []
    while at >= 0:
        path.append((at, int(before[at])))
        at = int(before[at])
    return path


def spread_evenly(present: Integers, count: int) -> Integers:
    """A place, 0 to count - 1, for each: no place has two more than another, and as many as possible stay where they
    are. `present`: where each is, -1 elsewhere."""
    there = np.bincount(present[present >= 0], minlength=count)
    room = np.full(count, len(present) // count)
    room[np.argsort(-there, kind="stable")[: len(present) % count]] += 1
    order = np.argsort(present, kind="stable")
    begins = np.searchsorted(present[order], np.arange(count))
    rank = np.empty(len(present), np.int64)  # among those at its place
    here = present[order]
    rank[order] = np.arange(len(present)) - np.where(here >= 0, begins[here], 0)
    stays = (present >= 0) & (rank < room[present])
    left = room - np.bincount(present[stays], minlength=count)
    places = present.copy()
    places[~stays] = np.repeat(np.arange(count), left)
    return places
