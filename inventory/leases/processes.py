"""Run programs on this box for a lease, manage their cgroups, and end everything that still runs."""

import logging
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError

log = logging.getLogger(__name__)

# In the environment of every program started for a lease (`playbooks.runner` writes it too): a killed harness leaves
# them running, and one of them may be about to create a machine, or to work on one that is given back.
MARK = "BAROGRAPH_STARTED_FOR_LEASE"
TOOLS = ("conmon", "podman", "runc", "ssh")
CGROUPS = Path("/sys/fs/cgroup")
HIGHEST_WEIGHT = {"cpu.shares": "262144", "cpu.weight": "10000"}  # cgroup version 1, 2
KILL_LIMIT_S = 20.0


def run(argv: Sequence[str], lease_id: str, text: str = "", timeout_s: float = 120.0) -> str:
    """Run a program for a lease with `text` as its input, and return its output."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # cron's lacks these
    environment = {**os.environ, MARK: lease_id, "PATH": path}
    try:
        process = subprocess.run(
            argv, input=text, capture_output=True, text=True, env=environment, timeout=timeout_s, check=False
        )
    except FileNotFoundError as error:
        raise ConfigurationError(f"{argv[0]} is not installed; `barograph check` lists what is missing") from error
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(f"`{shlex.join(argv)}` did not end within {timeout_s:g} s") from error
    stderr = process.stderr.strip()
    if process.returncode != 0 and "no space left" in stderr.lower():
        raise CapacityError(f"the disk is full ({stderr.splitlines()[-1]}); free some space and start again")
    if process.returncode != 0:
        raise InfrastructureError(f"`{shlex.join(argv)}` failed: {stderr or 'no message'}")
    return process.stdout


def kill_all(lease_id: str, folders: Sequence[Path]) -> None:
    """Kill every process of the lease: its cgroup's, those marked, and tools that work in its folders."""
    names = [str(folder).encode() for folder in folders]

    def find() -> set[int]:
        for top in cgroup_folders(lease_id):
            for state in top.rglob("freezer.state"):  # a paused process does not notice its kill (cgroup version 1)
                with suppress(OSError):
                    state.write_text("THAWED")
        tools = {
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if _bytes(process / "comm").decode(errors="replace").strip() in TOOLS
            and any(name in _bytes(process / "cmdline") for name in names)
        }
        return {*cgroup_pids(lease_id), *_pids_with_mark(lease_id), *tools}

    if survivors := kill(find):
        raise InfrastructureError(f"lease {lease_id}: processes {survivors} do not die; `barograph reap` tries again")


def end_marked(lease_id: str) -> None:
    """Kill every process on this box that was started for the lease, so that none works on while its machines go.

    A process that does not die waits in the kernel and ends there: it does no harm any more, and machines must not
    cost on for it.
    """
    if survivors := kill(lambda: set(_pids_with_mark(lease_id))):
        log.warning("lease %s: processes %s do not end, whatever signal they get", lease_id, survivors)


def kill(find: Callable[[], set[int]]) -> list[int]:
    """Kill the processes found until two looks find none: they start others meanwhile, and a new one has no environment
    for a moment. Return those that still live after KILL_LIMIT_S."""
    deadline, clean = time.monotonic() + KILL_LIMIT_S, 0
    while clean < 2:
        if not (pids := find() - {os.getpid()}):
            clean += 1
        elif time.monotonic() > deadline:
            return sorted(pids)
        else:
            clean = 0
            _kill_once(pids, find)
        time.sleep(0.02)
    return []


def _kill_once(pids: set[int], find: Callable[[], set[int]]) -> None:
    """Signal processes by handle, so that a reused pid is not hit."""
    handles: dict[int, int] = {}
    try:
        for pid in pids:
            with suppress(OSError):  # it ended
                handles[pid] = os.pidfd_open(pid)
        for pid in handles.keys() & find():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
    finally:
        for handle in handles.values():
            os.close(handle)


def cgroup_name(lease_id: str) -> str:
    """Return the name of the cgroup that holds all machines of a lease, in each hierarchy."""
    return f"barograph-{lease_id}"


def cgroup_folders(lease_id: str) -> list[Path]:
    """Return the lease's cgroup in the one hierarchy of version 2 or the several of version 1."""
    name = cgroup_name(lease_id)
    return [path for path in (CGROUPS / name, *CGROUPS.glob(f"*/{name}")) if path.is_dir()]


def put_first(lease_id: str) -> None:
    """Give the lease's machines their quotas before all else on the box: a measured run must not wait for a build
    beside it, however many sessions (each an autogroup of the kernel) that has."""
    for folder in cgroup_folders(lease_id):
        for name, most in HIGHEST_WEIGHT.items():
            if (folder / name).exists():
                (folder / name).write_text(most)


def cgroup_pids(lease_id: str) -> Iterator[int]:
    """Yield every process in the lease's cgroups."""
    for top in cgroup_folders(lease_id):
        yield from pids_below(top)


def pids_below(cgroup: Path) -> list[int]:
    """Return the processes of a cgroup and those below it; none if it is gone."""
    folders = (Path(folder) for folder, _, _ in os.walk(cgroup))
    return [int(word) for folder in folders for word in _bytes(folder / "cgroup.procs").split()]


def remove_cgroups(lease_id: str) -> None:
    """Remove the lease's cgroups; its processes must be dead. A dying one holds its cgroup for a moment."""
    deadline = time.monotonic() + KILL_LIMIT_S
    while folders := cgroup_folders(lease_id):
        for top in folders:
            for folder, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    Path(folder).rmdir()
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"lease {lease_id}: cgroups {folders} cannot be removed; `barograph reap` tries again"
            )
        time.sleep(0.01)


def _pids_with_mark(lease_id: str) -> Iterator[int]:
    mark = f"{MARK}={lease_id}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        if mark in _bytes(process / "environ").split(b"\0"):
            yield int(process.name)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process ended meanwhile
        return b""
