"""Open the series, take the lease, acquire the machines. It cleans up itself: after a failed setup no teardown runs."""

from __future__ import annotations

import getpass
import logging
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from barograph.code.refs import resolve_experiment
from barograph.errors import TestbedTaken
from barograph.machines import holdings, series_lease
from barograph.machines.series_lease import remove_cluster_files
from barograph.plan.checks import check, testbed_of, testbed_without_options
from barograph.plan.costs import cost_lines
from barograph.plan.experiment import Experiment, TestbedChoice, load, with_changes
from barograph.series.interruption import STOP_FILE, step
from barograph.series.progress import ProgressFile
from barograph.series.series import open_series, unfinished_series
from barograph.series.variant_code import prepare_code
from barograph.settings import holder_pid
from inventory import TESTBEDS
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.testbed import Testbed

log = logging.getLogger(__name__)


def open_requested(name: str, changes: Mapping[str, Any], *, new: bool) -> Path:
    """Validate what was asked for and open its series. Nothing is started."""
    experiment = resolve_experiment(with_changes(load(name), changes))
    check(experiment)
    require_free_testbed(experiment)
    prepare_code(experiment, log.info)
    cost = holdings.estimate_cost(experiment, new=new)
    for line in cost_lines(cost) if cost else ():
        log.info("%s", line)
    return open_series(experiment, new=new, estimate=cost.as_data() if cost else None).folder


def require_free_testbed(experiment: Experiment) -> None:
    """A second run must not even open a series that somebody is writing; where a testbed is shared, only that one."""
    leases = [lease for lease in registry.read_all() if lease.testbed == experiment.testbed.name]
    if testbed_of(experiment.testbed).shared:
        mine = unfinished_series(experiment)
        leases = [lease for lease in leases if mine is not None and lease.series_id == mine.series_id]
    now = time.time()
    live = next((lease for lease in leases if registry.is_live(lease, now)), None)
    if live is not None:
        raise _taken_error(live, now)


def _taken_error(live: Lease, now: float) -> TestbedTaken:
    minutes = max(1, round((live.expires_s - now) / 60))
    return TestbedTaken(
        f"testbed {live.testbed} is in use: series {live.series_id} of {live.owner} (process {live.holder_pid}) for"
        f" at most {minutes} min more; wait for it, or end that process"
    )


def provision(series_dir: Path) -> str:
    """All machines of the series, or none; returns the lease's id."""
    _release_earlier(series_dir)
    with step(series_dir) as series:
        experiment, progress = series.experiment, ProgressFile(series_dir)
        testbed = ready_testbed(experiment.testbed)
        progress.tell("phase", phase="provision", expected_s=20)
        lease = registry.take(
            _owner(),
            series.series_id,
            testbed.name,
            experiment.lease_minutes * 60,
            site=testbed.site(),
            shared=testbed.shared,
            holder_pid=holder_pid(),
        )
        try:
            acquired = series_lease.acquire(series, testbed, lease)
        except BaseException:
            series_lease.release(series_dir, lease, testbed)
            raise
        log.info("series %s: %d machines under lease %s", series.series_id, len(acquired), lease.lease_id)
        return lease.lease_id


def _release_earlier(series_dir: Path) -> None:
    """A setup task that is cleared comes twice: what it took the first time must not stay beside the second.

    Clearing interrupts the run that goes on, which asks the series to stop; whoever clears wants it to go on.
    """
    saved = series_lease.saved_lease(series_dir)
    earlier = registry.read(saved.lease_id) if saved else None
    if earlier is None:
        return
    now = time.time()
    if earlier.holder_pid != holder_pid() and registry.is_live(earlier, now):
        raise _taken_error(earlier, now)
    release(series_dir)
    (series_dir / STOP_FILE).unlink(missing_ok=True)


def release(series_dir: Path) -> None:
    """Give the machines back; nothing happens where that was done before."""
    lease = series_lease.saved_lease(series_dir)
    if lease is None or registry.read(lease.lease_id) is None:
        return
    ProgressFile(series_dir).tell("phase", phase="release", expected_s=3)
    series_lease.release(series_dir, lease, testbed_without_options(lease.testbed))
    remove_cluster_files(lease.lease_id)
    log.info("series %s: lease %s released", lease.series_id, lease.lease_id)


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def ready_testbed(choice: TestbedChoice) -> Testbed:
    """A testbed that can acquire: machines on this box mount the software, for others it is built before they cost."""
    testbed = testbed_of(choice)
    if testbed.place == "memory":
        return testbed
    from barograph.software import build_for_machines, mounts

    if testbed.place == "elsewhere":
        build_for_machines(log.info)
        return testbed
    return TESTBEDS[choice.name](mounts=mounts(log.info), options=choice.options.get(choice.name))
