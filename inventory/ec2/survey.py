"""A region's offers, read before anything is rented there: the instance types, the image, the zones with their subnets,
permissions and quota; and the security group that limits access to the machines.
"""

import ipaddress
import logging
import re
import socket
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from barograph.errors import CapacityError, ConfigurationError, InfrastructureError
from inventory import machines
from inventory.ec2 import aws, instances
from inventory.ec2.aws import Region, aws_errors
from inventory.ec2.options import Ec2Options, Ec2Timing
from inventory.machines import MachineRequest, MachineType

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client


log = logging.getLogger(__name__)

TYPES_FILE = Path(__file__).with_name("instance_types.yaml")


@dataclass(frozen=True)
class InstanceType:
    """One EC2 type as EC2 describes it."""

    name: str
    cores: int
    memory_mb: int
    bandwidth_mbit: int
    architectures: tuple[str, ...]
    burstable: bool

    def as_machine_type(self, asked: MachineType) -> MachineType:
        """Return this EC2 type's size under the name of the requested type."""
        return MachineType(
            asked.name, self.cores, self.memory_mb, self.bandwidth_mbit or asked.bandwidth_mbit, asked.slots
        )


@cache
def _types_table() -> dict[str, str]:
    types = yaml.safe_load(TYPES_FILE.read_text())["types"]
    return {name: str(row["instance_type"]) for name, row in types.items()}


def type_names(options: Ec2Options, requests: Sequence[MachineRequest]) -> dict[str, str]:
    """Map machine type → EC2 type for the requested types; the options win over the table."""
    table = {**_types_table(), **options.instance_types}
    names = dict.fromkeys(request.type.name for request in requests)
    if unknown := [name for name in names if name not in table]:
        raise ConfigurationError(
            f"machine types {', '.join(unknown)} have no EC2 type; known are {', '.join(table)} ({TYPES_FILE.name}); "
            f"set testbed.options.ec2.instance_types: {{{unknown[0]}: …}}"
        )
    return {name: table[name] for name in names}


def describe_types(ec2: "EC2Client", wanted: Mapping[str, str]) -> dict[str, InstanceType]:
    """Map machine type → description of its EC2 type; ConfigurationError for a type that EC2 does not know."""
    names: Any = sorted(set(wanted.values()))
    descriptions: dict[str, InstanceType] = {}
    with aws_errors(f"asking for the instance types {', '.join(names)}", ignored="InvalidInstanceType"):
        for page in ec2.get_paginator("describe_instance_types").paginate(InstanceTypes=names):
            for info in page["InstanceTypes"]:
                cards = info.get("NetworkInfo", {}).get("NetworkCards") or [{}]
                descriptions[str(info["InstanceType"])] = InstanceType(
                    str(info["InstanceType"]),
                    int(info.get("VCpuInfo", {}).get("DefaultVCpus", 0)),
                    int(info.get("MemoryInfo", {}).get("SizeInMiB", 0)),
                    round(1000 * float(cards[0].get("BaselineBandwidthInGbps", 0))),
                    tuple(str(each) for each in info.get("ProcessorInfo", {}).get("SupportedArchitectures", ())),
                    bool(info.get("BurstablePerformanceSupported")),
                )
    missing = [machine for machine, name in wanted.items() if name not in descriptions]
    if missing and (descriptions or len(names) == 1):
        region = ec2.meta.region_name
        raise ConfigurationError(
            f"testbed.options.ec2.instance_types.{missing[0]} is {wanted[missing[0]]}, which EC2 does not know in "
            f"{region}; `aws ec2 describe-instance-types --region {region}` lists what it has"
        )
    if missing:  # one unknown type hides all others
        return {machine: describe_types(ec2, {machine: name})[machine] for machine, name in wanted.items()}
    return {machine: descriptions[name] for machine, name in wanted.items()}


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
            filters: Any = [{"Name": "name", "Values": [choice]}, {"Name": "state", "Values": ["available"]}]
            images = ec2.describe_images(Owners=owners, Filters=filters)["Images"]
    if not images:
        raise ConfigurationError(
            f"testbed.options.ec2.image is {choice}; {ec2.meta.region_name} has no such image of yours or Canonical's; "
            "give an id (ami-…) or a name of that region, * stands for anything"
        )
    best = max(images, key=lambda image: image.get("CreationDate", ""))
    root = best.get("RootDeviceName", "/dev/sda1")
    disks = [each for each in best.get("BlockDeviceMappings", ()) if each.get("DeviceName") == root]
    disk_gb = max((int(each.get("Ebs", {}).get("VolumeSize", 0)) for each in disks), default=0)
    image = Image(best.get("ImageId", ""), best.get("Name", ""), str(best.get("Architecture", "x86_64")), root, disk_gb)
    log.info("ec2: image %s (%s)", image.image_id, image.name)
    return image


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
    places = {zone.name: zone for zone in _subnets(ec2, options)}
    filters: Any = [{"Name": "instance-type", "Values": sorted(instance_types)}]
    types_by_zone: dict[str, set[str]] = {}
    with aws_errors("asking which zones offer the instance types"):
        paginator = ec2.get_paginator("describe_instance_type_offerings")
        for page in paginator.paginate(LocationType="availability-zone", Filters=filters):
            for offer in page["InstanceTypeOfferings"]:
                types_by_zone.setdefault(offer["Location"], set()).add(offer["InstanceType"])
    offers = {zone for zone, types in types_by_zone.items() if set(instance_types) <= types}
    if unknown := [name for name in options.zones if name not in places]:
        raise ConfigurationError(
            f"testbed.options.ec2.zones has {', '.join(unknown)}; with a subnet are {', '.join(places)}"
        )
    names = options.zones or sorted(places)
    if not offers & set(names):
        raise CapacityError(
            f"ec2: none of the zones {', '.join(names)} offers all of {', '.join(sorted(instance_types))}; "
            f"{', '.join(sorted(offers)) or 'no zone of the region'} does; choose other zones or types"
        )
    return tuple(places[name] for name in names if name in offers)


