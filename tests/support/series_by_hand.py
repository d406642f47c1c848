"""A small analysed series, written without Spark: runs with their own lines, and the tables that reports read."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from analysis.record import small_tables
from analysis.record.files import SeriesPaths

ZERO = 1_763_700_000.0
TOPOLOGY = {
    "name": "pair", "workers": 2,
    "components": [
        {"name": "sink", "kind": "bolt", "tasks": [3, 4], "executors": 1, "sink": True},
        {"name": "spout", "kind": "spout", "tasks": [1, 2], "executors": 1, "sink": False},
    ],
    "edges": [{"source": "spout", "stream": "default", "target": "sink", "grouping": "shuffle"}],
}  # fmt: skip
SCALED_OUT: Mapping[str, Any] = {"kind": "scale_requested", "event_id": "e1", "event": "scale_out", "joined": ["m3"],
                                 "leave": 0}  # fmt: skip


def write_run(root: Path, run_id: str, events: Sequence[tuple[float, Mapping[str, Any]]],
              decisions: Sequence[Mapping[str, Any]] = ()) -> None:  # fmt: skip
    """`events`: seconds after the zero, and the event."""
    folder = root / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True)
    _lines(folder / "events.jsonl", [{"t": ZERO + t, **event} for t, event in events])
    _lines(folder / "decisions.jsonl", decisions)
    path = folder / "run.json"
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, "v": 1, "run_id": run_id, "topology": TOPOLOGY}))


def _lines(path: Path, values: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def write_table(root: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows without an event are of the first one."""
    small_tables.write(SeriesPaths(root), name, [{"event_id": "e1", **row} for row in rows])


def change_rows(root: Path, name: str, change: Callable[[dict[str, Any]], Mapping[str, Any] | None]) -> None:
    """Of a table; a row that becomes None goes."""
    changed = (change(row) for row in small_tables.rows(SeriesPaths(root), name))
    write_table(root, name, [row for row in changed if row is not None])


def add_rows(root: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    write_table(root, name, [*small_tables.rows(SeriesPaths(root), name), *rows])


def write_series(
    root: Path, experiment: str, variants: Mapping[str, float], repetitions: int = 3, **facts: object
) -> Path:
    """Every variant goes from 100/s to its level at 0; the second window after the event is missing in r1. `facts`: of
    every run."""
    names = [(f"{variant}-r{n}", variant, n) for variant in variants for n in range(1, repetitions + 1)]
    for run_id, _, _ in names:
        write_run(root, run_id, [(0, SCALED_OUT), (1, {"kind": "decision", "decision_id": "d1", "reason": "grows"}),
                                 (2, {"kind": "applied", "decision_id": "d1", "ok": True})])  # fmt: skip
    write_table(root, "runs", [_run(experiment, root.name, *name) | facts for name in names])
    write_table(root, "zeros", [{"run_id": run_id, "scaled": True, "zero_s": ZERO} for run_id, _, _ in names])
    windows = [w for name in names for w in _windows(*name, variants)]
    write_table(root, "throughput", windows)
    write_table(root, "convergence", [
        {"run_id": run_id, "event_id": "e1", "definition": definition, "time_s": None if n == 1 else 40.0 + n,
         "censored": n == 1, "horizon_s": 90.0}
        for run_id, _, n in names for definition in ("sp", "st", "script")
    ])  # fmt: skip
    write_table(root, "intervals", [
        {"run_id": run_id, "event_id": "e1", "phase": phase, "mean": 100.0 if phase == "before" else variants[v] + n,
         "start_s": 0.0, "end_s": 50.0, "deviation": 1.0, "windows": 5, "steady": True, "reason": "level",
         "live_steady": None, "live_reason": None}
        for run_id, v, n in names for phase in ("before", "after")
    ])  # fmt: skip
    write_table(root, "downtime", [
        {"run_id": run_id, "event_id": "e1", "downtime_s": float(n), "lasts": False} for run_id, _, n in names
    ])  # fmt: skip
    return root


def _run(experiment: str, series_id: str, run_id: str, variant: str, n: int) -> dict[str, Any]:
    return {
        "run_id": run_id, "series_id": series_id, "experiment": experiment, "order": n, "variant": variant,
        "status": "complete", "failure_blame": None, "failure_message": None, "started_s": ZERO, "topology": "pair",
    }  # fmt: skip


def _windows(run_id: str, variant: str, n: int, levels: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "window_s": float(start), "scope": scope, "component": "", "complete": True,
         "rate": None if n == 1 and start == 10 else 300.0 if scope == "due" else 100.0 if start < 0
         else levels[variant] + n}
        for start in range(-30, 60, 10) for scope in ("total", "due")
    ]  # fmt: skip


def cut_short(root: Path, table: str) -> None:
    """As a full disk or a broken copy leaves a file."""
    (file,) = (root / "tables" / f"{table}.parquet").glob("*.parquet")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def drop_column(root: Path, table: str, column: str) -> None:
    (file,) = (root / "tables" / f"{table}.parquet").glob("*.parquet")
    pq.write_table(pq.read_table(file).drop_columns([column]), file)
