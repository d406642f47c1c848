"""The page of a calibration: costs and their sources, then simulated runs beside the real ones.

The command line prints the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isfinite
from pathlib import Path

from analysis.calibration.judgement import (
    CLEARLY,
    ErrorSummary,
    MachineCell,
    ModelError,
    Ranking,
    SeriesErrors,
    SideNumber,
)
from analysis.calibration.validation import Validation, of_validations
from analysis.numerals import MISSING, change, number
from analysis.record.small_tables import Row, topology_words
from analysis.report import page
from analysis.report.page import Block, Downloads, Folded, PageContent, Section, Sentence, Warnings
from analysis.report.table import Heading, ResultTable, code, columns, joined

PAGE = "report.html"
INTERVALS = (
    "Intervals are Student's over the same fit with one run left out at a time. A cost that the runs cannot tell from"
    " others keeps its default."
)
ERRORS = (
    "which no cost was fitted to. Each pair is a real run and the simulated ones with its input, which differ by their"
    " seeds; their middle is compared. Errors are in percent of the real value where the metric is compared so, else in"
    " its own unit. A time that was not reached is a bound and has no error. Latencies are of the seconds that count on"
    " both sides. Not steady (†): a number of these pairs rests on windows that did not pass the test of steadiness."
    " Inside: real values that lie among those of the simulated runs (* where not); expected: at least as many would if"
    " real runs were of the model too, for a single one has its own chance."
)


def write(path: Path, validation: Validation, judgements: Sequence[SeriesErrors]) -> Path:
    """Write the page and the files of its tables; returns `path`."""
    costs: list[Block] = [costs_table(validation)]
    if validation.fitted_on:
        costs.append(Sentence(f"Fitted to {', '.join(map(str, validation.fitted_on))}. {INTERVALS}", "small"))
    errors_note = f"Of {', '.join(map(str, validation.judged_on))}, {ERRORS}"
    errors = Section("Errors", [errors_table(validation), Sentence(errors_note, "small")])
    answers = of_validations([validation], validation.validity, validation.model)
    content = PageContent(
        title="calibration of the simulator",
        heading="Simulated beside real",
        meta=joined(["Calibration of the testbed ", code("simulated"), f" · {validation.made}"]),
        blocks=[
            *(Sentence(answer, "answer") for answer in answers),
            Section("Costs", costs),
            *([errors] if validation.errors else []),
            *(section for each in judgements for section in _sections(each)),
            Downloads("calibration_cells", [_cell_row(cell) for each in judgements for cell in each.cells]),
        ],
    )
    return page.save(path, content)


def costs_table(validation: Validation) -> ResultTable:
    """Return each fitted cost with its interval, or the reason why there is none."""

    def digits(value: float) -> str:
        return number(value, 0 if value == int(value) else None)

    def value(row: Row) -> str:
        return digits(row["default"] if row["value"] is None else row["value"])

    def interval(row: Row) -> str | None:
        return None if row["low"] is None else f"{digits(row['low'])} to {digits(row['high'])}"

    def reason(row: Row) -> str:
        return f"default: {row['why']}" if row["value"] is None else str(row["why"])

    headings = (
        *columns("cost = name /k"), Heading("value", value, css="n"), Heading("95 %", interval, css="n k"),
        Heading("runs", lambda row: row["runs"] or None, css="n"),
        Heading("", reason, css="wide small", blank=""),
    )  # fmt: skip
    return ResultTable(headings, validation.estimates, row_css=lambda row: reason(row) and "out")


def errors_table(validation: Validation) -> ResultTable:
    """Return a row a metric: how far simulated values are from the real ones. `bounds` counts times that were not
    reached; `expected` how many real values at least would lie among the simulated ones if the model were right."""

    def size(value: float | None, each: ErrorSummary) -> str | None:
        return None if value is None else f"{number(value, 1)} {each.unit}"

    def bias(each: ErrorSummary) -> str | None:
        return None if each.bias is None else change(each.bias, each.unit, 1)

    headings = (
        *columns("metric = words; pairs = cells /n; not steady = unsteady /n"),
        Heading("median", lambda each: size(each.median, each), css="n"),
        Heading("worst", lambda each: size(each.worst, each), css="n"),
        Heading("mean, with its sign", bias, css="n"),
        *columns("no error = missing /n; not reached = bounds /n"),
        Heading("inside", lambda each: f"{each.inside} of {each.ranges}" if each.ranges else None, css="n"),
        Heading("expected", lambda each: number(each.expected, 1) if each.ranges else None, css="n"),
    )
    return ResultTable(headings, validation.errors)


def cells_table(cells: Sequence[ModelError], *, topology: bool = False) -> ResultTable:
    """Return real and simulated values side by side; a value that one side lacks is shown as missing, a time that was
    never reached as a bound (∞ in a range). `*`: the real value lies outside of the range of the simulated runs."""

    def value_text(value: SideNumber) -> str:
        bounded = f"> {number(value.value, 0)}" if value.censored and value.value is not None else number(value.value)
        return f"{bounded} †" if value.unsteady else bounded

    def range_text(cell: ModelError) -> str:
        low, high, mark = cell.simulated.low, cell.simulated.high, " *" if cell.is_inside is False else ""
        if cell.simulated.runs < 2 or (low is None and high is None):
            return mark
        ends = (inf if end is None else end for end in (low, high))
        return " to ".join(number(end, None if isfinite(end) and end != int(end) else 0) for end in ends) + mark

    def error_text(cell: ModelError) -> str | None:
        if cell.real.censored and cell.simulated.censored:
            return "neither got there"
        return None if cell.error is None else change(cell.error, "%" if cell.is_ratio else cell.unit, 1)

    headings = (
        Heading("topology", "topology") if topology else None,
        *columns("run = run_id; event = event_id"),
        Heading("metric", lambda cell: f"{cell.words} ({cell.unit})" if cell.unit else cell.words),
        Heading("real", lambda cell: value_text(cell.real), css="n"),
        Heading("simulated", lambda cell: value_text(cell.simulated), css="n"),
        Heading("runs", lambda cell: str(cell.simulated.runs), css="n"),
        Heading("range", range_text, css="n k", blank=""),
        Heading("error", error_text, css="n"),
    )
    return ResultTable(headings, cells)


def _machines_table(cells: Sequence[MachineCell]) -> ResultTable:
    """Return the CPU of each machine, real and simulated."""

    def error(cell: MachineCell) -> str | None:
        if cell.real is None or cell.simulated is None:
            return None
        return change(cell.simulated - cell.real, "points", 1)

    headings = (
        *columns("run = run_id; event = event_id"),
        Heading("machine", lambda cell: f"{cell.machine} {cell.phase} (%)"),
        *columns("real :1 /n; simulated :1 /n"),
        Heading("error", error, css="n"),
    )  # fmt: skip
    return ResultTable(headings, cells)


def ranking_sentence(ranking: Ranking) -> str:
    real, model = (", ".join(names) or MISSING for names in (ranking.real, ranking.simulated))
    order = f"By throughput after {ranking.event_id}, best first: {real} in reality, {model} simulated."
    tau, pairs = f"Kendall's tau {number(ranking.tau, 2)}", ranking.clear_pairs
    if not pairs:
        return f"{order} {tau}."
    differ = "pair that differs" if pairs == 1 else "pairs that differ"
    return (
        f"{order} {tau}; of {pairs} {differ} by more than {number(100 * CLEARLY, 0)} % in reality,"
        f" {ranking.same_pairs} in the same order."
    )


def losses(judgement: SeriesErrors) -> list[str]:
    """Return which runs and seeds could not be simulated, and why."""
    messages = [f"{run} was not simulated: {reason}" for run, reason in sorted(judgement.missing.items())]
    return [*messages, *(f"{run}: {reason}" for run, reason in sorted(judgement.failed_seeds.items()))]


def _sections(each: SeriesErrors) -> Iterator[Section]:
    """Yield a section for each topology; the first one has the values of machines and whole runs."""
    names = list(dict.fromkeys(cell.topology for cell in each.cells))
    machines = [Folded("CPU of each machine", [_machines_table(each.machines)])] if each.machines else []
    of_series: list[Block] = [*machines, Warnings(losses(each))]
    for name in names:
        yield Section(
            f"{each.experiment}, {topology_words(name)}" if len(names) > 1 else each.experiment,
            [
                Sentence(each.series_id, "meta"),
                *(Sentence(ranking_sentence(ranking)) for ranking in each.rankings if ranking.topology == name),
                cells_table([cell for cell in each.cells if cell.topology == name]),
                *(of_series if name == names[0] else []),
            ],
        )


def _cell_row(cell: ModelError) -> Row:
    """Return the pair as data."""
    return {
        "experiment": cell.experiment, "topology": cell.topology, "variant": cell.variant, "run": cell.run_id,
        "event": cell.event_id, "metric": cell.metric, "real": cell.real.value, "real_censored": cell.real.censored,
        "real_unsteady": cell.real.unsteady, "simulated": cell.simulated.value,
        "simulated_unsteady": cell.simulated.unsteady, "simulated_runs": cell.simulated.runs,
        "simulated_censored": cell.simulated.censored, "simulated_low": cell.simulated.low,
        "simulated_high": cell.simulated.high, "error": cell.error,
    }  # fmt: skip
