"""The registry of leases: who holds which testbed until when, one JSON file each; and the id of this harness.

The file is written before the first machine exists and removed after the last one is gone, so whatever a killed
harness leaves behind is either named by a lease or has a name that no lease owns. Beside it stands, as
`<lease>.machines`, which machines the lease has: a part of them may be given back before its end.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path

from filelock import FileLock

from inventory.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.files import replace_file

DEFAULT_STATE = Path("/var/lib/barograph")


@dataclass(frozen=True)
class Lease:
    """The right to a testbed's machines until `expires_s` (epoch seconds), as long as its holder lives.

    `holder_start` names the holder's birth (boot id and clock ticks), so a reused pid is no holder.
    """

    lease_id: str
    owner: str
    series_id: str
    testbed: str
    acquired_s: float
    expires_s: float
    holder_pid: int
    holder_start: str
    site: Mapping[str, str] = field(
        default_factory=dict
    )  # what the testbed needs to find the machines (`Testbed.site`)


def state_dir() -> Path:
    """Where leases, keys and emulated machines live: $BAROGRAPH_STATE or /var/lib/barograph."""
    return Path(os.environ.get("BAROGRAPH_STATE") or DEFAULT_STATE).absolute()


def key_dir(lease_id: str, state: Path | None = None) -> Path:
    """The folder of a lease's ssh keys (0700)."""
    return (state or state_dir()) / "keys" / lease_id


