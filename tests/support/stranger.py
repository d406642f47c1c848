"""Somebody on the LANs of emulated machines who is none of them: a network namespace with an address on each."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from inventory.local import lan

NAMESPACE = "stranger"
# Prints those of the given ADDRESS:PORT that let us in; what is silent for a second does not.
CONNECT = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor

def reached(place):
    address, _, port = place.rpartition(":")
    try:
        socket.create_connection((address, int(port)), 1).close()
    except OSError:
        return False
    return True

with ThreadPoolExecutor(32) as pool:
    for place, yes in zip(sys.argv[1:], pool.map(reached, sys.argv[1:])):
        if yes:
            print(place)
"""


class Stranger:
    """It can connect, and no more."""

    def reached(self, places: Sequence[str]) -> list[str]:
        argv = ["ip", "netns", "exec", NAMESPACE, sys.executable, "-c", CONNECT, *places]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


@contextmanager
def stranger(state: Path) -> Iterator[Stranger]:
    """On the LANs of the one lease under this state folder."""
    (lease_id,) = lan.lease_ids(state)
    _ip("netns", "add", NAMESPACE)
    try:
        for bridge, range_ in (("ctl", lan.network(lan.CONTROL)), ("exp", lan.network(lan.EXPERIMENT))):
            end = f"str{bridge}"
            _ip("link", "add", end, "type", "veth", "peer", "name", f"{bridge}0", "netns", NAMESPACE)
            _ip("link", "set", end, "master", f"b{lease_id}{bridge}", "up")
            _ip("-n", NAMESPACE, "addr", "add", f"{range_[250]}/{lan.PREFIX}", "dev", f"{bridge}0")
            _ip("-n", NAMESPACE, "link", "set", f"{bridge}0", "up")
        yield Stranger()
    finally:
        _ip("netns", "del", NAMESPACE)  # the ends on the box go with it


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def listening(text: str) -> Iterator[tuple[str, int]]:
    """(address, port) of what `ss -Hltun` prints; `*` and the like are every address."""
    for line in text.splitlines():
        address, _, port = line.split()[4].rpartition(":")
        yield address.partition("%")[0].strip("[]").removeprefix("::ffff:"), int(port)


def everywhere(address: str) -> bool:
    return address in ("*", "0.0.0.0", "::")


def places(addresses: Mapping[str, Sequence[str]], sockets: Mapping[str, Sequence[tuple[str, int]]]) -> list[str]:
    """Every port that something listens on, on every address of its machine."""
    return sorted({f"{own}:{port}" for name, found in sockets.items() for _, port in found for own in addresses[name]})
