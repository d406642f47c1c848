"""Claims on a terminal: a line of numbers each, and under it the statement and the runs. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = {
    "claim": "id",
    "stated": "stated_text",
    "measured": "measured_text",
    "interval": "interval_text",
    "floor": "floor_text",
    "runs": "runs",
    "verdict": "verdict_text",
}
INDENT = "    "
NARROWEST = 40
MISSING = "–"


def claim_lines(rows: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    """Rows of claims.json; what does not fit beside the numbers stands under them, folded to `width`."""
    cells = [list(COLUMNS), *([_cell(row, key) for key in COLUMNS.values()] for row in rows)]
    widths = [max(len(line[place]) for line in cells) for place in range(len(COLUMNS))]
    head, *numbers = [_padded(line, widths) for line in cells]
    told = [[line, *_under(row, max(width, NARROWEST))] for line, row in zip(numbers, rows, strict=True)]
    return [head, *(line for one in told for line in one)]


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _under(row: Mapping[str, Any], width: int) -> list[str]:
    source = f" ({row['source']})" if row.get("source") else ""
    texts = [f"{row.get('statement', '')}{source}", _where(row)]
    folded = (textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT) for text in texts if text)
    return [line for lines in folded for line in lines]


def _where(row: Mapping[str, Any]) -> str:
    runs = ", ".join(row.get("run_ids") or ())
    return ": ".join(part for part in (row.get("series") or "", runs) if part) if runs else ""


def _cell(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    return MISSING if value is None else str(value)
