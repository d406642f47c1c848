"""The night that is under way: `under_way.json` of its suite, so that each task knows it, also after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.errors import RecordError
from analysis.record import read_json, write_json_atomic
from dags.errors import DagError
from dags.places import results_root

FILE = "under_way.json"
WAITING, BEGUN = "waiting", "begun"


class NoNight(DagError):
    """The night that a step belongs to is over, or was taken over."""


@dataclass(frozen=True)
class Entry:
    """What became of one experiment. `series` is its folder below the results; empty while there is none."""

    experiment: str
    machine: str  # fingerprint of what must be equal for its numbers to be compared
    status: str = WAITING  # later: begun; at last one of `outcome.STATUSES`
    reason: str = ""
    series: str = ""


@dataclass(frozen=True)
class Tonight:
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
    experiments: tuple[Entry, ...] = ()

    @property
    def date(self) -> str:
        return f"{datetime.fromtimestamp(self.started_s, UTC):%Y-%m-%d}"

    def entry(self, experiment: str) -> Entry:
        return next(entry for entry in self.experiments if entry.experiment == experiment)

    def with_entry(self, entry: Entry) -> Tonight:
        changed = tuple(entry if each.experiment == entry.experiment else each for each in self.experiments)
        return replace(self, experiments=changed)


def night_id(now_s: float) -> str:
    """`<date>-<time>` in UTC; sorts by time."""
    return f"{datetime.fromtimestamp(now_s, UTC):%Y%m%d-%H%M%S}"


def folder_of(suite: str) -> Path:
    """All nights of a suite."""
    return results_root() / "nightly" / suite


def write(night: Tonight) -> None:
    write_json_atomic(folder_of(night.suite) / FILE, {"v": 1, **asdict(night)})


def read(suite: str) -> Tonight | None:
    """None: no night of the suite is under way, or was left by a dead one."""
    path = folder_of(suite) / FILE
    if not path.is_file():
        return None
    document = read_json(path)
    try:
        entries = tuple(Entry(**entry) for entry in document.pop("experiments"))
        document.pop("v")
        return Tonight(**document, experiments=entries)
    except (KeyError, TypeError) as error:
        raise RecordError(
            f"{path}: not a night under way ({error!r}); remove the file, its series are all on record"
        ) from error


def of_id(suite: str, night: str) -> Tonight:
    """Raises NoNight where that night is not the one under way."""
    found = read(suite)
    if found is None or found.id != night:
        raise NoNight(f"night {night} of suite {suite} is not under way any more")
    return found


def forget(night: Tonight) -> None:
    (folder_of(night.suite) / FILE).unlink(missing_ok=True)
