"""Findings in the history of a suite: regressions, improvements, claims, and notes for the reader.

`evaluate` is pure. `review` reads a suite's folder and keeps change points in a cache beside the nights; their
keys contain everything that they depend on, so they are never out of date.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from analysis.errors import RecordError
from analysis.metrics.definitions import Better
from analysis.nights import claim_history, night_records, night_series
from analysis.nights.claim_history import ClaimHistory, VerdictChange
from analysis.nights.night_records import History, NightRecord, clock_jumps, read_history
from analysis.nights.night_series import NightKey, NightSeries, build_series
from analysis.nights.regressions import Finding, RegressionKind, Settings, Status, accepts, judge, same_change
from analysis.numerals import number
from analysis.record.files import read_json, write_json_atomic
from analysis.stats.change_points import Candidate, Rule, change_points, share_changes
from barograph.plan.experiment import SIMULATED

CACHE_FILE = ".change_points.json"
OF_MODEL = (
    "The last night was simulated: with the same seeds a model gives the same numbers each night, so a step is a change"
    " of code (a policy, the policy service, the model) or of costs, and no claim has a verdict."
)


@cache
def _method_version() -> str:
    """Return the version of the method: another release of Otava, or of our own cleaning, has other results."""
    from importlib.metadata import PackageNotFoundError, version

    import analysis.stats.change_points as ours

    with suppress(PackageNotFoundError):
        return version("apache-otava") + hashlib.blake2b(Path(ours.__file__).read_bytes(), digest_size=8).hexdigest()
    return ""


class ChangePointCache:
    """A cache of Otava's answers by values; a damaged file counts as none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CACHE_FILE
        self._known: dict[str, list[list[float]]] = {}
        self._used: dict[str, list[list[float]]] = {}
        self.searches = 0
        with suppress(RecordError, FileNotFoundError):
            self._known = read_json(self._path)["found"] if self._path.is_file() else {}

    def change_points(self, values: Sequence[float], rule: Rule) -> tuple[Candidate, ...]:
        key = _cache_key(values, rule)
        if key not in self._known:
            self.searches += 1
            self._known[key] = [[point.index, point.p] for point in change_points(values, rule)]
        self._used[key] = self._known[key]
        return tuple(Candidate(int(index), p) for index, p in self._known[key])

    def keep(self) -> None:
        """Store the answers used this time; the others belong to no series any more."""
        write_json_atomic(self._path, {"v": 1, "found": self._used})


def _cache_key(values: Sequence[float], rule: Rule) -> str:
    content = (
        np.asarray(values, dtype=np.float64).tobytes()
        + json.dumps([rule.window_nights, rule.max_p, _method_version()]).encode()
    )
    return hashlib.blake2b(content, digest_size=12).hexdigest()


FindChangePoints = Callable[[Sequence[float], Rule], tuple[Candidate, ...]]


@dataclass(frozen=True)
class SeriesFindings:
    """A series with its findings. `current`: measured on today's machines."""

    series: NightSeries
    findings: tuple[Finding, ...]
    current: bool

    @property
    def key(self) -> NightKey:
        return self.series.key


@dataclass(frozen=True)
class Findings:
    """Result of one evaluation; its last night is tonight."""

    settings: Settings
    history: History
    series: tuple[SeriesFindings, ...]
    cells: tuple[night_records.CalendarCell, ...]
    claims: tuple[ClaimHistory, ...]
    turns: tuple[VerdictChange, ...]
    notes: tuple[str, ...]

    @property
    def all(self) -> tuple[Finding, ...]:
        """Return all findings, the newest first, of those the largest."""
        findings = [finding for series in self.series for finding in series.findings]
        return tuple(sorted(findings, key=lambda one: (-one.since, -abs(one.percent or 0.0), one.key)))

    def of(self, kind: RegressionKind, *statuses: Status) -> tuple[Finding, ...]:
        return tuple(one for one in self.all if one.kind is kind and (not statuses or one.status in statuses))

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Return regressions that tonight confirmed and nobody accepted: the reason for an exit code."""
        return tuple(one for one in self.all if one.alarms)

    @property
    def last(self) -> NightRecord | None:
        return self.history.nights[-1] if self.history.nights else None

    @property
    def failed_last_night(self) -> Counter[str]:
        """Return statuses of last night's experiments that are not complete, and how many have them."""
        nights = self.last.experiments if self.last else ()
        return Counter(one.status for one in nights if one.status != "complete")


def review(folder: Path | str, settings: Settings) -> Findings:
    """Evaluate a suite's folder; Otava is only called for new values."""
    cache = ChangePointCache(Path(folder))
    findings = evaluate(read_history(folder), settings, cache.change_points)
    cache.keep()
    return findings


