"""comparison.html: the sentence first, then every difference with its interval, the sides, and the losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from analysis.compare import drawings, sentence
from analysis.compare.blocks import PairRuns
from analysis.compare.evaluation import compare
from analysis.compare.result import PAGE, RESULT, RUNS_FAILED, ComparisonResult, MetricKind, MetricRow, result_data
from analysis.metrics import definitions
from analysis.numerals import number
from analysis.record import small_tables, wall_time
from analysis.record.files import SeriesPaths, read_json_or_none, write_json_atomic
from analysis.record.small_tables import Row, rows
from analysis.report import page, series_facts, series_tables, words
from analysis.report.figures import series_data
from analysis.report.figures.renderer import page_figure
from analysis.report.page import (
    Block,
    Definitions,
    Downloads,
    Figure,
    Folded,
    Items,
    PageContent,
    Section,
    Sentence,
    Warnings,
)
from analysis.report.table import Across, Heading, ResultTable, badge, code, columns, joined, link

SUFFICIENT_FILE = "sufficient.json"  # why no further block was needed, if that was decided

DIFFERENCES = "Of the metrics that carry the sentence: the difference of B against A in percent of A, "
BLOCKS = (
    " A hollow triangle is a run that never got there: it stands at its horizon, its time is somewhere above, and the"
    " line is dotted. Latency is that of all tuples in the seconds that the table names, the same in every run of a"
    " pair."
)
CAPTIONS = {
    "forest": (
        "Differences",
        f"{DIFFERENCES}with its 95 % interval over blocks. The grey band is the A/A floor: a difference inside it is"
        " one that the same code shows against itself here. Coloured where a difference is called.",
    ),
    "blocks": (
        "Every block",
        f"The two runs of each block, joined: they ran one after the other on the same machines.{BLOCKS}",
    ),
    "throughput": (
        "Throughput over time",
        "Throughput {place} in 10 s windows, aligned to the first event (upright line). Bold lines are "
        "medians over runs, bands the smallest to the largest run; the dashed line is what the spouts were scheduled "
        "to emit.",
    ),
}
MODEL_CAPTIONS = {
    "forest": (
        "Differences",
        f"{DIFFERENCES}and from the smallest to the largest difference of a block. A block has one seed; the model's"
        " noise is its only scatter.",
    ),
    "blocks": ("Every block", f"The two runs of each block, joined: they have the same seed.{BLOCKS}"),
}


def write(series_dir: Path | str) -> Path:
    """Write comparison_result.json and comparison.html of an analysed series; returns the page's path."""
    paths = SeriesPaths(Path(series_dir))
    found = compare(paths.root)
    write_json_atomic(paths.root / RESULT, result_data(found))
    runs, title = rows(paths, "runs"), f"{found.question.b.label} against {found.question.a.label}"
    experiment = next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name)
    run_lines = [line for pair in found.runs for line in _run_lines(paths.root, found, pair)]
    content = PageContent(
        title=f"{title}, {experiment} {paths.root.name}",
        heading=title,
        meta=f"{experiment} · series {paths.root.name} · {sentence.count_text(found.blocks, 'whole block')},"
        f" {len(run_lines)} runs",
        css="comparison",
        blocks=list(_blocks(paths, found, run_lines)),
    )
    return page.save(paths.root / PAGE, content)


def _blocks(paths: SeriesPaths, found: ComparisonResult, lines: Sequence[Row]) -> Iterator[Block]:
    trust = page.folded(words.model_sentence(rows(paths, "runs"), paths.root))
    yield Sentence(found.sentence, "answer")
    end = str((read_json_or_none(paths.root / SUFFICIENT_FILE) or {}).get("said") or "")
    certainty = "No further block is needed" if found.certain else "Not as certain as the request"
    yield Sentence(f"{certainty}: {found.why}." + (f" It stopped there: {end}." if end else ""))
    warnings = (*series_facts.machine_warnings(paths), *words.latency_sentences(paths))
    yield Warnings([*([trust] if trust else []), *found.notes, *warnings])
    primary, secondary = ([row for row in found.rows if row.primary is flag] for flag in (True, False))
    yield Section("Differences", _primary(found, primary))
    for place, figure in enumerate(_figures(paths, found), start=1):
        yield replace(figure, title=f"Figure {place}. {figure.title}")
    if secondary:
        chance = " Some of so many metrics differ by chance, so p is corrected over all of them."
        text = f"The sentence above does not use them.{'' if found.simulated else chance}"
        yield Section(
            "All other metrics", [Sentence(text), Folded(f"{len(secondary)} rows", _by_topology(found, secondary))]
        )
    yield Section("Code under comparison", list(_sides(found)))
    yield Section("Runs", _runs(paths, found, lines))
    yield Section("Machines", _machines(paths))
    yield Section("Terms", [Definitions(words.glossary("comparison", of_model=found.simulated))])


