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
    """Errors of a run. `cut`: files of which only the beginning was read. `has_logs`: whether logs are on this
    machine."""

    has_logs: bool
    groups: tuple[ErrorGroup, ...] = ()
    cut: int = 0


def errors_of_run(run: RunPaths) -> RunErrors:
    """Return errors, the earliest first, those without a time last."""
    files = sorted(path for path in run.logs.rglob("*") if path.is_file() and path.stat().st_size)
    groups: dict[str, ErrorGroup] = {}
    for path in files:
        for key, group in _errors_of_file(path, run.logs).items():
            groups[key] = _merge(groups[key], group) if key in groups else group
    cut = sum(path.stat().st_size > READ_BYTES for path in files)
    return RunErrors(bool(files), tuple(sorted(groups.values(), key=_order)), cut)


def _errors_of_file(path: Path, logs: Path) -> dict[str, ErrorGroup]:
    """Return errors by their constant parts."""
    with path.open("rb") as file:
        start = file.read(READ_BYTES)
    groups: dict[str, ErrorGroup] = {}
    for content in _lines_with_token(start):
        line = content.decode(errors="replace").strip()
        time = TIME.match(line)
        text = (line[time.end() :] if time else line)[:TEXT_CHARACTERS]
        key = VARIABLE_PARTS.sub("#", text)
        if key in groups:
            groups[key] = replace(groups[key], times=groups[key].times + 1)
        else:
            groups[key] = ErrorGroup(_epoch(time[1]) if time else None, path.relative_to(logs).as_posix(), text)
    return groups


def _lines_with_token(text: bytes) -> list[bytes]:
    """Return the lines with a token, in order."""
    spans = set()
    for token in TOKENS:
        position = text.find(token)
        while position >= 0:
            end = text.find(b"\n", position)
            end = len(text) if end < 0 else end
            spans.add((text.rfind(b"\n", 0, position) + 1, end))
            position = text.find(token, end)
    return [text[begin:end] for begin, end in sorted(spans)]


def _epoch(text: str) -> float:
    """Return epoch seconds; daemons log in UTC, with a Z or without."""
    return datetime.fromisoformat(text.replace(",", ".").replace(" ", "T").removesuffix("Z") + "+00:00").timestamp()


def _merge(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    """Merge the errors of two files."""
    return replace(min(one, other, key=_order), times=one.times + other.times, files=one.files + other.files)


def _order(logged: ErrorGroup) -> tuple[bool, float, str]:
    return logged.t_s is None, logged.t_s or 0.0, logged.text
