"""Times of which some were never reached while watched (right-censored): medians and ratios of two groups. Pure.

A censored time is the horizon up to which a run was watched. It is no value: it says that the time is longer, and
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
Flags = npt.NDArray[np.bool_]
Side = Literal["less", "greater"]
MOST_SPLITS = 13_000  # all of 8 against 8; of larger groups so many are drawn
SEED = 16  # of that draw
DIGITS = 9  # decimals to which scaled times are compared: a ratio of two times shall make them equal
CLOSE = 1e-9  # sums of scores that differ by less are equal


@dataclass(frozen=True)
class RatioInterval:
    """A ratio of times. `point`: of the medians, None where one was not reached. Ends without a bound are 0 and inf."""

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
        """Return the geometric mean, as of paired ratios, or the median where some are horizons."""
        if any(self.censored):
            return self.median
        return float(np.exp(np.mean(np.log(self.times)))) if min(self.times) > 0.0 else 0.0


def median(times: Sequence[float], censored: Sequence[bool]) -> float | None:
    """Kaplan and Meier's median, s; None where it was not reached: it is longer than the longest horizon then.

    Where exactly half have got there it lies in the middle between that time and the next one, as of values without
    a horizon; without a next one it was not reached.
    """
    from scipy.stats import CensoredData, ecdf

    if all(censored):
        return None
    left = ecdf(CensoredData.right_censored(np.asarray(times, np.float64), np.asarray(censored, bool))).sf
    until_half = left.quantiles[left.probabilities <= 0.5 + CLOSE]
    beyond_half = left.quantiles[left.probabilities < 0.5 - CLOSE]
    return float(until_half[0] + beyond_half[0]) / 2 if len(beyond_half) else None


def ratio_interval(a: Times, b: Times, confidence: float = 0.95) -> RatioInterval:
    """Return the ratio a / b of the times: every ratio that the two-sided test does not reject at 1 - `confidence`.

    The least and the greatest of them; the test changes only at ratios of two times, so that all are tried. Three
    against three bound nothing: their smallest p is 0.1. Groups of none are a ValueError.
    """
    pooled = _Pooled.of(a, b)
    steps = pooled.ratios
    if not len(steps):
        return RatioInterval(None, 0.0, inf)
    between = np.sqrt(steps[1:] * steps[:-1])
    tried = np.sort(np.concatenate([steps[:1] / 2, steps, between, steps[-1:] * 2]))
    # Each place between two ratios stands for all between them.
    lows = np.repeat(np.concatenate([[0.0], steps]), 2)[:-1]
    lows[1::2], highs = steps, np.append(np.repeat(steps, 2), inf)
    kept = np.flatnonzero(np.minimum(1.0, 2.0 * np.minimum(*_tails(pooled, tried))) > 1.0 - confidence)
    point = None if a.median is None or not b.median else a.median / b.median
    if not len(kept):  # they differ in more than a factor: no ratio makes them alike, and none is bounded
        return RatioInterval(point, 0.0, inf)
    return RatioInterval(point, float(lows[kept[0]]), float(highs[kept[-1]]))


def ratio_p(a: Times, b: Times, ratio: float, side: Side) -> float:
    """One-sided p. `less`: of "a / b is `ratio` or more", small where it is less. `greater`: of "`ratio` or less".

    Equivalence within two bounds is both: `less` at the upper one and `greater` at the lower one.
    """
    less, greater = _tails(_Pooled.of(a, b), np.full(1, ratio))
    return float((less if side == "less" else greater)[0])


@dataclass(frozen=True)
class _Pooled:
    """The runs of both groups, a's first."""

    times: Array
    censored: Flags
    a_runs: int

    @classmethod
    def of(cls, a: Times, b: Times) -> "_Pooled":
        if not a.times or not b.times:
            raise ValueError(f"two groups are compared; there are {len(a.times)} and {len(b.times)} times")
        both = np.array([*a.times, *b.times], np.float64), np.array([*a.censored, *b.censored], bool)
        return cls(*both, len(a.times))

    @property
    def ratios(self) -> Array:
        """Ratios of each time of a and each of b, ascending: only there a test of a ratio changes."""
        a, b = self.times[: self.a_runs], self.times[self.a_runs :]
        found: Array = np.unique(np.divide.outer(a[a > 0.0], b[b > 0.0]))
        return found

    def scaled(self, ratios: Array) -> tuple[Array, Flags]:
        """(ratios, runs): b's times and horizons multiplied by each, and all cut at the first horizon.

        Behind the first horizon the groups were not watched alike (scaled ones never are): what happens there is no
        evidence, and without the cut a split could tell the groups by their horizons.
        """
        factors = np.ones((len(ratios), len(self.times)))
        factors[:, self.a_runs :] = ratios[:, None]
        times = np.round(self.times * factors, DIGITS)
        first = np.where(self.censored, times, inf).min(axis=1, keepdims=True)
        return np.minimum(times, first), self.censored | (times > first)


def _log_rank_scores(times: Array, censored: Flags) -> Array:
    """(ratios, runs): 1 for an event, less Nelson and Aalen's hazard until then; their sum over a group is its
    observed events less the expected ones, the numerator of the log-rank statistic."""
    reached = ~censored
    at_risk = (times[:, None, :] >= times[:, :, None]).sum(axis=2)
    hazards = reached / at_risk
    scores: Array = reached - (hazards[:, None, :] * (times[:, None, :] <= times[:, :, None])).sum(axis=2)
    return scores


@lru_cache(maxsize=32)
def _splits(a_runs: int, runs: int) -> tuple[Array, bool]:
    """(splits, runs): 1 for the runs of a; and whether these are all."""
    if comb(runs, a_runs) <= MOST_SPLITS:
        chosen = np.array(list(combinations(range(runs), a_runs)))
    else:
        chosen = np.random.default_rng(SEED).random((MOST_SPLITS, runs)).argsort(axis=1)[:, :a_runs]
    found = np.zeros((len(chosen), runs))
    np.put_along_axis(found, chosen, 1.0, axis=1)
    return found, comb(runs, a_runs) <= MOST_SPLITS


def _tails(pooled: _Pooled, ratios: Array) -> tuple[Array, Array]:
    """By ratio: the share of splits in which a has at least, and at most, as many events beyond those expected.

    Many events are short times. Of splits that were drawn the observed one is one more, so that no p is 0.
    """
    scores = _log_rank_scores(*pooled.scaled(ratios))
    splits, all_of_them = _splits(pooled.a_runs, len(pooled.times))
    sums, observed = splits @ scores.T, scores[:, : pooled.a_runs].sum(axis=1)
    more = 0 if all_of_them else 1
    many = ((sums >= observed - CLOSE).sum(axis=0) + more) / (len(splits) + more)
    few = ((sums <= observed + CLOSE).sum(axis=0) + more) / (len(splits) + more)
    return many, few