def _primary(found: ComparisonResult, primary: Sequence[MetricRow]) -> list[Block]:
    if not primary:
        return [Sentence("No block is complete, so there is nothing to compare.")]
    question = found.question
    basis = (
        f"; p is corrected over all of them. The level is {100 * question.level:g} %, the goal"
        f" {question.goal_percent:g} %."
    )
    if found.simulated:
        basis = ". Runs of one model differ by their seeds alone, so there is no test, no interval and no verdict."
    on_record = any(row.floor_on_record for row in found.rows)
    text = (
        f"A is {question.a.label}, B is {question.b.label}. The sentence above uses these metrics{basis}"
        f"{' * The floor comes from comparisons of a code with itself on such machines.' if on_record else ''}"
    )
    data = Downloads("comparison_rows", result_data(found)["rows"])
    return [*_by_topology(found, primary), data, Sentence(text, "small")]


def _by_topology(found: ComparisonResult, differences: Sequence[MetricRow]) -> list[Block]:
    """Return a table for each topology; for a single one without its name."""
    tables: list[Block] = []
    for name in dict.fromkeys(row.topology for row in differences):
        table = difference_table(found, [row for row in differences if row.topology == name])
        tables.append(Section(small_tables.topology_words(name), [table]) if name else table)
    return tables


def difference_table(found: ComparisonResult, differences: Sequence[MetricRow]) -> ResultTable:
    """Return the table of differences; notes stand below their row."""
    lines: list[MetricRow | Across] = []
    for row in differences:
        reason = (
            row.why_no_verdict if found.simulated or not row.why_no_verdict else f"no verdict: {row.why_no_verdict}"
        )
        note = "; ".join(filter(None, (reason, row.note)))
        lines += [row, *([Across(note, "note", cell_css="reason")] if note else [])]

    def metric(row: MetricRow) -> str:
        unit = definitions.metric(row.metric).unit
        is_count = row.kind in (MetricKind.RATIO, MetricKind.DIFFERENCE)
        return sentence.event_text(row, found.kinds) + (f" ({unit})" if is_count and unit else "")

    def floor(row: MetricRow) -> str:
        return sentence.plus_minus(row.floor, row) + (" *" if row.floor_on_record else "")

    def needed(row: MetricRow) -> str | None:
        is_test = row.counted is not None and row.p is not None and row.goal
        return str(row.needed_blocks or "> 999") if is_test else None

    def verdict(row: MetricRow) -> str:
        text = sentence.verdict_text(row)
        return badge(text, {"better": "reproduced", "worse": "differs"}.get(text, ""))

    has_verdicts = not found.simulated
    headings = (
        Heading("variant", "pair", css="k") if len(found.question.pairs) > 1 else None,
        Heading("metric", metric),
        Heading("A", lambda row: sentence.level_text(row.a, row), css="n k"),
        Heading("B", lambda row: sentence.level_text(row.b, row), css="n k"),
        Heading("difference", sentence.difference_text, css="n k"),
        Heading("95 % interval" if has_verdicts else "over seeds", sentence.interval_text, css="n k"),
        Heading("A/A floor", floor, css="n k") if has_verdicts else None,
        Heading("Cliff’s δ", lambda row: number(row.effect, 2, signed=True), css="n"),
        Heading("p", lambda row: sentence.p_text(row.p), css="n k") if has_verdicts else None,
        Heading("p (Holm)", lambda row: sentence.p_text(row.p_holm), css="n k") if has_verdicts else None,
        Heading("blocks", lambda row: len(row.blocks) if row.metric != RUNS_FAILED else None, css="n"),
        Heading("needed", needed, css="n k") if has_verdicts else None,
        Heading("verdict", verdict, css="k") if has_verdicts else None,
    )
    return ResultTable(headings, lines)


