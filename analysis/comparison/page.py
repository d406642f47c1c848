"""comparison.html: the sentence first, then every difference with its interval, what was compared, what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis import downloads, limits, metric_directions, page, wall_time
from analysis import report_tables as shown
from analysis.comparison import drawings, sentence, words
from analysis.comparison.answer import FAILED, PAGE, RESULT, Comparison, Kind, Row, as_data
from analysis.comparison.asked import Side
from analysis.comparison.blocks import PairRuns, SideRuns
from analysis.comparison.compare import compare
from analysis.downloads import File
from analysis.errors import RecordError
from analysis.figures import series
from analysis.figures.build import Figure, on_page
from analysis.numerals import number
from analysis.record import SeriesPaths, read_json, write_json_atomic
from analysis.small_tables import rows

TEMPLATE = "comparison.html.j2"
WORDS = page.TEMPLATES / "comparison_words.yaml"
ENOUGH = "enough.json"  # why no further block was needed, where somebody decided that

CAPTIONS = {
    "forest": (
        "Differences",
        "Of the metrics that carry the sentence: the difference of B against A in percent of A, with its 95 % interval "
        "over blocks. The grey band is the A/A floor: a difference inside it is one that the same code shows against "
        "itself here. Coloured where a difference is called.",
    ),
    "blocks": (
        "Every block",
        "The two runs of each block, joined: they ran one after the other on the same machines. A hollow triangle is a "
        "run that never got there; it stands at its horizon.",
    ),
    "throughput": (
        "Throughput over time",
        "Tuples executed at the sinks in 10 s windows, aligned to the first event (upright line). Bold lines are "
        "medians over runs, bands the smallest to the largest run; the dashed line is what the spouts were scheduled "
        "to emit.",
    ),
}


@dataclass(frozen=True)
class Shown:
    """One row of a table, as text."""

    pair: str
    metric: str
    a: str
    b: str
    difference: str
    interval: str
    floor: str
    effect: str
    p: str
    p_holm: str
    blocks: str
    needed: str
    verdict: str
    note: str


@dataclass(frozen=True)
class SideShown:
    """`facts`: what is known of its code."""

    letter: str
    label: str
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class RunShown:
    pair: str
    block: int
    side: str
    run_id: str
    status: str
    why: str
    link: str | None


@dataclass(frozen=True)
class Content:
    found: Comparison
    experiment: str
    series_id: str
    ended: str
    took: str  # wall time, and what of it was no run
    notes: list[str]
    primary: list[Shown]
    secondary: list[Shown]
    figures: list[Figure]
    sides: list[SideShown]
    runs: list[RunShown]
    several_pairs: bool
    recorded: bool  # a floor is that of comparisons on record
    machines: list[dict[str, Any]]
    environment: list[tuple[str, str]]
    assumptions: list[tuple[str, str]]
    glossary: list[tuple[str, str]]
    report: str | None


def write(series_dir: Path | str) -> Path:
    """Write comparison_result.json and comparison.html of an analysed series; returns the page's path."""
    paths = SeriesPaths(Path(series_dir))
    found = compare(paths.root)
    write_json_atomic(paths.root / RESULT, as_data(found))
    content = collect(paths, found)
    offered = files(content)
    for mine in offered.values():
        downloads.write(paths.figures, mine)
    links = downloads.links(offered, paths.figures.name)
    return page.write(paths.root / PAGE, page.rendered(TEMPLATE, c=content, links=links))


