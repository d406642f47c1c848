"""Starting instances: one call each, all at once.

One call for all of a kind would be fewer calls, but user data is the same for every instance of a call, and each
machine's has a host key of its own that the others must not know. The calls go out in parallel; where an account may
make only a few of them a second, the client waits when it is told to.
"""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inventory.ec2 import tags
from inventory.ec2.failures import said_by_aws
from inventory.ec2.images import Image
from inventory.ec2.instance_types import InstanceType
from inventory.ec2.network import Zone
from inventory.ec2.options import Ec2Options
from inventory.ec2.places import CONNECTIONS
from inventory.machines import MachineRequest

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.literals import ResourceTypeType


@dataclass(frozen=True)
class Order:
    """What all instances of a lease have in common."""

    options: Ec2Options
    image: Image
    group: str
    key_pair: str
    placement_group: str | None


@dataclass(frozen=True)
class Birth:
    """What one instance is: its EC2 type, its user data, its tags."""

    request: MachineRequest
    type: InstanceType
    user_data: str
    tags: dict[str, str]


def launch(
    ec2: "EC2Client", order: Order, zone: Zone, births: Sequence[Birth], seen: Callable[[str], None]
) -> dict[str, str]:
    """Start them all in the zone: machine → instance id, or the first error once every call has ended.

    `seen` is told each id as soon as it is known, also if others fail: EC2 may not list them for a while.
    """
    with ThreadPoolExecutor(min(CONNECTIONS, len(births))) as pool:
        calls = {birth.request.name: pool.submit(_start, ec2, order, zone, birth, seen) for birth in births}
        _until_one_fails(list(calls.values()))
    failed = [error for call in calls.values() if not call.cancelled() and (error := call.exception())]
    if failed:
        raise failed[0]
    return {name: call.result() for name, call in calls.items()}


def _until_one_fails(calls: "Sequence[Future[str]]") -> None:
    wait(calls, return_when=FIRST_EXCEPTION)
    for call in calls:
        call.cancel()  # those that have not begun


def _start(ec2: "EC2Client", order: Order, zone: Zone, birth: Birth, seen: Callable[[str], None]) -> str:
    name, type_ = birth.request.name, birth.type.name
    with said_by_aws(f"starting {name} ({type_}, {order.options.market}) in {zone.name}"):
        started = ec2.run_instances(**parameters(order, zone, birth))
    instance_id = started["Instances"][0]["InstanceId"]
    seen(instance_id)
    return instance_id


def parameters(order: Order, zone: Zone, birth: Birth) -> dict[str, Any]:
    """What RunInstances is told."""
    options = order.options
    kinds: list[ResourceTypeType] = ["instance", "volume", "network-interface"]
    if options.market == "spot":
        kinds.append("spot-instances-request")
    return {
        "ImageId": order.image.image_id,
        "InstanceType": birth.type.name,
        "MinCount": 1,
        "MaxCount": 1,
        "KeyName": order.key_pair,
        # Should the answer get lost, the repeated call gets the same instance.
        "ClientToken": f"barograph-{uuid.uuid4().hex}",
        "UserData": birth.user_data,
        "NetworkInterfaces": [_interface(order, zone)],
        "BlockDeviceMappings": [_disk(order)],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1, "HttpEndpoint": "enabled"},
        # A machine that powers itself off is gone, disk and all.
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": tags.specifications(kinds, birth.tags),
        **({"Placement": {"GroupName": order.placement_group}} if order.placement_group else {}),
        **({"InstanceMarketOptions": _spot(options)} if options.market == "spot" else {}),
    }


def _interface(order: Order, zone: Zone) -> dict[str, Any]:
    return {
        "DeviceIndex": 0,
        "SubnetId": zone.subnet,
        "Groups": [order.group],
        "AssociatePublicIpAddress": order.options.addresses == "public",
        "DeleteOnTermination": True,
    }


def _disk(order: Order) -> dict[str, Any]:
    size = max(order.options.disk_gb, order.image.disk_gb)
    disk = {"VolumeSize": size, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    return {"DeviceName": order.image.root_device, "Ebs": disk}


def _spot(options: Ec2Options) -> dict[str, Any]:
    limit = {"MaxPrice": f"{options.price_limit_usd:g}"} if options.price_limit_usd else {}
    return {
        "MarketType": "spot",
        "SpotOptions": {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate", **limit},
    }
