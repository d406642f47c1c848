"""Start instances and wait until each answers ssh.

Each instance gets a call of its own, all at once: user data (a shell script with its keys, name, guard and packages)
is the same for every instance of a call, and each machine has a host key that the others must not know. Where an
account may make only a few calls a second, the client waits when AWS says so. An instance that does not answer is
reported with the end of its console.
"""

import base64
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barograph.errors import ConfigurationError, InfrastructureError
from inventory.ec2 import instances
from inventory.ec2.errors import aws_errors, state_reason_error
from inventory.ec2.instance_types import InstanceType
from inventory.ec2.instances import WORKING_STATES, Instance
from inventory.ec2.options import Ec2Options, Ec2Timing
from inventory.ec2.regions import CONNECTIONS
from inventory.ec2.survey import Image, Zone
from inventory.leases import guard
from inventory.machines import Machine, MachineRequest
from inventory.remote.ssh import connect

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import ResourceTypeType


SCRIPT = Path(__file__).with_name("user_data.sh")
# Installed by playbooks/roles/storm/tasks/deliver.yml, too; a test keeps the two equal.
PACKAGES = ("openjdk-17-jre-headless", "python3", "python3-numpy", "supervisor", "nftables")
# `pid` while they are being installed, then `done` or `failed`, and `log`.
PACKAGES_FOLDER = "/var/lib/barograph-packages"
MOST_BYTES = 16 * 1024  # EC2's limit


def user_data_script(name: str, identity: Path, expires_s: float, *, clock: Callable[[], float] = time.time) -> str:
    """Return the script of the machine `name`; `identity` is its folder of `inventory.remote.host_keys`."""
    host_key = (identity / "ssh_host_ed25519_key").read_bytes()
    values = {
        "@GUARD@": guard.installation(expires_s, clock=clock),
        "@LOGIN@": (identity / "authorized_keys").read_text().strip(),
        "@NAME@": name,
        "@HOST_KEY@": base64.b64encode(host_key).decode(),
        "@PACKAGES@": " ".join(PACKAGES),
        "@PACKAGES_FOLDER@": PACKAGES_FOLDER,
    }
    text = SCRIPT.read_text()
    for place, value in values.items():
        text = text.replace(place, value)
    if len(text.encode()) > MOST_BYTES:
        raise ConfigurationError(f"ec2: the user data of {name} has {len(text.encode())} bytes, EC2 takes {MOST_BYTES}")
    return text


@dataclass(frozen=True)
class LeaseSpec:
    """Everything that all instances of a lease share."""

    options: Ec2Options
    image: Image
    group: str
    key_pair: str
    placement_group: str | None


@dataclass(frozen=True)
class InstanceSpec:
    """Specification of one instance: its EC2 type, user data and tags."""

    request: MachineRequest
    type: InstanceType
    user_data: str
    tags: dict[str, str]


def launch_instances(
    ec2: "EC2Client", order: LeaseSpec, zone: Zone, specs: Sequence[InstanceSpec], started: Callable[[str], None]
) -> dict[str, str]:
    """Start them all in the zone: machine → instance id, or the first error once every call has ended.

    `started` is called with each id as soon as it is known, also if others fail: EC2 may not list them for a while.
    """
    with ThreadPoolExecutor(min(CONNECTIONS, len(specs))) as pool:
        calls = {spec.request.name: pool.submit(_start_instance, ec2, order, zone, spec, started) for spec in specs}
        _wait_for_calls(list(calls.values()))
    errors = [error for call in calls.values() if not call.cancelled() and (error := call.exception())]
    if errors:
        raise errors[0]
    return {name: call.result() for name, call in calls.items()}


def _wait_for_calls(calls: "Sequence[Future[str]]") -> None:
    wait(calls, return_when=FIRST_EXCEPTION)
    for call in calls:
        call.cancel()  # those that have not begun


def _start_instance(
    ec2: "EC2Client", order: LeaseSpec, zone: Zone, spec: InstanceSpec, started: Callable[[str], None]
) -> str:
    name, type_ = spec.request.name, spec.type.name
    with aws_errors(f"starting {name} ({type_}, {order.options.market}) in {zone.name}"):
        answer = ec2.run_instances(**launch_parameters(order, zone, spec))
    instance_id = answer["Instances"][0]["InstanceId"]
    started(instance_id)
    return instance_id


def launch_parameters(order: LeaseSpec, zone: Zone, spec: InstanceSpec) -> dict[str, Any]:
    """Return the parameters of RunInstances."""
    options = order.options
    kinds: list[ResourceTypeType] = ["instance", "volume", "network-interface"]
    if options.market == "spot":
        kinds.append("spot-instances-request")
    return {
        "ImageId": order.image.image_id,
        "InstanceType": spec.type.name,
        "MinCount": 1,
        "MaxCount": 1,
        "KeyName": order.key_pair,
        # Should the answer get lost, the repeated call gets the same instance.
        "ClientToken": f"barograph-{uuid.uuid4().hex}",
        "UserData": spec.user_data,
        "NetworkInterfaces": [_interface(order, zone)],
        "BlockDeviceMappings": [_disk(order)],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        # A machine that powers itself off is gone, disk included.
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": instances.tag_specifications(kinds, spec.tags),
        **({"Placement": {"GroupName": order.placement_group}} if order.placement_group else {}),
        **({"InstanceMarketOptions": _spot(options)} if options.market == "spot" else {}),
    }


