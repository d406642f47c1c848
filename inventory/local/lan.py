"""The two LANs of emulated machines: control (unshaped, ssh) and experiment (shaped), a bridge each.

Names: network namespace `baro-<lease>-<machine>`; inside it `ctl0` and `exp0`; on the box the bridges
`b<lease>ctl`, `b<lease>exp` and a veth end per machine and LAN, `b<lease>c<n>`, `b<lease>e<n>`. Every link on the
box carries the alias `barograph:<state folder>`.
"""

import ctypes
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.files import hold_lock
from inventory.leases.processes import run

# Variable and default of each range: a box whose own network uses one of these can be given another.
CONTROL = ("BAROGRAPH_CONTROL_LAN", "10.213.0.0/24")
EXPERIMENT = ("BAROGRAPH_EXPERIMENT_LAN", "10.214.0.0/24")
PREFIX = 24
FIRST_HOST = 10  # .1 is the box; machines begin at .10
MAX_MACHINES = 200
ROUTE_PROTOCOL = "213"  # marks the guard routes as ours
GUARD_METRIC = "4200"
NETNS = Path("/run/netns")
LINKS = Path("/sys/class/net")
IPV6 = Path("/proc/sys/net/ipv6/conf")
LOCK = Path("/run/barograph-lan.lock")  # where only root writes, as only root makes bridges
ALIAS = "barograph:"
SMALLEST_BURST_BYTES = 128 * 1024  # smaller ones cost CPU and do not reach the rate
QUEUE_MS = 50
MNT_DETACH = 2
CONTROL_INTERFACE, EXPERIMENT_INTERFACE = "ctl0", "exp0"
NOBODY = "02:00:00:00:00:01"  # a link address of no machine


def network(lan: tuple[str, str]) -> IPv4Network:
    """Return the address range of CONTROL or EXPERIMENT, a /24."""
    variable, default = lan
    value = os.environ.get(variable) or default
    try:
        result = IPv4Network(value)
    except ValueError as error:
        raise ConfigurationError(f"{variable} is {value!r}: {error}; give a range like {default}") from error
    if result.prefixlen != PREFIX:
        raise ConfigurationError(f"{variable} is {value!r}, must be a /{PREFIX}; give a range like {default}")
    return result


@dataclass(frozen=True)
class LanEndpoint:
    """One machine's addresses on both LANs."""

    netns: str
    number: int
    control_address: str
    experiment_address: str
    bandwidth_mbit: int


def lan_endpoint(lease_id: str, machine: str, number: int, bandwidth_mbit: int) -> LanEndpoint:
    """Return the addresses and names of the lease's `number`-th machine, from 0."""
    host = FIRST_HOST + number
    control, experiment = str(network(CONTROL)[host]), str(network(EXPERIMENT)[host])
    return LanEndpoint(f"baro-{lease_id}-{machine}", number, control, experiment, bandwidth_mbit)


def endpoint_number(control_address: str) -> int:
    """Return which machine of its lease has that control address, from 0: the inverse of `lan_endpoint`."""
    return int(IPv4Address(control_address)) - int(network(CONTROL).network_address) - FIRST_HOST


