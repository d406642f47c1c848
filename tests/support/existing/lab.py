"""Somebody's machines, for tests: emulated ones that mount nothing of ours, with a user who is not root but may sudo.

They are of another harness' state folder, and its owner's files (inventory, key, known_hosts) are in `folder`.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from inventory.existing.testbed import ExistingTestbed
from inventory.leases import processes, registry
from inventory.leases.registry import Lease
from inventory.local.testbed import LocalTestbed
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import connect

USER = "owner"
# What an administrator of such machines has done.
ADD_USER = f"""set -e
userdel --remove barograph 2>/dev/null && userdel --remove storm 2>/dev/null  # accounts of emulated machines
useradd --create-home --shell /bin/bash --password '*' {USER}  # sshd without PAM refuses a locked account
install -d -m 700 -o {USER} /home/{USER}/.ssh
install -m 600 -o {USER} /root/.ssh/authorized_keys /home/{USER}/.ssh/authorized_keys
echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}
rm /root/.ssh/authorized_keys
printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$(hostname)" > /etc/hosts
"""


@dataclass(frozen=True)
class Lab:
    """The machines as their owner knows them."""

    folder: Path
    machines: tuple[Machine, ...]

    @property
    def options(self) -> dict[str, object]:
        return {"inventory": str(self.folder / "hosts.yaml"), "known_hosts": str(self.folder / "known_hosts")}

    def testbed(self) -> ExistingTestbed:
        return ExistingTestbed(self.options)

    def owner(self, machine: str) -> Machine:
        """The owner's own way in."""
        return next(one for one in self.machines if one.name == machine)

    def sh(self, machine: str, text: str) -> str:
        with connect(self.owner(machine)) as remote:
            return remote.run(["sh", "-c", text]).stdout


@contextmanager
def lab(folder: Path, wanted: Sequence[MachineRequest]) -> Iterator[Lab]:
    """The machines, until the block is left. `folder` has a short path, as Podman wants it."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BAROGRAPH_STATE", str(folder / "s"))
        # What is measured beside the tests comes first.
        patch.setattr(processes, "put_first", lambda _lease_id: None)
        testbed = LocalTestbed()
        lease = registry.take("owner of the lab", "none", "local", 3600)
        try:
            machines = tuple(_opened(machine) for machine in testbed.acquire(lease, wanted))
        except BaseException:
            _end(testbed, lease)
            raise
    try:
        yield _described(folder, machines)
    finally:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BAROGRAPH_STATE", str(folder / "s"))
            _end(testbed, lease)


def _end(testbed: LocalTestbed, lease: Lease) -> None:
    testbed.release(lease)
    registry.drop(lease)


def _opened(machine: Machine) -> Machine:
    """Root may not log in any more; the owner may."""
    with connect(machine) as remote:
        done = remote.run(["sh", "-c", ADD_USER])
    assert done.code == 0, done.stderr
    return replace(machine, ssh_user=USER)


def _described(folder: Path, machines: Sequence[Machine]) -> Lab:
    hosts = {
        machine.name: {
            "ansible_host": machine.control_address,
            "ansible_user": machine.ssh_user,
            "ansible_ssh_private_key_file": str(machine.ssh_key),
            "experiment_address": machine.experiment_address,
            "inside_address": machine.control_address,
        }
        for machine in machines
    }
    (folder / "hosts.yaml").write_text(yaml.safe_dump({"all": {"hosts": hosts}}, sort_keys=False))
    known = folder / "known_hosts"
    known.write_text(machines[0].known_hosts.read_text())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    return Lab(folder, tuple(machines))
