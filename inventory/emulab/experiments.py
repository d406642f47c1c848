"""Our experiments on Emulab: their names, a classic one's NS file, and the harness's files about them.

Names carry the harness and the lease, so that either is found by name alone. They have 16 characters: classic Emulab
allows 19 (`experiments.eid`, together with a project of 12), the portal's own pages 16.
A lease's record is enough to end its experiment; the files here (each classic experiment's nodes, and every site where
something was started) let machines be added and taken back, and let a reaper without options look for leftovers.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from barograph.errors import ConfigurationError, InfrastructureError
from inventory import machines
from inventory.files import hold_lock, replace_file
from inventory.leases import registry
from inventory.leases.registry import harness_id
from inventory.machines import MachineRequest, MachineType

MACHINE_NAME = re.compile(
    r"[a-z][a-z0-9]{0,14}"
)  # a Tcl variable in the NS file, a label of a host name, a column of 15


def name_prefix() -> str:
    """Return the prefix of this harness's experiment names."""
    return f"bg{harness_id()[:6]}"


def experiment_name(lease_id: str) -> str:
    return f"{name_prefix()}{lease_id}"


def lease_of_experiment(experiment: str) -> str | None:
    """Return the lease in an experiment's name; None if it is not this harness's."""
    match = re.fullmatch(rf"{name_prefix()}([0-9a-f]{{8}})", experiment)
    return match[1] if match else None


def ownerless_leases(experiments: Iterable[str]) -> list[str]:
    """Return this harness's experiments' lease ids that are not on record. `experiments` was listed before."""
    recorded = {lease.lease_id for lease in registry.read_all()}
    return sorted({lease_id for name in experiments if (lease_id := lease_of_experiment(name))} - recorded)


def check_machines(requests: Sequence[MachineRequest]) -> None:
    if len(requests) < 2:
        raise ConfigurationError(
            f"emulab: {len(requests)} machine(s) asked for; ask for master and at least one worker (a LAN joins them)"
        )
    machines.check_names("emulab", requests, MACHINE_NAME, "lower case letters and digits, at most 15, a letter first")


HARDWARE_TABLE = Path(__file__).with_name("hardware.yaml")
LAN_NAME = "lan0"
SUBNET = "10.1.1"
FIRST_HOST = 2


@dataclass(frozen=True)
class NsNode:
    """One machine in the NS file. Its address is fixed, so that it stays when others come and go."""

    name: str
    hardware: str
    address: str
    bandwidth_mbit: int


def assign_ns_nodes(
    requests: Sequence[MachineRequest], hardware: Mapping[str, str], taken: Sequence[NsNode] = ()
) -> list[NsNode]:
    """Return a seat for each request, on addresses that no other seat has."""
    free = (f"{SUBNET}.{host}" for host in range(FIRST_HOST, 255))
    used_addresses = {seat.address for seat in taken}
    addresses = [address for address in free if address not in used_addresses][: len(requests)]
    if len(addresses) < len(requests):
        raise ConfigurationError(f"emulab: {len(requests) + len(taken)} machines; at most 253 have addresses on a LAN")
    return [
        NsNode(one.name, hardware_of(one.type, hardware), address, one.type.bandwidth_mbit)
        for one, address in zip(requests, addresses, strict=True)
    ]


def hardware_of(type: MachineType, hardware: Mapping[str, str]) -> str:
    """Return Emulab's name for a machine type: the experiment's, else the table's."""
    hardware_types = {**yaml.safe_load(HARDWARE_TABLE.read_text()), **hardware}
    if type.name not in hardware_types:
        raise ConfigurationError(
            f"emulab: machine type {type.name!r} has no hardware type; known are {', '.join(hardware_types)} "
            f"({HARDWARE_TABLE.name}); "
            f"set testbed.options.emulab.hardware.{type.name}"
        )
    return str(hardware_types[type.name])


def ns_file_text(seats: Sequence[NsNode], image: str) -> str:
    """Return the NS file. Every word in it has passed a pattern (names, hardware, image), so no Tcl can get in."""
    nodes = [line for seat in seats for line in _node_lines(seat, image)]
    return "\n".join(
        ["set ns [new Simulator]", "source tb_compat.tcl", "", *nodes, "", *_lan_lines(seats), "$ns run", ""]
    )


def _node_lines(seat: NsNode, image: str) -> list[str]:
    return [
        f"set {seat.name} [$ns node]",
        f"tb-set-hardware ${seat.name} {seat.hardware}",
        f"tb-set-node-os ${seat.name} {image}",
    ]


def _lan_lines(seats: Sequence[NsNode]) -> list[str]:
    if len(seats) < 2:
        return []
    widest = max(seat.bandwidth_mbit for seat in seats)
    members = " ".join(f"${seat.name}" for seat in seats)
    slower = [seat for seat in seats if seat.bandwidth_mbit < widest]
    return [
        f'set {LAN_NAME} [$ns make-lan "{members}" {widest}Mb 0ms]',
        *(f"tb-set-ip ${seat.name} {seat.address}" for seat in seats),
        *(f"tb-set-node-lan-bandwidth ${seat.name} ${LAN_NAME} {seat.bandwidth_mbit}Mb" for seat in slower),
        "$ns rtproto Static",
    ]


SITES_FILE = "sites.json"


@dataclass(frozen=True)
class ExperimentRecord:
    """A classic experiment: its start, the hours after which Emulab swaps it out, and its machines."""

    started_s: float
    longest_hours: int
    seats: tuple[NsNode, ...]


def write_record(experiment: str, record: ExperimentRecord) -> None:
    _replace_json(_record_path(experiment), asdict(record))


def read_record(experiment: str) -> ExperimentRecord:
    try:
        data = json.loads(_record_path(experiment).read_text())
        return ExperimentRecord(
            data["started_s"], data["longest_hours"], tuple(NsNode(**seat) for seat in data["seats"])
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InfrastructureError(
            f"{_record_path(experiment)}: what {experiment} has is not known ({error!r}); release it and start again"
        ) from error


def remove_record(experiment: str) -> None:
    _record_path(experiment).unlink(missing_ok=True)


def recorded_sites() -> list[dict[str, str]]:
    """Return every site where this harness started something and has not since found that nothing is left."""
    try:
        sites = json.loads((_state_folder() / SITES_FILE).read_text())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise InfrastructureError(
            f"{_state_folder() / SITES_FILE}: not readable ({error}); remove it, and"
            f" look on Emulab for experiments that are left"
        ) from error
    return [dict(one) for one in sites]


def add_site(site: Mapping[str, str]) -> None:
    """Record the site. The lease that starts something there is on record before this is called."""
    with _lock():
        sites = recorded_sites()
        if dict(site) not in sites:
            _replace_json(_state_folder() / SITES_FILE, [*sites, dict(site)])


def drop_site(site: Mapping[str, str], testbed: str) -> None:
    """Remove the site, unless a lease on record is there."""
    with _lock():
        if not any(lease.testbed == testbed and lease.site == site for lease in registry.read_all()):
            _replace_json(_state_folder() / SITES_FILE, [one for one in recorded_sites() if one != dict(site)])


def _lock() -> AbstractContextManager[None]:
    return hold_lock(_state_folder() / ".lock", "noting a site of Emulab")


def _state_folder() -> Path:
    return registry.state_dir() / "emulab"


def _record_path(experiment: str) -> Path:
    return _state_folder() / f"{experiment}.json"


def _replace_json(path: Path, data: Mapping[str, object] | Sequence[object]) -> None:
    replace_file(path, json.dumps(data, indent=1))
