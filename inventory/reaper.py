"""Ends what nobody holds any more: expired leases, leases of dead holders, and leftovers without a lease."""

import fcntl
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from inventory import TESTBEDS, leases
from inventory.errors import InventoryError
from inventory.leases import Lease
from inventory.testbed import Roaming, Sweeping, Testbed

log = logging.getLogger(__name__)
LIMIT_S = 600.0  # EC2 needs minutes to end machines and let their group go
Makers = Mapping[str, Callable[..., Testbed]]


@dataclass(frozen=True)
class Reaped:
    """One thing that was released (or would be, in a dry run). `error` says why it could not be, if so.

    `lease` is None for what no lease on record owned.
    """

    testbed: str
    what: str
    why: str
    error: str | None = None
    lease: Lease | None = None


@dataclass
class _Work:
    """What is done on one testbed, in a thread of its own: one that hangs must not keep the others."""

    testbed: str
    done: list[Reaped] = field(default_factory=list)
    thread: threading.Thread | None = None


def reap(
    now: float | None = None,
    dry_run: bool = False,
    testbeds: Makers = TESTBEDS,
    everywhere: bool = False,
    limit_s: float = LIMIT_S,
) -> tuple[Reaped, ...]:
    """Release what is over at `now` (epoch seconds; None: the time it is). Safe beside live leases and other reapers.

    What cannot be released, on a testbed that does not answer within `limit_s` too, is reported with its error and
    stays on record for the next time. `everywhere`: also where this harness has never been.
    """
    moment = time.time() if now is None else now
    with _alone():
        if not dry_run:
            leases.tidy()
        over = [lease for lease in leases.read_all() if not leases.is_live(lease, moment)]
        works = [_begin(name, over, moment, dry_run, testbeds, everywhere) for name in testbeds]
        strangers = [_unknown(lease, moment, testbeds) for lease in over if lease.testbed not in testbeds]
        reaped = [*strangers, *(one for work in works for one in _end_of(work, time.monotonic() + limit_s))]
    for one in reaped:
        log.info("reap%s: %s on %s: %s%s", " (dry run)" * dry_run, one.what, one.testbed, one.why, _suffix(one))
    return tuple(reaped)


def _begin(name: str, over: list[Lease], now: float, dry_run: bool, testbeds: Makers, everywhere: bool) -> _Work:
    work = _Work(name)
    mine = [lease for lease in over if lease.testbed == name]

    def do() -> None:
        try:
            testbed = testbeds[name]()
            for lease in mine:
                work.done.append(_end(lease, now, dry_run, testbed))
            work.done.extend(_sweep(testbed, dry_run, everywhere))
        except Exception as error:
            log.exception("reaping %s", name)
            work.done.append(Reaped(name, "leftovers", "no lease owns it", f"{type(error).__name__}: {error}"))

    # A daemon: what hangs for good ends with this process.
    work.thread = threading.Thread(target=do, name=f"reap {name}", daemon=True)
    work.thread.start()
    return work


def _end_of(work: _Work, deadline: float) -> list[Reaped]:
    assert work.thread is not None
    work.thread.join(max(0.0, deadline - time.monotonic()))
    if not work.thread.is_alive():
        return work.done
    late = "it did not answer in time; see whether it is reachable, then reap again"
    return [*work.done, Reaped(work.testbed, "leases and leftovers", "not all were looked at", late)]


def _end(lease: Lease, now: float, dry_run: bool, testbed: Testbed) -> Reaped:
    what, why = _named(lease), _why(lease, now)
    if dry_run:
        return Reaped(lease.testbed, what, why, lease=lease)
    try:
        testbed.release(lease)
        leases.drop(lease)
    except InventoryError as error:
        return Reaped(lease.testbed, what, why, str(error), lease)
    return Reaped(lease.testbed, what, why, lease=lease)


def _unknown(lease: Lease, now: float, testbeds: Makers) -> Reaped:
    error = f"no testbed {lease.testbed!r}; known are {', '.join(testbeds)}"
    return Reaped(lease.testbed, _named(lease), _why(lease, now), error, lease)


def _named(lease: Lease) -> str:
    return f"lease {lease.lease_id} of {lease.owner} (series {lease.series_id})"


def _why(lease: Lease, now: float) -> str:
    return "expired" if now >= lease.expires_s else f"its holder, process {lease.holder_pid}, is dead"


def _sweep(testbed: Testbed, dry_run: bool, everywhere: bool) -> list[Reaped]:
    why = "no lease owns it"
    try:
        if everywhere and isinstance(testbed, Roaming):
            log.info("%s: looking in %s", testbed.name, ", ".join(testbed.roam()))
        found = testbed.leftovers() if dry_run or not isinstance(testbed, Sweeping) else testbed.sweep()
    except InventoryError as error:
        return [Reaped(testbed.name, "leftovers", why, str(error))]
    return [Reaped(testbed.name, what, why) for what in found]


def _suffix(one: Reaped) -> str:
    return f" FAILED: {one.error}" if one.error else ""


@contextmanager
def _alone() -> Iterator[None]:
    """Two reapers at once would fight over the same remains."""
    folder = leases.state_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".reap.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
