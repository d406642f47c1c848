"""Statistics of paired differences of blocks: interval, p-value, sign test, and the number of blocks needed.

Pure. Arrays have the blocks on their last axis, so that the calibration judges thousands of comparisons with the
code that judges one (decision 0010).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MINIMUM_BLOCKS = 3  # two differences have a deviation, but an interval of half its width says nothing
CONFIDENCE = 0.95  # of every interval shown


@dataclass(frozen=True)
class Estimate:
    """The mean difference of blocks and its standard error, in logarithms where `logarithmic`."""

    mean: float
    error: float
    blocks: int
    logarithmic: bool

    @property
    def deviation(self) -> float:
        """Of the difference of one block."""
        return float(self.error * self.blocks**0.5)


def estimate(a: Sequence[float], b: Sequence[float], logarithmic: bool, quantum: float = 0.0) -> Estimate:
    """b against a, block by block; `quantum`: the step in which both are measured (see `least_deviation`)."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    differences = np.log(second / first) if logarithmic else second - first
    scale = float(first.mean()) if logarithmic else 1.0
    mean, error = mean_and_error(differences, least_deviation(quantum / scale))
    return Estimate(float(mean), float(error), len(differences), logarithmic)


def least_deviation(quantum: float) -> float:
    """Of a difference of two values that are rounded to whole quanta: equal values do not show that there is none."""
    return float(quantum / np.sqrt(6.0))


def mean_and_error(differences: Array, least: float | Array = 0.0) -> tuple[Array, Array]:
    deviation = np.maximum(differences.std(axis=-1, ddof=1), least)
    return differences.mean(axis=-1), deviation / np.sqrt(differences.shape[-1])


def half_width(error: float | Array, blocks: int, confidence: float | Array = CONFIDENCE) -> Array:
    """Student's: of the interval around the mean."""
    from scipy.stats import t

    return np.asarray(t.ppf(0.5 + np.asarray(confidence) / 2, blocks - 1) * error, dtype=np.float64)


def p_value(mean: float | Array, error: float | Array, blocks: int) -> Array:
    """Two-sided, that the mean difference is 0. Without any deviation: 0, or 1 where there is no difference either."""
    from scipy.stats import t

    size, spread = np.abs(mean), np.asarray(error, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(size == 0.0, 0.0, size / spread)
    return np.asarray(2 * t.sf(statistic, blocks - 1), dtype=np.float64)


def in_units(found: Estimate, value: float) -> float:
    """A point on the estimate's axis as people read it: percent of a, or the metric's own unit."""
    return 100.0 * float(np.expm1(value)) if found.logarithmic else value


def on_axis(found: Estimate, value: float) -> float:
    """The way back."""
    return float(np.log1p(value / 100.0)) if found.logarithmic else value


def sign_test(signs: Sequence[int]) -> float:
    """Exact, two-sided; ties (0) say nothing."""
    from scipy.stats import binomtest

    more, fewer = signs.count(1), signs.count(-1)
    return float(binomtest(fewer, more + fewer).pvalue) if more + fewer else 1.0


POWER = 0.8
MOST_BLOCKS = 999  # more are not worth naming


def blocks_needed(deviation: float, goal: float, level: float) -> int | None:
    """The fewest blocks that find `goal` in 80 % of the cases at `level`; their interval is narrower than ± goal then.

    `deviation`: of one block's difference, on the axis of `goal`. None: more than MOST, or nothing to go by.
    """
    if goal <= 0.0:
        return None
    if _has_power(deviation, goal, level, MINIMUM_BLOCKS):
        return MINIMUM_BLOCKS
    if not _has_power(deviation, goal, level, MOST_BLOCKS):
        return None
    too_few, enough = MINIMUM_BLOCKS, MOST_BLOCKS
    while enough - too_few > 1:  # power only grows with more blocks
        middle = ceil((too_few + enough) / 2)
        if _has_power(deviation, goal, level, middle):
            enough = middle
        else:
            too_few = middle
    return enough


def _has_power(deviation: float, goal: float, level: float, number: int) -> bool:
    error = deviation / sqrt(number)
    return error == 0.0 or power(goal / error, number, level) >= POWER


def power(shift: float, number: int, level: float) -> float:
    """Of Student's paired test for a difference of `shift` standard errors."""
    from scipy.stats import norm, t

    bound = float(t.ppf(1 - level / 2, number - 1))
    # A normal approximation: scipy's noncentral t is nan far out, where the answer is plainly 1.
    return float(norm.sf((bound * (1 - 1 / (4 * (number - 1))) - shift) / sqrt(1 + bound**2 / (2 * (number - 1)))))