def _subnets(ec2: "EC2Client", options: Ec2Options) -> list[Zone]:
    """Return each zone with its subnet: of several the one with the most free addresses."""
    region, choice = ec2.meta.region_name, {"Name": "default-for-az", "Values": ["true"]}
    problem = (
        f"ec2: {region} has no default VPC with subnets; set testbed.options.ec2.vpc or subnet, or make one: "
        "aws ec2 create-default-vpc"
    )
    if options.subnet:
        choice = {"Name": "subnet-id", "Values": [options.subnet]}
        problem = f"testbed.options.ec2.subnet is {options.subnet}, which {region} does not have; see the VPC console"
    elif options.vpc:
        choice = {"Name": "vpc-id", "Values": [options.vpc]}
        problem = f"testbed.options.ec2.vpc is {options.vpc}, which has no subnet in {region}; see the VPC console"
    filters: Any = [{"Name": "state", "Values": ["available"]}, choice]
    with aws_errors("looking for subnets"):
        subnets = ec2.describe_subnets(Filters=filters)["Subnets"]
    if not subnets:
        raise ConfigurationError(problem)
    subnets = sorted(subnets, key=lambda subnet: subnet.get("AvailableIpAddressCount", 0))
    by_zone = {one["AvailabilityZone"]: one for one in subnets}
    return [Zone(name, one["SubnetId"], one["VpcId"], one["CidrBlock"]) for name, one in by_zone.items()]


def harness_network(options: Ec2Options, zone: Zone) -> str:
    """Return the network that may reach the machines: the option, or this box's address as the machines see it."""
    if options.ingress_from:
        return options.ingress_from
    if options.addresses == "public":
        return public_network()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:  # nothing is sent
        try:
            way.connect((str(ipaddress.IPv4Network(zone.network)[1]), SSH))
        except OSError as error:
            raise ConfigurationError(
                f"testbed.options.ec2.addresses is private, and this box has no way into {zone.network} "
                f"({error.strerror}); run the harness in the VPC or with a route to it, or set addresses: public"
            ) from error
        return f"{way.getsockname()[0]}/32"


def public_network() -> str:
    """Return this box's address as the internet sees it."""
    try:
        with urllib.request.urlopen(ADDRESS_SERVICE, timeout=10) as answer:
            return f"{ipaddress.IPv4Address(answer.read().decode().strip())}/32"
    except (OSError, ValueError) as error:
        raise InfrastructureError(
            f"ec2: {ADDRESS_SERVICE} does not say this box's public address ({error});"
            " set testbed.options.ec2.ingress_from"
        ) from error


