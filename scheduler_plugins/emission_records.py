"""Up to when each spout task's due tuples are on record, and how many of them it had not emitted then.

A worker that begins asks for this, so that its spouts go on with the schedule of the processes before. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# An input rate factor: beyond these a grid of nanoseconds has no room for the rate. Workers follow no other
# (SamplesAnswer.java), so the service takes no other and no plan may have one.
LEAST_FACTOR, MOST_FACTOR = 1e-6, 1000.0
RateChange = tuple[float, float]  # since when (epoch seconds), times the submitted rate


@dataclass(frozen=True)
class EmissionRecord:
    """`behind`: tuples due and not emitted at `t` (epoch seconds), the oldest of them for `behind_ms`."""

    t: float
    behind: int
    behind_ms: float


@dataclass
class EmissionRecords:
    """The newest record of each spout task of one topology, wherever the task was."""

    _newest: dict[int, EmissionRecord] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        """Take a worker line; one without `behind` says nothing of it, nor does a row in which it is null."""
        spouts = line.get("spouts") or {}
        if "behind" not in spouts:
            return
        for task, behind, behind_ms in zip(*(spouts[k] for k in ("task", "behind", "behind_ms")), strict=True):
            known = self._newest.get(int(task))
            if behind is not None and (known is None or known.t < float(line["t"])):
                self._newest[int(task)] = EmissionRecord(float(line["t"]), int(behind), float(behind_ms or 0.0))

    def begin(self, tasks: Iterable[int], t: float) -> None:
        """Of these tasks nothing was due before `t`, unless something is on record."""
        for task in tasks:
            self._newest.setdefault(task, EmissionRecord(t, 0, 0.0))

    def oldest_s(self) -> float | None:
        """Due time of the oldest tuple that any task may still have to emit (epoch seconds); None without tasks."""
        return min((record.t - record.behind_ms / 1000 for record in self._newest.values()), default=None)

    def json(self) -> dict[str, Any]:
        """By task, as in the answer to a worker that begins."""
        return {str(task): {"t": record.t, "behind": record.behind} for task, record in self._newest.items()}


def rates_since(rates: Sequence[RateChange], t: float) -> list[RateChange]:
    """The changes of the rate that matter from `t` on: the one in force then, and what came later."""
    earlier = sum(1 for since_s, _ in rates if since_s <= t)
    return list(rates[max(0, earlier - 1) :])
