"""Change points of a series of nights: Apache Otava's, the steps that matter among them, and where a step may lie.
Pure.

Otava finds where a distribution changes; three things turn that into steps. A night that stands alone is set to the
level around it before Otava sees it, and stretches shorter than a confirmation are left out: one or two spikes are
no step. Levels are medians. A step smaller than what matters is undone, the smallest first, so that its sides
become one.

Edges: with levels and scatter known, moving the border by one night costs what that night fits worse to its new
side, in squared standard deviations. Every border that costs little more than the cheapest may be the true one.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from analysis.metrics.definitions import Metric
from analysis.stats.same_code_floors import step_floor

LONE_NIGHT_SIGMAS = 3.5  # beyond this many standard deviations from both sides a night stands alone
Counts = npt.NDArray[np.int_]
SHARE_MAX_P = 0.001  # of a share that changed at any border, by Fisher's test
NIGHTS_AROUND = 3  # nights before it, and as many after it, that say what is around a night
LEAST_NIGHTS_BEFORE = 3  # nights before a step: of fewer nobody knows how much they scatter


@dataclass(frozen=True)
class Rule:
    """When a change counts; the defaults were chosen from `python -m bench.statistics.nights`.

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
    """From one level to another. `needed`: how large it had to be to matter, in the metric's unit."""

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
    """Otava's answer for values without the nights that stand alone."""
    from otava.analysis import compute_change_points

    if len(values) < LEAST_NIGHTS_BEFORE + 1 or min(values) == max(values):
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # stretches without any scatter divide by zero, which is right
        found, _ = compute_change_points(without_lone_nights(values), rule.window_nights, rule.max_p, 0.0)
    return tuple(Candidate(int(point.index), float(point.stats.pvalue)) for point in found)


def share_changes(hits: Sequence[int], runs: Sequence[int]) -> tuple[Candidate, ...]:
    """Where a share of the runs of each night changes: Fisher's exact test of the runs before and after each border,
    the smallest p of the borders times their number; then each side by itself.

    One to three runs a night have a share of 0, 33, 67 or 100 %: a change point of such numbers says nothing, and a
    single night that differs is no outlier among them.
    """
    return tuple(sorted(_share_borders(np.asarray(hits), np.asarray(runs), 0), key=lambda found: found.index))


