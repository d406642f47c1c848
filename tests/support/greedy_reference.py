"""The greedy scheduler's phases as MP IV-B says them: for each combination the traffic between all bins is added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

Traffic = Mapping[tuple[int, int], float]  # (lower item, higher item) → rate


def between(bins: Mapping[int, int], traffic: Traffic) -> float:
    """Traffic between items in different bins, of those that are in one."""
    placed = ((pair, rate) for pair, rate in traffic.items() if pair[0] in bins and pair[1] in bins)
    return sum(rate for (one, other), rate in placed if bins[one] != bins[other])


def greedy_bins(
    loads: Sequence[float], traffic: Traffic, most_items: Sequence[int], most_load: Sequence[float], least_used: int
) -> dict[int, int] | None:
    """The bin of each item; None where an item finds none."""
    bins: dict[int, int] = {}

    def takes(bin_: int, *items: int) -> bool:
        mine = [item for item, at in bins.items() if at == bin_] + list(items)
        return len(mine) <= most_items[bin_] and sum(loads[item] for item in mine) <= most_load[bin_]

    def load(bin_: int) -> float:
        return sum(loads[item] for item, at in bins.items() if at == bin_)

    def least_loaded(number: int, more: float, among: Sequence[int]) -> int | None:
        fit = [
            bin_
            for bin_ in among
            if sum(at == bin_ for at in bins.values()) + number <= most_items[bin_]
            and load(bin_) + more <= most_load[bin_]
        ]
        return min(fit, key=load, default=None)

    every = range(len(most_items))
    pairs = [pair for pair in combinations(range(len(loads)), 2) if traffic.get(pair)]
    for one, other in sorted(pairs, key=lambda pair: -traffic[pair]):
        holding = sorted({bins[item] for item in (one, other) if item in bins})
        if not holding:
            both = least_loaded(2, loads[one] + loads[other], every)
            for item in (one, other):
                at = least_loaded(1, loads[item], every) if both is None else both
                if at is None:
                    return None
                bins[item] = at
            continue
        least = least_loaded(1, max(loads[one], loads[other]), every)
        tried = holding if least is None or least in holding else [*holding, least]
        bins.pop(one, None), bins.pop(other, None)
        found: list[tuple[float, int, int, int]] = []
        for a in tried:
            for b in tried:
                if takes(a, one) and takes(b, *((one, other) if a == b else (other,))):
                    found.append((between({**bins, one: a, other: b}, traffic), len(found), a, b))
        if not found:
            return None
        _, _, bins[one], bins[other] = min(found)
    for item in range(len(loads)):
        if item not in bins:
            at = least_loaded(1, loads[item], every)
            if at is None:
                return None
            bins[item] = at
    while len(set(bins.values())) < least_used:
        crowded = [item for item in range(len(loads)) if list(bins.values()).count(bins[item]) > 1]
        empty = [bin_ for bin_ in every if bin_ not in bins.values()]

        def moved(item: int, to: Sequence[int] = empty) -> float:
            return between({**bins, item: to[0]}, traffic)

        item = min(crowded, key=moved, default=None)
        at = None if item is None else least_loaded(1, loads[item], empty)
        if item is None or at is None:
            break
        bins[item] = at
    return bins
