"""The `simulated` testbed: machines of the simulator (`scheduler_plugins.simulator`). They cost nothing, their number
is unlimited, and nothing is installed on this box.

A machine in memory exists as a file, `<testbed>/<lease>/<machine>` in the state folder, with the time at which it ends
itself. So another process finds, keeps and ends the machines of a killed one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from barograph.errors import ConfigurationError, InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest, check_names
from inventory.testbed import Place, TestbedOptions, leftover_names, read_options
from scheduler_plugins.simulator.work import Costs, SimulationError


@dataclass
class MachineInMemory:
    name: str
    alive: bool = True
    boots: int = 1
    disturbances: set[Disturbance] = field(default_factory=set)


Kept = TypeVar("Kept", bound=MachineInMemory)


class MemoryTestbed(Generic[Kept]):
    """A testbed in memory; `make` creates a machine by name. Machines record events; a simulator or fake reads them."""

    name: str
    shared = False
    whole_machines = False
    place: Place = "memory"

    def __init__(self, make: Callable[[str], Kept]) -> None:
        self._make = make
        self._held: dict[str, dict[str, Kept]] = {}

    def ends_s(self, lease: Lease) -> Mapping[str, float]:
        """Return when each machine of the lease ends itself (epoch seconds), by name."""
        return {path.name: float(path.read_text()) for path in sorted(self._folder(lease.lease_id).glob("*"))}

    def site(self) -> Mapping[str, str]:
        return {}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        check_names(self.name, requests)

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        self.check(requests)
        registry.require_new(lease, self._folder(lease.lease_id).exists())
        return self._start(lease, requests)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        self.check(requests)
        registry.require_new(lease, None)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        return self._start(lease, requests)

    def release(self, lease: Lease) -> None:
        self._remove(lease.lease_id)
        registry.hold_nothing(lease)

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGrow.give_back`."""
        if not self._folder(lease.lease_id).exists():
            return
        names = [machine.name for machine in machines]
        self._end(lease.lease_id, names)
        registry.let_go(lease, names)

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        for machine in machines:
            if (path := self._folder(lease.lease_id) / machine.name).exists():
                path.write_text(str(lease.expires_s))

    def crash(self, machine: Machine) -> None:
        self._require(machine).alive = False

    def restart(self, machine: Machine) -> None:
        state = self._require(machine)
        if not state.alive:
            state.alive, state.boots = True, state.boots + 1

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.disturb`: recorded only."""
        for each in others:
            self._require(each)
        self._require(machine).disturbances.add(disturbance)

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.end_disturbance`."""
        for each in others:
            self._require(each)
        self._require(machine).disturbances.discard(disturbance)

    def leftovers(self) -> tuple[str, ...]:
        return leftover_names(self._orphans())

    def sweep(self) -> tuple[str, ...]:
        names = self.leftovers()
        for lease_id in self._orphans():
            self._remove(lease_id)
        return names

    def _start(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Start all or none of them; the lease's earlier machines stay."""
        start_s, earlier_names = time.monotonic(), registry.lease_machines(lease)
        names = [request.name for request in requests]
        registry.hold(lease, [*earlier_names, *names])
        machines = self._held.setdefault(lease.lease_id, {})
        self._folder(lease.lease_id).mkdir(parents=True, exist_ok=True)
        try:
            for name in names:
                (self._folder(lease.lease_id) / name).write_text(str(lease.expires_s))
                machines[name] = self._make(name)
                if self._fails(name):
                    raise InfrastructureError(f"{self.name}: {name} does not answer ssh; start again")
        except BaseException:
            if earlier_names:
                self._end(lease.lease_id, names)
                registry.hold(lease, earlier_names)
            else:
                self.release(lease)
            raise
        boot_s, keys = time.monotonic() - start_s, registry.key_dir(lease.lease_id)
        machines_of_lease = []
        for request in requests:
            host = 10 + int("".join(filter(str.isdigit, request.name)) or 0)
            control, experiment = f"10.213.0.{host}", f"10.214.0.{host}"
            machines_of_lease.append(Machine(
                request.name, request.type, control, experiment, control, "root", 22, keys / "id_ed25519",
                keys / "known_hosts", boot_s,
            ))  # fmt: skip
        return tuple(machines_of_lease)

    def _fails(self, _name: str) -> bool:
        """Return True if the machine dies as it begins."""
        return False

    def _remove(self, lease_id: str) -> None:
        self._end(lease_id, [path.name for path in self._folder(lease_id).glob("*")])
        shutil.rmtree(self._folder(lease_id), ignore_errors=True)

    def _end(self, lease_id: str, names: Sequence[str]) -> None:
        for name in names:
            (self._folder(lease_id) / name).unlink(missing_ok=True)
            if (machine := self._held.get(lease_id, {}).pop(name, None)) is not None:
                machine.alive = False

    def _find(self, machine: Machine) -> Kept | None:
        """Return the machine, also one that another process has started: as if it had just booted."""
        lease_id = machine.ssh_key.parent.name
        if not (self._folder(lease_id) / machine.name).exists():
            return None
        return self._held.setdefault(lease_id, {}).setdefault(machine.name, self._make(machine.name))

    def _require(self, machine: Machine) -> Kept:
        state = self._find(machine)
        if state is None:
            raise InfrastructureError(
                f"{self.name}: no lease has a machine {machine.name} (given back or released); name one that it has"
            )
        return state

    def _all(self) -> list[Kept]:
        return [machine for machines in self._held.values() for machine in machines.values()]

    def _folder(self, lease_id: str) -> Path:
        return registry.state_dir() / self.name / lease_id

    def _orphans(self) -> list[str]:
        """Return leases that have machines and are not on record."""
        return registry.ownerless(path.name for path in self._folder("").glob("*"))


class SimulatedOptions(TestbedOptions):
    """Options of the simulation. Two runs with the same options, plan and seed are the same, to the byte."""

    seed: Annotated[int, Field(ge=0, description="of supervisors' ids and, with the run's, of executors' speeds")] = 0
    step_s: Annotated[float, Field(gt=0, le=60, description="the longest step of simulated time")] = 1.0
    sample_s: Annotated[
        Literal[1, 2, 5, 10],  # samples.SAMPLE_LENGTHS_S
        Field(description="how often workers and machines write, in seconds; whole parts of the analysis' windows"),
    ] = 1
    look_s: Annotated[float, Field(ge=1, le=60, description="how often the harness looks at the run")] = 1.0
    round_s: Annotated[float, Field(ge=1, le=30, description="between two scheduling rounds of Nimbus")] = 2.0
    boot_s: Annotated[float, Field(ge=0, le=3600, description="how long a machine boots that joins at its event")] = (
        40.0
    )
    costs: Mapping[str, float] = Field(default_factory=dict, description="laid over those of docs/simulator.md")


class SimulatedTestbed(MemoryTestbed[MachineInMemory]):
    """The testbed's machines; their behaviour is in the world of a run (`barograph.run.simulated_cluster`)."""

    name = "simulated"
    shared = True

    def __init__(self, options: Mapping[str, object] | None = None, fails_at: str | None = None) -> None:
        super().__init__(MachineInMemory)
        self.options = read_options(SimulatedOptions, self.name, options or {})
        self._fails_at = fails_at
        try:
            self.costs = Costs.of(self.options.costs)
        except SimulationError as error:
            raise ConfigurationError(f"testbed.options.{self.name}.{error}") from error

    def _fails(self, name: str) -> bool:
        return name == self._fails_at
