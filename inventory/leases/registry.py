"""The registry of leases: holder, testbed and expiry, one JSON file each; and the id of this harness.

The file is written before the first machine exists and removed after the last one is gone, so whatever a killed
harness leaves behind is either named by a lease or has a name that no lease owns. Beside it, `<lease>.machines` lists
the lease's machines: a part of them may be given back before its end.

A lease is live until it expires, its holder is dead, or its end has begun. Whether the holder lives: see
`inventory.leases.holder`. In short, on the holder's own system its process says so; everywhere else, and where the
holder is a DAG (pid 0) and no process, `heartbeat_s` does, at most HEARTBEAT_BOUND_S old.
- `take(…, holder=…)` and `renew` are heartbeats too; `beat(lease_id)` is one alone. All three work from any process
  that sees the state folder; while a step of a series runs, `barograph.machines.series_lease.keep_alive` calls them.
- `ending(lease_id, …)` is how a lease ends, by its holder or by the reaper, one at a time. It reads the lease again
  under the lock and marks it; from then on `renew`, `beat` and `hold` refuse it, so that no renewed lease is ended,
  and no ending lease is used. A lease whose release failed keeps the mark: the reaper's next pass ends it,
  even if its holder lives.
"""

import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.files import QUICK_S, hold_lock, lasting_id, replace_file, users_folder
from inventory.leases import processes
from inventory.leases.holder import Holder, process_holder

log = logging.getLogger(__name__)
DEFAULT_STATE = Path("/var/lib/barograph")
ENDING_LIMIT_S = 3600.0  # EC2 and Emulab need minutes to end machines, each time


@dataclass(frozen=True)
class Lease:
    """The right to a testbed's machines until `expires_s` (epoch seconds), as long as its holder lives.

    The holder's fields are those of `Holder`; `heartbeat_s` (epoch seconds) is its last heartbeat.
    """

    lease_id: str
    owner: str
    series_id: str
    testbed: str
    acquired_s: float
    expires_s: float
    holder_pid: int
    holder_start: str
    site: Mapping[str, str] = field(default_factory=dict)  # for the testbed to find the machines (`Testbed.site`)
    holder_system: str = ""
    heartbeat_s: float = 0.0
    ending: bool = False  # its end has begun: it is not renewed any more
    holder_run: str = ""

    @property
    def holder(self) -> Holder:
        return Holder(self.holder_pid, self.holder_start, self.holder_system, self.holder_run)


_LEASES = TypeAdapter(Lease)


def state_dir() -> Path:
    """Return the folder of leases, keys and emulated machines: $BAROGRAPH_STATE or /var/lib/barograph, without root a
    folder of the user's."""
    return users_folder("BAROGRAPH_STATE", DEFAULT_STATE, "state")


def key_dir(lease_id: str, state: Path | None = None) -> Path:
    """Return the folder of a lease's ssh keys (0700)."""
    return (state or state_dir()) / "keys" / lease_id


def holder_alive(lease: Lease, now: float) -> bool:
    """Return True if the lease's holder still works, as far as can be seen from here."""
    return lease.holder.is_alive(lease.heartbeat_s, now)


def is_live(lease: Lease, now: float) -> bool:
    """Return True if the lease has not expired, its holder lives, and its end has not begun."""
    return not lease.ending and now < lease.expires_s and holder_alive(lease, now)


def take(
    owner: str,
    series_id: str,
    testbed: str,
    ttl_s: float,
    *,
    site: Mapping[str, str] | None = None,
    shared: bool = False,
    holder: Holder | None = None,
    clock: Callable[[], float] = time.time,
) -> Lease:
    """Record a lease on a testbed; CapacityError naming the holder if there is one already and it is not `shared`.

    `site` and `shared` are the testbed's. The death of the `holder` (default: this process) ends the lease: name the
    harness, or the DAG, where the caller is a short-lived task.
    """
    if not ttl_s > 0:
        raise ConfigurationError(f"lease: ttl_s is {ttl_s}, must be above 0; give the longest time the series may take")
    mine = holder or process_holder(os.getpid())
    if not mine.born:
        raise ConfigurationError(f"lease: its holder, {mine}, does not run; name the process that runs the series")
    now = clock()
    lease = Lease(
        uuid.uuid4().hex[:8], owner, series_id, testbed, now, now + ttl_s, mine.pid, mine.born, dict(site or {}),
        mine.system, now, holder_run=mine.run,
    )  # fmt: skip
    with _lock():
        for other in read_all():
            if other.testbed == testbed and not shared:
                raise CapacityError(in_use_message(other, now))
        _write(lease)
    return lease


