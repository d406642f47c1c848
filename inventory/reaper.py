"""Ends what nobody holds any more: expired leases, leases of dead holders, and leftovers without a lease."""

import fcntl
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from inventory import TESTBEDS, leases
from inventory.errors import InventoryError
from inventory.leases import Lease
from inventory.testbed import Sweeping, Testbed

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reaped:
    """One thing that was released (or would be, in a dry run). `error` says why it could not be, if so."""

    testbed: str
    what: str
    why: str
    error: str | None = None


def reap(
    now: float | None = None,
    dry_run: bool = False,
    testbeds: Mapping[str, Callable[..., Testbed]] = TESTBEDS,
) -> tuple[Reaped, ...]:
    """Release what is over at `now` (epoch seconds; None: the time it is). Safe beside live leases and other reapers.

    What cannot be released is reported with its error and stays on record for the next time.
    """
    moment = time.time() if now is None else now
    with _alone():
        reaped = [
            _end(lease, moment, dry_run, testbeds) for lease in leases.read_all() if not leases.is_live(lease, moment)
        ]
        for name, make in testbeds.items():
            reaped += _sweep(name, make(), dry_run)
    for one in reaped:
        log.info("reap%s: %s on %s: %s%s", " (dry run)" * dry_run, one.what, one.testbed, one.why, _suffix(one))
    return tuple(reaped)


def _end(lease: Lease, now: float, dry_run: bool, testbeds: Mapping[str, Callable[..., Testbed]]) -> Reaped:
    why = "expired" if now >= lease.expires_s else f"its holder, process {lease.holder_pid}, is dead"
    what = f"lease {lease.lease_id} of {lease.owner} (series {lease.series_id})"
    if dry_run:
        return Reaped(lease.testbed, what, why)
    if lease.testbed not in testbeds:
        return Reaped(lease.testbed, what, why, f"no testbed {lease.testbed!r}; known are {', '.join(testbeds)}")
    try:
        testbeds[lease.testbed]().release(lease)
        leases.drop(lease)
    except InventoryError as error:
        return Reaped(lease.testbed, what, why, str(error))
    return Reaped(lease.testbed, what, why)


def _sweep(name: str, testbed: Testbed, dry_run: bool) -> list[Reaped]:
    why = "no lease owns it"
    try:
        found = testbed.leftovers() if dry_run or not isinstance(testbed, Sweeping) else testbed.sweep()
    except InventoryError as error:
        return [Reaped(name, "leftovers", why, str(error))]
    return [Reaped(name, what, why) for what in found]


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
