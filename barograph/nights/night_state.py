"""The current night, in `under_way.json` of its suite, so that each task knows it after a crash too; its reservation.

One night at a time: for a suite, and on a testbed. The reservation is a file for each suite in the state folder. It
counts while its holder lives and its end has not come; then the next night takes it over. For a holder that is not
visible from here (`inventory.leases.holder`) only the end counts: between two experiments there are no heartbeats.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from analysis.errors import RecordError
from analysis.record.files import NIGHTS, read_json, write_json_atomic
from barograph.errors import BarographError, InUse
from barograph.settings import results_root
from barograph.yaml_files import adapter
from inventory.files import hold_lock
from inventory.leases.holder import Holder
from inventory.leases.registry import state_dir

NIGHT_FILE = "under_way.json"
WAITING, BEGUN = "waiting", "begun"


class NoNight(BarographError):
    """The night of a step is over, or was taken over."""


@dataclass(frozen=True)
class NightEntry:
    """The outcome of one experiment. `series` is its folder below the results; empty while there is none."""

    experiment: str
    machine: str  # fingerprint of everything that must be equal for its numbers to be compared
    status: str = WAITING  # later: begun; at last as in `outcome`
    reason: str = ""
    series: str = ""


@dataclass(frozen=True)
class Night:
    id: str
    suite: str
    testbed: str
    started_s: float
    until_s: float
    commit: str | None
    commit_s: float | None
    dirty: bool | None
    machine: str
    machine_facts: Mapping[str, Any] = field(default_factory=dict)
    experiments: tuple[NightEntry, ...] = ()

    @property
    def date(self) -> str:
        return f"{datetime.fromtimestamp(self.started_s, UTC):%Y-%m-%d}"

    def entry(self, experiment: str) -> NightEntry:
        return next(entry for entry in self.experiments if entry.experiment == experiment)

    def with_entry(self, entry: NightEntry) -> Night:
        entries = tuple(entry if each.experiment == entry.experiment else each for each in self.experiments)
        return replace(self, experiments=entries)


def nights_folder(suite: str) -> Path:
    """Return the folder of all nights of a suite."""
    return results_root() / NIGHTS / suite


def write_night(night: Night) -> None:
    write_json_atomic(nights_folder(night.suite) / NIGHT_FILE, {"v": 1, **asdict(night)})


def read_night(suite: str) -> Night | None:
    """Return the suite's current night, also one left by a dead process; None: there is none."""
    path = nights_folder(suite) / NIGHT_FILE
    if not path.is_file():
        return None
    document = read_json(path)
    try:
        night: Night = adapter(Night).validate_python({key: document[key] for key in document if key != "v"})
        return night
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise RecordError(
            f"{path}: not a night under way ({place}); remove the file, its series are all on record"
        ) from error


def night_of_id(suite: str, night: str) -> Night:
    """Return the night. Raises NoNight where another one, or none, is current."""
    current = read_night(suite)
    if current is None or current.id != night:
        raise NoNight(f"night {night} of suite {suite} is not under way any more")
    return current


def recorded_night(suite: str, night: str) -> dict[str, Any] | None:
    """Return the record of a night that is over; None: it is not on record."""
    path = nights_folder(suite) / "nights" / f"{night}.json"
    return read_json(path) if path.is_file() else None


def remove_night(night: Night) -> None:
    (nights_folder(night.suite) / NIGHT_FILE).unlink(missing_ok=True)


class NightUnderWay(InUse):
    """Another night measures this suite, or on this testbed."""


@dataclass(frozen=True)
class Reservation:
    suite: str
    testbed: str
    night: str  # its id
    pid: int
    born: str  # of the process, so that a reused pid reserves nothing
    until_s: float
    system: str = ""
    run: str = ""  # of a DAG

    @property
    def holder(self) -> Holder:
        return Holder(self.pid, self.born, self.system, self.run)

    def counts(self, now_s: float) -> bool:
        return now_s < self.until_s and self.holder.is_alive(now_s, now_s)


def take_reservation(suite: str, testbed: str, night: str, me: Holder, until_s: float, now_s: float) -> Reservation:
    """Take the reservation. Raises NightUnderWay naming its holder.

    A holder that takes its own suite again has lost its last night: a killed task released nothing.
    """
    mine = Reservation(suite, testbed, night, me.pid, me.born, until_s, me.system, me.run)
    with _lock_reservations() as folder:
        for other in _rivals(folder, suite, testbed, now_s):
            if (other.suite, other.holder) == (mine.suite, mine.holder):
                continue
            end = time.strftime("%Y-%m-%d %H:%M", time.localtime(other.until_s))
            minutes = max(1, round((other.until_s - now_s) / 60))
            text = (
                f"a night of suite {other.suite} is being measured on {other.testbed} (night {other.night},"
                f" {other.holder}), until {end} at the latest, in {minutes} min; wait for it, or end that one"
            )
            raise NightUnderWay(text, folder / f"{other.suite}.json")
        write_json_atomic(folder / f"{suite}.json", asdict(mine))
    return mine


def drop_reservation(suite: str, night: str) -> None:
    """Drop the reservation; do nothing where another night has taken it over."""
    with _lock_reservations() as folder:
        current = _read_reservation(folder / f"{suite}.json")
        if current is not None and current.night == night:
            (folder / f"{suite}.json").unlink()


def current_reservation(suite: str, testbed: str, now_s: float) -> Reservation | None:
    """Return the reservation that would refuse a night now, if any."""
    with _lock_reservations() as folder:
        return next(iter(_rivals(folder, suite, testbed, now_s)), None)


def _rivals(folder: Path, suite: str, testbed: str, now_s: float) -> list[Reservation]:
    """Return the reservations of the suite, or of the testbed, that count."""
    reservations = filter(None, (_read_reservation(path) for path in sorted(folder.glob("*.json"))))
    return [each for each in reservations if (each.suite == suite or each.testbed == testbed) and each.counts(now_s)]


def _read_reservation(path: Path) -> Reservation | None:
    """Return the reservation, None for a damaged file, which is not ours: ours are written atomically."""
    with suppress(OSError, ValueError, TypeError):
        return Reservation(**json.loads(path.read_text(encoding="utf-8")))
    return None


@contextmanager
def _lock_reservations() -> Iterator[Path]:
    folder = state_dir() / "nights"
    with hold_lock(folder / ".lock", "reserving a testbed for a night"):
        yield folder
