"""The page of a sweep: curves of each metric over the swept field, one table, and the failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from analysis.claims.statements import load_claims
from analysis.metrics.definitions import CONVERGENCE, metric, place_words
from analysis.numerals import change, number, with_unit
from analysis.record import small_tables
from analysis.record.files import SeriesPaths
from analysis.record.small_tables import Row
from analysis.report import page, words
from analysis.report.figures import published_figures, style, sweep_curves
from analysis.report.figures.published_figures import BASELINE
from analysis.report.figures.renderer import page_figure
from analysis.report.figures.sweep_curves import MOST_PANELS, SweepData, SweepRun, summary_of
from analysis.report.headline import NOUNS
from analysis.report.page import Block, Downloads, PageContent, Section, Sentence, Warnings
from analysis.report.table import Heading, ResultTable, columns, lists

SHOWN_ROWS = 300  # of the table, and of the failures; the files have all of them
ANSWER = "throughput_after"
CAPTION = "Small dots are runs, strokes go from the smallest to the largest, lines through the "
MEDIANS = (
    "medians (Kaplan and Meier's). A hollow triangle is a time that was not reached by then, a small one that of a run,"
    " a large one the median; an arrow ends a stroke where a run may be longer than that."
)
Groups = dict[tuple[str, tuple[int, ...]], list[SweepRun]]  # by variant and steps
TABLE_NOTE = (
    "Of runs that differ by seed and repetition alone: the mean and, from the smallest to the largest, the runs; of"
    " times of convergence the median, “>” where it was not reached, and “or longer” where a run never got there. Runs"
    " of a model differ by their seed alone, so there is no interval. †: a run of them was not steady on a side that"
    " the number rests on."
)


def write(paths: SeriesPaths) -> Path:
    """Write the page with the files of its figures and tables; return its path."""
    trust = words.model_sentence(small_tables.rows(paths, "runs"), paths.root)
    place = place_words(sorted({row["throughput"] for row in small_tables.rows(paths, "topologies")}))
    return page.save(paths.report, content(sweep_curves.collect(paths), trust, place))


def content(data: SweepData, trust: str, place: str) -> PageContent:
    events = [event for event in data.events if data.metrics(event)]
    blocks: list[Block] = [Sentence(result["sentence"]) for result in data.search.get("results", ())] or [
        Sentence(f"After {event}, {answer}" if len(events) > 1 else answer)
        for event in events for answer in answers(data, event)
    ]  # fmt: skip
    if number := len(data.failures):
        blocks.append(Sentence(f"{number} failure{'' if number == 1 else 's'}: see below. What failed is in no curve."))
    blocks.append(Warnings(list(filter(None, (page.folded(trust), data.other_code)))))
    axes = " × ".join(f"{len(axis.steps)} of {axis.name}" for axis in data.axes)
    if data.search:
        axes = f"a search until {data.search['until']}"
    size = f"{data.points} point{'s' if data.points > 1 else ''}: {axes}"
    return PageContent(
        title=f"{data.experiment}, {'search' if data.search else 'sweep'}",
        heading=data.title,
        meta=f"{data.experiment} · {data.sweep_id}{' · simulated' * bool(trust)} · {size} · throughput {place}",
        blocks=[
            Section("In short", blocks),
            *(Section(f"{event}: {data.events[event]}", list(_event_blocks(data, event))) for event in events),
            Downloads("runs", list(run_rows(data))),
            *([Section("What failed", _failure_blocks(data))] if data.failures else []),
        ],
    )


def _event_blocks(data: SweepData, event_id: str) -> Iterator[Block]:
    panels = len(sweep_curves.panels_of(data, sweep_curves.layout(data)))
    of_panels = f" {MOST_PANELS} of {panels} panels are drawn; the table has all." if panels > MOST_PANELS else ""
    for name in data.metrics(event_id):
        if chart := sweep_curves.chart(data, event_id, name):
            title = metric(name).words
            caption = CAPTION + (MEDIANS if name.startswith(CONVERGENCE) else "means.") + of_panels
            yield page_figure(f"{event_id}_{name}", title[0].upper() + title[1:], caption, chart)
    full_table = table(data, event_id)
    hidden_rows = len(full_table.rows) - SHOWN_ROWS
    remark = f" {hidden_rows} more rows are in the files." if hidden_rows > 0 else ""
    yield replace(full_table, rows=full_table.rows[:SHOWN_ROWS])
    yield Sentence(TABLE_NOTE + remark, "small")


def _failure_blocks(data: SweepData) -> list[Block]:
    headings = (
        *columns("point /n"),
        Heading("values", lambda row: ", ".join(f"{path} = {value}" for path, value in row["values"].items())),
        *columns("run = run_id"),
        Heading("whose failure", lambda row: row["blame"].replace("_", " "), css="k"),
        Heading("message", "message", css="wide"),
    )
    hidden_rows = len(data.failures) - SHOWN_ROWS
    remark = [Sentence(f"{hidden_rows} more are in sweep.json.", "small")] if hidden_rows > 0 else []
    return [ResultTable(headings, data.failures[:SHOWN_ROWS]), *remark]


def answers(data: SweepData, event_id: str) -> list[str]:
    """Return for each variant where it differs least and most from the default; without a default where its throughput
    after the event is the highest."""
    if BASELINE in data.variants and len(data.variants) > 1:
        return _changes(data, event_id)
    words, unit = metric(ANSWER).words, metric(ANSWER).unit
    best: dict[str, tuple[float, tuple[int, ...]]] = {}
    for (variant, steps), runs in groups(data, event_id, ANSWER).items():
        value = summary_of(runs).value
        if value is not None and (variant not in best or value > best[variant][0]):
            best[variant] = value, steps
    return [
        f"{style.display_name(variant)}: the highest {words} is {with_unit(number(value), unit)}, with"
        f" {_step_words(data, steps)}."
        for variant, (value, steps) in best.items()
    ]


def _changes(data: SweepData, event_id: str) -> list[str]:
    """Return changes over the default in the metrics of claims about this sweep, else in throughput."""
    claim_metrics = (
        claim.metric for claim in load_claims()
        if (claim.simulated, claim.experiment, claim.baseline) == (True, data.experiment, BASELINE)
    )  # fmt: skip
    metrics = list(dict.fromkeys(name for name in claim_metrics if name in NOUNS)) or [ANSWER]
    changed = {name: replace(data, runs=tuple(published_figures.changes(data, event_id, name))) for name in metrics}
    sentences = []
    for variant in data.variants:
        parts = []
        for name, runs in changed.items():
            means = {steps: fmean(run.value for run in each)
                     for (side, steps), each in groups(runs, event_id, name).items() if side == variant}  # fmt: skip
            if means:
                ends = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
                texts = [change(means[steps], "%") for steps in ends]
                places = [f"{text} ({_step_words(data, steps)})" for text, steps in zip(texts, ends, strict=True)]
                extremes = f"{texts[0]} at every point" if texts[0] == texts[1] else " to ".join(places)
                parts.append(f"{NOUNS[name]} after the event {extremes}")
        if parts:
            sentences.append(f"{style.display_name(variant)} over {style.display_name(BASELINE)}: {'; '.join(parts)}.")
    return sentences


def _step_words(data: SweepData, steps: tuple[int, ...]) -> str:
    axes = shown_axes(data)
    return ", ".join(data.axes[place].words(step) for place, step in zip(axes, steps, strict=True))


def shown_axes(data: SweepData) -> list[int]:
    """Return the indices of axes that are no repetitions; all of them if there are no others."""
    return [place for place, axis in enumerate(data.axes) if not axis.is_replicate] or list(range(len(data.axes)))


def groups(data: SweepData, event_id: str, name: str) -> Groups:
    """Return runs that differ by seed and repetition alone, by variant and steps; variants in the experiment's
    order."""
    axes = shown_axes(data)
    runs_by_key: Groups = {}
    for variant in data.variants:
        for run in data.runs:
            if (run.variant, run.event_id, run.metric) == (variant, event_id, name):
                runs_by_key.setdefault((variant, tuple(run.steps[place] for place in axes)), []).append(run)
    return runs_by_key


def table(data: SweepData, event_id: str) -> ResultTable:
    """Return a row for each combination of values and variant; a column for each field and metric."""
    metrics, places = data.metrics(event_id), shown_axes(data)
    by_metric = {name: groups(data, event_id, name) for name in metrics}
    keys = sorted({key for runs in by_metric.values() for key in runs}, key=lambda k: (k[1], data.variants.index(k[0])))
    heads = [metric(name).heading for name in metrics]
    rows = [
        [
            *(str(data.axes[place].steps[step][0]) for place, step in zip(places, steps, strict=True)),
            style.display_name(variant),
            str(max(len(by_metric[name].get((variant, steps), ())) for name in metrics)),
            *(_cell(by_metric[name].get((variant, steps), ())) for name in metrics),
        ]
        for variant, steps in keys
    ]
    return lists(rows, [*(data.axes[place].name for place in places), "variant", "runs", *heads])


def _cell(runs: Sequence[SweepRun]) -> str:
    if not runs:
        return number(None)
    of_runs = summary_of(runs)
    value, low, largest = of_runs.value, of_runs.low, number(of_runs.largest)
    if value is None:
        text = f"> {largest}"
    elif low == of_runs.high is not None:
        text = number(value)
    else:
        lowest = "" if low is None else f"{number(low)} "
        text = f"{number(value)} ({lowest}to {largest}{' or longer' if of_runs.unreached else ''})"
    return f"{text} †" if of_runs.unsteady else text


def run_rows(data: SweepData) -> Iterator[Row]:
    """Yield one row a run and event, with its point's values and every metric, for the files."""
    by_run: dict[tuple[int, str, str], list[SweepRun]] = {}
    for run in data.runs:
        by_run.setdefault((run.point, run.run_id, run.event_id), []).append(run)
    for (point, run_id, event_id), runs in by_run.items():
        values = {path: value for axis, step in zip(data.axes, runs[0].steps, strict=True)
                  for path, value in zip(axis.paths, axis.steps[step], strict=True)}  # fmt: skip
        by_metric = {run.metric: run for run in runs}
        metrics: Row = {name: by_metric[name].value if name in by_metric else None for name in data.shown}
        flags = {f"{name}_longer": by_metric[name].censored for name in data.shown
                 if name.startswith(CONVERGENCE) and name in by_metric}  # fmt: skip
        flat = {path: value if isinstance(value, int | float | str) else str(value) for path, value in values.items()}
        yield {"point": point, **flat, "variant": runs[0].variant, "run_id": run_id, "event_id": event_id, **metrics,
               **flags}  # fmt: skip
