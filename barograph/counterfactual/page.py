"""The page of a counterfactual: decisions and outcomes side by side, a policy a row, and throughput over time.

It lies beside the runs of the recorded run's series, in a folder of its own: the measurements and all earlier pages
stay as they are.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.compare.sentence import enumeration
from analysis.metrics.definitions import OUTCOMES, PRIMARY, RUN_TABLES, metric
from analysis.metrics.steadiness import WINDOW_S
from analysis.numerals import MISSING, change, number, signed_percent, with_unit
from analysis.record import small_tables
from analysis.record.files import COUNTERFACTUALS, SeriesPaths
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row
from analysis.report import page, series_tables, words
from analysis.report.figures import series_charts, series_data, style
from analysis.report.figures.renderer import page_figure
from analysis.report.figures.series_data import SeriesData
from analysis.report.figures.sweep_curves import MOST_PANELS
from analysis.report.page import Block, Definitions, Downloads, PageContent, Section, Sentence, Warnings, variant_legend
from analysis.report.series_tables import Measured
from analysis.report.table import BREAK, Across, Heading, ResultTable, bold, element, joined, link, small
from barograph.counterfactual.outcomes import (
    OutcomeComparison,
    RunOutcome,
    decision_words,
    error_words,
    executor_words,
    machine_count_words,
    machine_words,
    net_executors,
)
from barograph.counterfactual.simulation import RECORDED, Recording, Simulated
from barograph.plan.blocks import stamp

PAGE = "report.html"
ANSWER = "throughput_after"
OVER = "over the policy that ran (%)"
ALIKE_PERCENT = 1.0  # throughputs with at most this difference are named together
MOST_NAMED = 4  # of these
MOST_DECISIONS = 20  # of a policy that decides by itself; the files have all
TITLE = "Throughput over time, in tuples per second: as recorded, and simulated with each policy"
SIMULATED_ITSELF = "The recorded run was simulated itself: how far the simulator is from Storm is not known from it."


@dataclass(frozen=True)
class OutcomeLine:
    """A run with its unique name on the page. `run_id`: its id in the tables."""

    name: str
    run_id: str
    run: RunOutcome

    @property
    def is_recorded(self) -> bool:
        return self.run.source == RECORDED

    @property
    def title(self) -> str:
        return style.display_name(self.name)


@dataclass(frozen=True)
class OutcomeRow:
    """A row of outcomes. `is_error`: the difference of the two rows above it; `ran`: of the policy that ran."""

    title: str
    cells: list[str]
    ran: bool
    is_error: bool = False


def write(recording: Recording, found: Simulated, comparison: OutcomeComparison, now_s: float) -> Path:
    """Write the page while the simulated runs exist, with the files of its figure and tables, and return its path."""
    paths = SeriesPaths(found.folder)
    lines = ordered_lines(comparison, (RECORDED, *found.variants))
    data = timeline(paths, lines)
    page_content = content(comparison, lines, data, warnings(paths, recording.home), recording.home, now_s)
    # Named after the run's folder, since the id in a foreign record may be any path.
    folder, second_s = recording.home / COUNTERFACTUALS / f"{stamp(now_s)}-{recording.run.name}", now_s
    folder.parent.mkdir(parents=True, exist_ok=True)
    while folder.exists():  # twice within one second
        second_s += 1
        folder = folder.with_name(f"{stamp(second_s)}-{recording.run.name}")
    folder.mkdir()
    try:
        return page.save(folder / PAGE, page_content)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def ordered_lines(comparison: OutcomeComparison, run_ids: Sequence[str]) -> list[OutcomeLine]:
    """Return the recorded run, its own simulation, then the others: the highest throughput after the last event first.
    `run_ids`: of the comparison's runs, in the tables."""
    own_run, last_event = comparison.own(), [*comparison.events][-1]

    def place(line: OutcomeLine) -> tuple[bool, bool, bool, float]:
        value = line.run.events[last_event].metrics[ANSWER]
        return not line.is_recorded, line.run is not own_run, value is None, -(value or 0.0)

    times = Counter([RECORDED, *(run.name for run in comparison.runs if run.source != RECORDED)])
    lines = []
    for run_id, run in zip(run_ids, comparison.runs, strict=True):
        name = RECORDED if run.source == RECORDED else run.name
        if name != RECORDED and times[name] > 1:  # another run has the same name
            name = f"{style.display_name(name)} ({parameter_words(run)})"
        lines.append(OutcomeLine(name, run_id, run))
    return sorted(lines, key=place)


