"""The ledger over time: what each claim's verdict was each night, and where it changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.nights.night_records import ClaimRow, Night
from analysis.record.simulated import SIMULATED


class ClaimVerdict(StrEnum):
    """`partly met`: what was measured goes the way that is stated, but not as far, or farther. `undecided`: too few
    runs to say."""

    MET = "met"
    PARTLY = "partly met"
    UNMET = "unmet"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"
    NOT_RUN = "not run"


CLEAR_VERDICTS = (ClaimVerdict.MET, ClaimVerdict.PARTLY, ClaimVerdict.UNMET)


@dataclass(frozen=True)
class ClaimCell:
    """A claim in one night."""

    verdict: ClaimVerdict
    row: ClaimRow | None = None

    @property
    def version(self) -> int:
        """Of the ledger whose rule gave the verdict; 0: it was not in that night's ledger."""
        return self.row.v if self.row else 0


@dataclass(frozen=True)
class ClaimHistory:
    """`cells`: one a night, in the order of the history."""

    name: str
    statement: str
    stated: str
    cells: tuple[ClaimCell, ...]

    @property
    def version(self) -> int:
        """Of the newest ledger that has the claim."""
        return next((cell.version for cell in reversed(self.cells) if cell.version), 0)

    @property
    def newest_rule(self) -> tuple[tuple[int, ClaimCell], ...]:
        """What the rule of that ledger says, with the nights by index: another rule's verdict is none any more."""
        return tuple((i, cell) for i, cell in enumerate(self.cells) if cell.version == self.version)


@dataclass(frozen=True)
class VerdictChange:
    """A verdict that differs from the last one that was given."""

    claim: str
    before: ClaimVerdict
    after: ClaimVerdict
    since: int  # the night, by index
    last: int  # the night of the verdict before


def verdict_of(row: ClaimRow) -> ClaimVerdict:
    if row.verdict == "reproduced":
        return ClaimVerdict.MET
    if row.verdict == "differs":
        return ClaimVerdict.PARTLY if row.direction == "same" else ClaimVerdict.UNMET
    if row.verdict == "not testable here":
        return ClaimVerdict.NOT_TESTABLE
    return ClaimVerdict.UNDECIDED if row.runs else ClaimVerdict.NOT_RUN


def claim_histories(nights: Sequence[Night]) -> tuple[ClaimHistory, ...]:
    """Every claim that any night knows, in the order of the newest ledger.

    A simulated night has none: what a model gives is no verdict (decision 0043).
    """
    by_night = [
        {} if night.testbed == SIMULATED else _best_rows(row for found in night.experiments for row in found.claims)
        for night in nights
    ]
    names = list(dict.fromkeys(name for rows in reversed(by_night) for name in rows))
    return tuple(_claim_history(name, [rows.get(name) for rows in by_night]) for name in names)


def _best_rows(rows: Iterable[ClaimRow]) -> dict[str, ClaimRow]:
    """A ledger row a claim: every series of a night has the whole ledger, and one of them tells most."""
    order = [*CLEAR_VERDICTS, ClaimVerdict.UNDECIDED, ClaimVerdict.NOT_TESTABLE, ClaimVerdict.NOT_RUN]
    found: dict[str, ClaimRow] = {}
    for row in rows:
        best = found.get(row.name)
        if best is None or order.index(verdict_of(row)) < order.index(verdict_of(best)) > order.index(
            ClaimVerdict.UNMET
        ):
            found[row.name] = row
    return found


def _claim_history(name: str, rows: Sequence[ClaimRow | None]) -> ClaimHistory:
    last = next(row for row in reversed(rows) if row is not None)
    cells = tuple(ClaimCell(ClaimVerdict.NOT_RUN) if row is None else ClaimCell(verdict_of(row), row) for row in rows)
    return ClaimHistory(name, last.statement, last.stated_text, cells)


def verdict_changes(claims: Sequence[ClaimHistory]) -> tuple[VerdictChange, ...]:
    """Every change of a verdict, oldest first; nights without one are passed over.

    Verdicts are compared within one version of the ledger: by another rule the same numbers have other ones.
    """
    found = []
    for claim in claims:
        clear = [(i, cell) for i, cell in enumerate(claim.cells) if cell.verdict in CLEAR_VERDICTS]
        for version in sorted({cell.version for _, cell in clear}):
            of_version = [(i, cell.verdict) for i, cell in clear if cell.version == version]
            for (last, before), (since, after) in pairwise(of_version):
                if before != after:
                    found.append(VerdictChange(claim.name, before, after, since, last))
    return tuple(sorted(found, key=lambda turn: turn.since))


def rule_changes(claims: Sequence[ClaimHistory]) -> dict[int, int]:
    """Version of another ledger than the newest -> the last night, by index, with a verdict by its rule."""
    clear = [
        (i, cell.version) for claim in claims for i, cell in enumerate(claim.cells) if cell.verdict in CLEAR_VERDICTS
    ]
    newest = max((claim.version for claim in claims), default=0)
    return {version: max(i for i, v in clear if v == version) for version in sorted({v for _, v in clear} - {newest})}
