"""One night at a time: of a suite, and on a testbed. A file for each suite that is being measured, in the state folder.

A hold counts as long as the process that took it lives and its end has not come; then the next night takes it over.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from analysis.record import write_json_atomic
from dags.errors import DagError
from inventory.leases import process_start, state_dir


class NightUnderWay(DagError):
    """Another night measures this suite, or on this testbed."""

    blame = "capacity"


@dataclass(frozen=True)
class Hold:
    suite: str
    testbed: str
    night: str  # its id
    pid: int
    born: str  # of the process, so that a pid that was used again holds nothing
    until_s: float

    def counts(self, now_s: float) -> bool:
        return now_s < self.until_s and self.born != "" and process_start(self.pid) == self.born


def take(suite: str, testbed: str, night: str, pid: int, until_s: float, now_s: float) -> Hold:
    """Raises NightUnderWay naming who has it.

    The same process that takes its own suite again has lost the night before: Airflow runs one of a suite at a time,
    and a task that was killed gave nothing back.
    """
    mine = Hold(suite, testbed, night, pid, process_start(pid), until_s)
    with _locked() as folder:
        for other in _all(folder):
            again = (other.suite, other.pid, other.born) == (mine.suite, mine.pid, mine.born)
            if other.counts(now_s) and not again and (other.suite == suite or other.testbed == testbed):
                raise NightUnderWay(_told(other, now_s))
        write_json_atomic(folder / f"{suite}.json", asdict(mine))
    return mine


def drop(suite: str, night: str) -> None:
    """Nothing happens where another night has taken it over."""
    with _locked() as folder:
        held = _read(folder / f"{suite}.json")
        if held is not None and held.night == night:
            (folder / f"{suite}.json").unlink()


def on_record(suite: str, testbed: str, now_s: float) -> Hold | None:
    """Who would refuse a night now; None: nobody."""
    with _locked() as folder:
        held = [other for other in _all(folder) if other.suite == suite or other.testbed == testbed]
    return next((other for other in held if other.counts(now_s)), None)


def _all(folder: Path) -> list[Hold]:
    found = (_read(path) for path in sorted(folder.glob("*.json")))
    return [hold for hold in found if hold is not None]


def _read(path: Path) -> Hold | None:
    """A file that is none holds nothing: it is written at once, so it is not one of ours half-way."""
    with suppress(OSError, ValueError, TypeError):
        return Hold(**json.loads(path.read_text(encoding="utf-8")))
    return None


def _told(other: Hold, now_s: float) -> str:
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(other.until_s))
    minutes = max(1, round((other.until_s - now_s) / 60))
    return (
        f"a night of suite {other.suite} is being measured on {other.testbed} (night {other.night}, process"
        f" {other.pid}), until {end} at the latest, in {minutes} min; wait for it, or end that process"
    )


@contextmanager
def _locked() -> Iterator[Path]:
    folder = state_dir() / "nights"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
