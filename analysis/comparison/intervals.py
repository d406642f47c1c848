"""Differences of blocks -> interval and p-value. Arrays have the blocks on their last axis, so that the calibration
judges thousands of comparisons with the very code that judges one (decision 0010)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

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
    untied = [sign for sign in signs if sign]
    fewer = min(untied.count(1), untied.count(-1))
    tail: int = sum(comb(len(untied), k) for k in range(fewer + 1))
    return min(1.0, float(2 * tail / 2 ** len(untied)))
