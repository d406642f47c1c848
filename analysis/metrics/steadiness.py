"""A test for a steady throughput series, instead of a sleep, and a test for a drain.

A drain is throughput that will not last: a component processes its queue from the time when it, or a successor, was
restarted; tuples then reach the sinks faster than the topology can sustain, level or not. One definition for the run
step, which watches live, and for the analysis, which looks back. Numpy only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

WINDOW_S = 10.0
Series = npt.NDArray[np.float64]
FEWEST_WINDOWS = 4
ENOUGH_WINDOWS = 12  # that show a level for any earlier part; fewer must be as many as were off it in a row
DRIFT_SPAN_S = 60.0
DRIFT_LIMIT = 0.10  # of the mean, in DRIFT_SPAN_S: the whole confidence interval of the slope lies within it
END_LIMITS = 0.05, 0.10  # of the mean: how far the first or the last window may always depart from the others, or never
OUTSIDE = 3.5, 30.0  # a + b / n standard deviations: of 30 windows of a level with noise 3 % of series have one beyond
SPANS = 1, 3  # windows that are averaged: a shallow dip shows in the mean of three
MOVED = 0.0025  # of the level: how far windows outside may move the mean; a run of days has some by chance
DEVIATIONS = 1.4826  # standard deviations of normal noise in a median of absolute deviations
# Student's t, one-sided 95 %, for 2, 3, … degrees of freedom; beyond: the last one, which errs on the large side.
STUDENT = (
    2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740,
    1.734, 1.729, 1.725,
)  # fmt: skip


@dataclass(frozen=True)
class Steadiness:
    """The verdict. `since_s`: where the end after the ramp begins, from the start of the series; None: there is none.
    A series that is not steady may have one."""

    steady: bool
    since_s: float | None
    reason: str


def is_steady(rates: Sequence[float | None], step_s: float = 1.0) -> Steadiness:
    """Test whether the end of a series is level, and since when.

    `rates`: tuples per second, oldest first, one every `step_s` seconds (1 s samples are averaged into 10 s windows, 10
    s windows are taken as they are); None: not measured. The end begins after the ramp and each dip: it is the longest
    one, of 40 s or more, in which every window was measured and none is at zero, those before the last are of one level
    (`_dip`), and the first departs from the mean of the others by at most 5 %, or twice their scatter, and never more
    than 10 %. It is level if the same is true of its last window, and if a fitted line rises or falls by less than 10 %
    of the mean in 60 s as far as its windows can show (95 %): a series with too much scatter to show it is not steady.
    If more windows in a row were off its level before it than it has, it may be a dip that is not over, and is none
    unless it has lasted 120 s. A floor and a ceiling on the waiting time are the caller's.
    """
    per_window = max(1, round(WINDOW_S / step_s))
    values = np.asarray(rates, dtype=np.float64)
    rows = np.ma.masked_invalid(values[len(values) % per_window :].reshape(-1, per_window))  # aligned to the end
    windows = rows.mean(axis=1).filled(np.nan)
    width_s = per_window * step_s
    if len(windows) < FEWEST_WINDOWS:
        return Steadiness(False, None, f"only {len(windows) * width_s:.0f} s of {FEWEST_WINDOWS * width_s:.0f} s seen")
    ends = (windows[-number:] for number in range(len(windows), FEWEST_WINDOWS - 1, -1))
    end = next((end for end in ends if not _ramp(end)), None)
    if end is None:
        return Steadiness(False, None, str(_ramp(windows[-FEWEST_WINDOWS:])))
    length_s = len(end) * width_s
    measured = windows[~np.isnan(windows)]
    is_outside = _outside(measured, _level_and_limit(end)[0], _level_and_limit(measured)[1])[: -len(end)]
    off = max((sum(1 for _ in stretch) for is_off, stretch in groupby(is_outside) if is_off), default=0)
    if len(end) < min(off, ENOUGH_WINDOWS):
        reason = f"only the last {length_s:.0f} s are at {end.mean():.4g}/s; before, {off * width_s:.0f} s were not"
        return Steadiness(False, None, reason)
    fault = _departure("last", end[-1], end[:-1]) or _trend(end, width_s)
    reason = fault or f"level at {end.mean():.4g}/s over {length_s:.0f} s"
    return Steadiness(fault is None, len(rates) * step_s - length_s, reason)


def _ramp(end: Series) -> str | None:
    """Return why the series is not level yet where this end begins, or None."""
    if np.isnan(end).any():
        return "a window was not measured"
    if float(end.min()) <= 0.0:
        return "a window is at zero"
    return _departure("first", end[0], end[1:]) or _dip(end)


def _dip(end: Series) -> str | None:
    """Return why not all of its windows but the last are of the level at its end, or None.

    That level is the median of its second half (or of the whole, with fewer than eight). Outside are windows that are
    off it, alone or in the mean of three, by more than 5 % and by more than `OUTSIDE` of the windows' scatter around
    the median of their own half. Medians, so that a dip does not widen the limits for itself, and of each half, so that
    a step does not.
    """
    level, limit = _level_and_limit(end)
    is_outside = _outside(end[:-1], level, limit)
    shift = float(np.abs(end[:-1][is_outside] - level).sum()) / len(end) / level
    return f"{is_outside.sum()} of {len(end)} windows are outside: {shift:.1%} of the mean" if shift > MOVED else None


def _level_and_limit(windows: Series) -> tuple[float, float]:
    half = len(windows) // 2 if len(windows) >= 2 * FEWEST_WINDOWS else 0
    halves = [part for part in (windows[:half], windows[half:]) if len(part)]
    deviations = np.concatenate([part - _median(part) for part in halves])
    limit = (OUTSIDE[0] + OUTSIDE[1] / len(windows)) * DEVIATIONS * _median(np.abs(deviations))
    return _median(halves[-1]), limit


def _outside(windows: Series, level: float, limit: float) -> npt.NDArray[np.bool_]:
    """Return which windows are further off the level than the limit, alone or in the mean of three."""
    outside = np.zeros(len(windows), dtype=bool)
    for span in SPANS:
        off = np.abs(np.convolve(windows, np.full(span, 1 / span), "valid") - level)
        outside |= np.convolve(off > max(END_LIMITS[0] * level, limit / span**0.5), np.ones(span)) > 0
    return outside


def _median(values: Series) -> float:
    """Return the upper of two in the middle: their mean lies at none of two levels."""
    return float(np.partition(values, len(values) // 2)[len(values) // 2])


def _departure(name: str, window: float, others: Series) -> str | None:
    """Return whether a window lies too far from the mean of the others; shares are of that mean."""
    mean, (least, most) = float(others.mean()), END_LIMITS
    scatter = 2.0 * float(others.std(ddof=1)) / mean * float(np.sqrt(1.0 + 1.0 / len(others)))
    apart, allowed = abs(float(window) - mean) / mean, min(max(least, scatter), most)
    if apart <= allowed:
        return None
    return f"the {name} of {len(others) + 1} windows is {apart:.1%} off the others; {allowed:.1%} allowed"


def _trend(end: Series, width_s: float) -> str | None:
    """Return why a trend cannot be ruled out, or None: the fitted rise in DRIFT_SPAN_S and its possible error
    (95 % each), as shares of the mean."""
    steps = np.arange(len(end)) - (len(end) - 1) / 2
    slope = float(steps @ end / (steps @ steps))
    residuals = end - end.mean() - slope * steps
    freedom = len(end) - 2
    scale = DRIFT_SPAN_S / width_s / float(end.mean())
    student = STUDENT[min(freedom - 2, len(STUDENT) - 1)]
    drift, error = slope * scale, student * scale * float(np.sqrt(residuals @ residuals / freedom / (steps @ steps)))
    if abs(drift) + error <= DRIFT_LIMIT:
        return None
    return f"a trend of {drift:+.1%} ± {error:.1%} of the mean in {DRIFT_SPAN_S:.0f} s; {DRIFT_LIMIT:.0%} allowed"


DRAIN_SPAN_S = 30.0
DRAIN_SHARE = 0.05


def drain_reason(
    queues: Mapping[str, Sequence[float]], sinks: Sequence[float | None], step_s: float = 1.0
) -> str | None:
    """Return why the end of a series is fed by a queue, or None.

    Over the last `DRAIN_SPAN_S` no component's queue may shrink by more than `DRAIN_SHARE` of the throughput at the
    sinks; from the mean of the span's first third to that of its last. `queues` by component and `sinks` (tuples/s,
    None: not measured) have a value every `step_s`, oldest first, and end together.
    """
    count, third = round(DRAIN_SPAN_S / step_s), round(DRAIN_SPAN_S / step_s / 3)
    if len(sinks) < count:
        return None
    rates = [rate for rate in sinks[-count:] if rate is not None]
    limit = DRAIN_SHARE * sum(rates) / max(len(rates), 1)
    for component, queue in queues.items():
        span = queue[-count:]
        shrinks = (sum(span[:third]) - sum(span[-third:])) / third / (DRAIN_SPAN_S - third * step_s)
        if shrinks > limit:
            return f"the queue of {component} shrinks by {shrinks:.1f} tuples/s; allowed: {limit:.1f}"
    return None


def drain_windows(queues: Mapping[str, Sequence[float]], windows: Sequence[float | None]) -> dict[int, str]:
    """Return windows, each a third of the span, in the middle of a span that a queue feeds, and why."""
    found = {}
    for end in range(3, len(windows) + 1):
        span = {component: waiting[end - 3 : end] for component, waiting in queues.items()}
        why = drain_reason(span, windows[end - 3 : end], DRAIN_SPAN_S / 3)
        if why and None not in windows[end - 3 : end]:
            found[end - 2] = why
    return found
