"""Containers of one lease, in a Podman storage of their own: other containers are neither seen nor touched."""

import resource
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import InfrastructureError
from inventory.leases.processes import CGROUPS, cgroup_folders, cgroup_name, kill, pids_below, run

PERIOD_US = 100_000
MOST_ENDED = 20  # processes, until a machine is below its new limit of memory
FIRST_PROCESSES = 2  # Podman's init and the machine's program, which starts all others
MEMORY_IN_USE = ("memory.usage_in_bytes", "memory.current")  # cgroup version 1, 2
PIDS = 8192
OPEN_FILES = 65536
MACHINE_FOLDER = "/opt/barograph/machine"

# Locks in files of the lease's own: the default is one shared memory segment for all of the box's containers. The
# network folder is only read, and would be created under /etc.
CONTAINERS_CONF = """\
[engine]
lock_type = "file"
tmp_dir = "{folder}/tmp"
[network]
network_config_dir = "{folder}/net"
[containers]
log_size_max = 1048576
"""


@dataclass(frozen=True)
class Container:
    """One machine as a Podman container. `mounts` maps folders of the box to read-only places in the machine.

    `program` is its first one, `capabilities` are beyond Podman's own: sshd logs, and a machine has packet filters.
    """

    name: str
    hostname: str
    netns: Path
    cores: float
    memory_mb: int
    rootfs: Path
    identity: Path
    mounts: Mapping[Path, str]
    program: str = "/usr/local/sbin/barograph-machine"
    capabilities: tuple[str, ...] = ("AUDIT_WRITE", "NET_ADMIN")


