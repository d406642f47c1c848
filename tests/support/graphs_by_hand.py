"""Communication graphs whose shape is known."""

from __future__ import annotations

import numpy as np

from scheduler_plugins.policies.communication import Pairs


def stages(width: int, depth: int) -> Pairs:
    """`depth` stages of `width` vertices, each of which sends 1 to every vertex of the next stage."""
    each = np.arange(width)
    firsts = np.arange(depth - 1) * width
    sources = (firsts[:, None, None] + each[None, :, None] + 0 * each).ravel()
    targets = (firsts[:, None, None] + width + each[None, None, :] + 0 * each[:, None]).ravel()
    return Pairs(sources, targets, np.ones(len(sources)))
