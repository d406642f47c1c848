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
    from analysis.claims import FAMILIES, LedgerRow, load_claims
    from analysis.claims.rows import NOT_RUN
    from analysis.report_claims import ledger_row

    found = {**newest_findings(), **newest_ledger()}
    rows = []
    for claim in (claim for family in FAMILIES for claim in load_claims(family)):
        unknown = LedgerRow(claim, None, None, None, 0, NOT_RUN, "no series here has tested it", ())
        rows.append({**ledger_row(unknown), "series": None, **found.get(claim.name, {})})
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
    """An interval, also one that decides nothing, is more than a measurement, and that more than nothing."""
    from analysis.claims.rows import DIFFERS, REPRODUCED, UNDECIDED

    return row.get("verdict_text") in (REPRODUCED, DIFFERS, UNDECIDED), bool(row.get("runs"))
