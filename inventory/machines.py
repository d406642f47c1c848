"""What is requested of a testbed, and what one machine is."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MachineType:
    """What one machine is given. `cores` is CPU seconds per second, `slots` how many workers it may run."""

    name: str
    cores: float
    memory_mb: int
    bandwidth_mbit: int
    slots: int


@dataclass(frozen=True)
class MachineRequest:
    """One machine that is wanted; its type is already scaled to the testbed."""

    name: str
    type: MachineType


@dataclass(frozen=True)
class Machine:
    """One machine that is there and answers ssh on its control address.

    A user other than root must be able to `sudo` without a password. `inside_address` is where the other machines of
    the lease reach its services (the policy service, samples): it is not the control address where that is translated
    on the way (a public address of EC2). `boot_s` is how long it took from asking for it to its first answer over ssh,
    in seconds; None where nothing was booted.
    """

    name: str
    type: MachineType
    control_address: str
    experiment_address: str
    inside_address: str
    ssh_user: str
    ssh_port: int
    ssh_key: Path
    known_hosts: Path
    boot_s: float | None = None
