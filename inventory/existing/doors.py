"""How a machine of others is reached: its owner's key, and the host keys that its owner knows."""

import json
import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from inventory.errors import ConfigurationError
from inventory.existing.hosts import Host
from inventory.existing.options import ExistingOptions
from inventory.machines import Machine, MachineType

OWN_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")  # as ssh tries them
UNMEASURED = MachineType("unmeasured", 0.0, 0, 0, 0)


@dataclass(frozen=True)
class Door:
    """All that another process needs to log in. `known` are lines of a known_hosts file: public keys, no secrets."""

    called: str
    address: str
    port: int
    user: str
    key: str
    known: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.called} ({self.user}@{self.address}:{self.port})"


def door(host: Host, options: ExistingOptions) -> Door:
    """Raises ConfigurationError without a key or without a host key that is known."""
    known = known_lines(host, Path(options.known_hosts).expanduser())
    return Door(host.called, host.address, host.port, host.user, str(_key(host, options)), known)


def known_lines(host: Host, file: Path) -> tuple[str, ...]:
    """The user's own lines about the machine, hashed names included; strict, as nothing is trusted on first use."""
    name = host.address if host.port == 22 else f"[{host.address}]:{host.port}"
    found = subprocess.run(["ssh-keygen", "-F", name, "-f", str(file)], capture_output=True, text=True, check=False)
    # `@cert-authority` and `@revoked` are no keys of a machine.
    lines = tuple(line for line in found.stdout.splitlines() if line and not line.startswith(("#", "@")))
    if not lines:
        raise ConfigurationError(
            f"{host}: {file} has no host key of {name}; log in once with ssh and compare its fingerprint, or name "
            "another file in testbed.options.existing.known_hosts"
        )
    return lines


def reached(door: Door, name: str, known_hosts: Path) -> Machine:
    """As far as a door says: enough to connect, under that name. Its host key must be in the file."""
    at = door.address
    return Machine(name, UNMEASURED, at, at, at, door.user, door.port, Path(door.key), known_hosts)


def known_text(many: Iterable[Door]) -> str:
    """The content of a known_hosts file for these machines."""
    return "".join(f"{line}\n" for door in many for line in door.known)


def twice(hosts: Sequence[Host]) -> list[str]:
    """What is wrong where two names are one machine: the same port of the same address, however it is written."""
    seen: dict[tuple[str, int], Host] = {}
    problems = []
    for host in hosts:
        first = seen.setdefault((resolved(host.address), host.port), host)
        if first is not host:
            problems.append(f"{first} and {host} are the same machine: remove one of them")
    return problems


def resolved(address: str) -> str:
    """The IPv4 address that ssh would take; a name without one stays as it is."""
    try:
        return str(socket.getaddrinfo(address, None, socket.AF_INET)[0][4][0])
    except OSError:
        return address  # whoever connects to it says that it has no address


def _key(host: Host, options: ExistingOptions) -> Path:
    given = host.key or options.ssh_key
    tried = [Path(given).expanduser()] if given else [Path("~/.ssh", name).expanduser() for name in OWN_KEYS]
    for path in tried:
        if path.is_file():
            return path.absolute()
    raise ConfigurationError(
        f"{host}: no ssh key, looked for {', '.join(str(path) for path in tried)}; set "
        "ansible_ssh_private_key_file in the inventory or testbed.options.existing.ssh_key"
    )


def to_text(doors: Sequence[Door]) -> str:
    """For the lease's record."""
    return json.dumps([asdict(one) for one in doors])


def from_text(text: str) -> tuple[Door, ...]:
    return tuple(_from_data(one) for one in json.loads(text))


def _from_data(data: Mapping[str, object]) -> Door:
    known = data["known"]
    assert isinstance(known, list)
    return Door(
        str(data["called"]),
        str(data["address"]),
        int(str(data["port"])),
        str(data["user"]),
        str(data["key"]),
        tuple(known),
    )
