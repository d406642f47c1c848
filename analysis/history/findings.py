"""What the history of a suite says, all of it: regressions, improvements, claims, and what has to be told. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from analysis.history import claims_over_time, names, strip
from analysis.history.changes import Candidate, change_points
from analysis.history.claims_over_time import ClaimHistory, Turn
from analysis.history.night import Night
from analysis.history.regressions import Finding, Kind, Status, accepts, judge, same
from analysis.history.remembered import Remembered
from analysis.history.series import Key, Name, Series, build
from analysis.history.settings import Rule, Settings
from analysis.history.store import History, clocks_that_jumped, nights
from analysis.metric_directions import Better

Find = Callable[[Sequence[float], Rule], tuple[Candidate, ...]]


@dataclass(frozen=True)
class Judged:
    """A series with what was found in it. `current`: measured on today's machines."""

    series: Series
    findings: tuple[Finding, ...]
    current: bool

    @property
    def key(self) -> Key:
        return self.series.key


@dataclass(frozen=True)
class Findings:
    """Of one evaluation; its last night is tonight."""

    settings: Settings
    history: History
    series: tuple[Judged, ...]
    cells: tuple[strip.Cell, ...]
    claims: tuple[ClaimHistory, ...]
    turns: tuple[Turn, ...]
    told: tuple[str, ...]

    @property
    def all(self) -> tuple[Finding, ...]:
        """The newest first, of those the largest."""
        found = [finding for judged in self.series for finding in judged.findings]
        return tuple(sorted(found, key=lambda one: (-one.since, -abs(one.percent or 0.0), one.key)))

    def of(self, kind: Kind, *statuses: Status) -> tuple[Finding, ...]:
        return tuple(one for one in self.all if one.kind is kind and (not statuses or one.status in statuses))

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Regressions that tonight confirmed and nobody accepted: the reason for an exit code."""
        return tuple(one for one in self.all if one.alarms)

    @property
    def last(self) -> Night | None:
        return self.history.nights[-1] if self.history.nights else None

    @property
    def failed_last_night(self) -> Counter[str]:
        """Statuses of last night's experiments that are not complete, and how many have them."""
        found = self.last.experiments if self.last else ()
        return Counter(one.status for one in found if one.status != "complete")


def review(folder: Path | str, settings: Settings) -> Findings:
    """Evaluate a suite's folder; Otava is asked only about what it was not asked about before."""
    known = Remembered(Path(folder))
    found = evaluate(nights(folder), settings, known.change_points)
    known.keep()
    return found


def evaluate(history: History, settings: Settings, find: Find = change_points) -> Findings:
    """Findings of a history; `find` answers where values change."""
    made = build(history.nights, settings.renames)
    newest = _machines_of_today(made)
    series = tuple(_judged(one, history.nights, settings, find, current=newest[one.key.names] == one.key.machine)
                   for one in made)  # fmt: skip
    claims = claims_over_time.over_time(history.nights)
    found = Findings(settings, history, series, strip.cells(history.nights), claims, claims_over_time.turns(claims), ())
    return replace(found, told=tuple(_told(found)))


def _machines_of_today(made: Sequence[Series]) -> dict[Name, str]:
    """By name of a series: the machines that measured it last."""
    ordered = sorted(made, key=lambda one: one.nights[-1])
    return {one.key.names: one.key.machine for one in ordered}


def _judged(series: Series, nights: Sequence[Night], settings: Settings, find: Find, *, current: bool) -> Judged:
    if series.metric.better is Better.NONE:
        return Judged(series, (), current)
    found = judge(series, nights, find(series.values, settings.rule), settings, current=current)
    tonight = len(nights) - 1
    if not found or series.nights[-1] != tonight:
        return Judged(series, found, current)

    @cache
    def said(night: int) -> tuple[Finding, ...]:
        """What was said of the series that night."""
        then = Series(series.key, series.points[: night + 1])
        return judge(then, nights[: night + 1], find(then.values, settings.rule), settings) if then.values else ()

    return Judged(series, tuple(replace(one, new=_is_new(one, tonight, said)) for one in found), current)


def _is_new(finding: Finding, tonight: int, said: Callable[[int], Sequence[Finding]]) -> bool:
    """Whether the night before did not say so, nor, once it is confirmed, any other since.

    A change that is hardly beyond chance comes and goes with the nights after it: it is told once.
    """
    first = tonight - 1 if finding.confirmed is None else min(finding.confirmed, tonight - 1)
    return not any(
        same(finding, one) and finding.status is one.status
        for night in range(tonight - 1, first - 1, -1)
        for one in said(night)
    )


def _told(found: Findings) -> list[str]:
    """What a reader must know before believing the rest."""
    history, settings = found.history, found.settings
    lines = [f"{one.file} is no night: {one.why}. It is left out." for one in history.damaged]
    lines += clocks_that_jumped(history)
    lines += _changed_machines(found.series, history)
    lines += names.told(history.nights, settings.renames)
    regressions = found.of(Kind.REGRESSION)
    for entry in settings.accepted:
        if not any(accepts(entry, one, history.nights) for one in regressions):
            lines.append(
                f"accepted: {entry.series!r}, night {entry.night} ({entry.why}) is no regression that was found; "
                "`night` wants the date or id of the first bad night"
            )
    return lines


def _changed_machines(series: Sequence[Judged], history: History) -> list[str]:
    """One line for all experiments whose machines changed after the same night."""
    until: dict[tuple[str, str], int] = {}  # by experiment and machines that are not those of today
    for judged in series:
        if not judged.current:
            of = judged.key.experiment, judged.key.machine
            until[of] = max(until.get(of, 0), judged.series.nights[-1])
    by_night: dict[int, list[str]] = defaultdict(list)
    for (experiment, _), night in sorted(until.items()):
        by_night[night].append(experiment)
    return [
        f"{', '.join(names)}: measured on other machines until {history.nights[night].id}; what was before is not "
        "compared with what came after"
        for night, names in sorted(by_night.items())
    ]