def evaluate(history: History, settings: Settings, find: FindChangePoints = change_points) -> Findings:
    """Return findings of a history; `find` returns where values change."""
    all_series = build_series(history.nights, settings.renames)
    by_time = sorted(all_series, key=lambda one: one.watched_nights[-1])
    newest = {one.key.names: one.key.machine for one in by_time}  # the machines that measured a series last
    series = tuple(
        _series_findings(one, history.nights, settings, find, current=newest[one.key.names] == one.key.machine)
        for one in all_series
    )
    claims = claim_history.claim_histories(history.nights)
    cells, turns = night_records.calendar_cells(history.nights), claim_history.verdict_changes(claims)
    findings = Findings(settings, history, series, cells, claims, turns, ())
    return replace(findings, notes=tuple(_notes(findings)))


def _series_findings(
    series: NightSeries, nights: Sequence[NightRecord], settings: Settings, find: FindChangePoints, *, current: bool
) -> SeriesFindings:
    if series.metric.better is Better.NONE:
        return SeriesFindings(series, (), current)
    findings = judge(series, nights, _changes(series, settings.rule, find), settings, current=current)
    last = len(nights) - 1
    if not findings or series.nights[-1] != last:
        return SeriesFindings(series, findings, current)

    @cache
    def findings_of(night: int) -> tuple[Finding, ...]:
        """Return the findings about the series in that night."""
        history = NightSeries(series.key, series.points[: night + 1])
        findings = _changes(history, settings.rule, find) if history.values else ()
        return judge(history, nights[: night + 1], findings, settings)

    return SeriesFindings(series, tuple(replace(one, new=_is_new(one, last, findings_of)) for one in findings), current)


def _changes(series: NightSeries, rule: Rule, find: FindChangePoints) -> tuple[Candidate, ...]:
    if not series.is_share:
        return find(series.values, rule)
    measured = [series.points[i] for i in series.nights]
    return share_changes([point.never for point in measured], [point.runs for point in measured])


def _is_new(finding: Finding, tonight: int, findings_of: Callable[[int], Sequence[Finding]]) -> bool:
    """Return whether the finding was not there the night before, nor, once it is confirmed, in any other since.

    A change that is hardly beyond chance comes and goes with the nights after it: it is reported once.
    """
    first = tonight - 1 if finding.confirmed is None else min(finding.confirmed, tonight - 1)
    return not any(
        same_change(finding, one) and finding.status is one.status
        for night in range(tonight - 1, first - 1, -1)
        for one in findings_of(night)
    )


def _notes(found: Findings) -> list[str]:
    """Return what a reader must know before the rest."""
    history, settings = found.history, found.settings
    lines = [f"{one.file} is no night: {one.why}. It is left out." for one in history.damaged]
    if history.nights and history.nights[-1].testbed == SIMULATED:
        lines.append(OF_MODEL)
    lines += clock_jumps(history)
    lines += _machine_changes(found.series, history)
    lines += night_series.name_changes(history.nights, settings.renames)
    lines += [
        f"verdicts of claims until {history.nights[night].id} are by another rule (ledger version {version}); they are"
        " not compared with those of today"
        for version, night in claim_history.rule_changes(found.claims).items()
    ]
    lines += [
        f"verdicts of {', '.join(names)} in {_nights_words(history, nights)} are of other machines; they are not"
        " compared with those of today"
        for nights, names in claim_history.machine_changes(found.claims).items()
    ]
    lines += [
        f"{one.key.name}: {number(one.before)} → {number(one.after)} since night {history.nights[one.since].id} in"
        f" complete runs is no improvement: {one.failed}"
        for one in found.of(RegressionKind.CHANGE, Status.CONFIRMED, Status.SUSPECTED)
    ]
    regressions = found.of(RegressionKind.REGRESSION)
    for entry in settings.accepted:
        if not any(accepts(entry, one, history.nights) for one in regressions):
            lines.append(
                f"accepted: {entry.series!r}, night {entry.night} ({entry.why}) is no regression that was found; "
                "`night` wants the date or id of the first bad night"
            )
    return lines


def _nights_words(history: History, nights: Sequence[int]) -> str:
    """Return the nights one by one, or from the first to the last of many that follow each other."""
    ids = [history.nights[night].id for night in nights]
    if len(nights) > 2 and nights[-1] - nights[0] == len(nights) - 1:
        return f"{ids[0]} to {ids[-1]}"
    return ", ".join(ids)


def _machine_changes(series: Sequence[SeriesFindings], history: History) -> list[str]:
    """Return one line for all experiments whose machines changed after the same night."""
    last_nights: dict[tuple[str, str], int] = {}  # by experiment and machines that are not today's
    for findings in series:
        if not findings.current:
            key = findings.key.experiment, findings.key.machine
            last_nights[key] = max(last_nights.get(key, 0), findings.series.watched_nights[-1])
    by_night: dict[int, list[str]] = defaultdict(list)
    for (experiment, _), night in sorted(last_nights.items()):
        by_night[night].append(experiment)
    return [
        f"{', '.join(names)}: measured on other machines until {history.nights[night].id}; what was before is not "
        "compared with what came after"
        for night, names in sorted(by_night.items())
    ]
