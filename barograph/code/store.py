"""Folders that are built once and kept: a lock between processes, success or failure on record, the oldest are removed.

A folder appears as a whole. It holds `built.json` (its maker's result) or `failed.json` (`{"why", "error",
"failed_s"}`), and `build.log`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from analysis.record.files import read_json_or_none, write_json_atomic
from barograph.code import BuildFailed, BuildHung, SourceError, Unfit
from barograph.errors import Say
from inventory.files import hold_lock
from playbooks.storm_home.assemble import atomic_folder, remove_tree

BUILT, FAILED, LOG = "built.json", "failed.json", "build.log"
KEPT_ERRORS: Mapping[str, type[SourceError]] = {kind.__name__: kind for kind in (BuildFailed, BuildHung, Unfit)}
MAKING_LIMIT_S = 3600.0  # for the longest: a repository is cloned twice (10 min each), its code is built (30)
LOG_END_CHARACTERS = 600  # of a log's end, in a message

Make = Callable[[Path], Mapping[str, Any]]


def lock_folder(thing: Path, say: Say | None = None, limit_s: float = MAKING_LIMIT_S) -> AbstractContextManager[None]:
    """Lock the thing for one process at a time (`inventory.files.hold_lock`)."""
    return hold_lock(_lock_of(thing), f"building {thing.name[:12]}", limit_s, say)


def _lock_of(thing: Path) -> Path:
    return thing.with_name(f".{thing.name}.lock")


def make_once(thing: Path, make: Make, say: Say, *, rebuild: bool = False) -> Path:
    """Return the folder, built by `make` in another place if missing. Raises what `make` raised, also from the record.

    Only errors of KEPT_ERRORS are kept: a full disk or a lost network may be better tomorrow.
    """
    with lock_folder(thing, say):
        sweep(thing)
        if rebuild:
            remove_tree(thing)
        if not thing.is_dir():
            with atomic_folder(thing) as draft:
                try:
                    write_json_atomic(draft / BUILT, {"v": 1, **make(draft), "built_s": time.time()})
                except tuple(KEPT_ERRORS.values()) as error:
                    for path in draft.iterdir():
                        if path.name != LOG:
                            remove_tree(path)
                    kept = {"v": 1, "why": str(error), "error": type(error).__name__, "failed_s": time.time()}
                    write_json_atomic(draft / FAILED, kept)
    failure = read_json_or_none(thing / FAILED)
    if failure is not None:
        raise KEPT_ERRORS.get(str(failure.get("error")), BuildFailed)(_failure_message(thing, failure))
    os.utime(thing)  # the least recently used are removed
    return thing


def sweep(thing: Path) -> None:
    """Remove unfinished folders of a killed process; the caller must hold the thing's lock."""
    pattern = re.compile(rf"\.{re.escape(thing.name)}-[a-z0-9_]{{8}}")  # as tempfile names them
    for path in thing.parent.iterdir():
        if pattern.fullmatch(path.name):
            remove_tree(path)


def built_facts(thing: Path) -> Mapping[str, Any]:
    """Return the maker's result."""
    return read_json_or_none(thing / BUILT) or {}


def prune(folder: Path, pattern: str, used: Collection[Path], keep: int) -> tuple[Path, ...]:
    """Remove all but the `keep` last used of the things that match, and those in use; returns the removed ones."""
    visible = [path for path in folder.glob(pattern) if not path.name.startswith(".")]
    things = [path for path in visible if (path / BUILT).exists() or (path / FAILED).exists()]
    things.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return tuple(thing for thing in things[keep:] if thing not in used and _remove_unused(thing))


def log_end(log: Path) -> str:
    """Return the end of a log in one line."""
    try:
        text = " ".join(last_lines(log))
    except OSError:
        return "no log"
    return " ".join(text.split())[-LOG_END_CHARACTERS:] or "it said nothing"


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log that may be larger than the memory. Raises OSError."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 8 * LOG_END_CHARACTERS))
        return file.read(8 * LOG_END_CHARACTERS).decode(errors="replace").splitlines()


def _failure_message(thing: Path, failed: Mapping[str, Any]) -> str:
    log = thing / LOG
    message = f"{failed['why']}; log: {log}" if log.is_file() else str(failed["why"])
    age_s = time.time() - float(failed.get("failed_s", 0.0))
    if age_s < 60:
        return message
    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(failed["failed_s"])))
    return f"{message} (it was tried at {date} and is not tried again for the same commit, unless with --rebuild)"


def _remove_unused(thing: Path) -> bool:
    """Remove the thing and return True; False if somebody is building or taking it now."""
    try:
        with FileLock(_lock_of(thing)).acquire(blocking=False):
            remove_tree(thing)
            return True
    except Timeout:
        return False
