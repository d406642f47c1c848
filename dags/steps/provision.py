"""Open the series, take the lease, acquire the machines. It cleans up itself: after a failed setup no teardown runs."""

from __future__ import annotations

import getpass
import logging
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dags.checks import check, machine_requests
from dags.errors import TestbedTaken
from dags.experiment import Experiment, load
from dags.progress import ProgressFile
from dags.request import requested
from dags.series import open_series
from dags.steps import tenure
from dags.steps.series_steps import step
from dags.steps.storm_cluster import forget
from dags.testbeds import equipped, releasing, testbed_of
from inventory import leases

log = logging.getLogger(__name__)


def open_requested(name: str, changes: Mapping[str, Any], *, new: bool) -> Path:
    """Validate what was asked for and open its series. Nothing is started."""
    experiment = requested(load(name), changes)
    check(experiment)
    refuse_if_taken(experiment)
    return open_series(experiment, new=new).folder


def refuse_if_taken(experiment: Experiment) -> None:
    """A second run must not even open a series that somebody is writing."""
    now = time.time()
    held = [lease for lease in leases.read_all() if lease.testbed == experiment.testbed.name]
    live = next((lease for lease in held if leases.is_live(lease, now)), None)
    if live is not None and not testbed_of(experiment.testbed).shared:
        minutes = max(1, round((live.expires_s - now) / 60))
        raise TestbedTaken(
            f"testbed {live.testbed} is in use: series {live.series_id} of {live.owner} (process {live.holder_pid}) for"
            f" at most {minutes} min more; wait for it, or end that process"
        )


def provision(series_dir: Path) -> str:
    """All machines of the series, or none; returns the lease's id."""
    with step(series_dir) as series:
        experiment, progress = series.experiment, ProgressFile(series_dir)
        testbed = equipped(experiment.testbed)
        requests = machine_requests(experiment)
        progress.tell("phase", phase="provision", expected_s=20)
        lease = leases.take(
            _owner(),
            series.series_id,
            testbed.name,
            experiment.lease_minutes * 60,
            site=testbed.site(),
            shared=testbed.shared,
            holder_pid=tenure.holder_pid(),
        )
        try:
            tenure.save(series_dir, lease, ())
            machines = testbed.acquire(lease, requests)
            tenure.save(series_dir, lease, machines)
        except BaseException:
            testbed.release(lease)
            leases.drop(lease)
            raise
        log.info("series %s: %d machines under lease %s", series.series_id, len(machines), lease.lease_id)
        return lease.lease_id


def release(series_dir: Path) -> None:
    """Give the machines back; nothing happens where that was done before."""
    lease = tenure.saved_lease(series_dir)
    if lease is None or leases.read(lease.lease_id) is None:
        return
    ProgressFile(series_dir).tell("phase", phase="release", expected_s=3)
    releasing(lease.testbed).release(lease)
    leases.drop(lease)
    forget(lease.lease_id)
    log.info("series %s: lease %s released", lease.series_id, lease.lease_id)


def _owner() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"