def burst_bytes(bandwidth_mbit: int) -> int:
    """Return a token bucket's size that reaches the rate: 128 KiB, and at least what passes in 1/250 s."""
    return max(SMALLEST_BURST_BYTES, bandwidth_mbit * 1_000_000 // 8 // 250)


def guard_ranges(lease_id: str) -> None:
    """Make both ranges unreachable where no bridge serves them.

    Otherwise a client that has not noticed the end of its machine sends packets by the default route.
    """
    for lan in (CONTROL, EXPERIMENT):
        words = f"ip route replace unreachable {network(lan)} metric {GUARD_METRIC} proto {ROUTE_PROTOCOL}"
        run(words.split(), lease_id)


def unguard_ranges(lease_id: str) -> None:
    """Remove the guard routes unless a bridge serves the ranges now."""
    if not routes_in_use(lease_id):
        for route in [each for each in _routes(lease_id) if each.get("protocol") == ROUTE_PROTOCOL]:
            run(["ip", "route", "del", "unreachable", route["dst"], "proto", ROUTE_PROTOCOL], lease_id)


def routes_in_use(lease_id: str) -> list[str]:
    """Return the box's routes into or around the two ranges that are not our guards, as readable text."""
    texts = []
    for route in _routes(lease_id):
        if route.get("protocol") != ROUTE_PROTOCOL:
            link = route.get("dev", route.get("type", "?"))
            alias = _alias(link)
            user = f", of a run under {alias.removeprefix(ALIAS)}" if alias.startswith(ALIAS) else ""
            texts.append(f"{route['dst']} by {link}{user}")
    return texts


def _routes(lease_id: str) -> list[dict[str, str]]:
    ranges = network(CONTROL), network(EXPERIMENT)
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "main"], lease_id) or "[]")
    return [
        route
        for route in routes
        if route["dst"] != "default"
        and any(IPv4Network(route["dst"], strict=False).overlaps(range_) for range_ in ranges)
    ]


@contextmanager
def free_ranges(lease_id: str) -> Iterator[None]:
    """Let the block take the address ranges: nothing on the box uses them, and no other process takes them meanwhile,
    even from another state folder. CapacityError if something else uses them."""
    with hold_lock(LOCK, f"making the LANs of lease {lease_id}"):
        if routes := routes_in_use(lease_id):
            raise CapacityError(
                f"the ranges {network(CONTROL)} and {network(EXPERIMENT)} are in use on this box: {', '.join(routes)}; "
                "if a dead run left them, `barograph reap` frees them; else stop what uses them, or set "
                f"{CONTROL[0]} and {EXPERIMENT[0]} to free ranges"
            )
        yield


def build(lease_id: str, seats: Sequence[LanEndpoint], state: Path) -> None:
    """Create both bridges and give every seat its namespace, its two interfaces, addresses and shaping."""
    lines, shaped = [], []
    for lan in ("ctl", "exp"):
        name = f"b{lease_id}{lan}"
        lines += [
            f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f'link set {name} alias "{ALIAS}{state}"',
            f"link set {name} up",
        ]
    lines.append(f"addr add {network(CONTROL)[1]}/{PREFIX} dev b{lease_id}ctl")
    for rule in closing_rules(lease_id):
        run(["iptables", "-w", "-I", *rule.split()], lease_id)
    for one in seats:
        run(["ip", "netns", "add", one.netns], lease_id)
        for name, lan in zip(_ends(lease_id, one), ("ctl", "exp"), strict=True):
            lines += [
                f"link add {name} type veth peer name {lan}0 netns {one.netns}",
                f'link set {name} alias "{ALIAS}{state}"',
                f"link set {name} master b{lease_id}{lan} up",
            ]
        shaped.append(f"qdisc replace dev {_ends(lease_id, one)[1]} root {_shape(one)}")
    _batch(["ip"], lines, lease_id)
    for lan in ("ctl", "exp"):  # else every program of the box that listens on [::] is reached by a link-local address
        switch = IPV6 / f"b{lease_id}{lan}" / "disable_ipv6"
        if switch.exists():
            switch.write_text("1")
    _batch(["tc"], shaped, lease_id)
    for one in seats:
        addresses = {CONTROL_INTERFACE: one.control_address, EXPERIMENT_INTERFACE: one.experiment_address}
        lines = [f"addr add {address}/{PREFIX} dev {name}" for name, address in addresses.items()]
        lines += [f"link set {name} up" for name in ("lo", *addresses)]
        _batch(["ip", "-n", one.netns], lines, lease_id)
        _batch(["tc", "-n", one.netns], [f"qdisc replace dev {EXPERIMENT_INTERFACE} root {_shape(one)}"], lease_id)


