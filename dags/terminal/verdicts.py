"""The claims of a report on a terminal: stated, measured, verdict."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.errors import RecordError
from analysis.record import SeriesPaths, read_json
from dags.terminal.claim_lines import claim_lines


def show_verdicts(series_dir: Path, console: Console) -> None:
    """The claims that this series' experiment tests; nothing where there are none."""
    rows = verdicts(series_dir)
    for line in claim_lines(rows, console.width) if rows else ():
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def verdicts(series_dir: Path) -> list[Mapping[str, Any]]:
    """Rows of claims.json."""
    try:
        claims: list[Mapping[str, Any]] = read_json(series_dir / "claims.json")["claims"]
        tested = read_json(SeriesPaths(series_dir).series_json)["experiment"]
    except (RecordError, KeyError):
        return []
    return [claim for claim in claims if claim["experiment"] == tested]
