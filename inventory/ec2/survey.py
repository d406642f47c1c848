"""A region's offers, read before anything is rented there: the image, the zones with their subnets, the instance types,
permissions and quota; and the security group that limits access to the machines.
"""

import ipaddress
import logging
import re
import socket
import urllib.request
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory import machines
from inventory.ec2 import instance_types, instances, regions
from inventory.ec2.errors import aws_errors, error_code
from inventory.ec2.instance_types import InstanceType
from inventory.ec2.options import Ec2Options
from inventory.ec2.regions import Region
from inventory.machines import MachineRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import ImageTypeDef


log = logging.getLogger(__name__)

CANONICAL = "099720109477"
UBUNTU = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
# A name alone proves nothing: anybody may publish an image under any name.
IMAGE_OWNERS = ("self", CANONICAL)


@dataclass(frozen=True)
class Image:
    """One machine image."""

    image_id: str
    name: str
    architecture: str
    root_device: str
    disk_gb: int


def find_image(ec2: "EC2Client", options: Ec2Options) -> Image:
    """Return the image with that id, or the newest one of that name; ConfigurationError if there is none."""
    choice = options.image or UBUNTU
    with aws_errors(f"looking for the image {choice}"):
        if choice.startswith("ami-"):
            images = ec2.describe_images(ImageIds=[choice])["Images"]
        else:
            owners = IMAGE_OWNERS if options.image else (CANONICAL,)
            filters = [{"Name": "name", "Values": [choice]}, {"Name": "state", "Values": ["available"]}]
            images = ec2.describe_images(Owners=owners, Filters=filters)["Images"]  # type: ignore[arg-type]  # plain dicts
    if not images:
        raise ConfigurationError(
            f"testbed.options.ec2.image is {choice}; {ec2.meta.region_name} has no such image of yours or Canonical's; "
            "give an id (ami-…) or a name of that region, * stands for anything"
        )
    image = _newest_image(images)
    log.info("ec2: image %s (%s)", image.image_id, image.name)
    return image


def _newest_image(found: "Sequence[ImageTypeDef]") -> Image:
    best = max(found, key=lambda image: image.get("CreationDate", ""))
    root = best.get("RootDeviceName", "/dev/sda1")
    sizes = [
        int(device.get("Ebs", {}).get("VolumeSize", 0))
        for device in best.get("BlockDeviceMappings", ())
        if device.get("DeviceName") == root
    ]
    return Image(
        best.get("ImageId", ""),
        best.get("Name", ""),
        str(best.get("Architecture", "x86_64")),
        root,
        max(sizes, default=0),
    )


ADDRESS_SERVICE = "https://checkip.amazonaws.com"
SSH, POLICY_SERVICE = 22, 8700


@dataclass(frozen=True)
class Zone:
    """One availability zone and the subnet that instances get their addresses from there."""

    name: str
    subnet: str
    vpc: str
    network: str


def zones(ec2: "EC2Client", options: Ec2Options, instance_types: Collection[str]) -> tuple[Zone, ...]:
    """Return the zones that have a subnet and all the instance types, in the order of trial."""
    places = _subnets(ec2, options)
    if not places:
        raise ConfigurationError(_no_subnet(ec2, options))
    offers = _zones_offering(ec2, instance_types)
    if unknown := [name for name in options.zones if name not in {zone.name for zone in places}]:
        raise ConfigurationError(
            f"testbed.options.ec2.zones has {', '.join(unknown)}; with a subnet are {', '.join(z.name for z in places)}"
        )
    zone_names = options.zones or sorted(zone.name for zone in places)
    result = [zone for name in zone_names for zone in places if zone.name == name and name in offers]
    if not result:
        raise CapacityError(
            f"ec2: none of the zones {', '.join(zone_names)} offers all of {', '.join(sorted(instance_types))}; "
            f"{', '.join(sorted(offers)) or 'no zone of the region'} does; choose other zones or types"
        )
    return tuple(result)


def harness_network(options: Ec2Options, zone: Zone) -> str:
    """Return the network that may reach the machines: the option, or this box's address as the machines see it."""
    if options.ingress_from:
        return options.ingress_from
    address = _address_on_way_to(zone.network) if options.addresses == "private" else _public_address()
    return f"{address}/32"


def make_security_group(ec2: "EC2Client", name: str, zone: Zone, ingress: str, marks: Mapping[str, str]) -> str:
    """Create a security group: ssh and policy service from the harness, everything among its members, nothing else."""
    with aws_errors(f"making the security group {name}"):
        group = ec2.create_security_group(
            GroupName=name, Description="Barograph machines", VpcId=zone.vpc,
            TagSpecifications=instances.tag_specifications(["security-group"], marks),
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
    with aws_errors("looking for subnets"):
        subnets = ec2.describe_subnets(Filters=filters)["Subnets"]  # type: ignore[arg-type]  # plain dicts
    by_zone = {
        subnet["AvailabilityZone"]: Zone(
            subnet["AvailabilityZone"], subnet["SubnetId"], subnet["VpcId"], subnet["CidrBlock"]
        )
        for subnet in sorted(subnets, key=lambda subnet: subnet.get("AvailableIpAddressCount", 0))
    }
    return list(by_zone.values())  # of several in a zone the one with the most free addresses


def _zones_offering(ec2: "EC2Client", instance_types: Iterable[str]) -> set[str]:
    """Return the zones that offer all these types."""
    types = set(instance_types)
    filters: Any = [{"Name": "instance-type", "Values": sorted(types)}]
    with aws_errors("asking which zones offer the instance types"):
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone", Filters=filters
        )
        offers = [
            (offer["Location"], offer["InstanceType"]) for page in pages for offer in page["InstanceTypeOfferings"]
        ]
    by_zone: dict[str, set[str]] = {}
    for zone, name in offers:
        by_zone.setdefault(zone, set()).add(name)
    return {zone for zone, has in by_zone.items() if types <= has}


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
        with urllib.request.urlopen(ADDRESS_SERVICE, timeout=10) as answer:
            return str(ipaddress.IPv4Address(answer.read().decode().strip()))
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"ec2: {ADDRESS_SERVICE} does not say this box's public address ({error});"
            f" set testbed.options.ec2.ingress_from"
        ) from error


