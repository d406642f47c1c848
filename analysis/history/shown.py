"""What several pages of nights show alike: rows of findings, cards of series, claims with their strips. Links are
relative to the index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from analysis.history import words
from analysis.history.claims_over_time import DECIDED, ClaimHistory, Turn, Verdict
from analysis.history.commits import Range
from analysis.history.drawing import escaped, kind_class, spark
from analysis.history.findings import Findings
from analysis.history.night import ExperimentNight
from analysis.history.regressions import Finding, Kind, Status
from analysis.history.strip import Cell
from analysis.history.timelines import Timeline, first_page
from analysis.metric_directions import PRIMARY
from analysis.numerals import number

SPARKED = 400  # nights that a small line shows; all are on the experiment's page
HEIGHTS = {Verdict.MET: 12, Verdict.PARTLY: 8, Verdict.UNMET: 5, Verdict.UNDECIDED: 2}  # legible without colour


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
    by_name = {line.name: line for mine in lines.values() for line in mine}
    return [finding_row(one, by_name[one.key.names], found) for one in found.all]


def finding_row(one: Finding, line: Timeline, found: Findings) -> FindingRow:
    nights = found.history.nights
    to_bisect = one.kind is Kind.REGRESSION and one.commits.kind is Range.COMMITS and one.status is Status.CONFIRMED
    return FindingRow(
        finding=one, experiment=one.key.experiment, series=words.series(one.key), change=words.change(one),
        levels=words.levels(one), floor=words.floor(one), since=nights[one.since].id, sure=words.how_sure(one, nights),
        commits=one.commits.words, bisect=words.bisect_command(one) if to_bisect else "", css=kind_class(one),
        spark=_spark(line), href=f"{experiment_page(one.key.experiment)}#{line.anchor}",
    )  # fmt: skip


def having(rows: Iterable[FindingRow], *statuses: Status) -> list[FindingRow]:
    return [row for row in rows if row.finding.status in statuses]


def by_range(rows: Sequence[FindingRow]) -> list[list[FindingRow]]:
    """Together what may have one cause: the same last good and first bad night; primary metrics first."""
    found: dict[tuple[int, int], list[FindingRow]] = {}
    for row in rows:
        found.setdefault((row.finding.good, row.finding.bad), []).append(row)
    return [sorted(group, key=lambda row: row.finding.key.metric not in PRIMARY) for group in found.values()]


def group_title(row: FindingRow) -> str:
    return f"Since night {row.since}: commits {row.commits}"


def _spark(line: Timeline) -> str:
    """The last nights of a series, small."""
    columns = len(line.cells)
    from_column = max(0, columns - SPARKED)
    shown = [spot for spot in line.spots if spot.column >= from_column] or list(line.spots[-1:])
    first = min(from_column, shown[0].column)
    moved = [replace(spot, column=spot.column - first) for spot in shown]
    return spark(
        moved, columns - first, [(column - first, one) for column, one in line.marks if column >= first],
        [gap.column - first for gap in line.gaps if gap.column >= first],
        [border - first for border in line.borders if border >= first],
        f"{words.series(line.segments[-1].key)}: {len(line.spots)} nights measured, {len(line.gaps)} not",
    )  # fmt: skip


def cards(mine: Sequence[Timeline]) -> list[Card]:
    """Those of the first page; what is worse now comes first."""
    return [_card(line) for line in sorted(first_page(mine), key=lambda line: not line.worse)]


def _card(line: Timeline) -> Card:
    one, last = line.standing, line.spots[-1]
    never = " (time watched: most runs never got there)" if last.point.horizon else ""
    return Card(
        words.series(line.segments[-1].key), words.with_unit(last.value, line.metric.unit) + never,
        f"{words.change(one)} since {line.nights[one.since]}" if one else "", kind_class(one) if one else "",
        _spark(line), f"{experiment_page(line.name[0])}#{line.anchor}",
    )  # fmt: skip


def months(found: Findings) -> list[tuple[str, list[dict[str, Any]]]]:
    """The calendar, in the order of appending."""
    days = [strip_cell(cell, found) for cell in found.cells]
    return [(month, list(cells)) for month, cells in groupby(days, lambda day: str(day["month"]))]


def strip_cell(cell: Cell, found: Findings) -> dict[str, Any]:
    """One day of the calendar."""
    night_id = "" if cell.night is None else found.history.nights[cell.night].id
    status = cell.status + (" other" if cell.other_machines else "")
    machines = "; other machines than the night before" if cell.other_machines else ""
    return {"month": cell.day[:7], "css": status, "day": cell.day[8:], "night": cell.night, "id": night_id,
            "words": f"{cell.day}: {cell.status}: {cell.words}{machines}"}  # fmt: skip


def failures(experiments: Iterable[ExperimentNight]) -> list[ExperimentNight]:
    return [one for one in experiments if one.status != "complete"]


def claim_line(claim: ClaimHistory, found: Findings) -> ClaimLine:
    """The last verdict and since when it is so; the strip has all nights."""
    given = [(i, cell) for i, cell in enumerate(claim.cells) if cell.verdict in DECIDED]
    if not given:
        undecided = [cell for cell in claim.cells if cell.verdict is Verdict.UNDECIDED]
        row = undecided[-1].row if undecided else None
        return ClaimLine(claim.name, claim.statement, claim.stated, Verdict.UNDECIDED if row else Verdict.NOT_RUN, "–",
                         row.measured_text if row else "–", "–", claim_strip(claim, found))  # fmt: skip
    last = given[-1][1]
    since = next(given[i][0] for i in range(len(given)) if all(cell.verdict is last.verdict for _, cell in given[i:]))
    row = last.row
    return ClaimLine(
        claim.name, claim.statement, claim.stated, last.verdict, found.history.nights[since].id,
        (row.measured_text or number(row.measured)) if row else "–",
        (row.interval_text or interval(row.low, row.high)) if row else "–", claim_strip(claim, found),
    )  # fmt: skip


def interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} to {number(high)}"


def claim_strip(claim: ClaimHistory, found: Findings) -> str:
    """A row of the heat map: a path a verdict, however many nights; the height says it too."""
    column = {cell.night: i for i, cell in enumerate(found.cells) if cell.night is not None}
    paths = []
    for verdict, height in HEIGHTS.items():
        at = [column[i] for i, cell in enumerate(claim.cells) if cell.verdict is verdict]
        if at:
            bars = "".join(f"M{i} 12v-{height}h1v{height}z" for i in at)
            paths.append(f'<path class="{verdict.replace(" ", "-")}" d="{bars}"/>')
    told = ", ".join(f"{sum(c.verdict is v for c in claim.cells)} {v}" for v in Verdict)
    return (
        f'<svg class="claim" viewBox="0 0 {max(1, len(found.cells))} 12" preserveAspectRatio="none" role="img">'
        f"<title>{escaped(f'{claim.name}: {told}')}</title>{''.join(paths)}</svg>"
    )


def turn_row(turn: Turn, found: Findings) -> dict[str, Any]:
    nights = found.history.nights
    return {"claim": turn.claim, "before": turn.before, "after": turn.after, "night": nights[turn.since].id,
            "last": nights[turn.last].id, "tonight": turn.since == len(nights) - 1}  # fmt: skip
