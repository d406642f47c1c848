"""Waiting until instances run and answer ssh, or saying which one does not and what it said last."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inventory.ec2 import instances
from inventory.ec2.failures import of_state_reason
from inventory.ec2.instances import WORKING, Instance
from inventory.ec2.pace import Pace
from inventory.ec2.places import CONNECTIONS
from inventory.errors import InfrastructureError
from inventory.machines import Machine
from inventory.remote import connect

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

# Says why a machine does not answer yet, or None if it does.
Answers = Callable[[Machine], str | None]


def over_ssh(machine: Machine) -> str | None:
    """Log in with the lease's key and the machine's host key, which is the last thing that its first boot sets."""
    try:
        with connect(machine) as remote:
            return None if remote.run(["true"], timeout_s=10).code == 0 else "`true` failed there"
    except InfrastructureError as error:
        return str(error)


@dataclass
class Awaited:
    """Instances that are on their way: by machine, what is known of each."""

    ec2: "EC2Client"
    ids: Mapping[str, str]
    machine_of: Callable[[str, Instance], Machine | None]  # None while it has no address
    answers: Answers
    pace: Pace
    begun: float = field(default_factory=time.monotonic)
    listed: dict[str, Instance] = field(default_factory=dict)
    addressed: dict[str, Machine] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    boot_s: dict[str, float] = field(default_factory=dict)

    def all_ready(self) -> dict[str, float]:
        """Machine → seconds its boot took, once all answer. InfrastructureError or CapacityError if they do not."""
        relist_at = 0.0
        while len(self.boot_s) < len(self.ids):
            if len(self.addressed) < len(self.ids) or time.monotonic() >= relist_at:
                self._list()
                relist_at = time.monotonic() + self.pace.relist_s
            self._probe([machine for name, machine in self.addressed.items() if name not in self.boot_s])
            self._refuse_if_late()
            if len(self.boot_s) < len(self.ids):
                time.sleep(self.pace.poll_s)
        return self.boot_s

    def _list(self) -> None:
        found = instances.with_ids(self.ec2, self.ids.values())
        for name, instance_id in self.ids.items():
            instance = found.get(instance_id)
            if instance is None:
                continue
            self.listed[name] = instance
            if instance.state not in WORKING:
                error = of_state_reason(f"{name} ({instance_id})", *instance.reason)
                raise type(error)(f"{error}; its console ends with: {instances.last_words(self.ec2, instance_id)}")
            if instance.state == "running" and name not in self.addressed:
                machine = self.machine_of(name, instance)
                if machine is not None:
                    self.addressed[name] = machine

    def _probe(self, machines: Sequence[Machine]) -> None:
        if not machines:
            return
        with ThreadPoolExecutor(min(CONNECTIONS, len(machines))) as pool:
            for machine, why in zip(machines, pool.map(self.answers, machines), strict=True):
                if why is None:
                    self.boot_s[machine.name] = time.monotonic() - self.begun
                else:
                    self.silent[machine.name] = why

    def _refuse_if_late(self) -> None:
        waited_s = time.monotonic() - self.begun
        if unlisted := [name for name in self.ids if name not in self.listed]:
            if waited_s > self.pace.lag_s:
                which = ", ".join(f"{name} ({self.ids[name]})" for name in unlisted)
                raise InfrastructureError(
                    f"ec2: {which} was started {waited_s:.0f} s ago and EC2 does not list it; start again"
                )
        elif waited_s > self.pace.ready_s and len(self.boot_s) < len(self.ids):
            raise InfrastructureError(self._late(waited_s))

    def _late(self, waited_s: float) -> str:
        name = next(name for name in self.ids if name not in self.boot_s)
        others = len(self.ids) - len(self.boot_s) - 1
        why = self.silent.get(name) or f"it is {self.listed[name].state} and has no address"
        return (
            f"ec2: {name} ({self.ids[name]}) does not answer ssh after {waited_s:.0f} s"
            f"{f', nor do {others} others' if others else ''}: {why}; "
            f"its console ends with: {instances.last_words(self.ec2, self.ids[name])}; see "
            "that testbed.options.ec2.ingress_from is this box's network as AWS sees it, and that the image is Ubuntu"
        )
