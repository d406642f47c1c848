"""One testbed each, with a state folder of its own: what the contract tests run on."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from barograph.errors import InfrastructureError
from inventory import TESTBEDS
from inventory.ec2.options import Ec2Timing
from inventory.ec2.testbed import Ec2Testbed
from inventory.existing.testbed import ExistingTestbed
from inventory.leases import registry
from inventory.leases.reaper import reap
from inventory.local import lan
from inventory.local.testbed import LocalTestbed
from inventory.machines import Machine, MachineRequest, MachineType
from inventory.remote.ssh import Remote, connect
from inventory.simulated import SimulatedTestbed
from inventory.testbed import Testbed as AnyTestbed  # pytest collects what is called Test…
from tests.support.cloud.cloud import running
from tests.support.emulab.world import world
from tests.support.existing.lab import Lab, lab
from tests.support.fakes.testbed import FakeTestbed
from tests.support.short_folder import short_folder

SMALL = MachineType("small", cores=0.5, memory_mb=256, bandwidth_mbit=100, slots=1)
WANTED = (MachineRequest("master", SMALL), MachineRequest("m1", SMALL))
M2, M3 = MachineRequest("m2", SMALL), MachineRequest("m3", SMALL)


def _broken_local(folder: Path) -> AnyTestbed:
    (folder / "empty").mkdir()
    return LocalTestbed(root=folder / "empty")  # nothing to start in there


class Spoiled(ExistingTestbed):
    """On its second machine the claim cannot be written."""

    def __init__(self, there: Lab) -> None:
        super().__init__(there.options)
        self._there = there

    def acquire(self, lease: registry.Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        self._there.sh("m1", "rm -rf /var/lib/barograph-guard; touch /var/lib/barograph-guard")
        try:
            return super().acquire(lease, requests)
        finally:
            self._there.sh("m1", "rm -f /var/lib/barograph-guard")


SILENCE_S = 3.0  # after which a machine without power is known to be silent


@dataclass
class Site:
    """One testbed with a state folder of its own, and how to get one that fails while it acquires."""

    testbed: AnyTestbed
    broken: Callable[[Path], AnyTestbed]

    def take(self, ttl_s: float = 300.0) -> registry.Lease:
        testbed = self.testbed
        return registry.take("contract test", "series", testbed.name, ttl_s, site=testbed.site(), shared=testbed.shared)

    def connect(self, machine: Machine) -> Remote:
        if isinstance(self.testbed, FakeTestbed):
            return self.testbed.connect(machine)
        if self.testbed.place == "memory":
            pytest.skip(f"{self.testbed.name} does not connect to its machines")
        return connect(machine)


@contextmanager
def taken(site: Site, requests: Sequence[MachineRequest]) -> Iterator[tuple[registry.Lease, tuple[Machine, ...]]]:
    """Machines of a lease of their own."""
    lease = site.take()
    yield lease, site.testbed.acquire(lease, requests)
    site.testbed.release(lease)
    registry.drop(lease)


def gone(site: Site, machine: Machine) -> bool:
    """Whether the machine does not answer; its keys may be gone too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inventory.remote.ssh.REACH_TIMEOUT_S", SILENCE_S)
        try:
            site.connect(machine).close()
        except (InfrastructureError, FileNotFoundError):
            return True
    return False


@contextmanager
def opened(name: str) -> Iterator[Site]:
    """The testbed, as long as the block lasts; what the tests leave is reaped."""
    with short_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_STATE", str(folder))
        # Ranges of the tests' own, so that a run that is going on is not in the way.
        patch.setenv(lan.CONTROL[0], "10.215.0.0/24")
        patch.setenv(lan.EXPERIMENT[0], "10.216.0.0/24")
        with _kind(name).open(folder) as made:
            yield made
            reap(now=time.time() + 1e6, testbeds={made.testbed.name: lambda: made.testbed})


@contextmanager
def local_site(folder: Path) -> Iterator[Site]:
    yield Site(LocalTestbed(), _broken_local)


@contextmanager
def ec2_site(folder: Path) -> Iterator[Site]:
    with running(machines=True, cores=SMALL.cores) as cloud, pytest.MonkeyPatch.context() as patch:
        for variable, value in cloud.environment().items():
            patch.setenv(variable, value)
        options = cloud.options(instance_types={SMALL.name: "c7a.medium"})
        yield Site(Ec2Testbed(options), lambda _folder: Ec2Testbed(options, timing=Ec2Timing(ready_s=0)))


@contextmanager
def existing_site(folder: Path) -> Iterator[Site]:
    with lab(folder / "lab", (*WANTED, M2, M3)) as there:
        yield Site(there.testbed(), lambda _folder: Spoiled(there))


@contextmanager
def emulab_site(folder: Path, access: str) -> Iterator[Site]:
    with world(access, folder) as there:
        yield Site(there.testbed(), lambda _folder: there.broken())


@contextmanager
def fake_site(folder: Path) -> Iterator[Site]:
    yield Site(FakeTestbed(), lambda _folder: FakeTestbed(fails_at="m1"))


@contextmanager
def simulated_site(folder: Path) -> Iterator[Site]:
    yield Site(SimulatedTestbed(), lambda _folder: SimulatedTestbed(fails_at="m1"))


@dataclass(frozen=True)
class SiteKind:
    """`open` gets an empty folder; `testbed` is its name in TESTBEDS; `marks`: where it starts machines on this box."""

    testbed: str
    open: Callable[[Path], AbstractContextManager[Site]]
    marks: tuple[pytest.MarkDecorator, ...] = ()


SITES: dict[str, SiteKind] = {
    "local": SiteKind("local", local_site, (pytest.mark.integration,)),
    "fake": SiteKind("fake", fake_site),
    "simulated": SiteKind("simulated", simulated_site),
    "ec2": SiteKind("ec2", ec2_site, (pytest.mark.integration, pytest.mark.cloud)),
    "existing": SiteKind("existing", existing_site, (pytest.mark.integration,)),
    "emulab portal": SiteKind("emulab", partial(emulab_site, access="portal")),
    "emulab classic": SiteKind("emulab", partial(emulab_site, access="classic")),
}


def _kind(name: str) -> SiteKind:
    if name not in SITES:
        pytest.fail(f"testbed {name} of TESTBEDS has no site: add one to SITES in tests/contract/sites.py")
    return SITES[name]


WITHOUT_SITE = sorted(set(TESTBEDS) - {kind.testbed for kind in SITES.values()})
EVERY = [*(pytest.param(name, marks=kind.marks) for name, kind in SITES.items()), *WITHOUT_SITE]