def _address_on_way_to(network: str) -> str:
    """Return this box's address on the way to a network; nothing is sent."""
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


# The vCPUs that an account may run at once from the families A, C, D, H, I, M, R, T, Z.
QUOTA = {"on_demand": "L-1216C47A", "spot": "L-34B43A08"}
STANDARD_FAMILY = re.compile(r"[acdhimrtz]\d")


@dataclass(frozen=True)
class RentalPlan:
    """Properties of the instances to start: `types` by machine type, zones in the order of trial."""

    image: Image
    types: Mapping[str, InstanceType]
    zones: tuple[Zone, ...]


def make_plan(ec2: "EC2Client", options: Ec2Options, requests: Sequence[MachineRequest]) -> RentalPlan:
    """Plan the rental from the region's offers; configuration and capacity errors if they do not suffice."""
    machines.check_names(regions.TESTBED, requests)
    types = instance_types.describe(ec2, instance_types.names(options, requests))
    instance_types.check_large_enough(types, requests)
    image = find_image(ec2, options)
    _check_architecture(image, types)
    return RentalPlan(image, types, zones(ec2, options, {type_.name for type_ in types.values()}))


def check_region(ec2: "EC2Client", region: Region) -> None:
    """Check that the region exists and the account has it enabled."""
    from botocore.exceptions import ClientError

    with aws_errors(f"asking about the region {region.name}"):
        try:
            filters: Any = [{"Name": "region-name", "Values": [region.name]}]
            answer = ec2.describe_regions(AllRegions=True, Filters=filters)["Regions"]
        except ClientError as error:
            if error_code(error) != "UnauthorizedOperation":
                raise
            return  # a later call fails if the region cannot be used
    if not answer:
        raise ConfigurationError(f"testbed.options.ec2.region is {region.name}; AWS has no such region")
    if answer[0].get("OptInStatus") == "not-opted-in":
        raise ConfigurationError(
            f"testbed.options.ec2.region is {region.name}, which this account has not enabled; "
            f"aws account enable-region --region-name {region.name}"
        )


def check_permissions(ec2: "EC2Client", options: Ec2Options, found: RentalPlan, trial: Mapping[str, Any]) -> None:
    """Ask for permission to create everything, without creating it. `trial`: the parameters of a RunInstances."""
    vpc = found.zones[0].vpc
    _check_allowed("RunInstances", lambda: ec2.run_instances(**trial, DryRun=True))
    _check_allowed(
        "CreateSecurityGroup",
        lambda: ec2.create_security_group(GroupName="barograph-check", Description="-", VpcId=vpc, DryRun=True),
    )
    _check_allowed(
        "ImportKeyPair",
        lambda: ec2.import_key_pair(KeyName="barograph-check", PublicKeyMaterial=b"ssh-ed25519 AAAA", DryRun=True),
    )
    if options.placement == "cluster":
        _check_allowed(
            "CreatePlacementGroup",
            lambda: ec2.create_placement_group(GroupName="barograph-check", Strategy="cluster", DryRun=True),
        )


def check_quota(region: Region, options: Ec2Options, types: Sequence[InstanceType]) -> None:
    """Raise CapacityError if the account's quota is smaller than these machines alone; pass if it is unknown."""
    cores = sum(type_.cores for type_ in types if STANDARD_FAMILY.match(type_.name))
    allowed = regions.quota(region, QUOTA[options.market])
    if allowed is None:
        log.info("ec2: the vCPU quota could not be asked for")
    elif cores > allowed:
        raise CapacityError(
            f"ec2: {len(types)} machines need {cores} vCPUs, this account has {allowed:g} ({options.market}, quota "
            f"{QUOTA[options.market]} in {region.name}); ask AWS for a larger quota, or for fewer machines"
        )


def warn_of_burstable_types(types: Mapping[str, InstanceType]) -> None:
    for machine, type_ in types.items():
        if type_.burstable:
            log.warning(
                "ec2: %s is a %s, whose CPU depends on credits: later runs may find another machine than earlier ones",
                machine, type_.name,
            )  # fmt: skip


def _check_architecture(image: Image, types: Mapping[str, InstanceType]) -> None:
    for machine, type_ in types.items():
        if image.architecture not in type_.architectures:
            raise ConfigurationError(
                f"testbed.options.ec2.instance_types.{machine} is {type_.name} ({', '.join(type_.architectures)}), the "
                f"image {image.image_id} ({image.name}) is for {image.architecture}; choose others that fit"
            )


def _check_allowed(action: str, ask: "Callable[[], object]") -> None:
    from botocore.exceptions import ClientError

    with aws_errors(f"asking whether {action} is allowed"):
        try:
            ask()
        except ClientError as error:
            if error_code(error) != "DryRunOperation":
                raise
