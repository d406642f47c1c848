"""Checks before anything is started on this box: whether it has room for the requested machines of the `local` testbed
(cores, memory, disk), and what prevents the testbed from working (programs, cgroups, kernel, room).
"""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError
from inventory import machines
from inventory.leases import registry
from inventory.leases.processes import CGROUPS
from inventory.local import lan, rootfs
from inventory.machines import MachineRequest

DISK_MB_PER_MACHINE = 200  # Storm's state and logs in the machine's overlay
MEMORY_SHARE = 0.9  # of the box; the rest is the harness's
MASTER_CORES = 0.3  # the master's use while a run is measured; it needs its whole core only between runs
COMMAND_LIMIT_S = 20.0  # for a program that only reads
LONGEST_STATE_PATH = 30  # Podman refuses a runroot of more than 50 characters


def box_cores() -> float:
    """Return the number of CPUs that this process may use."""
    return float(len(os.sched_getaffinity(0)))


def check_state(state: Path) -> None:
    """Check that the state folder's path is short enough for Podman and free of characters that its flags interpret."""
    if len(str(state)) > LONGEST_STATE_PATH or not re.fullmatch(r"[\w./-]+", str(state)):
        raise ConfigurationError(
            f"local: the state folder is {state}; Podman needs at most {LONGEST_STATE_PATH} characters, of letters,"
            " digits and . _ - /; set BAROGRAPH_STATE to such a folder"
        )


def check_names(requests: Sequence[MachineRequest]) -> None:
    machines.check_names("local", requests)
    if len(requests) > lan.MAX_MACHINES:
        raise CapacityError(f"local: {len(requests)} machines are asked for, at most {lan.MAX_MACHINES} have addresses")


def check_cores(requests: Sequence[MachineRequest], cores: float) -> None:
    shares = [measured_cores(request) for request in requests]
    total_cores = sum(shares)
    if total_cores <= cores + 1e-9:
        return
    fixed = sum(share for share, request in zip(shares, requests, strict=True) if request.type.slots == 0)
    workers = total_cores - fixed
    room = cores - fixed
    share = f"make the workers' share {room / workers:.2f} of what it is" if room > 0 < workers else "use a larger box"
    raise CapacityError(
        f"local: {len(requests)} machines need {total_cores:g} cores, this box has {cores:g}: "
        f"the first {_count_fitting(shares, cores)} would fit; ask for fewer, or {share}"
    )


def measured_cores(request: MachineRequest) -> float:
    """Return the cores that a machine may need while others are measured beside it."""
    return request.type.cores if request.type.slots else min(request.type.cores, MASTER_CORES)


def check_memory(requests: Sequence[MachineRequest], memory_mb: int) -> None:
    wanted_mb = sum(request.type.memory_mb for request in requests)
    usable_mb = int(memory_mb * MEMORY_SHARE)
    if wanted_mb > usable_mb:
        fitting = _count_fitting([request.type.memory_mb for request in requests], usable_mb)
        raise CapacityError(
            f"local: {len(requests)} machines need {wanted_mb} MB of memory, this box can give {usable_mb}: "
            f"the first {fitting} would fit; ask for fewer or smaller ones"
        )


def check_disk(requests: Sequence[MachineRequest], state: Path) -> None:
    free_mb, wanted_mb = _free_mb(state), DISK_MB_PER_MACHINE * len(requests)
    if free_mb < wanted_mb:
        raise CapacityError(
            f"local: {state} has {free_mb} MB free, {len(requests)} machines need {wanted_mb}; "
            "free some or set BAROGRAPH_STATE to a folder on a larger disk"
        )


def _count_fitting(sizes: Sequence[float], available: float) -> int:
    """Return how many of the sizes fit, taken in order."""
    return sum(1 for end in range(1, len(sizes) + 1) if sum(sizes[:end]) <= available + 1e-9)


def box_memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20


# program -> the Debian and Ubuntu package that has it
PROGRAMS = {
    "podman": "podman", "runc": "runc", "conmon": "conmon", "ip": "iproute2", "tc": "iproute2", "ssh": "openssh-client",
    "ssh-keygen": "openssh-client", "debootstrap": "debootstrap", "unshare": "util-linux", "setpriv": "util-linux",
    "iptables": "iptables",
}  # fmt: skip
CATATONIT = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit")  # the paths that `podman run --init` searches
CONTROLLERS = {1: ("cpu", "cpuacct", "memory", "pids", "freezer"), 2: ("cpu", "memory", "pids")}
STATE_MB = 2000
MEMORY_MB = 4000  # a master and four machines at the memory floor are 5 GB of limits, of which 3 are used


@dataclass(frozen=True)
class Problem:
    """One problem, without which nothing works, and its remedy."""

    what: str
    remedy: str
    blame: str = "configuration"

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


@dataclass(frozen=True)
class Box:
    """Facts about the box. `works` are the kernel's abilities that passed: tbf, filter, veth, bridge, overlay."""

    system: str
    user_id: int
    missing_programs: tuple[str, ...]
    cgroup_version: int
    controllers: frozenset[str]
    works: frozenset[str]
    bridge_filtered: bool
    memory_mb: int
    state: Path
    state_free_mb: int
    cache: Path
    cache_free_mb: int
    rootfs_cached: bool


def check_box(state: Path | None = None, cache: Path | None = None) -> list[Problem]:
    """Return every problem of this box; nothing is started or left behind."""
    return box_problems(inspect_box(state or registry.state_dir(), cache or rootfs.cache_dir()))


