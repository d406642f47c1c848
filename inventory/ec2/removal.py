"""Remove a lease's resources on EC2, whatever state they are in, and find resources that no lease owns.

The security group is created first and removed last: while an instance uses it EC2 does not delete it, so an instance
that EC2 did not list yet is found before the lease is forgotten. A resource's owner is in its tags.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from barograph.errors import InfrastructureError
from inventory.ec2 import instances
from inventory.ec2.aws import aws_errors, error_code, is_missing
from inventory.ec2.options import Ec2Timing
from inventory.leases import registry
from inventory.leases.registry import Lease, harness_id

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import SecurityGroupTypeDef

log = logging.getLogger(__name__)

# Resources of another harness are left alone for this long after their end: its own guards and reaper come first.
MARGIN_S = 900.0
IN_USE = ("DependencyViolation", "InvalidGroup.InUse", "InvalidPlacementGroup.InUse", "VolumeInUse")


@dataclass(frozen=True)
class LeaseRemains:
    """Remaining resources of one lease. `expires_s` is the latest end that any of them names."""

    lease_id: str
    harness: str
    expires_s: float | None

    def is_ours_to_end(self, mine: str, on_record: Collection[str], now: float) -> bool:
        """Return True if it is ours without a lease on record, or anybody's past its end
        (docs/decisions/leases_and_money.md).
        """
        if self.lease_id in on_record:
            return False
        return self.harness == mine or (self.expires_s is not None and now > self.expires_s + MARGIN_S)


def ownerless_leases(ec2: "EC2Client") -> list[str]:
    """Return the ids of leases that have resources and that nobody holds."""
    # Resources are listed before the leases are read: a lease is on record before it has any.
    by_lease: dict[str, list[dict[str, str]]] = {}
    for _, marks in _tagged_resources(ec2, instances.ANY_LEASE):
        by_lease.setdefault(marks[instances.LEASE_TAG], []).append(marks)
    on_record = {lease.lease_id for lease in registry.read_all()}
    remains = []
    for lease_id, marked in by_lease.items():
        ends = [end for marks in marked if (end := instances.expiry_of_tags(marks)) is not None]
        remains.append(LeaseRemains(lease_id, marked[0].get(instances.HARNESS_TAG, ""), max(ends, default=None)))
    return sorted(one.lease_id for one in remains if one.is_ours_to_end(harness_id(), on_record, time.time()))


def retag(ec2: "EC2Client", lease: Lease) -> None:
    """Write the lease's new end into the tags of all its resources."""
    if ids := [id_ for id_, _ in _tagged_resources(ec2, instances.lease_filter(lease.lease_id))]:
        with aws_errors(f"tagging what lease {lease.lease_id} has with its new end"):
            ec2.create_tags(Resources=ids, Tags=[{"Key": instances.EXPIRES_TAG, "Value": f"{lease.expires_s:.0f}"}])


def _tagged_resources(ec2: "EC2Client", lease_filter: Any) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield id and tags of every existing resource of these leases."""
    for one in instances.live_instances(ec2, lease_filter):
        yield one.instance_id, one.tags
    with aws_errors("listing what carries Barograph's tags"):
        for volumes in ec2.get_paginator("describe_volumes").paginate(Filters=lease_filter):
            for volume in volumes["Volumes"]:
                yield volume["VolumeId"], instances.tag_dict(volume.get("Tags"))
        for groups in ec2.get_paginator("describe_security_groups").paginate(Filters=lease_filter):
            for group in groups["SecurityGroups"]:
                yield group["GroupId"], instances.tag_dict(group.get("Tags"))
        for pair in ec2.describe_key_pairs(Filters=lease_filter)["KeyPairs"]:
            yield pair["KeyPairId"], instances.tag_dict(pair.get("Tags"))


def resource_name(lease_id: str) -> str:
    """Return the name of a lease's key pair, security group and placement group."""
    return f"barograph-{lease_id}"


