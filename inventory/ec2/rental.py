"""One attempt to start a lease's machines: shared resources, the zone, the instances, and the wait until all answer."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from barograph.errors import CapacityError, InfrastructureError
from inventory.ec2 import instances, launch, removal, survey
from inventory.ec2.errors import ZoneFull, aws_errors
from inventory.ec2.instances import Instance
from inventory.ec2.launch import InstanceSpec, LeaseSpec, ReadinessCheck, ReadinessWait, user_data_script
from inventory.ec2.options import Ec2Options, Ec2Timing
from inventory.ec2.survey import RentalPlan, Zone
from inventory.leases import registry
from inventory.leases.registry import Lease
from inventory.machines import Machine, MachineRequest
from inventory.remote import host_keys

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


log = logging.getLogger(__name__)

SSH_USER = "root"  # the user data allows root's login


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
        order = self._prepare()
        refusals = []
        for zone in self.plan.zones:
            try:
                return self._in_zone(order, zone, requests)
            except ZoneFull as error:
                log.info("lease %s: %s cannot: %s", self.lease.lease_id, zone.name, error)
                refusals.append(f"{zone.name}: {error}")
                # A placement group stays in its zone as long as anything is in it.
                is_gone = removal.has_ended if order.placement_group else removal.is_gone_or_going
                removal.end_instances(self.ec2, self.lease.lease_id, self.started, self.timing, gone=is_gone)
        raise CapacityError(f"ec2: no zone has {len(requests)} machines now: {' | '.join(refusals)}")

    def start_more(self, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        """Start further machines beside the lease's others."""
        return self._in_zone(*self._prepared(), requests)

    def _prepare(self) -> LeaseSpec:
        """Create what the instances share: the security group (first: see `removal`), key pair, placement group."""
        name, zone = removal.resource_name(self.lease.lease_id), self.plan.zones[0]
        marks = instances.lease_tags(self.lease, self.options.budget_usd)
        clustered = {instances.PLACEMENT_TAG: "cluster"} if self.options.placement == "cluster" else {}
        ingress = survey.harness_network(self.options, zone)
        group = survey.make_security_group(self.ec2, name, zone, ingress, marks | clustered)
        with aws_errors(f"importing the key pair {name}"):
            self.ec2.import_key_pair(
                KeyName=name,
                PublicKeyMaterial=(self._keys / "id_ed25519.pub").read_bytes(),
                TagSpecifications=instances.tag_specifications(["key-pair"], marks),
            )
        if clustered:
            with aws_errors(f"making the placement group {name}"):
                self.ec2.create_placement_group(
                    GroupName=name,
                    Strategy="cluster",
                    TagSpecifications=instances.tag_specifications(["placement-group"], marks),
                )
        return self._order(group, bool(clustered))

    def _prepared(self) -> tuple[LeaseSpec, Zone]:
        """Return what `_prepare` created, and the zone of the lease's machines."""
        machines = [
            one
            for one in instances.instances_of_lease(self.ec2, self.lease.lease_id)
            if one.state in instances.WORKING_STATES
        ]
        zone = next((zone for zone in self.plan.zones for one in machines if zone.subnet == one.subnet), None)
        groups = removal.security_groups(self.ec2, self.lease.lease_id)
        if zone is None or not groups:
            raise InfrastructureError(
                f"ec2: lease {self.lease.lease_id} has no running machine in "
                f"{', '.join(zone.name for zone in self.plan.zones)} (released, reaped or recalled?); start again"
            )
        return self._order(groups[0]["GroupId"], removal.has_placement_group(groups[0])), zone

    def _order(self, group: str, clustered: bool) -> LeaseSpec:
        name = removal.resource_name(self.lease.lease_id)
        return LeaseSpec(self.options, self.plan.image, group, name, name if clustered else None)

    def _in_zone(self, order: LeaseSpec, zone: Zone, requests: Sequence[MachineRequest]) -> tuple[Machine, ...]:
        host_keys.add_host_keys(self._keys, [request.name for request in requests], self.lease.lease_id)
        specs = {request.name: self._instance_spec(request) for request in requests}
        start = time.monotonic()
        ids = launch.launch_instances(self.ec2, order, zone, list(specs.values()), self.started.add)
        readiness = ReadinessWait(
            self.ec2,
            ids,
            lambda name, instance: self._machine(specs[name], instance),
            self.readiness_check,
            self.timing,
            start,
        )
        boot_s = readiness.all_ready()
        if registry.read(self.lease.lease_id) is None:
            raise InfrastructureError(f"lease {self.lease.lease_id} was reaped while its machines started; start again")
        log.info("lease %s: %d machines in %s", self.lease.lease_id, len(ids), zone.name)
        return tuple(replace(readiness.addressed[name], boot_s=boot_s[name]) for name in specs)

    def _instance_spec(self, request: MachineRequest) -> InstanceSpec:
        text = user_data_script(request.name, self._keys / "machines" / request.name, self.lease.expires_s)
        marks = instances.lease_tags(self.lease, self.options.budget_usd, request.name)
        return InstanceSpec(request, self.plan.types[request.type.name], text, marks)

    def _machine(self, spec: InstanceSpec, instance: Instance) -> Machine | None:
        """Return the machine as the harness reaches it, with its host key on record; None while it has no address."""
        inside = instance.private_address
        control = inside if self.options.addresses == "private" else instance.public_address
        if not control or not inside:
            return None
        host_keys.add_known_hosts(self._keys, {spec.request.name: control})
        return Machine(
            spec.request.name, spec.type.as_machine_type(spec.request.type), control, inside, inside, SSH_USER, 22,
            self._keys / "id_ed25519", self._keys / "known_hosts",
        )  # fmt: skip

    @property
    def _keys(self) -> Path:
        return registry.key_dir(self.lease.lease_id)


def trial_parameters(options: Ec2Options, plan: RentalPlan, request: MachineRequest) -> Mapping[str, object]:
    """Return the parameters of a RunInstances like the real one, without those created for a lease."""
    spec = InstanceSpec(request, plan.types[request.type.name], "", {instances.LEASE_TAG: "check"})
    parameters = launch.launch_parameters(LeaseSpec(options, plan.image, "", "", None), plan.zones[0], spec)
    interface = {key: value for key, value in parameters["NetworkInterfaces"][0].items() if key != "Groups"}
    trial = {key: value for key, value in parameters.items() if key not in ("KeyName", "UserData")}
    return {**trial, "NetworkInterfaces": [interface]}
