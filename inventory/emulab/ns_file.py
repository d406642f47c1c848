"""The NS file of a classic experiment: its machines and the one LAN between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from inventory.errors import ConfigurationError
from inventory.machines import MachineRequest, MachineType

TABLE = Path(__file__).with_name("hardware.yaml")
LAN = "lan0"
SUBNET = "10.1.1"
FIRST_HOST = 2


@dataclass(frozen=True)
class Seat:
    """One machine as the NS file states it. Its address is fixed, so that it stays when others come and go."""

    name: str
    hardware: str
    address: str
    bandwidth_mbit: int


def seats(requests: Sequence[MachineRequest], hardware: Mapping[str, str], taken: Sequence[Seat] = ()) -> list[Seat]:
    """A seat for each request, on addresses that no other seat has."""
    free = (f"{SUBNET}.{host}" for host in range(FIRST_HOST, 255))
    used = {seat.address for seat in taken}
    addresses = [address for address in free if address not in used][: len(requests)]
    if len(addresses) < len(requests):
        raise ConfigurationError(f"emulab: {len(requests) + len(taken)} machines; at most 253 have addresses on a LAN")
    return [
        Seat(one.name, hardware_of(one.type, hardware), address, one.type.bandwidth_mbit)
        for one, address in zip(requests, addresses, strict=True)
    ]


def hardware_of(type: MachineType, hardware: Mapping[str, str]) -> str:
    """Emulab's word for a machine type: the experiment's own, else the table's."""
    known = {**yaml.safe_load(TABLE.read_text()), **hardware}
    if type.name not in known:
        raise ConfigurationError(
            f"emulab: machine type {type.name!r} has no hardware type; known are {', '.join(known)} ({TABLE.name}); "
            f"set testbed.options.emulab.hardware.{type.name}"
        )
    return str(known[type.name])


def text(seats: Sequence[Seat], image: str) -> str:
    """The file. Every word in it has passed a pattern: names, hardware, image; no Tcl can come in with them."""
    nodes = [line for seat in seats for line in _node(seat, image)]
    return "\n".join(["set ns [new Simulator]", "source tb_compat.tcl", "", *nodes, "", *_lan(seats), "$ns run", ""])


def _node(seat: Seat, image: str) -> list[str]:
    return [
        f"set {seat.name} [$ns node]",
        f"tb-set-hardware ${seat.name} {seat.hardware}",
        f"tb-set-node-os ${seat.name} {image}",
    ]


def _lan(seats: Sequence[Seat]) -> list[str]:
    if len(seats) < 2:
        return []
    widest = max(seat.bandwidth_mbit for seat in seats)
    members = " ".join(f"${seat.name}" for seat in seats)
    slower = [seat for seat in seats if seat.bandwidth_mbit < widest]
    return [
        f'set {LAN} [$ns make-lan "{members}" {widest}Mb 0ms]',
        *(f"tb-set-ip ${seat.name} {seat.address}" for seat in seats),
        *(f"tb-set-node-lan-bandwidth ${seat.name} ${LAN} {seat.bandwidth_mbit}Mb" for seat in slower),
        "$ns rtproto Static",
    ]
