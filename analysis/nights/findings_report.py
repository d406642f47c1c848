"""Findings of the nights for people and for programs: sentences and numbers, and `findings.json` of a suite
(docs/contracts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis import numerals
from analysis.metrics.definitions import DifferenceKind
from analysis.nights.claim_history import ClaimHistory
from analysis.nights.findings import Findings
from analysis.nights.night_records import NightRecord
from analysis.nights.night_series import NightKey, metric_of
from analysis.nights.regressions import Finding, RegressionKind, Status
from analysis.numerals import MISSING, number


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
    select = found.of
    parts = [
        count_text(len(select(RegressionKind.REGRESSION, Status.CONFIRMED)), "confirmed regression"),
        f"{len(select(RegressionKind.REGRESSION, Status.SUSPECTED))} suspected",
    ]
    if improvements := len(select(RegressionKind.IMPROVEMENT, Status.CONFIRMED, Status.SUSPECTED)):
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
        "claims": [_claim_data(claim, found) for claim in found.claims],
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
    select = found.of
    return {
        "series": len(found.series),
        "confirmed": len(select(RegressionKind.REGRESSION, Status.CONFIRMED)),
        "suspected": len(select(RegressionKind.REGRESSION, Status.SUSPECTED)),
        "recovered": len(select(RegressionKind.REGRESSION, Status.RECOVERED)),
        "accepted": len(select(RegressionKind.REGRESSION, Status.ACCEPTED)),
        "not_measured": len(select(RegressionKind.REGRESSION, Status.NOT_MEASURED)),
        "improvements": len(select(RegressionKind.IMPROVEMENT, Status.CONFIRMED)),
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


def _claim_data(claim: ClaimHistory, found: Findings) -> dict[str, Any]:
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
