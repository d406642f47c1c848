"""Rent a lease's machines: the resources that they share, the zone, the instances, and the wait until each answers ssh.

Each instance gets a call of its own, all at once: user data (a shell script with its keys, name, guard and packages)
is the same for every instance of a call, and each machine has a host key that the others must not know. Where an
account may make only a few calls a second, the client waits when AWS says so. An instance that does not answer is
reported with the end of its console.
"""

import base64
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory.ec2 import instances, survey
from inventory.ec2.aws import CONNECTIONS, ZoneFull, aws_errors, call_when_visible, state_reason_error
from inventory.ec2.instances import WORKING_STATES, Instance
from inventory.ec2.options import Ec2Options, Ec2Timing
from inventory.ec2.survey import RentalPlan, Zone
from inventory.leases import guard, registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote import ssh
from inventory.remote.ssh import connect

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import ResourceTypeType

log = logging.getLogger(__name__)

SSH_USER = "root"  # the user data allows root's login
SCRIPT = Path(__file__).with_name("user_data.sh")
# Installed by playbooks/roles/storm/tasks/deliver.yml, too; a test keeps the two equal.
PACKAGES = ("openjdk-17-jre-headless", "python3", "python3-numpy", "supervisor", "nftables")
# `pid` while they are being installed, then `done` or `failed`, and `log`.
PACKAGES_FOLDER = "/var/lib/barograph-packages"
MOST_BYTES = 16 * 1024  # EC2's limit


def user_data_script(name: str, identity: Path, expires_s: float) -> str:
    """Return the script of the machine `name`; `identity` is its folder of `inventory.remote.ssh`."""
    text = SCRIPT.read_text()
    for place, value in {
        "@GUARD@": guard.installation(expires_s),
        "@LOGIN@": (identity / "authorized_keys").read_text().strip(),
        "@NAME@": name,
        "@HOST_KEY@": base64.b64encode((identity / "ssh_host_ed25519_key").read_bytes()).decode(),
        "@PACKAGES@": " ".join(PACKAGES),
        "@PACKAGES_FOLDER@": PACKAGES_FOLDER,
    }.items():
        text = text.replace(place, value)
    if len(text.encode()) > MOST_BYTES:
        raise ConfigurationError(f"ec2: the user data of {name} has {len(text.encode())} bytes, EC2 takes {MOST_BYTES}")
    return text


def launch_parameters(options: Ec2Options, plan: RentalPlan, zone: Zone, request: MachineRequest) -> dict[str, Any]:
    """Return the parameters of a RunInstances without those created for a lease."""
    disk = {"VolumeSize": options.disk_gb, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    limit = {"MaxPrice": f"{options.price_limit_usd:g}"} if options.price_limit_usd else {}
    spot = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate", **limit}
    return {
        "ImageId": plan.image.image_id,
        "InstanceType": plan.types[request.type.name].name,
        "MinCount": 1,
        "MaxCount": 1,
        # Should the answer get lost, the repeated call gets the same instance.
        "ClientToken": f"barograph-{uuid.uuid4().hex}",
        "NetworkInterfaces": [{
            "DeviceIndex": 0, "SubnetId": zone.subnet, "AssociatePublicIpAddress": options.addresses == "public",
            "DeleteOnTermination": True,
        }],
        "BlockDeviceMappings": [{"DeviceName": plan.image.root_device, "Ebs": disk}],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        # A machine that powers itself off is gone, disk included.
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": _tags(options, {instances.LEASE_TAG: "check"}),
        **({"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": spot}} if options.market == "spot" else {}),
    }  # fmt: skip


def _tags(options: Ec2Options, tags: Mapping[str, str]) -> Any:
    kinds: list[ResourceTypeType] = ["instance", "volume", "network-interface"]
    return instances.tag_specifications([*kinds, "spot-instances-request"] if options.market == "spot" else kinds, tags)


@dataclass(frozen=True)
class SharedResources:
    """What all instances of a lease share, by name or id."""

    group: str
    placement_group: str | None


# Returns why a machine does not answer yet, or None if it does.
ReadinessCheck = Callable[[Machine], str | None]


def check_over_ssh(machine: Machine) -> str | None:
    """Log in with the lease's key and the machine's host key, which the first boot sets last."""
    try:
        with connect(machine) as remote:
            return None if remote.run(["true"], timeout_s=10).code == 0 else "`true` failed there"
    except InfrastructureError as error:
        return str(error)


