"""The page of a counterfactual: decisions and outcomes side by side, a policy a row, and throughput over time.

It lies beside the runs of the recorded run's series, in a folder of its own: what was measured stays as it is, and so
does every earlier page.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.metrics.definitions import OUTCOMES, PRIMARY, RUN_TABLES, Metric, metric
from analysis.metrics.steadiness import WINDOW_S
from analysis.numerals import MISSING, change, number, signed_percent, with_unit
from analysis.record import small_tables
from analysis.record.files import COUNTERFACTUALS, SeriesPaths
from analysis.record.simulated import is_simulated
from analysis.record.small_tables import Row
from analysis.report import page, series_tables, simulated
from analysis.report.figures import series_data, style, throughput_timeline
from analysis.report.figures.catalogue import Figure, page_figure
from analysis.report.figures.series_data import SeriesData
from analysis.report.figures.sweep_curves import MOST_PANELS
from analysis.report.page import Download
from analysis.report.series_tables import Measured
from barograph.counterfactual.outcomes import (
    Comparison,
    DecisionTaken,
    EventOutcome,
    RunOutcome,
    decision_words,
    error_words,
    executor_words,
    machine_count_words,
    machine_words,
    net_executors,
)
from barograph.counterfactual.recording import Recording
from barograph.counterfactual.simulation import RECORDED, Simulated
from barograph.plan.blocks import stamp

TEMPLATE = "counterfactual.html.j2"
PAGE, FIGURES = "report.html", "figures"
ANSWER = "throughput_after"
OVER = "over the policy that ran (%)"
ALIKE_PERCENT = 1.0  # throughputs that differ by no more are named together
MOST_NAMED = 4  # of these
MOST_DECISIONS = 20  # of a policy that decides by itself; the files have all
TITLE = "Throughput over time, in tuples per second: as recorded, and simulated with each policy"
SIMULATED_ITSELF = "The recorded run was simulated itself: how far the simulator is from Storm is not known from it."


Columns = Sequence[Metric]


@dataclass(frozen=True)
class Line:
    """A run under the name that it has on the page, in no other row. `run_id`: in the tables."""

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
    """`is_error`: the difference of the two rows above it."""

    title: str
    cells: list[str]
    is_error: bool = False


@dataclass(frozen=True)
class OutcomeTable:
    """`groups`: rows of the policy that ran, then the others."""

    title: str
    headings: list[str]
    groups: list[list[OutcomeRow]]


@dataclass(frozen=True)
class DecisionRow:
    """What a policy decided at one event. Of several decisions: what all together change, when and why the first was
    made, and the next ones in `more`, which leaves out `unlisted`."""

    title: str
    policy: str
    decided: str
    executors: str
    tasks: str
    machines: str
    machine_changes: str
    reason: str
    more: list[str]
    unlisted: int


@dataclass(frozen=True)
class EventSection:
    """`late`: with which policies the event came at another time than recorded."""

    title: str
    sentences: list[str]
    tables: list[OutcomeTable]
    decisions: list[DecisionRow]
    late: str

    @property
    def changes_machines(self) -> bool:
        return any(row.machine_changes for row in self.decisions)

    @property
    def unsteady(self) -> bool:
        groups = (group for table in self.tables for group in table.groups)
        return any(series_tables.UNSTEADY in cell for group in groups for row in group for cell in row.cells)


@dataclass(frozen=True)
class Content:
    """`ran`: the policy that ran. `report`, `run_page`: links, where these pages are there."""

    comparison: Comparison
    series_id: str
    ran: str
    made: str
    warnings: list[str]
    sections: list[EventSection]
    figure: Figure | None
    legend: list[tuple[str, str]]
    starts: str
    report: str | None
    run_page: str | None


def write(recording: Recording, found: Simulated, comparison: Comparison, now_s: float) -> Path:
    """Write the page of what was simulated, while it is there, and the files of its figure and tables; its path."""
    paths = SeriesPaths(found.folder)
    lines = ordered_lines(comparison, (RECORDED, *found.variants))
    data = timeline(paths, lines)
    content = collect(comparison, lines, data, warnings(paths, recording.home), recording.home, now_s)
    files = downloads(comparison, lines, content.figure)
    folder = _new_folder(recording.home / COUNTERFACTUALS, recording.run.name, now_s)
    try:
        for of in files.values():
            page.write_downloads(folder / FIGURES, of)
        links = page.download_links(files, FIGURES)
        return page.write(folder / PAGE, page.render(TEMPLATE, c=content, links=links))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _new_folder(above: Path, run: str, now_s: float) -> Path:
    """Named after the run's folder: what a record of others has for its id may be any path."""
    above.mkdir(parents=True, exist_ok=True)
    folder = above / f"{stamp(now_s)}-{run}"
    while folder.exists():  # twice within one second
        now_s += 1
        folder = above / f"{stamp(now_s)}-{run}"
    folder.mkdir()
    return folder


