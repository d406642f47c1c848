"""Change points of a series of nights: Apache Otava's, the steps that matter among them, and the possible places of a
step. Pure.

Otava finds where a distribution changes; three things turn that into steps. A lone outlier night is set to the
level around it before Otava sees it, and stretches shorter than a confirmation are left out: one or two spikes are
not a step. Levels are medians. A step smaller than what matters is undone, the smallest first, so that its sides
become one.

Edges: with levels and scatter known, moving the border by one night costs the worse fit of that night to its new
side, in squared standard deviations. Every border that costs little more than the cheapest may be the true one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from analysis.metrics.definitions import Metric
from analysis.stats.paired_differences import step_floor

LONE_NIGHT_SIGMAS = 3.5  # beyond this many standard deviations from both sides a night is an outlier
Counts = npt.NDArray[np.int_]
SHARE_MAX_P = 0.001  # for a share that changed at any border, by Fisher's test
NIGHTS_AROUND = 3  # nights before it, and as many after it, around a night
LEAST_NIGHTS_BEFORE = 3  # nights before a step: with fewer their scatter is unknown


@dataclass(frozen=True)
class Rule:
    """The conditions of a change that counts; the defaults were chosen from `python -m bench.statistics.nights`.

    A change is at most `max_p` likely without one (Otava's test, over windows of `window_nights`), and its size at
    least `minimum_percent` of the level before. It is confirmed by `confirming_nights` after the first.
    """

    window_nights: int = 50
    max_p: float = 1e-6
    minimum_percent: float = 3.0
    confirming_nights: int = 2

    @property
    def nights_to_confirm(self) -> int:
        return self.confirming_nights + 1


@dataclass(frozen=True)
class Candidate:
    """A change point: the index of the first value of a new stretch, and Otava's p."""

    index: int
    p: float


@dataclass(frozen=True)
class Stretch:
    """Values from `start` to before `stop`, between two changes."""

    start: int
    stop: int
    level: float

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Step:
    """A change from one level to another. `needed`: the least size that matters, in the metric's unit."""

    before: Stretch
    after: Stretch
    p: float
    needed: float

    @property
    def difference(self) -> float:
        return self.after.level - self.before.level

    @property
    def percent(self) -> float | None:
        return 100.0 * self.difference / self.before.level if self.before.level > 0 else None

    def beyond(self, value: float) -> bool:
        """Return whether a value lies on the side of the new level."""
        middle = (self.before.level + self.after.level) / 2
        return value > middle if self.difference > 0 else value < middle


def change_points(values: Sequence[float], rule: Rule) -> tuple[Candidate, ...]:
    """Return Otava's change points for the values with outlier nights removed."""
    from otava.analysis import compute_change_points

    if len(values) < LEAST_NIGHTS_BEFORE + 1 or min(values) == max(values):
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # stretches without scatter divide by zero, which is right
        points, _ = compute_change_points(without_lone_nights(values), rule.window_nights, rule.max_p, 0.0)
    return tuple(Candidate(int(point.index), float(point.stats.pvalue)) for point in points)


def share_changes(hits: Sequence[int], runs: Sequence[int]) -> tuple[Candidate, ...]:
    """Return where a share of the runs of each night changes: Fisher's exact test of the runs before and after each
    border, the smallest p of the borders times their number; then each side by itself.

    One to three runs a night have a share of 0, 33, 67 or 100 %: a change point of such numbers says nothing, and a
    single night that differs is no outlier among them.
    """
    return tuple(sorted(_share_borders(np.asarray(hits), np.asarray(runs), 0), key=lambda found: found.index))


def _share_borders(hits: Counts, runs: Counts, first: int) -> list[Candidate]:
    if len(hits) < LEAST_NIGHTS_BEFORE + 1:
        return []
    from scipy.stats import hypergeom

    before, totals = hits.cumsum()[:-1], runs.cumsum()[:-1]
    either_way = (
        hypergeom.cdf(before, runs.sum(), hits.sum(), totals),
        hypergeom.sf(before - 1, runs.sum(), hits.sum(), totals),
    )
    p_values = np.minimum(1.0, 2.0 * np.minimum(*either_way) * len(before))
    place = int(np.argmin(p_values)) + 1
    if p_values[place - 1] > SHARE_MAX_P:
        return []
    return [
        Candidate(first + place, float(p_values[place - 1])),
        *_share_borders(hits[:place], runs[:place], first),
        *_share_borders(hits[place:], runs[place:], first + place),
    ]


def scatter(values: Sequence[float]) -> float:
    """Return the standard deviation from night to night, as robust as a median: steps and outliers hardly count."""
    return neighbour_deviation(abs(b - a) for a, b in pairwise(values))


def plain_scatter(values: Sequence[float]) -> float:
    """Return the same, not robust: if more than half of the nights repeat the previous one, `scatter` is 0 whatever the
    others are. 0 only if all are equal."""
    return math.sqrt(fmean((b - a) ** 2 for a, b in pairwise(values)) / 2)


def neighbour_deviation(distances: Iterable[float]) -> float:
    """Return the standard deviation of values from the distances of neighbours, as robust as a median."""
    return 1.4826 * median(distances) / math.sqrt(2)


def without_lone_nights(values: Sequence[float]) -> list[float]:
    """Set each night that differs from both the nights before it and those after it to their median.

    The last night is never an outlier: the following ones are not known yet.
    """
    limit = LONE_NIGHT_SIGMAS * scatter(values)
    result = list(values)
    for i in range(1, len(values) - 1):
        before, after = result[max(0, i - NIGHTS_AROUND) : i], values[i + 1 : i + 1 + NIGHTS_AROUND]
        level, value = median(before), values[i]
        distance, next_away = value - level, values[i + 1] - level
        if abs(distance) > limit and abs(next_away) < abs(distance) / 2:
            result[i] = median([*before, *after])
    return result


def steps(values: Sequence[float], found: Sequence[Candidate], metric: Metric, rule: Rule,
          noise: float | None = None, share: bool = False,
          errors: Sequence[float] = ()) -> tuple[Step, ...]:  # fmt: skip
    """Return the changes that matter, in order. `noise`: standard deviation between nights of the same code, if known.
    `share`: values are shares of the few runs of a night; their level is the mean, because a median of those is 0 or
    100 %. `errors`: the possible measurement error of each night's value."""
    candidates, level = sorted(found, key=lambda candidate: candidate.index), fmean if share else median
    while candidates:
        p_of = {candidate.index: candidate.p for candidate in candidates}
        borders = pairwise([0, *p_of, len(values)])
        stretches = [Stretch(start, stop, level(values[start:stop])) for start, stop in borders]
        long_stretches = [
            stretch for stretch in stretches if len(stretch) >= rule.nights_to_confirm or stretch.stop == len(values)
        ]
        changes = [
            Step(before, after, p_of[after.start], needed_difference(before, after, metric, rule, noise, errors))
            for before, after in pairwise(long_stretches)
            if len(before) >= LEAST_NIGHTS_BEFORE
        ]
        small_steps = [step for step in changes if abs(step.difference) < step.needed or step.difference == 0]
        if not small_steps:
            return tuple(changes)
        smallest = min(small_steps, key=lambda step: abs(step.difference) / step.needed if step.needed else 0.0)
        candidates = [
            candidate for candidate in candidates if not smallest.before.stop <= candidate.index <= smallest.after.start
        ]
    return ()


def needed_difference(before: Stretch, after: Stretch, metric: Metric, rule: Rule, noise: float | None,
                      errors: Sequence[float] = ()) -> float:  # fmt: skip
    """Return how large a step must be: worth naming in its unit, and in percent, and larger than the noise of the same
    code and than the possible errors of both levels."""
    percent = 0.0 if metric.unit == "points" else rule.minimum_percent / 100 * abs(before.level)
    error_sum = sum(median(errors[side.start : side.stop]) for side in (before, after)) if errors else 0.0
    return max(metric.smallest, percent, step_floor(noise, len(before), len(after)), error_sum)


# A border whose fit is worse by more than this is not the true one (docs/decisions/statistics.md).
MOST_EXTRA_COST = 8.0
LEAST_SCATTER = 1e-3  # of the step: without scatter a border is where the values say


@dataclass(frozen=True)
class Edges:
    """Indices of values: the last clearly good one, the likeliest first bad one, the first clearly bad one."""

    good: int
    since: int
    bad: int


def edges(values: Sequence[float], step: Step, share: bool = False) -> Edges:
    """Return the edges of a step. `share`: values are shares of the few runs of a night; they scatter by their
    distances from the levels."""
    first, border_found, last = step.before.start, step.after.start, step.after.stop
    before, after = step.before.level, step.after.level
    sigma = scatter(values[first:last])
    if share:
        squares = [
            (value - side.level) ** 2 for side in (step.before, step.after) for value in values[side.start : side.stop]
        ]
        sigma = math.sqrt(fmean(squares))
    sigma = max(sigma, LEAST_SCATTER * abs(step.difference))
    # How much nearer to the new level than to the old one, in squares.
    gains = [((value - before) ** 2 - (value - after) ** 2) / sigma**2 for value in values]
    # By border (the first value of the new level) how much worse than the found border it fits.
    costs, cost = {border_found: 0.0}, 0.0
    for border in range(border_found - 1, first, -1):
        cost -= gains[border]
        costs[border] = cost
    cost = 0.0
    for border in range(border_found + 1, last):
        cost += gains[border - 1]
        costs[border] = cost
    lowest_cost = min(costs.values())
    start = min(costs, key=lambda border: (costs[border], abs(border - step.after.start)))
    borders = [border for border, cost in costs.items() if cost <= lowest_cost + MOST_EXTRA_COST]
    return Edges(min(borders) - 1, start, max(borders))
