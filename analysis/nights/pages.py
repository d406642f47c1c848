"""The pages of a suite: index.html, a page a night, a page an experiment, and findings.json. Self-contained.

`write` brings them up to date: the index, the experiments' pages, tonight's page and those that are missing. The page
of a night has what ran, what failed and whose failure it was, and each value beside the last ones on the same machines.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from analysis.metrics.definitions import Better, DifferenceKind
from analysis.nights import findings_report
from analysis.nights.chart import chart_points, draw_chart, never_note, shared_columns
from analysis.nights.claim_history import ClaimHistory, ClaimVerdict
from analysis.nights.findings import Findings, SeriesFindings
from analysis.nights.findings_report import findings_data
from analysis.nights.night_records import Night
from analysis.nights.night_series import Key, Point, metric_of
from analysis.nights.page_parts import (
    SPARK_NIGHTS,
    FindingRow,
    calendar_months,
    cards,
    claim_line,
    experiment_page,
    failures,
    finding_row,
    finding_rows,
    group_by_range,
    group_title,
    interval_text,
    verdict_change_rows,
    with_status,
)
from analysis.nights.regressions import Finding, Kind, Status
from analysis.nights.timelines import CURRENT_STATUSES, Timeline, timelines
from analysis.numerals import change, number
from analysis.record.files import write_json_atomic
from analysis.report.simulated import sentence_of_series
from analysis.stats.change_points import plain_scatter, scatter
from barograph.plan.experiment import SIMULATED

NIGHTS_BEFORE = 7  # nights that a night is set beside
NIGHTS_OF_SCATTER = 30  # nights that say how much is usual
LEAST_NIGHTS = 3
USUAL_SIGMAS = 2.0  # standard deviations


@dataclass(frozen=True)
class NightDifference:
    """`sigmas`: how many usual nights' standard deviations away, positive where it is worse; infinite where those
    had no scatter."""

    key: Key
    point: Point
    before: float
    percent: float | None
    worse: bool
    sigmas: float

    @property
    def away(self) -> float:
        return (self.point.value or 0.0) - self.before

    @property
    def unusual(self) -> bool:
        """Whether it is far away for a night, and worth naming."""
        return abs(self.sigmas) > USUAL_SIGMAS and abs(self.away) >= metric_of(self.key.metric).smallest


def night_differences(series: Sequence[SeriesFindings], night: int) -> list[NightDifference]:
    """Of every series with a direction that the night measured and enough nights before did; the worst first."""
    found = [one for findings in series if (one := _night_difference(findings, night)) is not None]
    return sorted(found, key=lambda one: (-one.sigmas, one.key))


def _night_difference(findings: SeriesFindings, night: int) -> NightDifference | None:
    of = findings.series
    point = of.points[night]
    if point.value is None or of.metric.better is Better.NONE:
        return None
    place = of.nights.index(night)
    if place < LEAST_NIGHTS:
        return None
    earlier = of.values[max(0, place - NIGHTS_OF_SCATTER) : place]
    before = median(earlier[-NIGHTS_BEFORE:])
    away = point.value - before
    worse = (away < 0) == (of.metric.better is Better.HIGHER) and away != 0
    usual = scatter(earlier) or plain_scatter(earlier)
    sigmas = (1 if worse else -1) * (abs(away) / usual if usual else inf) if away else 0.0
    percent = 100 * away / before if before > 0 and of.metric.difference_kind is DifferenceKind.RATIO else None
    return NightDifference(of.key, point, before, percent, worse, sigmas)


NIGHT_TEMPLATE = "night.html.j2"


def night_content(i: int, found: Findings, rows: Sequence[FindingRow], root: Path) -> dict[str, Any]:
    nights = found.history.nights
    night = nights[i]
    news = [row for row in rows if i in (row.finding.since, row.finding.confirmed, row.finding.recovered)]
    differing = night_differences(found.series, i)
    return {
        "title": f"Night {night.id}",
        "suite": found.history.suite,
        "night": night,
        "began": datetime.fromtimestamp(night.started_s, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "minutes": max(0.0, night.ended_s - night.started_s) / 60,
        "before": nights[i - 1].id if i else None,
        "after": nights[i + 1].id if i + 1 < len(nights) else None,
        "experiments": [
            {"of": one, "report": report_of(root, one.series), "page": f"../{experiment_page(one.experiment)}",
             "values": sum(len(events) for metrics in one.variants.values() for events in metrics.values())}
            for one in night.experiments
        ],
        "findings": [(row, _finding_event(row.finding, i)) for row in news],
        "unusual": [difference_row(one) for one in differing if one.unusual],
        "usual": [difference_row(one) for one in differing if not one.unusual],
        "claims": [claim for claim in (_claim_of_night(claim, i) for claim in found.claims) if claim],
        "facts": [(key, str(value)) for key, value in night.machine_facts.items()],
        "simulated": simulated_text(night, root),
    }  # fmt: skip


def simulated_text(night: Night, root: Path) -> str:
    """How far the numbers of a simulated night may be from real ones, by those of its series that are here."""
    if night.testbed != SIMULATED:
        return ""
    return sentence_of_series(root.parent.parent / one.series for one in night.experiments if one.series)


def report_of(root: Path, series: str) -> str | None:
    """The report of a night's series, relative to the night's page, where it is here."""
    report = root.parent.parent / series / "report.html"
    return os.path.relpath(report, root / "nights") if series and report.is_file() else None


def _finding_event(finding: Finding, night: int) -> str:
    if night == finding.recovered:
        return "recovered"
    if night == finding.confirmed:
        return "confirmed"
    first = {Kind.REGRESSION: "first bad night", Kind.IMPROVEMENT: "first better night"}
    return first.get(finding.kind, "first night of a change in complete runs")


def difference_row(night: NightDifference) -> dict[str, str]:
    of = metric_of(night.key.metric)
    return {
        "experiment": night.key.experiment, "series": findings_report.series_text(night.key),
        "tonight": findings_report.value_text(night.point.value, of.unit),
        "spread": _spread_text(night.point),
        "before": number(night.before),
        "difference": change(night.away, of.unit) if night.percent is None else change(night.percent, "%"),
        "sigmas": number(abs(night.sigmas), 1),
        "css": "worse" if night.worse else "better",
        "words": (("worse" if night.worse else "better") if night.away else "the same")
        + (" in complete runs" if night.point.failed else ""),
    }  # fmt: skip


def _spread_text(point: Point) -> str:
    if point.never and point.within is None:
        return f"from {number(point.low)}; {never_note(point)}"
    return f"{number(point.low)} to {number(point.high)}" if point.runs > 1 else "–"


def _claim_of_night(claim: ClaimHistory, i: int) -> dict[str, str] | None:
    cell = claim.cells[i]
    if cell.row is None or cell.verdict is ClaimVerdict.NOT_RUN:
        return None
    row = cell.row
    return {"name": claim.name, "statement": row.statement, "stated": row.stated_text, "verdict": cell.words,
            "measured": row.measured_text or number(row.measured),
            "interval": row.interval_text or interval_text(row.low, row.high)}  # fmt: skip


INDEX_TEMPLATE, EXPERIMENT_TEMPLATE = "nights.html.j2", "nights_of_experiment.html.j2"


def write(folder: Path | str, found: Findings) -> Path:
    """findings.json and every page that changed; the index's path."""
    root = Path(folder)
    lines = timelines(found)
    rows = finding_rows(found, lines)
    write_json_atomic(root / "findings.json", findings_data(found))
    for experiment, of_experiment in lines.items():
        content = experiment_content(experiment, of_experiment, found)
        _write_page(root / experiment_page(experiment), EXPERIMENT_TEMPLATE, content)
    count = len(found.history.nights)
    for i, night in enumerate(found.history.nights):
        page = root / "nights" / f"{night.id}.html"
        if i >= count - 2 or not page.exists():  # the one before gets a link to tonight's
            _write_page(page, NIGHT_TEMPLATE, night_content(i, found, rows, root))
    return _write_page(root / "index.html", INDEX_TEMPLATE, index_content(found, rows, lines, root))


