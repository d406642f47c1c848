"""Rows of findings, which several pages show; the first page of a suite: its state, the calendar, claims, cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, product, takewhile
from pathlib import Path

from markupsafe import Markup

from analysis.metrics.definitions import PRIMARY
from analysis.nights.chart import SPARK_NIGHTS, css_class, never_note, sparkline
from analysis.nights.claim_history import ClaimHistory, ClaimVerdict, VerdictChange
from analysis.nights.findings import (
    Findings,
    bisect_command,
    change_text,
    count_text,
    floor_text,
    headline,
    levels_text,
    series_text,
    status_text,
    value_text,
)
from analysis.nights.night_records import CalendarCell, NightRecord
from analysis.nights.night_series import NEVER_SUFFIX
from analysis.nights.regressions import Finding, RangeKind, RegressionKind, Status
from analysis.nights.timelines import CURRENT_STATUSES, Timeline, first_page_timelines
from analysis.numerals import MISSING, number
from analysis.report import words
from analysis.report.page import Block, Definitions, Folded, Items, PageContent, Section, Sentence, Warnings, folded
from analysis.report.table import BREAK, Across, Heading, ResultTable, bold, code, columns, element, joined, link, small
from barograph.plan.experiment import SIMULATED

MOST_TURNS = 20  # changed verdicts, and changed indications, on the first page
VERDICT_HEIGHTS = {
    ClaimVerdict.MET: 12,
    ClaimVerdict.PARTLY: 8,
    ClaimVerdict.UNMET: 5,
    ClaimVerdict.UNDECIDED: 2,
    ClaimVerdict.NOT_TESTABLE: 1,
}  # legible without colour
DAYS = (("", "complete"), ("partial", "partial: something failed or was too late"),
        ("failed", "failed: nothing measured"), ("missing", "missing"),
        ("other", "other machines than the night before"))  # fmt: skip


@dataclass(frozen=True)
class FindingRow:
    """A finding as a table shows it; links are relative to the index. `bisect`: the command that finds the commit."""

    finding: Finding
    since: str
    sure: str
    bisect: str
    css: str
    spark: Markup
    href: str

    @property
    def commits(self) -> str:
        return self.finding.commits.words

    @property
    def change(self) -> Markup:
        return bold(change_text(self.finding), self.css)

    @property
    def levels(self) -> str:
        return levels_text(self.finding)

    @property
    def floor(self) -> str:
        return floor_text(self.finding)


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
        finding, nights[finding.since].id, status_text(finding, nights), bisect_command(finding) if to_bisect else "",
        css_class(finding), sparkline(line), f"{experiment_page(finding.key.experiment)}#{line.anchor}",
    )  # fmt: skip


def name_column(up: str) -> Heading:
    """Return the column of series; `up` leads to the index."""

    def series(row: FindingRow) -> Markup:
        key = row.finding.key
        return joined([link(key.experiment, f"{up}{row.href}"), BREAK, series_text(key)])

    return Heading("series", series)


def finding_table(rows: Sequence[FindingRow | Across], up: str = "") -> ResultTable:
    def since(row: FindingRow) -> str:
        return link(row.since, f"{up}nights/{row.since}.html")

    def sure(row: FindingRow) -> str:
        return joined([row.sure, *([small("new tonight")] if row.finding.new else [])])

    headings = (
        name_column(up),
        *columns("change /n k; level = levels /n; A/A floor = floor /n k"),
        Heading("since night", since, css="k"),
        Heading("how sure", sure),
        *columns("first bad commit = commits; all nights = spark"),
    )
    return ResultTable(headings, rows, row_css=lambda row: row.css)


def with_status(rows: Iterable[FindingRow], *statuses: Status) -> list[FindingRow]:
    return [row for row in rows if row.finding.status in statuses]


def interval_text(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} to {number(high)}"


def trust(night: NightRecord, root: Path) -> list[str]:
    """Return how far the numbers of a simulated night may be from real ones, by its series in this folder."""
    if night.testbed != SIMULATED:
        return []
    sentence = words.model_sentence_of_series(
        root.parent.parent / one.series for one in night.experiments if one.series
    )
    return [folded(sentence)] if sentence else []


def model_note(night: NightRecord) -> str:
    return " (a model's answers, not Storm's)" if night.testbed == SIMULATED else ""


def first_page(
    found: Findings, rows: Sequence[FindingRow], lines: Mapping[str, Sequence[Timeline]], root: Path
) -> PageContent:
    last, suite, nights = found.last, found.history.suite, len(found.history.nights)
    title = found.settings.title or suite
    place = f" on {last.testbed}{model_note(last)}" if last else ""
    newest = [", the last one ", link(last.id, f"nights/{last.id}.html"), f", {last.status}"] if last else []
    return PageContent(
        title=f"{title}, nights",
        heading=title,
        meta=joined(
            [f"Suite {suite}{place} · {count_text(nights, 'night')} on record", *newest, " · ",
             link("findings.json", "findings.json")]
        ),
        css="nights",
        blocks=list(_blocks(found, rows, lines, root)),
    )  # fmt: skip


def _blocks(
    found: Findings, rows: Sequence[FindingRow], lines: Mapping[str, Sequence[Timeline]], root: Path
) -> Iterator[Block]:
    regressions = [row for row in rows if row.finding.kind is RegressionKind.REGRESSION]
    current = with_status(regressions, *CURRENT_STATUSES)
    yield Sentence(headline(found), f"state {'bad' if current else 'good'}")
    if found.last:
        yield Warnings(trust(found.last, root))
        yield Warnings(failures(found.last))
    message = Sentence("No series is worse than it was, beyond what nights differ by themselves.")
    accepted = with_status(regressions, Status.ACCEPTED)
    improvements = [row for row in rows if row.finding.kind is RegressionKind.IMPROVEMENT]
    history = with_status(regressions, Status.RECOVERED, Status.NOT_MEASURED)
    caption = f"Regressions of the past, recovered or on machines that are no longer there: {len(history)}"
    yield Section(
        "Regressions",
        [
            finding_table(grouped(current)) if current else message,
            *([Section("Accepted", [finding_table(accepted)])] if accepted else []),
            *([Section("Improvements", [finding_table(improvements)])] if improvements else []),
            *([Folded(caption, [finding_table(history)])] if history else []),
        ],
    )
    yield Section("Nights", [calendar(found), legend(element("span", "", css=f"day {css}".strip()) + text
                                                     for css, text in DAYS)])  # fmt: skip
    if found.notes:
        yield Section("Notes", [Items(found.notes, "told")])
    if found.claims:
        yield Section("Claims over time", list(_claims(found)))
    for name, series in lines.items():
        selection = first_page_timelines(series)
        tail = link("all of them, large, with spread and every night", experiment_page(name))
        count = Sentence(joined([f"{len(selection)} of {len(series)} series; ", tail, "."]), "small")
        # Series that are worse now come first.
        cards = joined(card(line) for line in sorted(selection, key=lambda line: not line.worse))
        yield Section(name, [element("div", cards, css="cards"), count])
    yield Section("Terms", [Definitions(night_terms())])


def night_terms() -> list[tuple[str, str]]:
    return [(term, text.format(nights=SPARK_NIGHTS)) for term, text in words.NIGHT_TERMS]


def failures(night: NightRecord) -> list[str]:
    """Return the experiments of a night that are not complete, and why."""
    return [
        joined([bold(one.experiment), f": {one.status.replace('_', ' ')}{f', {one.reason}' if one.reason else ''}"])
        for one in night.experiments if one.status != "complete"
    ]  # fmt: skip


def grouped(rows: Sequence[FindingRow]) -> list[FindingRow | Across]:
    """Group rows that may have one cause, the same last good and first bad night; primary metrics first. Below each
    group is the command that finds the commit."""
    by_range: dict[tuple[int, int], list[FindingRow]] = {}
    for row in rows:
        by_range.setdefault((row.finding.good, row.finding.bad), []).append(row)
    lines: list[FindingRow | Across] = []
    for group in by_range.values():
        group.sort(key=lambda row: row.finding.key.metric not in PRIMARY)
        title = f"Since night {group[0].since}: commits {group[0].commits}" if len(group) > 1 else ""
        lines += [Across(title, "group", begins=True), *group]
        command = next((row.bisect for row in group if row.bisect), "")
        if command:
            lines.append(Across(joined(["To find the commit: ", code(command)]), cell_css="small"))
    return lines


def card(line: Timeline) -> Markup:
    """Return a series in small: its line, its last value, and its changes."""
    finding, last = line.standing, line.spots[-1].point
    note = never_note(last)
    value = value_text(last.value, line.metric.unit) + (f" ({note})" if note else "")
    changed = f"{change_text(finding)} since {line.nights[finding.since]}" if finding else ""
    parts = (
        bold(line.heading), sparkline(line),
        small(note if last.value is None else value, ""), *([" ", small(changed, "was")] if changed else []),
    )  # fmt: skip
    css = f"card {css_class(finding)}" if finding else "card"
    return link(joined(parts), f"{experiment_page(line.name[0])}#{line.anchor}", css)


def calendar(found: Findings) -> Markup:
    """Return a strip of days for each month."""
    months = []

    def day(cell: CalendarCell) -> Markup:
        machines = "; other machines than the night before" if cell.other_machines else ""
        title = f"{cell.day}: {cell.status}: {cell.words}{machines}"
        css = f"day {cell.status}{' other' if cell.other_machines else ''}"
        if cell.night is None:
            return element("span", cell.day[8:], css=css, title=title)
        target = f"nights/{found.history.nights[cell.night].id}.html"
        return element("a", cell.day[8:], css=css, href=target, title=title)

    for month, cells in groupby(found.cells, lambda cell: cell.day[:7]):
        days = element("div", joined(map(day, cells), "\n"))
        months.append(element("div", small(month, "") + days, css="month"))
    return element("div", joined(months, "\n"), css="strip")


def legend(entries: Iterable[str]) -> Sentence:
    return Sentence(joined(element("span", entry) for entry in entries), "legend")


def _claims(found: Findings) -> Iterator[Block]:
    verdicts, indications = (
        sorted((turn for turn in found.turns if turn.is_indication is flag), key=lambda turn: -turn.since)
        for flag in (False, True)
    )
    last = len(found.history.nights) - 1
    turns, changes = verdicts[:MOST_TURNS], indications[:MOST_TURNS]
    if latest_turns := [turn for turn in (*turns, *changes) if turn.since == last]:
        yield Items([turn_line(turn, found) for turn in latest_turns])
    before = (("Verdicts that turned before", turns), ("Indications that changed before", changes))
    for summary, of_kind in before:
        if earlier := [turn for turn in of_kind if turn.since != last]:
            items = Items([turn_line(turn, found) for turn in earlier])
            yield Folded(f"{summary}: the last {len(earlier)}", [items])
    yield claim_table(found)
    marks = (element("i", "", css=css) + text for css, text in words.VERDICT_MARKS)
    yield legend((*marks, *words.VERDICT_LEGEND))


def turn_line(turn: VerdictChange, found: Findings) -> Markup:
    nights = found.history.nights
    night = nights[turn.since].id
    prefix = [bold("Tonight:"), " "] if turn.since == len(nights) - 1 else []
    return joined(
        [*prefix, f"{turn.claim}: {turn.before.words} → ", bold(turn.after.words), " in night ",
         link(night, f"nights/{night}.html"), f" (the verdict before is of {nights[turn.last].id})"]
    )  # fmt: skip


def claim_table(found: Findings) -> ResultTable:
    """Return the last verdict by the newest rule on the machines that measured it last, and since when it holds there;
    the strip has all nights."""

    def measured(claim: ClaimHistory) -> str | None:
        row = claim.latest.row
        return (row.measured_text or number(row.measured)) if row else None

    def interval(claim: ClaimHistory) -> str | None:
        row = claim.latest.row
        return (row.interval_text or interval_text(row.low, row.high)) if row else None

    headings = (
        Heading("claim", lambda claim: element("span", claim.name, title=claim.statement), css="k"),
        *columns("stated /k"),
        Heading("last verdict", lambda claim: claim.latest.words, css="k"),
        Heading("since night", lambda claim: verdict_since(claim, found), css="k"),
        Heading("measured", measured, css="n k"),
        Heading("interval", interval, css="n k"),
        Heading("every night", lambda claim: Markup(claim_strip(claim, found)), css="every"),
    )
    return ResultTable(headings, found.claims)


def verdict_since(claim: ClaimHistory, found: Findings) -> str:
    """Return the night since which the last verdict stands."""
    cells = [(i, cell) for i, cell in claim.comparable if cell.is_clear]
    run = takewhile(lambda each: each[1].verdict is claim.latest.verdict, reversed(cells))
    first = min((i for i, _ in run), default=None)
    return MISSING if first is None else found.history.nights[first].id


def claim_strip(claim: ClaimHistory, found: Findings) -> str:
    """Return a row of the heat map: a path a verdict, and one for its indications; the height repeats the verdict."""
    column = {cell.night: i for i, cell in enumerate(found.cells) if cell.night is not None}
    paths = []
    for (verdict, height), pale in product(VERDICT_HEIGHTS.items(), (False, True)):
        columns = [i for i, cell in enumerate(claim.cells) if cell.verdict is verdict and cell.is_indication is pale]
        if columns:
            bars = "".join(f"M{column[i]} 12v-{height}h1v{height}z" for i in columns)
            css = verdict.replace(" ", "-") + (" indication" if pale else "")
            paths.append(f'<path class="{css}" d="{bars}"/>')
    words = Counter(cell.words for cell in claim.cells)
    counts = ", ".join(f"{count} {each}" for each, count in words.most_common())
    return (
        f'<svg class="claim" viewBox="0 0 {max(1, len(found.cells))} 12" preserveAspectRatio="none" role="img">'
        f"<title>{escape(f'{claim.name}: {counts}')}</title>{''.join(paths)}</svg>"
    )