def remove_lease(ec2: "EC2Client", lease_id: str, known: Collection[str], timing: Ec2Timing) -> None:
    """End everything with the lease's tag. `known`: instances that were started and may not be listed yet."""
    deadline, name = time.monotonic() + timing.gone_s, resource_name(lease_id)
    lease_filter: Any = instances.lease_filter(lease_id)
    while True:
        end_instances(ec2, lease_id, known, timing, until_gone=True)
        with aws_errors(f"cancelling spot requests of lease {lease_id}"):
            # An open request could still start an instance; an active one closes when its instance ends.
            filters = [*lease_filter, {"Name": "state", "Values": ["open", "active"]}]
            requests = ec2.describe_spot_instance_requests(Filters=filters)["SpotInstanceRequests"]
            if ids := [request["SpotInstanceRequestId"] for request in requests]:
                ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=ids)
        with aws_errors(f"listing disks of lease {lease_id}"):
            # Those that were created and never attached; others go with their instances.
            filters = [*lease_filter, {"Name": "status", "Values": ["available"]}]
            volumes = [one["VolumeId"] for one in ec2.describe_volumes(Filters=filters)["Volumes"]]
        for volume in volumes:
            _delete_or_in_use(f"deleting the disk {volume}", partial(ec2.delete_volume, VolumeId=volume))
        groups = security_groups(ec2, lease_id)
        if any(has_placement_group(group) for group in groups):
            delete = partial(ec2.delete_placement_group, GroupName=name)
            _delete_or_in_use(f"deleting the placement group {name}", delete)
        with aws_errors(f"deleting the key pair of lease {lease_id}"):
            ec2.delete_key_pair(KeyName=name)  # no error if there is none
        deletions = [
            _delete_or_in_use(f"deleting the security group {id_}", partial(ec2.delete_security_group, GroupId=id_))
            for id_ in [group["GroupId"] for group in groups]
        ]
        if all(deletions):
            return
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"ec2: the security group {name} is still in use after {timing.gone_s:.0f} s and no "
                "instance of the lease is listed; `barograph reap` tries again"
            )
        time.sleep(timing.poll_s)


def end_instances(
    ec2: "EC2Client", lease_id: str, known: Collection[str], timing: Ec2Timing,
    machines: Collection[str] | None = None, until_gone: bool = False,
) -> None:  # fmt: skip
    """End the lease's instances, only those of `machines` if given, and wait until each is ending, or gone (only then
    has it left its groups)."""
    start = time.monotonic()
    while True:
        by_id = {
            one.instance_id: one
            for one in instances.instances_of_lease(ec2, lease_id)
            if machines is None or one.machine in machines
        } | (instances.instances_with_ids(ec2, known) if known else {})
        rest = [one for one in by_id.values() if (one.is_live if until_gone else not one.is_ending)]
        waited_s = time.monotonic() - start
        unlisted_ids = set(known) - by_id.keys() if waited_s < timing.lag_s else set()
        if not rest and not unlisted_ids:
            return
        if waited_s > timing.gone_s:
            raise InfrastructureError(
                f"ec2: {', '.join(one.instance_id for one in rest)} of lease {lease_id} still there after "
                f"{timing.gone_s:.0f} s; `barograph reap` tries again"
            )
        _terminate(ec2, {one.instance_id for one in rest if not one.is_ending} | unlisted_ids)
        time.sleep(timing.poll_s)


def _terminate(ec2: "EC2Client", ids: Collection[str]) -> None:
    from botocore.exceptions import ClientError

    if not ids:
        return
    with aws_errors(f"ending {', '.join(sorted(ids))}"):
        try:
            ec2.terminate_instances(InstanceIds=sorted(ids))
        except ClientError as error:
            if not is_missing(error):
                raise
            # An id that EC2 does not know (yet) would fail the call for all.
            for each in ids if len(ids) > 1 else ():
                _terminate(ec2, [each])


def security_groups(ec2: "EC2Client", lease_id: str) -> "list[SecurityGroupTypeDef]":
    """Return the lease's security group, if it exists."""
    with aws_errors(f"listing security groups of lease {lease_id}"):
        return ec2.describe_security_groups(Filters=instances.lease_filter(lease_id))["SecurityGroups"]


def has_placement_group(group: "SecurityGroupTypeDef") -> bool:
    """Return True if the lease of this security group also has, or was about to have, a placement group."""
    return instances.PLACEMENT_TAG in instances.tag_dict(group.get("Tags"))


def _delete_or_in_use(doing: str, delete: Callable[[], object]) -> bool:
    """Run `delete` and return True; return False while the resource is in use."""
    from botocore.exceptions import ClientError

    with aws_errors(doing):
        try:
            delete()
        except ClientError as error:
            if error_code(error) in IN_USE:
                log.info("ec2: %s: it is still in use (%s)", doing, error_code(error))
                return False
            if not is_missing(error):
                raise
    return True
