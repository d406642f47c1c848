"""The history of a suite: one file a night below `<folder>/nights`, written once, never changed.

A file that cannot be read is told and left out; the rest of the history counts.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from analysis.errors import NightFormError, NightTaken
from analysis.history.night import Night, as_json, parse


@dataclass(frozen=True)
class Damaged:
    """A file among the nights that is none."""

    file: str
    why: str


@dataclass(frozen=True)
class History:
    """Nights in the order in which they were appended."""

    suite: str
    nights: tuple[Night, ...]
    damaged: tuple[Damaged, ...] = ()


def append(folder: Path | str, night: Mapping[str, Any]) -> Path:
    """Put a night on record; its file. `night` is the record without `sequence`, which is counted here.

    Raises NightFormError (harness) for one that does not follow its form, NightTaken (capacity) where its id is taken.
    """
    there = nights(folder)
    taken = len(there.nights) + len(there.damaged)
    sequence = max([taken, *(one.sequence for one in there.nights)]) + 1
    found = parse(json.dumps({**night, "sequence": sequence}), f"the night for {folder}")
    path = Path(folder) / "nights" / f"{found.id}.json"
    _write_once(path, as_json(found))
    return path


def _write_once(path: Path, content: bytes) -> None:
    """Whole or not at all, and never over another night: a link fails where the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        path.hardlink_to(name)
    except FileExistsError as error:
        raise NightTaken(
            f"{path} is there: night {path.stem} is on record already, and a night is never overwritten. "
            "Two nights at once, or a clock that was set back? Run it again for another id, or move the file away."
        ) from error
    finally:
        Path(name).unlink(missing_ok=True)


def nights(folder: Path | str) -> History:
    """Every night that can be read, in order; the others are told in `damaged`."""
    found: list[Night] = []
    damaged = []
    for path in sorted(Path(folder).glob("nights/[!.]*.json")):
        try:
            found.append(_read(path))
        except NightFormError as error:
            damaged.append(Damaged(path.name, str(error).removeprefix(f"{path.name}: ")))
    found.sort(key=lambda night: (night.sequence, night.started_s))
    return History(Path(folder).absolute().name, tuple(found), tuple(damaged))


def _read(path: Path) -> Night:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NightFormError(f"{path.name}: cannot be read: {error.strerror}") from error
    night = parse(content, path.name)
    if night.id != path.stem:
        raise NightFormError(f"{path.name}: holds the night {night.id}; a copy does not count twice")
    return night


def clocks_that_jumped(history: History) -> list[str]:
    """A night that begins before the one appended before it ended, or ends before it began."""
    told = [
        f"night {night.id} ends {night.started_s - night.ended_s:.0f} s before it begins: its clock was set back"
        for night in history.nights
        if night.ended_s < night.started_s
    ]
    for before, after in pairwise(history.nights):
        if after.started_s < before.ended_s:
            minutes = (before.ended_s - after.started_s) / 60
            told.append(
                f"night {after.id} begins {minutes:.0f} min before the end of {before.id}, which was appended before "
                "it: a clock jumped, or two nights ran at once. They are kept in the order of appending"
            )
    return told
