"""Statistics of paired differences of blocks: interval, p-value, sign test, the number of blocks needed, and the A/A
floor; a correction for many tests, and an effect size.

Pure. Arrays have the blocks on their last axis, so that the calibration judges thousands of comparisons with the
code that judges one (docs/decisions/statistics.md).
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MINIMUM_BLOCKS = 3  # two differences have a deviation, but half the width of their interval says nothing
CONFIDENCE = 0.95  # of every interval shown


@dataclass(frozen=True)
class MeanDifference:
    """The mean difference of blocks and its standard error, in logarithms if `logarithmic`."""

    mean: float
    error: float
    blocks: int
    logarithmic: bool

    @property
    def deviation(self) -> float:
        """Return the deviation of the difference of one block."""
        return float(self.error * self.blocks**0.5)


def estimate(a: Sequence[float], b: Sequence[float], logarithmic: bool, quantum: float = 0.0) -> MeanDifference:
    """Return b against a, block by block; `quantum`: the step in which both are measured (see `least_deviation`)."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    differences = np.log(second / first) if logarithmic else second - first
    step = relative_step(first, second, quantum) if logarithmic else quantum
    mean, error = mean_and_error(differences, least_deviation(step))
    return MeanDifference(float(mean), float(error), len(differences), logarithmic)


def relative_step(a: Array, b: Array, quantum: float) -> float:
    """Return the step of logarithms of values rounded to whole quanta, for both sides together, in the mean of squares:
    10 s matter more in 50 s than in 500 s."""
    return float(quantum * np.sqrt((a.mean() ** -2 + b.mean() ** -2) / 2))


def least_deviation(quantum: float) -> float:
    """Return the deviation of two values rounded to whole quanta: equal values do not show that there is none."""
    return float(quantum / np.sqrt(6.0))


def mean_and_error(differences: Array, least: float | Array = 0.0) -> tuple[Array, Array]:
    """Return the mean over the last axis and its standard error: the deviation (n - 1), at least `least`, over √n."""
    deviation = np.maximum(differences.std(axis=-1, ddof=1), least)
    return differences.mean(axis=-1), deviation / np.sqrt(differences.shape[-1])


def half_width(error: float | Array, blocks: int, confidence: float | Array = CONFIDENCE) -> Array:
    """Return half the width of Student's interval around the mean."""
    from scipy.stats import t

    return np.asarray(t.ppf(0.5 + np.asarray(confidence) / 2, blocks - 1) * error, dtype=np.float64)


def p_value(mean: float | Array, error: float | Array, blocks: int) -> Array:
    """Return the two-sided p that the mean difference is 0. Without any deviation: 0, or 1 if the difference is 0
    too."""
    from scipy.stats import t

    size, errors = np.abs(mean), np.asarray(error, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(size == 0.0, 0.0, size / errors)
    return np.asarray(2 * t.sf(statistic, blocks - 1), dtype=np.float64)


def in_units(found: MeanDifference, value: float) -> float:
    """Convert a point on the estimate's axis to percent of a, or to the metric's own unit."""
    return 100.0 * float(np.expm1(value)) if found.logarithmic else value


def on_axis(found: MeanDifference, value: float) -> float:
    """Convert back to the estimate's axis."""
    return float(np.log1p(value / 100.0)) if found.logarithmic else value


def sign_test(signs: Sequence[int]) -> float:
    """Return the exact two-sided p; ties (0) are ignored."""
    from scipy.stats import binomtest

    positives, negatives = signs.count(1), signs.count(-1)
    return float(binomtest(negatives, positives + negatives).pvalue) if positives + negatives else 1.0


POWER = 0.8
MOST_BLOCKS = 999  # more are not worth naming


def blocks_needed(deviation: float, goal: float, level: float) -> int | None:
    """Return the fewest blocks that find `goal` in 80 % of the cases at `level`; their interval is then narrower than ±
    goal.

    `deviation`: of one block's difference, on the axis of `goal`. None: more than MOST_BLOCKS, or no basis.
    """
    return _fewest(deviation, goal, lambda number: errors_to_find(number, level))


def blocks_to_exclude(deviation: float, goal: float) -> int | None:
    """Return the fewest blocks whose 95 % interval lies within ± goal in 80 % of the cases without a difference.

    Otherwise as `blocks_needed`.
    """
    return _fewest(deviation, goal, errors_to_exclude)


def _fewest(deviation: float, goal: float, errors: Callable[[int], float]) -> int | None:
    """Return the fewest blocks whose standard error is so small a part of the goal; power grows with the blocks."""

    def enough(number: int) -> bool:
        return goal * sqrt(number) >= deviation * errors(number)

    if goal <= 0.0 or not enough(MOST_BLOCKS):
        return None
    return bisect_left(range(MOST_BLOCKS), True, lo=MINIMUM_BLOCKS, key=enough)


@cache
def errors_to_find(number: int, level: float) -> float:
    """Return the difference, in standard errors, that Student's paired test at `level` finds in 80 % of the cases."""
    return _root(lambda shift: power(shift, number, level) - POWER)


@cache
def errors_to_exclude(number: int) -> float:
    """Return the goal, in standard errors, within which a 95 % interval lies in 80 % of the cases without a
    difference."""
    return _root(lambda margin: power_of_equivalence(margin, number) - POWER)


def _root(function: Callable[[float], float]) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, 0.0, 1e9))


