"""The machines of a series, through its testbed: taken, added, replaced, given back; on record first."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from dags.checks import machine_requests
from dags.places import cluster_dir
from dags.series import Series
from dags.steps import tenure
from dags.steps.holdings import note_gone, note_held, note_until
from dags.steps.tenure import NoMachines
from dags.testbeds import testbed_of
from inventory import leases
from inventory.errors import InventoryError
from inventory.leases import Lease
from inventory.machines import Machine, MachineRequest
from inventory.testbed import GivingBack, Growing, Prolonging, Recalling, Testbed

log = logging.getLogger(__name__)


def acquire(series: Series, testbed: Testbed, lease: Lease) -> tuple[Machine, ...]:
    """The machines of the start, or none."""
    requests = machine_requests(series.experiment, series.experiment.acquired())
    tenure.save(series.folder, lease, ())
    note_held(series.folder, lease, requests, time.time())
    machines = testbed.acquire(lease, requests)
    tenure.save(series.folder, lease, machines)
    return machines


def grow(series: Series, names: Sequence[str]) -> tuple[Machine, ...]:
    """These machines too. What an execution that was cut short has left of that name goes first."""
    testbed, lease = testbed_of(series.experiment.testbed), _lease(series.folder)
    assert isinstance(testbed, Growing), "checked before anything was started"
    if stale := [machine.name for machine in tenure.machines_held(series.folder) if machine.name in names]:
        give_back(series, stale)
    requests = _requests(series, names)
    note_held(series.folder, lease, requests, time.time())
    try:
        new = testbed.grow(lease, requests)
    except BaseException:
        note_gone(series.folder, lease, names, time.time())
        raise
    tenure.save(series.folder, lease, (*tenure.machines_held(series.folder), *new))
    return new


def give_back(series: Series, names: Collection[str]) -> bool:
    """Whether the testbed takes back a part of what it gave."""
    testbed, lease = testbed_of(series.experiment.testbed), _lease(series.folder)
    if not isinstance(testbed, GivingBack):
        return False
    machines = tenure.machines_held(series.folder)
    testbed.give_back(lease, [machine for machine in machines if machine.name in names])
    note_gone(series.folder, lease, names, time.time())
    tenure.save(series.folder, lease, [machine for machine in machines if machine.name not in names])
    return True


def prolong(series: Series, minutes: float) -> None:
    """From now on the lease lasts `minutes`, and machines that end themselves hear of it."""
    saved = tenure.saved_lease(series.folder)
    if saved is None:
        return
    lease = leases.renew(saved, minutes * 60)
    note_until(series.folder, lease, time.time())
    testbed = testbed_of(series.experiment.testbed)
    if isinstance(testbed, Prolonging):
        testbed.prolong(lease, tenure.machines_held(series.folder))


def recalled(series: Series) -> tuple[str, ...]:
    """Machines that their owner takes away; none where a testbed does not say so."""
    testbed = testbed_of(series.experiment.testbed)
    if not isinstance(testbed, Recalling):
        return ()
    lease = _lease(series.folder)
    try:
        return testbed.recalled(lease)
    except InventoryError as error:  # an interface that cannot be asked now is no machine that is lost
        log.warning("asking whether machines are taken away failed: %s", error)
        return ()


def can_replace(series: Series) -> bool:
    testbed = testbed_of(series.experiment.testbed)
    return isinstance(testbed, Growing) and isinstance(testbed, GivingBack)


def replace(series: Series, lost: Collection[str]) -> bool:
    """Other machines in the place of these workers; False where the testbed cannot, or the master is among them."""
    if "master" in lost or not can_replace(series):
        return False
    log.warning("series %s: replacing %s", series.series_id, ", ".join(sorted(lost)))
    give_back(series, lost)
    grow(series, sorted(lost))
    return True


def release(series_dir: Path, lease: Lease, testbed: Testbed) -> None:
    """Everything that the lease holds, half acquired or whole."""
    testbed.release(lease)
    note_gone(series_dir, lease, None, time.time())
    leases.drop(lease)


def _lease(series_dir: Path) -> Lease:
    """As it is on record now: it may have been prolonged since it was taken."""
    saved = tenure.saved_lease(series_dir)
    lease = leases.read(saved.lease_id) if saved else None
    if lease is None:
        raise NoMachines(f"series {series_dir.name} holds no machines (released or reaped); run it again to resume")
    return lease


def _requests(series: Series, names: Sequence[str]) -> tuple[MachineRequest, ...]:
    return machine_requests(series.experiment, names)[1:]


def forget(lease_id: str) -> None:
    """Remove a released cluster's files, its token first."""
    (cluster_dir(lease_id) / "token").unlink(missing_ok=True)
    shutil.rmtree(cluster_dir(lease_id), ignore_errors=True)
