"""What a night's series measured, as its record keeps it: numbers of complete runs, and the claims that it tested."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record import SeriesPaths, read_json
from analysis.small_tables import Row, rows

OF_CLAIM = (
    "id", "verdict", "measured", "low", "high", "direction",
    "statement", "stated_text", "measured_text", "interval_text",
)  # fmt: skip


def numbers_of(series_dir: Path) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Variant -> metric -> event -> `{"values": in the order of the blocks, "censored": how many of them}`."""
    paths = SeriesPaths(series_dir)
    return gather(rows(paths, "runs"), rows(paths, "measurements"))


def gather(runs: Iterable[Row], measurements: Iterable[Row]) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Pure; runs that are not complete, and what is no number, say nothing."""
    complete = {run["run_id"]: run for run in runs if run["status"] == "complete"}
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    mine = [row for row in measurements if row["run_id"] in complete and _is_number(row["value"])]
    for row in sorted(mine, key=lambda row: int(complete[row["run_id"]]["order"])):
        metrics = found.setdefault(complete[row["run_id"]]["variant"], {})
        cell = metrics.setdefault(row["metric"], {}).setdefault(row["event_id"], {"values": [], "censored": 0})
        cell["values"].append(float(row["value"]))
        cell["censored"] += bool(row["censored"])
    return found


def claims_of(series_dir: Path, experiment: str) -> list[dict[str, Any]]:
    """The ledger's rows of claims that are about this experiment, met or not."""
    try:
        ledger = read_json(series_dir / "claims.json").get("claims", [])
    except RecordError:
        return []
    return [{key: row[key] for key in OF_CLAIM if key in row} for row in ledger if row.get("experiment") == experiment]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)
