"""The contract of a run's cluster, small enough to fake: Storm on machines, as a Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import Disturbance, RunningWorker
from barograph.plan.topologies import TopologyChoice
from playbooks.clock import ClockOffset


@dataclass(frozen=True)
class ClusterFacts:
    """Facts about the machines for `run.json`; shapes as in the contracts."""

    machines: Mapping[str, Mapping[str, Any]]  # workers only, by name
    versions: Mapping[str, str]
    harness: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)  # by machine: image, system, kernel, Java


@dataclass(frozen=True)
class Collection:
    """Result of a collection: missing files."""

    missing: tuple[str, ...] = ()


class Cluster(Protocol):
    """Storm on machines. Errors carry `blame`."""

    def deploy(self) -> None:
        """Install everything on the machines; idempotent."""

    def reset(self, run: PlannedRun) -> None:
        """Restore a clean state: no topology, no records, no disturbance, only machines of the start in the cluster."""

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        """Submit the topology; returns when Nimbus has accepted it."""

    def kill(self, topology: str) -> None:
        """Kill the topology of that name in Storm; returns when Nimbus has forgotten it. Others run on."""

    def join(self, machines: Sequence[str]) -> None:
        """Start these machines' supervisors."""

    def grow(self, machines: Sequence[str]) -> Mapping[str, float | None]:
        """Start these machines and install everything on them, ready to join; returns their boot times (s), by name.

        CapacityError and InfrastructureError: none of them exists then, nor after an interrupt.
        """

    def leave(self, machines: Sequence[str]) -> None:
        """Stop these machines' supervisors; returns when Nimbus has forgotten them."""

    def give_back(self, machines: Sequence[str]) -> bool:
        """Return machines that have left to the testbed; True if it takes back a part of a lease."""

    def crash(self, machine: str) -> None:
        """Crash the machine as by a power failure; the disk stays."""

    def restart(self, machine: str) -> None:
        """Restart a crashed machine; returns when it works and Nimbus knows it."""

    def disturb(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """Begin this disturbance on these machines."""

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """End the disturbance; the machines are as before; idempotent."""

    def worker_on(self, machine: str) -> AbstractContextManager[RunningWorker]:
        """Yield the worker with the lowest port on this machine. ExperimentError where none runs."""

    def stop(self) -> None:
        """Kill every topology; harmless if there is none."""

    def collect(self, folder: Path, machines: Sequence[str]) -> Collection:
        """Fetch these machines' files into the record (contracts: what a run leaves), also of an interrupted run."""

    def clock_offsets_ms(self, machines: Sequence[str], now: Callable[[], float]) -> Mapping[str, ClockOffset | None]:
        """Return each machine's clock minus `now` (epoch seconds); None where it did not answer."""

    def silent_machines(self) -> tuple[str, ...]:
        """Return machines that do not answer on the control LAN."""

    def machine_faults(self, since_s: float, reporting: int | None) -> Mapping[str, str]:
        """Return by machine what went wrong there since then (epoch seconds) and is no variant's doing: a daemon ended,
        or more workers write samples than the `reporting` ones whose samples arrive; None: no worker is silent."""

    def recalled(self) -> tuple[str, ...]:
        """Return machines that their owner takes away; called each second."""

    def make_whole(self) -> bool:
        """Return True if another run can begin: every machine exists, or lost ones were replaced. MachineLost where no
        machine answers."""

    def facts(self) -> ClusterFacts: ...


class MachineSupply(Protocol):
    """The testbed behind a cluster in memory, where machines are to come and go on record."""

    def grow(self, machines: Sequence[str]) -> object: ...

    def give_back(self, machines: Sequence[str]) -> object: ...

    def recalled(self) -> tuple[str, ...]: ...
