"""What the box can carry of what the `local` testbed is asked for, said before anything is started."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from inventory import lan, machine_names
from inventory.errors import CapacityError, ConfigurationError
from inventory.machines import MachineRequest

DISK_MB_PER_MACHINE = 200  # Storm's state and logs in the machine's overlay
MEMORY_SHARE = 0.9  # of the box; the rest is the harness's
MASTER_CORES = 0.3  # what the master uses while a run is measured; its whole core it needs only between runs
LONGEST_STATE = 30  # Podman refuses a runroot of more than 50 characters


def box_cores() -> float:
    """The CPUs this process may use."""
    return float(len(os.sched_getaffinity(0)))


def check_state(state: Path) -> None:
    """The state folder's path is short enough for Podman and free of characters that its flags understand."""
    if len(str(state)) > LONGEST_STATE or not re.fullmatch(r"[\w./-]+", str(state)):
        raise ConfigurationError(
            f"local: the state folder is {state}; Podman needs at most {LONGEST_STATE} characters, of letters, digits "
            "and . _ - /; set BAROGRAPH_STATE to such a folder"
        )


def check_names(requests: Sequence[MachineRequest]) -> None:
    machine_names.check("local", requests)
    if len(requests) > lan.MAX_MACHINES:
        raise CapacityError(f"local: {len(requests)} machines are asked for, at most {lan.MAX_MACHINES} have addresses")


def check_cores(requests: Sequence[MachineRequest], cores: float) -> None:
    shares = [measured_cores(request) for request in requests]
    wanted = sum(shares)
    if wanted <= cores + 1e-9:
        return
    fixed = sum(share for share, request in zip(shares, requests, strict=True) if request.type.slots == 0)
    workers = wanted - fixed
    room = cores - fixed
    share = f"make the workers' share {room / workers:.2f} of what it is" if room > 0 < workers else "use a larger box"
    raise CapacityError(
        f"local: {len(requests)} machines need {wanted:g} cores, this box has {cores:g}: "
        f"the first {_fitting(shares, cores)} would fit; ask for fewer, or {share}"
    )


def measured_cores(request: MachineRequest) -> float:
    """Cores that a machine may need while others are measured beside it."""
    return request.type.cores if request.type.slots else min(request.type.cores, MASTER_CORES)


def check_memory(requests: Sequence[MachineRequest], memory_mb: int) -> None:
    wanted_mb = sum(request.type.memory_mb for request in requests)
    usable_mb = int(memory_mb * MEMORY_SHARE)
    if wanted_mb > usable_mb:
        fitting = _fitting([request.type.memory_mb for request in requests], usable_mb)
        raise CapacityError(
            f"local: {len(requests)} machines need {wanted_mb} MB of memory, this box can give {usable_mb}: "
            f"the first {fitting} would fit; ask for fewer or smaller ones"
        )


def check_disk(requests: Sequence[MachineRequest], state: Path) -> None:
    folder = next(path for path in (state, *state.parents) if path.exists())
    free_mb, wanted_mb = shutil.disk_usage(folder).free // 2**20, DISK_MB_PER_MACHINE * len(requests)
    if free_mb < wanted_mb:
        raise CapacityError(
            f"local: {state} has {free_mb} MB free, {len(requests)} machines need {wanted_mb}; "
            "free some or set BAROGRAPH_STATE to a folder on a larger disk"
        )


def _fitting(sizes: Sequence[float], available: float) -> int:
    """How many of the sizes fit, taken in order."""
    return sum(1 for end in range(1, len(sizes) + 1) if sum(sizes[:end]) <= available + 1e-9)


def box_memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