def _write_page(path: Path, template: str, content: dict[str, Any]) -> Path:
    from analysis.report import page

    return page.write(path, page.render(template, c=content))


def index_content(
    found: Findings, rows: Sequence[FindingRow], lines: dict[str, list[Timeline]], root: Path
) -> dict[str, Any]:
    regressions = [row for row in rows if row.finding.kind is Kind.REGRESSION]
    last = found.last
    return {
        "title": found.settings.title or found.history.suite,
        "suite": found.history.suite,
        "last": last,
        "nights": len(found.history.nights),
        "testbed": last.testbed if last else "",
        "top": findings_report.headline(found),
        "standing": [(group_title(one[0]), one) for one in group_by_range(with_status(regressions, *CURRENT_STATUSES))],
        "accepted": with_status(regressions, Status.ACCEPTED),
        "improved": [row for row in rows if row.finding.kind is Kind.IMPROVEMENT],
        "past": with_status(regressions, Status.RECOVERED, Status.NOT_MEASURED),
        "months": calendar_months(found),
        "failures": failures(last.experiments if last else ()),
        "claims": [claim_line(claim, found) for claim in found.claims],
        "turns": verdict_change_rows([turn for turn in found.turns if not turn.may_be_indication], found),
        "indications": verdict_change_rows([turn for turn in found.turns if turn.may_be_indication], found),
        "experiments": [(name, experiment_page(name), cards(own), len(own)) for name, own in lines.items()],
        "sparked": SPARK_NIGHTS,
        "told": found.notes,
        "simulated": simulated_text(last, root) if last else "",
    }  # fmt: skip


def experiment_content(experiment: str, timelines: Sequence[Timeline], found: Findings) -> dict[str, Any]:
    nights = found.history.nights
    return {
        "title": experiment,
        "suite": found.history.suite,
        "nights": len(nights),
        "shared": shared_columns(found),
        "charts": [
            {
                "anchor": line.anchor,
                "title": findings_report.series_text(line.segments[-1].key),
                "svg": draw_chart(line),
                "points": chart_points(line),
                "variant": line.name[1],
                "fact": line.metric.better == "none",
                "findings": [finding_row(one, line, found) for one in reversed(line.findings)],
                "measured": len(line.spots),
                "missing": len(line.gaps),
            }
            for line in timelines
        ],
    }