def ordered_lines(comparison: Comparison, run_ids: Sequence[str]) -> list[Line]:
    """The recorded run, its own simulation, then the others: the highest throughput after the last event first.
    `run_ids`: of the comparison's runs, in the tables."""
    own, last = comparison.own(), [*comparison.events][-1]

    def place(line: Line) -> tuple[bool, bool, bool, float]:
        value = line.run.events[last].metrics[ANSWER]
        return not line.is_recorded, line.run is not own, value is None, -(value or 0.0)

    named = zip(_names(comparison.runs), run_ids, comparison.runs, strict=True)
    return sorted((Line(*each) for each in named), key=place)


def _names(runs: Sequence[RunOutcome]) -> list[str]:
    """With its parameters where another run has the same name."""
    simulated_runs = [run for run in runs if run.source != RECORDED]
    times = Counter([RECORDED, *(run.name for run in simulated_runs)])
    names = (
        run.name if times[run.name] == 1 else f"{style.display_name(run.name)} ({parameter_words(run)})"
        for run in simulated_runs
    )
    return [RECORDED, *names]


def parameter_words(run: RunOutcome) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(run.parameters.items()))


def warnings(paths: SeriesPaths, home: Path) -> list[str]:
    """What is to be known of simulated numbers. `paths`: of what was simulated; `home`: of the recorded series, beside
    which calibrations are."""
    runs = small_tables.rows(paths, "runs")
    itself = any(is_simulated(run) for run in runs if run["run_id"] == RECORDED)
    said = (simulated.sentence(runs, home), SIMULATED_ITSELF if itself else "")
    return [each for each in said if each]


def timeline(paths: SeriesPaths, lines: Sequence[Line]) -> SeriesData:
    """What the series' figure of throughput draws, each run as a variant of its own; of very many the first ones."""
    names = {line.run_id: line.name for line in lines}
    data = series_data.collect(paths)
    drawn = {line.run_id for line in data.totals}
    return replace(
        data,
        variants=tuple(line.name for line in lines if line.run_id in drawn)[:MOST_PANELS],
        totals=tuple(replace(each, variant=names[each.run_id]) for each in data.totals),
        due=tuple(replace(each, variant=names[each.run_id]) for each in data.due),
        levels=tuple(replace(each, variant=names[each.run_id]) for each in data.levels),
    )


def collect(
    comparison: Comparison, lines: Sequence[Line], data: SeriesData, said: list[str], home: Path, now_s: float
) -> Content:
    """`said`: the warnings."""
    recorded = comparison.runs[0]
    ran = style.display_name(recorded.name)
    chart = throughput_timeline.chart(data, TITLE)
    few = len(data.variants) <= style.LEGIBLE_VARIANTS
    colours = style.colours(data.variants)
    runs = home / "runs" / comparison.run / PAGE
    return Content(
        comparison=comparison,
        series_id=home.name,
        ran=ran,
        made=f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M} UTC",
        warnings=said,
        sections=[section(comparison, lines, event_id) for event_id in comparison.events],
        figure=page_figure("throughput", "Throughput over time", caption(comparison, data, lines), chart)
        if chart
        else None,
        legend=[(style.display_name(name), colours[name]) for name in data.variants] if few else [],
        starts=", ".join(f"{line.title} {line.run.differing_start}" for line in lines if line.run.differing_start),
        report=f"../../{PAGE}" if (home / PAGE).is_file() else None,
        run_page=f"../../runs/{comparison.run}/{PAGE}" if runs.is_file() else None,
    )


def caption(comparison: Comparison, data: SeriesData, lines: Sequence[Line]) -> str:
    event, ran = next(iter(comparison.events.values())), style.display_name(comparison.runs[0].name)
    colour = "Black" if len(data.variants) <= style.LEGIBLE_VARIANTS else "Grey in every panel"
    said = (
        f"Tuples executed at the sinks, in {WINDOW_S:g} s windows aligned to the first event, {event} (upright line)."
        f" {colour} is what was recorded with {ran}; the rest is simulated, from the same start and with the same"
        " events. Numbers are the level after the last event. The dashed line is what the spouts were scheduled to"
        " emit; where a tuple reaches several sinks, their sum may lie above it."
    )
    left_out = len(lines) - len(data.variants)
    return said + (f" {len(data.variants)} of {len(lines)} runs are drawn; the tables have all." if left_out else "")


