"""Pairwise packing of items into bins, those with most traffic first: both phases of the greedy scheduler (MP IV-B).

A bin takes limited items and load. If neither of a pair is in a bin, both go to the least loaded bin that takes them,
or, without one, to a bin each. Else the bins that hold either and the least loaded one that would take the heavier are
tried for both, nine combinations at most: the one with least traffic between bins, the first among equals. The traffic
of combinations differs by the two items' traffic with these bins, so only that is added up;
tests/support/greedy_reference.py adds up everything, as in the paper, with the same answers.

Decisions where MP is silent: of equal pairs the one with the lower items is first, of equal bins the first.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import numpy as np

from scheduler_plugins.policies.communication import CommunicationGraph, Flags, Integers, Numbers

OUT = -1  # the bin of an unplaced item
ROUNDING = 1e-9  # of sums of loads


class NoRoom(Exception):
    """No bin takes an item."""


class Names(NamedTuple):
    """Words for items, bins and loads. `whole`: loads are whole numbers."""

    item: str
    items: str
    bin: str
    load: str = "load"
    whole: bool = False


def pairwise_bins(
    graph: CommunicationGraph, most_items: Integers, most_load: Numbers, names: Names, *, strict: bool, least_used: int,
    in_use: Numbers | None = None,
) -> Integers:  # fmt: skip
    """Return the bin of each item; at least `least_used` bins get one, as far as possible.

    `graph`: traffic between items; its vertex weights are their loads, in cores. `most_items`, `most_load`: of each
    bin; there is room for all items, if not for their loads. `in_use`: load of each bin by others. With `strict` NoRoom
    is raised where an item's load is too much for each bin that has room; else the least loaded of these takes it
    anyway.
    """
    in_use = np.zeros(len(most_load)) if in_use is None else in_use
    placement = _PairwisePlacement(graph, most_items, most_load, names, in_use, strict=strict)
    placement.put_pairs()
    placement.put_rest()
    placement.use_at_least(least_used)
    return np.array(placement.bins)


class _PairwisePlacement:
    def __init__(
        self, graph: CommunicationGraph, most_items: Integers, most_load: Numbers, names: Names, in_use: Numbers, *,
        strict: bool,
    ) -> None:  # fmt: skip
        self._names = names
        self._graph, self._loads, self._strict = graph, graph.vertex_weights.tolist(), strict
        self._starts = graph.starts.tolist()
        self._most_items, self._most_load = most_items, most_load * (1 + ROUNDING)
        self.bins = [OUT] * len(self._loads)  # of each item
        self._items, self._load, self._room = np.zeros(len(most_items), np.int64), in_use.copy(), most_load - in_use

    def put_pairs(self) -> None:
        rows = self._graph.rows()
        is_first = rows < self._graph.neighbours
        first, second = rows[is_first], self._graph.neighbours[is_first]
        traffic = self._graph.edge_weights[is_first]
        order = np.argsort(-traffic, kind="stable")
        for one, other, rate in zip(
            first[order].tolist(), second[order].tolist(), traffic[order].tolist(), strict=True
        ):
            self._put_pair(one, other, rate)

    def put_rest(self) -> None:
        """Put items without a pair into the least loaded bin."""
        for item in [item for item, bin_ in enumerate(self.bins) if bin_ == OUT]:
            self._put(item, self._bin_for(item))

    def use_at_least(self, number: int) -> None:
        """While fewer bins are in use, move the item with least traffic in its bin, of bins with several, to the least
        loaded empty one."""
        while np.count_nonzero(self._items) < number:
            item = self._loosest_item()
            target = None if item is None else self._least_loaded(1, self._loads[item], self._items == 0)
            if item is None or target is None:
                return
            self._take_out(item)
            self._put(item, target)

    def _loosest_item(self) -> int | None:
        bins, rows = np.array(self.bins), self._graph.rows()
        is_inside = bins[rows] == bins[self._graph.neighbours]
        rates_inside = np.bincount(rows[is_inside], self._graph.edge_weights[is_inside], len(bins))
        is_movable = (bins != OUT) & (self._items[bins] > 1)
        return int(np.argmin(np.where(is_movable, rates_inside, np.inf))) if is_movable.any() else None

    def _put_pair(self, one: int, other: int, rate: float) -> None:
        holding = sorted({self.bins[one], self.bins[other]} - {OUT})
        if holding:
            self._put_best(one, other, rate, holding)
            return
        bin_of_both = self._least_loaded(2, self._loads[one] + self._loads[other])
        if bin_of_both is not None:
            self._put(one, bin_of_both)
            self._put(other, bin_of_both)
            return
        self._put(one, self._bin_for(one))
        self._put(other, self._bin_for(other))

    def _put_best(self, one: int, other: int, rate: float, holding: list[int]) -> None:
        least_loaded = self._least_loaded(1, max(self._loads[one], self._loads[other]))
        candidates = holding if least_loaded is None or least_loaded in holding else [*holding, least_loaded]
        bins_before = self.bins[one], self.bins[other]
        self._take_out(one)
        self._take_out(other)
        choice = self._best_bins(one, other, rate, candidates)
        if choice is None and self._strict:
            raise NoRoom(self._no_room(max(one, other, key=lambda item: self._loads[item])))
        if choice is not None:
            self._put(one, choice[0])
            self._put(other, choice[1])
            return
        for item, bin_ in sorted(zip((one, other), bins_before, strict=True), key=lambda pair: pair[1] == OUT):
            self._put(item, self._bin_for(item) if bin_ == OUT else bin_)

    def _best_bins(self, one: int, other: int, rate: float, tried: list[int]) -> tuple[int, int] | None:
        near_one, near_other = self._exchanged(one, tried), self._exchanged(other, tried)
        choice, most_traffic = None, -1.0
        for bin_one in tried:
            if not self._takes(bin_one, one):
                continue
            for bin_other in tried:
                is_same = bin_one == bin_other
                traffic_inside = near_one[bin_one] + near_other[bin_other] + (rate if is_same else 0.0)
                if traffic_inside > most_traffic and self._takes(bin_other, other, beside=one if is_same else None):
                    choice, most_traffic = (bin_one, bin_other), traffic_inside
        return choice

    def _exchanged(self, item: int, bins: list[int]) -> dict[int, float]:
        """Return the traffic with the items of each of these bins."""
        traffic = dict.fromkeys(bins, 0.0)
        begin, end = self._starts[item], self._starts[item + 1]
        neighbours = self._graph.neighbours[begin:end].tolist()
        for neighbour, rate in zip(neighbours, self._graph.edge_weights[begin:end].tolist(), strict=True):
            if self.bins[neighbour] in traffic:
                traffic[self.bins[neighbour]] += rate
        return traffic

    def _takes(self, bin_: int, item: int, beside: int | None = None) -> bool:
        items, load = (1, self._loads[item]) if beside is None else (2, self._loads[item] + self._loads[beside])
        fits: bool = (
            self._items[bin_] + items <= self._most_items[bin_] and self._load[bin_] + load <= self._most_load[bin_]
        )
        return fits

    def _least_loaded(self, items: int, load: float, among: Flags | None = None) -> int | None:
        fits = (self._items + items <= self._most_items) & (self._load + load <= self._most_load)
        fits = fits if among is None else fits & among
        at = int(np.argmin(np.where(fits, self._load, np.inf)))
        return at if fits[at] else None

    def _bin_for(self, item: int) -> int:
        at = self._least_loaded(1, self._loads[item])
        if at is None and self._strict:
            raise NoRoom(self._no_room(item))
        return int(np.argmin(np.where(self._items < self._most_items, self._load, np.inf))) if at is None else at

    def _no_room(self, item: int) -> str:
        names, digits = self._names, 0 if self._names.whole else 3
        items, load = self._most_items.max(), self._room.max()
        load_limit = floor(load + ROUNDING) if names.whole else load
        limits = f"{items} {names.item if items == 1 else names.items} and a {names.load} of {load_limit:.{digits}f}"
        one = f"{names.item} with a {names.load} of {self._loads[item]:.{digits}f}"
        return f"no {names.bin} takes one more {one}; allowed are {limits}"

    def _put(self, item: int, bin_: int) -> None:
        self.bins[item] = bin_
        self._items[bin_] += 1
        self._load[bin_] += self._loads[item]

    def _take_out(self, item: int) -> None:
        if self.bins[item] != OUT:
            self._items[self.bins[item]] -= 1
            self._load[self.bins[item]] -= self._loads[item]
            self.bins[item] = OUT
