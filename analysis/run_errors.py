"""What a run's daemons and workers logged as errors: alike ones as one, with when and where the first one was."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from analysis.record import RunPaths

READ_BYTES = 4_000_000  # of each file: what went wrong first stands at its beginning
TOKENS = (b"[ERROR]", b"[FATAL]", b" ERROR ", b"ERROR:", b"Traceback (most recent call last)", b"OutOfMemoryError:")
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
    alike: dict[str, Logged] = {}
    for path in files:
        for key, logged in _of_file(path, run.logs).items():
            alike[key] = _as_one(alike[key], logged) if key in alike else logged
    cut = sum(path.stat().st_size > READ_BYTES for path in files)
    return Errors(bool(files), tuple(sorted(alike.values(), key=_order)), cut)


def _of_file(path: Path, logs: Path) -> dict[str, Logged]:
    """By what does not vary in them."""
    with path.open("rb") as file:
        start = file.read(READ_BYTES)
    alike: dict[str, Logged] = {}
    for raw in _lines(start):
        line = raw.decode(errors="replace").strip()
        time = TIME.match(line)
        text = (line[time.end() :] if time else line)[:SHOWN_CHARACTERS]
        key = VARYING.sub("#", text)
        if key in alike:
            alike[key] = replace(alike[key], times=alike[key].times + 1)
        else:
            alike[key] = Logged(_epoch(time[1]) if time else None, path.relative_to(logs).as_posix(), text)
    return alike


def _lines(text: bytes) -> list[bytes]:
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


def _as_one(one: Logged, other: Logged) -> Logged:
    """Of two files."""
    return replace(min(one, other, key=_order), times=one.times + other.times, files=one.files + other.files)


def _order(logged: Logged) -> tuple[bool, float, str]:
    return logged.t_s is None, logged.t_s or 0.0, logged.text