def power(shift: float, number: int, level: float) -> float:
    """Return the power of Student's paired test for a difference of `shift` standard errors."""
    from scipy.stats import norm, t

    bound = float(t.ppf(1 - level / 2, number - 1))
    # A normal approximation: scipy's noncentral t is nan far out, where the answer is 1.
    return float(norm.sf((bound * (1 - 1 / (4 * (number - 1))) - shift) / sqrt(1 + bound**2 / (2 * (number - 1)))))


def power_of_equivalence(margin: float, number: int) -> float:
    """Return how often an interval lies within ± `margin` standard errors without a difference.

    The mean over the possible observed deviations, at the middles of 400 equal shares of their distribution.
    """
    from scipy.stats import chi2, norm

    deviations = np.sqrt(chi2.ppf((np.arange(400) + 0.5) / 400, number - 1) / (number - 1))
    room = np.maximum(margin - half_width(deviations, number), 0.0)
    return float((2 * norm.cdf(room) - 1).mean())


# --- A/A floors: by how much the same code, on the same machines, differs from itself --------------------------------
# The available repetitions decide which floor is possible. A ledger and a comparison have blocks, and a comparison
# maybe earlier ones of a commit with itself: Student's bound of the mean difference. The nights have a level before and
# after a step: two standard errors of their difference.


def error_of_difference(deviation: float | Array, before: int, after: int) -> Array:
    """Return the standard error of the difference of two means of so many values."""
    return np.asarray(deviation * np.sqrt(1 / before + 1 / after), dtype=np.float64)


@cache
def student_bound(level: float, freedom: float) -> float:
    """Return the bound that Student's t exceeds, on either side, in a share `level` of all cases."""
    from scipy.stats import t

    return float(t.ppf(1 - level / 2, freedom))


MINIMUM_ON_RECORD = 6  # block differences; fewer say less than the series itself


def neighbour_floor(a: Array, b: Array, level: float, quantum: float = 0.0, series: Sequence[int] = ()) -> Array:
    """Return the floor from both sides' values in the order of the blocks, on the axis of the comparison.

    Runs of one side in neighbouring blocks are the same code at nearly the same time: their differences show the noise
    without slow drift, which pairing removes. `quantum`: the step in which values are measured. `series`: numbers of
    blocks if they come from several series: the last block of one and the first of the next are no neighbours.
    """
    blocks = a.shape[-1]
    lengths = series or (blocks,)
    squares = (np.square(_steps(side, lengths)).mean(axis=-1) / 2 for side in (a, b))
    variance = np.maximum(sum(squares) / 2, quantum**2 / 12)
    return student_bound(level, 2 * _degrees_of_freedom(lengths)) * error_of_difference(
        np.sqrt(variance), blocks, blocks
    )


def own_floor(values: Array, level: float, series: Sequence[int] = ()) -> Array:
    """Return the floor of the mean of one side's values."""
    number = values.shape[-1]
    lengths = series or (number,)
    deviation = np.sqrt(np.square(_steps(values, lengths)).mean(axis=-1) / 2)
    return np.asarray(student_bound(level, _degrees_of_freedom(lengths)) * deviation / np.sqrt(number))


def neighbours(series: Sequence[int]) -> int:
    """Return how many pairs of neighbouring blocks series of these lengths have."""
    return sum(length - 1 for length in series)


def _steps(values: Array, series: Sequence[int]) -> Array:
    """Return the differences from each block to its neighbour."""
    differences: Array = np.delete(np.diff(values, axis=-1), np.cumsum(series)[:-1] - 1, axis=-1)
    return differences


def _degrees_of_freedom(series: Sequence[int]) -> float:
    """Return the degrees of freedom of a variance from differences of neighbours, by its moments under normal noise."""
    return 2 * neighbours(series) ** 2 / sum(3 * length - 4 for length in series if length > 1)


def record_floor(differences: Sequence[float], blocks: int, level: float) -> float | None:
    """Return the floor from block differences of A/A comparisons, around 0, their true value; None with too few."""
    if len(differences) < MINIMUM_ON_RECORD:
        return None
    deviation = float(np.sqrt(np.mean(np.square(differences))))
    return student_bound(level, len(differences)) * deviation / sqrt(blocks)


def step_floor(noise: float | None, before: int, after: int) -> float:
    """Return the floor of a step between levels of so many nights; `noise`: a night's standard deviation, if known."""
    return 0.0 if noise is None else float(2 * error_of_difference(noise, before, after))


# --- many tests, and sizes -------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float] | Array) -> Array:
    """Apply Holm's step-down correction along the last axis; the order is kept."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, axis=-1)
    steps = p.shape[-1] - np.arange(p.shape[-1])
    sorted_p = np.minimum(1.0, np.maximum.accumulate(np.take_along_axis(p, order, -1) * steps, axis=-1))
    result = np.empty_like(p)
    np.put_along_axis(result, order, sorted_p, -1)
    return result


def cliffs_delta(a: Sequence[float], b: Sequence[float]) -> float:
    """Return P(a > b) - P(a < b), from -1 to 1."""
    signs = np.sign(np.subtract.outer(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)))
    return float(signs.mean())