def _share_borders(hits: Counts, runs: Counts, first: int) -> list[Candidate]:
    if len(hits) < LEAST_NIGHTS_BEFORE + 1:
        return []
    from scipy.stats import hypergeom

    before, of = hits.cumsum()[:-1], runs.cumsum()[:-1]
    either_way = (
        hypergeom.cdf(before, runs.sum(), hits.sum(), of),
        hypergeom.sf(before - 1, runs.sum(), hits.sum(), of),
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
    """Standard deviation from night to night, as robust as a median: steps and lone nights hardly count."""
    return neighbour_deviation(abs(b - a) for a, b in pairwise(values))


def plain_scatter(values: Sequence[float]) -> float:
    """The same, not robust: where more than half of the nights repeat the one before, `scatter` is 0 whatever the
    others were. 0 only where all are equal."""
    return math.sqrt(fmean((b - a) ** 2 for a, b in pairwise(values)) / 2)


def neighbour_deviation(distances: Iterable[float]) -> float:
    """Standard deviation of values, as robust as a median, by the distances of neighbours."""
    return 1.4826 * median(distances) / math.sqrt(2)


def without_lone_nights(values: Sequence[float]) -> list[float]:
    """Each night that neither the nights before it nor those after it are like is put to their median.

    The last night never stands alone: what follows is not known yet.
    """
    limit = LONE_NIGHT_SIGMAS * scatter(values)
    tamed = list(values)
    for i in range(1, len(values) - 1):
        before, after = tamed[max(0, i - NIGHTS_AROUND) : i], values[i + 1 : i + 1 + NIGHTS_AROUND]
        level, value = median(before), values[i]
        away, next_away = value - level, values[i + 1] - level
        if abs(away) > limit and abs(next_away) < abs(away) / 2:
            tamed[i] = median([*before, *after])
    return tamed


def steps(values: Sequence[float], found: Sequence[Candidate], metric: Metric, rule: Rule,
          noise: float | None = None, share: bool = False,
          errors: Sequence[float] = ()) -> tuple[Step, ...]:  # fmt: skip
    """Return the changes that matter, in order. `noise`: standard deviation between nights of the same code, where
    known. `share`: of the few runs of a night; its level is the mean, for a median of those is 0 or 100 %. `errors`: by
    how much each night's value may be wrong as it was measured."""
    candidates = sorted(found, key=lambda candidate: candidate.index)
    needs = partial(needed_difference, metric=metric, rule=rule, noise=noise, errors=errors)
    while candidates:
        changes = _steps_between(values, candidates, rule, needs, fmean if share else median)
        small = [step for step in changes if abs(step.difference) < step.needed or step.difference == 0]
        if not small:
            return tuple(changes)
        least = min(small, key=lambda step: abs(step.difference) / step.needed if step.needed else 0.0)
        candidates = [
            candidate for candidate in candidates if not least.before.stop <= candidate.index <= least.after.start
        ]
    return ()


def _steps_between(
    values: Sequence[float],
    found: Sequence[Candidate],
    rule: Rule,
    needs: Callable[[Stretch, Stretch], float],
    level: Callable[[Sequence[float]], float],
) -> list[Step]:
    borders = [0, *(candidate.index for candidate in found), len(values)]
    p_of = {candidate.index: candidate.p for candidate in found}
    stretches = [Stretch(a, b, level(values[a:b])) for a, b in pairwise(borders)]
    lasting = [
        stretch for stretch in stretches if len(stretch) >= rule.nights_to_confirm or stretch.stop == len(values)
    ]
    return [
        Step(before, after, p_of[after.start], needs(before, after))
        for before, after in pairwise(lasting)
        if len(before) >= LEAST_NIGHTS_BEFORE
    ]


def needed_difference(before: Stretch, after: Stretch, metric: Metric, rule: Rule, noise: float | None,
                      errors: Sequence[float] = ()) -> float:  # fmt: skip
    """Return how large a step must be: worth naming in its unit, and in percent, and beyond what the same code does and
    what both levels may be wrong by."""
    percent = 0.0 if metric.unit == "points" else rule.minimum_percent / 100 * abs(before.level)
    wrong = sum(median(errors[side.start : side.stop]) for side in (before, after)) if errors else 0.0
    return max(metric.smallest, percent, step_floor(noise, len(before), len(after)), wrong)


# A border that fits worse by more than this is not the true one (docs/decisions/statistics.md).
MOST_EXTRA_COST = 8.0
LEAST_SCATTER = 1e-3  # of the step: where nothing scatters a border is where the values say


@dataclass(frozen=True)
class Edges:
    """Places among the values: the last clearly good one, the likeliest first bad one, the first clearly bad one."""

    good: int
    since: int
    bad: int


def edges(values: Sequence[float], step: Step, share: bool = False) -> Edges:
    """`share`: of the few runs of a night; such values scatter by their distances from the levels."""
    costs = _costs(values, step, _level_scatter(values, step) if share else None)
    least = min(costs.values())
    since = min(costs, key=lambda border: (costs[border], abs(border - step.after.start)))
    likely = [border for border, cost in costs.items() if cost <= least + MOST_EXTRA_COST]
    return Edges(min(likely) - 1, since, max(likely))


def _level_scatter(values: Sequence[float], step: Step) -> float:
    squares = [
        (value - side.level) ** 2 for side in (step.before, step.after) for value in values[side.start : side.stop]
    ]
    return math.sqrt(fmean(squares))


def _costs(values: Sequence[float], step: Step, sigma: float | None) -> dict[int, float]:
    """By border (the first value of the new level): how much worse than the border found it fits."""
    first, found, last = step.before.start, step.after.start, step.after.stop
    sigma = max(scatter(values[first:last]) if sigma is None else sigma, LEAST_SCATTER * abs(step.difference))
    # How much nearer to the new level than to the old one, in squares.
    before, after = step.before.level, step.after.level
    for_new = [((value - before) ** 2 - (value - after) ** 2) / sigma**2 for value in values]
    costs, cost = {found: 0.0}, 0.0
    for border in range(found - 1, first, -1):
        cost -= for_new[border]
        costs[border] = cost
    cost = 0.0
    for border in range(found + 1, last):
        cost += for_new[border - 1]
        costs[border] = cost
    return costs
