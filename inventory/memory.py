"""Machines in memory: leases and lifetimes of machines without hardware, for testbeds without real ones.

A machine exists as a file, `<testbed>/<lease>/<machine>` in the state folder, with the time at which it ends itself.
So another process finds, keeps and ends the machines of a killed one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from barograph.errors import InfrastructureError
from barograph.plan.events.kind import Disturbance
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest, check_names
from inventory.testbed import Place


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
        """See `Testbed.site`."""
        return {}

    def check(self, requests: Sequence[MachineRequest]) -> None:
        """See `Testbed.check`."""
        check_names(self.name, requests)

    def acquire(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `Testbed.acquire`."""
        self.check(requests)
        registry.require_on_record(lease)
        registry.require_empty(lease, self._folder(lease.lease_id).exists())
        return self._start(lease, requests)

    def grow(self, lease: Lease, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """See `SupportsGrow.grow`."""
        self.check(requests)
        registry.require_on_record(lease)
        registry.refuse_names_in_use(lease, [request.name for request in requests])
        return self._start(lease, requests)

    def release(self, lease: Lease) -> None:
        """See `Testbed.release`."""
        self._remove(lease.lease_id)
        registry.hold_nothing(lease)

    def give_back(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsGiveBack.give_back`."""
        if not self._folder(lease.lease_id).exists():
            return
        names = [machine.name for machine in machines]
        self._end(lease.lease_id, names)
        registry.hold(lease, [name for name in registry.lease_machines(lease) if name not in names])

    def prolong(self, lease: Lease, machines: Sequence[Machine]) -> None:
        """See `SupportsProlong.prolong`."""
        for machine in machines:
            if (path := self._folder(lease.lease_id) / machine.name).exists():
                path.write_text(str(lease.expires_s))

    def crash(self, machine: Machine) -> None:
        """See `SupportsFaults.crash`."""
        self._require(machine).alive = False

    def restart(self, machine: Machine) -> None:
        """See `SupportsFaults.restart`."""
        state = self._require(machine)
        if not state.alive:
            state.alive, state.boots = True, state.boots + 1

    def disturb(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.disturb`; it is only recorded."""
        for each in others:
            self._require(each)
        self._require(machine).disturbances.add(disturbance)

    def end_disturbance(self, machine: Machine, disturbance: Disturbance, others: Sequence[Machine] = ()) -> None:
        """See `SupportsDisturbances.end_disturbance`."""
        for each in others:
            self._require(each)
        self._require(machine).disturbances.discard(disturbance)

    def leftovers(self) -> tuple[str, ...]:
        """See `Testbed.leftovers`."""
        return tuple(f"machines of {lease_id}" for lease_id in self._orphans())

    def sweep(self) -> tuple[str, ...]:
        """See `SupportsSweep.sweep`."""
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
            self._take_back(lease, names, earlier_names)
            raise
        boot_s = time.monotonic() - start_s
        return tuple(_machine(lease, request, boot_s) for request in requests)

    def _fails(self, _name: str) -> bool:
        """Return True if the machine dies as it begins."""
        return False

    def _take_back(self, lease: Lease, names: Sequence[str], before: Sequence[str]) -> None:
        if not before:
            self.release(lease)
            return
        self._end(lease.lease_id, names)
        registry.hold(lease, before)

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
        lease_ids = [path.name for path in self._folder("").glob("*")]
        recorded = {lease.lease_id for lease in registry.read_all()}  # afterwards: a folder is made after its lease
        return sorted(name for name in lease_ids if name not in recorded)


def _machine(lease: Lease, request: MachineRequest, boot_s: float) -> Machine:
    keys = registry.key_dir(lease.lease_id)
    number = int("".join(filter(str.isdigit, request.name)) or 0)
    return Machine(
        request.name, request.type, f"10.213.0.{10 + number}", f"10.214.0.{10 + number}",
        f"10.213.0.{10 + number}", "root", 22, keys / "id_ed25519", keys / "known_hosts", boot_s,
    )  # fmt: skip
