"""What the machines' clocks make of latencies, from run.json: how far these may be wrong as measured, and corrected.

A tuple is due by the clock of its source's machine and done by that of its sink's. `analysis.metrics.latency` takes out
what the two differed by, on a straight line between the offsets of before and after the run.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

Json = Mapping[str, Any]


def measured_error_ms(document: Json) -> float | None:
    """The most by which a latency may be wrong as the workers wrote it; None where fewer than two clocks were compared.

    Records from before the error was measured have offsets only.
    """
    if document.get("clock_error_ms") is not None:
        return float(document["clock_error_ms"])
    offsets = [float(offset) for offset in (document.get("clock_offset_ms") or {}).values() if offset is not None]
    return max(offsets) - min(offsets) if len(offsets) > 1 else None


def corrected_error_ms(document: Json) -> float | None:
    """The most by which a latency may be wrong without the clocks' offsets; None where they are not all on record.

    Of a pair of machines: the errors of both measurements, and as much as their clocks moved against each other, for
    nobody knows that they did so evenly. A line is all the way between its ends, so a clock that goes steadily and one
    that is set at once are both within.
    """
    before, after, errors = (
        document.get(name) or {} for name in ("clock_offset_ms", "clock_end_offset_ms", "clock_offset_error_ms")
    )
    workers = [name for name in document.get("machines") or {} if name in before]
    if any(known.get(name) is None for name in workers for known in (before, after, errors)):
        return None
    moves = {name: after[name] - before[name] for name in workers}
    pairs = (errors[a] + errors[b] + abs(moves[a] - moves[b]) for a, b in combinations(workers, 2))
    return max(pairs, default=None)
