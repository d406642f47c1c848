"""Makes emulated machines follow the instances: one for each that runs, and the end of one is the end of the other."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from barograph.errors import BarographError
from tests.support.cloud.front import Front
from tests.support.cloud.machine import Guest

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeDef


log = logging.getLogger(__name__)

EVERY_S = 0.5


class Hardware(Protocol):
    """Where machines run; `Host` is the real one."""

    def start(self, guest: Guest) -> str: ...

    def is_running(self, container_id: str) -> bool: ...

    def end(self, guest: Guest) -> None: ...


@dataclass(frozen=True)
class Running:
    guest: Guest
    container_id: str


class Hypervisor:
    """`client` is the cloud's own; `public_key` says what key pair a name stands for."""

    def __init__(
        self, client: EC2Client, front: Front, host: Hardware | None, public_key: Callable[[str], str]
    ) -> None:
        self._client = client
        self._front = front
        self._host = host
        self._public_key = public_key
        self._machines: dict[str, Running] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No machine is made or ended after this returns; those that there are stay."""
        self._stop.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                if self._front.changed.is_set():
                    self._front.changed.clear()
                    self.look()
                self._notice()
            except Exception:
                # A cloud goes on when one of its machines fails; the test sees a machine that does not answer.
                log.exception("the hypervisor stumbled")
                self._front.changed.set()

    def look(self) -> None:
        """End what should not run, start what should."""
        instances = {one["InstanceId"]: one for one in self._running()}
        for instance_id in self._machines.keys() - instances.keys():
            self._end(instance_id)
        for instance_id, instance in instances.items():
            machine = self._front.gaps.launches[instance_id].machine
            if machine in self._front.trouble.stillborn:
                self.take_away(instance_id, "Server.InternalError", "Internal error on launch")
            elif instance_id not in self._machines and self._host is not None and not self._stop.is_set():
                self._boot(self._host, self._guest(instance, machine))

    def _boot(self, host: Hardware, guest: Guest) -> None:
        try:
            self._machines[guest.instance_id] = Running(guest, host.start(guest))
            log.info("%s boots at %s", guest.instance_id, guest.address)
        except BarographError as error:
            log.exception("%s does not start", guest.instance_id)
            host.end(guest)
            self.take_away(guest.instance_id, "Server.InternalError", str(error))

    @property
    def machines(self) -> tuple[str, ...]:
        """The instances that have a machine now."""
        return tuple(self._machines)

    def take_away(self, instance_id: str, code: str, message: str) -> None:
        """The cloud itself ends an instance, and says why."""
        from moto.ec2.models.instances import StateReason

        self._front.gaps.ended(instance_id, "instance-terminated-no-capacity")
        self._client.terminate_instances(InstanceIds=[instance_id])
        self._in_moto(instance_id).state_reason = StateReason(f"{code}: {message}", code)

    def _running(self) -> Iterable[InstanceTypeDef]:
        only_running = [{"Name": "instance-state-name", "Values": ["running"]}]
        pages = self._client.get_paginator("describe_instances").paginate(Filters=only_running)  # type: ignore[arg-type]
        for page in pages:
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]

    def _guest(self, instance: InstanceTypeDef, machine: str) -> Guest:
        instance_id, trouble = instance["InstanceId"], self._front.trouble
        flaws = [("silent", trouble.silent), ("keyless", trouble.keyless)]
        user_data = b"" if machine in trouble.unconfigured else self._user_data(instance_id)
        key = self._public_key(instance["KeyName"]) if "KeyName" in instance else ""
        return Guest(
            instance_id, instance["PrivateIpAddress"], key, user_data,
            tuple(name for name, machines in flaws if machine in machines),
        )  # fmt: skip

    def _user_data(self, instance_id: str) -> bytes:
        asked = self._client.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
        return base64.b64decode(asked.get("UserData", {}).get("Value", ""))

    def _notice(self) -> None:
        """What ended by itself; a look at cgroups, cheap enough to be taken all the time."""
        assert self._host is not None or not self._machines
        for instance_id, machine in list(self._machines.items()):
            if self._host is not None and not self._host.is_running(machine.container_id):
                log.info("%s switched itself off", instance_id)
                self._switched_off(instance_id)

    def _switched_off(self, instance_id: str) -> None:
        asked = self._client.describe_instance_attribute(
            InstanceId=instance_id, Attribute="instanceInitiatedShutdownBehavior"
        )
        if asked["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate":
            self._client.terminate_instances(InstanceIds=[instance_id])
        else:
            self._client.stop_instances(InstanceIds=[instance_id])
        self._end(instance_id)

    def _end(self, instance_id: str) -> None:
        assert self._host is not None
        self._host.end(self._machines[instance_id].guest)
        del self._machines[instance_id]
        log.info("%s is gone", instance_id)

    def _in_moto(self, instance_id: str) -> Any:
        from moto.backends import get_backend
        from moto.core.models import DEFAULT_ACCOUNT_ID

        return get_backend("ec2")[DEFAULT_ACCOUNT_ID][self._client.meta.region_name].get_instance(instance_id)
