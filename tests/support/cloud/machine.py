"""One instance as an emulated machine: the project's root filesystem, one network card, an image's first boot.

Names are those of `inventory.local.testbed.lan`, `inventory.local.testbed.testbed` and
`inventory.leases.registry.processes`, under a lease of the testbed `local` in the cloud's own state folder: whatever
a killed cloud leaves, that testbed's `release` finds.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from inventory.leases import registry
from inventory.leases.processes import run
from inventory.leases.registry import Lease
from inventory.local import lan
from inventory.local.podman import Container, Podman

IMAGE = Path(__file__).with_name("image")
CARD = "ens5"
# The user data gives the machine its name.
CAPABILITIES = ("AUDIT_WRITE", "NET_ADMIN", "SYS_ADMIN")
FIRST_PROGRAM = "/opt/barograph/machine/boot"


@dataclass(frozen=True)
class Size:
    """What each machine is given, whatever type of instance it is said to be."""

    cores: float = 0.3
    memory_mb: int = 1024


@dataclass(frozen=True)
class Guest:
    """A running instance, as its machine is made from it. `flaws` are of `silent`, `keyless`."""

    instance_id: str
    address: str
    public_key: str
    user_data: bytes
    flaws: tuple[str, ...] = ()


class Host:
    """The box as the cloud's hardware, under a lease of its own."""

    def __init__(self, lease: Lease, root: Path, size: Size) -> None:
        self._lease_id = lease.lease_id
        self._root = root
        self._size = size
        self._state = registry.state_dir()
        self._podman = Podman(self._folder, self._lease_id)

    @property
    def _folder(self) -> Path:
        return self._state / "local" / self._lease_id

    def open(self) -> None:
        """Make the network that all machines are on; the box has its first address."""
        self._folder.mkdir(parents=True)
        network, bridge = lan.network(lan.CONTROL), self._bridge
        with lan.free_ranges(self._lease_id):
            lan.guard_ranges(self._lease_id)
            self._ip(
                f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                f'link set {bridge} alias "{lan.ALIAS}{self._state}"',
                f"addr add {network[1]}/{lan.PREFIX} dev {bridge}",
                f"link set {bridge} up",
            )
        self._podman.prepare()

    def start(self, guest: Guest) -> str:
        """The machine boots; returns the id of its container."""
        space = self._plug(guest)
        identity = registry.key_dir(self._lease_id, self._state) / guest.instance_id
        identity.mkdir(parents=True)
        for path in IMAGE.iterdir():
            shutil.copy(path, identity)
        (identity / "public_key").write_text(guest.public_key)
        (identity / "user-data").write_bytes(guest.user_data)
        for flaw in guest.flaws:
            (identity / flaw).touch()
        hostname = f"ip-{guest.address.replace('.', '-')}"
        return self._podman.start(
            Container(
                guest.instance_id,
                hostname,
                lan.NETNS / space,
                self._size.cores,
                self._size.memory_mb,
                self._root,
                identity,
                {},
                FIRST_PROGRAM,
                CAPABILITIES,
            )
        )

    def is_running(self, container_id: str) -> bool:
        return self._podman.is_running(container_id)

    def last_words(self, container_id: str) -> str:
        return self._podman.last_words(container_id)

    def end(self, guest: Guest) -> None:
        """The machine, its disk and its place in the network are gone. Idempotent."""
        self._podman.remove(guest.instance_id)
        seat = self._seat(guest)
        space = lan.NETNS / seat.netns
        if (lan.LINKS / self._cable(seat)).exists():
            self._ip(f"link del {self._cable(seat)}")
        lan.unmount(space)
        space.unlink(missing_ok=True)

    @property
    def _bridge(self) -> str:
        return f"b{self._lease_id}ctl"

    def _seat(self, guest: Guest) -> lan.LanEndpoint:
        number = int(IPv4Address(guest.address)) & 0xFF
        name = f"baro-{self._lease_id}-{guest.instance_id}"
        return lan.LanEndpoint(name, number, guest.address, guest.address, bandwidth_mbit=0)

    def _cable(self, seat: lan.LanEndpoint) -> str:
        return f"b{self._lease_id}c{seat.number}"

    def _plug(self, guest: Guest) -> str:
        seat = self._seat(guest)
        cable = self._cable(seat)
        run(["ip", "netns", "add", seat.netns], self._lease_id)
        self._ip(
            f"link add {cable} type veth peer name {CARD} netns {seat.netns}",
            f'link set {cable} alias "{lan.ALIAS}{self._state}"',
            f"link set {cable} master {self._bridge} up",
        )
        self._ip(
            "link set lo up", f"addr add {guest.address}/{lan.PREFIX} dev {CARD}", f"link set {CARD} up",
            inside=seat.netns,
        )  # fmt: skip
        return seat.netns

    def _ip(self, *lines: str, inside: str | None = None) -> None:
        where: Sequence[str] = ["-n", inside] if inside else []
        run(["ip", *where, "-batch", "-"], self._lease_id, "\n".join(lines) + "\n")
