"""What can be said of a region before anything is rented there."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inventory import machine_names
from inventory.ec2 import images, instance_types, network, places
from inventory.ec2.failures import code_of, said_by_aws
from inventory.ec2.images import Image
from inventory.ec2.instance_types import InstanceType
from inventory.ec2.network import Zone
from inventory.ec2.options import Ec2Options
from inventory.ec2.places import Place
from inventory.errors import CapacityError, ConfigurationError
from inventory.machines import MachineRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_ec2 import EC2Client

log = logging.getLogger(__name__)

# The vCPUs that an account may run at once of the families A, C, D, H, I, M, R, T, Z.
QUOTA = {"on_demand": "L-1216C47A", "spot": "L-34B43A08"}
STANDARD_FAMILY = re.compile(r"[acdhimrtz]\d")


@dataclass(frozen=True)
class Plan:
    """What instances will be: `types` by machine type, zones in the order in which they are tried."""

    image: Image
    types: Mapping[str, InstanceType]
    zones: tuple[Zone, ...]


def plan(ec2: "EC2Client", options: Ec2Options, requests: Sequence[MachineRequest]) -> Plan:
    """Everything that has to be known of the region; configuration and capacity errors if it does not have it."""
    machine_names.check(places.TESTBED, requests)
    types = instance_types.describe(ec2, instance_types.names(options, requests))
    instance_types.check_large_enough(types, requests)
    image = images.find(ec2, options)
    _check_architecture(image, types)
    return Plan(image, types, network.zones(ec2, options, {type_.name for type_ in types.values()}))


def check_region(ec2: "EC2Client", place: Place) -> None:
    """The region exists and the account has it enabled."""
    from botocore.exceptions import ClientError

    with said_by_aws(f"asking about the region {place.region}"):
        try:
            filters: Any = [{"Name": "region-name", "Values": [place.region]}]
            found = ec2.describe_regions(AllRegions=True, Filters=filters)["Regions"]
        except ClientError as error:
            if code_of(error) != "UnauthorizedOperation":
                raise
            return  # what follows will say it if the region cannot be used
    if not found:
        raise ConfigurationError(f"testbed.options.ec2.region is {place.region}; AWS has no such region")
    if found[0].get("OptInStatus") == "not-opted-in":
        raise ConfigurationError(
            f"testbed.options.ec2.region is {place.region}, which this account has not enabled; "
            f"aws account enable-region --region-name {place.region}"
        )


def check_permissions(ec2: "EC2Client", options: Ec2Options, found: Plan, trial: Mapping[str, Any]) -> None:
    """Ask for everything that will be made, without making it. `trial`: the parameters of a RunInstances."""
    vpc = found.zones[0].vpc
    _would_be_allowed("RunInstances", lambda: ec2.run_instances(**trial, DryRun=True))
    _would_be_allowed(
        "CreateSecurityGroup",
        lambda: ec2.create_security_group(GroupName="barograph-check", Description="-", VpcId=vpc, DryRun=True),
    )
    _would_be_allowed(
        "ImportKeyPair",
        lambda: ec2.import_key_pair(KeyName="barograph-check", PublicKeyMaterial=b"ssh-ed25519 AAAA", DryRun=True),
    )
    if options.placement == "cluster":
        _would_be_allowed(
            "CreatePlacementGroup",
            lambda: ec2.create_placement_group(GroupName="barograph-check", Strategy="cluster", DryRun=True),
        )


def check_quota(place: Place, options: Ec2Options, types: Sequence[InstanceType]) -> None:
    """CapacityError where the account's quota is smaller than these machines alone; nothing where AWS does not say."""
    cores = sum(type_.cores for type_ in types if STANDARD_FAMILY.match(type_.name))
    allowed = places.quota(place, QUOTA[options.market])
    if allowed is None:
        log.info("ec2: the vCPU quota could not be asked for")
    elif cores > allowed:
        raise CapacityError(
            f"ec2: {len(types)} machines need {cores} vCPUs, this account has {allowed:g} ({options.market}, quota "
            f"{QUOTA[options.market]} in {place.region}); ask AWS for a larger quota, or for fewer machines"
        )


def warn_of_credits(types: Mapping[str, InstanceType]) -> None:
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


def _would_be_allowed(action: str, ask: "Callable[[], object]") -> None:
    from botocore.exceptions import ClientError

    with said_by_aws(f"asking whether {action} is allowed"):
        try:
            ask()
        except ClientError as error:
            if code_of(error) != "DryRunOperation":
                raise
