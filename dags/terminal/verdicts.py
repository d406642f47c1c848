"""The claims of a report on a terminal: stated, measured, verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.errors import RecordError
from analysis.record import SeriesPaths, read_json

COLUMNS = {
    "claim": "id",
    "stated": "stated_text",
    "measured": "measured_text",
    "interval": "interval_text",
    "runs": "runs",
    "verdict": "verdict_text",
    "statement": "statement",
}


def show_verdicts(series_dir: Path, console: Console) -> None:
    """A table of `claims.json`; nothing where the series has none."""
    rows = verdicts(series_dir)
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def verdicts(series_dir: Path) -> list[tuple[str, ...]]:
    """Rows of `COLUMNS`, all text: the claims that this series' experiment tests."""
    try:
        claims: list[dict[str, Any]] = read_json(series_dir / "claims.json")["claims"]
        tested = read_json(SeriesPaths(series_dir).series_json)["experiment"]
    except (RecordError, KeyError):
        return []
    return [
        tuple(_text(claim.get(key)) for key in COLUMNS.values()) for claim in claims if claim["experiment"] == tested
    ]


def _text(value: Any) -> str:
    return "–" if value is None else str(value)
