"""The page of a calibration: costs and what they rest on, then simulated runs beside the real ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from analysis.calibration.judgement import CLEARLY, Cell, ErrorSummary, Judgement, MachineCell, Ranking, Value
from analysis.calibration.validation import Validation, of_validations
from analysis.numerals import MISSING, change, number
from analysis.record.small_tables import topology_words
from analysis.report import page
from analysis.report.page import Download

TEMPLATE = "calibration.html.j2"
PAGE = "report.html"
FOLDER = "figures"  # the folder beside the page with the files of its tables


@dataclass(frozen=True)
class CostLine:
    name: str
    value: str
    interval: str
    runs: str
    why: str


@dataclass(frozen=True)
class CellLine:
    run: str
    event: str
    metric: str
    unit: str
    real: str
    simulated: str
    runs: str  # that this is of
    range: str  # of the simulated runs; empty of one
    error: str
    is_outside: bool  # whether the real value lies outside of that range


@dataclass(frozen=True)
class Section:
    """Of one series and topology."""

    title: str
    series_id: str
    cells: list[CellLine]
    machines: list[CellLine]
    rankings: list[Ranking]
    missing: list[tuple[str, str]]
    failed_seeds: list[tuple[str, str]]


@dataclass(frozen=True)
class Content:
    validation: Validation
    costs: list[CostLine]
    errors: list[tuple[str, ...]]
    sections: list[Section]
    sentences: list[str]
    clearly_percent: float


def write(path: Path, validation: Validation, judgements: Sequence[Judgement]) -> Path:
    """Write the page and the files of its tables; returns `path`."""
    content = collect(validation, judgements)
    files = downloads(judgements)
    for of_table in files.values():
        page.write_downloads(path.parent / FOLDER, of_table)
    links = page.download_links(files, FOLDER)
    return page.write(path, page.render(TEMPLATE, c=content, links=links))


def collect(validation: Validation, judgements: Sequence[Judgement]) -> Content:
    return Content(
        validation=validation,
        costs=list(cost_lines(validation)),
        errors=[error_line(each) for each in validation.errors],
        sections=[section for each in judgements for section in _sections(each)],
        sentences=of_validations([validation], validation.validity, validation.model),
        clearly_percent=100 * CLEARLY,
    )


def cost_lines(validation: Validation) -> Iterator[CostLine]:
    """As text: what was fitted, its interval, and why not."""
    for each in validation.estimates:
        is_default = each["value"] is None
        interval = MISSING if each["low"] is None else f"{digits(each['low'])} to {digits(each['high'])}"
        value = digits(each["default"] if is_default else each["value"])
        runs = str(each["runs"]) if each["runs"] else MISSING
        yield CostLine(each["name"], value, interval, runs, f"default: {each['why']}" if is_default else each["why"])


def digits(value: float) -> str:
    return number(value, 0 if value == int(value) else None)


def error_line(each: ErrorSummary) -> tuple[str, ...]:
    """Metric, number of pairs, of these with a run that was not steady, median, worst and mean error, how many have no
    error, of these with a time that was not reached, how many real values lie among those of the simulated runs, and
    how many at least would if they were of the model too."""
    sizes = (_with_unit(value, each.unit) for value in (each.median, each.worst))
    bias = MISSING if each.bias is None else change(each.bias, each.unit, 1)
    inside = f"{each.inside} of {each.ranges}" if each.ranges else MISSING
    expected = number(each.expected, 1) if each.ranges else MISSING
    counts = (str(each.missing), str(each.bounds))
    return (each.words, str(each.cells), str(each.unsteady), *sizes, bias, *counts, inside, expected)


def _with_unit(value: float | None, unit: str) -> str:
    return MISSING if value is None else f"{number(value, 1)} {unit}"


def cell_line(cell: Cell) -> CellLine:
    """As text; what one side lacks is shown as missing, and a time that was never reached as a bound."""
    return CellLine(
        cell.run_id, cell.event_id, cell.words, cell.unit, value_text(cell.real), value_text(cell.simulated),
        str(cell.simulated.runs), range_text(cell.simulated), error_text(cell), cell.is_inside is False,
    )  # fmt: skip


def range_text(value: Value) -> str:
    """From the least to the most of several runs; one that never got there is ∞."""
    if value.low is None and value.high is None:
        return ""
    if value.runs < 2:
        return ""
    ends = (inf if end is None else end for end in (value.low, value.high))
    return " to ".join(number(end, None if isfinite(end) and end != int(end) else 0) for end in ends)


def value_text(value: Value) -> str:
    text = f"> {number(value.value, 0)}" if value.censored and value.value is not None else number(value.value, None)
    return f"{text} †" if value.unsteady else text


def error_text(cell: Cell) -> str:
    if cell.real.censored and cell.simulated.censored:
        return "neither got there"
    return MISSING if cell.error is None else change(cell.error, "%" if cell.is_ratio else cell.unit, 1)


def _machine_line(cell: MachineCell) -> CellLine:
    error = None if cell.real is None or cell.simulated is None else cell.simulated - cell.real
    return CellLine(
        cell.run_id, cell.event_id, f"{cell.machine} {cell.phase}", "%", number(cell.real, 1),
        number(cell.simulated, 1), "", "", MISSING if error is None else change(error, "points", 1), False,
    )  # fmt: skip


def _sections(each: Judgement) -> Iterator[Section]:
    names = list(dict.fromkeys(cell.topology for cell in each.cells))
    for place, name in enumerate(names):
        title = f"{each.experiment}, {topology_words(name)}" if len(names) > 1 else each.experiment
        yield Section(
            title=title,
            series_id=each.series_id,
            cells=[cell_line(cell) for cell in each.cells if cell.topology == name],
            machines=[_machine_line(cell) for cell in each.machines] if place == 0 else [],
            rankings=[ranking for ranking in each.rankings if ranking.topology == name],
            missing=sorted(each.missing.items()) if place == 0 else [],
            failed_seeds=sorted(each.failed_seeds.items()) if place == 0 else [],
        )


def downloads(judgements: Sequence[Judgement]) -> dict[str, tuple[Download, ...]]:
    """Both tables as data."""
    cells = [
        {
            "experiment": cell.experiment, "topology": cell.topology, "variant": cell.variant, "run": cell.run_id,
            "event": cell.event_id,
            "metric": cell.metric, "real": cell.real.value,
            "real_censored": cell.real.censored, "real_unsteady": cell.real.unsteady, "simulated": cell.simulated.value,
            "simulated_unsteady": cell.simulated.unsteady,
            "simulated_runs": cell.simulated.runs, "simulated_censored": cell.simulated.censored,
            "simulated_low": cell.simulated.low, "simulated_high": cell.simulated.high, "error": cell.error,
        }
        for each in judgements
        for cell in each.cells
    ]  # fmt: skip
    return {"cells": page.row_downloads("calibration_cells", cells)}
