"""A harness beside the test cloud: one cloud for a module, a state folder of its own, and AWS' own variables."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.ec2.testbed import Ec2Testbed
from inventory.leases.reaper import reap
from tests.support.cloud.cloud import Cloud, running
from tests.support.cloud.trouble import Trouble
from tests.support.short_folder import short_folder

CORES = 0.45  # of each instance: what begins on one waits for its quota, and these tests have four at most


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with running(machines=True, cores=CORES) as one:
        yield one


@pytest.fixture
def harness(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state folder of a harness that uses the cloud; what a test leaves is reaped, and nothing may stay."""
    with short_folder() as folder:
        monkeypatch.setenv("BAROGRAPH_STATE", str(folder))
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        yield folder
        cloud.expect(Trouble())
        reap(now=time.time() + 1e6, testbeds={"ec2": Ec2Testbed})
        assert not cloud.left()