def section(comparison: Comparison, lines: Sequence[Line], event_id: str) -> EventSection:
    late = ", ".join(
        f"{line.title} {change(line.run.late_s[event_id], 's', 1)}"
        for line in lines
        if abs(line.run.late_s[event_id]) >= 1
    )
    return EventSection(
        title=f"{event_id}: {comparison.events[event_id]}",
        sentences=sentences(comparison, lines, event_id),
        tables=[table for title in RUN_TABLES if (table := outcome_table(comparison, lines, event_id, title)).headings],
        decisions=[decision_row(line, _title(line, comparison), event_id) for line in lines],
        late=late,
    )


def outcome_table(comparison: Comparison, lines: Sequence[Line], event_id: str, title: str) -> OutcomeTable:
    """Of the metrics of one of the report's tables those that were measured."""
    outcomes = [line.run.events[event_id] for line in lines]
    columns = [
        metric(name)
        for name in RUN_TABLES[title]
        if name in OUTCOMES and any(outcome.metrics[name] is not None for outcome in outcomes)
    ]
    own = comparison.own()
    base = own.events[event_id].metrics[ANSWER] if own else None
    groups: tuple[list[OutcomeRow], list[OutcomeRow]] = ([], [])
    for line, outcome in zip(lines, outcomes, strict=True):
        is_other = not _is_of_policy_that_ran(line, comparison)
        groups[is_other].append(OutcomeRow(_title(line, comparison), _cells(outcome, columns, base, is_other)))
    if own:
        cells = _error_cells(comparison.errors()[event_id], columns, base)
        groups[0].append(OutcomeRow("error of the simulator", cells, True))
    headings = [
        heading for each in columns for heading in (each.heading, *([OVER] if _has_over(each.name, base) else []))
    ]
    return OutcomeTable(title, headings, [group for group in groups if group])


def _is_of_policy_that_ran(line: Line, comparison: Comparison) -> bool:
    return line.is_recorded or line.run is comparison.own()


def _title(line: Line, comparison: Comparison) -> str:
    """Of the policy that ran, whether the row is what it did or its simulation."""
    if _is_of_policy_that_ran(line, comparison):
        return f"{style.display_name(line.run.name)}, {line.run.source}"
    return line.title


def _has_over(name: str, base: float | None) -> bool:
    """Throughput after has a second column: over that of the simulation of the policy that ran."""
    return name == ANSWER and bool(base)


def _cells(outcome: EventOutcome, columns: Columns, base: float | None, is_other: bool) -> list[str]:
    """`is_other`: than the policy that ran, of whose simulation `base` is."""
    found = []
    for each in columns:
        measured = _measured(outcome, each.name)
        found.append(series_tables.cell(measured, each.digits))
        if base and _has_over(each.name, base):
            over = signed_percent(_percent_over(measured.value, base)) if measured else MISSING
            found.append(over if is_other else "")
    return found


def _measured(outcome: EventOutcome, name: str) -> Measured | None:
    value = outcome.metrics[name]
    if value is None:
        return None
    return Measured(value, name in outcome.censored, False if name in outcome.unsteady else None)


def _percent_over(value: float, base: float) -> float:
    return 100.0 * (value - base) / base


def _error_cells(errors: Mapping[str, Mapping[str, float | None]], columns: Columns, base: float | None) -> list[str]:
    found = []
    for each in columns:
        found += [_error_cell(errors.get(each.name), each.digits), *([""] if _has_over(each.name, base) else [])]
    return found


def _error_cell(error: Mapping[str, float | None] | None, digits: int) -> str:
    """In percent of the recorded value, else in the column's unit."""
    if error is None:
        return MISSING
    percent = error["percent"]
    return number(error["difference"], digits, signed=True) if percent is None else change(percent, "%")


def sentences(comparison: Comparison, lines: Sequence[Line], event_id: str) -> list[str]:
    """Which policy has the highest throughput after the event, and how far the simulator is off on this run."""
    said = (answer(comparison, lines, event_id), error_words(comparison, event_id, PRIMARY))
    return [f"{each[0].upper()}{each[1:]}." for each in said if each]