def renew(lease: Lease, ttl_s: float, *, clock: Callable[[], float] = time.time) -> Lease:
    """Let the lease end `ttl_s` from now; InfrastructureError if it is gone or its end has begun."""
    with _lock():
        now = clock()
        renewed_lease = replace(_standing(lease.lease_id), expires_s=now + ttl_s, heartbeat_s=now)
        _write(renewed_lease)
    return renewed_lease


def beat(lease_id: str, *, clock: Callable[[], float] = time.time) -> None:
    """Record that the lease's holder lives; InfrastructureError if it is gone or its end has begun."""
    with _lock():
        _write(replace(_standing(lease_id), heartbeat_s=clock()))


def hold(lease: Lease, machines: Iterable[str]) -> None:
    """Record the lease's machines; InfrastructureError if it is gone or its end has begun."""
    with _lock():
        _standing(lease.lease_id)
        replace_file(_machines_path(lease.lease_id), json.dumps(list(machines)))


@contextmanager
def ending(
    lease_id: str, is_over: Callable[[Lease], bool] = lambda _: True, say: Callable[[str], None] | None = None
) -> Iterator[Lease | None]:
    """Yield the lease as it is now, to be released in the block and dropped; None where it is gone, or not over.

    Processes started for it on this box are ended before the block, plays of a killed harness too.
    One at a time: a second process waits, reports the holder to `say`, and finds it gone. A lease that the block does
    not drop keeps the mark. Where the mark cannot be written it is ended all the same: its machines may have filled the
    disk.
    """
    with _lock(f"{lease_id}.ending", ENDING_LIMIT_S, f"ending lease {lease_id}", say):
        with _lock():
            lease = read(lease_id)
            lease = replace(lease, ending=True) if lease is not None and is_over(lease) else None
            if lease is not None:
                try:
                    _write(lease)
                except OSError as error:
                    log.warning("lease %s is ended without its mark: %s", lease_id, error)
        if lease is not None:
            processes.end_marked(lease_id)
        yield lease


def _standing(lease_id: str) -> Lease:
    """Return the lease if it is not ending; call it under the lock."""
    lease = read(lease_id)
    if lease is None or lease.ending:
        what = f"lease {lease_id}" if lease is None else f"lease {lease_id} on {lease.testbed}"
        raise InfrastructureError(
            f"{what} {'is gone' if lease is None else 'is being ended'}, its machines too (released or reaped);"
            " start again"
        )
    return lease


def let_go(lease: Lease, machines: Collection[str]) -> None:
    """Record that the lease has these machines no more; InfrastructureError if it is gone or its end has begun."""
    hold(lease, [name for name in lease_machines(lease) if name not in machines])


def hold_nothing(lease: Lease) -> None:
    """Record that the lease has no machine any more; harmless if it is gone itself."""
    _machines_path(lease.lease_id).unlink(missing_ok=True)


def lease_machines(lease: Lease) -> tuple[str, ...]:
    """Return the lease's current machines, in the order in which they were acquired."""
    try:
        return tuple(json.loads(_machines_path(lease.lease_id).read_text()))
    except FileNotFoundError:
        return ()


def require_new(lease: Lease, has_machines: object) -> None:
    """Raise an error where the lease is gone or ends, because nobody would release what it acquires; or where it has
    machines (`has_machines`: as the testbed finds), because it acquires once."""
    current = read(lease.lease_id)
    if current is None or current.ending:
        raise InfrastructureError(f"lease {lease.lease_id} is not on record (released or reaped); take a new one")
    if has_machines:
        raise ConfigurationError(f"lease {lease.lease_id} holds machines already; release it before it acquires others")


def refuse_names_in_use(lease: Lease, machines: Iterable[str]) -> None:
    """Raise ConfigurationError where the lease already has a machine with one of these names."""
    if duplicates := sorted(set(machines) & set(lease_machines(lease))):
        raise ConfigurationError(
            f"lease {lease.lease_id} has {', '.join(duplicates)} already; give new machines names of their own"
        )


