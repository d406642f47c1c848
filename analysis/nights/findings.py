"""Findings in the history of a suite: regressions, improvements, claims, and notes for the reader.

`evaluate` is pure. `review` reads a suite's folder and keeps change points in a cache beside the nights; their
keys contain everything that they depend on, so they are never out of date.

Also findings for people and for programs: sentences and numbers, and `findings.json` of a suite (docs/contracts.md).
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
from typing import Any

import numpy as np

from analysis import numerals
from analysis.errors import RecordError
from analysis.metrics.definitions import Better, DifferenceKind
from analysis.nights import claim_history, night_records, night_series
from analysis.nights.claim_history import ClaimHistory, VerdictChange
from analysis.nights.night_records import History, NightRecord, clock_jumps, read_history
from analysis.nights.night_series import NightKey, NightSeries, build_series, metric_of
from analysis.nights.regressions import Finding, RegressionKind, Settings, Status, accepts, judge, same_change
from analysis.numerals import MISSING, number
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
        parts = json.dumps([rule.window_nights, rule.max_p, _method_version()]).encode()
        key = hashlib.blake2b(np.asarray(values, dtype=np.float64).tobytes() + parts, digest_size=12).hexdigest()
        if key not in self._known:
            self.searches += 1
            self._known[key] = [[point.index, point.p] for point in change_points(values, rule)]
        self._used[key] = self._known[key]
        return tuple(Candidate(int(index), p) for index, p in self._known[key])

    def keep(self) -> None:
        """Store the answers used this time; the others belong to no series any more."""
        write_json_atomic(self._path, {"v": 1, "found": self._used})


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
        series_findings(one, history.nights, settings, find, current=newest[one.key.names] == one.key.machine)
        for one in all_series
    )
    claims = claim_history.claim_histories(history.nights)
    cells, turns = night_records.calendar_cells(history.nights), claim_history.verdict_changes(claims)
    findings = Findings(settings, history, series, cells, claims, turns, ())
    return replace(findings, notes=tuple(_notes(findings)))


def series_findings(
    series: NightSeries, nights: Sequence[NightRecord], settings: Settings, find: FindChangePoints, *, current: bool
) -> SeriesFindings:
    """Return a series with its findings. `new`: one was not there the night before, nor, once it is confirmed, in any
    other since: a change that is hardly beyond chance comes and goes with the nights after it."""
    if series.metric.better is Better.NONE:
        return SeriesFindings(series, (), current)
    findings = judge(series, nights, _changes(series, settings.rule, find), settings, current=current)
    tonight = len(nights) - 1
    if not findings or series.nights[-1] != tonight:
        return SeriesFindings(series, findings, current)

    @cache
    def findings_of(night: int) -> tuple[Finding, ...]:
        history = NightSeries(series.key, series.points[: night + 1])
        changes = _changes(history, settings.rule, find) if history.values else ()
        return judge(history, nights[: night + 1], changes, settings)

    def is_new(finding: Finding) -> bool:
        first = tonight - 1 if finding.confirmed is None else min(finding.confirmed, tonight - 1)
        earlier = (one for night in range(tonight - 1, first - 1, -1) for one in findings_of(night))
        return not any(same_change(finding, one) and finding.status is one.status for one in earlier)

    return SeriesFindings(series, tuple(replace(one, new=is_new(one)) for one in findings), current)


def _changes(series: NightSeries, rule: Rule, find: FindChangePoints) -> tuple[Candidate, ...]:
    if not series.is_share:
        return find(series.values, rule)
    measured = [series.points[i] for i in series.nights]
    return share_changes([point.never for point in measured], [point.runs for point in measured])


def _notes(found: Findings) -> list[str]:
    """Return what a reader must know before the rest."""
    history, settings = found.history, found.settings
    ids = [night.id for night in history.nights]
    lines = [f"{one.file} is no night: {one.why}. It is left out." for one in history.damaged]
    if history.nights and history.nights[-1].testbed == SIMULATED:
        lines.append(OF_MODEL)
    lines += clock_jumps(history)
    last_nights: dict[tuple[str, str], int] = {}  # by experiment and machines that are not today's
    for each in found.series:
        if not each.current:
            key = each.key.experiment, each.key.machine
            last_nights[key] = max(last_nights.get(key, 0), each.series.watched_nights[-1])
    by_night: dict[int, list[str]] = defaultdict(list)
    for (experiment, _), night in sorted(last_nights.items()):
        by_night[night].append(experiment)
    lines += [
        f"{', '.join(names)}: measured on other machines until {ids[night]}; what was before is not compared with what"
        " came after"
        for night, names in sorted(by_night.items())
    ]
    lines += night_series.name_changes(history.nights, settings.renames)
    lines += [
        f"verdicts of claims until {ids[night]} are by another rule (ledger version {version}); they are not compared"
        " with those of today"
        for version, night in claim_history.rule_changes(found.claims).items()
    ]
    for nights, names in claim_history.machine_changes(found.claims).items():
        is_long = len(nights) > 2 and nights[-1] - nights[0] == len(nights) - 1
        where = f"{ids[nights[0]]} to {ids[nights[-1]]}" if is_long else ", ".join(ids[night] for night in nights)
        lines.append(
            f"verdicts of {', '.join(names)} in {where} are of other machines; they are not compared with those of"
            " today"
        )
    lines += [
        f"{one.key.name}: {number(one.before)} → {number(one.after)} since night {ids[one.since]} in complete runs is"
        f" no improvement: {one.failed}"
        for one in found.of(RegressionKind.CHANGE, Status.CONFIRMED, Status.SUSPECTED)
    ]
    regressions = found.of(RegressionKind.REGRESSION)
    lines += [
        f"accepted: {entry.series!r}, night {entry.night} ({entry.why}) is no regression that was found; `night` wants"
        " the date or id of the first bad night"
        for entry in settings.accepted
        if not any(accepts(entry, one, history.nights) for one in regressions)
    ]
    return lines


def value_text(value: float | None, unit: str) -> str:
    return numerals.with_unit(number(value), "%" if unit == "points" else unit)


def change_text(finding: Finding) -> str:
    """Return the size of a change: in percent if the metric is compared so, else in its unit."""
    info = metric_of(finding.key.metric)
    if info.difference_kind is DifferenceKind.RATIO and finding.percent is not None:
        return numerals.change(finding.percent, "%")
    return numerals.change(finding.after - finding.before, info.unit)


def levels_text(finding: Finding) -> str:
    unit = metric_of(finding.key.metric).unit
    return f"{number(finding.before)} → {value_text(finding.after, unit)}"


def floor_text(finding: Finding) -> str:
    """Return the A/A floor in the unit of the change."""
    info = metric_of(finding.key.metric)
    if finding.floor is None:
        return MISSING
    if info.difference_kind is DifferenceKind.RATIO and finding.before > 0:
        return "±" + numerals.with_unit(number(100 * finding.floor / finding.before, 1), "%")
    return f"±{value_text(finding.floor, info.unit)}"


def series_text(key: NightKey) -> str:
    """Return the name of a series without the experiment, which is in the heading."""
    event = "" if key.event in ("e0", "e1") else f", {key.event}"
    return f"{key.variant.replace('_', ' ').replace(':', ', ')}: {metric_of(key.metric).words}{event}"


def status_text(finding: Finding, nights: Sequence[NightRecord]) -> str:
    """Return the status with its basis."""
    count = f"{finding.nights_after} night{'s' if finding.nights_after != 1 else ''}"
    failed = f"; {finding.failed}" if finding.failed else ""
    if finding.status is Status.SUSPECTED:
        return f"suspected, {count} so far{failed}"
    if finding.status is Status.RECOVERED and finding.recovered is not None:
        return f"recovered in night {nights[finding.recovered].id}"
    if finding.status is Status.ACCEPTED:
        return f"accepted: {finding.why_accepted}"
    if finding.status is Status.NOT_MEASURED:
        return "not measured any more on these machines"
    good_again = f"; good again in the last {finding.good_again}" if finding.good_again else ""
    return f"confirmed, {count}{good_again}{failed}"


def finding_sentence(finding: Finding, nights: Sequence[NightRecord]) -> str:
    """Return the whole finding on one line, for a log or a webhook."""
    direction = {RegressionKind.REGRESSION: "worse", RegressionKind.IMPROVEMENT: "better"}.get(
        finding.kind, "only in complete runs"
    )
    return (
        f"{finding.key.experiment}, {series_text(finding.key)}: {change_text(finding)} ({levels_text(finding)}),"
        f" {direction} since night "
        f"{nights[finding.since].id}; {status_text(finding, nights)}; commits {finding.commits.words}"
    )


def count_text(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def headline(found: Findings) -> str:
    """Return the state of the suite in one line."""
    if found.last is None:
        return "No night on record yet."
    counts = finding_counts(found)
    parts = [count_text(counts["confirmed"], "confirmed regression"), f"{counts['suspected']} suspected"]
    if improvements := len(found.of(RegressionKind.IMPROVEMENT, Status.CONFIRMED, Status.SUSPECTED)):
        parts.append(count_text(improvements, "improvement"))
    failed = found.failed_last_night
    parts.append(f"{count_text(failed['infrastructure'], 'infrastructure failure')} last night")
    parts += [f"{count} {status}" for status, count in sorted(failed.items()) if status != "infrastructure"]
    return ", ".join(parts)


def bisect_command(finding: Finding) -> str:
    """Return the command that finds the commit within the range."""
    key = finding.key
    return (
        f"barograph bisect --experiment {key.experiment} --variant {key.variant} --metric {key.metric} "
        f"--event {key.event} {finding.commits.good[:12]} {finding.commits.bad[:12]}"
    )


def findings_data(found: Findings) -> dict[str, Any]:
    nights = found.history.nights
    return {
        "v": 1,
        "suite": found.history.suite,
        "title": found.settings.title,
        "night": found.last.id if found.last else None,
        "nights": len(nights),
        "headline": headline(found),
        "counts": finding_counts(found),
        "last_night": dict(found.failed_last_night),
        "findings": [finding_data(one, found) for one in found.all],
        "claims": [claim_data(claim, found) for claim in found.claims],
        "turned": [
            {"claim": turn.claim, "before": turn.before.verdict, "after": turn.after.verdict,
             "indication": turn.is_indication, "night": nights[turn.since].id,
             "last": nights[turn.last].id}
            for turn in found.turns
        ],
        "told": list(found.notes),
    }  # fmt: skip


def finding_counts(found: Findings) -> dict[str, int]:
    """Return numbers of series by finding; `new_confirmed` is the reason for exit code 6."""
    statuses = {"confirmed": Status.CONFIRMED, "suspected": Status.SUSPECTED, "recovered": Status.RECOVERED,
                "accepted": Status.ACCEPTED, "not_measured": Status.NOT_MEASURED}  # fmt: skip
    return {
        "series": len(found.series),
        **{name: len(found.of(RegressionKind.REGRESSION, status)) for name, status in statuses.items()},
        "improvements": len(found.of(RegressionKind.IMPROVEMENT, Status.CONFIRMED)),
        "new_confirmed": len(found.alarms),
    }


def finding_data(finding: Finding, found: Findings) -> dict[str, Any]:
    nights, key = found.history.nights, finding.key
    return {
        "series": key.name, "experiment": key.experiment, "variant": key.variant, "metric": key.metric,
        "event": key.event, "machine": key.machine, "unit": metric_of(key.metric).unit,
        "kind": finding.kind, "status": finding.status, "new": finding.new, "alarms": finding.alarms,
        "good_night": nights[finding.good].id, "since_night": nights[finding.since].id,
        "bad_night": nights[finding.bad].id,
        "confirmed_night": _night_id(found, finding.confirmed), "recovered_night": _night_id(found, finding.recovered),
        "before": finding.before, "after": finding.after, "now": finding.now, "percent": finding.percent,
        "p": finding.p,
        "floor": finding.floor, "nights_after": finding.nights_after,
        "commits": {"kind": finding.commits.kind, "good": finding.commits.good, "bad": finding.commits.bad,
                    "between": finding.commits.between},
        "why_accepted": finding.why_accepted, "sentence": finding_sentence(finding, nights),
    }  # fmt: skip


def _night_id(found: Findings, index: int | None) -> str | None:
    return None if index is None else found.history.nights[index].id


def claim_data(claim: ClaimHistory, found: Findings) -> dict[str, Any]:
    """Return the last verdict by the newest rule on the machines that measured it last, and its night (null: none
    yet)."""
    summary = claim.latest
    nights = [i for i, cell in claim.comparable if cell.is_clear]
    row = summary.row if nights else None
    return {
        "claim": claim.name, "verdict": summary.verdict, "indication": row.indication if row else None,
        "night": _night_id(found, nights[-1] if nights else None),
        "measured": row.measured if row else None, "low": row.low if row else None, "high": row.high if row else None,
        "tonight": claim.cells[-1].verdict if claim.cells else "not run",
    }  # fmt: skip