def parameter_words(run: RunOutcome) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(run.parameters.items()))


def warnings(paths: SeriesPaths, home: Path) -> list[str]:
    """Return remarks on simulated numbers. `paths`: the simulated series; `home`: the recorded series, whose
    calibrations lie beside it."""
    runs = small_tables.rows(paths, "runs")
    is_model = any(is_simulated(run) for run in runs if run["run_id"] == RECORDED)
    return [*filter(None, (page.folded(words.model_sentence(runs, home)), SIMULATED_ITSELF if is_model else ""))]


def timeline(paths: SeriesPaths, lines: Sequence[OutcomeLine]) -> SeriesData:
    """Return the data of the series' throughput figure, each run as a separate variant; of very many the first ones."""
    names = {line.run_id: line.name for line in lines}
    data = series_data.collect(paths)
    drawn_ids = {line.run_id for line in data.totals}
    drawn = [line.name for line in lines if line.run_id in drawn_ids][:MOST_PANELS]
    return data.renamed(drawn, names, "run_id")


def content(comparison: OutcomeComparison, lines: Sequence[OutcomeLine], data: SeriesData, notes: Sequence[str],
            home: Path, now_s: float) -> PageContent:  # fmt: skip
    """Return the page's content. `notes`: the warnings; `home`: the recorded series."""
    policy, run = style.display_name(comparison.runs[0].name), comparison.run
    report = f"../../{PAGE}" if (home / PAGE).is_file() else None
    of_run = f"../../runs/{run}/{PAGE}" if (home / "runs" / run / PAGE).is_file() else None
    date = f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M} UTC"
    meta = [
        f"{comparison.experiment} · ", link(f"series {home.name}", report), " · ", link("the recorded run", of_run),
        f", with {policy} · {len(comparison.runs) - 1} simulated · {date}",
    ]  # fmt: skip
    return PageContent(
        title=f"{comparison.experiment}, {run} with other policies",
        heading=f"What other policies would have made of {run}",
        meta=joined(meta),
        blocks=list(_blocks(comparison, lines, data, notes)),
    )


def _blocks(
    comparison: OutcomeComparison, lines: Sequence[OutcomeLine], data: SeriesData, notes: Sequence[str]
) -> Iterator[Block]:
    yield Warnings(notes)
    events = list(comparison.events)
    for event_id in events:
        for place, sentence in enumerate(sentences(comparison, lines, event_id)):
            yield Sentence(sentence, "answer" if len(events) == 1 and place == 0 else "")
    if chart := series_charts.throughput_chart(data, TITLE):
        is_legible = len(data.variants) <= style.LEGIBLE_VARIANTS
        colours = style.colours(data.variants)
        yield variant_legend(
            [(style.display_name(name), colours[name]) for name in data.variants] if is_legible else []
        )
        yield page_figure("throughput", "Throughput over time", caption(comparison, data, lines), chart)
    else:
        yield Sentence("There is no whole window with a measurement of throughput, so there is no figure.")
    for event_id, what in comparison.events.items():
        yield Section(f"{event_id}: {what}", event_blocks(comparison, lines, event_id))
    if starts := ", ".join(f"{line.title} {line.run.differing_start}" for line in lines if line.run.differing_start):
        yield Sentence(f"Tasks that began at other slots than in the recorded run: {starts}.", "small")
    kinds = dict.fromkeys(OUTCOMES, "number")
    yield Downloads("outcomes", list(outcome_rows(comparison, lines)), kinds, label="Outcomes")
    yield Downloads("decisions", list(decision_rows(comparison, lines)), label="Decisions")
    if comparison.not_simulated:
        yield Section("Not simulated", [Definitions(list(comparison.not_simulated.items()))])


