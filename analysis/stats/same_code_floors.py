"""A/A floors: by how much the same code, on the same machines, differs from itself. Pure.

The available repetitions decide which floor is possible. A ledger and a comparison have blocks, and a comparison maybe
earlier ones of a commit with itself: Student's bound of the mean difference. The nights have a level before and after a
step: two standard errors of their difference.
"""

from collections.abc import Sequence
from functools import cache
from math import sqrt

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def error_of_difference(deviation: float | Array, before: int, after: int) -> Array:
    """Return the standard error of the difference of two means of so many values."""
    return np.asarray(deviation * np.sqrt(1 / before + 1 / after), dtype=np.float64)


@cache
def student_bound(level: float, freedom: float) -> float:
    """Return the bound that Student's t exceeds, on either side, in a share `level` of all cases."""
    from scipy.stats import t

    return float(t.ppf(1 - level / 2, freedom))


# --- blocks of a comparison ------------------------------------------------------------------------------------------


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


# --- nights ----------------------------------------------------------------------------------------------------------


def step_floor(noise: float | None, before: int, after: int) -> float:
    """Return the floor of a step between levels of so many nights; `noise`: a night's standard deviation, if known."""
    return 0.0 if noise is None else float(2 * error_of_difference(noise, before, after))
