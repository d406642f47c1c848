"""The A/A floor of a comparison: how large a mean difference so many blocks of the same code show here.

Two sources, the larger counts. In the series itself: runs of one side in neighbouring blocks are the same code at
nearly the same time, so the differences of neighbours show the noise without what drifts slowly (pairing removes that).
On record: block differences of earlier comparisons of a commit with itself, around 0, for that is what they should be.
"""

from collections.abc import Sequence

import numpy as np

from analysis.comparison.intervals import Array

MINIMUM_ON_RECORD = 6  # block differences; fewer say less than the series itself


def of_neighbours(a: Array, b: Array, level: float, quantum: float = 0.0) -> Array:
    """From both sides' values in the order of the blocks, on the axis on which they are compared."""
    from scipy.stats import t

    blocks = a.shape[-1]
    squares = (np.square(np.diff(side, axis=-1)).mean(axis=-1) / 2 for side in (a, b))
    variance = np.maximum(sum(squares) / 2, quantum**2 / 12)
    bound = t.ppf(1 - level / 2, 2 * _freedom(blocks))
    return np.asarray(bound * np.sqrt(2 * variance / blocks), dtype=np.float64)


def _freedom(values: int) -> float:
    """Degrees of freedom of a variance from differences of neighbours, by its moments under normal noise."""
    return 2 * (values - 1) ** 2 / (3 * values - 4)


def on_record(differences: Sequence[float], blocks: int, level: float) -> float | None:
    """From block differences of A/A comparisons; None where there are too few."""
    from scipy.stats import t

    if len(differences) < MINIMUM_ON_RECORD:
        return None
    spread = float(np.sqrt(np.mean(np.square(differences))))
    return float(t.ppf(1 - level / 2, len(differences)) * spread / np.sqrt(blocks))
