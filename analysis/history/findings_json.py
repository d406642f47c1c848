"""Findings for machines: `findings.json` of a suite (docs/contracts.md)."""

from __future__ import annotations

from typing import Any

from analysis.history.claims_over_time import DECIDED, ClaimHistory
from analysis.history.findings import Findings
from analysis.history.regressions import Finding, Kind, Status
from analysis.history.series import described
from analysis.history.words import sentence, top_line


def as_data(found: Findings) -> dict[str, Any]:
    nights = found.history.nights
    return {
        "v": 1,
        "suite": found.history.suite,
        "title": found.settings.title,
        "night": found.last.id if found.last else None,
        "nights": len(nights),
        "headline": top_line(found),
        "counts": counts(found),
        "last_night": dict(found.failed_last_night),
        "findings": [finding_data(one, found) for one in found.all],
        "claims": [_claim(claim, found) for claim in found.claims],
        "turned": [
            {"claim": turn.claim, "before": turn.before, "after": turn.after, "night": nights[turn.since].id,
             "last": nights[turn.last].id}
            for turn in found.turns
        ],
        "told": list(found.told),
    }  # fmt: skip


def counts(found: Findings) -> dict[str, int]:
    """Series by what is said of them; `new_confirmed` is what exit code 6 is about."""
    of = found.of
    return {
        "series": len(found.series),
        "confirmed": len(of(Kind.REGRESSION, Status.CONFIRMED)),
        "suspected": len(of(Kind.REGRESSION, Status.SUSPECTED)),
        "recovered": len(of(Kind.REGRESSION, Status.RECOVERED)),
        "accepted": len(of(Kind.REGRESSION, Status.ACCEPTED)),
        "not_measured": len(of(Kind.REGRESSION, Status.NOT_MEASURED)),
        "improvements": len(of(Kind.IMPROVEMENT, Status.CONFIRMED)),
        "new_confirmed": len(found.alarms),
    }


def finding_data(one: Finding, found: Findings) -> dict[str, Any]:
    nights, key = found.history.nights, one.key
    return {
        "series": key.name, "experiment": key.experiment, "variant": key.variant, "metric": key.metric,
        "event": key.event, "machine": key.machine, "unit": described(key.metric).unit,
        "kind": one.kind, "status": one.status, "new": one.new, "alarms": one.alarms,
        "good_night": nights[one.good].id, "since_night": nights[one.since].id, "bad_night": nights[one.bad].id,
        "confirmed_night": _night(found, one.confirmed), "recovered_night": _night(found, one.recovered),
        "before": one.before, "after": one.after, "now": one.now, "percent": one.percent, "p": one.p,
        "floor": one.floor, "nights_after": one.nights_after,
        "commits": {"kind": one.commits.kind, "good": one.commits.good, "bad": one.commits.bad,
                    "between": one.commits.between},
        "why_accepted": one.why_accepted, "sentence": sentence(one, nights),
    }  # fmt: skip


def _night(found: Findings, index: int | None) -> str | None:
    return None if index is None else found.history.nights[index].id


def _claim(claim: ClaimHistory, found: Findings) -> dict[str, Any]:
    """The last verdict that was given, and in which night."""
    given = [i for i, cell in enumerate(claim.cells) if cell.verdict in DECIDED]
    last = claim.cells[given[-1]] if given else None
    row = last.row if last else None
    return {
        "claim": claim.name, "verdict": last.verdict if last else "not run",
        "night": _night(found, given[-1] if given else None),
        "measured": row.measured if row else None, "low": row.low if row else None, "high": row.high if row else None,
        "tonight": claim.cells[-1].verdict if claim.cells else "not run",
    }  # fmt: skip
