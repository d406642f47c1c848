"""Intervals, tests and effect sizes over the repetitions of an experiment. Pure numpy and scipy, seeded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A point estimate and its percentile bootstrap interval."""

    point: float
    low: float
    high: float


def _bootstrap_medians(values: Array, rng: np.random.Generator) -> Array:
    picks = rng.integers(0, len(values), size=(RESAMPLES, len(values)))
    medians: Array = np.median(values[picks], axis=1)
    return medians


def _interval(point: float, draws: Array, level: float) -> Interval:
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(draws, [tail, 100.0 - tail])
    return Interval(point, float(low), float(high))


def median_interval(values: Sequence[float], seed: int, level: float = 0.95) -> Interval:
    """Bootstrap interval of the median of at least one value."""
    sample = np.asarray(values, dtype=np.float64)
    draws = _bootstrap_medians(sample, np.random.default_rng(seed))
    return _interval(float(np.median(sample)), draws, level)


def median_ratio_interval(
    numerator: Sequence[float], denominator: Sequence[float], seed: int, level: float = 0.95
) -> Interval:
    """Bootstrap interval of median(numerator) / median(denominator); both sides are resampled independently."""
    top, bottom = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    if np.any(bottom <= 0.0):
        raise ValueError(f"a ratio needs a positive denominator, got {bottom.min()}")
    rng = np.random.default_rng(seed)
    draws = _bootstrap_medians(top, rng) / _bootstrap_medians(bottom, rng)
    return _interval(float(np.median(top) / np.median(bottom)), draws, level)


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p-value that values of one side tend to be larger; exact for small samples without ties."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)


def holm(p_values: Sequence[float] | Array) -> Array:
    """Holm's step-down correction along the last axis, in the order given."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, axis=-1)
    steps = p.shape[-1] - np.arange(p.shape[-1])
    stepped = np.minimum(1.0, np.maximum.accumulate(np.take_along_axis(p, order, -1) * steps, axis=-1))
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, stepped, -1)
    return corrected


def cliffs_delta(a: Sequence[float], b: Sequence[float]) -> float:
    """P(a > b) - P(a < b), from -1 to 1."""
    signs = np.sign(np.subtract.outer(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)))
    return float(signs.mean())