@dataclass(frozen=True)
class Rental:
    """One attempt. `started`: the instances started so far; EC2 may not list them for a while."""

    ec2: "EC2Client"
    lease: Lease
    options: Ec2Options
    plan: RentalPlan
    readiness_check: ReadinessCheck
    timing: Ec2Timing
    started: set[str] = field(default_factory=set)

    def start_first(self, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Start the lease's first machines, all in one zone: those of a partial start end before the next is tried."""
        shared, refusals = self._make_shared_resources(), []
        for zone in self.plan.zones:
            try:
                return self._start_in(zone, shared, requests)
            except ZoneFull as error:
                log.info("lease %s: %s cannot: %s", self.lease.lease_id, zone.name, error)
                refusals.append(f"{zone.name}: {error}")
                # A placement group stays in its zone as long as anything is in it.
                until_gone = shared.placement_group is not None
                instances.end_instances(self.ec2, self.lease.lease_id, self.started, self.timing, until_gone=until_gone)
        raise CapacityError(f"ec2: no zone has {len(requests)} machines now: {' | '.join(refusals)}")

    def start_more(self, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Start further machines beside the lease's others, in their zone."""
        machines = instances.instances_of_lease(self.ec2, self.lease.lease_id)
        subnets = {one.subnet for one in machines if one.state in WORKING_STATES}
        zone = next((zone for zone in self.plan.zones if zone.subnet in subnets), None)
        groups = instances.security_groups(self.ec2, self.lease.lease_id)
        if zone is None or not groups:
            raise InfrastructureError(
                f"ec2: lease {self.lease.lease_id} has no running machine in "
                f"{', '.join(zone.name for zone in self.plan.zones)} (released, reaped or recalled?); start again"
            )
        placement_group = self._name if instances.has_placement_group(groups[0]) else None
        return self._start_in(zone, SharedResources(groups[0]["GroupId"], placement_group), requests)

    def _make_shared_resources(self) -> SharedResources:
        """Create the security group (first: see `instances`), key pair, placement group."""
        name, zone = self._name, self.plan.zones[0]
        marks = instances.lease_tags(self.lease, self.options.budget_usd)
        clustered = {instances.PLACEMENT_TAG: "cluster"} if self.options.placement == "cluster" else {}
        ingress = survey.harness_network(self.options, zone)
        group = survey.make_security_group(self.ec2, name, zone, ingress, marks | clustered, self.timing)
        with aws_errors(f"importing the key pair {name}"):
            self.ec2.import_key_pair(
                KeyName=name, PublicKeyMaterial=(self._keys / "id_ed25519.pub").read_bytes(),
                TagSpecifications=instances.tag_specifications(["key-pair"], marks),
            )  # fmt: skip
        if clustered:
            with aws_errors(f"making the placement group {name}"):
                self.ec2.create_placement_group(
                    GroupName=name, Strategy="cluster",
                    TagSpecifications=instances.tag_specifications(["placement-group"], marks),
                )  # fmt: skip
        return SharedResources(group, name if clustered else None)

    def _start_in(self, zone: Zone, shared: SharedResources, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Start them all in the zone and wait until all answer; the first error once every call has ended."""
        names = [request.name for request in requests]
        ssh.add_host_keys(self._keys, names, self.lease.lease_id)
        begun = time.monotonic()
        with ThreadPoolExecutor(min(CONNECTIONS, len(requests))) as pool:
            calls = [pool.submit(self._start_instance, zone, shared, request) for request in requests]
            wait(calls, return_when=FIRST_EXCEPTION)
            for call in calls:
                call.cancel()  # those that have not begun
        for call in calls:
            if not call.cancelled() and (error := call.exception()):
                raise error
        ids = {name: call.result() for name, call in zip(names, calls, strict=True)}
        readiness = ReadinessWait(self, {request.name: request for request in requests}, ids, begun)
        machines = readiness.ready_machines()
        if registry.read(self.lease.lease_id) is None:
            raise InfrastructureError(f"lease {self.lease.lease_id} was reaped while its machines started; start again")
        log.info("lease %s: %d machines in %s", self.lease.lease_id, len(ids), zone.name)
        return tuple(machines[name] for name in names)

    def _start_instance(self, zone: Zone, shared: SharedResources, request: MachineRequest) -> str:
        parameters = launch_parameters(self.options, self.plan, zone, request)
        parameters["NetworkInterfaces"][0]["Groups"] = [shared.group]
        tags = instances.lease_tags(self.lease, self.options.budget_usd, request.name)
        parameters |= {
            "KeyName": self._name,
            "UserData": user_data_script(request.name, self._keys / "machines" / request.name, self.lease.expires_s),
            "TagSpecifications": _tags(self.options, tags),
            **({"Placement": {"GroupName": shared.placement_group}} if shared.placement_group else {}),
        }
        doing = f"starting {request.name} ({parameters['InstanceType']}, {self.options.market}) in {zone.name}"
        answer = call_when_visible(doing, lambda: self.ec2.run_instances(**parameters), self.timing)
        instance_id = answer["Instances"][0]["InstanceId"]
        self.started.add(instance_id)
        return instance_id

    def machine(self, request: MachineRequest, instance: Instance) -> Machine | None:
        """Return the machine as the harness reaches it, with its host key on record; None while it has no address."""
        inside = instance.private_address
        control = inside if self.options.addresses == "private" else instance.public_address
        if not control or not inside:
            return None
        ssh.add_known_hosts(self._keys, {request.name: control})
        type = self.plan.types[request.type.name].as_machine_type(request.type)
        return Machine(
            request.name, type, control, inside, inside, SSH_USER, 22, self._keys / "id_ed25519",
            self._keys / "known_hosts", image=self.plan.image.image_id,
        )  # fmt: skip

    @property
    def _keys(self) -> Path:
        return registry.key_dir(self.lease.lease_id)

    @property
    def _name(self) -> str:
        return instances.resource_name(self.lease.lease_id)


@dataclass
class ReadinessWait:
    """Wait for started instances, whose `ids` are by machine; the dicts hold the state of each machine."""

    rental: Rental
    requests: Mapping[str, MachineRequest]
    ids: Mapping[str, str]
    begun: float
    listed: dict[str, Instance] = field(default_factory=dict)
    addressed: dict[str, Machine] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    ready: dict[str, Machine] = field(default_factory=dict)

    def ready_machines(self) -> dict[str, Machine]:
        """Return the machines once all answer. InfrastructureError or CapacityError if they do not."""
        timing, relist_at = self.rental.timing, 0.0
        while True:
            if len(self.addressed) < len(self.ids) or time.monotonic() >= relist_at:
                self._list()
                relist_at = time.monotonic() + timing.relist_s
            self._probe([machine for name, machine in self.addressed.items() if name not in self.ready])
            if len(self.ready) == len(self.ids):
                return self.ready
            self._refuse_if_late(time.monotonic() - self.begun)
            time.sleep(timing.poll_s)

    def _list(self) -> None:
        listing = instances.instances_with_ids(self.rental.ec2, self.ids.values())
        for name, instance_id in self.ids.items():
            if (instance := listing.get(instance_id)) is None:
                continue
            self.listed[name] = instance
            if instance.state not in WORKING_STATES:
                error = state_reason_error(f"{name} ({instance_id})", *instance.reason)
                end = instances.console_end(self.rental.ec2, instance_id)
                raise type(error)(f"{error}; its console ends with: {end}")
            if instance.state == "running" and name not in self.addressed:
                machine = self.rental.machine(self.requests[name], instance)
                if machine is not None:
                    self.addressed[name] = machine

    def _probe(self, machines: Sequence[Machine]) -> None:
        if not machines:
            return
        with ThreadPoolExecutor(min(CONNECTIONS, len(machines))) as pool:
            for machine, why in zip(machines, pool.map(self.rental.readiness_check, machines), strict=True):
                if why is None:
                    self.ready[machine.name] = replace(machine, boot_s=time.monotonic() - self.begun)
                else:
                    self.silent[machine.name] = why

    def _refuse_if_late(self, waited_s: float) -> None:
        timing = self.rental.timing
        if unlisted_names := [name for name in self.ids if name not in self.listed]:
            if waited_s > timing.lag_s:
                descriptions = ", ".join(f"{name} ({self.ids[name]})" for name in unlisted_names)
                raise InfrastructureError(
                    f"ec2: {descriptions} was started {waited_s:.0f} s ago and EC2 does not list it; start again"
                )
        elif waited_s > timing.ready_s:
            name, *others = (name for name in self.ids if name not in self.ready)
            why = self.silent.get(name) or f"it is {self.listed[name].state} and has no address"
            raise InfrastructureError(
                f"ec2: {name} ({self.ids[name]}) does not answer ssh after {waited_s:.0f} s"
                f"{f', nor do {len(others)} others' if others else ''}: {why}; "
                f"its console ends with: {instances.console_end(self.rental.ec2, self.ids[name])}; see "
                "that testbed.options.ec2.ingress_from is this box's network as AWS sees it, and that the image is"
                " Ubuntu"
            )
