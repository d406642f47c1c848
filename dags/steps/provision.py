"""Open the series, take the lease, acquire the machines. It cleans up itself: after a failed setup no teardown runs."""

from __future__ import annotations

import getpass
import logging
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dags import money, testbeds
from dags.checks import check
from dags.costs import lines_of
from dags.errors import TestbedTaken
from dags.experiment import Experiment, TestbedChoice, load
from dags.places import holder_pid
from dags.progress import ProgressFile
from dags.request import requested
from dags.series import open_series, resumable
from dags.sources.prepare import prepare as prepare_code
from dags.sources.refs import resolved
from dags.steps import machines, tenure
from dags.steps.interruption import STOP_FILE, step
from dags.steps.machines import forget
from dags.testbeds import releasing, testbed_of
from inventory import TESTBEDS, leases
from inventory.leases import Lease
from inventory.testbed import Testbed

log = logging.getLogger(__name__)


def open_requested(name: str, changes: Mapping[str, Any], *, new: bool) -> Path:
    """Validate what was asked for and open its series. Nothing is started."""
    experiment = resolved(requested(load(name), changes))
    check(experiment)
    refuse_if_taken(experiment)
    prepare_code(experiment, log.info)
    cost = money.foreseen(experiment, new=new)
    for line in lines_of(cost) if cost else ():
        log.info("%s", line)
    return open_series(experiment, new=new, estimate=cost.as_data() if cost else None).folder


def refuse_if_taken(experiment: Experiment) -> None:
    """A second run must not even open a series that somebody is writing; where a testbed is shared, only that one."""
    held = [lease for lease in leases.read_all() if lease.testbed == experiment.testbed.name]
    if testbed_of(experiment.testbed).shared:
        mine = resumable(experiment)
        held = [lease for lease in held if mine is not None and lease.series_id == mine.series_id]
    now = time.time()
    live = next((lease for lease in held if leases.is_live(lease, now)), None)
    if live is not None:
        raise _taken(live, now)


def _taken(live: Lease, now: float) -> TestbedTaken:
    minutes = max(1, round((live.expires_s - now) / 60))
    return TestbedTaken(
        f"testbed {live.testbed} is in use: series {live.series_id} of {live.owner} (process {live.holder_pid}) for"
        f" at most {minutes} min more; wait for it, or end that process"
    )


def provision(series_dir: Path) -> str:
    """All machines of the series, or none; returns the lease's id."""
    _end_earlier(series_dir)
    with step(series_dir) as series:
        experiment, progress = series.experiment, ProgressFile(series_dir)
        testbed = equipped(experiment.testbed)
        progress.tell("phase", phase="provision", expected_s=20)
        lease = leases.take(
            _owner(),
            series.series_id,
            testbed.name,
            experiment.lease_minutes * 60,
            site=testbed.site(),
            shared=testbed.shared,
            holder_pid=holder_pid(),
        )
        try:
            acquired = machines.acquire(series, testbed, lease)
        except BaseException:
            machines.release(series_dir, lease, testbed)
            raise
        log.info("series %s: %d machines under lease %s", series.series_id, len(acquired), lease.lease_id)
        return lease.lease_id


def _end_earlier(series_dir: Path) -> None:
    """A setup task that is cleared comes twice: what it took the first time must not stay beside the second.

    Clearing interrupts the run that goes on, which asks the series to stop; whoever clears wants it to go on.
    """
    saved = tenure.saved_lease(series_dir)
    earlier = leases.read(saved.lease_id) if saved else None
    if earlier is None:
        return
    now = time.time()
    if earlier.holder_pid != holder_pid() and leases.is_live(earlier, now):
        raise _taken(earlier, now)
    release(series_dir)
    (series_dir / STOP_FILE).unlink(missing_ok=True)


def release(series_dir: Path) -> None:
    """Give the machines back; nothing happens where that was done before."""
    lease = tenure.saved_lease(series_dir)
    if lease is None or leases.read(lease.lease_id) is None:
        return
    ProgressFile(series_dir).tell("phase", phase="release", expected_s=3)
    machines.release(series_dir, lease, releasing(lease.testbed))
    forget(lease.lease_id)
    log.info("series %s: lease %s released", lease.series_id, lease.lease_id)


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def equipped(choice: TestbedChoice) -> Testbed:
    """A testbed that can acquire: emulated machines mount the software, for others it is built before they cost."""
    if choice.name in testbeds.IN_MEMORY:
        return testbed_of(choice)
    from dags.software import for_machines, mounts

    if choice.name != "local":
        for_machines(log.info)
        return testbed_of(choice)
    return TESTBEDS[choice.name](mounts=mounts(log.info), options=choice.options.get(choice.name))
