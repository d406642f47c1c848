"""A series in short, for the index of all results: one small file, so that the index reads no table and no record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.claims.rows import DIFFERS, NOT_RUN, REPRODUCED, UNDECIDED
from analysis.errors import RecordError
from analysis.record import SeriesPaths, read_json, write_json_atomic
from analysis.small_tables import Row, rows

FILE = "report.json"
VERDICTS = (REPRODUCED, DIFFERS, UNDECIDED, NOT_RUN)


def of(paths: SeriesPaths, ledger: Sequence[Row]) -> dict[str, Any]:
    """What the report says in short; `ledger` has the claims about its experiment."""
    runs = rows(paths, "runs")
    return {
        "v": 1,
        "experiment": next((run["experiment"] for run in runs if run["experiment"]), paths.root.parent.name),
        "title": _title(paths),
        "series_id": paths.root.name,
        "begun_s": min((run["started_s"] for run in runs if run["started_s"]), default=None),
        "runs": len(runs),
        "complete": sum(run["status"] == "complete" for run in runs),
        "not_complete": dict(sorted(Counter(_why(run) for run in runs if run["status"] != "complete").items())),
        "variants": sorted({run["variant"] for run in runs if run["variant"]}),
        "commits": sorted({run["git_commit"] for run in runs if run["git_commit"]}),
        "verdicts": dict(sorted(Counter(verdict_of(row) for row in ledger).items())),
    }


def write(paths: SeriesPaths, document: Mapping[str, Any]) -> None:
    write_json_atomic(paths.root / FILE, document)


def verdict_of(row: Row) -> str:
    """Measured without a conclusion (an open interval, too few runs) is not the same as not measured."""
    return UNDECIDED if row["verdict"] == NOT_RUN and row["runs"] else str(row["verdict"])


def _why(run: Row) -> str:
    """Whose failure it was, else only what became of the run."""
    return str(run["failure_blame"] or run["status"]).replace("_", " ")


def _title(paths: SeriesPaths) -> str | None:
    try:
        title = (read_json(paths.series_json).get("spec") or {}).get("title")
    except RecordError:
        return None
    return None if title is None else str(title)
