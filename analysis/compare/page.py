"""comparison.html: the sentence first, then every difference with its interval, what was compared, what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis.compare import drawings, sentence
from analysis.compare.blocks import PairRuns
from analysis.compare.evaluation import compare
from analysis.compare.question import Side
from analysis.compare.result import PAGE, RESULT, RUNS_FAILED, Comparison, Kind, MetricRow, result_data
from analysis.metrics import definitions
from analysis.numerals import number
from analysis.record import small_tables, wall_time
from analysis.record.files import SeriesPaths, read_json_or_none, write_json_atomic
from analysis.record.small_tables import rows
from analysis.report import latency_sentences, page, series_tables, simulated
from analysis.report import series_tables as shown
from analysis.report.figures import series_data
from analysis.report.figures.catalogue import Figure, page_figure
from analysis.report.page import Download

TEMPLATE = "comparison.html.j2"
WORDS_FILE = page.TEMPLATES / "comparison_words.yaml"
ENOUGH_FILE = "enough.json"  # why no further block was needed, where somebody decided that

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
        "run that never got there: it stands at its horizon, its time is somewhere above, and the line is dotted. "
        "Latency is that of all tuples in the seconds that the table names, the same in every run of a pair.",
    ),
    "throughput": (
        "Throughput over time",
        "Tuples executed at the sinks in 10 s windows, aligned to the first event (upright line). Bold lines are "
        "medians over runs, bands the smallest to the largest run; the dashed line is what the spouts were scheduled "
        "to emit.",
    ),
}
MODEL_CAPTIONS = CAPTIONS | {
    "forest": (
        "Differences",
        "Of the metrics that carry the sentence: the difference of B against A in percent of A, and from the smallest "
        "to the largest difference of a block. A block has one seed; the model's noise is its only scatter.",
    ),
    "blocks": (
        "Every block",
        "The two runs of each block, joined: they have the same seed. A hollow triangle is a run that never got there: "
        "it stands at its horizon, its time is somewhere above, and the line is dotted. Latency is that of all tuples "
        "in the seconds that the table names, the same in every run of a pair.",
    ),
}


@dataclass(frozen=True)
class TableRow:
    """One row of a table, as text; `topology` is empty where runs have one only."""

    topology: str
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
class SideFacts:
    """`facts`: what is known of its code."""

    letter: str
    label: str
    facts: list[tuple[str, str]]


@dataclass(frozen=True)
class RunLine:
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
    end_reason: str
    wall_time: str  # wall time, and what of it was no run
    notes: list[str]
    primary: list[TableRow]
    secondary: list[TableRow]
    figures: list[Figure]
    sides: list[SideFacts]
    runs: list[RunLine]
    several_pairs: bool
    recorded: bool  # a floor is that of comparisons on record
    machines: list[dict[str, Any]]
    environment: list[tuple[str, str]]
    assumptions: list[tuple[str, str]]
    glossary: list[tuple[str, str]]
    report: str | None

    @property
    def answer(self) -> list[str]:
        """The sentence, a paragraph a topology."""
        return self.found.sentence.split(sentence.BETWEEN_TOPOLOGIES)

    @property
    def groups(self) -> list[tuple[str, list[TableRow], list[TableRow]]]:
        """Primary rows and all others of each topology; of the only one without a name."""

        def of(rows: list[TableRow], name: str) -> list[TableRow]:
            return [row for row in rows if row.topology == name]

        names = dict.fromkeys(row.topology for row in (*self.primary, *self.secondary))
        return [(name, of(self.primary, name), of(self.secondary, name)) for name in names]


def write(series_dir: Path | str) -> Path:
    """Write comparison_result.json and comparison.html of an analysed series; returns the page's path."""
    paths = SeriesPaths(Path(series_dir))
    found = compare(paths.root)
    write_json_atomic(paths.root / RESULT, result_data(found))
    content = collect(paths, found)
    offered = page_downloads(content)
    for downloads in offered.values():
        page.write_downloads(paths.figures, downloads)
    links = page.download_links(offered, paths.figures.name)
    return page.write(paths.root / PAGE, page.render(TEMPLATE, c=content, links=links))


