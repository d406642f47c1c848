"""Which EC2 types stand for the machines that are asked for, and what they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from barograph.errors import ConfigurationError
from inventory.ec2.errors import aws_errors, error_code
from inventory.ec2.options import Ec2Options
from inventory.machines import MachineRequest, MachineType

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeInfoTypeDef


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
        """What a machine of this EC2 type is, under the name of the type that was asked for."""
        return MachineType(
            asked.name, self.cores, self.memory_mb, self.bandwidth_mbit or asked.bandwidth_mbit, asked.slots
        )


def names(options: Ec2Options, requests: Sequence[MachineRequest]) -> dict[str, str]:
    """Machine type → EC2 type, for the types that are asked for; the options win over the table."""
    known = {**_table(), **options.instance_types}
    asked = dict.fromkeys(request.type.name for request in requests)
    if unknown := [name for name in asked if name not in known]:
        raise ConfigurationError(
            f"machine types {', '.join(unknown)} have no EC2 type; known are {', '.join(known)} ({TYPES_FILE.name}); "
            f"set testbed.options.ec2.instance_types: {{{unknown[0]}: …}}"
        )
    return {name: known[name] for name in asked}


def describe(ec2: "EC2Client", wanted: Mapping[str, str]) -> dict[str, InstanceType]:
    """Machine type → what its EC2 type is; ConfigurationError for a type that EC2 does not know."""
    from botocore.exceptions import ClientError

    with aws_errors(f"asking for the instance types {', '.join(sorted(set(wanted.values())))}"):
        try:
            pages = ec2.get_paginator("describe_instance_types").paginate(InstanceTypes=sorted(set(wanted.values())))  # type: ignore[arg-type]  # the literal type is this library's list of the day
            found = {
                str(info["InstanceType"]): _instance_type(info) for page in pages for info in page["InstanceTypes"]
            }
        except ClientError as error:
            if error_code(error) != "InvalidInstanceType":
                raise
            found = {}
    missing = {machine: name for machine, name in wanted.items() if name not in found}
    if missing and (found or len(set(wanted.values())) == 1):
        raise _unknown_type_error(missing, ec2.meta.region_name)
    if missing:  # one unknown type hides all others
        return {machine: describe(ec2, {machine: name})[machine] for machine, name in wanted.items()}
    return {machine: found[name] for machine, name in wanted.items()}


def check_large_enough(types: Mapping[str, InstanceType], requests: Sequence[MachineRequest]) -> None:
    """ConfigurationError where a machine would be less than what the experiment says it is."""
    for request in requests:
        is_, asked = types[request.type.name], request.type
        if is_.cores < asked.cores or is_.memory_mb < asked.memory_mb:
            raise ConfigurationError(
                f"testbed.options.ec2.instance_types.{asked.name} is {is_.name} ({is_.cores} cores, {is_.memory_mb} MB)"
                f" and {request.name} asks for {asked.cores:g} cores, {asked.memory_mb} MB; choose a larger EC2 type"
            )


def _unknown_type_error(missing: Mapping[str, str], region: str) -> ConfigurationError:
    machine, name = next(iter(missing.items()))
    return ConfigurationError(
        f"testbed.options.ec2.instance_types.{machine} is {name}, which EC2 does not know in {region}; "
        f"`aws ec2 describe-instance-types --region {region}` lists what it has"
    )


def _instance_type(info: "InstanceTypeInfoTypeDef") -> InstanceType:
    cards = info.get("NetworkInfo", {}).get("NetworkCards") or [{}]
    return InstanceType(
        str(info.get("InstanceType")),
        int(info.get("VCpuInfo", {}).get("DefaultVCpus", 0)),
        int(info.get("MemoryInfo", {}).get("SizeInMiB", 0)),
        round(1000 * float(cards[0].get("BaselineBandwidthInGbps", 0))),
        tuple(str(each) for each in info.get("ProcessorInfo", {}).get("SupportedArchitectures", ())),
        bool(info.get("BurstablePerformanceSupported")),
    )


@cache
def _table() -> dict[str, str]:
    types = yaml.safe_load(TYPES_FILE.read_text())["types"]
    return {name: str(row["instance_type"]) for name, row in types.items()}
