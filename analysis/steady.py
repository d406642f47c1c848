"""Is a throughput series steady? A test on the series instead of a sleep. Numpy only: the run step calls it live."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WINDOW_S = 10.0
Series = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Steady:
    """The verdict; `since_s` is counted from the start of the series and is None where the series is not steady."""

    steady: bool
    since_s: float | None
    reason: str


def is_steady(
    rates: Sequence[float],
    step_s: float = 1.0,
    *,
    span_s: float = 60.0,
    tolerance: float = 0.05,
    noise_limit: float = 0.25,
) -> Steady:
    """Test whether the end of a series is level.

    `rates`: tuples per second, oldest first, one every `step_s` seconds (1 s samples are averaged into 10 s windows,
    10 s windows are taken as they are). Over the last `span_s`: (1) the means of its two halves differ by at most
    `tolerance` of the mean, or by two standard errors where the windows scatter, never by more than twice the
    `tolerance`; (2) the same for the rise of a fitted line over the span; (3) no window is at zero; (4) the windows
    scatter by less than `noise_limit` of the mean. A floor and a ceiling on the waiting time are the caller's.
    """
    per_window = max(1, round(WINDOW_S / step_s))
    windows = _windows(rates, per_window)
    width_s = per_window * step_s
    needed = max(4, round(span_s / width_s))
    if len(windows) < needed:
        return Steady(False, None, f"only {len(windows) * width_s:.0f} s of {needed * width_s:.0f} s seen")
    fault = _fault(windows[-needed:], tolerance, noise_limit)
    if fault:
        return Steady(False, None, fault)
    skipped_s = (len(rates) - len(windows) * per_window) * step_s
    first = _first_level(windows, needed, tolerance)
    mean = float(windows[-needed:].mean())
    return Steady(True, skipped_s + first * width_s, f"level at {mean:.4g}/s over {needed * width_s:.0f} s")


def _windows(rates: Sequence[float], per_window: int) -> Series:
    """Means of whole windows, aligned to the end of the series."""
    values = np.asarray(rates, dtype=np.float64)
    whole = len(values) // per_window * per_window
    level: Series = values[len(values) - whole :].reshape(-1, per_window).mean(axis=1)
    return level


def _fault(span: Series, tolerance: float, noise_limit: float) -> str | None:
    """Why the span is not level, or None."""
    mean = float(span.mean())
    if float(span.min()) <= 0.0:
        return "a window is at zero"
    slope, intercept = np.polyfit(np.arange(len(span)), span, 1)
    scatter = float(np.std(span - (slope * np.arange(len(span)) + intercept), ddof=2))
    if scatter > noise_limit * mean:
        return f"windows scatter by {scatter / mean:.0%} of their mean, {noise_limit:.0%} allowed"
    half = len(span) // 2
    apart = abs(float(span[-half:].mean() - span[:half].mean()))
    if apart > _allowed(mean, tolerance, scatter * float(np.sqrt(2.0 / half))):
        return f"the halves differ by {apart / mean:.1%} of the mean"
    rise = abs(float(slope)) * (len(span) - 1)
    error = scatter / float(np.std(np.arange(len(span))) * np.sqrt(len(span))) * (len(span) - 1)
    # A line's rise over the span is 1.5 to 2 times the difference of the half-means.
    if rise > 2.0 * _allowed(mean, tolerance, error / 2.0):
        return f"a trend of {rise / mean:.1%} of the mean over the span"
    return None


def _allowed(mean: float, tolerance: float, standard_error: float) -> float:
    return min(max(tolerance * mean, 2.0 * standard_error), 2.0 * tolerance * mean)


def _first_level(windows: Series, needed: int, tolerance: float) -> int:
    """Index of the first window of the longest tail that stays in the band of the last span."""
    span = windows[-needed:]
    band = max(2.0 * tolerance * float(span.mean()), 3.0 * float(span.std(ddof=1)))
    outside = np.flatnonzero(np.abs(windows[:-needed] - span.mean()) > band)
    return int(outside[-1]) + 1 if len(outside) else 0
