"""Courses of the input rate: from the seconds since their zero to the factor of the submitted rate, in steps. Pure.

A step has the mean of the course over its time, so that as many tuples fall due as by the course itself. Steps are
generated one by one: a course may be days long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from math import cos, tau

from scheduler_plugins.service.emission_records import LEAST_FACTOR

STEP_S = 1.0
Step = tuple[float, float]
"""Seconds since the zero, and the factor from then on. The last one is the course's end; its factor stays in force."""
Course = Callable[[float], Iterator[Step]]
"""The steps of a course, from the factor that is in force at its zero."""


def _spans(length_s: float | None) -> Iterator[tuple[float, float]]:
    for number in count():
        begin_s = number * STEP_S
        if length_s is not None and begin_s >= length_s:
            return
        yield begin_s, begin_s + STEP_S if length_s is None else min(begin_s + STEP_S, length_s)


def ramp(before: float, factor: float, over_s: float | None) -> Iterator[Step]:
    """Yield even steps from one to the other; one step without `over_s`."""
    for begin_s, end_s in _spans(over_s or 0.0):
        yield begin_s, _factor(before + (factor - before) * (begin_s + end_s) / 2 / (over_s or 1.0))
    yield over_s or 0.0, factor


def sine(mean: float, amplitude: float, period_s: float, for_s: float | None, phase: float) -> Iterator[Step]:
    """Yield a sine. `phase`: the part of a period that is over at the zero. It ends at the mean; without `for_s` it has
    no end."""
    turn = tau / period_s
    for begin_s, end_s in _spans(for_s):
        risen = cos(turn * begin_s + tau * phase) - cos(turn * end_s + tau * phase)
        yield begin_s, _factor(mean + amplitude * risen / (turn * (end_s - begin_s)))
    if for_s is not None:
        yield for_s, mean


def trace(rows: Iterator[Step], compression: float, for_s: float | None) -> Iterator[Step]:
    """Yield the steps of a trace. `rows`: seconds of the trace, from 0 on, and the factor from then to the next row. It
    ends with the last one."""
    _, factor = next(rows)
    following = next(rows, None)
    for begin_s, end_s in _spans(for_s):
        at, end, tuples = begin_s * compression, end_s * compression, 0.0
        while following is not None and following[0] < end:
            tuples += factor * (following[0] - at)
            (at, factor), following = following, next(rows, None)
        mean = _factor((tuples + factor * (end - at)) / ((end_s - begin_s) * compression))
        yield begin_s, mean
        if following is None:
            yield end_s, _factor(factor)
            return
    yield for_s or 0.0, mean


def _factor(value: float) -> float:
    """Return the factor that workers can follow: a course may be at 0 for a while, but not between 0 and the least
    factor."""
    return 0.0 if value < LEAST_FACTOR else round(value, 9)
