"""The reaper: ends expired leases, leases of dead holders, those whose release failed, and leftovers without one."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from barograph.errors import BarographError
from inventory import TESTBEDS
from inventory.files import QUICK_S, hold_lock
from inventory.leases import registry
from inventory.leases.holder import HEARTBEAT_BOUND_S, HEARTBEAT_S
from inventory.leases.registry import Lease
from inventory.testbed import SupportsRoam, SupportsSweep, Testbed

log = logging.getLogger(__name__)
AWAKE_S = 2 * HEARTBEAT_S
LIMIT_S = 600.0  # EC2 needs minutes to end machines and release their group
OWNERLESS = "no lease owns it"
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
    over = _leases_over(moment)
    if not dry_run and only_silent(over, moment) and has_slept():
        time.sleep(AWAKE_S)  # a living holder beats meanwhile
        over = _leases_over(moment + AWAKE_S)
    results: dict[str, list[ReapResult]] = {name: [] for name in testbeds if only is None or name in only}

    def work(name: str) -> None:
        try:
            testbed = testbeds[name]()
            # Two reapers at once would fight over the same remains.
            with hold_lock(registry.state_dir() / f".reap-{name}.lock", f"reaping {name}", LIMIT_S + QUICK_S):
                for lease in over:
                    if lease.testbed == name:
                        results[name].extend(_end(lease, moment, dry_run, testbed))
                results[name].extend(_sweep(testbed, dry_run, everywhere))
        except Exception as error:
            log.exception("reaping %s", name)
            results[name].append(ReapResult(name, "leftovers", OWNERLESS, f"{type(error).__name__}: {error}"))

    # A thread for each, because a hanging testbed must not block the others; a daemon, which ends with this process.
    threads = {name: threading.Thread(target=work, args=(name,), name=f"reap {name}", daemon=True) for name in results}
    for thread in threads.values():
        thread.start()
    reaped = [
        ReapResult("unknown testbed", f"lease {lease_id}", "its file is damaged", error)
        for lease_id, error in (registry.damaged() if only is None else {}).items()
    ]
    for lease in over:
        if lease.testbed not in testbeds and only is None:
            error = f"no testbed {lease.testbed!r}; known are {', '.join(testbeds)}"
            why = registry.over_reason(lease, moment)
            reaped.append(ReapResult(lease.testbed, _lease_name(lease), why, error, lease))
    for name, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        reaped += results[name]
        if thread.is_alive():
            error = "it did not answer in time; see whether it is reachable, then reap again"
            reaped.append(ReapResult(name, "leases and leftovers", "not all were looked at", error))
    for one in reaped:
        failure = f" FAILED: {one.error}" if one.error else ""
        log.info("reap%s: %s on %s: %s%s", " (dry run)" * dry_run, one.what, one.testbed, one.why, failure)
    return tuple(reaped)


def _leases_over(now: float) -> list[Lease]:
    return [lease for lease in registry.read_all() if not registry.is_live(lease, now)]


def only_silent(leases: Collection[Lease], now: float) -> bool:
    """Return whether one of them is over by its silence alone."""
    return any(not (lease.ending or now >= lease.expires_s or lease.holder.is_dead) for lease in leases)


def has_slept() -> bool:
    """Return whether this box was suspended since its boot, which no heartbeat survives."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic() > HEARTBEAT_BOUND_S


def _end(lease: Lease, now: float, dry_run: bool, testbed: Testbed) -> Iterator[ReapResult]:
    """End the lease; no result if it was renewed, or ended by its holder, since it was listed."""
    why, problem = registry.over_reason(lease, now), None
    if not dry_run:
        try:
            with registry.ending(lease.lease_id, lambda current: not registry.is_live(current, now)) as current:
                if current is None:
                    return
                testbed.release(current)
                registry.drop(current)
        except Exception as error:  # a bug must not block the other leases
            is_known = isinstance(error, BarographError)
            log.info("releasing lease %s", lease.lease_id, exc_info=not is_known)
            problem = str(error) if is_known else f"{type(error).__name__}: {error}"
    yield ReapResult(lease.testbed, _lease_name(lease), why, problem, lease)


def _lease_name(lease: Lease) -> str:
    return f"lease {lease.lease_id} of {lease.owner} (series {lease.series_id})"


def _sweep(testbed: Testbed, dry_run: bool, everywhere: bool) -> list[ReapResult]:
    try:
        if everywhere and isinstance(testbed, SupportsRoam):
            log.info("%s: looking in %s", testbed.name, ", ".join(testbed.roam()))
        names = testbed.leftovers() if dry_run or not isinstance(testbed, SupportsSweep) else testbed.sweep()
    except BarographError as error:
        return [ReapResult(testbed.name, "leftovers", OWNERLESS, str(error))]
    return [ReapResult(testbed.name, what, OWNERLESS) for what in names]
