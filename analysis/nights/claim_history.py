"""The ledger over time: what each claim's verdict was each night, and where it changed. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.nights.night_records import ClaimRow, Night
from analysis.nights.night_series import machine_of
from barograph.plan.experiment import SIMULATED


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
MEASURED = (*CLEAR_VERDICTS, ClaimVerdict.UNDECIDED, ClaimVerdict.NOT_TESTABLE)
BY_CONTENT = tuple(ClaimVerdict)  # those that tell most come first


@dataclass(frozen=True)
class ClaimCell:
    """A claim in one night. `machine`: the fingerprint of the experiment that the verdict is of."""

    verdict: ClaimVerdict
    row: ClaimRow | None = None
    machine: str = ""

    @property
    def version(self) -> int:
        """Version of the ledger whose rule gave the verdict; 0: it was not in that night's ledger."""
        return self.row.v if self.row else 0

    @property
    def is_clear(self) -> bool:
        return self.verdict in CLEAR_VERDICTS

    @property
    def is_indication(self) -> bool:
        return self.is_clear and self.row is not None and self.row.indication

    @property
    def words(self) -> str:
        return f"{self.verdict} (indication)" if self.is_indication else str(self.verdict)


@dataclass(frozen=True)
class ClaimHistory:
    """`cells`: one a night, in the order of the history."""

    name: str
    statement: str
    stated: str
    cells: tuple[ClaimCell, ...]

    @property
    def version(self) -> int:
        """Version of the newest ledger that has the claim."""
        return next((cell.version for cell in reversed(self.cells) if cell.version), 0)

    @property
    def machine(self) -> str:
        """Return what measured the claim last, by the rule of that ledger."""
        of_version = [cell for cell in self.cells if cell.row and cell.version == self.version]
        measured = [cell for cell in of_version if cell.verdict in MEASURED]
        return (measured or of_version)[-1].machine

    @property
    def comparable(self) -> tuple[tuple[int, ClaimCell], ...]:
        """What that rule says of these machines, with the nights by index: another rule's verdict is none any more, and
        that of other machines is another one."""
        wanted = self.version, self.machine
        return tuple((i, cell) for i, cell in enumerate(self.cells) if (cell.version, cell.machine) == wanted)

    @property
    def latest(self) -> ClaimCell:
        """The last verdict of these nights; without one the last of them that measured the claim, else the last."""
        cells = [cell for _, cell in reversed(self.comparable)]
        return next(cell for some in (CLEAR_VERDICTS, MEASURED, BY_CONTENT) for cell in cells if cell.verdict in some)


@dataclass(frozen=True)
class VerdictChange:
    """A verdict that differs from the last one that was given."""

    claim: str
    before: ClaimCell
    after: ClaimCell
    since: int  # the night, by index
    last: int  # the night of the verdict before

    @property
    def is_indication(self) -> bool:
        """Return whether one of the two is: then chance alone may have changed it."""
        return self.before.is_indication or self.after.is_indication


def verdict_of(row: ClaimRow) -> ClaimVerdict:
    """Return `undecided` also of what is `not run` with runs, or with a number."""
    if row.verdict == "reproduced":
        return ClaimVerdict.MET
    if row.verdict == "differs":
        return ClaimVerdict.PARTLY if row.direction == "same" else ClaimVerdict.UNMET
    if row.verdict == "not testable here":
        return ClaimVerdict.NOT_TESTABLE
    if row.verdict == "undecided" or row.runs or row.measured is not None:
        return ClaimVerdict.UNDECIDED
    return ClaimVerdict.NOT_RUN


def claim_histories(nights: Sequence[Night]) -> tuple[ClaimHistory, ...]:
    """Every claim that any night knows, in the order of the newest ledger.

    A simulated night has none: what a model gives is no verdict.
    """
    by_night = [{} if night.testbed == SIMULATED else _cells_of_night(night) for night in nights]
    names = list(dict.fromkeys(name for cells in reversed(by_night) for name in cells))
    return tuple(_claim_history(name, [cells.get(name) for cells in by_night]) for name in names)


def _cells_of_night(night: Night) -> dict[str, ClaimCell]:
    """Return them by claim; of several experiments with one the one that tells most."""
    found: dict[str, ClaimCell] = {}
    for experiment in night.experiments:
        for row in experiment.claims:
            cell, best = ClaimCell(verdict_of(row), row, machine_of(night, experiment)), found.get(row.name)
            if best is None or (not best.is_clear and BY_CONTENT.index(cell.verdict) < BY_CONTENT.index(best.verdict)):
                found[row.name] = cell
    return found


def _claim_history(name: str, cells: Sequence[ClaimCell | None]) -> ClaimHistory:
    last = next(cell.row for cell in reversed(cells) if cell is not None and cell.row is not None)
    absent = ClaimCell(ClaimVerdict.NOT_RUN)
    return ClaimHistory(name, last.statement, last.stated_text, tuple(cell or absent for cell in cells))


def verdict_changes(claims: Sequence[ClaimHistory]) -> tuple[VerdictChange, ...]:
    """Every change of a verdict, oldest first; nights without one are passed over.

    Verdicts are compared within one version of the ledger and on the same machines: by another rule the same numbers
    have other ones. Those that are no indications are compared with each other, whatever indications lie
    between; a change from or to an indication is one of its own, unless that night has such a change of the former.
    """
    found: list[VerdictChange] = []
    for claim in claims:
        for clear in _comparable_verdicts(claim).values():
            turns = [*_changes(claim.name, {i: cell for i, cell in clear.items() if not cell.is_indication})]
            nights = {turn.since for turn in turns}
            found += turns
            found += [
                change for change in _changes(claim.name, clear) if change.is_indication and change.since not in nights
            ]
    return tuple(sorted(found, key=lambda turn: turn.since))


def _comparable_verdicts(claim: ClaimHistory) -> Mapping[tuple[int, str], Mapping[int, ClaimCell]]:
    """By version of the ledger and machines: the nights, by index, with a verdict."""
    found: dict[tuple[int, str], dict[int, ClaimCell]] = defaultdict(dict)
    for i, cell in enumerate(claim.cells):
        if cell.is_clear:
            found[cell.version, cell.machine][i] = cell
    return found


def _changes(name: str, cells: Mapping[int, ClaimCell]) -> Iterator[VerdictChange]:
    for (last, before), (since, after) in pairwise(cells.items()):
        if before.verdict != after.verdict:
            yield VerdictChange(name, before, after, since, last)


def rule_changes(claims: Sequence[ClaimHistory]) -> dict[int, int]:
    """Version of another ledger than the newest -> the last night, by index, with a verdict by its rule."""
    clear = [(i, cell.version) for claim in claims for i, cell in enumerate(claim.cells) if cell.is_clear]
    newest = max((claim.version for claim in claims), default=0)
    return {version: max(i for i, v in clear if v == version) for version in sorted({v for _, v in clear} - {newest})}


def machine_changes(claims: Sequence[ClaimHistory]) -> dict[tuple[int, ...], list[str]]:
    """The nights, by index, with a verdict on other machines than those of today -> the claims of which they are."""
    found: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for claim in claims:
        machine = claim.machine
        elsewhere = [i for i, cell in enumerate(claim.cells) if cell.is_clear and cell.machine != machine]
        if elsewhere:
            found[tuple(elsewhere)].append(claim.name)
    return dict(sorted(found.items()))
