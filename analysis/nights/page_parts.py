"""What several pages of nights show alike: rows of findings, cards of series, claims with their strips.

Links are relative to the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby, product, takewhile
from typing import Any

from analysis.metrics.definitions import PRIMARY
from analysis.nights import findings_report
from analysis.nights.chart import never_note
from analysis.nights.claim_history import ClaimHistory, ClaimVerdict, VerdictChange
from analysis.nights.findings import Findings
from analysis.nights.night_records import CalendarCell, ExperimentNight
from analysis.nights.night_series import NEVER_SUFFIX
from analysis.nights.regressions import Finding, Kind, RangeKind, Status
from analysis.nights.timelines import Timeline, css_class, first_page_timelines, sparkline
from analysis.numerals import number

SPARK_NIGHTS = 400  # nights that a small line shows; all are on the experiment's page
MOST_TURNS = 20  # verdicts that turned, and indications that changed, on the first page
VERDICT_HEIGHTS = {
    ClaimVerdict.MET: 12,
    ClaimVerdict.PARTLY: 8,
    ClaimVerdict.UNMET: 5,
    ClaimVerdict.UNDECIDED: 2,
    ClaimVerdict.NOT_TESTABLE: 1,
}  # legible without colour


@dataclass(frozen=True)
class FindingRow:
    """A finding as a table shows it; links are relative to the index."""

    finding: Finding
    experiment: str
    series: str
    change: str
    levels: str
    floor: str
    since: str
    sure: str
    commits: str
    bisect: str
    css: str
    spark: str
    href: str


@dataclass(frozen=True)
class Card:
    """A series on the first page."""

    series: str
    value: str
    change: str
    css: str
    spark: str
    href: str


@dataclass(frozen=True)
class ClaimLine:
    name: str
    statement: str
    stated: str
    verdict: str
    since: str
    measured: str
    interval: str
    strip: str


def experiment_page(experiment: str) -> str:
    return f"experiments/{experiment.replace('/', '-')}.html"


def finding_rows(found: Findings, lines: dict[str, list[Timeline]]) -> list[FindingRow]:
    by_name = {line.name: line for timelines in lines.values() for line in timelines}
    return [finding_row(one, by_name[one.key.names], found) for one in found.all]


def finding_row(finding: Finding, line: Timeline, found: Findings) -> FindingRow:
    nights = found.history.nights
    to_bisect = (
        finding.kind is Kind.REGRESSION
        and finding.commits.kind is RangeKind.COMMITS
        and finding.status is Status.CONFIRMED
        and not finding.key.metric.endswith(NEVER_SUFFIX)  # no comparison has a number of it
    )
    return FindingRow(
        finding=finding,
        experiment=finding.key.experiment,
        series=findings_report.series_text(finding.key),
        change=findings_report.change_text(finding),
        levels=findings_report.levels_text(finding),
        floor=findings_report.floor_text(finding),
        since=nights[finding.since].id,
        sure=findings_report.status_text(finding, nights),
        commits=finding.commits.words,
        bisect=findings_report.bisect_command(finding) if to_bisect else "",
        css=css_class(finding),
        spark=_sparkline(line),
        href=f"{experiment_page(finding.key.experiment)}#{line.anchor}",
    )


def with_status(rows: Iterable[FindingRow], *statuses: Status) -> list[FindingRow]:
    return [row for row in rows if row.finding.status in statuses]


def group_by_range(rows: Sequence[FindingRow]) -> list[list[FindingRow]]:
    """Together what may have one cause: the same last good and first bad night; primary metrics first."""
    found: dict[tuple[int, int], list[FindingRow]] = {}
    for row in rows:
        found.setdefault((row.finding.good, row.finding.bad), []).append(row)
    return [sorted(group, key=lambda row: row.finding.key.metric not in PRIMARY) for group in found.values()]


def group_title(row: FindingRow) -> str:
    return f"Since night {row.since}: commits {row.commits}"


def _sparkline(line: Timeline) -> str:
    """The last nights of a series, small."""
    columns = len(line.cells)
    from_column = max(0, columns - SPARK_NIGHTS)
    spots = [spot for spot in line.spots if spot.column >= from_column] or list(line.spots[-1:])
    first = min(from_column, spots[0].column)
    moved = [replace(spot, column=spot.column - first) for spot in spots]
    return sparkline(
        moved,
        columns - first,
        [(column - first, one) for column, one in line.marks if column >= first],
        [gap.column - first for gap in line.gaps if gap.column >= first],
        [border - first for border in line.borders if border >= first],
        f"{findings_report.series_text(line.segments[-1].key)}: {len(line.spots)} nights measured,"
        f" {len(line.gaps)} not",
    )


def cards(lines: Sequence[Timeline]) -> list[Card]:
    """Those of the first page; what is worse now comes first."""
    return [_card(line) for line in sorted(first_page_timelines(lines), key=lambda line: not line.worse)]


def _card(line: Timeline) -> Card:
    finding, last = line.standing, line.spots[-1].point
    note = never_note(last)
    value = findings_report.value_text(last.value, line.metric.unit) + (f" ({note})" if note else "")
    return Card(
        findings_report.series_text(line.segments[-1].key),
        note if last.value is None else value,
        f"{findings_report.change_text(finding)} since {line.nights[finding.since]}" if finding else "",
        css_class(finding) if finding else "",
        _sparkline(line),
        f"{experiment_page(line.name[0])}#{line.anchor}",
    )


def calendar_months(found: Findings) -> list[tuple[str, list[dict[str, Any]]]]:
    """The calendar, in the order of appending."""
    days = [calendar_day(cell, found) for cell in found.cells]
    return [(month, list(cells)) for month, cells in groupby(days, lambda day: str(day["month"]))]


def calendar_day(cell: CalendarCell, found: Findings) -> dict[str, Any]:
    """One day of the calendar."""
    night_id = "" if cell.night is None else found.history.nights[cell.night].id
    status = cell.status + (" other" if cell.other_machines else "")
    machines = "; other machines than the night before" if cell.other_machines else ""
    return {"month": cell.day[:7], "css": status, "day": cell.day[8:], "night": cell.night, "id": night_id,
            "words": f"{cell.day}: {cell.status}: {cell.words}{machines}"}  # fmt: skip


def failures(experiments: Iterable[ExperimentNight]) -> list[ExperimentNight]:
    return [one for one in experiments if one.status != "complete"]


def claim_line(claim: ClaimHistory, found: Findings) -> ClaimLine:
    """The last verdict by the newest rule on the machines that measured it last, and since when it is so there; the
    strip has all nights."""
    latest = claim.latest
    clear = [(i, cell) for i, cell in claim.comparable if cell.is_clear]
    same = takewhile(lambda each: each[1].verdict is latest.verdict, reversed(clear))
    since = min((i for i, _ in same), default=None)
    row = latest.row
    return ClaimLine(
        claim.name, claim.statement, claim.stated, latest.words,
        "–" if since is None else found.history.nights[since].id,
        (row.measured_text or number(row.measured)) if row else "–",
        (row.interval_text or interval_text(row.low, row.high)) if row else "–", claim_strip(claim, found),
    )  # fmt: skip


def interval_text(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} to {number(high)}"


def claim_strip(claim: ClaimHistory, found: Findings) -> str:
    """A row of the heat map: a path a verdict, and one for its indications; the height says it too."""
    column = {cell.night: i for i, cell in enumerate(found.cells) if cell.night is not None}
    paths = []
    for (verdict, height), pale in product(VERDICT_HEIGHTS.items(), (False, True)):
        of = [i for i, cell in enumerate(claim.cells) if cell.verdict is verdict and cell.may_be_indication is pale]
        if of:
            bars = "".join(f"M{column[i]} 12v-{height}h1v{height}z" for i in of)
            css = verdict.replace(" ", "-") + (" indication" if pale else "")
            paths.append(f'<path class="{css}" d="{bars}"/>')
    words = Counter(cell.words for cell in claim.cells)
    counts = ", ".join(f"{many} {each}" for each, many in words.most_common())
    return (
        f'<svg class="claim" viewBox="0 0 {max(1, len(found.cells))} 12" preserveAspectRatio="none" role="img">'
        f"<title>{escape(f'{claim.name}: {counts}')}</title>{''.join(paths)}</svg>"
    )


def verdict_change_rows(turns: Iterable[VerdictChange], found: Findings) -> list[dict[str, Any]]:
    """The newest first."""
    nights = found.history.nights
    newest = sorted(turns, key=lambda turn: -turn.since)[:MOST_TURNS]
    return [
        {"claim": turn.claim, "before": turn.before.words, "after": turn.after.words, "night": nights[turn.since].id,
         "last": nights[turn.last].id, "tonight": turn.since == len(nights) - 1}
        for turn in newest
    ]  # fmt: skip
