"""The page of one night: what ran, what failed and whose failure it was, and how it differs from the nights before."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.history import words
from analysis.history.claims_over_time import ClaimHistory, Verdict
from analysis.history.differences import Difference, differences
from analysis.history.findings import Findings
from analysis.history.regressions import Finding, Kind
from analysis.history.series import described
from analysis.history.shown import FindingRow, experiment_page, interval
from analysis.numerals import change, number

TEMPLATE = "night.html.j2"


def content(i: int, found: Findings, rows: Sequence[FindingRow], root: Path) -> dict[str, Any]:
    nights = found.history.nights
    night = nights[i]
    told = [row for row in rows if i in (row.finding.since, row.finding.confirmed, row.finding.recovered)]
    differing = differences(found.series, i)
    return {
        "title": f"Night {night.id}",
        "suite": found.history.suite,
        "night": night,
        "began": _utc(night.started_s),
        "minutes": max(0.0, night.ended_s - night.started_s) / 60,
        "before": nights[i - 1].id if i else None,
        "after": nights[i + 1].id if i + 1 < len(nights) else None,
        "experiments": [
            {"of": one, "report": report_of(root, one.series), "page": f"../{experiment_page(one.experiment)}",
             "values": sum(len(events) for metrics in one.variants.values() for events in metrics.values())}
            for one in night.experiments
        ],
        "findings": [(row, _what_happened(row.finding, i)) for row in told],
        "unusual": [difference_row(one) for one in differing if one.unusual],
        "usual": [difference_row(one) for one in differing if not one.unusual],
        "claims": [claim for claim in (_claim_of_night(claim, i) for claim in found.claims) if claim],
        "facts": [(key, str(value)) for key, value in night.machine_facts.items()],
    }  # fmt: skip


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def report_of(root: Path, series: str) -> str | None:
    """The report of a night's series, relative to the night's page, where it is here."""
    report = root.parent.parent / series / "report.html"
    return os.path.relpath(report, root / "nights") if series and report.is_file() else None


def _what_happened(one: Finding, night: int) -> str:
    if night == one.recovered:
        return "recovered"
    if night == one.confirmed:
        return "confirmed"
    return "first bad night" if one.kind is Kind.REGRESSION else "first better night"


def difference_row(one: Difference) -> dict[str, str]:
    of = described(one.key.metric)
    away = (one.point.value or 0.0) - one.before
    return {
        "experiment": one.key.experiment, "series": words.series(one.key),
        "tonight": words.with_unit(one.point.value, of.unit),
        "spread": f"{number(one.point.low)} to {number(one.point.high)}" if one.point.runs > 1 else "–",
        "before": number(one.before),
        "difference": change(away, of.unit) if one.percent is None else change(one.percent, "%"),
        "sigmas": "–" if one.sigmas is None else f"{abs(one.sigmas):.1f}", "css": "worse" if one.worse else "better",
        "words": ("worse" if one.worse else "better") if away else "the same",
    }  # fmt: skip


def _claim_of_night(claim: ClaimHistory, i: int) -> dict[str, str] | None:
    cell = claim.cells[i]
    if cell.row is None or cell.verdict is Verdict.NOT_RUN:
        return None
    row = cell.row
    return {"name": claim.name, "statement": row.statement, "stated": row.stated_text, "verdict": cell.verdict,
            "measured": row.measured_text or number(row.measured),
            "interval": row.interval_text or interval(row.low, row.high)}  # fmt: skip
