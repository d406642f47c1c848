"""A cluster of Storm on emulated machines, deployed as an experiment does it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from barograph.policy_service import HttpService, ServiceUnreachable
from barograph.software import mounts, storm_home
from inventory.leases import registry
from inventory.leases.reaper import reap
from inventory.local import lan
from inventory.local.testbed import LocalTestbed
from inventory.machines import MACHINE_TYPES, Machine, MachineRequest
from inventory.remote.ansible_inventory import write_ansible_inventory
from inventory.remote.ssh import Remote, connect
from playbooks import cluster
from scheduler_plugins.service.run_snapshot import RunSnapshot
from tests.support.short_folder import short_folder

LEASE_S = 1800.0
WORKERS, JOINING = ("m1", "m2", "m3"), ("m3",)
CORES = 0.5  # of each worker: three of them and the master have what two cores can give
MASTER = MachineRequest("master", MACHINE_TYPES["master"])


@dataclass(frozen=True)
class Site:
    machines: dict[str, Machine]
    inventory: Path
    directory: Path
    home: Path
    testbed: LocalTestbed

    def run(self, machine: str, *argv: str) -> str:
        with self.connect(self.machines[machine]) as remote:
            return remote.run(argv).stdout

    def connect(self, machine: Machine) -> Remote:
        return connect(machine)

    def deploy(self) -> int:
        """How much it changed."""
        return cluster.deploy(self.inventory, self.directory, self.home).changed

    def pid(self, machine: str, program: str) -> int:
        return int(self.run(machine, "supervisorctl", "pid", program))


def service(site: Site) -> HttpService:
    return HttpService(site.machines["master"].control_address, site.directory / "token")


def seen(site: Site, wanted: Callable[[RunSnapshot], bool], seconds: float = 60.0) -> RunSnapshot:
    """Return the service's state as soon as it is what is wanted; one call without an answer is made again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            state = service(site).state()
        except ServiceUnreachable:
            if time.monotonic() >= deadline:
                raise
        else:
            if wanted(state):
                return state
            assert time.monotonic() < deadline, state
        time.sleep(0.5)


@contextmanager
def deployed(
    workers: Sequence[MachineRequest], joining: Sequence[str], lans: tuple[str, str], has_redis: bool = False
) -> Iterator[Site]:
    """A master and these, with a state folder and address ranges (control, experiment) of their own."""
    with short_folder() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_STATE", str(folder))
        patch.setenv(lan.CONTROL[0], lans[0])
        patch.setenv(lan.EXPERIMENT[0], lans[1])
        testbed = LocalTestbed(mounts(print))
        lease = registry.take("cluster test", "series", "local", LEASE_S)
        try:
            machines = testbed.acquire(lease, [MASTER, *workers])
            groups = {"master": ["master"], "workers": [one.name for one in workers], "joining": list(joining)}
            inventory = write_ansible_inventory(machines, groups, folder / "cluster" / "inventory.yaml")
            named = {machine.name: machine for machine in machines}
            site = Site(named, inventory, folder / "cluster", storm_home(print), testbed)
            if has_redis:
                cluster.renew_redis_password(site.directory)
            site.deploy()
            yield site
        finally:
            reap(now=time.time() + 1e6)
