"""The lease of a series and its machines, through its testbed: taken, added, replaced, prolonged, given back; on record
first, in `machines.json`, so that later steps find them. A lease is kept alive while work goes on under it, also while
machines boot and within one long run, but not longer than that work may take.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from analysis.record.files import write_json_atomic
from barograph.errors import BarographError, Say, message_of
from barograph.machines.holdings import note_expiry, note_request, note_return
from barograph.plan import durations
from barograph.series import hold
from barograph.series.series import Series
from barograph.settings import cluster_dir
from barograph.testbeds.checks import machine_requests, testbed_of
from inventory.leases import registry
from inventory.leases.holder import HEARTBEAT_S
from inventory.leases.registry import Lease
from inventory.machines import Machine
from inventory.testbed import SupportsGrow, SupportsProlong, SupportsRecall, Testbed

MACHINES_FILE = "machines.json"


class NoMachines(BarographError):
    """A step needs machines that the series does not hold."""

    blame = "infrastructure"

    def __init__(self, series_dir: Path) -> None:
        super().__init__(f"series {series_dir.name} holds no machines (released or reaped); run it again to resume")


@dataclass(frozen=True)
class LeaseRecord:
    """The content of `machines.json`."""

    lease: Lease
    machines: tuple[Machine, ...]


@cache
def _form() -> TypeAdapter[LeaseRecord]:
    return TypeAdapter(LeaseRecord)


def save_lease(series_dir: Path, lease: Lease, machines: Sequence[Machine]) -> None:
    record = LeaseRecord(lease, tuple(machines))
    write_json_atomic(series_dir / MACHINES_FILE, _form().dump_python(record, mode="json"))


def saved_lease(series_dir: Path) -> Lease | None:
    """Return the lease that the series took last, whether or not it still exists."""
    record = _read_record(series_dir)
    return record.lease if record else None


def current_machines(series_dir: Path) -> tuple[Machine, ...]:
    """Return the machines under the lease. Raises NoMachines where it was released or reaped meanwhile."""
    record = _read_record(series_dir)
    lease = registry.read(record.lease.lease_id) if record else None
    if record is None or lease is None or lease.ending:
        raise NoMachines(series_dir)
    return record.machines


def _read_record(series_dir: Path) -> LeaseRecord | None:
    try:
        return _form().validate_json((series_dir / MACHINES_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:  # of another version, or cut short: the registry has the lease
        log.warning("%s is not readable: %s", series_dir / MACHINES_FILE, message_of(error))
        return None


log = logging.getLogger(__name__)


def acquire(series: Series, testbed: Testbed, lease: Lease) -> tuple[Machine, ...]:
    """Acquire the machines of the start, or none."""
    requests = machine_requests(series.experiment, series.experiment.acquired())
    save_lease(series.folder, lease, ())
    note_request(series.folder, lease, requests, time.time())
    with keep_alive(series, durations.LONGEST_ACQUISITION_S):
        machines = testbed.acquire(lease, requests)
    save_lease(series.folder, lease, machines)
    return machines


def grow(series: Series, names: Sequence[str]) -> tuple[Machine, ...]:
    """Acquire these machines too. Remains with these names, of an interrupted execution, are removed first."""
    testbed, lease = testbed_of(series.experiment.testbed), _current_lease(series.folder)
    assert isinstance(testbed, SupportsGrow), "checked before anything was started"
    if remains := [machine.name for machine in current_machines(series.folder) if machine.name in names]:
        give_back(series, remains)
    requests = machine_requests(series.experiment, names)[1:]
    note_request(series.folder, lease, requests, time.time())
    try:
        new = testbed.grow(lease, requests)
    except BaseException:
        note_return(series.folder, lease, names, time.time())
        raise
    save_lease(series.folder, lease, (*current_machines(series.folder), *new))
    return new


def give_back(series: Series, names: Collection[str]) -> bool:
    """Give machines back; return whether the testbed takes back a part of what it gave."""
    testbed, lease = testbed_of(series.experiment.testbed), _current_lease(series.folder)
    if not isinstance(testbed, SupportsGrow):
        return False
    machines = current_machines(series.folder)
    testbed.give_back(lease, [machine for machine in machines if machine.name in names])
    note_return(series.folder, lease, names, time.time())
    save_lease(series.folder, lease, [machine for machine in machines if machine.name not in names])
    return True


def prolong(series: Series, minutes: float) -> None:
    """Let the lease last `minutes` from now, and tell machines that end themselves."""
    earlier_lease = saved_lease(series.folder)
    if earlier_lease is None:
        return
    lease = registry.renew(earlier_lease, minutes * 60)  # a heartbeat, too
    testbed = testbed_of(series.experiment.testbed)
    if isinstance(testbed, SupportsProlong):
        testbed.prolong(lease, current_machines(series.folder))
    note_expiry(series.folder, lease, time.time())  # last: the disk of results may be full


def recalled(series: Series) -> tuple[str, ...]:
    """Return machines that their owner takes away; none where a testbed does not report them."""
    testbed = testbed_of(series.experiment.testbed)
    if not isinstance(testbed, SupportsRecall):
        return ()
    lease = _current_lease(series.folder)
    try:
        return testbed.recalled(lease)
    except BarographError as error:  # a failed request does not mean a lost machine
        log.warning("asking whether machines are taken away failed: %s", error)
        return ()


def can_replace(series: Series) -> bool:
    return isinstance(testbed_of(series.experiment.testbed), SupportsGrow)


def replace(series: Series, lost: Collection[str]) -> bool:
    """Replace these workers by other machines; False where the testbed cannot, or the master is among them."""
    if "master" in lost or not can_replace(series):
        return False
    log.warning("series %s: replacing %s", series.series_id, ", ".join(sorted(lost)))
    give_back(series, lost)
    grow(series, sorted(lost))
    return True


def release(series_dir: Path, lease: Lease, testbed: Testbed, say: Say | None = None) -> None:
    """Release everything that the lease holds, half acquired or whole; nothing where the reaper has ended it. A failed
    release stays on record, and the reaper's next pass tries again. Where another process is releasing it, `say` says
    which.
    """
    with registry.ending(lease.lease_id, say=say) as current:
        if current is not None:
            testbed.release(current)
            note_return(series_dir, current, None, time.time())
            registry.drop(current)


def _current_lease(series_dir: Path) -> Lease:
    """Return the lease as it is on record now: it may have been prolonged since it was taken."""
    earlier_lease = saved_lease(series_dir)
    lease = registry.read(earlier_lease.lease_id) if earlier_lease else None
    if lease is None or lease.ending:
        raise NoMachines(series_dir)
    return lease


def remove_cluster_files(lease_id: str) -> None:
    """Remove a released cluster's files, its token first."""
    (cluster_dir(lease_id) / "token").unlink(missing_ok=True)
    shutil.rmtree(cluster_dir(lease_id), ignore_errors=True)


RETRY_S = 30.0


@contextmanager
def keep_alive(series: Series, limit_s: float) -> Iterator[None]:
    """Send heartbeats, and prolong the series' machines each third of its lease, for `limit_s` at the most: a hanging
    step must not hold machines. In two threads: machines that do not answer must not stop the heartbeat.
    """
    minutes = series.experiment.lease_minutes
    due_s = time.monotonic()  # at once: a step may begin near the lease's end

    def beat() -> None:
        if (lease := saved_lease(series.folder)) is not None:
            registry.beat(lease.lease_id)

    def prolong_if_due() -> None:
        nonlocal due_s
        if time.monotonic() >= due_s:
            due_s = time.monotonic() + min(RETRY_S, minutes * 60 / 10)  # where it fails
            prolong(series, minutes)
            due_s = time.monotonic() + minutes * 60 / 3

    every_s = min(HEARTBEAT_S, minutes * 60 / 3)
    with (
        hold.heartbeat(beat, "lease heartbeat", every_s, limit_s),
        hold.heartbeat(prolong_if_due, "lease keeper", every_s, limit_s),
    ):
        yield
