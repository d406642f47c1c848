"""A graph cut into parts by METIS.

METIS 5 by pymetis, k-way as MP IV-B ran it (`gpmetis`). Its objective `vol` looks at the number of neighbours in other
parts and ignores edge weights; `cut` adds up edge weights. pymetis cannot hand over sizes of vertices (METIS' `vsize`).
Weights of METIS are whole numbers of 32 bits: ours are scaled to a sum of 2²⁸, unless they are small whole numbers, and
are 1 at least.

A master may be without pymetis: it is imported where it is used. Errors: PymetisMissing.
"""

from __future__ import annotations

import heapq
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
    """The part, 0 to count - 1, of each vertex. A part may stay empty. Where there are no edges METIS is not asked.
    Raises PymetisMissing."""
    if count == 1 or not len(graph.neighbours):  # nothing to cut, and METIS is not made for either
        return _parts_by_weight(graph.vertex_weights, count)
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


def _parts_by_weight(weights: Numbers, count: int) -> Integers:
    """The heaviest vertex first, each to the lightest part; of equally light ones to that with fewest vertices."""
    parts = np.empty(len(weights), dtype=np.int64)
    lightest = [(0.0, 0, part) for part in range(count)]
    for vertex in np.argsort(-weights, kind="stable").tolist():
        load, vertices, part = lightest[0]
        parts[vertex] = part
        heapq.heapreplace(lightest, (load + float(weights[vertex]), vertices + 1, part))
    return parts


def whole_weights(weights: Numbers) -> Rows:
    """As METIS takes them; whole numbers that it can add up stay as they are."""
    total = float(weights.sum())
    if 0 < total <= LARGEST_SUM and bool(np.all((weights >= 1) & (weights == np.rint(weights)))):
        return weights.astype(np.int32)
    scaled = weights * (LARGEST_SUM / total) if total > 0 else weights
    return np.maximum(np.rint(scaled), 1).astype(np.int32)
