"""What a run's daemons and workers logged as errors: alike ones as one, with when and where the first one was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from analysis.record import RunPaths

READ_BYTES = 4_000_000  # of each file: what went wrong first stands at its beginning
ERROR = re.compile(rb"^.*(?:\bERROR\b|\bFATAL\b|Traceback \(most recent call last\)|OutOfMemoryError).*$", re.MULTILINE)
TIME = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?)\s*")
VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")
SHOWN_CHARACTERS = 240


@dataclass(frozen=True)
class Logged:
    """Errors that differ in numbers only. `t_s`: epoch seconds of the first one, None where its line has no time."""

    t_s: float | None
    file: str
    text: str
    times: int = 1
    files: int = 1


@dataclass(frozen=True)
class Errors:
    """`cut`: files of which only the beginning was read. `here`: whether there are logs on this machine at all."""

    here: bool
    found: tuple[Logged, ...] = ()
    cut: int = 0


def of_run(run: RunPaths) -> Errors:
    """The earliest first, those without a time last."""
    files = sorted(path for path in run.logs.rglob("*") if path.is_file() and path.stat().st_size)
    alike: dict[str, list[Logged]] = {}
    for path in files:
        for logged in _of_file(path, run.logs):
            alike.setdefault(VARYING.sub("#", logged.text), []).append(logged)
    found = sorted((_as_one(group) for group in alike.values()), key=_order)
    return Errors(bool(files), tuple(found), sum(path.stat().st_size > READ_BYTES for path in files))


def _of_file(path: Path, logs: Path) -> Iterator[Logged]:
    with path.open("rb") as file:
        start = file.read(READ_BYTES)
    for match in ERROR.finditer(start):
        line = match[0].decode(errors="replace").strip()
        time = TIME.match(line)
        text = line[time.end() :] if time else line
        yield Logged(_epoch(time[1]) if time else None, path.relative_to(logs).as_posix(), text[:SHOWN_CHARACTERS])


def _epoch(text: str) -> float:
    """Daemons log in UTC, with a Z or without."""
    return datetime.fromisoformat(text.replace(",", ".").replace(" ", "T").removesuffix("Z") + "+00:00").timestamp()


def _as_one(group: list[Logged]) -> Logged:
    first = min(group, key=_order)
    return replace(first, times=len(group), files=len({logged.file for logged in group}))


def _order(logged: Logged) -> tuple[bool, float, str]:
    return logged.t_s is None, logged.t_s or 0.0, logged.text
