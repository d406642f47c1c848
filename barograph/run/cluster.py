"""What a run needs of its cluster, small enough to fake: Storm on machines, as a Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from barograph.plan.blocks import PlannedRun
from barograph.plan.events.kind import Disturbance, RunningWorker
from barograph.plan.experiment import TopologyChoice
from playbooks.clock import ClockOffset


@dataclass(frozen=True)
class ClusterFacts:
    """What `run.json` says of the machines; shapes as in the contracts."""

    machines: Mapping[str, Mapping[str, Any]]  # workers only, by name
    versions: Mapping[str, str]
    harness: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Collection:
    """What a collection found: files that should be there and are not."""

    missing: tuple[str, ...] = ()


class Cluster(Protocol):
    """Storm on machines. Errors carry `blame`."""

    def deploy(self) -> None:
        """Put everything on the machines; idempotent."""
        ...

    def reset(self, run: PlannedRun) -> None:
        """A clean state: no topology, empty records, only the machines of the start in the cluster, none disturbed."""
        ...

    def submit(self, run: PlannedRun, topology: TopologyChoice) -> None:
        """Returns when Nimbus has accepted it."""
        ...

    def kill(self, topology: str) -> None:
        """Kill the topology of that name in Storm; returns when Nimbus has forgotten it. Others run on."""
        ...

    def join(self, machines: Sequence[str]) -> None:
        """Start these machines' supervisors."""
        ...

    def grow(self, machines: Sequence[str]) -> Mapping[str, float | None]:
        """Start these machines and put everything on them, ready to join; how long each took to boot (s), by name.

        CapacityError and InfrastructureError: none of them is there then, nor after an interrupt.
        """
        ...

    def leave(self, machines: Sequence[str]) -> None:
        """Stop these machines' supervisors; returns when Nimbus has forgotten them."""
        ...

    def give_back(self, machines: Sequence[str]) -> bool:
        """Return machines that have left to the testbed; whether it takes back a part of what it gave."""
        ...

    def crash(self, machine: str) -> None:
        """Its power fails; the disk stays."""
        ...

    def restart(self, machine: str) -> None:
        """A crashed machine works again, and Nimbus knows it."""
        ...

    def disturb(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """From now on these machines suffer this."""
        ...

    def end_disturbance(self, machines: Sequence[str], disturbance: Disturbance) -> None:
        """They are as before; idempotent."""
        ...

    def worker_on(self, machine: str) -> AbstractContextManager[RunningWorker]:
        """The worker with the lowest port on this machine. ExperimentError where none runs."""
        ...

    def stop(self) -> None:
        """Kill every topology; nothing happens if there is none."""
        ...

    def collect(self, folder: Path, machines: Sequence[str]) -> Collection:
        """Fetch these machines' files into the record (contracts: what a run leaves), also of a run cut short."""
        ...

    def clock_offsets_ms(self, machines: Sequence[str], now: Callable[[], float]) -> Mapping[str, ClockOffset | None]:
        """Each machine's clock minus `now` (epoch seconds); None where it could not be asked."""
        ...

    def silent_machines(self) -> tuple[str, ...]:
        """Machines that do not answer on the control LAN."""
        ...

    def recalled(self) -> tuple[str, ...]:
        """Machines that their owner takes away; asked each second."""
        ...

    def make_whole(self) -> bool:
        """Whether another run can begin: every machine is there, or others were put in the place of those lost."""
        ...

    def facts(self) -> ClusterFacts: ...


class MachineSupply(Protocol):
    """The testbed behind a cluster in memory, where machines are to come and go on record."""

    def grow(self, machines: Sequence[str]) -> object: ...

    def give_back(self, machines: Sequence[str]) -> object: ...

    def recalled(self) -> tuple[str, ...]: ...