def process_start(pid: int) -> str:
    """When the process was born: boot id and clock ticks since boot; empty if there is no such process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # A zombie holds nothing: it is dead and only waits for its parent.
    return "" if after_name[0] in "ZX" else f"{boot}/{after_name[19]}"


def holder_alive(lease: Lease) -> bool:
    """Whether the very process that holds the lease still runs on this box."""
    return lease.holder_start != "" and process_start(lease.holder_pid) == lease.holder_start


def is_live(lease: Lease, now: float) -> bool:
    """Whether the lease has neither expired nor lost its holder."""
    return now < lease.expires_s and holder_alive(lease)


def take(
    owner: str,
    series_id: str,
    testbed: str,
    ttl_s: float,
    *,
    site: Mapping[str, str] | None = None,
    shared: bool = False,
    holder_pid: int | None = None,
    clock: Callable[[], float] = time.time,
) -> Lease:
    """Record a lease on a testbed; CapacityError naming the holder if there is one already and it is not `shared`.

    `site` and `shared` are the testbed's. `holder_pid` (default: this process) is the process whose death ends the
    lease: name the harness where the caller is a short-lived task.
    """
    if not ttl_s > 0:
        raise ConfigurationError(f"lease: ttl_s is {ttl_s}, must be above 0; give the longest time the series may take")
    pid = os.getpid() if holder_pid is None else holder_pid
    start = process_start(pid)
    if not start:
        raise ConfigurationError(
            f"lease: holder_pid {pid} is no running process; name the process that runs the series"
        )
    now = clock()
    lease = Lease(uuid.uuid4().hex[:8], owner, series_id, testbed, now, now + ttl_s, pid, start, dict(site or {}))
    with _lock():
        for other in read_all():
            if other.testbed == testbed and not shared:
                raise CapacityError(_in_use_message(other, now))
        _write(lease)
    return lease


def renew(lease: Lease, ttl_s: float, *, clock: Callable[[], float] = time.time) -> Lease:
    """Let the lease end `ttl_s` from now; InfrastructureError if the reaper took it already."""
    later = replace(lease, expires_s=clock() + ttl_s)
    with _lock():
        if not _path(lease.lease_id).exists():
            raise InfrastructureError(_gone_message(lease))
        _write(later)
    return later


def hold(lease: Lease, machines: Iterable[str]) -> None:
    """Record which machines the lease has from now on; InfrastructureError if the reaper took it already."""
    with _lock():
        if not _path(lease.lease_id).exists():
            raise InfrastructureError(_gone_message(lease))
        replace_file(_machines_path(lease.lease_id), json.dumps(list(machines)))


def hold_nothing(lease: Lease) -> None:
    """Record that the lease has no machine any more; harmless if it is gone itself."""
    _machines_path(lease.lease_id).unlink(missing_ok=True)


def lease_machines(lease: Lease) -> tuple[str, ...]:
    """The machines that the lease has now, in the order in which they were acquired."""
    try:
        return tuple(json.loads(_machines_path(lease.lease_id).read_text()))
    except FileNotFoundError:
        return ()


def require_on_record(lease: Lease) -> None:
    """InfrastructureError where the lease is gone: what it would acquire, nobody would release."""
    if read(lease.lease_id) is None:
        raise InfrastructureError(f"lease {lease.lease_id} is not on record (released or reaped); take a new one")


def require_empty(lease: Lease, has_machines: object) -> None:
    """ConfigurationError where the lease has machines: it acquires once. `has_machines`: what the testbed finds."""
    if has_machines:
        raise ConfigurationError(f"lease {lease.lease_id} holds machines already; release it before it acquires others")


def refuse_names_in_use(lease: Lease, machines: Iterable[str]) -> None:
    """ConfigurationError where the lease has a machine of one of these names already."""
    if again := sorted(set(machines) & set(lease_machines(lease))):
        raise ConfigurationError(
            f"lease {lease.lease_id} has {', '.join(again)} already; give new machines names of their own"
        )


def drop(lease: Lease) -> None:
    """Forget the lease and its keys; nothing happens if that was done before."""
    with _lock():
        shutil.rmtree(key_dir(lease.lease_id), ignore_errors=True)
        _machines_path(lease.lease_id).unlink(missing_ok=True)
        _path(lease.lease_id).unlink(missing_ok=True)


def read(lease_id: str) -> Lease | None:
    """The lease of that id as it is on record now."""
    return _read(_path(lease_id))


def read_all() -> tuple[Lease, ...]:
    """Every lease on record, live or not, by id."""
    found = (_read(path) for path in sorted((state_dir() / "leases").glob("*.json")))
    return tuple(lease for lease in found if lease is not None)


def _path(lease_id: str) -> Path:
    return state_dir() / "leases" / f"{lease_id}.json"


def _machines_path(lease_id: str) -> Path:
    return state_dir() / "leases" / f"{lease_id}.machines"


def _read(path: Path) -> Lease | None:
    try:
        data = json.loads(path.read_text())
        known = {each.name: each for each in fields(Lease)}
        missing = [name for name, each in known.items() if name not in data and each.default_factory is MISSING]
        if missing:
            raise KeyError(*missing)
        return Lease(**{name: data[name] for name in known if name in data})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(
            f"{path}: not a lease ({error!r}); remove the file, then `barograph reap` removes its machines"
        ) from error


def _write(lease: Lease) -> None:
    replace_file(_path(lease.lease_id), json.dumps(asdict(lease), indent=1))


def tidy() -> None:
    """Remove what a process that died while it wrote a lease left half written."""
    with _lock():  # they are written under the lock: whoever has it looks at remains
        for stale in (state_dir() / "leases").glob("*.partial"):
            stale.unlink(missing_ok=True)


@contextmanager
def _lock() -> Iterator[None]:
    try:
        lock = FileLock(state_dir() / "leases" / ".lock").acquire()
    except OSError as error:
        raise ConfigurationError(
            f"state folder {state_dir()}: {error.strerror}; run as root or set BAROGRAPH_STATE to a writable folder"
        ) from error
    with lock:
        yield


def _gone_message(lease: Lease) -> str:
    return f"lease {lease.lease_id} on {lease.testbed} is gone, its machines too (released or reaped); start again"


def _in_use_message(other: Lease, now: float) -> str:
    holder = f"lease {other.lease_id} of {other.owner} (series {other.series_id}, process {other.holder_pid})"
    if is_live(other, now):
        minutes = max(1, round((other.expires_s - now) / 60))
        return f"testbed {other.testbed} is in use: {holder}, for at most {minutes} min more; wait, or stop that run"
    why = "has expired" if holder_alive(other) else "was left by a run that died"
    return f"testbed {other.testbed} is still held: {holder} {why}; free it with `barograph reap`"


def harness_id() -> str:
    """The id of this state folder, made when it is first asked for; who loses the folder is another harness."""
    path = state_dir() / "harness_id"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            mine = path.with_name(f".harness_id.{os.getpid()}.{uuid.uuid4().hex[:8]}")
            mine.write_text(uuid.uuid4().hex)
            try:
                os.link(mine, path)  # the first one wins; everybody reads what it wrote
            except FileExistsError:
                pass
            finally:
                mine.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            f"state folder {path.parent}: {error.strerror}; run as root or set BAROGRAPH_STATE to a writable folder"
        ) from error
