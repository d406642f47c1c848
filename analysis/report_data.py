"""The data behind each figure and table of a report, for its downloads: numbers as measured, not as printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from analysis import downloads
from analysis.ablated import Line
from analysis.downloads import File
from analysis.figures.decided import AnswerRow
from analysis.happened import Happening
from analysis.rented import Boot, Money
from analysis.report_tables import RUN_TABLES, Measured
from analysis.small_tables import Row

if TYPE_CHECKING:
    from analysis.report import Content


def files(content: Content) -> dict[str, tuple[File, ...]]:
    """By figure or table: its files. No name is of both."""
    drawn = [*content.figures, *([content.topology.figure] if content.topology else [])]
    return {figure.name: figure.files for figure in drawn} | {
        name: downloads.of_rows(name, found) for name, found in tables(content).items()
    }


def tables(content: Content) -> dict[str, list[Row]]:
    executions, types = money(content.money)
    graph = content.topology
    return {
        "claims": content.ledger,
        "decisions": decisions(graph.components, graph.answers) if graph else [],
        "happened": happened(content.happened),
        "boots": boots(content.boots),
        "money": executions,
        "money_types": types,
        "ablation": ablation(content.ablation),
        "runs": runs(content.runs, content.measured),
        "steady": steady(content.steady),
        "losses": content.losses,
        "damaged": content.damaged,
        "machines": content.machines,
        "environment": pairs(content.environment),
        "specification": pairs(content.assumptions),
    }


def decisions(components: Sequence[str], answers: Sequence[AnswerRow]) -> list[Row]:
    """One row an event, variant and outcome, with what changed at each component."""
    return [
        {"event_id": row.event_id, "variant": row.variant, "runs": row.runs}
        | dict(zip(components, row.cells, strict=True))
        | {"released": row.released}
        for row in answers
    ]


def happened(found: Sequence[tuple[str, Happening]]) -> list[Row]:
    return [{"run_id": run_id, **_plain(asdict(happening))} for run_id, happening in found]


def boots(found: Sequence[Boot]) -> list[Row]:
    return [asdict(boot) for boot in found]


def money(found: Money | None) -> tuple[list[Row], list[Row]]:
    """Executions, and types of machines."""
    return ([asdict(row) for row in found.executions], [dict(row) for row in found.types]) if found else ([], [])


def ablation(lines: Sequence[Line]) -> list[Row]:
    return [_plain(asdict(line)) for line in lines]


def runs(shown: Sequence[Row], measured: Measured) -> list[Row]:
    """The tables of runs side by side; a censored time is a lower bound, and `…_censored` says so."""
    metrics = [metric for columns in RUN_TABLES.values() for metric in columns]
    present = [metric for metric in metrics if any(metric in values for values in measured.values())]
    censored = {metric for values in measured.values() for metric, (_, bound) in values.items() if bound}
    made = []
    for row in shown:
        values = measured.get((row["run_id"], row["event_id"]), {})
        cells: dict[str, Any] = {name: row[name] for name in ("run_id", "event_id", "variant", "status", "why")}
        for metric in present:
            value, bound = values.get(metric, (None, None))
            cells[metric] = value
            if metric in censored:
                cells[f"{metric}_censored"] = bound
        made.append(cells)
    return made


def steady(rows: Sequence[Row]) -> list[Row]:
    """Without the two columns that are words for others."""
    return [{name: value for name, value in row.items() if name not in ("used", "live")} for row in rows]


def pairs(found: Sequence[tuple[str, str]]) -> list[Row]:
    return [{"key": key, "value": value} for key, value in found]


def _plain(values: Mapping[str, Any]) -> Row:
    """Several answers or reasons in one cell."""
    return {name: "; ".join(map(str, value)) if isinstance(value, tuple) else value for name, value in values.items()}
