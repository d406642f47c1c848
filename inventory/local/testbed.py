"""The `local` testbed: machines emulated on this box with Podman and runc.

A lease's files are in `<state>/local/<lease>` (Podman's storage), `<state>/keys/<lease>`, the cgroup
`barograph-<lease>` and under the names of `inventory.local.lan`. The folder is created first and removed last, so
a harness that is killed at any moment leaves a name that `release` or `sweep` can start from.
"""

import errno
import logging
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import processes, registry
from inventory.leases.registry import Lease
from inventory.local import lan, preflight, rootfs
from inventory.local.disturbances import DisturbedMachine
from inventory.local.podman import Container, Podman
from inventory.machines import Machine, MachineRequest
from inventory.remote import host_keys
from inventory.remote.ssh import Remote, connect
from inventory.testbed import Place, refuse_options

log = logging.getLogger(__name__)

READY_LIMIT_S = 60.0
SWEEPER = "sweep"


class LocalTestbed:
    """Emulated machines. `mounts` maps folders of the box to read-only places in every machine."""

    name = "local"
    shared = False
    whole_machines = False
    place: Place = "this_box"

    def __init__(
        self,
        mounts: Mapping[Path, str] | None = None,
        root: Path | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        refuse_options(self.name, options)
        self._mounts = dict(mounts or {})
        self._root = root
        self._state = registry.state_dir()

    def site(self) -> Mapping[str, str]:
        """See `Testbed.site`: everything is on this box."""
        return {}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`: names, mounts, cores, memory, disk."""
        preflight.check_names(requests)
        preflight.check_state(self._state)
        for source in self._mounts:
            if not source.exists():
                raise ConfigurationError(
                    f"local: {source}, to be mounted into the machines, is missing; prepare it first"
                )
        preflight.check_cores(requests, preflight.box_cores())
        preflight.check_memory(requests, preflight.box_memory_mb())
        preflight.check_disk(requests, self._state)

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`: every machine answers ssh when this returns."""
        self.check(requests)
        registry.require_on_record(lease)
        root = self._root or rootfs.build(rootfs.cache_dir(), log.info)
        registry.require_empty(lease, self._folder(lease.lease_id).exists())
        with ExitStack() as ranges:
            ranges.enter_context(lan.free_ranges(lease.lease_id))
            try:
                machines = self._build_lans(lease, requests)
                ranges.close()
                self._start(lease, machines, root)
            except BaseException as error:
                self.release(lease)
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    raise CapacityError(f"{self._state}: the disk is full; free some space and start again") from error
                raise
        log.info("lease %s: %d machines on %s", lease.lease_id, len(machines), self.name)
        return machines

    def _build_lans(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        self._folder(lease.lease_id).mkdir(parents=True)
        registry.hold(lease, [request.name for request in requests])
        seats = [
            lan.lan_endpoint(lease.lease_id, request.name, number, request.type.bandwidth_mbit)
            for number, request in enumerate(requests)
        ]
        machines = tuple(self._machine(lease, request, seat) for request, seat in zip(requests, seats, strict=True))
        self._identify(lease, machines)
        lan.guard_ranges(lease.lease_id)
        lan.build(lease.lease_id, seats, self._state)
        return machines

    def _start(self, lease: Lease, machines: Sequence[Machine], root: Path) -> None:
        podman = self._podman(lease.lease_id)
        podman.prepare()
        started = {
            machine: podman.start(self._container(lease, machine, _endpoint_of(lease.lease_id, machine), root))
            for machine in machines
        }
        processes.put_first(lease.lease_id)
        _wait_for_ssh(started, podman)
        if not self._folder(lease.lease_id).exists():
            raise InfrastructureError(
                f"lease {lease.lease_id} was reaped while its machines started (expired?); start again"
            )

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`. The lease's keys go too; the record of the lease is `registry.drop`'s."""
        self._remove(lease.lease_id)
        registry.hold_nothing(lease)

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`: container and disk, links, namespace and keys of each machine."""
        if not self._folder(lease.lease_id).exists():
            return
        podman = self._podman(lease.lease_id)
        for machine in machines:
            seat = _endpoint_of(lease.lease_id, machine)
            podman.remove(seat.netns)
            lan.remove_endpoint(lease.lease_id, seat)
            shutil.rmtree(self._identity(lease.lease_id, machine.name), ignore_errors=True)
        names = {machine.name for machine in machines}
        registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in names])
        log.info("lease %s: gave back %s", lease.lease_id, ", ".join(sorted(names)))

    def crash(self, machine: Machine) -> None:
        """See `SupportsFaults.crash`: the links go down before the processes die, so that no connection is closed."""
        lease_id, seat = self._require(machine)
        lan.cut_links(lease_id, seat)
        self._podman(lease_id).stop(seat.netns)
        log.info("lease %s: crashed %s", lease_id, machine.name)

    def restart(self, machine: Machine) -> None:
        """See `SupportsFaults.restart`."""
        lease_id, seat = self._require(machine)
        lan.restore_links(lease_id, seat)
        podman = self._podman(lease_id)
        _wait_for_ssh({machine: podman.start_again(seat.netns)}, podman)
        log.info("lease %s: restarted %s", lease_id, machine.name)

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.disturb`."""
        self._disturbed(machine).begin(disturbance, others)
        log.info("machine %s: %s begins", machine.name, disturbance)

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.end_disturbance`."""
        self._disturbed(machine).end(disturbance, others)
        log.info("machine %s: %s is over", machine.name, disturbance)

    def _disturbed(self, machine: Machine) -> DisturbedMachine:
        lease_id, seat = self._require(machine)
        return DisturbedMachine(machine, lease_id, seat, self._podman(lease_id))

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: one name per lease id that has machines here and is not on record."""
        return tuple(f"machines of {lease_id}" for lease_id in self._ownerless())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`; also removes the routes that guard the address ranges, if nobody uses them."""
        lease_ids = self._ownerless()
        for lease_id in lease_ids:
            self._remove(lease_id)
        if not any(lease.testbed == self.name for lease in registry.read_all()):
            lan.unguard_ranges(SWEEPER)
        return tuple(f"machines of {lease_id}" for lease_id in lease_ids)

    def connect(self, machine: Machine) -> Remote:
        """See `SupportsConnect.connect`."""
        return connect(machine)

    def _require(self, machine: Machine) -> tuple[str, lan.LanEndpoint]:
        """Return the lease that has the machine, and its seat; InfrastructureError if no lease has it any more."""
        lease_id = machine.ssh_key.parent.name
        seat = _endpoint_of(lease_id, machine)
        if not (lan.NETNS / seat.netns).exists():
            raise InfrastructureError(
                f"local: lease {lease_id} has no machine {machine.name} (given back or released); "
                "name one that it has, or start again"
            )
        return lease_id, seat

    def _podman(self, lease_id: str) -> Podman:
        return Podman(self._folder(lease_id), lease_id)

    def _identity(self, lease_id: str, machine: str) -> Path:
        """Return the folder that the machine mounts: its host key, authorized keys, the others' names."""
        return registry.key_dir(lease_id, self._state) / "machines" / machine

    def _folder(self, lease_id: str) -> Path:
        return self._state / "local" / lease_id

    def _ownerless(self) -> list[str]:
        # Folders are listed before the leases are read: a lease is on record before its machines exist.
        folders = [*(self._state / "local").glob("*"), *(self._state / "keys").glob("*")]
        existing = {path.name for path in folders} | lan.lease_ids(self._state)
        return sorted(existing - {lease.lease_id for lease in registry.read_all()})

    def _remove(self, lease_id: str) -> None:
        folder, keys = self._folder(lease_id), registry.key_dir(lease_id, self._state)
        processes.kill_all(lease_id, [folder, keys])
        for mount in _mount_points(folder):
            lan.unmount(mount)
        lan.remove(lease_id)
        processes.remove_cgroups(lease_id)
        shutil.rmtree(keys, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise InfrastructureError(f"{folder} cannot be removed; see what still uses it, then `barograph reap`")

    def _machine(self, lease: Lease, request: MachineRequest, seat: lan.LanEndpoint) -> Machine:
        keys = registry.key_dir(lease.lease_id, self._state)
        return Machine(
            request.name, request.type, seat.control_address, seat.experiment_address,
            inside_address=seat.control_address, ssh_user="root", ssh_port=22,
            ssh_key=keys / "id_ed25519", known_hosts=keys / "known_hosts",
        )  # fmt: skip

    def _identify(self, lease: Lease, machines: Sequence[Machine]) -> None:
        keys = registry.key_dir(lease.lease_id, self._state)
        host_keys.make_keys(keys, {machine.name: machine.control_address for machine in machines}, lease.lease_id)
        hosts = "127.0.0.1 localhost\n" + "".join(f"{m.experiment_address} {m.name}\n" for m in machines)
        for machine in machines:
            (self._identity(lease.lease_id, machine.name) / "hosts").write_text(hosts)

    def _container(self, lease: Lease, machine: Machine, seat: lan.LanEndpoint, root: Path) -> Container:
        return Container(
            seat.netns, machine.name, lan.NETNS / seat.netns, machine.type.cores, machine.type.memory_mb,
            root, self._identity(lease.lease_id, machine.name), self._mounts,
        )  # fmt: skip


def _endpoint_of(lease_id: str, machine: Machine) -> lan.LanEndpoint:
    number = lan.endpoint_number(machine.control_address)
    return lan.lan_endpoint(lease_id, machine.name, number, machine.type.bandwidth_mbit)


def _mount_points(folder: Path) -> list[Path]:
    """Return mount points below the folder, innermost first."""
    points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    below = [point for point in points if point.startswith(f"{folder}/")]
    return [Path(point) for point in sorted(below, key=len, reverse=True)]


def _wait_for_ssh(started: Mapping[Machine, str], podman: Podman) -> None:
    """Wait until all answer; `started` maps machines to container ids."""
    deadline = time.monotonic() + READY_LIMIT_S
    for machine, container_id in started.items():
        while not _answers_ssh(machine):
            is_late = time.monotonic() > deadline
            if is_late or not podman.is_running(container_id):
                why = f"does not answer ssh after {READY_LIMIT_S:g} s" if is_late else "ended as soon as it was started"
                raise InfrastructureError(
                    f"local: {machine.name} ({machine.control_address}) {why}; "
                    f"its last words: {podman.last_words(container_id) or 'none'}"
                )
            time.sleep(0.05)


def _answers_ssh(machine: Machine) -> bool:
    try:
        with socket.create_connection((machine.control_address, machine.ssh_port), timeout=2.0) as connection:
            return connection.recv(4).startswith(b"SSH-")
    except OSError:
        return False
