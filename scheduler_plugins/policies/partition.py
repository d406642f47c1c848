"""A graph cut into parts by METIS.

METIS 5 by pymetis, k-way as MP IV-B ran it (`gpmetis`). Its objective `vol` looks at the number of neighbours in other
parts and ignores edge weights; `cut` adds up edge weights. pymetis cannot hand over sizes of vertices (METIS' `vsize`).
Weights of METIS are whole numbers of 32 bits: ours are scaled to a sum of 2²⁸, unless they are small whole numbers, and
are 1 at least.

With few vertices a part k-way keeps neither its imbalance nor all its parts: three stages of 20 vertices of equal
weight, each with all of the next, it puts into one of 20 parts for `cut`, with every seed tried. Where that is so
METIS' recursive bisection is asked. It knows only `cut`: for `vol` it is given edges without weights.

A master may be without pymetis: it is imported where it is used. Errors: PymetisMissing.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np

from scheduler_plugins.policies.communication import CommunicationGraph, Integers, Numbers, Rows

Objective = Literal["vol", "cut"]
OBJECTIVES: Mapping[Objective, int] = {"vol": 1, "cut": 0}  # METIS' numbers of them
LARGEST_SUM = 2**28  # of weights: METIS takes three times the sum in 32 bits
UFACTOR = 1000  # METIS' imbalance is in thousandths above 1
ROUNDING = 1e-6  # of weights that were scaled to whole numbers
WELL_OVER = 2  # times what is aimed for: with two or three vertices a part METIS' parts often have one or two more


class PymetisMissing(Exception):
    """The Python that decides has no pymetis."""

    blame = "configuration"


@dataclass(frozen=True)
class MetisOptions:
    objective: Objective = "vol"
    imbalance: float = 1.03  # the heaviest part's weight over the mean: METIS' aim
    seed: int = 0


@dataclass(frozen=True, eq=False)
class MetisPartition:
    """`parts`: of each vertex, 0 to count - 1; one may stay empty. `fault`: what is wrong with k-way's, in words; then
    they are those of recursive bisection, or, where these are at fault too, k-way's, and not sound."""

    parts: Integers
    fault: str = ""
    is_sound: bool = True

    @property
    def by_bisection(self) -> bool:
        return bool(self.fault) and self.is_sound


def metis_parts(graph: CommunicationGraph, count: int, options: MetisOptions) -> MetisPartition:
    """In `count` parts. Where there are no edges METIS is not asked. Raises PymetisMissing."""
    if count == 1 or not len(graph.neighbours):  # nothing to cut, and METIS is not made for either
        return MetisPartition(_parts_by_weight(graph.vertex_weights, count))
    weights = whole_weights(graph.vertex_weights)
    by_k_way = _ask_metis(graph, weights, count, options, recursive=False)
    fault = _fault(weights, by_k_way, count, options.imbalance)
    if not fault:
        return MetisPartition(by_k_way)
    by_bisection = _ask_metis(graph, weights, count, options, recursive=True)
    second = _fault(weights, by_bisection, count, options.imbalance)
    if not second:
        return MetisPartition(by_bisection, f"k-way {fault}")
    return MetisPartition(by_k_way, f"k-way {fault}; recursive bisection {second}", is_sound=False)


def _ask_metis(
    graph: CommunicationGraph, weights: Rows, count: int, options: MetisOptions, *, recursive: bool
) -> Integers:
    try:
        import pymetis
    except ImportError as error:
        raise PymetisMissing(f"the Python that decides has no pymetis ({error})") from error
    _, parts = pymetis.part_graph(
        count,
        pymetis.CSRAdjacency(graph.starts, graph.neighbours),
        vweights=weights,
        eweights=whole_weights(graph.edge_weights) if options.objective == "cut" else None,
        recursive=recursive,
        options=pymetis.Options(
            objtype=OBJECTIVES["cut" if recursive else options.objective],
            ufactor=round(UFACTOR * (options.imbalance - 1)),
            seed=options.seed,
        ),
    )
    return np.asarray(parts, dtype=np.int64)


def _fault(weights: Rows, parts: Integers, count: int, imbalance: float) -> str:
    """Why these parts are not to be used, in words. The aim is `imbalance`, or an even share of whole vertices.

    Either a part is empty, while another is over the aim and has half a mean or more beside its heaviest vertex, which
    could be there; or a part weighs more than twice the aim, and twice its heaviest vertex.
    """
    loads, heaviest = np.bincount(parts, weights, count), np.zeros(count)
    np.maximum.at(heaviest, parts, weights)
    mean = float(loads.mean())
    aim = max(imbalance * mean, _even_share(weights, count)) * (1 + ROUNDING)
    empty = int(np.count_nonzero(loads == 0))  # each vertex weighs something
    could_give = bool(np.any((loads > aim) & (loads - heaviest >= mean / 2)))
    is_well_over = bool(np.any(loads > WELL_OVER * np.maximum(aim, heaviest)))
    if not (empty and could_give) and not is_well_over:
        return ""
    left = f"leaves {empty} of {count} parts empty, imbalance" if empty else "has an imbalance of"
    least = least_imbalance(weights, count)
    return f"{left} {loads.max() / mean:.2f}, where whole vertices allow {least:.2f}"


def least_imbalance(weights: Rows | Numbers, count: int) -> float:
    """What no partition of whole vertices is below: one part has the heaviest, and one an even share of them. 1.0 where
    nothing weighs."""
    mean = float(weights.sum()) / count
    return max(mean, float(weights.max()), _even_share(weights, count)) / mean if mean > 0 else 1.0


def _even_share(weights: Rows | Numbers, count: int) -> float:
    """What a part weighs that has as many vertices as it must, rounded up, the lightest ones."""
    share = ceil(len(weights) / count)
    return float(np.partition(weights, share - 1)[:share].sum())


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