def caption(comparison: OutcomeComparison, data: SeriesData, lines: Sequence[OutcomeLine]) -> str:
    event, policy = next(iter(comparison.events.values())), style.display_name(comparison.runs[0].name)
    colour = "Black" if len(data.variants) <= style.LEGIBLE_VARIANTS else "Grey in every panel"
    text = (
        f"Throughput {data.place}, in {WINDOW_S:g} s windows aligned to the first event, {event} (upright line)."
        f" {colour} is what was recorded with {policy}; the rest is simulated, from the same start and with the same"
        " events. Numbers are the level after the last event. The dashed line is what the spouts were scheduled to"
        " emit; where a tuple reaches several sinks, their sum may lie above it."
    )
    left_out = len(lines) - len(data.variants)
    return text + (f" {len(data.variants)} of {len(lines)} runs are drawn; the tables have all." if left_out else "")


def event_blocks(comparison: OutcomeComparison, lines: Sequence[OutcomeLine], event_id: str) -> list[Block]:
    tables = [
        (title, table) for title in RUN_TABLES
        if len((table := outcome_table(comparison, lines, event_id, title)).columns) > 1
    ]  # fmt: skip
    blocks: list[Block] = [Section(title, [table]) for title, table in tables]
    if event_id == next(iter(comparison.events)):
        last = "the last" if len(comparison.events) > 1 else "the"
        error = words.SIMULATOR_ERROR if tables and comparison.own() else ""
        blocks.append(Sentence(
            f"Above the line is {style.display_name(comparison.runs[0].name)}, the policy that ran{error}. Below are"
            f" the others, the highest throughput after {last} event first. “>”: a time that was not reached by then.",
            "small",
        ))  # fmt: skip
    if series_tables.is_marked(table for _, table in tables):
        blocks.append(Sentence(words.NOT_STEADY_HERE, "small"))
    late = ", ".join(
        f"{line.title} {change(line.run.late_s[event_id], 's', 1)}"
        for line in lines
        if abs(line.run.late_s[event_id]) >= 1
    )
    if late:
        blocks.append(Sentence(f"It came at another time than it was recorded at with {late}.", "small"))
    return [*blocks, Section("Decisions", [decision_table(comparison, lines, event_id)])]


def outcome_table(
    comparison: OutcomeComparison, lines: Sequence[OutcomeLine], event_id: str, title: str
) -> ResultTable:
    """Return the measured metrics of one of the report's tables, of the policy that ran and then of the others."""
    outcomes = [line.run.events[event_id] for line in lines]
    columns = [
        metric(name)
        for name in RUN_TABLES[title]
        if name in OUTCOMES and any(outcome.metrics[name] is not None for outcome in outcomes)
    ]
    simulation = comparison.own()
    base = simulation.events[event_id].metrics[ANSWER] if simulation else None
    rows = []
    for line, outcome in zip(lines, outcomes, strict=True):
        ran = _is_of_policy_that_ran(line, comparison)
        cells = []
        for each in columns:
            value, is_unsteady = outcome.metrics[each.name], each.name in outcome.unsteady
            measured = None if value is None else Measured(value, each.name in outcome.censored,
                                                           False if is_unsteady else None)  # fmt: skip
            cells.append(series_tables.cell(measured, each.digits))
            if base and _has_over(each.name, base):
                over = MISSING if value is None else signed_percent(_percent_over(value, base))
                cells.append("" if ran else over)
        rows.append(OutcomeRow(_title(line, comparison), cells, ran))
    if simulation:
        errors, cells = comparison.errors()[event_id], []
        for each in columns:  # in percent of the recorded value, else in the column's unit
            error = errors.get(each.name)
            difference = MISSING if error is None else number(error["difference"], each.digits, signed=True)
            is_ratio = error is not None and error["percent"] is not None
            cells.append(change(error["percent"], "%") if error is not None and is_ratio else difference)
            cells += [""] if _has_over(each.name, base) else []
        rows.append(OutcomeRow("error of the simulator", cells, ran=True, is_error=True))
    mine, other_rows = ([row for row in rows if row.ran is which] for which in (True, False))
    headings = [
        heading for each in columns for heading in (each.heading, *([OVER] if _has_over(each.name, base) else []))
    ]

    def cell_at(place: int) -> Callable[[OutcomeRow], str]:
        return lambda row: row.cells[place]

    return ResultTable(
        [
            Heading("policy", lambda row: bold(row.title) if row.ran and not row.is_error else row.title, css="k"),
            *(Heading(text, cell_at(place), css="n k", blank="") for place, text in enumerate(headings)),
        ],
        [*mine, *([Across(begins=True)] if other_rows else []), *other_rows],
        row_css=lambda row: "out" if row.is_error else "",
    )


