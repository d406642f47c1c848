"""The pages of a suite: index.html, a page a night, a page an experiment, and findings.json. Self-contained.

`write` updates them: the index, the experiments' pages, tonight's page and missing ones. The page of a night has its
runs, its failures with their causes, and each value beside the last ones on the same machines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from math import inf
from pathlib import Path
from statistics import median

from markupsafe import Markup

from analysis.metrics.definitions import Better, DifferenceKind
from analysis.nights.chart import chart_points, draw_chart, never_note, shared_columns
from analysis.nights.claim_history import ClaimVerdict
from analysis.nights.findings import Findings, SeriesFindings, findings_data, series_text, value_text
from analysis.nights.first_page import (
    FindingRow,
    experiment_page,
    finding_row,
    finding_rows,
    finding_table,
    first_page,
    interval_text,
    model_note,
    name_column,
    trust,
)
from analysis.nights.night_records import ExperimentNight, NightRecord
from analysis.nights.night_series import NightKey, NightPoint, metric_of
from analysis.nights.regressions import RegressionKind
from analysis.nights.timelines import Timeline, timelines
from analysis.numerals import MISSING, change, number
from analysis.record.files import write_json_atomic
from analysis.report import page, words
from analysis.report.page import Block, Definitions, Figure, Folded, PageContent, Section, Sentence, Warnings
from analysis.report.table import Heading, ResultTable, bold, columns, element, joined, link
from analysis.stats.change_points import plain_scatter, scatter

NIGHTS_BEFORE = 7  # nights with which a night is compared
NIGHTS_OF_SCATTER = 30  # nights that determine the usual scatter
LEAST_NIGHTS = 3
USUAL_SIGMAS = 2.0  # standard deviations


def write(folder: Path | str, found: Findings) -> Path:
    """Write findings.json and every page that changed; return the index's path."""
    root = Path(folder)
    lines = timelines(found)
    rows = finding_rows(found, lines)
    write_json_atomic(root / "findings.json", findings_data(found))
    for experiment, of_experiment in lines.items():
        page.save(root / experiment_page(experiment), experiment_content(experiment, of_experiment, found))
    count = len(found.history.nights)
    for i, night in enumerate(found.history.nights):
        target = root / "nights" / f"{night.id}.html"
        if i >= count - 2 or not target.exists():  # the one before gets a link to tonight's
            page.save(target, night_content(i, found, rows, root))
    return page.save(root / "index.html", first_page(found, rows, lines, root))


@dataclass(frozen=True)
class NightDifference:
    """A difference. `sigmas`: its size in usual nights' standard deviations, positive if it is worse; infinite if those
    had no scatter."""

    key: NightKey
    point: NightPoint
    before: float
    percent: float | None
    worse: bool
    sigmas: float

    @property
    def away(self) -> float:
        return (self.point.value or 0.0) - self.before

    @property
    def unusual(self) -> bool:
        """Return whether it is large for a night, and worth naming."""
        return abs(self.sigmas) > USUAL_SIGMAS and abs(self.away) >= metric_of(self.key.metric).smallest


def night_differences(series: Sequence[SeriesFindings], night: int) -> list[NightDifference]:
    """Return the differences of series with a direction that this night and enough before measured; the worst first."""
    differences = [one for findings in series if (one := _night_difference(findings, night)) is not None]
    return sorted(differences, key=lambda one: (-one.sigmas, one.key))


def _night_difference(findings: SeriesFindings, night: int) -> NightDifference | None:
    series = findings.series
    point = series.points[night]
    if point.value is None or series.metric.better is Better.NONE:
        return None
    place = series.nights.index(night)
    if place < LEAST_NIGHTS:
        return None
    earlier = series.values[max(0, place - NIGHTS_OF_SCATTER) : place]
    before = median(earlier[-NIGHTS_BEFORE:])
    distance = point.value - before
    worse = (distance < 0) == (series.metric.better is Better.HIGHER) and distance != 0
    usual = scatter(earlier) or plain_scatter(earlier)
    sigmas = (1 if worse else -1) * (abs(distance) / usual if usual else inf) if distance else 0.0
    percent = 100 * distance / before if before > 0 and series.metric.difference_kind is DifferenceKind.RATIO else None
    return NightDifference(series.key, point, before, percent, worse, sigmas)


