"""ssh to Emulab: the project's ops host, the host keys of nodes, and the login on each node until it is root there.

Host keys are known before the first connection. The ops host scans them (`ssh-keyscan`): that goes through Emulab's own
control net, where only Emulab's machines are, and comes to us over a connection whose host key is known. A manifest has
no host keys. Where the nodes are on another cluster than the ops host, the scan leaves that net: then give
`known_hosts`.
"""

import re
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from barograph.errors import BarographError, ConfigurationError, InfrastructureError
from inventory.emulab.access import EmulabOptions, EmulabTiming, Node, expand_path
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineType
from inventory.remote.ssh import Remote, Result, SudoRefusedError, connect

_OPS_TYPE = MachineType("ops", 1, 1, 1, 0)  # nothing runs on it; `connect` needs a machine
SCAN_S = 20


@dataclass(frozen=True)
class OpsAccount:
    """Login on the ops host."""

    host: str
    port: int
    user: str
    ssh_key: Path
    known_hosts: Path


class OpsHost:
    """One connection to the ops host; a context manager."""

    def __init__(self, account: OpsAccount) -> None:
        self.account = account
        self._remote: Remote | None = None

    def run(self, argv: Sequence[str], timeout_s: float = 60.0) -> Result:
        """Run a program there; a non-zero code is a result."""
        assert self._remote is not None
        return self._remote.run(argv, timeout_s)

    def write(self, path: str, text: str) -> None:
        """Write a file below the user's home; its folder must exist."""
        assert self._remote is not None
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "text").write_text(text)
            self._remote.put(Path(folder) / "text", path)

    def __enter__(self) -> Self:
        account = self.account
        place = Machine(
            "the ops host", _OPS_TYPE, account.host, account.host, account.host, account.user, account.port,
            account.ssh_key, account.known_hosts,
        )  # fmt: skip
        try:
            self._remote = connect(place, as_user=True)
        except (InfrastructureError, OSError) as error:
            raise _unreachable_error(account, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._remote is not None:
            self._remote.close()


def _unreachable_error(account: OpsAccount, error: Exception) -> ConfigurationError | InfrastructureError:
    import paramiko

    where, why = f"emulab: ops host {account.user}@{account.host}:{account.port}", error.__cause__ or error
    login = shlex.join(["ssh", "-p", str(account.port), "-l", account.user, account.host])
    if isinstance(why, FileNotFoundError):
        return ConfigurationError(f"{where}: {why.filename} is missing; check ssh_key and ops_known_hosts")
    if isinstance(why, paramiko.BadHostKeyException):
        return ConfigurationError(
            f"{where} shows another host key than {account.known_hosts} has; if Emulab announced a new one, replace it"
        )
    if isinstance(why, paramiko.AuthenticationException):
        return ConfigurationError(
            f"{where} refuses {account.ssh_key} ({why}); upload its public half on your Emulab account's page, "
            "check testbed.options.emulab.user"
        )
    if isinstance(why, paramiko.SSHException) and "not found in known_hosts" in str(why):
        return ConfigurationError(
            f"{where} is not in {account.known_hosts}; log in once with `{login}` and compare its key with the one "
            "that Emulab publishes"
        )
    return InfrastructureError(f"{where} does not answer ({why}); check ops_host and the network, then try again")


def host_keys_from_file(nodes: Sequence[Node], source: Path) -> str:
    """Return the user's host keys of the nodes; a ConfigurationError lists nodes without one."""
    import paramiko

    try:
        host_keys = paramiko.HostKeys(str(source))
    except (OSError, paramiko.SSHException) as error:
        raise ConfigurationError(f"testbed.options.emulab.known_hosts: {source} cannot be read: {error}") from error
    if strangers := [_known_hosts_name(node) for node in nodes if host_keys.lookup(_known_hosts_name(node)) is None]:
        raise ConfigurationError(
            f"testbed.options.emulab.known_hosts: {source} has no key of {', '.join(strangers)}; add them, "
            "or set ops_host to have them scanned from there"
        )
    return source.read_text()


def scan_host_keys(nodes: Sequence[Node], account: OpsAccount, timing: EmulabTiming) -> str:
    """Return the nodes' host keys as the ops host sees them; it waits for each node to answer ssh."""
    deadline, lines = time.monotonic() + timing.ssh_s, list[str]()
    with OpsHost(account) as ops:
        for node in nodes:
            argv = ["ssh-keyscan", "-T", "5", "-p", str(node.ssh_port), node.control_address]
            while not (keys := re.findall(r"^[^#\n].*$", ops.run(argv, SCAN_S).stdout, re.MULTILINE)):
                if time.monotonic() > deadline:
                    raise InfrastructureError(
                        f"emulab: {node.name} ({_known_hosts_name(node)}) shows {account.host} no host key after "
                        f"{timing.ssh_s:g} s; look at its console, or start again"
                    )
                time.sleep(timing.poll_s)
            lines += keys
    return "".join(f"{line}\n" for line in lines)


def _known_hosts_name(node: Node) -> str:
    return node.control_address if node.ssh_port == 22 else f"[{node.control_address}]:{node.ssh_port}"


KNOWN_HOSTS = "known_hosts"


def login_on_nodes(
    lease: Lease, nodes: Sequence[Node], types: Sequence[MachineType], options: EmulabOptions, timing: EmulabTiming,
    begun: float,
) -> tuple[Machine, ...]:  # fmt: skip
    """Return each node as a machine once login works; `begun` is the time of the request (monotonic)."""
    if options.known_hosts is not None:
        host_keys = host_keys_from_file(nodes, expand_path(options.known_hosts))
    else:
        host_keys = scan_host_keys(nodes, ops_account(options), timing)
    known_hosts = registry.key_dir(lease.lease_id) / KNOWN_HOSTS
    known_hosts.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with known_hosts.open("a") as file:
        file.write(host_keys)
    machines = []
    for node, type in zip(nodes, types, strict=True):
        machine = Machine(
            node.name, type, node.control_address, node.experiment_address, node.inside_address, options.user,
            node.ssh_port, expand_path(options.ssh_key), known_hosts,
        )  # fmt: skip
        start = time.monotonic()
        while (error := _login_error(machine)) is not None:
            # Accounts are created while a node boots, so a refusal may pass too, but gets less time than silence.
            limit_s = timing.refused_s if error.blame == "configuration" else timing.ssh_s
            if time.monotonic() - start > limit_s:
                raise error
            time.sleep(timing.poll_s)
        machines.append(replace(machine, boot_s=time.monotonic() - begun))
    return tuple(machines)


def ops_account(options: EmulabOptions) -> OpsAccount:
    assert options.ops_host is not None  # read_emulab_options ensures that either this or known_hosts is set
    key, known_hosts = expand_path(options.ssh_key), expand_path(options.ops_known_hosts)
    return OpsAccount(options.ops_host, options.ops_port, options.user, key, known_hosts)


def _login_error(machine: Machine) -> BarographError | None:
    """Return why login as root fails on the machine; None if it works."""
    import paramiko

    try:
        with connect(machine) as remote:
            remote.run(["true"])  # as root, like all commands there
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
