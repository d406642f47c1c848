"""Intervals, tests and effect sizes over the repetitions of an experiment. Pure numpy and scipy, seeded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Sample = npt.NDArray[np.float64]
RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A point estimate and its percentile bootstrap interval."""

    point: float
    low: float
    high: float


def _bootstrap_medians(values: Sample, rng: np.random.Generator) -> Sample:
    picks = rng.integers(0, len(values), size=(RESAMPLES, len(values)))
    medians: Sample = np.median(values[picks], axis=1)
    return medians


def _interval(point: float, draws: Sample, level: float) -> Interval:
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


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def cliffs_delta(a: Sequence[float], b: Sequence[float]) -> float:
    """P(a > b) - P(a < b), from -1 to 1."""
    signs = np.sign(np.subtract.outer(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)))
    return float(signs.mean())