def night_content(i: int, found: Findings, rows: Sequence[FindingRow], root: Path) -> PageContent:
    nights, night = found.history.nights, found.history.nights[i]
    title = f"Night {night.id}"
    began = datetime.fromtimestamp(night.started_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    minutes = max(0.0, night.ended_s - night.started_s) / 60
    changed = ", with changes that are not committed" if night.dirty else ""
    return PageContent(
        title=f"{title} of {found.history.suite}",
        heading=title,
        meta=f"Suite {found.history.suite} on {night.testbed}{model_note(night)}, {night.status} · begun {began},"
        f" {minutes:.0f} min · commit {night.commit[:12] or 'not known'}{changed}",
        css="nights",
        blocks=list(_night_blocks(i, nights, found, rows, root)),
    )


def _night_blocks(
    i: int, nights: Sequence[NightRecord], found: Findings, rows: Sequence[FindingRow], root: Path
) -> Iterator[Block]:
    night = nights[i]
    before = [link(f"← {nights[i - 1].id}", f"{nights[i - 1].id}.html")] if i else []
    after = [link(f"{nights[i + 1].id} →", f"{nights[i + 1].id}.html")] if i + 1 < len(nights) else []
    yield element("nav", joined([link("all nights", "../index.html"), *before, *after]))
    yield Warnings(trust(night, root))
    yield Section("Experiments", [_experiment_table(night, root), Sentence(words.OUTCOMES_NOTE, "small")])
    news = [row for row in rows if i in (row.finding.since, row.finding.confirmed, row.finding.recovered)]

    def event(row: FindingRow) -> str:
        if i in (row.finding.recovered, row.finding.confirmed):
            return "recovered" if i == row.finding.recovered else "confirmed"
        first = {RegressionKind.REGRESSION: "first bad night", RegressionKind.IMPROVEMENT: "first better night"}
        return first.get(row.finding.kind, "first night of a change in complete runs")

    if news:
        headings = (
            name_column("../"),
            Heading("this night", event),
            *columns("change /n k; level = levels /n; state now = sure; first bad commit = commits"),
        )
        yield Section("Findings of this night", [ResultTable(headings, news, row_css=lambda row: row.css)])
    differences = night_differences(found.series, i)
    outliers, usual = ([one for one in differences if one.unusual is flag] for flag in (True, False))
    message = "Nothing unusual." if usual else "No series has three earlier nights to compare with."
    blocks: list[Block] = [Sentence(words.NIGHT_DIFFERENCES_NOTE)]
    blocks.append(difference_table(outliers) if outliers else Sentence(message))
    if usual:
        blocks.append(Folded(f"{len(usual)} series as usual", [difference_table(usual)]))
    yield Section("Differences to the nights before", blocks)
    if (claims := claim_table(found, i)).rows:
        yield Section("Claims", [claims])
    if facts := [(key, str(value)) for key, value in night.machine_facts.items()]:
        yield Section("Machines", [Definitions(facts)])


def _experiment_table(night: NightRecord, root: Path) -> ResultTable:
    def values(one: ExperimentNight) -> int:
        return sum(len(events) for metrics in one.variants.values() for events in metrics.values())

    def name(one: ExperimentNight) -> str:
        return link(one.experiment, f"../{experiment_page(one.experiment)}" if values(one) else None)

    def outcome(one: ExperimentNight) -> str:
        return one.status if one.status == "complete" else bold(one.status.replace("_", " "), "badge differs")

    headings = (
        Heading("experiment", name, css="k"),
        Heading("outcome", outcome, css="k"),
        Heading("why", "reason"),
        Heading("numbers", values, css="n"),
        Heading("report", lambda one: link(one.series.split("/")[-1] or MISSING, report_of(root, one.series)), css="k"),
    )
    return ResultTable(headings, night.experiments)


def report_of(root: Path, series: str) -> str | None:
    """Return the report of a night's series, relative to the night's page, if it exists in this folder."""
    report = root.parent.parent / series / "report.html"
    return os.path.relpath(report, root / "nights") if series and report.is_file() else None


def difference_table(differences: Sequence[NightDifference]) -> ResultTable:
    headings = columns(
        "experiment /k; series; this night = tonight /n k; its runs = spread /n k; 7 nights before = before /n;"
        " difference /n k; of the usual scatter = times /n; = words"
    )
    return ResultTable(headings, [difference_row(one) for one in differences])


def difference_row(night: NightDifference) -> dict[str, str]:
    info, point = metric_of(night.key.metric), night.point
    spread = f"{number(point.low)} to {number(point.high)}" if point.runs > 1 else "–"
    if point.never and point.within is None:
        spread = f"from {number(point.low)}; {never_note(point)}"
    return {
        "experiment": night.key.experiment, "series": series_text(night.key),
        "tonight": value_text(night.point.value, info.unit),
        "spread": spread,
        "before": number(night.before),
        "difference": change(night.away, info.unit) if night.percent is None else change(night.percent, "%"),
        "times": f"{number(abs(night.sigmas), 1)} ×",
        "words": (("worse" if night.worse else "better") if night.away else "the same")
        + (" in complete runs" if night.point.failed else ""),
    }  # fmt: skip


def claim_table(found: Findings, i: int) -> ResultTable:
    """Return the claims that a night tested."""
    rows = []
    for claim in found.claims:
        cell = claim.cells[i]
        if (row := cell.row) is not None and cell.verdict is not ClaimVerdict.NOT_RUN:
            interval = row.interval_text or interval_text(row.low, row.high)
            rows.append({"claim": claim.name, "statement": row.statement, "stated": row.stated_text,
                         "measured": row.measured_text or number(row.measured), "interval": interval,
                         "verdict": cell.words})  # fmt: skip
    headings = columns(
        "claim /k; statement /wide; stated /n k; measured /n k; 95 % interval = interval /n k; verdict /k"
    )
    return ResultTable(headings, rows)


def experiment_content(experiment: str, lines: Sequence[Timeline], found: Findings) -> PageContent:
    """Return the charts of all series over the nights, those without a better direction last."""
    suite, nights = found.history.suite, len(found.history.nights)
    variants = (
        (variant, list(of_variant))
        for variant, of_variant in groupby(sorted(lines, key=lambda line: line.name[1]), lambda line: line.name[1])
    )
    links = [
        link(f"{variant} ({len(variant_lines)})", f"#{variant_lines[0].anchor}") for variant, variant_lines in variants
    ]
    series, facts = ([line for line in lines if (line.metric.better == "none") is flag] for flag in (False, True))
    script = element("script", Markup(shared_columns(found)), type="application/json", css="shared")
    return PageContent(
        title=f"{experiment} over the nights of {suite}",
        heading=experiment,
        meta=joined([f"All series over {nights} nights · ", link(f"suite {suite}", "../index.html")]),
        css="nights",
        blocks=[
            Sentence(words.CHARTS_NOTE),
            element("nav", joined(links, "\n")),
            script,
            *(block for line in series for block in _chart(line, found)),
            *([Section(words.FACTS, [block for line in facts for block in _chart(line, found)])] if facts else []),
        ],
    )


def _chart(line: Timeline, found: Findings) -> Iterator[Block]:
    counts = f"{len(line.spots)} nights measured, {len(line.gaps)} not"
    yield Figure(line.anchor, line.heading, counts, draw_chart(line), chart_points(line), (), line.anchor)
    if line.findings:
        yield finding_table([finding_row(one, line, found) for one in reversed(line.findings)], "../")
