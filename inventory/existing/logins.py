"""Logins on machines of others: the owner's key and known host keys; and by lease, in `<state>/existing/<lease>.json`,
the machines that this harness uses.
"""

import json
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from barograph.errors import ConfigurationError
from inventory.existing.hosts import ExistingOptions, Host
from inventory.files import replace_file
from inventory.leases import registry
from inventory.machines import Machine, MachineType

DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")  # as ssh tries them
KEYGEN_LIMIT_S = 10.0  # to read a file
UNKNOWN_TYPE = MachineType("unmeasured", 0.0, 0, 0, 0)


@dataclass(frozen=True)
class Login:
    """Data for a login from another process. `known` are lines of a known_hosts file: public keys, no secrets."""

    called: str
    address: str
    port: int
    user: str
    key: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.called} ({self.user}@{self.address}:{self.port})"


def login_to(host: Host, options: ExistingOptions) -> Login:
    """Return the login; ConfigurationError without a key or a known host key."""
    host_keys = host_key_lines(host, Path(options.known_hosts).expanduser())
    return Login(host.called, host.address, host.port, host.user, str(_private_key_file(host, options)), host_keys)


def host_key_lines(host: Host, file: Path) -> tuple[str, ...]:
    """Return the user's known_hosts lines of the machine, hashed names included; nothing is trusted on first use."""
    name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
    argv = ["ssh-keygen", "-F", name, "-f", str(file)]
    try:
        process = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=KEYGEN_LIMIT_S)
    except subprocess.TimeoutExpired as error:  # a pipe, or a file on a network that hangs
        raise ConfigurationError(
            f"{host}: {file} was not read within {KEYGEN_LIMIT_S:g} s; give a plain file"
        ) from error
    # `@cert-authority` and `@revoked` are not keys of a machine.
    lines = tuple(line for line in process.stdout.splitlines() if line and not line.startswith(("#", "@")))
    if not lines:
        raise ConfigurationError(
            f"{host}: {file} has no host key of {name}; log in once with ssh and compare its fingerprint, or name "
            "another file in testbed.options.existing.known_hosts"
        )
    return lines


def machine_of_login(door: Login, name: str, known_hosts: Path) -> Machine:
    """Return a machine to connect to under that name, its type unmeasured. Its host key must be in the file."""
    at = door.address
    return Machine(name, UNKNOWN_TYPE, at, at, at, door.user, door.port, Path(door.key), known_hosts)


def known_hosts_text(many: Iterable[Login]) -> str:
    """Return the content of a known_hosts file for these machines."""
    return "".join(f"{line}\n" for door in many for line in door.known)


def duplicate_hosts(hosts: Sequence[Host]) -> list[str]:
    """Return a message for each two names of one machine: the same port of the same address, however it is written."""
    hosts_by_address: dict[tuple[str, int], Host] = {}
    problems = []
    for host in hosts:
        first = hosts_by_address.setdefault((resolve_address(host.address), host.port), host)
        if first is not host:
            problems.append(f"{first} and {host} are the same machine: remove one of them")
    return problems


def resolve_address(address: str) -> str:
    """Return the IPv4 address that ssh would use; a name without one stays as it is."""
    try:
        return str(socket.getaddrinfo(address, None, socket.AF_INET)[0][4][0])
    except OSError:
        return address  # connecting to it fails with that message


def _private_key_file(host: Host, options: ExistingOptions) -> Path:
    key = host.key or options.ssh_key
    candidates = [Path(key).expanduser()] if key else [Path("~/.ssh", name).expanduser() for name in DEFAULT_KEYS]
    for path in candidates:
        if path.is_file():
            return path.absolute()
    raise ConfigurationError(
        f"{host}: no ssh key, looked for {', '.join(str(path) for path in candidates)}; set "
        "ansible_ssh_private_key_file in the inventory or testbed.options.existing.ssh_key"
    )


def logins_to_text(doors: Sequence[Login]) -> str:
    """Return the logins as text for the lease's record."""
    return json.dumps([asdict(one) for one in doors])


def logins_from_text(text: str) -> tuple[Login, ...]:
    return tuple(_login_from_data(one) for one in json.loads(text))


def _login_from_data(data: Mapping[str, object]) -> Login:
    host_keys = data["known"]
    assert isinstance(host_keys, list)
    return Login(
        str(data["called"]),
        str(data["address"]),
        int(str(data["port"])),
        str(data["user"]),
        str(data["key"]),
        tuple(host_keys),
    )


def logins_file(lease_id: str) -> Path:
    return registry.state_dir() / "existing" / f"{lease_id}.json"


def read_logins(lease_id: str) -> tuple[Login, ...]:
    """Return the machines that the lease has; none if it never had any."""
    try:
        return logins_from_text(logins_file(lease_id).read_text())
    except FileNotFoundError:
        return ()


def write_logins(lease_id: str, many: Sequence[Login]) -> None:
    """Record these as the lease's machines; a reader sees the old file or the new one."""
    replace_file(logins_file(lease_id), logins_to_text(many))


def remove_logins(lease_id: str) -> None:
    logins_file(lease_id).unlink(missing_ok=True)


def ownerless_leases() -> list[str]:
    """Return the leases that have machines and are not on record."""
    # Files are listed before the leases are read: a lease is on record before it borrows.
    files = [path.stem for path in (registry.state_dir() / "existing").glob("*.json")]
    return sorted(set(files) - {lease.lease_id for lease in registry.read_all()})
