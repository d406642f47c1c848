"""The ledger over time: what each claim's verdict was each night, and where it changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.history.night import ClaimRow, Night


class Verdict(StrEnum):
    """`partly met`: what was measured goes the way that is stated, but not as far. `undecided`: too few runs to say."""

    MET = "met"
    PARTLY = "partly met"
    UNMET = "unmet"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


DECIDED = (Verdict.MET, Verdict.PARTLY, Verdict.UNMET)


@dataclass(frozen=True)
class Cell:
    """A claim in one night."""

    verdict: Verdict
    row: ClaimRow | None = None


@dataclass(frozen=True)
class ClaimHistory:
    """`cells`: one a night, in the order of the history."""

    name: str
    statement: str
    stated: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Turn:
    """A verdict that differs from the last one that was given."""

    claim: str
    before: Verdict
    after: Verdict
    since: int  # the night, by index
    last: int  # the night of the verdict before


def verdict_of(row: ClaimRow) -> Verdict:
    if row.verdict == "reproduced":
        return Verdict.MET
    if row.verdict == "differs":
        return Verdict.PARTLY if row.direction == "same" else Verdict.UNMET
    return Verdict.NOT_RUN if row.measured is None else Verdict.UNDECIDED


def over_time(nights: Sequence[Night]) -> tuple[ClaimHistory, ...]:
    """Every claim that any night knows, in the order of the newest ledger."""
    by_night = [_best(row for found in night.experiments for row in found.claims) for night in nights]
    names = list(dict.fromkeys(name for rows in reversed(by_night) for name in rows))
    return tuple(_history(name, [rows.get(name) for rows in by_night]) for name in names)


def _best(rows: Iterable[ClaimRow]) -> dict[str, ClaimRow]:
    """A ledger row a claim: every series of a night has the whole ledger, and one of them tells most."""
    order = [*DECIDED, Verdict.UNDECIDED, Verdict.NOT_RUN]
    found: dict[str, ClaimRow] = {}
    for row in rows:
        there = found.get(row.name)
        if there is None or order.index(verdict_of(row)) < order.index(verdict_of(there)) > order.index(Verdict.UNMET):
            found[row.name] = row
    return found


def _history(name: str, rows: Sequence[ClaimRow | None]) -> ClaimHistory:
    last = next(row for row in reversed(rows) if row is not None)
    cells = tuple(Cell(Verdict.NOT_RUN) if row is None else Cell(verdict_of(row), row) for row in rows)
    return ClaimHistory(name, last.statement, last.stated_text, cells)


def turns(claims: Sequence[ClaimHistory]) -> tuple[Turn, ...]:
    """Every change of a verdict, oldest first; nights without one are passed over."""
    found = []
    for claim in claims:
        given = [(i, cell.verdict) for i, cell in enumerate(claim.cells) if cell.verdict in DECIDED]
        for (last, before), (since, after) in pairwise(given):
            if before != after:
                found.append(Turn(claim.name, before, after, since, last))
    return tuple(sorted(found, key=lambda turn: turn.since))
