"""The calendar of a suite: one cell a night on record, and one for each night that should have been. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from statistics import median

from analysis.history.night import Night

MISSING = "missing"
LONGEST_GAP = 60  # missing nights that are drawn one by one


@dataclass(frozen=True)
class Cell:
    """`night`: its index in the history, None where there is none. `other_machines`: not those of the night before."""

    day: str
    status: str
    words: str
    night: int | None = None
    other_machines: bool = False


def cells(nights: Sequence[Night]) -> tuple[Cell, ...]:
    """Nights in their order; between two that are further apart than usual, the missing ones."""
    days = [date.fromisoformat(night.night) for night in nights]
    usual = _usual(days)
    found = []
    for i, night in enumerate(nights):
        if i:
            found += [_missing(day) for day in _between(days[i - 1], days[i], usual)]
        other = i > 0 and night.machine != nights[i - 1].machine
        found.append(Cell(night.night, night.status, _words(night), i, other))
    return tuple(found)


def _usual(days: Sequence[date]) -> int:
    """Days from one night to the next, as a rule; at least one."""
    gaps = [(after - before).days for before, after in pairwise(days) if after > before]
    return max(1, round(median(gaps))) if gaps else 1


def _between(before: date, after: date, usual: int) -> list[date]:
    """The nights that should have been between two; what lies further back than a gap's longest is left out."""
    number = round((after - before).days / usual) - 1
    return [before + timedelta(days=usual * (i + 1)) for i in range(max(0, number))][-LONGEST_GAP:]


def _missing(day: date) -> Cell:
    return Cell(day.isoformat(), MISSING, "no night on record")


def _words(night: Night) -> str:
    """What did not go well, by experiment."""
    failed = [f"{found.experiment}: {found.status}" for found in night.experiments if found.status != "complete"]
    return "; ".join(failed) or f"all {len(night.experiments)} experiments"
