"""Rows of findings, which several pages of nights show. Links are relative to the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from analysis.nights import findings_report
from analysis.nights.chart import css_class, sparkline
from analysis.nights.findings import Findings
from analysis.nights.night_series import NEVER_SUFFIX
from analysis.nights.regressions import Finding, RangeKind, RegressionKind, Status
from analysis.nights.timelines import Timeline
from analysis.numerals import number
from analysis.report.table import BREAK, Across, Heading, ResultTable, bold, columns, joined, link, small


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
    spark: Markup
    href: str


def experiment_page(experiment: str) -> str:
    return f"experiments/{experiment.replace('/', '-')}.html"


def finding_rows(found: Findings, lines: dict[str, list[Timeline]]) -> list[FindingRow]:
    by_name = {line.name: line for timelines in lines.values() for line in timelines}
    return [finding_row(one, by_name[one.key.names], found) for one in found.all]


def finding_row(finding: Finding, line: Timeline, found: Findings) -> FindingRow:
    nights = found.history.nights
    to_bisect = (
        finding.kind is RegressionKind.REGRESSION
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
        spark=sparkline(line),
        href=f"{experiment_page(finding.key.experiment)}#{line.anchor}",
    )


def name_column(up: str) -> Heading:
    """Return the column of series; `up` leads to the index."""
    return Heading("series", lambda row: joined([link(row.experiment, f"{up}{row.href}"), BREAK, row.series]))


def finding_table(rows: Sequence[FindingRow | Across], up: str = "") -> ResultTable:
    def since(row: FindingRow) -> str:
        return link(row.since, f"{up}nights/{row.since}.html")

    def sure(row: FindingRow) -> str:
        return joined([row.sure, *([small("new tonight")] if row.finding.new else [])])

    headings = (
        name_column(up),
        Heading("change", lambda row: bold(row.change, row.css), css="n k"),
        *columns("level = levels /n; A/A floor = floor /n k"),
        Heading("since night", since, css="k"),
        Heading("how sure", sure),
        *columns("first bad commit = commits; all nights = spark"),
    )
    return ResultTable(headings, rows, row_css=lambda row: row.css)


def with_status(rows: Iterable[FindingRow], *statuses: Status) -> list[FindingRow]:
    return [row for row in rows if row.finding.status in statuses]


def interval_text(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} to {number(high)}"
