"""Times of which some were never reached while watched (right-censored): medians and ratios of two groups. Pure.

A censored time is the horizon up to which a run was watched. It is not a value, only a lower bound, and
enters no median, mean or rank. The median is Kaplan and Meier's; two groups are compared by the log-rank statistic
(Mantel 1966), whose distribution is that over all ways to split the pooled runs into two groups of these sizes.

A ratio is that of an accelerated failure time: the times of b multiplied by it are distributed as those of a.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, inf
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Side = Literal["less", "greater"]
MOST_SPLITS = 13_000  # all of 8 against 8; for larger groups so many are drawn
SEED = 16  # of that draw
DIGITS = 9  # decimals to which scaled times are compared: a ratio of two times must make them equal
CLOSE = 1e-9  # sums of scores that differ by less are equal


@dataclass(frozen=True)
class RatioInterval:
    """A ratio of times. `point`: of the medians, None if one was not reached. Ends without a bound are 0 and inf."""

    point: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Times:
    """Times of the runs of one side, s; `censored`: which of them are only horizons."""

    times: tuple[float, ...]
    censored: tuple[bool, ...]

    @property
    def median(self) -> float | None:
        return median(self.times, self.censored)

    @property
    def typical(self) -> float | None:
        """Return the geometric mean, as for paired ratios, or the median if some are horizons."""
        if any(self.censored):
            return self.median
        return float(np.exp(np.mean(np.log(self.times)))) if min(self.times) > 0.0 else 0.0


def median(times: Sequence[float], censored: Sequence[bool]) -> float | None:
    """Return Kaplan and Meier's median, s; None if it was not reached: then it is longer than the longest horizon.

    If exactly half have got there it lies in the middle between that time and the next one, as for values without
    a horizon; without a next one it was not reached.
    """
    from scipy.stats import CensoredData, ecdf

    if all(censored):
        return None
    function = ecdf(CensoredData.right_censored(np.asarray(times, np.float64), np.asarray(censored, bool))).sf
    until_half = function.quantiles[function.probabilities <= 0.5 + CLOSE]
    beyond_half = function.quantiles[function.probabilities < 0.5 - CLOSE]
    return float(until_half[0] + beyond_half[0]) / 2 if len(beyond_half) else None


def ratio_interval(a: Times, b: Times, confidence: float = 0.95) -> RatioInterval:
    """Return the ratio a / b of the times: every ratio that the two-sided test does not reject at 1 - `confidence`.

    The least and the greatest of them; the test changes only at ratios of two times, so that all are tried. Three
    against three give no bound: their smallest p is 0.1. An empty group is a ValueError.
    """
    times_a, times_b = (np.array([time for time in side.times if time > 0.0]) for side in (a, b))
    steps = np.unique(np.divide.outer(times_a, times_b))  # the test changes only there
    if not len(steps):
        return RatioInterval(None, 0.0, inf)
    between = np.sqrt(steps[1:] * steps[:-1])
    candidates = np.sort(np.concatenate([steps[:1] / 2, steps, between, steps[-1:] * 2]))
    # Each place between two ratios stands for all between them.
    lows = np.repeat(np.concatenate([[0.0], steps]), 2)[:-1]
    lows[1::2], highs = steps, np.append(np.repeat(steps, 2), inf)
    indices = np.flatnonzero(np.minimum(1.0, 2.0 * np.minimum(*_tails(a, b, candidates))) > 1.0 - confidence)
    point = None if a.median is None or not b.median else a.median / b.median
    if not len(indices):  # they differ in more than a factor: no ratio makes them alike, and none is bounded
        return RatioInterval(point, 0.0, inf)
    return RatioInterval(point, float(lows[indices[0]]), float(highs[indices[-1]]))


def ratio_p(a: Times, b: Times, ratio: float, side: Side) -> float:
    """Return the one-sided p. `less`: of "a / b is `ratio` or more", small if it is less. `greater`: of "`ratio` or
    less".

    Equivalence within two bounds is both: `less` at the upper one and `greater` at the lower one.
    """
    p_less, p_greater = _tails(a, b, np.full(1, ratio))
    return float((p_less if side == "less" else p_greater)[0])


@lru_cache(maxsize=32)
def _splits(a_runs: int, runs: int) -> tuple[Array, bool]:
    """Return as (splits, runs) 1 for the runs of a; and whether these are all splits."""
    if comb(runs, a_runs) <= MOST_SPLITS:
        indices = np.array(list(combinations(range(runs), a_runs)))
    else:
        indices = np.random.default_rng(SEED).random((MOST_SPLITS, runs)).argsort(axis=1)[:, :a_runs]
    matrix = np.zeros((len(indices), runs))
    np.put_along_axis(matrix, indices, 1.0, axis=1)
    return matrix, comb(runs, a_runs) <= MOST_SPLITS


def _scores(a: Times, b: Times, ratios: Array) -> Array:
    """Return as (ratios, runs), with b's times and horizons multiplied by each, 1 for an event, less Nelson and Aalen's
    hazard until then; their sum over a group is its observed events less the expected ones, the numerator of the
    log-rank statistic."""
    censored = np.array([*a.censored, *b.censored], bool)
    factors = np.ones((len(ratios), len(censored)))
    factors[:, len(a.times) :] = ratios[:, None]
    times = np.round(np.array([*a.times, *b.times], np.float64) * factors, DIGITS)
    # Behind the first horizon the groups were not watched alike (scaled ones never are): what happens there is no
    # evidence, and without the cut a split could distinguish the groups by their horizons.
    first = np.where(censored, times, inf).min(axis=1, keepdims=True)
    times, is_event = np.minimum(times, first), ~(censored | (times > first))
    hazards = is_event / (times[:, None, :] >= times[:, :, None]).sum(axis=2)
    scores: Array = is_event - (hazards[:, None, :] * (times[:, None, :] <= times[:, :, None])).sum(axis=2)
    return scores


def _tails(a: Times, b: Times, ratios: Array) -> tuple[Array, Array]:
    """Return by ratio the share of splits in which a has at least, and at most, as many events beyond those expected.

    Many events are short times. The observed split is added to drawn ones, so that no p is 0.
    """
    a_runs, runs = len(a.times), len(a.times) + len(b.times)
    if not 0 < a_runs < runs:
        raise ValueError(f"two groups are compared; there are {a_runs} and {runs - a_runs} times")
    scores, (splits, all_of_them) = _scores(a, b, ratios), _splits(a_runs, runs)
    sums, score = splits @ scores.T, scores[:, :a_runs].sum(axis=1)
    extra = 0 if all_of_them else 1
    p_many = ((sums >= score - CLOSE).sum(axis=0) + extra) / (len(splits) + extra)
    p_few = ((sums <= score + CLOSE).sum(axis=0) + extra) / (len(splits) + extra)
    return p_many, p_few