def box_problems(box: Box) -> list[Problem]:
    """Return the problems of a box, from its facts."""
    if box.system != "Linux":
        what = f"this is {box.system}, machines are emulated on Linux only"
        return [Problem(what, "use a Linux box or a virtual machine")]
    if box.user_id != 0:
        return [Problem(f"this is user {box.user_id}, not root", "start it as root or with sudo")]
    problems = []
    if box.missing_programs:
        packages = sorted({PROGRAMS.get(program, program) for program in box.missing_programs})
        what = f"not installed: {', '.join(box.missing_programs)}"
        problems.append(Problem(what, f"apt-get install {' '.join(packages)}"))
    missing = [one for one in CONTROLLERS.get(box.cgroup_version, ()) if one not in box.controllers]
    if box.cgroup_version == 0:
        problems.append(Problem(f"no cgroups under {CGROUPS}", "mount them: CPU and memory limits need them"))
    elif missing:
        what = f"cgroup controllers are missing: {', '.join(missing)} (version {box.cgroup_version})"
        problems.append(Problem(what, "enable them in the kernel's command line or in the container this runs in"))
    module = "load the kernel module, or use a kernel that has it"
    for ability, what, remedy in (
        ("veth", "no veth interfaces: machines cannot be connected", module),
        ("bridge", "no bridges: machines cannot be connected", module),
        ("tbf", "no tbf queueing discipline: bandwidth cannot be shaped", module),
        ("filter", "no packet filter: machines would reach every program of this box", module),
        ("overlay", f"no overlay mounts on {box.state}: machines have no disk of their own",
         f"{module}, or set BAROGRAPH_STATE to a folder on ext4 or xfs"),
    ):  # fmt: skip
        if ability not in box.works:
            problems.append(Problem(what, remedy))
    if box.bridge_filtered:
        problems.append(Problem(
            "iptables drops forwarded packets and sees bridged ones: machines could not talk to each other",
            "sysctl -w net.bridge.bridge-nf-call-iptables=0",
        ))  # fmt: skip
    folders = [(box.state, box.state_free_mb, STATE_MB, "BAROGRAPH_STATE")]
    if not box.rootfs_cached:
        folders.append((box.cache, box.cache_free_mb, rootfs.ROOTFS_MB, "BAROGRAPH_CACHE"))
    for folder, free_mb, needed_mb, variable in folders:
        if free_mb < needed_mb:
            remedy = f"free some or set {variable} to a folder on a larger disk"
            problems.append(Problem(f"{folder} has {free_mb} MB free, {needed_mb} are needed", remedy, "capacity"))
    if box.memory_mb < MEMORY_MB:
        what = f"this box has {box.memory_mb} MB of memory, {MEMORY_MB} are needed"
        problems.append(Problem(what, "use a larger one", "capacity"))
    return problems


def inspect_box(state: Path, cache: Path) -> Box:
    """Collect the facts for `box_problems`."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=_with_sbin()["PATH"]) is None]
    if not any(Path(place).exists() for place in CATATONIT):
        missing.append("catatonit")
    unified = CGROUPS / "cgroup.controllers"
    if unified.exists():
        version, controllers = 2, frozenset(unified.read_text().split())
    else:
        controllers = frozenset(path.name for path in CGROUPS.glob("*") if (path / "cgroup.procs").exists())
        version = 1 if controllers else 0
    root = platform.system() == "Linux" and os.geteuid() == 0
    return Box(
        platform.system(), os.geteuid(), tuple(missing), version, controllers,
        frozenset(_kernel_abilities(_nearest_folder(state))) if root else frozenset(), root and _bridge_filtered(),
        box_memory_mb(), state, _free_mb(state), cache, _free_mb(cache), any(cache.glob("rootfs-*[0-9a-f]/usr")),
    )  # fmt: skip


def _with_sbin() -> dict[str, str]:
    """Return the environment with /usr/sbin on PATH: cron's and many users' lack it."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


def _kernel_abilities(folder: Path) -> Iterator[str]:
    """Try each ability in a namespace of its own, which is removed with its contents."""
    net = ["unshare", "--net"]
    shaped = ["tc", "qdisc", "add", "dev", "lo", "root"]
    trials = {
        "veth": [*net, "ip", "link", "add", "try0", "type", "veth", "peer", "name", "try1"],
        "bridge": [*net, "ip", "link", "add", "try0", "type", "bridge"],
        "tbf": [*net, *shaped, "tbf", "rate", "1mbit", "burst", "128kb", "latency", "50ms"],
        "filter": [*net, "iptables", "-A", "INPUT", "-p", "tcp", "--tcp-flags", "SYN,ACK", "SYN", "-j", "DROP"],
    }
    yield from (name for name, argv in trials.items() if _succeeds(argv))
    try:
        with tempfile.TemporaryDirectory(dir=folder) as trial:
            for name in ("lower", "upper", "work", "merged"):
                (Path(trial) / name).mkdir()
            layers = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
            mount = ["mount", "-t", "overlay", "overlay", "-o", layers, f"{trial}/merged"]
            if _succeeds(["unshare", "--mount", *mount]):
                yield "overlay"
    except OSError:  # a folder that is not writable cannot have an overlay
        return


def _bridge_filtered() -> bool:
    switch = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not switch.exists() or switch.read_text().strip() == "0":
        return False
    argv = ["iptables", "-S", "FORWARD"]
    try:
        rules = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=COMMAND_LIMIT_S).stdout
    except subprocess.TimeoutExpired:  # another program holds its lock
        return False
    return "-P FORWARD DROP" in rules


def _succeeds(argv: Sequence[str]) -> bool:
    try:
        process = subprocess.run(argv, capture_output=True, check=False, timeout=COMMAND_LIMIT_S, env=_with_sbin())
        return process.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _free_mb(folder: Path) -> int:
    return shutil.disk_usage(_nearest_folder(folder)).free // 2**20


def _nearest_folder(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
