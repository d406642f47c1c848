"""From a node of Emulab's to a machine that lets us in: host keys first, then a login, then root."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from inventory import leases
from inventory.emulab import host_keys
from inventory.emulab.access import Node, Patience
from inventory.emulab.ops import OpsAccount
from inventory.emulab.options import EmulabOptions, expanded
from inventory.errors import ConfigurationError, InfrastructureError, InventoryError, SudoRefusedError
from inventory.leases import Lease
from inventory.machines import Machine, MachineType
from inventory.remote import connect

KNOWN_HOSTS = "known_hosts"


class Admission:
    """How this experiment's user comes to machines."""

    def __init__(self, options: EmulabOptions, patience: Patience, sleep: Callable[[float], None]) -> None:
        self._options, self._patience, self._sleep = options, patience, sleep

    def machines(
        self, lease: Lease, nodes: Sequence[Node], types: Sequence[MachineType], begun: float
    ) -> tuple[Machine, ...]:
        """Each node as a machine once it lets us in; `begun` is when it was asked for (monotonic)."""
        known = _add_known_hosts(lease, self._host_keys(nodes))
        return tuple(self._admitted(node, type, known, begun) for node, type in zip(nodes, types, strict=True))

    def _host_keys(self, nodes: Sequence[Node]) -> str:
        if self._options.known_hosts is not None:
            return host_keys.given(nodes, expanded(self._options.known_hosts))
        return host_keys.scanned(nodes, account_of(self._options), self._patience, self._sleep)

    def _admitted(self, node: Node, type: MachineType, known_hosts: Path, begun: float) -> Machine:
        machine = Machine(
            node.name, type, node.control_address, node.experiment_address, node.inside_address, self._options.user,
            node.ssh_port, expanded(self._options.ssh_key), known_hosts,
        )  # fmt: skip
        waiting = time.monotonic()
        while (error := _refused(machine)) is not None:
            # Accounts are made while a node boots, so a refusal may pass too, but not for as long as silence.
            limit_s = self._patience.refused_s if error.blame == "configuration" else self._patience.ssh_s
            if time.monotonic() - waiting > limit_s:
                raise error
            self._sleep(self._patience.poll_s)
        return Machine(**{**vars(machine), "boot_s": time.monotonic() - begun})


def account_of(options: EmulabOptions) -> OpsAccount:
    assert options.ops_host is not None  # read_options saw to it: either this or known_hosts
    return OpsAccount(
        options.ops_host, options.ops_port, options.user, expanded(options.ssh_key), expanded(options.ops_known_hosts)
    )


def _refused(machine: Machine) -> InventoryError | None:
    """Why the machine does not let us be root on it; None if it does."""
    import paramiko

    try:
        with connect(machine) as remote:
            remote.run(["true"])  # as root, as everything there
    except SudoRefusedError as error:
        return ConfigurationError(f"emulab: {error}, or use an image of Emulab's, where project members may")
    except InfrastructureError as error:
        if isinstance(error.__cause__, paramiko.AuthenticationException):
            return ConfigurationError(
                f"emulab: {machine.name} refuses {machine.ssh_key} for {machine.ssh_user}; upload its public half on "
                "your Emulab account's page and check testbed.options.emulab.user"
            )
        return error
    return None


def _add_known_hosts(lease: Lease, text: str) -> Path:
    folder = leases.key_dir(lease.lease_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / KNOWN_HOSTS).open("a") as file:
        file.write(text)
    return folder / KNOWN_HOSTS
