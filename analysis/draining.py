"""Throughput that will not last: a component works off what waited while it, or what follows it, was restarted.

Tuples then reach the sinks faster than the topology can go on, level or not. One definition for the run step, which
watches live, and for the analysis, which looks back. Standard library only.
"""

from collections.abc import Mapping, Sequence

SPAN_S = 30.0
SHARE = 0.05


def draining(queues: Mapping[str, Sequence[float]], sinks: Sequence[float | None], step_s: float = 1.0) -> str | None:
    """Why the end of a series is fed by a queue, or None.

    Over the last `SPAN_S` no component's queue may shrink by more than `SHARE` of the throughput at the sinks; from
    the mean of the span's first third to that of its last. `queues` by component and `sinks` (tuples/s, None: not
    measured) have a value every `step_s`, oldest first, and end together.
    """
    needed, third = round(SPAN_S / step_s), round(SPAN_S / step_s / 3)
    if len(sinks) < needed:
        return None
    seen = [rate for rate in sinks[-needed:] if rate is not None]
    allowed = SHARE * sum(seen) / max(len(seen), 1)
    for component, waiting in queues.items():
        span = waiting[-needed:]
        shrinks = (sum(span[:third]) - sum(span[-third:])) / third / (SPAN_S - third * step_s)
        if shrinks > allowed:
            return f"the queue of {component} shrinks by {shrinks:.1f} tuples/s; allowed: {allowed:.1f}"
    return None


def drained(queues: Mapping[str, Sequence[float]], windows: Sequence[float]) -> dict[int, str]:
    """Which windows, each a third of the span, are fed by a queue, and why: those in the middle of a span that is."""
    found = {}
    for end in range(3, len(windows) + 1):
        until = {component: waiting[:end] for component, waiting in queues.items()}
        why = draining(until, windows[:end], SPAN_S / 3)
        if why:
            found[end - 2] = why
    return found
