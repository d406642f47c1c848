"""The ec2 testbed on the test cloud's control plane: no machines, so whoever asks whether one answers is told so."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inventory.ec2.launch import ReadinessCheck
from inventory.ec2.options import Ec2Timing
from inventory.ec2.testbed import Ec2Testbed
from inventory.leases import registry
from inventory.machines import MachineRequest, machine_type
from tests.support.cloud.cloud import Cloud
from tests.support.cloud.trouble import Trouble

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import InstanceTypeDef


MASTER = MachineRequest("master", machine_type("master"))
M1, M2, M3 = (MachineRequest(name, machine_type("type_1")) for name in ("m1", "m2", "m3"))
PACE = Ec2Timing(poll_s=0.05, relist_s=0.1, lag_s=10.0, ready_s=30.0, gone_s=30.0, recalled_s=0.0)


@dataclass
class Site:
    """A harness with a state folder of its own, and the cloud."""

    cloud: Cloud
    state: Path

    def testbed(
        self, readiness_check: ReadinessCheck = lambda _: None, timing: Ec2Timing = PACE, **options: object
    ) -> Ec2Testbed:
        return Ec2Testbed(self.options(**options), readiness_check, timing)

    def options(self, **more: object) -> dict[str, object]:
        return self.cloud.options(ingress_from="192.0.2.7/32", **more)

    def releasing(self) -> Ec2Testbed:
        """As another process has it, which knows the lease's record alone."""
        return Ec2Testbed(timing=PACE)

    def listed(self) -> list["InstanceTypeDef"]:
        """The instances that are there; EC2 also lists those of earlier tests."""
        pages = self.cloud.client.describe_instances(InstanceIds=list(self.cloud.left().instances))["Reservations"]
        return [one for page in pages for one in page["Instances"]]

    def zones(self) -> set[str]:
        return {one["Placement"]["AvailabilityZone"] for one in self.listed()}

    def take(self, testbed: Ec2Testbed | None = None, ttl_s: float = 3600.0) -> registry.Lease:
        site = (testbed or self.testbed()).site()
        return registry.take("somebody@box", "series-1", "ec2", ttl_s, site=site, shared=True)


@pytest.fixture(scope="module")
def cloud(control_plane: Cloud) -> Cloud:
    return control_plane.anew()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder, and nothing of AWS in the environment."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "BAROGRAPH_PRICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    return tmp_path


@pytest.fixture
def site(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BAROGRAPH_STATE", str(tmp_path))
    cloud.expect(Trouble())
    assert not cloud.left(), "an earlier test left something"
    site = Site(cloud, tmp_path)
    yield site
    cloud.expect(Trouble())
    for lease in registry.read_all():
        site.releasing().release(lease)
        registry.drop(lease)
    site.releasing().sweep()
