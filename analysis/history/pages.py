"""The pages of a suite: index.html, a page a night, a page an experiment, and findings.json. Self-contained.

`write` brings them up to date: the index, the experiments' pages, tonight's page and those that are not there yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.history import night_page, words
from analysis.history.chart import draw, points, shared
from analysis.history.findings import Findings
from analysis.history.findings_json import as_data
from analysis.history.regressions import Kind, Status
from analysis.history.shown import (
    SPARKED,
    FindingRow,
    by_range,
    cards,
    claim_line,
    experiment_page,
    failures,
    finding_row,
    finding_rows,
    group_title,
    having,
    months,
    turn_row,
)
from analysis.history.timelines import STANDING, Timeline, timelines
from analysis.record import write_json_atomic

INDEX, EXPERIMENT = "nights.html.j2", "nights_of_experiment.html.j2"


def write(folder: Path | str, found: Findings) -> Path:
    """findings.json and every page that changed; the index's path."""
    root = Path(folder)
    lines = timelines(found)
    rows = finding_rows(found, lines)
    write_json_atomic(root / "findings.json", as_data(found))
    for experiment, mine in lines.items():
        _put(root / experiment_page(experiment), EXPERIMENT, experiment_content(experiment, mine, found))
    count = len(found.history.nights)
    for i, night in enumerate(found.history.nights):
        page = root / "nights" / f"{night.id}.html"
        if i >= count - 2 or not page.exists():  # the one before gets a link to tonight's
            _put(page, night_page.TEMPLATE, night_page.content(i, found, rows, root))
    return _put(root / "index.html", INDEX, index_content(found, rows, lines))


def _put(path: Path, template: str, content: dict[str, Any]) -> Path:
    from analysis import page

    return page.write(path, page.rendered(template, c=content))


def index_content(found: Findings, rows: Sequence[FindingRow], lines: dict[str, list[Timeline]]) -> dict[str, Any]:
    regressions = [row for row in rows if row.finding.kind is Kind.REGRESSION]
    last = found.last
    return {
        "title": found.settings.title or found.history.suite,
        "suite": found.history.suite,
        "last": last,
        "nights": len(found.history.nights),
        "testbed": last.testbed if last else "",
        "top": words.top_line(found),
        "standing": [(group_title(one[0]), one) for one in by_range(having(regressions, *STANDING))],
        "accepted": having(regressions, Status.ACCEPTED),
        "improved": [row for row in rows if row.finding.kind is Kind.IMPROVEMENT],
        "past": having(regressions, Status.RECOVERED, Status.NOT_MEASURED),
        "months": months(found),
        "failures": failures(last.experiments if last else ()),
        "claims": [claim_line(claim, found) for claim in found.claims],
        "turns": [turn_row(turn, found) for turn in reversed(found.turns)][:20],
        "experiments": [(name, experiment_page(name), cards(mine), len(mine)) for name, mine in lines.items()],
        "sparked": SPARKED,
        "told": found.told,
    }  # fmt: skip


def experiment_content(experiment: str, mine: Sequence[Timeline], found: Findings) -> dict[str, Any]:
    nights = found.history.nights
    return {
        "title": experiment,
        "suite": found.history.suite,
        "nights": len(nights),
        "shared": shared(found),
        "charts": [
            {
                "anchor": line.anchor, "title": words.series(line.segments[-1].key), "svg": draw(line),
                "points": points(line), "variant": line.name[1], "fact": line.metric.better == "none",
                "findings": [finding_row(one, line, found) for one in reversed(line.findings)],
                "measured": len(line.spots), "missing": len(line.gaps),
            }
            for line in mine
        ],
    }  # fmt: skip