def collect(paths: SeriesPaths, found: Comparison) -> Content:
    runs = rows(paths, "runs")
    return Content(
        found=found,
        experiment=next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name),
        series_id=paths.root.name,
        ended=_ended(paths.root),
        took=_took(paths.root),
        notes=[*found.notes, *limits.warnings(rows(paths, "cpu"))],
        primary=[_shown(found, row) for row in found.rows if row.primary],
        secondary=[_shown(found, row) for row in found.rows if not row.primary],
        figures=_figures(paths, found),
        sides=[_side("A", found.asked.a), _side("B", found.asked.b)],
        runs=[run for pair in found.runs for run in _runs(paths.root, found, pair)],
        several_pairs=len(found.asked.pairs) > 1,
        recorded=any(row.floor_on_record for row in found.rows),
        machines=shown.machine_facts(rows(paths, "machines")),
        environment=shown.fingerprint(runs),
        assumptions=shown.assumptions(runs),
        glossary=[(entry["word"], entry["means"]) for entry in yaml.safe_load(WORDS.read_text(encoding="utf-8"))],
        report=paths.report.name if paths.report.is_file() else None,
    )


def files(content: Content) -> dict[str, tuple[File, ...]]:
    """By figure or table: what the page offers."""
    table = downloads.of_rows("comparison_rows", as_data(content.found)["rows"])
    return {figure.name: figure.files for figure in content.figures} | {"rows": table}


def _figures(paths: SeriesPaths, found: Comparison) -> list[Figure]:
    drawn = {
        "forest": drawings.forest(found),
        "blocks": drawings.blocks(found),
        "throughput": drawings.throughput(found, series.collect(paths)),
    }
    return [on_page(f"comparison_{name}", *CAPTIONS[name], drawing) for name, drawing in drawn.items() if drawing]


def _shown(found: Comparison, row: Row) -> Shown:
    unit = metric_directions.metric(row.metric).unit
    counted = row.kind in (Kind.RATIO, Kind.DIFFERENCE)
    return Shown(
        pair=row.pair,
        metric=words.of_event(row, found.kinds) + (f" ({unit})" if counted and unit else ""),
        a=words.level(row.a, row),
        b=words.level(row.b, row),
        difference=words.difference(row),
        interval=words.interval(row),
        floor=words.plus_minus(row.floor, row) + (" *" if row.floor_on_record else ""),
        effect=number(row.effect, 2, signed=True),
        p=words.p(row.p),
        p_holm=words.p(row.p_holm),
        blocks=str(len(row.blocks)) if row.metric != FAILED else "–",
        needed="–" if row.p is None or not row.goal else str(row.needed_blocks or "> 999"),
        verdict=row.verdict.value,
        note=row.note,
    )


def _side(letter: str, side: Side) -> SideShown:
    facts = [("commit", side.commit), ("repository", side.repository), ("date", side.date), ("subject", side.subject)]
    return SideShown(letter, side.label, [(name, value) for name, value in facts if value])


def _runs(root: Path, found: Comparison, pair: PairRuns) -> list[RunShown]:
    """Both sides' runs block by block, those that count and those that do not."""
    made = [*_of_side(root, pair, found.asked.a.label, pair.a), *_of_side(root, pair, found.asked.b.label, pair.b)]
    order = (found.asked.a.label, found.asked.b.label)
    return sorted(made, key=lambda run: (run.block, order.index(run.side), run.run_id))


def _of_side(root: Path, pair: PairRuns, label: str, side: SideRuns) -> list[RunShown]:
    complete = [
        RunShown(pair.pair.name, block, label, run_id, "complete", "", _link(root, run_id))
        for block, run_id in side.complete.items()
    ]
    lost = [
        RunShown(pair.pair.name, run.block, label, run.run_id,
                 f"lost by {sentence.whose(run)}" if run.blame else "not counted",
                 words.first_line(run.message, 400), _link(root, run.run_id))
        for run in side.lost
    ]  # fmt: skip
    return complete + lost


def _link(root: Path, run_id: str) -> str | None:
    """From the page, where the run has a report."""
    return f"runs/{run_id}/report.html" if (root / "runs" / run_id / "report.html").is_file() else None


def _ended(root: Path) -> str:
    """Why no further block was run, where that was decided."""
    try:
        known = read_json(root / ENOUGH) if (root / ENOUGH).is_file() else {}
    except RecordError:
        return ""
    return str(known.get("said") or "")


def _took(root: Path) -> str:
    found = wall_time.read(root)
    return "" if found is None else wall_time.told(found)