def ports_for(ingress: str) -> list[Any]:
    """Return the permissions by which the harness reaches the machines."""
    return [
        {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": [{"CidrIp": ingress}]}
        for port in (SSH, POLICY_SERVICE)
    ]


def make_security_group(
    ec2: "EC2Client", name: str, zone: Zone, ingress: str, marks: Mapping[str, str], timing: Ec2Timing
) -> str:
    """Create a security group: ssh and policy service from the harness, everything among its members, nothing else."""
    doing = f"making the security group {name}"
    with aws_errors(doing):
        group = ec2.create_security_group(
            GroupName=name, Description="Barograph machines", VpcId=zone.vpc,
            TagSpecifications=instances.tag_specifications(["security-group"], marks),
        )["GroupId"]  # fmt: skip
    among: Any = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    permissions = [*ports_for(ingress), among]
    aws.call_when_visible(
        doing, lambda: ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=permissions), timing
    )
    return group


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
    machines.check_names(aws.TESTBED, requests)
    types = describe_types(ec2, type_names(options, requests))
    for request in requests:
        vm, type_ = types[request.type.name], request.type
        if vm.cores < type_.cores or vm.memory_mb < type_.memory_mb:
            raise ConfigurationError(
                f"testbed.options.ec2.instance_types.{type_.name} is {vm.name} ({vm.cores} cores, {vm.memory_mb} MB)"
                f" and {request.name} asks for {type_.cores:g} cores, {type_.memory_mb} MB; choose a larger EC2 type"
            )
    image = find_image(ec2, options)
    for machine, vm in types.items():
        if image.architecture not in vm.architectures:
            raise ConfigurationError(
                f"testbed.options.ec2.instance_types.{machine} is {vm.name} ({', '.join(vm.architectures)}), the "
                f"image {image.image_id} ({image.name}) is for {image.architecture}; choose others that fit"
            )
    if image.disk_gb > options.disk_gb:  # the price is of the option
        raise ConfigurationError(
            f"testbed.options.ec2.disk_gb is {options.disk_gb}, the image {image.image_id} ({image.name}) needs"
            f" {image.disk_gb}; set it to {image.disk_gb} or more, or choose another image"
        )
    return RentalPlan(image, types, zones(ec2, options, {vm.name for vm in types.values()}))


def check_region(ec2: "EC2Client", region: Region) -> None:
    """Check that the region exists and the account has it enabled."""
    filters: Any = [{"Name": "region-name", "Values": [region.name]}]
    answer: Any = None
    with aws_errors(f"asking about the region {region.name}", ignored="UnauthorizedOperation"):
        answer = ec2.describe_regions(AllRegions=True, Filters=filters)["Regions"]
    if answer is None:
        return  # a later call fails if the region cannot be used
    if not answer:
        raise ConfigurationError(f"testbed.options.ec2.region is {region.name}; AWS has no such region")
    if answer[0].get("OptInStatus") == "not-opted-in":
        raise ConfigurationError(
            f"testbed.options.ec2.region is {region.name}, which this account has not enabled; "
            f"aws account enable-region --region-name {region.name}"
        )


def check_permissions(ec2: "EC2Client", options: Ec2Options, plan: RentalPlan, trial: Mapping[str, Any]) -> None:
    """Ask for permission to create everything, without creating it. `trial`: the parameters of a RunInstances."""
    name, vpc = "barograph-check", plan.zones[0].vpc
    calls: dict[str, Callable[[], object]] = {
        "RunInstances": lambda: ec2.run_instances(**trial, DryRun=True),
        "CreateSecurityGroup": lambda: ec2.create_security_group(
            GroupName=name, Description="-", VpcId=vpc, DryRun=True
        ),
        "ImportKeyPair": lambda: ec2.import_key_pair(KeyName=name, PublicKeyMaterial=b"ssh-ed25519 AAAA", DryRun=True),
    }
    if options.placement == "cluster":
        calls["CreatePlacementGroup"] = lambda: ec2.create_placement_group(
            GroupName=name, Strategy="cluster", DryRun=True
        )
    for action, ask in calls.items():
        with aws_errors(f"asking whether {action} is allowed", ignored="DryRunOperation"):
            ask()


def check_quota(region: Region, options: Ec2Options, types: Sequence[InstanceType]) -> None:
    """Raise CapacityError if the account's quota is smaller than these machines alone; pass if it is unknown."""
    cores = sum(type_.cores for type_ in types if STANDARD_FAMILY.match(type_.name))
    allowed = aws.quota(region, QUOTA[options.market])
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
