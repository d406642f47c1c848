"""Errors that a run's daemons and workers logged: alike ones as one, with when and where the first one was."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from analysis.record.files import RunPaths

READ_BYTES = 4_000_000  # of each file: what went wrong first stands at its beginning
TOKENS = (b"[ERROR]", b"[FATAL]", b" ERROR ", b"ERROR:", b"Traceback (most recent call last)", b"OutOfMemoryError:")
TIME = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)\s*")
VARIABLE_PARTS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
TEXT_CHARACTERS = 240


@dataclass(frozen=True)
class ErrorGroup:
    """Errors that differ in numbers only. `t_s`: epoch seconds of the first one, None where its line has no time."""

    t_s: float | None
    file: str
    text: str
    times: int = 1
    files: int = 1


@dataclass(frozen=True)
class RunErrors:
    """`cut`: files of which only the beginning was read. `has_logs`: whether there are logs on this machine at all."""

    has_logs: bool
    groups: tuple[ErrorGroup, ...] = ()
    cut: int = 0


def errors_of_run(run: RunPaths) -> RunErrors:
    """The earliest first, those without a time last."""
    files = sorted(path for path in run.logs.rglob("*") if path.is_file() and path.stat().st_size)
    alike: dict[str, ErrorGroup] = {}
    for path in files:
        for key, logged in _errors_of_file(path, run.logs).items():
            alike[key] = _merge(alike[key], logged) if key in alike else logged
    cut = sum(path.stat().st_size > READ_BYTES for path in files)
    return RunErrors(bool(files), tuple(sorted(alike.values(), key=_order)), cut)


def _errors_of_file(path: Path, logs: Path) -> dict[str, ErrorGroup]:
    """By what does not vary in them."""
    with path.open("rb") as file:
        start = file.read(READ_BYTES)
    alike: dict[str, ErrorGroup] = {}
    for raw in _lines_with_token(start):
        line = raw.decode(errors="replace").strip()
        time = TIME.match(line)
        text = (line[time.end() :] if time else line)[:TEXT_CHARACTERS]
        key = VARIABLE_PARTS.sub("#", text)
        if key in alike:
            alike[key] = replace(alike[key], times=alike[key].times + 1)
        else:
            alike[key] = ErrorGroup(_epoch(time[1]) if time else None, path.relative_to(logs).as_posix(), text)
    return alike


def _lines_with_token(text: bytes) -> list[bytes]:
    """Those with a token, in their order."""
    spans = set()
    for token in TOKENS:
        at = text.find(token)
        while at >= 0:
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            spans.add((text.rfind(b"\n", 0, at) + 1, end))
            at = text.find(token, end)
    return [text[begin:end] for begin, end in sorted(spans)]


def _epoch(text: str) -> float:
    """Daemons log in UTC, with a Z or without."""
    return datetime.fromisoformat(text.replace(",", ".").replace(" ", "T").removesuffix("Z") + "+00:00").timestamp()


def _merge(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    """Of two files."""
    return replace(min(one, other, key=_order), times=one.times + other.times, files=one.files + other.files)


def _order(logged: ErrorGroup) -> tuple[bool, float, str]:
    return logged.t_s is None, logged.t_s or 0.0, logged.text
