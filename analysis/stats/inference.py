"""A correction for many tests, and an effect size. Pure numpy."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


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
