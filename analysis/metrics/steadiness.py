"""Is a throughput series steady? A test on the series instead of a sleep, and a test for a drain.

A drain is throughput that will not last: a component works off what waited while it, or what follows it, was
restarted; tuples then reach the sinks faster than the topology can go on, level or not. One definition for the run
step, which watches live, and for the analysis, which looks back. Numpy only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WINDOW_S = 10.0
Series = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Steadiness:
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
) -> Steadiness:
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
        return Steadiness(False, None, f"only {len(windows) * width_s:.0f} s of {needed * width_s:.0f} s seen")
    fault = _fault(windows[-needed:], tolerance, noise_limit)
    if fault:
        return Steadiness(False, None, fault)
    skipped_s = (len(rates) - len(windows) * per_window) * step_s
    first = _first_level(windows, needed, tolerance)
    mean = float(windows[-needed:].mean())
    return Steadiness(True, skipped_s + first * width_s, f"level at {mean:.4g}/s over {needed * width_s:.0f} s")


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
    if apart > _limit(mean, tolerance, scatter * float(np.sqrt(2.0 / half))):
        return f"the halves differ by {apart / mean:.1%} of the mean"
    rise = abs(float(slope)) * (len(span) - 1)
    error = scatter / float(np.std(np.arange(len(span))) * np.sqrt(len(span))) * (len(span) - 1)
    # A line's rise over the span is 1.5 to 2 times the difference of the half-means.
    if rise > 2.0 * _limit(mean, tolerance, error / 2.0):
        return f"a trend of {rise / mean:.1%} of the mean over the span"
    return None


def _limit(mean: float, tolerance: float, standard_error: float) -> float:
    return min(max(tolerance * mean, 2.0 * standard_error), 2.0 * tolerance * mean)


def _first_level(windows: Series, needed: int, tolerance: float) -> int:
    """Index of the first window of the longest tail that stays in the band of the last span."""
    span = windows[-needed:]
    band = max(2.0 * tolerance * float(span.mean()), 3.0 * float(span.std(ddof=1)))
    outside = np.flatnonzero(np.abs(windows[:-needed] - span.mean()) > band)
    return int(outside[-1]) + 1 if len(outside) else 0


DRAIN_SPAN_S = 30.0
DRAIN_SHARE = 0.05


def drain_reason(
    queues: Mapping[str, Sequence[float]], sinks: Sequence[float | None], step_s: float = 1.0
) -> str | None:
    """Why the end of a series is fed by a queue, or None.

    Over the last `DRAIN_SPAN_S` no component's queue may shrink by more than `DRAIN_SHARE` of the throughput at the
    sinks; from the mean of the span's first third to that of its last. `queues` by component and `sinks` (tuples/s,
    None: not measured) have a value every `step_s`, oldest first, and end together.
    """
    needed, third = round(DRAIN_SPAN_S / step_s), round(DRAIN_SPAN_S / step_s / 3)
    if len(sinks) < needed:
        return None
    rates = [rate for rate in sinks[-needed:] if rate is not None]
    allowed = DRAIN_SHARE * sum(rates) / max(len(rates), 1)
    for component, waiting in queues.items():
        span = waiting[-needed:]
        shrinks = (sum(span[:third]) - sum(span[-third:])) / third / (DRAIN_SPAN_S - third * step_s)
        if shrinks > allowed:
            return f"the queue of {component} shrinks by {shrinks:.1f} tuples/s; allowed: {allowed:.1f}"
    return None


def drain_windows(queues: Mapping[str, Sequence[float]], windows: Sequence[float]) -> dict[int, str]:
    """Which windows, each a third of the span, are fed by a queue, and why: those in the middle of a span that is."""
    found = {}
    for end in range(3, len(windows) + 1):
        until = {component: waiting[:end] for component, waiting in queues.items()}
        why = drain_reason(until, windows[:end], DRAIN_SPAN_S / 3)
        if why:
            found[end - 2] = why
    return found
