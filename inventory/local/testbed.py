"""The `local` testbed: machines emulated on this box with Podman and runc.

A lease's files are in `<state>/local/<lease>` (Podman's storage), `<state>/keys/<lease>`, the cgroup
`barograph-<lease>` and under the names of `inventory.local.lan`. The folder is created first and removed last, so
a harness that is killed at any moment leaves a name that `release` or `sweep` can start from.
"""

import errno
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import processes, registry
from inventory.leases.registry import Lease
from inventory.local import lan, preflight, rootfs
from inventory.local.podman import Container, Podman
from inventory.machines import Machine, MachineRequest
from inventory.remote import ssh
from inventory.remote.ssh import answers_ssh, connect
from inventory.testbed import Place, leftover_names, refuse_options

log = logging.getLogger(__name__)

READY_LIMIT_S = 60.0
SWEEPER = "sweep"
LOAD = Path(__file__).with_name("cpu_load.py")
LOAD_ON_MACHINE = "/run/barograph-cpu-load.py"


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
        registry.require_new(lease, self._folder(lease.lease_id).exists())
        root = self._root or rootfs.build(rootfs.cache_dir(), log.info)
        with ExitStack() as ranges:
            ranges.enter_context(lan.free_ranges(lease.lease_id))
            try:
                self._folder(lease.lease_id).mkdir(parents=True)
                registry.hold(lease, [request.name for request in requests])
                seats = [
                    lan.lan_endpoint(lease.lease_id, request.name, number, request.type.bandwidth_mbit)
                    for number, request in enumerate(requests)
                ]
                machines = self._identify(lease, requests, seats, root.name)
                lan.guard_ranges(lease.lease_id)
                lan.build(lease.lease_id, seats, self._state)
                ranges.close()
                self._start(lease, machines, root)
            except BaseException as error:
                self.release(lease)
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    raise CapacityError(f"{self._state}: the disk is full; free some space and start again") from error
                raise
        log.info("lease %s: %d machines on %s", lease.lease_id, len(machines), self.name)
        return machines

    def _identify(
        self, lease: Lease, requests: Sequence[MachineRequest], seats: Sequence[lan.LanEndpoint], image: str
    ) -> tuple[Machine, ...]:
        """Return the machines of these seats, with their keys and names on record."""
        keys = registry.key_dir(lease.lease_id, self._state)
        ssh.make_keys(
            keys,
            {request.name: seat.control_address for request, seat in zip(requests, seats, strict=True)},
            lease.lease_id,
        )
        machines = tuple(
            Machine(
                request.name, request.type, seat.control_address, seat.experiment_address, seat.control_address,
                "root", 22, keys / "id_ed25519", keys / "known_hosts", image=image,
            )
            for request, seat in zip(requests, seats, strict=True)
        )  # fmt: skip
        hosts = "127.0.0.1 localhost\n" + "".join(f"{m.experiment_address} {m.name}\n" for m in machines)
        for machine in machines:
            (self._identity(lease.lease_id, machine.name) / "hosts").write_text(hosts)
        return machines

    def _start(self, lease: Lease, machines: Sequence[Machine], root: Path) -> None:
        podman = self._podman(lease.lease_id)
        podman.prepare()
        started = {}
        for machine in machines:
            netns, type = _endpoint_of(lease.lease_id, machine).netns, machine.type
            started[machine] = podman.start(Container(
                netns, machine.name, lan.NETNS / netns, type.cores, type.memory_mb, root,
                self._identity(lease.lease_id, machine.name), self._mounts,
            ))  # fmt: skip
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

    def crash(self, machine: Machine) -> None:
        """See `SupportsFaults.crash`: the links go down before the processes die, so that no connection is closed."""
        lease_id, seat = self._require(machine)
        lan.set_links(lease_id, seat, up=False)
        self._podman(lease_id).stop(seat.netns)
        log.info("lease %s: crashed %s", lease_id, machine.name)

    def restart(self, machine: Machine) -> None:
        lease_id, seat = self._require(machine)
        lan.set_links(lease_id, seat, up=True)
        podman = self._podman(lease_id)
        _wait_for_ssh({machine: podman.start_again(seat.netns)}, podman)
        log.info("lease %s: restarted %s", lease_id, machine.name)

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        self._set_disturbed(machine, disturbance, others, True)
        log.info("machine %s: %s begins", machine.name, disturbance)

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.end_disturbance`: without knowing whether it began, so that a harness can continue
        after one that died in it."""
        self._set_disturbed(machine, disturbance, others, False)
        log.info("machine %s: %s is over", machine.name, disturbance)

    def _set_disturbed(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine], on: bool) -> None:
        lease_id, seat = self._require(machine)
        amount, podman, type = disturbance.amount or 0.0, self._podman(lease_id), machine.type
        match disturbance.kind:
            case "cpu_load":
                _end_load(machine, podman, seat.netns)
                if on:
                    _begin_load(machine, amount)
            case "slow_cpu":
                podman.limit_cores(seat.netns, amount * type.cores if on else type.cores)
            case "memory_limit":
                podman.limit_memory(seat.netns, round(amount) if on else type.memory_mb)
            case "lan_cut":
                lan.set_experiment_link(lease_id, seat, up=not on)
            case "partition":
                for other in others:
                    lan.set_hidden(lease_id, seat, lan.EXPERIMENT_INTERFACE, other.experiment_address, on)
            case "sample_loss":
                for other in others:
                    lan.set_hidden(lease_id, seat, lan.CONTROL_INTERFACE, other.control_address, on)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`: one name per lease id that has machines here and is not on record."""
        return leftover_names(self._ownerless())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`; also removes the routes that guard the address ranges, if nobody uses them."""
        lease_ids = self._ownerless()
        for lease_id in lease_ids:
            self._remove(lease_id)
        if not any(lease.testbed == self.name for lease in registry.read_all()):
            lan.unguard_ranges(SWEEPER)
        return leftover_names(lease_ids)

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
        folders = [*(self._state / "local").glob("*"), *(self._state / "keys").glob("*")]
        return registry.ownerless({path.name for path in folders} | lan.lease_ids(self._state))

    def _remove(self, lease_id: str) -> None:
        folder, keys = self._folder(lease_id), registry.key_dir(lease_id, self._state)
        processes.kill_all(lease_id, [folder, keys])
        points = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
        for point in sorted(points, key=len, reverse=True):  # innermost first
            if point.startswith(f"{folder}/"):
                lan.unmount(Path(point))
        lan.remove(lease_id)
        processes.remove_cgroups(lease_id)
        shutil.rmtree(keys, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            raise InfrastructureError(f"{folder} cannot be removed; see what still uses it, then `barograph reap`")


def _endpoint_of(lease_id: str, machine: Machine) -> lan.LanEndpoint:
    number = lan.endpoint_number(machine.control_address)
    return lan.lan_endpoint(lease_id, machine.name, number, machine.type.bandwidth_mbit)


def _begin_load(machine: Machine, cores: float) -> None:
    with connect(machine) as remote:
        remote.put(LOAD, LOAD_ON_MACHINE)
        result = remote.run(["python3", LOAD_ON_MACHINE, f"{cores:g}"])
    if result.code != 0:
        reason = result.stderr.strip() or result.stdout.strip()
        raise InfrastructureError(f"local: no load could be put on {machine.name}: {reason}")


def _end_load(machine: Machine, podman: Podman, name: str) -> None:
    """End the load from the box: a machine with such a load may refuse logins."""

    def is_load(pid: int) -> bool:
        try:
            return LOAD_ON_MACHINE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # it has ended
            return False

    if survivors := processes.kill(lambda: set(filter(is_load, podman.pids(name)))):
        raise InfrastructureError(f"local: the load on {machine.name} does not end: processes {survivors}")


def _wait_for_ssh(started: Mapping[Machine, str], podman: Podman) -> None:
    """Wait until all answer; `started` maps machines to container ids."""
    deadline = time.monotonic() + READY_LIMIT_S
    for machine, container_id in started.items():
        while not answers_ssh(machine, 2.0):
            is_late = time.monotonic() > deadline
            if is_late or not podman.is_running(container_id):
                why = f"does not answer ssh after {READY_LIMIT_S:g} s" if is_late else "ended as soon as it was started"
                raise InfrastructureError(
                    f"local: {machine.name} ({machine.control_address}) {why}; "
                    f"its last words: {podman.last_words(container_id) or 'none'}"
                )
            time.sleep(0.05)