class Podman:
    """Podman over the storage in `folder`, for one lease."""

    def __init__(self, folder: Path, lease_id: str) -> None:
        self._folder = folder
        self._lease_id = lease_id

    def prepare(self) -> None:
        """Write the configuration that separates this storage."""
        (self._folder / "tmp").mkdir()
        (self._folder / "containers.conf").write_text(CONTAINERS_CONF.format(folder=self._folder))

    def start(self, container: Container) -> str:
        """Create and start one machine, whose state outlives this process; returns the container's id."""
        flags = run_flags(container, self._lease_id)
        root = f"{container.rootfs}:O"
        return self._run(["run", "--detach", *flags, "--rootfs", root, container.program]).strip()

    def stop(self, name: str) -> None:
        """Kill every process of the machine and wait until they are gone; its disk stays. Idempotent."""
        self._run(["stop", "--time=0", name])  # 0: SIGKILL at once
        # Podman 4.3 leaves the stopped container with runc, which then refuses to make it again.
        run(["runc", f"--root={self._folder}/runc", "delete", "--force", self._id(name)], self._lease_id)

    def start_again(self, name: str) -> str:
        """Start a machine that was stopped, on its disk; returns the container's id. Idempotent."""
        self._run(["start", name])
        return self._id(name)

    def limit_cores(self, name: str, cores: float) -> None:
        """Limit the machine to this many cores from now on."""
        self._run(["update", f"--cpu-period={PERIOD_US}", f"--cpu-quota={round(cores * PERIOD_US)}", name])

    def limit_memory(self, name: str, memory_mb: int) -> None:
        """Limit the machine's memory from now on; the largest processes end until it fits.

        In cgroup version 2 the kernel does that. In version 1 it refuses a limit below what is in use and cannot be
        given back; the attempt may have freed enough, so a refusal with room is tried once more.
        """
        argv = ["update", f"--memory={memory_mb}m", f"--memory-swap={memory_mb}m", name]
        kills, had_room = 0, False
        while kills <= MOST_ENDED:
            try:
                self._run(argv)
            except InfrastructureError:
                has_room = self._memory_in_use(name) <= memory_mb * 2**20
                if has_room and had_room:
                    raise  # for another reason
                if not has_room:
                    others = [pid for pid in self.pids(name) if _number_on_machine(pid) > FIRST_PROCESSES]
                    largest = max(others, key=_resident_pages, default=None)
                    if kills < MOST_ENDED:
                        if largest is None:
                            raise
                        kill(lambda: {largest} & set(self.pids(name)))  # noqa: B023  # it waits until that has ended
                    kills += 1
                had_room = has_room
            else:
                return
        raise InfrastructureError(f"{name} does not come below {memory_mb} MB, whatever is ended there")

    def pids(self, name: str) -> list[int]:
        """Return every process of the machine, by pids of the box."""
        return sorted({pid for top in self._cgroups(name) for pid in pids_below(top)})

    def _memory_in_use(self, name: str) -> int:
        """Return bytes in use, the kernel's file cache included."""
        files = (top / file for top in self._cgroups(name) for file in MEMORY_IN_USE)
        return max((int(file.read_text()) for file in files if file.exists()), default=0)

    def _cgroups(self, name: str) -> set[Path]:
        return {top / f"libpod-{self._id(name)}" for top in cgroup_folders(self._lease_id)}

    def remove(self, name: str) -> None:
        """Remove the machine's processes and disk; harmless if they are gone."""
        self._run(["rm", "--force", "--ignore", "--time=0", name])

    def is_running(self, container_id: str) -> bool:
        """Return True if the machine has any process, by its cgroup: asking Podman costs 0.1 CPU seconds."""
        return any(pids_below(top / f"libpod-{container_id}") for top in cgroup_folders(self._lease_id))

    def last_words(self, container_id: str) -> str:
        """Return the last lines of the machine's main process, from Podman's own file: `time stream F text`."""
        log = self._folder / "root" / "vfs-containers" / container_id / "userdata" / "ctr.log"
        lines = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
        return " / ".join(line.split(" ", 3)[-1] for line in lines)

    def _id(self, name: str) -> str:
        return self._run(["container", "inspect", "--format={{.Id}}", name]).strip()

    def _run(self, argv: Sequence[str]) -> str:
        folder = self._folder
        flags = [
            f"--root={folder}/root", f"--runroot={folder}/run", "--storage-driver=vfs", "--runtime=runc",
            f"--runtime-flag=root={folder}/runc", "--cgroup-manager=cgroupfs", "--events-backend=file",
        ]  # fmt: skip
        return run(["env", f"CONTAINERS_CONF={folder}/containers.conf", "podman", *flags, *argv], self._lease_id)


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def _number_on_machine(pid: int) -> int:
    """Return the process's pid inside the machine; 0 for one that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0


def run_flags(container: Container, lease_id: str) -> list[str]:
    """Return `podman run`'s flags for a machine, without the root filesystem."""
    mounts = {**container.mounts, container.identity: MACHINE_FOLDER}
    swappiness = ["--memory-swappiness=0"] if not (CGROUPS / "cgroup.controllers").exists() else []
    return [
        f"--name={container.name}", f"--hostname={container.hostname}", f"--network=ns:{container.netns}",
        "--no-hosts", "--dns=none", "--init", "--systemd=false", "--log-driver=k8s-file",
        f"--cgroup-parent=/{cgroup_name(lease_id)}", f"--label=barograph.lease={lease_id}",
        f"--cpu-period={PERIOD_US}", f"--cpu-quota={round(container.cores * PERIOD_US)}",
        f"--memory={container.memory_mb}m", f"--memory-swap={container.memory_mb}m", *swappiness,
        f"--ulimit=nofile={_limit(resource.RLIMIT_NOFILE, OPEN_FILES)}",
        f"--ulimit=nproc={_limit(resource.RLIMIT_NPROC, PIDS)}", f"--pids-limit={PIDS}",
        *(f"--cap-add={one}" for one in container.capabilities),
        "--tmpfs=/run:rw,mode=755,size=64m,notmpcopyup", "--env=LANG=C.UTF-8",
        *(f"--mount=type=bind,src={source},dst={target},ro=true" for source, target in mounts.items()),
    ]  # fmt: skip


def _limit(kind: int, wanted: int) -> str:
    """Return soft and hard limit; without CAP_SYS_RESOURCE none may exceed the box's own hard limit."""
    hard = resource.getrlimit(kind)[1]
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return f"{value}:{value}"
