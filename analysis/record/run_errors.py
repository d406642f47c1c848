"""Errors that a run's daemons and workers logged: equal ones grouped, with time and place of the first one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from analysis.record.files import RunPaths

READ_BYTES = 4_000_000  # of each file: the first errors are at its beginning
TOKENS = (b"[ERROR]", b"[FATAL]", b" ERROR ", b"ERROR:", b"Traceback (most recent call last)", b"OutOfMemoryError:")
TIME = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)\s*")
VARIABLE_PARTS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
TEXT_CHARACTERS = 240


@dataclass(frozen=True)
class ErrorGroup:
    """Errors that differ in numbers only. `t_s`: epoch seconds of the first one, None if its line has no time."""

    t_s: float | None
    file: str
    text: str
    times: int = 1
    files: int = 1


@dataclass(frozen=True)
class RunErrors:
    """Errors of a run. `cut`: files read in part; `has_logs`: whether logs are on this machine."""

    has_logs: bool
    groups: tuple[ErrorGroup, ...] = ()
    cut: int = 0


def errors_of_run(run: RunPaths) -> RunErrors:
    """Return errors, the earliest first, those without a time last."""
    files = sorted(path for path in run.logs.rglob("*") if path.is_file() and path.stat().st_size)
    groups: dict[str, ErrorGroup] = {}
    for path in files:
        for key, group in _errors_of_file(path, run.logs).items():
            other = groups.get(key)  # the same error in two files
            groups[key] = (
                group
                if other is None
                else replace(
                    min(other, group, key=_order), times=other.times + group.times, files=other.files + group.files
                )
            )
    cut = sum(path.stat().st_size > READ_BYTES for path in files)
    return RunErrors(bool(files), tuple(sorted(groups.values(), key=_order)), cut)


def _errors_of_file(path: Path, logs: Path) -> dict[str, ErrorGroup]:
    """Return errors by their constant parts."""
    with path.open("rb") as file:
        start = file.read(READ_BYTES)
    spans = set()
    for token in TOKENS:
        position = start.find(token)
        while position >= 0:
            end = start.find(b"\n", position)
            end = len(start) if end < 0 else end
            spans.add((start.rfind(b"\n", 0, position) + 1, end))
            position = start.find(token, end)
    groups: dict[str, ErrorGroup] = {}
    for begin, end in sorted(spans):
        content = start[begin:end]
        line = content.decode(errors="replace").strip()
        time = TIME.match(line)
        text = (line[time.end() :] if time else line)[:TEXT_CHARACTERS]
        key = VARIABLE_PARTS.sub("#", text)
        if key in groups:
            groups[key] = replace(groups[key], times=groups[key].times + 1)
        else:
            groups[key] = ErrorGroup(None if time is None else _epoch(time[1]), path.relative_to(logs).as_posix(), text)
    return groups


def _epoch(text: str) -> float:
    """Return epoch seconds; daemons log in UTC, with a Z or without."""
    return datetime.fromisoformat(text.replace(",", ".").replace(" ", "T").removesuffix("Z") + "+00:00").timestamp()


def _order(logged: ErrorGroup) -> tuple[bool, float, str]:
    return logged.t_s is None, logged.t_s or 0.0, logged.text
