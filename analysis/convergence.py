"""Convergence time after a scale request, in the three definitions that were published or shipped. Pure functions.

Each takes the windows from the scale request on (`starts_s` relative to it, `rates` in tuples/s, equally wide) and the
post-scale throughput to compare with. A series that never satisfies a definition is right-censored at its horizon (the
end of its last window): `time_s` is then None, and no mean may be taken over such times as if they were measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

CROSSINGS = 2
SP_DEVIATION = 0.05
SCRIPT_WINDOWS = 6
SCRIPT_DEVIATION = 0.05


@dataclass(frozen=True)
class Windows:
    """Equally wide windows of one run, oldest first, from the scale request (0 s) on."""

    starts_s: tuple[float, ...]
    rates: tuple[float, ...]
    width_s: float = 10.0

    @property
    def horizon_s(self) -> float:
        return self.starts_s[-1] + self.width_s if self.starts_s else 0.0


@dataclass(frozen=True)
class PostScale:
    """Post-scale throughput: mean and standard deviation over the steady part, tuples/s."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Convergence:
    """`time_s` from the scale request, or None where censored at `horizon_s`."""

    time_s: float | None
    horizon_s: float

    @property
    def censored(self) -> bool:
        return self.time_s is None


def post_scale(rates: Sequence[float]) -> PostScale:
    """Mean and standard deviation (n - 1) of the steady part."""
    values = np.asarray(rates, dtype=np.float64)
    return PostScale(float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0)


def sp(windows: Windows, after: PostScale) -> Convergence:
    """SP IV-D: the throughput oscillates twice above and twice below the post-scale mean, within a deviation of 5 %.

    Read literally: the end of the first window at which some stretch of windows up to it has two excursions above and
    two below the mean and a standard deviation of at most 5 % of the mean.
    """
    rates = np.asarray(windows.rates, dtype=np.float64)
    for end in range(2 * CROSSINGS, len(rates) + 1):
        for start in range(end - 2 * CROSSINGS, -1, -1):
            if rates[start] <= 0.0:
                break
            stretch = rates[start:end]
            if _oscillates(stretch.tolist(), after.mean) and stretch.std() <= SP_DEVIATION * after.mean:
                return Convergence(windows.starts_s[end - 1] + windows.width_s, windows.horizon_s)
    return Convergence(None, windows.horizon_s)


def st(windows: Windows, after: PostScale) -> Convergence:
    """ST 7.2: two points with M < T < M + sigma and two with M - sigma < T < M have been seen since the request."""
    above = below = 0
    for start_s, rate in zip(windows.starts_s, windows.rates, strict=True):
        above += after.mean < rate < after.mean + after.deviation
        below += after.mean - after.deviation < rate < after.mean
        if above >= CROSSINGS and below >= CROSSINGS:
            return Convergence(start_s + windows.width_s, windows.horizon_s)
    return Convergence(None, windows.horizon_s)


def script(windows: Windows, after: PostScale) -> Convergence:
    """The authors' script: the start of the first 6 windows whose mean is within 5 % of a late window's mean."""
    rates = np.asarray(windows.rates, dtype=np.float64)
    for start in range(len(rates) - SCRIPT_WINDOWS + 1):
        mean = float(rates[start : start + SCRIPT_WINDOWS].mean())
        if abs(mean - after.mean) <= SCRIPT_DEVIATION * after.mean:
            return Convergence(windows.starts_s[start], windows.horizon_s)
    return Convergence(None, windows.horizon_s)


def _oscillates(rates: Sequence[float], mean: float) -> bool:
    """Two excursions above and two below; a run of neighbours on one side is one excursion."""
    sides = [rate > mean for rate in rates if rate != mean]
    turns = [side for i, side in enumerate(sides) if i == 0 or side != sides[i - 1]]
    return turns.count(True) >= CROSSINGS and turns.count(False) >= CROSSINGS


DEFINITIONS: dict[str, Callable[[Windows, PostScale], Convergence]] = {"sp": sp, "st": st, "script": script}