def _interface(order: LeaseSpec, zone: Zone) -> dict[str, Any]:
    return {
        "DeviceIndex": 0,
        "SubnetId": zone.subnet,
        "Groups": [order.group],
        "AssociatePublicIpAddress": order.options.addresses == "public",
        "DeleteOnTermination": True,
    }


def _disk(order: LeaseSpec) -> dict[str, Any]:
    size = max(order.options.disk_gb, order.image.disk_gb)
    disk = {"VolumeSize": size, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    return {"DeviceName": order.image.root_device, "Ebs": disk}


def _spot(options: Ec2Options) -> dict[str, Any]:
    limit = {"MaxPrice": f"{options.price_limit_usd:g}"} if options.price_limit_usd else {}
    return {
        "MarketType": "spot",
        "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate", **limit},
    }


# Returns why a machine does not answer yet, or None if it does.
ReadinessCheck = Callable[[Machine], str | None]


def check_over_ssh(machine: Machine) -> str | None:
    """Log in with the lease's key and the machine's host key, which the first boot sets last."""
    try:
        with connect(machine) as remote:
            return None if remote.run(["true"], timeout_s=10).code == 0 else "`true` failed there"
    except InfrastructureError as error:
        return str(error)


@dataclass
class ReadinessWait:
    """Wait for started instances; the dicts hold the state of each machine."""

    ec2: "EC2Client"
    ids: Mapping[str, str]
    machine_of: Callable[[str, Instance], Machine | None]  # None while it has no address
    readiness_check: ReadinessCheck
    timing: Ec2Timing
    begun: float = field(default_factory=time.monotonic)
    listed: dict[str, Instance] = field(default_factory=dict)
    addressed: dict[str, Machine] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    boot_s: dict[str, float] = field(default_factory=dict)

    def all_ready(self) -> dict[str, float]:
        """Return machine → boot seconds, once all answer. InfrastructureError or CapacityError if they do not."""
        relist_at = 0.0
        while len(self.boot_s) < len(self.ids):
            if len(self.addressed) < len(self.ids) or time.monotonic() >= relist_at:
                self._list()
                relist_at = time.monotonic() + self.timing.relist_s
            self._probe([machine for name, machine in self.addressed.items() if name not in self.boot_s])
            self._refuse_if_late()
            if len(self.boot_s) < len(self.ids):
                time.sleep(self.timing.poll_s)
        return self.boot_s

    def _list(self) -> None:
        listing = instances.instances_with_ids(self.ec2, self.ids.values())
        for name, instance_id in self.ids.items():
            instance = listing.get(instance_id)
            if instance is None:
                continue
            self.listed[name] = instance
            if instance.state not in WORKING_STATES:
                error = state_reason_error(f"{name} ({instance_id})", *instance.reason)
                raise type(error)(f"{error}; its console ends with: {instances.console_end(self.ec2, instance_id)}")
            if instance.state == "running" and name not in self.addressed:
                machine = self.machine_of(name, instance)
                if machine is not None:
                    self.addressed[name] = machine

    def _probe(self, machines: Sequence[Machine]) -> None:
        if not machines:
            return
        with ThreadPoolExecutor(min(CONNECTIONS, len(machines))) as pool:
            for machine, why in zip(machines, pool.map(self.readiness_check, machines), strict=True):
                if why is None:
                    self.boot_s[machine.name] = time.monotonic() - self.begun
                else:
                    self.silent[machine.name] = why

    def _refuse_if_late(self) -> None:
        waited_s = time.monotonic() - self.begun
        if unlisted_names := [name for name in self.ids if name not in self.listed]:
            if waited_s > self.timing.lag_s:
                descriptions = ", ".join(f"{name} ({self.ids[name]})" for name in unlisted_names)
                raise InfrastructureError(
                    f"ec2: {descriptions} was started {waited_s:.0f} s ago and EC2 does not list it; start again"
                )
        elif waited_s > self.timing.ready_s and len(self.boot_s) < len(self.ids):
            raise InfrastructureError(self._late(waited_s))

    def _late(self, waited_s: float) -> str:
        name = next(name for name in self.ids if name not in self.boot_s)
        others = len(self.ids) - len(self.boot_s) - 1
        why = self.silent.get(name) or f"it is {self.listed[name].state} and has no address"
        return (
            f"ec2: {name} ({self.ids[name]}) does not answer ssh after {waited_s:.0f} s"
            f"{f', nor do {others} others' if others else ''}: {why}; "
            f"its console ends with: {instances.console_end(self.ec2, self.ids[name])}; see "
            "that testbed.options.ec2.ingress_from is this box's network as AWS sees it, and that the image is Ubuntu"
        )