def _figures(paths: SeriesPaths, found: ComparisonResult) -> Iterator[Figure]:
    """Yield the figures; timelines of each compared topology, and of the cluster."""
    captions = MODEL_CAPTIONS if found.simulated else CAPTIONS
    for name, drawing in (("forest", drawings.forest(found)), ("blocks", drawings.block_panels(found))):
        if drawing:
            yield page_figure(f"comparison_{name}", *captions[name], drawing)
    title, caption = CAPTIONS["throughput"]
    for name in list(dict.fromkeys(row.topology for row in found.rows if row.metric != RUNS_FAILED)) or [""]:
        data = series_data.collect(paths, name or None)
        if drawing := drawings.throughput_panels(found, data):
            text = caption.format(place=data.place)
            heading = f"{title}: {small_tables.topology_words(name)}" if name else title
            yield page_figure(f"comparison_throughput{small_tables.topology_suffix(name)}", heading, text, drawing)


def _sides(found: ComparisonResult) -> Iterator[Block]:
    names = ("commit", "repository", "date", "subject")
    for letter, side in (("A", found.question.a), ("B", found.question.b)):
        facts = [(name, value) for name in names if (value := getattr(side, name))]
        yield Section(f"{letter}: {side.label}", [Definitions(facts)])
    if found.question.log:
        yield Section("Commits between them", [Items([code(line, "small") for line in found.question.log])])


def _runs(paths: SeriesPaths, found: ComparisonResult, lines: Sequence[Row]) -> list[Block]:
    note = f"Runs of one block {'have the same seed' if found.simulated else 'ran on the same machines'}."
    report = paths.report.name if paths.report.is_file() else None
    intro = ["The ", link("report of the series", report), " has each side's figures and everything measured. "]
    headings = (
        *(columns("variant = pair /k") if len(found.question.pairs) > 1 else ()),
        *columns("block /n; side /k v"),
        Heading("run", lambda row: link(row["run_id"], row["link"] and quote(row["link"]), "run"), css="k"),
        *columns("status /k; why"),
    )
    table = ResultTable(headings, lines, row_css=lambda row: "" if row["status"] == "complete" else "out")
    times = wall_time.read_wall_time(paths.root)
    time_text = times and f"Wall time of the last execution: {wall_time.wall_time_line(times)}."
    return [
        Sentence(joined([*(intro if report else []), note])),
        table if lines else Sentence("None yet."),
        *([Sentence(time_text, "small")] if time_text else []),
    ]


def _machines(paths: SeriesPaths) -> list[Block]:
    runs, machines = rows(paths, "runs"), series_facts.machine_facts(rows(paths, "machines"))
    table = series_tables.machine_table(machines, clocks=False)
    return [
        Folded("Machines and software", [table, Definitions(series_facts.environment_facts(runs))]),
        Folded("Specification", [Definitions(series_facts.specification_facts(runs))]),
    ]


def _run_lines(root: Path, found: ComparisonResult, pair: PairRuns) -> list[Row]:
    """Return both sides' runs block by block, those that count and those that do not."""
    lines: list[Row] = []
    labels = (found.question.a.label, found.question.b.label)

    def add(block: int, side: str, run_id: str, status: str, why: str = "") -> None:
        report = f"runs/{run_id}/report.html" if (root / "runs" / run_id / "report.html").is_file() else None
        lines.append({"pair": pair.pair.name, "block": block, "side": side, "run_id": run_id, "status": status,
                      "why": why, "link": report})  # fmt: skip

    for label, side in zip(labels, (pair.a, pair.b), strict=True):
        for block, run_id in side.complete.items():
            add(block, label, run_id, "complete")
        for run in side.lost:
            status = (
                f"lost by {sentence.blame_text(run)}" if run.blame else "not counted"
            ) + ", repeated" * run.repeated
            add(run.block, label, run.run_id, status, sentence.first_line(run.message, 400))
    return sorted(lines, key=lambda row: (row["block"], labels.index(row["side"]), row["run_id"]))
