"""Where machines come from: the contract every testbed keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from inventory.leases import Lease
from inventory.remote import Remote


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
    """One machine that is there and answers ssh on its control address."""

    name: str
    type: MachineType
    control_address: str
    experiment_address: str
    ssh_user: str
    ssh_port: int
    ssh_key: Path
    known_hosts: Path


class Testbed(Protocol):
    """A source of machines. Errors are those of `inventory.errors`."""

    name: str

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """Say everything that can be said before anything is started (configuration and capacity errors)."""
        ...

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """All machines, in the order of the requests, or none: cleans up after itself if it fails."""
        ...

    def release(self, lease: Lease) -> None:
        """Give back what the lease holds. Idempotent, also for what is half acquired or already gone."""
        ...

    def leftovers(self) -> tuple[str, ...]:
        """What exists on the testbed that no lease on record owns, one readable name each."""
        ...


@runtime_checkable
class Sweeping(Protocol):
    """The ability to remove leftovers."""

    def sweep(self) -> tuple[str, ...]:
        """Remove what `leftovers` names and return the names; never touches what a lease on record owns."""
        ...


@runtime_checkable
class Connecting(Protocol):
    """The ability to run commands on an acquired machine."""

    def connect(self, machine: Machine) -> Remote:
        """A connection to the machine; the caller closes it (it is a context manager)."""
        ...


@runtime_checkable
class Faulting(Protocol):
    """The ability to break machines on purpose. A machine that the lease no longer has is an InfrastructureError."""

    def crash(self, machine: Machine) -> None:
        """As if its power failed: silent at once, every process gone, the disk kept. Idempotent."""
        ...

    def restart(self, machine: Machine) -> None:
        """The crashed machine boots from its disk at its addresses and answers ssh when this returns. Idempotent."""
        ...


@runtime_checkable
class GivingBack(Protocol):
    """The ability to take back a part of a lease's machines."""

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """These machines of the lease are gone for good (`leases.held` says what is left); the others do not notice.

        Idempotent, also for what is half gone; `release` still ends the whole lease.
        """
        ...
