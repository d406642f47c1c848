"""Partitions of a graph by METIS.

METIS 5 by pymetis (metis_process.py). Its objective `vol` counts neighbours in other parts and ignores edge weights;
`cut` adds up edge weights. pymetis cannot hand over sizes of vertices (METIS' `vsize`). Our weights are whole numbers
that METIS of 32 bits can add up: scaled to a sum of 2²⁸, unless they are small whole numbers, and 1 at least.

`vol` is k-way as in MP IV-B (`gpmetis`), once. With few vertices a part k-way keeps neither its imbalance nor all its
parts, and cuts much more than necessary: three stages of 20 vertices of equal weight, each with all of the next, it
puts into one of 20 parts for `cut`, with every seed tried. For `vol` METIS' recursive bisection, which knows only `cut`
and gets edges without weights, runs where k-way's answer is at fault. For `cut` both run, with as many seeds as the
size of the graph allows, and the best balanced answer is used (`_best_call`): one whose imbalance is at most the aim,
or the least that whole vertices allow. From LARGE on `cut` runs like `vol`.

Errors: PymetisMissing, NoAnswer (metis_process.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal, NamedTuple

import numpy as np

from scheduler_plugins.policies.communication import CommunicationGraph, Integers, Numbers, Rows, load_imbalance
from scheduler_plugins.policies.metis_process import MetisProcess

Objective = Literal["vol", "cut"]
OBJECTIVES: Mapping[Objective, int] = {"vol": 1, "cut": 0}  # METIS' numbers of them
LARGEST_SUM = 2**28  # of weights: METIS takes three times the sum
UFACTOR = 1000  # METIS' imbalance is in thousandths above 1
ROUNDING, DIGITS = 1e-6, 6  # of weights scaled to whole numbers
WELL_OVER = 2  # times the aim: with two or three vertices a part METIS' parts often have one or two more
# Sizes are vertices and ends of edges; a call takes 0.3 to 3 µs of each.
SEEDS, SEEDS_SIZE = 8, 50_000  # the most seeds of one graph, and its size with all of them
LARGE = 500_000
LEAST_LIMIT_S, LIMIT_S_OF_EACH = 10.0, 2e-4  # some hundred times the usual time
LARGEST_SEED = 2**31 - 1
WAYS = {False: "k-way", True: "recursive bisection"}


@dataclass(frozen=True)
class MetisOptions:
    objective: Objective = "vol"
    imbalance: float = 1.03  # the heaviest part's weight over the mean: METIS' aim
    seed: int = 0


@dataclass(frozen=True, eq=False)
class MetisPartition:
    """A partition. `parts`: of each vertex, 0 to count - 1; one may stay empty. `words`: its call and the reason, empty
    for the plain one; or, where all answers are at fault, the faults of k-way and bisection: then the parts are
    k-way's, and not sound."""

    parts: Integers
    words: str = ""
    by_bisection: bool = False
    is_sound: bool = True


class _Call(NamedTuple):
    recursive: bool
    seed: int


def metis_parts(
    graph: CommunicationGraph, count: int, options: MetisOptions, metis: MetisProcess | None = None
) -> MetisPartition:
    """Cut a graph into `count` parts, without METIS where it has no edges. Raises PymetisMissing, NoAnswer.

    `metis`: takes further graphs after this one; None: a process for this graph alone.
    """
    if metis is None:
        with MetisProcess() as process:
            return metis_parts(graph, count, options, process)
    if count == 1 or not len(graph.neighbours):  # nothing to cut, and METIS supports neither
        return MetisPartition(_parts_by_weight(graph.vertex_weights, count))
    weights = whole_weights(graph.vertex_weights)
    calls = _calls(len(weights) + len(graph.neighbours), options)
    answers = dict(zip(calls, _ask_metis(metis, graph, weights, count, options, calls), strict=True))
    faults = {call: _fault(weights, parts, count, options.imbalance) for call, parts in answers.items()}
    if len(calls) == 1 and faults[calls[0]]:
        bisection = _Call(recursive=True, seed=options.seed)
        (answers[bisection],) = _ask_metis(metis, graph, weights, count, options, [bisection])
        faults[bisection] = _fault(weights, answers[bisection], count, options.imbalance)
    balances = {call: load_imbalance(weights, answers[call], count) for call, fault in faults.items() if not fault}
    if not balances:
        words = "; ".join(f"{WAYS[call.recursive]} {fault}" for call, fault in list(faults.items())[:2])
        return MetisPartition(answers[calls[0]], words, is_sound=False)
    crossing = {call: graph.crossing(answers[call]) for call in balances}
    best_call = _best_call(balances, crossing, calls[0], max(options.imbalance, least_imbalance(weights, count)))
    words = f"by recursive bisection: k-way {faults[calls[0]]}" if best_call.recursive else ""
    if len(calls) > 1:
        words = f"the best of {len(calls)} calls, by {WAYS[best_call.recursive]} with seed {best_call.seed}"
    return MetisPartition(answers[best_call], words, best_call.recursive)


