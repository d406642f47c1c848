"""Where in a region instances go (zones and their subnets), and who may talk to them."""

import ipaddress
import socket
import urllib.request
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inventory.ec2 import tags
from inventory.ec2.failures import said_by_aws
from inventory.ec2.options import Ec2Options
from inventory.errors import CapacityError, ConfigurationError, InfrastructureError

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

WHO_AM_I = "https://checkip.amazonaws.com"
SSH, POLICY_SERVICE = 22, 8700


@dataclass(frozen=True)
class Zone:
    """One availability zone and the subnet that instances get their addresses from there."""

    name: str
    subnet: str
    vpc: str
    network: str


def zones(ec2: "EC2Client", options: Ec2Options, instance_types: Collection[str]) -> tuple[Zone, ...]:
    """The zones that have a subnet and all the instance types, in the order in which they are to be tried."""
    there = _subnets(ec2, options)
    if not there:
        raise ConfigurationError(_no_subnet(ec2, options))
    offered = _offering(ec2, instance_types)
    if unknown := [name for name in options.zones if name not in {zone.name for zone in there}]:
        raise ConfigurationError(
            f"testbed.options.ec2.zones has {', '.join(unknown)}; with a subnet are {', '.join(z.name for z in there)}"
        )
    wanted = options.zones or sorted(zone.name for zone in there)
    fit = [zone for name in wanted for zone in there if zone.name == name and name in offered]
    if not fit:
        raise CapacityError(
            f"ec2: none of the zones {', '.join(wanted)} offers all of {', '.join(sorted(instance_types))}; "
            f"{', '.join(sorted(offered)) or 'no zone of the region'} does; choose other zones or types"
        )
    return tuple(fit)


def harness_network(options: Ec2Options, zone: Zone) -> str:
    """From where the machines may be reached: the option, or this box's own address as the machines see it."""
    if options.ingress_from:
        return options.ingress_from
    address = _address_towards(zone.network) if options.addresses == "private" else _public_address()
    return f"{address}/32"


def make_group(ec2: "EC2Client", name: str, zone: Zone, ingress: str, marks: Mapping[str, str]) -> str:
    """A security group: ssh and the policy service from the harness, everything among its members, nothing else."""
    with said_by_aws(f"making the security group {name}"):
        group = ec2.create_security_group(
            GroupName=name, Description="Barograph machines", VpcId=zone.vpc,
            TagSpecifications=tags.specifications(["security-group"], marks),
        )["GroupId"]  # fmt: skip
        ports: list[Any] = [
            {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": [{"CidrIp": ingress}]}
            for port in (SSH, POLICY_SERVICE)
        ]
        among: Any = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[*ports, among])
    return group


def _subnets(ec2: "EC2Client", options: Ec2Options) -> list[Zone]:
    filters = [{"Name": "state", "Values": ["available"]}]
    if options.subnet:
        filters.append({"Name": "subnet-id", "Values": [options.subnet]})
    elif options.vpc:
        filters.append({"Name": "vpc-id", "Values": [options.vpc]})
    else:
        filters.append({"Name": "default-for-az", "Values": ["true"]})
    with said_by_aws("looking for subnets"):
        found = ec2.describe_subnets(Filters=filters)["Subnets"]  # type: ignore[arg-type]  # plain dicts
    by_zone = {
        subnet["AvailabilityZone"]: Zone(
            subnet["AvailabilityZone"], subnet["SubnetId"], subnet["VpcId"], subnet["CidrBlock"]
        )
        for subnet in sorted(found, key=lambda subnet: subnet.get("AvailableIpAddressCount", 0))
    }
    return list(by_zone.values())  # of several in a zone the one with the most free addresses


def _offering(ec2: "EC2Client", instance_types: Iterable[str]) -> set[str]:
    """The zones that offer all these types."""
    wanted = set(instance_types)
    filters: Any = [{"Name": "instance-type", "Values": sorted(wanted)}]
    with said_by_aws("asking which zones offer the instance types"):
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=filters
        )
        offers = [
            (offer["Location"], offer["InstanceType"]) for page in pages for offer in page["InstanceTypeOfferings"]
        ]
    by_zone: dict[str, set[str]] = {}
    for zone, name in offers:
        by_zone.setdefault(zone, set()).add(name)
    return {zone for zone, has in by_zone.items() if wanted <= has}


def _no_subnet(ec2: "EC2Client", options: Ec2Options) -> str:
    region = ec2.meta.region_name
    if options.subnet:
        return f"testbed.options.ec2.subnet is {options.subnet}, which {region} does not have; see the VPC console"
    if options.vpc:
        return f"testbed.options.ec2.vpc is {options.vpc}, which has no subnet in {region}; see the VPC console"
    return (
        f"ec2: {region} has no default VPC with subnets; set testbed.options.ec2.vpc or subnet, or make one: "
        "aws ec2 create-default-vpc"
    )


def _public_address() -> str:
    try:
        with urllib.request.urlopen(WHO_AM_I, timeout=10) as answer:
            return str(ipaddress.IPv4Address(answer.read().decode().strip()))
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"ec2: {WHO_AM_I} does not say this box's public address ({error}); set testbed.options.ec2.ingress_from"
        ) from error


def _address_towards(network: str) -> str:
    """This box's own address on the way to a network; nothing is sent."""
    somebody = str(ipaddress.IPv4Network(network)[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect((somebody, SSH))
        except OSError as error:
            raise ConfigurationError(
                f"testbed.options.ec2.addresses is private, and this box has no way into {network} ({error.strerror}); "
                "run the harness in the VPC or with a route to it, or set addresses: public"
            ) from error
        return str(way.getsockname()[0])