def drop(lease: Lease) -> None:
    """Forget the lease and its keys; nothing happens if that was done before."""
    with _lock():
        shutil.rmtree(key_dir(lease.lease_id), ignore_errors=True)
        _machines_path(lease.lease_id).unlink(missing_ok=True)
        lease_file(lease.lease_id).unlink(missing_ok=True)
        lease_file(lease.lease_id).with_suffix(".ending").unlink(missing_ok=True)  # last: a waiting process finds none


def read(lease_id: str) -> Lease | None:
    """Return the lease of that id as it is on record now."""
    return _read(lease_file(lease_id))


def read_all() -> tuple[Lease, ...]:
    """Return every lease on record, live or not, by id; a damaged file stops none of the others (`damaged`)."""
    return _read_every()[0]


def damaged() -> dict[str, str]:
    """Return for each lease whose file cannot be read what is wrong with it."""
    return _read_every()[1]


def _read_every() -> tuple[tuple[Lease, ...], dict[str, str]]:
    leases, errors = [], {}
    for path in sorted((state_dir() / "leases").glob("*.json")):
        try:
            lease = _read(path)
        except InfrastructureError as error:
            errors[path.stem] = str(error)
        else:
            leases += [lease] if lease is not None else []
    return tuple(leases), errors


def ids_on_record() -> set[str]:
    """Return the ids of every lease, also of one whose file is damaged: its machines may be at work."""
    return {path.stem for path in (state_dir() / "leases").glob("*.json")}


def ownerless(lease_ids: Iterable[str]) -> list[str]:
    """Return those that are not on record. They are listed before the leases are read: a lease is on record before it
    has anything."""
    return sorted(set(lease_ids) - ids_on_record())


def lease_file(lease_id: str) -> Path:
    return state_dir() / "leases" / f"{lease_id}.json"


def _machines_path(lease_id: str) -> Path:
    return state_dir() / "leases" / f"{lease_id}.machines"


def _read(path: Path) -> Lease | None:
    try:
        return _LEASES.validate_json(path.read_text())
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InfrastructureError(
            f"{path}: not a lease ({reason}); remove the file, then `barograph reap` removes its machines"
        ) from error


def _write(lease: Lease) -> None:
    replace_file(lease_file(lease.lease_id), json.dumps(asdict(lease), indent=1))


def tidy() -> None:
    """Remove partial files of a process that died while it wrote or dropped a lease."""
    with _lock():  # files are written under the lock, so these are remains
        folder = state_dir() / "leases"
        marks = [path for path in folder.glob("*.ending*") if not lease_file(path.name.partition(".")[0]).exists()]
        for remnant in (*folder.glob("*.partial"), *marks):
            remnant.unlink(missing_ok=True)


@contextmanager
def _lock(
    name: str = ".lock",
    limit_s: float = QUICK_S,
    doing: str = "writing leases",
    say: Callable[[str], None] | None = None,
) -> Iterator[None]:
    with ExitStack() as stack:
        with _unwritable_state():
            stack.enter_context(hold_lock(state_dir() / "leases" / name, doing, limit_s, say))
        yield


@contextmanager
def _unwritable_state() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"state folder {state_dir()}: {error.strerror}; run as root or set BAROGRAPH_STATE to a writable folder"
        ) from error


def in_use_message(other: Lease, now: float) -> str:
    """Return why the testbed is refused."""
    holder = f"lease {other.lease_id} of {other.owner} (series {other.series_id}, {other.holder})"
    if is_live(other, now):
        minutes = max(1, round((other.expires_s - now) / 60))
        return f"testbed {other.testbed} is in use: {holder}, for at most {minutes} min more; wait, or stop that run"
    reason = over_reason(other, now)
    return f"testbed {other.testbed} is still held by {holder}: {reason}; free it with `barograph reap`"


def over_reason(lease: Lease, now: float) -> str:
    """Return why a lease is over."""
    if now >= lease.expires_s:
        return "expired"
    if lease.ending:
        return "its release did not succeed yet"
    if lease.holder.is_dead:
        return f"its holder, {lease.holder}, is dead"
    return f"its holder, {lease.holder}, was last heard of {heard_of(lease.heartbeat_s, now)}"


def heard_of(heartbeat_s: float, now: float) -> str:
    ago_min = (now - heartbeat_s) / 60
    return f"{ago_min:.0f} min ago" if ago_min >= -1 else f"{-ago_min:.0f} min after now: the clock was set back"


def harness_id() -> str:
    """Return the id of this state folder, created on the first call; a new folder is another harness."""
    with _unwritable_state():
        return lasting_id(state_dir() / "harness_id")