def _best_call(balances: Mapping[_Call, float], crossing: Mapping[_Call, float], plain: _Call, most: float) -> _Call:
    """Return the call that cuts least of those that are balanced, with an imbalance of at most `most`. Without one,
    return the nearest to it that cuts no more than `plain`, if that is a candidate."""
    excess = {call: max(0.0, round(balance - most, DIGITS)) for call, balance in balances.items()}
    bound = crossing.get(plain, inf) if min(excess.values()) else inf
    rivals = (call for call in balances if crossing[call] <= bound)
    return min(rivals, key=lambda call: (excess[call], crossing[call]))


def _calls(size: int, options: MetisOptions) -> Sequence[_Call]:
    """Return METIS' calls: first k-way with the seed of `options`."""
    if options.objective == "vol" or size > LARGE:
        return [_Call(recursive=False, seed=options.seed)]
    seeds = max(1, min(SEEDS, SEEDS_SIZE // size))
    numbers = [(options.seed + step) % (LARGEST_SEED + 1) for step in range(seeds)]
    return [_Call(recursive, seed) for seed in numbers for recursive in WAYS]


def _ask_metis(
    metis: MetisProcess,
    graph: CommunicationGraph,
    weights: Rows,
    count: int,
    options: MetisOptions,
    calls: Sequence[_Call],
) -> Integers:
    """Return [call, vertex]: its part."""
    edge_weights = whole_weights(graph.edge_weights) if options.objective == "cut" else weights[:0]
    columns = [column.astype(np.int64).data for column in (graph.starts, graph.neighbours, weights, edge_weights)]
    requests = [
        {
            "recursive": call.recursive,
            "objtype": OBJECTIVES["cut" if call.recursive else options.objective],
            "ufactor": round(UFACTOR * (options.imbalance - 1)),
            "seed": call.seed,
        }
        for call in calls
    ]
    limit_s = LEAST_LIMIT_S + LIMIT_S_OF_EACH * (len(weights) + len(graph.neighbours))
    answer = metis.answer(columns, count, requests, limit_s)
    return np.frombuffer(answer, dtype=np.int64).reshape(len(calls), -1)


def _fault(weights: Rows, parts: Integers, count: int, imbalance: float) -> str:
    """Return why these parts are unusable, in words. The aim is `imbalance`, or an even share of whole vertices.

    Either a part is empty, while another is over the aim and has half a mean or more beside its heaviest vertex, which
    could be there; or a part weighs more than twice the aim, and twice its heaviest vertex.
    """
    loads, heaviest = np.bincount(parts, weights, count), np.zeros(count)
    np.maximum.at(heaviest, parts, weights)
    mean = float(loads.mean())
    aim = max(imbalance * mean, _even_share(weights, count)) * (1 + ROUNDING)
    empty_parts = int(np.count_nonzero(loads == 0))  # each vertex weighs something
    could_give = bool(np.any((loads > aim) & (loads - heaviest >= mean / 2)))
    is_well_over = bool(np.any(loads > WELL_OVER * np.maximum(aim, heaviest)))
    if not (empty_parts and could_give) and not is_well_over:
        return ""
    start = f"leaves {empty_parts} of {count} parts empty, imbalance" if empty_parts else "has an imbalance of"
    least_possible = least_imbalance(weights, count)
    return f"{start} {loads.max() / mean:.2f}, where whole vertices allow {least_possible:.2f}"


def least_imbalance(weights: Rows | Numbers, count: int) -> float:
    """Return the lower bound of partitions of whole vertices: one part has the heaviest, and one an even share of them.
    1.0 without weights."""
    mean = float(weights.sum()) / count
    return max(mean, float(weights.max()), _even_share(weights, count)) / mean if mean > 0 else 1.0


def _even_share(weights: Rows | Numbers, count: int) -> float:
    """Return the least weight of a part with its share of vertices, rounded up."""
    share = ceil(len(weights) / count)
    return float(np.partition(weights, share - 1)[:share].sum())


def _parts_by_weight(weights: Numbers, count: int) -> Integers:
    """Put the heaviest vertex first, each into the lightest part; of equally light ones into that with fewest
    vertices."""
    parts = np.empty(len(weights), dtype=np.int64)
    lightest = [(0.0, 0, part) for part in range(count)]
    for vertex in np.argsort(-weights, kind="stable").tolist():
        load, vertices, part = lightest[0]
        parts[vertex] = part
        heapq.heapreplace(lightest, (load + float(weights[vertex]), vertices + 1, part))
    return parts


def whole_weights(weights: Numbers) -> Rows:
    """Return weights as METIS takes them; whole numbers that it can add up stay as they are."""
    total = float(weights.sum())
    if 0 < total <= LARGEST_SUM and bool(np.all((weights >= 1) & (weights == np.rint(weights)))):
        return weights.astype(np.int32)
    scaled = weights * (LARGEST_SUM / total) if total > 0 else weights
    return np.maximum(np.rint(scaled), 1).astype(np.int32)