def _is_of_policy_that_ran(line: OutcomeLine, comparison: OutcomeComparison) -> bool:
    return line.is_recorded or line.run is comparison.own()


def _title(line: OutcomeLine, comparison: OutcomeComparison) -> str:
    """Return the row's title; for the policy that ran, it says whether the row is the record or the simulation."""
    if _is_of_policy_that_ran(line, comparison):
        return f"{style.display_name(line.run.name)}, {line.run.source}"
    return line.title


def _has_over(name: str, base: float | None) -> bool:
    """Return whether the metric has a second column: throughput over the simulation of the policy that ran."""
    return name == ANSWER and bool(base)


def _percent_over(value: float, base: float) -> float:
    return 100.0 * (value - base) / base


def sentences(comparison: OutcomeComparison, lines: Sequence[OutcomeLine], event_id: str) -> list[str]:
    """Return which policy has the highest throughput after the event, and the simulator's error on this run."""
    texts = (answer(comparison, lines, event_id), error_words(comparison, event_id, PRIMARY))
    return [f"{each[0].upper()}{each[1:]}." for each in texts if each]


def answer(comparison: OutcomeComparison, lines: Sequence[OutcomeLine], event_id: str) -> str:
    """Return the answer, empty without two policies to compare. Simulated values are compared with simulated ones
    only."""
    values = {
        line.name: value
        for line in lines
        if not line.is_recorded and (value := line.run.events[event_id].metrics[ANSWER]) is not None
    }
    if len(values) < 2:
        return ""
    best = max(values.values())
    level = with_unit(number(best), "tuples/s")
    leaders = [name for name, value in values.items() if value >= best * (1 - ALIKE_PERCENT / 100)]
    alike = f" (within {ALIKE_PERCENT:g} %)" if len(leaders) > 1 else ""
    after = f"after {event_id if len(comparison.events) > 1 else 'the event'}"
    if len(leaders) == len(values):
        return f"{after} all {len(values)} policies have the same simulated throughput{alike}: {level}"
    own_name = next((line.name for line in lines if line.run is comparison.own()), None)
    entries = [style.display_name(name) for name in leaders[:MOST_NAMED]]
    entries += [f"{len(leaders) - MOST_NAMED} more"] if len(leaders) > MOST_NAMED else []
    highest = f"{after} the simulated throughput is the highest with {enumeration(entries)}{alike}"
    if leaders == [own_name]:
        return f"{highest}, the policy that ran: {level}"
    text = f"{highest}: {level}"
    if own_name is None or own_name not in values:
        return text
    if own_name in leaders:
        return f"{text}; {style.display_name(own_name)} is the policy that ran"
    base, excess = values[own_name], "over none with"
    if base:
        percent, error = _percent_over(best, base), comparison.errors()[event_id].get(ANSWER, {}).get("percent")
        is_small = error is not None and percent <= abs(error)
        remark = " (no more than the error of the simulator on this run)" if is_small else ""
        excess = f"{change(percent, '%')}{remark} over"
    return f"{text}, {excess} {style.display_name(own_name)}, the policy that ran"


