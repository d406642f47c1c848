"""The progress file `progress.jsonl` of a series, written by the steps and followed by the terminal. One JSON object a
line.

A full disk cuts lines short: every reader skips damaged lines, and `ProgressReader` counts them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.record.files import append_line
from barograph.errors import SEVERITY

PROGRESS_FILE = "progress.jsonl"
OPENED = "opened"  # the first line of an execution (not in older files); with its `opened_s`


class ProgressFile:
    """A file that appends whole lines; a lost line does not fail a run."""

    def __init__(self, series_dir: Path) -> None:
        self._path = series_dir / PROGRESS_FILE

    def tell(self, kind: str, **facts: Any) -> None:
        try:
            append_line(self._path, {"t": time.time(), "kind": kind, **facts})
        except OSError:
            return


class ProgressReader:
    """A reader of lines appended since the last look; it leaves a half-written line for the next one. `damaged` counts
    invalid lines."""

    def __init__(self, series_dir: Path) -> None:
        self._path = series_dir / PROGRESS_FILE
        self._offset = self._path.stat().st_size if self._path.exists() else 0
        self.damaged = 0

    def new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                if (parsed := _parse(line)) is None:
                    self.damaged += 1
                else:
                    yield parsed


def failures_since(series_dir: Path, since_s: float) -> list[dict[str, Any]]:
    """Return the final failures since `since_s` (epoch seconds).

    Here and in `lines_since` the time of an opening identifies its execution, even if the clock was set back since.
    """
    return failures_in(_lines_from(series_dir, since_s))


def failures_in(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the final failures: failed runs, else the first step that failed. Later failures, such as an analysis of
    nothing, are consequences."""
    failures = [line for line in lines if line.get("blame") in SEVERITY and "message" in line]
    runs = [line for line in failures if line["kind"] == "run_failed" and not line.get("again")]
    return runs or [line for line in failures if line["kind"] == "step_failed"][:1]


def worst_of(failures: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Return the blame and message of the worst of these lines; the message names its run, and the number of others."""
    failure = min(failures, key=lambda failure: SEVERITY.index(failure["blame"]))
    where = f"{failure['run_id']}: " if failure.get("run_id") else ""
    rest = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return str(failure["blame"]), f"{where}{failure['message']}{rest}"


def lines_since(series_dir: Path, kind: str, since_s: float) -> list[dict[str, Any]]:
    """Return the lines of that kind since `since_s` (epoch seconds)."""
    return [line for line in _lines_from(series_dir, since_s) if line["kind"] == kind]


def lines_between(series_dir: Path, since_s: float, until_s: float) -> list[dict[str, Any]]:
    """Return every line of that time (epoch seconds)."""
    return [line for line in _lines_from(series_dir, since_s) if float(line["t"]) <= until_s]


def _lines_from(series_dir: Path, since_s: float) -> list[dict[str, Any]]:
    lines = list(_lines(series_dir / PROGRESS_FILE))
    openings = [place for place, line in enumerate(lines) if line["kind"] == OPENED and line.get("opened_s") == since_s]
    return lines[openings[-1] :] if openings else [line for line in lines if float(line["t"]) >= since_s]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        yield from filter(None, map(_parse, file))


def _parse(line: bytes) -> dict[str, Any] | None:
    """Return the line's object, None for an invalid line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_valid = (
        isinstance(value, dict) and isinstance(value.get("t"), int | float) and isinstance(value.get("kind"), str)
    )
    return value if is_valid else None
