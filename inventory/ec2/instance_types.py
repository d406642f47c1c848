"""EC2 types for the requested machines, and their properties."""

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
        """Return this EC2 type's size under the name of the requested type."""
        return MachineType(
            asked.name, self.cores, self.memory_mb, self.bandwidth_mbit or asked.bandwidth_mbit, asked.slots
        )


def names(options: Ec2Options, requests: Sequence[MachineRequest]) -> dict[str, str]:
    """Map machine type → EC2 type for the requested types; the options win over the table."""
    table = {**_table(), **options.instance_types}
    type_names = dict.fromkeys(request.type.name for request in requests)
    if unknown := [name for name in type_names if name not in table]:
        raise ConfigurationError(
            f"machine types {', '.join(unknown)} have no EC2 type; known are {', '.join(table)} ({TYPES_FILE.name}); "
            f"set testbed.options.ec2.instance_types: {{{unknown[0]}: …}}"
        )
    return {name: table[name] for name in type_names}


def describe(ec2: "EC2Client", wanted: Mapping[str, str]) -> dict[str, InstanceType]:
    """Map machine type → description of its EC2 type; ConfigurationError for a type that EC2 does not know."""
    from botocore.exceptions import ClientError

    with aws_errors(f"asking for the instance types {', '.join(sorted(set(wanted.values())))}"):
        try:
            pages = ec2.get_paginator("describe_instance_types").paginate(InstanceTypes=sorted(set(wanted.values())))  # type: ignore[arg-type]  # the literal type is this library's list of the day
            descriptions = {
                str(info["InstanceType"]): _instance_type(info) for page in pages for info in page["InstanceTypes"]
            }
        except ClientError as error:
            if error_code(error) != "InvalidInstanceType":
                raise
            descriptions = {}
    missing = {machine: name for machine, name in wanted.items() if name not in descriptions}
    if missing and (descriptions or len(set(wanted.values())) == 1):
        raise _unknown_type_error(missing, ec2.meta.region_name)
    if missing:  # one unknown type hides all others
        return {machine: describe(ec2, {machine: name})[machine] for machine, name in wanted.items()}
    return {machine: descriptions[name] for machine, name in wanted.items()}


def check_large_enough(types: Mapping[str, InstanceType], requests: Sequence[MachineRequest]) -> None:
    """Raise ConfigurationError where a machine would be smaller than the experiment says."""
    for request in requests:
        vm, type_ = types[request.type.name], request.type
        if vm.cores < type_.cores or vm.memory_mb < type_.memory_mb:
            raise ConfigurationError(
                f"testbed.options.ec2.instance_types.{type_.name} is {vm.name} ({vm.cores} cores, {vm.memory_mb} MB)"
                f" and {request.name} asks for {type_.cores:g} cores, {type_.memory_mb} MB; choose a larger EC2 type"
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
