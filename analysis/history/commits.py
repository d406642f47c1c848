"""Which commits a change lies between, said as precisely as the nights allow. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from analysis.history.night import Night

LEAST_PAIRS = 5  # of nights of the same code, before they say how much the same code scatters


class Range(StrEnum):
    """`commits`: the first bad commit is in it. `same`: the code did not change. `unknown`: not all was committed."""

    COMMITS = "commits"
    SAME = "same"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class CommitRange:
    """From the last good night's commit (excluded) to the first bad night's (included).

    `between`: nights between these two, that were not measured or may have been the first bad one as well.
    """

    kind: Range
    good: str
    bad: str
    between: int

    @property
    def words(self) -> str:
        nights = f"{self.between} night{'s' if self.between > 1 else ''}"
        wider = f"; {nights} between missing or not clear" if self.between else ""
        return {
            Range.COMMITS: f"{self.good[:8]}..{self.bad[:8]}{wider}",
            Range.SAME: f"same commit {self.bad[:8]} before and after: look at the testbed, not at the code{wider}",
            Range.UNKNOWN: f"unknown: not all code was committed in one of the nights{wider}",
        }[self.kind]


def commits_between(nights: Sequence[Night], good: int, bad: int) -> CommitRange:
    before, after = nights[good], nights[bad]
    if before.dirty or after.dirty or not before.commit or not after.commit:
        kind = Range.UNKNOWN
    else:
        kind = Range.SAME if before.commit == after.commit else Range.COMMITS
    return CommitRange(kind, before.commit, after.commit, bad - good - 1)


def same_code_noise(nights: Sequence[Night], indices: Sequence[int], values: Sequence[float]) -> float | None:
    """Standard deviation of a night's value while the code was the same, robust; None where too few nights tell."""
    apart = [
        abs(after - before)
        for (i, before), (j, after) in pairwise(zip(indices, values, strict=True))
        if nights[i].commit and nights[i].commit == nights[j].commit and not nights[i].dirty and not nights[j].dirty
    ]
    return 1.4826 * median(apart) / math.sqrt(2) if len(apart) >= LEAST_PAIRS else None
