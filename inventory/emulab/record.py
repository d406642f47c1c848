"""What the harness remembers of Emulab beside the leases: each classic experiment's seats, and where it ever was.

A lease's record is enough to end its experiment; these files let machines be added and taken back, and let a reaper
that is given no options look for leftovers at every place where something was started.
"""

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from inventory import leases
from inventory.emulab.ns_file import Seat
from inventory.errors import InfrastructureError

SITES = "sites.json"


@dataclass(frozen=True)
class Record:
    """A classic experiment: when it was started, after how many hours Emulab swaps it out, and its machines."""

    started_s: float
    longest_hours: int
    seats: tuple[Seat, ...]


def write(experiment: str, record: Record) -> None:
    _replace(_path(experiment), asdict(record))


def read(experiment: str) -> Record:
    try:
        data = json.loads(_path(experiment).read_text())
        return Record(data["started_s"], data["longest_hours"], tuple(Seat(**seat) for seat in data["seats"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(
            f"{_path(experiment)}: what {experiment} has is not known ({error!r}); release it and start again"
        ) from error


def forget(experiment: str) -> None:
    _path(experiment).unlink(missing_ok=True)


def sites() -> list[dict[str, str]]:
    """Every place where this harness started something and has not since found that nothing is left."""
    try:
        found = json.loads((_folder() / SITES).read_text())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise InfrastructureError(
            f"{_folder() / SITES}: not readable ({error}); remove it, and look on Emulab for experiments that are left"
        ) from error
    return [dict(one) for one in found]


def add_site(site: Mapping[str, str]) -> None:
    """Remember the place. The lease that starts something there is on record before this is called."""
    with _locked():
        known = sites()
        if dict(site) not in known:
            _replace(_folder() / SITES, [*known, dict(site)])


def drop_site(site: Mapping[str, str], testbed: str) -> None:
    """Forget the place, unless a lease on record is there."""
    with _locked():
        if not any(lease.testbed == testbed and lease.site == site for lease in leases.read_all()):
            _replace(_folder() / SITES, [one for one in sites() if one != dict(site)])


@contextmanager
def _locked() -> Iterator[None]:
    _folder().mkdir(parents=True, exist_ok=True)
    with (_folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _folder() -> Path:
    return leases.state_dir() / "emulab"


def _path(experiment: str) -> Path:
    return _folder() / f"{experiment}.json"


def _replace(path: Path, data: Mapping[str, object] | Sequence[object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1))
    partial.rename(path)
