"""The test cloud itself: a killed one leaves nothing to the next, and one whose test was killed ends by itself."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inventory.local import lan
from tests.support.cloud.cloud import ROOT, Cloud, running, until
from tests.support.cloud.serve import NEWEST_IMAGE, STATE, ZONES

pytestmark = [pytest.mark.integration, pytest.mark.cloud, pytest.mark.long, pytest.mark.timeout(900)]

TEST = """
import sys, time
from tests.support.cloud.cloud import running
with running(machines=True) as cloud:
    print(cloud.ready.endpoint, flush=True)
    time.sleep(3600)
"""


def launch(cloud: Cloud) -> None:
    known = len(cloud.machines())
    cloud.client.run_instances(
        ImageId=NEWEST_IMAGE, InstanceType="c7a.medium", MinCount=1, MaxCount=1, SubnetId=cloud.ready.subnets[ZONES[0]]
    )
    until(lambda: len(cloud.machines()) == known + 1, 120.0, "the instance has a machine")


def remains() -> list[str]:
    """What of emulated machines is under the cloud's state folder or named after its leases."""
    kept = [path for folder in ("leases", "keys", "local") for path in (STATE / folder).glob("[!.]*")]
    links = [path for path in Path("/sys/class/net").glob("b*") if _alias(path) == f"{lan.ALIAS}{STATE}"]
    running_ = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [*map(str, (*kept, *links)), *(line for line in running_.splitlines() if f"{STATE}/" in line)]


def _alias(link: Path) -> str:
    try:
        return (link / "ifalias").read_text().strip()
    except OSError:
        return ""


def test_a_killed_cloud_leaves_nothing_to_the_next() -> None:
    with running(machines=True) as cloud:
        launch(cloud)
        os.kill(cloud.pid, signal.SIGKILL)
    assert remains(), "what kill -9 leaves"
    with running(machines=True) as cloud:
        assert cloud.machines() == ()
        (lease,) = (STATE / "leases").glob("*.json")
        assert not [one for one in remains() if lease.stem not in one]
    assert not remains()


def test_a_cloud_ends_with_the_test_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", TEST], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline().startswith("http")
        process.kill()
    until(lambda: not remains(), 120.0, "the cloud has cleaned up")