def closing_rules(lease_id: str) -> list[str]:
    """Return rules by which nothing that a machine begins reaches this box, or by way of it another network: only what
    belongs to connections of this box passes. They see no packet from machine to machine."""
    control, experiment = f"b{lease_id}ctl", f"b{lease_id}exp"
    return [
        f"INPUT -i {control} -p tcp --tcp-flags SYN,ACK SYN -j DROP",
        f"INPUT -i {control} ! -p tcp -j DROP",
        f"INPUT -i {experiment} -j DROP",
        *(f"FORWARD -i {bridge} ! -o {bridge} -j DROP" for bridge in (control, experiment)),
    ]


def _batch(argv: Sequence[str], lines: Sequence[str], lease_id: str) -> None:
    run([*argv, "-batch", "-"], lease_id, "\n".join(lines) + "\n")


def _shape(one: LanEndpoint) -> str:
    return f"tbf rate {one.bandwidth_mbit}mbit burst {burst_bytes(one.bandwidth_mbit)} latency {QUEUE_MS}ms"


def _ends(lease_id: str, one: LanEndpoint) -> tuple[str, str]:
    """Return the box's ends of the machine's two cables: control, experiment."""
    return f"b{lease_id}c{one.number}", f"b{lease_id}e{one.number}"


def set_links(lease_id: str, one: LanEndpoint, up: bool) -> None:
    """Cut the machine from both LANs, as a power loss does: nothing arrives any more, not even a connection's end; or
    connect it again: addresses and shaping are as they were."""
    _batch(["ip"], [f"link set {name} {'up' if up else 'down'}" for name in _ends(lease_id, one)], lease_id)


def set_experiment_link(lease_id: str, one: LanEndpoint, up: bool) -> None:
    """Take the machine off the experiment LAN alone, or connect it again."""
    run(["ip", "link", "set", _ends(lease_id, one)[1], "up" if up else "down"], lease_id)


def set_hidden(lease_id: str, one: LanEndpoint, interface: str, address: str, hidden: bool) -> None:
    """Drop silently what the machine sends to that address, which goes to a link address of no machine; or let packets
    arrive again."""
    hide = ["replace", address, "lladdr", NOBODY, "dev", interface, "nud", "permanent"]
    show = ["flush", "to", address, "dev", interface, "nud", "permanent"]
    run(["ip", "-n", one.netns, "neigh", *(hide if hidden else show)], lease_id)


def remove(lease_id: str) -> None:
    """Remove the lease's links, namespaces and rules, as far as they exist."""
    for rule in run(["iptables", "-w", "-S"], lease_id).splitlines():
        if f" -i b{lease_id}" in rule:
            with suppress(InfrastructureError):  # the reaper may run beside a release
                run(["iptables", "-w", "-D", *rule.split()[1:]], lease_id)
    for path in list(LINKS.glob(f"b{lease_id}*")):
        _remove_link(path.name, lease_id)
    for path in NETNS.glob(f"baro-{lease_id}-*"):
        unmount(path)
        path.unlink(missing_ok=True)


def _remove_link(name: str, lease_id: str) -> None:
    """Remove a link, which may vanish meanwhile: a veth goes with its peer, and the reaper may run beside a release."""
    try:
        if (LINKS / name).exists():
            run(["ip", "link", "del", name], lease_id)
    except InfrastructureError:
        if (LINKS / name).exists():
            raise


def lease_ids(state: Path) -> set[str]:
    """Return the leases whose links exist on the box and were created under this state folder."""
    return {path.name[1:9] for path in LINKS.iterdir() if _alias(path.name) == f"{ALIAS}{state}"}


def _alias(link: str) -> str:
    try:
        return (LINKS / link / "ifalias").read_text().strip()
    except OSError:  # the link went away meanwhile
        return ""


def unmount(path: Path) -> None:
    """Detach everything mounted at the path, every layer of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    while libc.umount2(os.fsencode(path), MNT_DETACH) == 0:
        pass
