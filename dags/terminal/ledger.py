"""All claims that are known, each with what the newest series that tested it found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from analysis.errors import RecordError
from analysis.record import read_json
from dags.places import results_root
from dags.terminal.claim_lines import claim_lines

VERSION = 1


def show_ledger(console: Console) -> None:
    """`not run` where no series here has tested a claim."""
    for line in claim_lines(ledger(), console.width):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def ledger_json() -> str:
    return json.dumps({"v": VERSION, "claims": ledger()}, indent=1, ensure_ascii=False)


def ledger() -> list[dict[str, Any]]:
    """Rows as in claims.json, with the `series` (None: not run here), in the order of the claims' files."""
    from analysis.claims.statements import FAMILIES, load_claims

    found = {**newest_findings(), **newest_ledger()}
    rows = []
    for claim in (claim for family in FAMILIES for claim in load_claims(family)):
        plain: dict[str, Any] = {"id": claim.name, "experiment": claim.experiment, "source": claim.source}
        plain |= {"statement": claim.statement, "stated": claim.stated, "stated_text": f"{claim.stated:g} {claim.unit}"}
        unknown: dict[str, Any] = {"measured": None, "low": None, "high": None, "floor_percent": None, "series": None}
        unknown |= {"verdict": "not run", "verdict_text": "not run", "runs": 0, "run_ids": []}
        rows.append({**plain, **unknown, **found.get(claim.name, {})})
    return rows


def newest_ledger() -> dict[str, Mapping[str, Any]]:
    """By claim: what follows from the newest complete series of all experiments together, and what is exact."""
    from analysis.claims import evaluate_newest, newest_complete
    from analysis.report_claims import ledger_row

    series = {name: paths.root.name for name, paths in newest_complete(results_root()).items()}
    rows = [row for row in evaluate_newest(results_root()) if row.runs]
    return {row.claim.name: {**ledger_row(row), "series": series.get(row.claim.experiment)} for row in rows}


def newest_findings() -> dict[str, Mapping[str, Any]]:
    """By claim: its row in the claims.json of the newest series that tested it, rather one that told more.

    A demo or an unfinished series must not hide a verdict.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(results_root().glob("*/*/*/claims.json"), key=lambda path: path.parent.name):
        try:
            rows = read_json(path).get("claims", [])
        except RecordError:
            continue
        tested = "/".join(path.parts[-4:-2])
        for row in rows:
            if row.get("experiment") == tested and _told(row) >= _told(found.get(row["id"], {})):
                found[row["id"]] = {**row, "series": path.parent.name}
    return found


def _told(row: Mapping[str, Any]) -> tuple[bool, bool]:
    """A verdict is more than a measurement, and that more than nothing."""
    return row.get("verdict", "not run") != "not run", bool(row.get("runs"))
