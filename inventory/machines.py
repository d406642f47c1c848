"""Machines: requests, machines, their types as data, and allowed names.

The types are in machine_types.yaml; one factor scales them to a testbed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from barograph.errors import ConfigurationError
from barograph.yaml_files import Strict, read_yaml, validated


@dataclass(frozen=True)
class MachineType:
    """Resources of one machine. `cores` is CPU seconds per second, `slots` the number of workers it may run."""

    name: str
    cores: float
    memory_mb: int
    bandwidth_mbit: int
    slots: int


@dataclass(frozen=True)
class MachineRequest:
    """One requested machine; its type is already scaled to the testbed."""

    name: str
    type: MachineType


@dataclass(frozen=True)
class Machine:
    """One machine that answers ssh on its control address.

    A user other than root must be able to `sudo` without a password. `inside_address` is where the other machines of
    the lease reach its services (the policy service, samples): it is not the control address where that is translated
    on the way (a public address of EC2). `boot_s` is the time from its request to its first answer over ssh,
    in seconds; None where nothing was booted.
    """

    name: str
    type: MachineType
    control_address: str
    experiment_address: str
    inside_address: str
    ssh_user: str
    ssh_port: int
    ssh_key: Path
    known_hosts: Path
    boot_s: float | None = None
    image: str = ""  # what its disk was made of, where the testbed chooses that


class _TypeModel(Strict):
    cores: Annotated[float, Field(gt=0)]
    memory_mb: Annotated[int, Field(gt=0)]
    bandwidth_mbit: Annotated[int, Field(gt=0)]
    slots: Annotated[int, Field(ge=0)]
    scaled: bool


class _TypesModel(Strict):
    memory_floor_mb: Annotated[int, Field(gt=0)]
    memory_worker_mb: Annotated[int, Field(gt=0)]
    types: dict[str, _TypeModel]


TYPES_FILE = Path(__file__).with_name("machine_types.yaml")


def load_types(path: Path) -> _TypesModel:
    """Read a machine types file; an ExperimentError names file, field, value and what is allowed."""
    return validated(_TypesModel, read_yaml(path), source=path.name)


_TYPES = load_types(TYPES_FILE)
MEMORY_FLOOR_MB, SLOTS_OF_FLOOR = _TYPES.memory_floor_mb, 4
MACHINE_TYPES: dict[str, MachineType] = {
    name: MachineType(name, t.cores, t.memory_mb, t.bandwidth_mbit, t.slots) for name, t in _TYPES.types.items()
}


def machine_type(name: str) -> MachineType:
    """Return the stated type of that name; the error lists the known ones."""
    if name not in MACHINE_TYPES:
        raise ConfigurationError(
            f"machine type {name!r} is not known; known are {', '.join(MACHINE_TYPES)} ({TYPES_FILE.name})"
        )
    return MACHINE_TYPES[name]


def scale_type(type: MachineType, factor: float) -> MachineType:
    """Return the type with cores and memory times `factor`, memory not under the floor; `master` stays as it is."""
    if not 0 < factor <= 1:
        raise ConfigurationError(
            f"scale factor is {factor}, must be above 0 and at most 1; 0.25 gives a quarter of a core"
        )
    if type.name not in _TYPES.types or not _TYPES.types[type.name].scaled:
        return type
    memory_mb = max(round(type.memory_mb * factor), _memory_floor_mb(type))
    return replace(type, cores=type.cores * factor, memory_mb=memory_mb)


def _memory_floor_mb(type: MachineType) -> int:
    """Return the least memory of a scaled machine: that of one with four workers, and more for each further slot."""
    return MEMORY_FLOOR_MB + _TYPES.memory_worker_mb * max(0, type.slots - SLOTS_OF_FLOOR)


def describe_scaling(type: MachineType, factor: float, bandwidth_mbit: int) -> str:
    """Return one line for logs and reports: the scaled type, whether the memory floor was used, and each machine's
    bandwidth, which the factor does not change.
    """
    result = scale_type(type, factor)
    wanted_mb = round(type.memory_mb * factor)
    floored = result is not type and wanted_mb < _memory_floor_mb(type)
    floor = f" (the least; the factor alone gives {wanted_mb} MB)" if floored else ""
    size = f"{result.cores:g} cores, {result.memory_mb} MB{floor}, {bandwidth_mbit} Mbit/s"
    return f"{type.name}: {size} (not scaled)" if result is type else f"{type.name} x {factor:g}: {size}"


NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,19}")
NAME_RULE = "lower case letters, digits, '-', at most 20"


def check_names(
    testbed: str, requests: Sequence[MachineRequest], name: re.Pattern[str] = NAME_PATTERN, allowed: str = NAME_RULE
) -> None:
    """Require at least one machine, each name allowed and given once; ConfigurationError otherwise."""
    names = [request.name for request in requests]
    if not names:
        raise ConfigurationError(f"{testbed}: no machine is asked for; ask for master and at least one worker")
    if wrong_names := [each for each in names if not name.fullmatch(each)]:
        raise ConfigurationError(f"{testbed}: machine names {wrong_names} are not allowed; {allowed}")
    if duplicates := sorted({each for each in names if names.count(each) > 1}):
        raise ConfigurationError(
            f"{testbed}: machine names {duplicates} are asked for twice; give each machine its own"
        )