def decision_table(comparison: OutcomeComparison, lines: Sequence[OutcomeLine], event_id: str) -> ResultTable:
    """Return what each policy decided at one event."""
    rows = [decision_row(line, _title(line, comparison), event_id) for line in lines]

    def reason(row: Mapping[str, Any]) -> str:
        if not row["more"]:
            return str(row["reason"])
        unlisted = f"and {row['unlisted']} more, in the files" if row["unlisted"] else ""
        behind = joined([*(joined([line, BREAK]) for line in row["more"]), unlisted])
        summary = element("summary", f"{len(row['more']) + row['unlisted']} more")
        return joined([row["reason"], element("details", joined([summary, behind]))])

    def policy(row: Mapping[str, Any]) -> str:
        return joined([row["title"], BREAK, small(row["policy"])]) if row["policy"] else str(row["title"])

    changes = any(row["machine_changes"] for row in rows)
    headings = (
        Heading("policy", policy),
        Heading("decided after (s)", "decided", css="n"),
        Heading("executors", "executors", css="v"),
        Heading("tasks to other slots", "tasks", css="n"),
        Heading("on machines", "machines", css="v"),
        Heading("machines of the cluster", "machine_changes") if changes else None,
        Heading("reason", reason, css="wide small"),
    )
    return ResultTable(headings, rows)


def decision_row(line: OutcomeLine, title: str, event_id: str) -> dict[str, Any]:
    """Return what a policy decided at one event. For several decisions: their joint changes, time and reason of the
    first, and the next ones in `more`, which leaves out `unlisted`."""
    decisions = line.run.events[event_id].decisions
    parameters = parameter_words(line.run)
    policy = f"{line.run.policy}{f': {parameters}' if parameters else ''}"
    row: dict[str, Any] = {
        "title": title, "policy": "" if policy == line.run.name else policy,  # the title says it
        "decided": None, "executors": "no decision", "tasks": None, "machines": None, "machine_changes": "",
        "reason": "", "more": [], "unlisted": 0,
    }  # fmt: skip
    if not decisions:
        return row
    first, *later = decisions
    tasks = sum(each.slots or 0 for each in decisions)
    without = MISSING if any(each.executors is not None for each in decisions) else "not in the decision log"
    in_log = all(each.slots is not None or each.scheduler for each in decisions)
    machines = tuple(dict.fromkeys(machine for each in decisions for machine in each.release))
    all_together = replace(first, release=machines, acquire=sum(each.acquire for each in decisions))
    extract = later[:MOST_DECISIONS]
    return row | {
        "decided": number(first.decided_s, 1),
        "executors": "; ".join(executor_words(net_executors(decisions))) or without,
        "tasks": tasks or None if in_log else "not in the decision log",
        "machines": machine_words(decisions),
        "machine_changes": "; ".join(machine_count_words(all_together)),
        "reason": f"the first of {len(decisions)} decisions: {first.reason}" if later else first.reason,
        "more": [f"after {number(each.decided_s, 1)} s: {decision_words(each)} ({each.reason})" for each in extract],
        "unlisted": len(later) - len(extract),
    }


def outcome_rows(comparison: OutcomeComparison, lines: Sequence[OutcomeLine]) -> Iterator[Row]:
    """Yield a row for each event and run, as measured. Values of metrics in `censored` are lower bounds."""
    for event_id in comparison.events:
        for line in lines:
            outcome = line.run.events[event_id]
            yield {
                **_of(line, event_id), **outcome.metrics, "censored": " ".join(outcome.censored),
                "unsteady": " ".join(outcome.unsteady), "late_s": line.run.late_s[event_id],
            }  # fmt: skip


def decision_rows(comparison: OutcomeComparison, lines: Sequence[OutcomeLine]) -> Iterator[Row]:
    """Yield a row for each decision."""
    for event_id in comparison.events:
        for line in lines:
            for each in line.run.events[event_id].decisions:
                yield {
                    **_of(line, event_id), "decided_s": each.decided_s, "by_itself": each.own,
                    "executors": "; ".join(executor_words(each.executors or {})), "tasks_to_other_slots": each.slots,
                    "machines": machine_words([each]), "released": " ".join(each.release),
                    "machines_asked_for": each.acquire, "scheduler": each.scheduler, "reason": each.reason,
                }  # fmt: skip


def _of(line: OutcomeLine, event_id: str) -> dict[str, Any]:
    run = line.run
    return {
        "event_id": event_id, "variant": run.name, "policy": run.policy, "parameters": parameter_words(run),
        "source": run.source,
    }  # fmt: skip