def collect(paths: SeriesPaths, found: Comparison) -> Content:
    runs = rows(paths, "runs")
    return Content(
        found=found,
        experiment=next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name),
        series_id=paths.root.name,
        end_reason=str((read_json_or_none(paths.root / ENOUGH_FILE) or {}).get("said") or ""),
        wall_time=wall_time.wall_time_line(spent) if (spent := wall_time.read_wall_time(paths.root)) else "",
        notes=[
            *filter(None, [simulated.sentence(runs, paths.root)]),
            *found.notes,
            *series_tables.machine_warnings(paths),
            *latency_sentences.series_sentences(paths),
        ],
        primary=[_table_row(found, row) for row in found.rows if row.primary],
        secondary=[_table_row(found, row) for row in found.rows if not row.primary],
        figures=_figures(paths, found),
        sides=[_side_facts("A", found.question.a), _side_facts("B", found.question.b)],
        runs=[run for pair in found.runs for run in _run_lines(paths.root, found, pair)],
        several_pairs=len(found.question.pairs) > 1,
        recorded=any(row.floor_on_record for row in found.rows),
        machines=shown.machine_facts(rows(paths, "machines")),
        environment=shown.environment_facts(runs),
        assumptions=shown.specification_facts(runs),
        glossary=[(word["word"], word["means"]) for word in yaml.safe_load(WORDS_FILE.read_text(encoding="utf-8"))
                  if word.get("of_model", found.simulated) is found.simulated],
        report=paths.report.name if paths.report.is_file() else None,
    )  # fmt: skip


def page_downloads(content: Content) -> dict[str, tuple[Download, ...]]:
    """By figure or table: what the page offers."""
    table = page.row_downloads("comparison_rows", result_data(content.found)["rows"])
    return {figure.name: figure.files for figure in content.figures} | {"rows": table}


def _figures(paths: SeriesPaths, found: Comparison) -> list[Figure]:
    drawn = {
        "forest": drawings.forest(found),
        "blocks": drawings.block_panels(found),
    }
    captions = MODEL_CAPTIONS if found.simulated else CAPTIONS
    figures = [
        page_figure(f"comparison_{name}", *captions[name], drawing) for name, drawing in drawn.items() if drawing
    ]
    return [*figures, *_timelines(paths, found)]


def _timelines(paths: SeriesPaths, found: Comparison) -> list[Figure]:
    """Of each topology that is compared, and of the cluster."""
    figures = []
    title, caption = CAPTIONS["throughput"]
    for name in list(dict.fromkeys(row.topology for row in found.rows if row.metric != RUNS_FAILED)) or [""]:
        drawing = drawings.throughput_panels(found, series_data.collect(paths, name or None))
        if drawing:
            suffix, heading = (f"_{name}", f"{title}: {small_tables.topology_words(name)}") if name else ("", title)
            figures.append(page_figure(f"comparison_throughput{suffix}", heading, caption, drawing))
    return figures


def _table_row(found: Comparison, row: MetricRow) -> TableRow:
    unit = definitions.metric(row.metric).unit
    counted = row.kind in (Kind.RATIO, Kind.DIFFERENCE)
    why = row.why_no_verdict if found.simulated or not row.why_no_verdict else f"no verdict: {row.why_no_verdict}"
    return TableRow(
        topology=small_tables.topology_words(row.topology),
        pair=row.pair,
        metric=sentence.event_text(row, found.kinds) + (f" ({unit})" if counted and unit else ""),
        a=sentence.level_text(row.a, row),
        b=sentence.level_text(row.b, row),
        difference=sentence.difference_text(row),
        interval=sentence.interval_text(row),
        floor=sentence.plus_minus(row.floor, row) + (" *" if row.floor_on_record else ""),
        effect=number(row.effect, 2, signed=True),
        p=sentence.p_text(row.p),
        p_holm=sentence.p_text(row.p_holm),
        blocks=str(len(row.blocks)) if row.metric != RUNS_FAILED else "–",
        needed="–" if row.estimate is None or row.p is None or not row.goal else str(row.needed_blocks or "> 999"),
        verdict=sentence.verdict_text(row),
        note="; ".join(filter(None, (why, row.note))),
    )


def _side_facts(letter: str, side: Side) -> SideFacts:
    facts = [("commit", side.commit), ("repository", side.repository), ("date", side.date), ("subject", side.subject)]
    return SideFacts(letter, side.label, [(name, value) for name, value in facts if value])


def _run_lines(root: Path, found: Comparison, pair: PairRuns) -> list[RunLine]:
    """Both sides' runs block by block, those that count and those that do not."""
    lines, labels = [], (found.question.a.label, found.question.b.label)
    for label, side in zip(labels, (pair.a, pair.b), strict=True):
        for block, run_id in side.complete.items():
            lines.append(RunLine(pair.pair.name, block, label, run_id, "complete", "", _link(root, run_id)))
        for run in side.lost:
            status = f"lost by {sentence.blame_text(run)}" if run.blame else "not counted"
            status, why = status + ", repeated" * run.repeated, sentence.first_line(run.message, 400)
            lines.append(RunLine(pair.pair.name, run.block, label, run.run_id, status, why, _link(root, run.run_id)))
    return sorted(lines, key=lambda run: (run.block, labels.index(run.side), run.run_id))


def _link(root: Path, run_id: str) -> str | None:
    """From the page, where the run has a report."""
    return f"runs/{run_id}/report.html" if (root / "runs" / run_id / "report.html").is_file() else None
