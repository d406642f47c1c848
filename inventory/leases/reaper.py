"""The reaper: ends expired leases, leases of dead holders, those whose release failed, and leftovers without one."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from barograph.errors import BarographError
from inventory import TESTBEDS
from inventory.files import QUICK_S, hold_lock
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.testbed import SupportsRoam, SupportsSweep, Testbed

log = logging.getLogger(__name__)
LIMIT_S = 600.0  # EC2 needs minutes to end machines and release their group
TestbedFactories = Mapping[str, Callable[..., Testbed]]


@dataclass(frozen=True)
class ReapResult:
    """One lease or leftover that was released (or would be, in a dry run). `error` is the reason if that failed.

    `lease` is None for leftovers that no lease on record owned.
    """

    testbed: str
    what: str
    why: str
    error: str | None = None
    lease: Lease | None = None


@dataclass
class _TestbedWork:
    """The reaper's work on one testbed, in a thread of its own: a hanging testbed must not block the others."""

    testbed: str
    done: list[ReapResult] = field(default_factory=list)
    thread: threading.Thread | None = None


def reap(
    now: float | None = None,
    dry_run: bool = False,
    testbeds: TestbedFactories = TESTBEDS,
    everywhere: bool = False,
    limit_s: float = LIMIT_S,
    only: Collection[str] | None = None,
) -> tuple[ReapResult, ...]:
    """Release what is over at `now` (epoch seconds; None: the current time). Safe beside live leases and other reapers.

    A lease that cannot be released, also because its testbed does not answer within `limit_s` of the beginning, is
    reported with its error and stays on record for the next time. `everywhere`: also where this harness has never been.
    `only`: on these testbeds; the others are not waited for.
    """
    moment, deadline = time.time() if now is None else now, time.monotonic() + limit_s
    if not dry_run:
        registry.tidy()
    names = [name for name in testbeds if only is None or name in only]
    over = [lease for lease in registry.read_all() if not registry.is_live(lease, moment)]
    strangers = [lease for lease in over if lease.testbed not in testbeds and only is None]
    works = [_begin(name, over, moment, dry_run, testbeds, everywhere) for name in names]
    reaped = [_unknown_testbed(lease, moment, testbeds) for lease in strangers]
    reaped += [one for work in works for one in _end_of(work, deadline)]
    for one in reaped:
        log.info("reap%s: %s on %s: %s%s", " (dry run)" * dry_run, one.what, one.testbed, one.why, _suffix(one))
    return tuple(reaped)


def _begin(
    name: str, over: list[Lease], now: float, dry_run: bool, testbeds: TestbedFactories, everywhere: bool
) -> _TestbedWork:
    work = _TestbedWork(name)
    leases = [lease for lease in over if lease.testbed == name]

    def do() -> None:
        try:
            testbed = testbeds[name]()
            # Two reapers at once would fight over the same remains.
            with hold_lock(registry.state_dir() / f".reap-{name}.lock", f"reaping {name}", LIMIT_S + QUICK_S):
                for lease in leases:
                    work.done.extend(_end(lease, now, dry_run, testbed))
                work.done.extend(_sweep(testbed, dry_run, everywhere))
        except Exception as error:
            log.exception("reaping %s", name)
            work.done.append(ReapResult(name, "leftovers", "no lease owns it", f"{type(error).__name__}: {error}"))

    # A daemon: a thread that hangs ends with this process.
    work.thread = threading.Thread(target=do, name=f"reap {name}", daemon=True)
    work.thread.start()
    return work


def _end_of(work: _TestbedWork, deadline: float) -> list[ReapResult]:
    assert work.thread is not None
    work.thread.join(max(0.0, deadline - time.monotonic()))
    if not work.thread.is_alive():
        return work.done
    message = "it did not answer in time; see whether it is reachable, then reap again"
    return [*work.done, ReapResult(work.testbed, "leases and leftovers", "not all were looked at", message)]


def _end(lease: Lease, now: float, dry_run: bool, testbed: Testbed) -> list[ReapResult]:
    """End the lease; no result if it was renewed, or ended by its holder, since it was listed."""
    what, why = _lease_name(lease), registry.over_reason(lease, now)
    if dry_run:
        return [ReapResult(lease.testbed, what, why, lease=lease)]
    try:
        with registry.ending(lease.lease_id, lambda current: not registry.is_live(current, now)) as current:
            if current is None:
                return []
            testbed.release(current)
            registry.drop(current)
    except Exception as error:  # a bug must not block the other leases
        is_known = isinstance(error, BarographError)
        log.info("releasing lease %s", lease.lease_id, exc_info=not is_known)
        return [
            ReapResult(lease.testbed, what, why, str(error) if is_known else f"{type(error).__name__}: {error}", lease)
        ]
    return [ReapResult(lease.testbed, what, why, lease=lease)]


def _unknown_testbed(lease: Lease, now: float, testbeds: TestbedFactories) -> ReapResult:
    error = f"no testbed {lease.testbed!r}; known are {', '.join(testbeds)}"
    return ReapResult(lease.testbed, _lease_name(lease), registry.over_reason(lease, now), error, lease)


def _lease_name(lease: Lease) -> str:
    return f"lease {lease.lease_id} of {lease.owner} (series {lease.series_id})"


def _sweep(testbed: Testbed, dry_run: bool, everywhere: bool) -> list[ReapResult]:
    why = "no lease owns it"
    try:
        if everywhere and isinstance(testbed, SupportsRoam):
            log.info("%s: looking in %s", testbed.name, ", ".join(testbed.roam()))
        names = testbed.leftovers() if dry_run or not isinstance(testbed, SupportsSweep) else testbed.sweep()
    except BarographError as error:
        return [ReapResult(testbed.name, "leftovers", why, str(error))]
    return [ReapResult(testbed.name, what, why) for what in names]


def _suffix(one: ReapResult) -> str:
    return f" FAILED: {one.error}" if one.error else ""