def answer(comparison: Comparison, lines: Sequence[Line], event_id: str) -> str:
    """Empty where there are no two to compare. Simulated is set beside simulated only."""
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
    own = next((line.name for line in lines if line.run is comparison.own()), None)
    highest = f"{after} the simulated throughput is the highest with {_name_list(leaders)}{alike}"
    if leaders == [own]:
        return f"{highest}, the policy that ran: {level}"
    said = f"{highest}: {level}"
    if own is None or own not in values:
        return said
    if own in leaders:
        return f"{said}; {style.display_name(own)} is the policy that ran"
    over = _over_words(comparison, event_id, best, values[own])
    return f"{said}, {over} {style.display_name(own)}, the policy that ran"


def _over_words(comparison: Comparison, event_id: str, best: float, base: float) -> str:
    """`+22.1 % over`; of a change that the simulator's error on this run may be, with this."""
    if not base:
        return "over none with"
    over, error = _percent_over(best, base), comparison.errors()[event_id].get(ANSWER, {}).get("percent")
    small = error is not None and over <= abs(error)
    return f"{change(over, '%')}{' (no more than the error of the simulator on this run)' if small else ''} over"


def _name_list(names: Sequence[str]) -> str:
    shown = [style.display_name(name) for name in names[:MOST_NAMED]]
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    *before, last = [*shown, *more]
    return f"{', '.join(before)} and {last}" if before else last


def decision_row(line: Line, title: str, event_id: str) -> DecisionRow:
    decisions = line.run.events[event_id].decisions
    words = parameter_words(line.run)
    policy = f"{line.run.policy}{f': {words}' if words else ''}"
    policy = "" if policy == line.run.name else policy  # the title says it
    if not decisions:
        return DecisionRow(title, policy, MISSING, "no decision", MISSING, MISSING, "", "", [], 0)
    first, *later = decisions
    tasks = sum(each.slots or 0 for each in decisions)
    in_log = all(each.slots is not None or each.scheduler for each in decisions)
    released = tuple(dict.fromkeys(machine for each in decisions for machine in each.release))
    all_together = replace(first, release=released, acquire=sum(each.acquire for each in decisions))
    listed = later[:MOST_DECISIONS]
    return DecisionRow(
        title,
        policy,
        number(first.decided_s, 1),
        "; ".join(executor_words(net_executors(decisions))) or _without_executors(decisions),
        (str(tasks) if tasks else MISSING) if in_log else "not in the decision log",
        machine_words(decisions),
        "; ".join(machine_count_words(all_together)),
        f"the first of {len(decisions)} decisions: {first.reason}" if later else first.reason,
        [f"after {number(each.decided_s, 1)} s: {decision_words(each)} ({each.reason})" for each in listed],
        len(later) - len(listed),
    )


def _without_executors(decisions: Sequence[DecisionTaken]) -> str:
    return MISSING if any(each.executors is not None for each in decisions) else "not in the decision log"


def downloads(comparison: Comparison, lines: Sequence[Line], figure: Figure | None) -> dict[str, tuple[Download, ...]]:
    kinds = dict.fromkeys(OUTCOMES, "number")
    files = {figure.name: figure.files} if figure else {}
    return {
        **files,
        "outcomes": page.row_downloads("outcomes", list(outcome_rows(comparison, lines)), kinds),
        "decisions": page.row_downloads("decisions", list(decision_rows(comparison, lines))),
    }


def outcome_rows(comparison: Comparison, lines: Sequence[Line]) -> Iterator[Row]:
    """A row an event and run, as measured. Of metrics that are named in `censored` the value is a lower bound."""
    for event_id in comparison.events:
        for line in lines:
            outcome = line.run.events[event_id]
            yield {
                **_of(line, event_id), **outcome.metrics, "censored": " ".join(outcome.censored),
                "unsteady": " ".join(outcome.unsteady), "late_s": line.run.late_s[event_id],
            }  # fmt: skip


def decision_rows(comparison: Comparison, lines: Sequence[Line]) -> Iterator[Row]:
    """A row a decision."""
    for event_id in comparison.events:
        for line in lines:
            for each in line.run.events[event_id].decisions:
                yield {
                    **_of(line, event_id), "decided_s": each.decided_s, "by_itself": each.own,
                    "executors": "; ".join(executor_words(each.executors or {})), "tasks_to_other_slots": each.slots,
                    "machines": machine_words([each]), "released": " ".join(each.release),
                    "machines_asked_for": each.acquire, "scheduler": each.scheduler, "reason": each.reason,
                }  # fmt: skip


def _of(line: Line, event_id: str) -> dict[str, Any]:
    run = line.run
    return {
        "event_id": event_id, "variant": run.name, "policy": run.policy, "parameters": parameter_words(run),
        "source": run.source,
    }  # fmt: skip
