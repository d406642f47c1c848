"""`barograph ablate`: the decisions of Stela's variants on the observations of a series' runs."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from analysis.record.files import SeriesPaths
from analysis.record.simulated import is_simulated_series
from barograph.cli.terminal import say, stdout_console
from barograph.errors import ExperimentError
from barograph.series.series import find_series

if TYPE_CHECKING:
    from analysis.metrics.scale_decisions import AblationRow


VERSION = 1
INDENT = "    "


def add_arguments(ablate: argparse.ArgumentParser) -> None:
    ablate.add_argument("series", help="the series' folder or id, or an experiment for its newest")
    ablate.add_argument("--json", action="store_true", help="print JSON, for other programs")


def execute(options: argparse.Namespace) -> int:
    from analysis.metrics.scale_decisions import unread_rounds, unread_sentence

    folder = find_series(options.series)
    lines, unread = lines_of_series(folder), unread_rounds(SeriesPaths(folder))
    if options.json:
        say(as_json(lines, unread))
        return 0
    for line in table_lines(lines, stdout_console().width):
        say(line)
    if is_simulated_series(folder):
        say("note: these runs were simulated, not measured (docs/simulator.md)")
    if unread:
        say(f"note: {unread_sentence(unread)}")
    return 0


def lines_of_series(series_dir: Path) -> list[AblationRow]:
    """Return the rows of a series. Raises ExperimentError without an analysis, or without a scale event in any run."""
    from analysis.metrics import scale_decisions

    paths = SeriesPaths(series_dir)
    if not paths.table("runs").exists():
        raise ExperimentError(f"{series_dir} has no tables yet; make them with: barograph report {series_dir}")
    rows = scale_decisions.ablation_rows(paths)
    if not rows:
        raise ExperimentError(
            f"no complete run of {series_dir} has a scale event in its decision log; give another series"
        )
    return rows


def table_lines(lines: Sequence[AblationRow], width: int) -> Iterator[str]:
    """Yield a table of variants for each event, each with its answers under it, folded to `width`."""
    names = max(len(line.variant) for line in lines)
    for event_id, mine in groupby(lines, key=lambda line: line.event_id):
        yield f"event {event_id}"
        for line in mine:
            yield f"  {line.variant.ljust(names)}  {line.verdict}"
            # Most variants are named after their change.
            change = [] if line.changed in line.variant else [f"with {line.changed}"]
            yield from (folded for text in (*change, *line.answers) for folded in _wrap(text, width))


def as_json(lines: Sequence[AblationRow], unread: Mapping[str, int] = MappingProxyType({})) -> str:
    """Return the rows as JSON. `unread`: by run, the number of lines that could not be read."""
    rows = [{**asdict(line), "verdict": line.verdict} for line in lines]
    return json.dumps({"v": VERSION, "ablation": rows, "unread": dict(unread)}, indent=1, ensure_ascii=False)


def _wrap(answer: str, width: int) -> list[str]:
    return textwrap.wrap(answer, width, initial_indent=INDENT, subsequent_indent=INDENT + "  ")
