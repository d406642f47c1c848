"""The end of what a lease has on EC2, from whatever point it was left at.

The security group is made first and removed last: while an instance uses it EC2 does not let it go, so that an instance
that EC2 did not list yet is found before the lease is forgotten.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from inventory.ec2 import instances, tags
from inventory.ec2.failures import code_of, is_missing, said_by_aws
from inventory.ec2.instances import Instance
from inventory.ec2.pace import Pace
from inventory.errors import InfrastructureError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import SecurityGroupTypeDef

log = logging.getLogger(__name__)

IN_USE = ("DependencyViolation", "InvalidGroup.InUse", "InvalidPlacementGroup.InUse", "VolumeInUse")


def name_of(lease_id: str) -> str:
    """What a lease's key pair, security group and placement group are called."""
    return f"barograph-{lease_id}"


def remove(ec2: "EC2Client", lease_id: str, known: Collection[str], pace: Pace) -> None:
    """End everything that carries the lease's tag. `known`: instances that were started and may not be listed yet."""
    deadline = time.monotonic() + pace.gone_s
    while True:
        end_instances(ec2, lease_id, known, pace, gone=has_ended)
        _cancel_spot_requests(ec2, lease_id)
        _delete_volumes(ec2, lease_id)
        found = groups(ec2, lease_id)
        _delete_placement_group(ec2, lease_id, found)
        with said_by_aws(f"deleting the key pair of lease {lease_id}"):
            ec2.delete_key_pair(KeyName=name_of(lease_id))  # no error if there is none
        in_use = [group for group in found if not _delete_group(ec2, group)]
        if not in_use:
            return
        if time.monotonic() > deadline:
            raise InfrastructureError(
                f"ec2: the security group {name_of(lease_id)} is still in use after {pace.gone_s:.0f} s and no "
                "instance of the lease is listed; `barograph reap` tries again"
            )
        time.sleep(pace.poll_s)


def is_on_its_way(one: Instance) -> bool:
    """Whether it is gone or going: it does not answer any more and is not paid for."""
    return not one.is_live or one.is_ending


def has_ended(one: Instance) -> bool:
    """Whether it is gone, and what it was in with it."""
    return not one.is_live


def end_instances(
    ec2: "EC2Client", lease_id: str, known: Collection[str], pace: Pace,
    machines: Collection[str] | None = None, gone: Callable[[Instance], bool] = is_on_its_way,
) -> None:  # fmt: skip
    """End the lease's instances, those of `machines` only if given, and wait until each is `gone`."""
    begun = time.monotonic()
    while True:
        listed = _tagged(ec2, lease_id, machines) | (instances.with_ids(ec2, known) if known else {})
        staying = [one for one in listed.values() if not gone(one)]
        waited_s = time.monotonic() - begun
        unlisted = set(known) - listed.keys() if waited_s < pace.lag_s else set()
        if not staying and not unlisted:
            return
        if waited_s > pace.gone_s:
            raise InfrastructureError(
                f"ec2: {', '.join(one.instance_id for one in staying)} of lease {lease_id} still there after "
                f"{pace.gone_s:.0f} s; `barograph reap` tries again"
            )
        _terminate(ec2, {one.instance_id for one in staying if not is_on_its_way(one)} | unlisted)
        time.sleep(pace.poll_s)


def _tagged(ec2: "EC2Client", lease_id: str, machines: Collection[str] | None) -> dict[str, Instance]:
    found = instances.of_lease(ec2, lease_id)
    return {one.instance_id: one for one in found if machines is None or one.machine in machines}


def _terminate(ec2: "EC2Client", ids: Collection[str]) -> None:
    from botocore.exceptions import ClientError

    if not ids:
        return
    with said_by_aws(f"ending {', '.join(sorted(ids))}"):
        try:
            ec2.terminate_instances(InstanceIds=sorted(ids))
        except ClientError as error:
            if not is_missing(error):
                raise
            # One that EC2 does not know (yet) keeps it from ending any.
            for each in ids if len(ids) > 1 else ():
                _terminate(ec2, [each])


def _cancel_spot_requests(ec2: "EC2Client", lease_id: str) -> None:
    """An open request could still start an instance; an active one whose instance ended is closed by itself."""
    with said_by_aws(f"cancelling spot requests of lease {lease_id}"):
        filters: Any = [*tags.of(lease_id), {"Name": "state", "Values": ["open", "active"]}]
        requests = ec2.describe_spot_instance_requests(Filters=filters)["SpotInstanceRequests"]
        if requests:
            ec2.cancel_spot_instance_requests(
                SpotInstanceRequestIds=[request["SpotInstanceRequestId"] for request in requests]
            )


def _delete_volumes(ec2: "EC2Client", lease_id: str) -> None:
    """Disks go with their instances; this is for one that was made and never attached."""
    filters: Any = [*tags.of(lease_id), {"Name": "status", "Values": ["available"]}]
    with said_by_aws(f"listing disks of lease {lease_id}"):
        volumes = ec2.describe_volumes(Filters=filters)["Volumes"]
    for volume in volumes:
        _delete(f"deleting the disk {volume['VolumeId']}", partial(ec2.delete_volume, VolumeId=volume["VolumeId"]))


def groups(ec2: "EC2Client", lease_id: str) -> "list[SecurityGroupTypeDef]":
    """The lease's security group, if it is there."""
    with said_by_aws(f"listing security groups of lease {lease_id}"):
        return ec2.describe_security_groups(Filters=tags.of(lease_id))["SecurityGroups"]


def has_placement_group(group: "SecurityGroupTypeDef") -> bool:
    """Whether the lease of this security group also has, or was about to have, a placement group."""
    return tags.PLACEMENT in tags.as_dict(group.get("Tags"))


def _delete_placement_group(ec2: "EC2Client", lease_id: str, found: "Iterable[SecurityGroupTypeDef]") -> None:
    if any(has_placement_group(group) for group in found):
        name = name_of(lease_id)
        _delete(f"deleting the placement group {name}", partial(ec2.delete_placement_group, GroupName=name))


def _delete_group(ec2: "EC2Client", group: "SecurityGroupTypeDef") -> bool:
    """Whether it is gone: not while an instance still has it."""
    group_id = group["GroupId"]
    return _delete(f"deleting the security group {group_id}", partial(ec2.delete_security_group, GroupId=group_id))


def _delete(doing: str, delete: Callable[[], object]) -> bool:
    """Whether what is to be deleted is gone; not while it is in use."""
    from botocore.exceptions import ClientError

    with said_by_aws(doing):
        try:
            delete()
        except ClientError as error:
            if code_of(error) in IN_USE:
                log.info("ec2: %s: it is still in use (%s)", doing, code_of(error))
                return False
            if not is_missing(error):
                raise
    return True
