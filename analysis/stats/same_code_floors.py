"""A/A floors: by how much the same code, on the same machines, differs from itself. Pure.

What repetitions there are decides which floor can be had. A ledger and a comparison have blocks, and a comparison maybe
earlier ones of a commit with itself: Student's bound of the mean difference. The nights have a level before and after a
step: two standard errors of their difference.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def error_of_difference(deviation: float | Array, before: int, after: int) -> Array:
    """Standard error of the difference of two means of so many values."""
    return np.asarray(deviation * np.sqrt(1 / before + 1 / after), dtype=np.float64)


def student_bound(level: float, freedom: float) -> float:
    """What Student's t exceeds, on either side, in a share `level` of all cases."""
    from scipy.stats import t

    return float(t.ppf(1 - level / 2, freedom))


# --- blocks of a comparison ------------------------------------------------------------------------------------------


MINIMUM_ON_RECORD = 6  # block differences; fewer say less than the series itself


def neighbour_floor(a: Array, b: Array, level: float, quantum: float = 0.0) -> Array:
    """From both sides' values in the order of the blocks, on the axis on which they are compared.

    Runs of one side in neighbouring blocks are the same code at nearly the same time: their differences show the noise
    without slow drift, which pairing removes. `quantum`: the step in which values are measured.
    """
    blocks = a.shape[-1]
    squares = (np.square(np.diff(side, axis=-1)).mean(axis=-1) / 2 for side in (a, b))
    variance = np.maximum(sum(squares) / 2, quantum**2 / 12)
    return student_bound(level, 2 * _degrees_of_freedom(blocks)) * error_of_difference(
        np.sqrt(variance), blocks, blocks
    )


def own_floor(values: Array, level: float) -> Array:
    """The same of the mean of one side's values."""
    number = values.shape[-1]
    deviation = np.sqrt(np.square(np.diff(values, axis=-1)).mean(axis=-1) / 2)
    return np.asarray(student_bound(level, _degrees_of_freedom(number)) * deviation / np.sqrt(number))


def _degrees_of_freedom(values: int) -> float:
    """Degrees of freedom of a variance from differences of neighbours, by its moments under normal noise."""
    return 2 * (values - 1) ** 2 / (3 * values - 4)


def record_floor(differences: Sequence[float], blocks: int, level: float) -> float | None:
    """From block differences of A/A comparisons, around 0, which is what they should be; None of too few."""
    if len(differences) < MINIMUM_ON_RECORD:
        return None
    deviation = float(np.sqrt(np.mean(np.square(differences))))
    return student_bound(level, len(differences)) * deviation / sqrt(blocks)


# --- nights ----------------------------------------------------------------------------------------------------------


def step_floor(noise: float | None, before: int, after: int) -> float:
    """Of a step between levels of so many nights; `noise`: a night's standard deviation, 0 where it is not known."""
    return 0.0 if noise is None else float(2 * error_of_difference(noise, before, after))
