"""All claims that are known, each with what the newest series that tested it found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.errors import RecordError
from analysis.record import read_json
from dags.places import results_root


def show_ledger(console: Console) -> None:
    """Claim, source, stated, measured and verdict; `not run` where no series here has tested it."""
    from analysis.claims.statements import FAMILIES, load_claims

    found = newest_findings()
    table = Table(box=None, pad_edge=False)
    for column in ("claim", "source", "stated", "measured", "verdict", "series", "statement"):
        table.add_column(column, overflow="fold")
    for claim in (claim for family in FAMILIES for claim in load_claims(family)):
        series, row = found.get(claim.name, ("–", {}))
        stated = row.get("stated_text") or f"{claim.stated:g} {claim.unit}"
        verdict = row.get("verdict_text") or "not run"
        table.add_row(
            claim.name, claim.source, stated, row.get("measured_text") or "–", verdict, series, claim.statement
        )
    console.print(table)


def newest_findings() -> dict[str, tuple[str, Mapping[str, Any]]]:
    """By claim: the id of the newest series whose experiment tests it, and its row of claims.json."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for path in sorted(results_root().glob("*/*/*/claims.json"), key=lambda path: path.parent.name):
        try:
            rows = read_json(path).get("claims", [])
        except RecordError:
            continue
        tested = "/".join(path.parts[-4:-2])
        found |= {row["id"]: (path.parent.name, row) for row in rows if row.get("experiment") == tested}
    return found
