"""The ledger over time: each claim's verdict each night, and where it changed. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from analysis.nights.night_records import ClaimRow, NightRecord
from analysis.nights.night_series import machine_of
from barograph.plan.experiment import SIMULATED


class ClaimVerdict(StrEnum):
    """The verdict. `partly met`: the measurement goes the stated way, but not as far, or farther. `undecided`: too few
    runs."""

    MET = "met"
    PARTLY = "partly met"
    UNMET = "unmet"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"
    NOT_RUN = "not run"


CLEAR_VERDICTS = (ClaimVerdict.MET, ClaimVerdict.PARTLY, ClaimVerdict.UNMET)
MEASURED = (*CLEAR_VERDICTS, ClaimVerdict.UNDECIDED, ClaimVerdict.NOT_TESTABLE)
BY_CONTENT = tuple(ClaimVerdict)  # the most informative ones come first


@dataclass(frozen=True)
class ClaimCell:
    """A claim in one night. `machine`: the fingerprint of the verdict's experiment."""

    verdict: ClaimVerdict
    row: ClaimRow | None = None
    machine: str = ""

    @property
    def version(self) -> int:
        """Return the version of the ledger whose rule gave the verdict; 0: it was not in that night's ledger."""
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
    """A claim's verdicts; `cells`: one a night, in the order of the history."""

    name: str
    statement: str
    stated: str
    cells: tuple[ClaimCell, ...]

    @property
    def version(self) -> int:
        """Return the version of the newest ledger that has the claim."""
        return next((cell.version for cell in reversed(self.cells) if cell.version), 0)

    @property
    def machine(self) -> str:
        """Return the machines that measured the claim last, by the rule of that ledger."""
        of_version = [cell for cell in self.cells if cell.row and cell.version == self.version]
        measured = [cell for cell in of_version if cell.verdict in MEASURED]
        return (measured or of_version)[-1].machine

    @property
    def comparable(self) -> tuple[tuple[int, ClaimCell], ...]:
        """Return the verdicts of that rule on these machines, with the nights by index: verdicts of another rule no
        longer hold, and those of other machines are different ones."""
        key = self.version, self.machine
        return tuple((i, cell) for i, cell in enumerate(self.cells) if (cell.version, cell.machine) == key)

    @property
    def latest(self) -> ClaimCell:
        """Return the last verdict of these nights; without one the last of them that measured the claim, else the
        last."""
        cells = [cell for _, cell in reversed(self.comparable)]
        return next(cell for group in (CLEAR_VERDICTS, MEASURED, BY_CONTENT) for cell in cells if cell.verdict in group)


@dataclass(frozen=True)
class VerdictChange:
    """A verdict that differs from the previous one."""

    claim: str
    before: ClaimCell
    after: ClaimCell
    since: int  # index of the night
    last: int  # index of the night of the verdict before

    @property
    def is_indication(self) -> bool:
        """Return whether one of the two is an indication: then chance alone may have changed it."""
        return self.before.is_indication or self.after.is_indication


def verdict_of(row: ClaimRow) -> ClaimVerdict:
    """Return the verdict; `undecided` also for `not run` with runs, or with a number."""
    if row.verdict == "reproduced":
        return ClaimVerdict.MET
    if row.verdict == "differs":
        return ClaimVerdict.PARTLY if row.direction == "same" else ClaimVerdict.UNMET
    if row.verdict == "not testable here":
        return ClaimVerdict.NOT_TESTABLE
    if row.verdict == "undecided" or row.runs or row.measured is not None:
        return ClaimVerdict.UNDECIDED
    return ClaimVerdict.NOT_RUN


def claim_histories(nights: Sequence[NightRecord]) -> tuple[ClaimHistory, ...]:
    """Return every claim in any night, in the order of the newest ledger.

    A simulated night has none: a model's answer is no verdict.
    """
    by_night = [{} if night.testbed == SIMULATED else _cells_of_night(night) for night in nights]
    blank, histories = ClaimCell(ClaimVerdict.NOT_RUN), []
    for name in dict.fromkeys(name for cells in reversed(by_night) for name in cells):
        cells = tuple(cells.get(name, blank) for cells in by_night)
        last = next(cell.row for cell in reversed(cells) if cell.row is not None)
        histories.append(ClaimHistory(name, last.statement, last.stated_text, cells))
    return tuple(histories)


def _cells_of_night(night: NightRecord) -> dict[str, ClaimCell]:
    """Return cells by claim; if several experiments have one, the most informative."""
    cells: dict[str, ClaimCell] = {}
    for experiment in night.experiments:
        for row in experiment.claims:
            cell, best = ClaimCell(verdict_of(row), row, machine_of(night, experiment)), cells.get(row.name)
            if best is None or (not best.is_clear and BY_CONTENT.index(cell.verdict) < BY_CONTENT.index(best.verdict)):
                cells[row.name] = cell
    return cells


def verdict_changes(claims: Sequence[ClaimHistory]) -> tuple[VerdictChange, ...]:
    """Return every change of a verdict, oldest first; nights without one are skipped.

    Verdicts are compared within one version of the ledger and on the same machines: by another rule the same numbers
    have other ones. Those that are no indications are compared with each other, whatever indications lie
    between; a change from or to an indication is listed by itself, unless that night has such a change of the former.
    """
    changes: list[VerdictChange] = []
    for claim in claims:
        comparable: dict[tuple[int, str], dict[int, ClaimCell]] = defaultdict(dict)
        for i, cell in enumerate(claim.cells):
            if cell.is_clear:
                comparable[cell.version, cell.machine][i] = cell
        for verdicts in comparable.values():
            turns = [*_changes(claim.name, {i: cell for i, cell in verdicts.items() if not cell.is_indication})]
            nights = {turn.since for turn in turns}
            indications = (change for change in _changes(claim.name, verdicts) if change.is_indication)
            changes += [*turns, *(change for change in indications if change.since not in nights)]
    return tuple(sorted(changes, key=lambda turn: turn.since))


def _changes(name: str, cells: Mapping[int, ClaimCell]) -> Iterator[VerdictChange]:
    for (last, before), (first, after) in pairwise(cells.items()):
        if before.verdict != after.verdict:
            yield VerdictChange(name, before, after, first, last)


def rule_changes(claims: Sequence[ClaimHistory]) -> dict[int, int]:
    """Return version of another ledger than the newest -> the last night, by index, with a verdict by its rule."""
    entries = [(i, cell.version) for claim in claims for i, cell in enumerate(claim.cells) if cell.is_clear]
    newest = max((claim.version for claim in claims), default=0)
    return {
        version: max(i for i, v in entries if v == version) for version in sorted({v for _, v in entries} - {newest})
    }


def machine_changes(claims: Sequence[ClaimHistory]) -> dict[tuple[int, ...], list[str]]:
    """Return the nights, by index, with a verdict on other machines than today's -> the claims that had it."""
    names_by_nights: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for claim in claims:
        machine = claim.machine
        indices = [i for i, cell in enumerate(claim.cells) if cell.is_clear and cell.machine != machine]
        if indices:
            names_by_nights[tuple(indices)].append(claim.name)
    return dict(sorted(names_by_nights.items()))
