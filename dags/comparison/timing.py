"""Where the wall time of a comparison goes: watched runs, switching between them, analysis between blocks, the rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analysis.record import SeriesPaths, write_json_atomic
from analysis.wall_time import FILE, Wall
from dags.overhead import overhead_of
from dags.run_record import read_run
from dags.series import Series

CHECKS = "checks.jsonl"  # a line for each analysis between blocks


def note_check(series_dir: Path, t: float, blocks: int, seconds: float, **facts: Any) -> None:
    line = json.dumps({"t": t, "blocks": blocks, "seconds": seconds, **facts})
    with (series_dir / CHECKS).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def checks(series_dir: Path, since_s: float = 0.0) -> list[dict[str, Any]]:
    path = series_dir / CHECKS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for line in map(json.loads, lines) if line["t"] >= since_s]


def used_s(series: Series) -> float:
    """What the comparison has taken in all its executions: attempts, analyses between blocks, and this opening."""
    attempts = list(_attempts(series.folder))
    begun = [float(run["started_s"]) for run in attempts if run["started_s"] >= series.opened_s]
    opening_s = min(begun) - series.opened_s if begun else 0.0
    return sum(map(_length, attempts)) + sum(float(line["seconds"]) for line in checks(series.folder)) + opening_s


def wall(series: Series, now_s: float, analysis_s: float) -> Wall:
    """Of the execution that goes on."""
    mine = [run for run in _attempts(series.folder) if run["started_s"] >= series.opened_s]
    watched_s = sum(_watched(run) for run in mine)
    checks_s = sum(line["seconds"] for line in checks(series.folder, series.opened_s))
    runs_s = sum(map(_length, mine))
    return Wall(now_s - series.opened_s, watched_s, runs_s - watched_s, checks_s, analysis_s, len(mine))


def write(series_dir: Path, found: Wall) -> None:
    facts = {"rest_s": found.rest_s, "over_runs_percent": found.over_runs_percent}
    write_json_atomic(series_dir / FILE, {"v": 1, **asdict(found), **facts})


def _attempts(series_dir: Path) -> Iterator[dict[str, Any]]:
    for folder in (SeriesPaths(series_dir).runs, series_dir / "attempts"):
        for path in sorted(folder.glob("*/run.json")):
            document = read_run(path.parent)
            if document is not None and "started_s" in document:
                yield document


def _length(run: dict[str, Any]) -> float:
    return max(0.0, float(run["ended_s"]) - float(run["started_s"]))


def _watched(run: dict[str, Any]) -> float:
    with suppress(KeyError, TypeError):
        return _length(run) - min(_length(run), overhead_of(run))
    return 0.0
